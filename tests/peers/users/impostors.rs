//! Programs of other users at the addresses of servers that have ended.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pmix_server::NativeWire;
use pmix_test_wait::until;
use pmix_tests::{OtherUser, Running, TestNode, mention, program, run, started_by};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{open, process_command};

/// A directory into which all may write.
fn shared_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    dir
}

/// A program of this user that passes for a server.
async fn impostor(user: &OtherUser, act: &str, endpoint: &str) -> Running {
    let mut impostor = Running::start(user.stranger(&[act, endpoint]));
    impostor.line_with("listening").await;
    impostor
}

/// How many bytes it has heard.
async fn heard(impostor: Running) -> usize {
    let (status, out, err) = impostor.end().await;
    assert!(status.success(), "{out}{err}");
    out.trim().strip_prefix("heard ").and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
}

/// `pmix submit` of a command with a secret, by root or another user.
fn submit(user: Option<&OtherUser>, uri: &str, args: &[&str]) -> Command {
    let pmix = program("pmix");
    let mut command = match user {
        None => Command::new(pmix),
        Some(user) => user.command(user.copy_of(&pmix)),
    };
    command.args(["submit", "--uri", uri, "-x", "TOKEN=secret"]).args(args).arg("true");
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_tool_tells_nothing_to_another_users_program_at_the_address_of_a_server() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dir = shared_dir();
    let why = format!("it is a process of uid {}, and only root and uid ", bob.uid);
    for (number, user) in [None, Some(&alice)].into_iter().enumerate() {
        for wire in ["unix", "framed", "tcp4"] {
            let path = dir.path().join(format!("{wire}-{number}")).to_str().unwrap().to_owned();
            let port = format!("127.0.0.1:{}", free_port());
            let (endpoint, uri) = match wire {
                "tcp4" => (&port, format!("pmixd.n0.4711.0;tcp4://{port}")),
                _ => (&path, format!("pmixd.n0.4711.0;{wire}:{path}")),
            };
            let impostor = impostor(&bob, "impersonate", endpoint).await;
            let (code, out, err) = run(submit(user, &uri, &[]));
            assert_eq!((code, out.as_str()), (Some(1), ""), "{wire}: {err}");
            assert!(err.contains(&why) && err.contains("--trust-uid"), "{wire}: {err}");
            assert_eq!(heard(impostor).await, 0, "{wire}");
        }
    }
    // who trusts him tells him all
    let path = dir.path().join("trusted").to_str().unwrap().to_owned();
    let impostor = impostor(&bob, "impersonate", &path).await;
    let uid = bob.uid.to_string();
    let uri = format!("pmixd.n0.4711.0;unix:{path}");
    let (code, _, err) = run(submit(None, &uri, &["--timeout", "3", "--trust-uid", &uid]));
    assert!(code != Some(0) && !err.contains("--trust-uid"), "{err}");
    assert!(heard(impostor).await > 0);
}

#[tokio::test]
async fn a_job_is_run_in_the_dvm_of_another_user_only_if_that_user_is_named() {
    let Some(alice) = OtherUser::second() else { return };
    let file = alice.home().join("uri");
    let mut head = alice.command(alice.copy_of(&program("pmixd")));
    head.args(["--head", "--report-uri"]).arg(&file);
    let head = Running::start(head);
    let uri = until("the head has written its URI", || {
        fs::read_to_string(&file).ok().filter(|uri| uri.ends_with('\n')).ok_or("nothing")
    });
    let uri = uri.await;
    let job = |args: &[&str]| {
        let mut command = Command::new(program("pmixrun"));
        command.args(["--dvm", uri.trim()]).args(args).args(["echo", "ran"]);
        run(command)
    };
    let uid = alice.uid.to_string();
    let (code, out, err) = job(&[]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("use --trust-uid"), "{err}");
    let (code, out, err) = job(&["--trust-uid", &uid]);
    assert_eq!((code, out.as_str()), (Some(0), "ran\n"), "{err}");
    head.signal(Signal::TERM);
    head.end().await;
}

