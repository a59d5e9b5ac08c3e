//! Users who claim to be others, on the port for C programs.

use std::net::SocketAddr;
use std::path::Path;

use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_native::conn::ServerUri;
use pmix_server::NativeWire;
use pmix_tests::{
    Logs, OtherUser, Peer, Running, TestNode, native_address, pmixrun, program, rank_program, run,
    stranger_program, within,
};
use pmix_types::Uid;
use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Attempts of each attack.
const TIMES: u32 = 1000;

/// A node that tools may use, C tools too, and that can start processes.
async fn node(other_users: bool) -> TestNode {
    let host = StandardHost::new(LocalLauncher::new("n0"), MemoryExchange::single("n0"));
    let node = TestNode::builder(1)
        .host(host)
        .server(|server| server.native_wire(NativeWire::On).tool_support(true).other_users(other_users));
    node.start().await
}

/// A command that leaves a mark in a directory where anybody may write.
fn leave_mark(marks: &Path) -> String {
    std::fs::set_permissions(marks, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    format!("touch {}/$$", marks.display())
}

fn marks(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

/// The attack must have had its `TIMES` chances, and nothing has come of any.
async fn nothing_comes_of(attack: std::process::Command, node: &TestNode, dir: &Path) {
    let before = node.stats().await;
    let (status, out, err) = Running::start(attack).end().await;
    assert!(status.success() && out.contains(&format!("tried {TIMES} times")), "{out}{err}");
    node.until(|stats| stats.refused - before.refused >= u64::from(TIMES)).await;
    let after = node.stats().await;
    assert_eq!(
        (after.connections, after.nspaces),
        (before.connections, before.nspaces),
        "a process was let in"
    );
    assert_eq!(after.refused - before.refused, u64::from(TIMES));
    assert_eq!(marks(dir), 0);
}

#[tokio::test]
async fn sec_01_who_spawns_and_leaves_is_nobody_to_a_server_of_root() {
    let Some(stranger) = OtherUser::second() else { return };
    for other_users in [false, true] {
        let node = node(other_users).await;
        let address = native_address(&node).await.to_string();
        let dir = tempfile::tempdir().unwrap();
        let mark = leave_mark(dir.path());
        let attack = stranger.stranger(&["spawn-and-leave", &address, "0", &TIMES.to_string(), &mark]);
        nothing_comes_of(attack, &node, dir.path()).await;
    }
}

/// As the first, by a tool that stays until it is shown out.
#[tokio::test]
async fn sec_01_sec_03_a_tool_that_claims_to_be_of_the_servers_user_is_refused() {
    let Some(stranger) = OtherUser::second() else { return };
    let node = node(true).await;
    let address = native_address(&node).await.to_string();
    let dir = tempfile::tempdir().unwrap();
    let mark = leave_mark(dir.path());
    let logs = Logs::start();
    let own = geteuid().as_raw();
    let attack = stranger.stranger(&["claim", &address, &own.to_string(), &mark]);
    let (status, out, err) = Running::start(attack).end().await;
    assert!(status.success() && out.contains("refused"), "{out}{err}");
    let reason = format!("it claims uid {own}, but its socket belongs to uid {}", stranger.uid);
    logs.line_with(&["refused a connection", &reason]).await;
    assert_eq!((node.stats().await.connections, marks(dir.path())), (0, 0));
}

/// As the one above where the tests do not run as root: the claim to be root is as false, and was as good.
#[tokio::test]
async fn sec_01_who_claims_to_be_root_and_leaves_is_nobody() {
    let node = node(false).await;
    let address = native_address(&node).await.to_string();
    let dir = tempfile::tempdir().unwrap();
    let mark = leave_mark(dir.path());
    let claim = if geteuid().is_root() { "1" } else { "0" };
    let mut attack = std::process::Command::new(stranger_program());
    attack.args(["spawn-and-leave", &address, claim, &TIMES.to_string(), &mark]);
    nothing_comes_of(attack, &node, dir.path()).await;
}

#[tokio::test]
async fn sec_01_who_spawns_and_leaves_is_nobody_to_a_server_of_a_user() {
    let (Some(stranger), Some(owner)) = (OtherUser::second(), OtherUser::third()) else { return };
    let mut launch = owner.command(owner.copy_of(&program("pmixrun")));
    let rank = owner.copy_of(&rank_program());
    let script = format!("echo uri=$PMIX_SERVER_URI41; exec {} block", rank.display());
    launch.args(["-n", "1", "sh", "-c", &script]).env("PMIXRUN_RECORD", "none");
    let mut launcher = Running::start(launch);
    let line = launcher.line_with("uri=").await;
    let address = line.split_once("uri=").unwrap().1.parse::<ServerUri>().unwrap().address;
    launcher.line_with("blocked").await;

    let dir = tempfile::tempdir().unwrap();
    let mark = leave_mark(dir.path());
    for claim in [Uid::ROOT, owner.uid, stranger.uid] {
        let claim = claim.to_string();
        let attack =
            stranger.stranger(&["spawn-and-leave", &address.to_string(), &claim, &TIMES.to_string(), &mark]);
        let (status, out, err) = Running::start(attack).end().await;
        assert!(status.success(), "{out}{err}");
        until_all_are_accepted(address).await;
        assert_eq!(marks(dir.path()), 0, "as uid {claim}");
    }
}

/// Connections are accepted one after the other: when this one has been looked at, all before it have been.
async fn until_all_are_accepted(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[0xff; 64]).await.unwrap();
    // it may be reset, as it is closed with something left to read
    let _ = within(stream.read_to_end(&mut Vec::new())).await;
}

/// Without a report of the kernel anybody could be anybody, so there is no native wire.
#[test]
fn sec_01_where_the_kernel_does_not_tell_who_connects_the_native_wire_does_not_start() {
    let Some(sandbox) = Peer::Libpmix.program("no_sock_diag") else { return };
    let dir = tempfile::tempdir().unwrap();
    let launch = |args: &[&str]| {
        let plain = pmixrun(dir.path(), args);
        let mut command = std::process::Command::new(&sandbox);
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(command)
    };
    let (code, _, err) = launch(&["-n", "1", "true"]);
    assert!(code.is_some_and(|code| code != 0), "{err}");
    assert!(err.contains("the native wire cannot start") && err.contains("SOCK_DIAG"), "{err}");
    assert!(err.contains("turn the native wire off"), "{err}");
    let (code, out, err) = launch(&["--native", "off", "-n", "1", "echo", "fine"]);
    assert_eq!((code, out.contains("fine")), (Some(0), true), "{err}");
}
