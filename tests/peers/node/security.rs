//! Another user at a server: who is refused, with which reason in the log, while a job goes on.

use std::os::unix::fs::PermissionsExt;

use pmix_server::NativeWire;
use pmix_tests::{Logs, OtherUser, Running, TestNode, native_address, proc, rank_program};

#[tokio::test]
async fn cli_02_sec_01_a_process_of_another_user_is_refused_by_the_kernels_word() {
    let Some(stranger) = OtherUser::second() else { return };
    let node = TestNode::builder(2).server(|server| server.other_users(true)).start().await;
    let clients = node.clients().await;
    let logs = Logs::start();
    let proc = proc("other", 2);
    node.register(&proc).await;
    std::fs::set_permissions(node.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = stranger.command(stranger.copy_of(&rank_program()));
    node.handle().setup_fork(&proc).await.unwrap().apply(&mut command);
    command.arg("fence").env_remove("PMIX_SERVER_PROOF");
    let (status, _, err) = Running::start(command).end().await;
    assert_eq!(status.code(), Some(3), "{err}");
    let reason = format!("comes from uid {}", stranger.uid);
    assert!(err.contains("ERR_NO_PERMISSIONS") && err.contains(&reason), "{err}");
    logs.line_with(&["refused a connection", &reason]).await;
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn sec_01_without_leave_other_users_do_not_even_reach_the_socket() {
    let Some(stranger) = OtherUser::second() else { return };
    let node = TestNode::builder(1).server(|server| server.native_wire(NativeWire::On)).start().await;
    // nothing but what the server itself makes is in the way
    std::fs::set_permissions(node.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let socket = node.socket().display().to_string();
    let (status, out, err) = Running::start(stranger.stranger(&["is-refused", &socket])).end().await;
    assert!(!status.success() && err.contains("Permission denied"), "{out}{err}");
    assert_eq!(node.stats().await.refused, 0, "it has not reached the socket");
    let address = native_address(&node).await.to_string();
    let (status, out, err) = Running::start(stranger.stranger(&["is-refused", &address])).end().await;
    assert!(status.success() && out.contains("refused"), "{out}{err}");
    node.until(|stats| stats.refused == 1).await;
    assert_eq!(node.stats().await.connections, 0);
}