#[tokio::test]
async fn a_tool_does_not_wait_for_ever_for_a_program_that_does_not_show_whose_it_is() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let port = format!("127.0.0.1:{}", free_port());
    let deaf = impostor(&bob, "be-deaf", &port).await;
    let uri = format!("pmixd.n0.4711.0;tcp4://{port}");
    let (code, out, err) = run(submit(Some(&alice), &uri, &["--timeout", "0"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("it has not accepted the connection within 10 s"), "{err}");
    deaf.signal(Signal::TERM);
    deaf.end().await;
}

#[tokio::test]
async fn a_rank_tells_nothing_to_a_program_that_does_not_know_the_secret_of_its_server() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dir = shared_dir();
    let node = TestNode::builder(1).server(|server| server.other_users(true).native_wire(NativeWire::On));
    let node = node.start().await;
    open(node.root());
    for (wire, variable) in
        [("unix", "PMIX_GRPC_URI"), ("framed", "PMIX_FRAMED_URI"), ("tcp4", "PMIX_SERVER_URI41")]
    {
        let mut command = process_command(&node, &alice, &format!("job-{wire}"), &["fence"]).await;
        let held = command.get_envs().find(|(name, _)| *name == variable).unwrap().1.unwrap();
        let server = held.to_str().unwrap().split(';').next().unwrap().to_owned();
        let path = dir.path().join(wire).to_str().unwrap().to_owned();
        let port = format!("127.0.0.1:{}", free_port());
        let endpoint = if wire == "tcp4" { &port } else { &path };
        let impostor = impostor(&bob, "impersonate", endpoint).await;
        match wire {
            "tcp4" => {
                command.env(variable, format!("{server};tcp4://{port}"));
                command.env_remove("PMIX_GRPC_URI").env_remove("PMIX_FRAMED_URI");
            }
            _ => {
                command.env("PMIX_GRPC_URI", format!("{server};unix:{path}"));
                command.env(
                    "PMIX_FRAMED_URI",
                    if wire == "framed" { format!("{server};framed:{path}") } else { String::new() },
                );
            }
        }
        let (code, out, err) = run(command);
        assert!(code != Some(0) && err.contains("does not know the secret"), "{wire}: {out}{err}");
        // the question alone
        assert_eq!(heard(impostor).await, 8, "{wire}");
    }
}

/// Whether a user can make namespaces of users here.
fn has_user_namespaces(user: &OtherUser) -> bool {
    let has = run(user.command_line("unshare --user true")).0 == Some(0);
    if !has {
        mention("way for this user to make a user namespace");
    }
    has
}

#[tokio::test]
async fn a_rank_in_a_user_namespace_recognizes_its_server_and_a_tool_there_does_not_without_being_told() {
    let Some(alice) = OtherUser::second() else { return };
    if !has_user_namespaces(&alice) {
        return;
    }
    let node =
        TestNode::builder(1).server(|server| server.other_users(true).tool_support(true)).start().await;
    open(node.root());
    let pmix = alice.copy_of(&program("pmix"));
    for (number, unshare) in [&["--user"][..], &["--user", "--map-root-user"]].into_iter().enumerate() {
        let rank = process_command(&node, &alice, &format!("job-{number}"), &["fence"]).await;
        let (code, out, err) = run(inside(unshare, &rank, &alice));
        assert_eq!(code, Some(0), "{out}{err}");
        let mut tool = alice.command(&pmix);
        tool.args(["info", "--uri", node.handle().uri()]);
        let (code, _, err) = run(inside(unshare, &tool, &alice));
        assert!(code != Some(0) && err.contains("user namespace does not know"), "{err}");
        tool.args(["--trust-uid", "65534"]);
        // the server itself answers
        let (_, _, err) = run(inside(unshare, &tool, &alice));
        assert!(err.contains("tools are not admitted by this server"), "{err}");
    }
}

/// The same command in namespaces of its own.
fn inside(unshare: &[&str], command: &Command, user: &OtherUser) -> Command {
    let mut outer = user.command(Path::new("unshare"));
    outer.args(unshare);
    started_by(outer, command)
}
