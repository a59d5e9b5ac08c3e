//! Data that one user publishes, and another one looks up.

use std::os::unix::fs::PermissionsExt;

use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{NullLauncher, OtherUser, Running, TestNode, proc, rank_program, within};
use pmix_types::{Gid, Uid};

#[tokio::test]
async fn pub_09_pub_12_another_user_finds_only_what_is_opened_to_it() {
    let Some(user) = OtherUser::second() else { return };
    let node = TestNode::builder(1)
        .host(StandardHost::new(NullLauncher, MemoryExchange::single("n0")))
        .server(|server| server.other_users(true))
        .start()
        .await;
    let client = node.client(0).await;
    within(client.publish().data("closed", "secret")).await.unwrap();
    within(client.publish().data("user", "for you").access([user.uid], [])).await.unwrap();
    within(client.publish().data("group", "for you").access([], [user.gid])).await.unwrap();
    within(client.publish().data("others", "for others").access([1, 2].map(Uid::new), [Gid::new(3)]))
        .await
        .unwrap();
    std::fs::set_permissions(node.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let proc = proc("other", 0);
    node.handle().register_client(&proc, user.uid, user.gid, None).await.unwrap();
    for (key, words) in [
        ("closed", "ERR_NO_PERMISSIONS"),
        ("others", "ERR_NO_PERMISSIONS"),
        ("user", "found for you of job:0"),
        ("group", "found for you of job:0"),
    ] {
        let mut command = user.command(user.copy_of(&rank_program()));
        node.handle().setup_fork(&proc).await.unwrap().apply(&mut command);
        command.args(["look-up", key]);
        let (_, out, err) = Running::start(command).end().await;
        assert!(out.contains(words) || err.contains(words), "{key}: {out}{err}");
    }
}
