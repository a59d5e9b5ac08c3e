//! Commands of `pmix` about what a server in this process knows.

use std::process::Command;

use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{Running, TestLauncher, TestNode, program, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixDatagram;

/// What a command for this server says: its exit code, standard output and error.
async fn pmix(node: &TestNode, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program("pmix"));
    command.args(args).args(["--uri", node.handle().uri()]).env_remove("RUST_LOG");
    let (status, out, err) = Running::start(command).end().await;
    (status.code(), out, err)
}

#[tokio::test]
async fn grp_01_groups_are_listed_with_their_members() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher, MemoryExchange::single("n0"));
    let node = TestNode::builder(3).host(host).server(|server| server.tool_support(true)).start().await;
    let none = (Some(0), "NAME  SIZE  MEMBERS\n".to_owned(), String::new());
    assert_eq!(pmix(&node, &["groups"]).await, none);
    let clients = node.clients().await;
    let members = || [node.proc(0), node.proc(2)];
    let construct = |rank: usize| within(clients[rank].group_construct("even", members()));
    let (first, second) = tokio::join!(construct(0), construct(2));
    let (first, second) = (first.unwrap(), second.unwrap());

    let (code, out, err) = pmix(&node, &["groups"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let row = format!("even {:>5}  {},{}", 2, node.proc(0), node.proc(2));
    assert_eq!(out.lines().nth(1), Some(row.as_str()), "{out}");
    let (code, out, err) = pmix(&node, &["groups", "--json", "even", "odd"]).await;
    assert_eq!((code, err.as_str()), (Some(1), "pmix: there is no group odd\n"));
    let member = |rank: u32| json!({"nspace": node.proc(rank).nspace, "rank": rank});
    let expected = json!({"schema": 2, "groups": [{"name": "even", "members": [member(0), member(2)]}]});
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected);
    let (first, second) = tokio::join!(within(first.destruct()), within(second.destruct()));
    first.and(second).unwrap();
    assert_eq!(pmix(&node, &["groups"]).await, none);
}

#[tokio::test]
async fn log_01_log_05_a_message_goes_to_the_channels_that_are_named() {
    let dir = TempDir::new().unwrap();
    let syslog = UnixDatagram::bind(dir.path().join("log")).unwrap();
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher, MemoryExchange::single("n0")).with_syslog(dir.path().join("log"));
    let node = TestNode::builder(0).host(host).server(|server| server.tool_support(true)).start().await;
    let line = async || {
        let mut buffer = [0; 512];
        let length = within(syslog.recv(&mut buffer)).await.unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(pmix(&node, &["log", "out of paper"]).await, (Some(0), String::new(), String::new()));
    let said = line().await;
    assert!(said.starts_with("<13>") && said.ends_with(": out of paper"), "{said}");
    let (code, out, _) =
        pmix(&node, &["log", "--to", "local-syslog", "--priority", "1", "--tag", "--json", "fire"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["channels"], &report["logged"]),
        (Some(0), &json!(["local-syslog"]), &json!("fully"))
    );
    let said = line().await;
    assert!(said.starts_with("<9>") && said.ends_with(",0]<syslog>: fire"), "{said}");

    // a tool has no output here
    let (code, _, err) = pmix(&node, &["log", "--to", "stdout", "hello"]).await;
    assert!(code == Some(1) && err.contains("ERR_NOT_SUPPORTED"), "{err}");
    let (code, _, err) = pmix(&node, &["log", "--to", "stdout", "--to", "syslog", "hello"]).await;
    assert_eq!((code, err.as_str()), (Some(1), "pmix: not all channels have taken the message\n"));
    assert!(line().await.ends_with(": hello"));
    assert_eq!(pmix(&node, &["log", "--once", "--to", "stderr", "--to", "syslog", "once"]).await.0, Some(0));
    assert!(line().await.ends_with(": once"));
    assert_eq!(pmix(&node, &["log", "--priority", "8", "hello"]).await.0, Some(2));
    assert_eq!(pmix(&node, &["log", "--to", "syslog", "--mail", "a@b", "hello"]).await.0, Some(2));
}
