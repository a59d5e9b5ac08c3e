//! The namespace of processes that have connected, used by one of them in Rust and by two in C.

use std::path::Path;
use std::process::Command;

use pmix_client::ProcId;
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::NativeWire;
use pmix_tests::{Asked, Peer, Running, TestLauncher, TestNode, all_of, proc, within};

async fn start(node: &TestNode, program: &Path, proc: &ProcId, acts: &[&str]) -> Running {
    let mut command = Command::new(program);
    node.handle().setup_fork(proc).await.unwrap().apply(&mut command);
    command.args(acts);
    Running::start(command)
}

async fn used_by(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).nspace("registered").host(host.clone());
    let node = node.server(|server| server.native_wire(NativeWire::On)).start().await;
    let (_a, mut b) = (launcher.start(&host, "a", 2).await, launcher.start(&host, "b", 1).await);
    let (mate, other) = (proc("a", 1), proc("b", 0));
    let rust = node.connect(&proc("a", 0)).await.unwrap();

    let all = "a:*,b:*";
    // libpmix 4 resolves only what it holds itself
    let resolve: &[&str] = if library == Peer::Libpmix { &[] } else { &["resolve", "@"] };
    let acts = ["table", "@", "signal", "@:2", "signal", "@:*", "publish", "done", "yes"];
    let first = [&["connect", all, "lookup", "set"], resolve, &acts].concat();
    let first = start(&node, &program, &mate, &first).await;
    let second =
        ["connect", all, "lookup", "set", "put", "5", "lookup", "done", "lookup", "set", "abort", "@:*"];
    let second = start(&node, &program, &other, &second).await;

    let set = within(rust.connect(&[all_of("a"), all_of("b")][..])).await.unwrap();
    let name = set.nspace.unwrap();
    within(rust.publish().data("set", name.as_str())).await.unwrap();
    // a value that was put in C, by the name of Rust's making
    let put: u32 = within(rust.get(ProcId::new(name.clone(), "2".parse().unwrap()), "k")).await.unwrap();
    assert_eq!(put, 5);

    let (status, out, err) = first.end().await;
    assert!(status.success(), "{out}{err}");
    let peers = format!("peers {name}:0 {name}:1 {name}:2 on n0");
    let said = [("table a:0 a:1 b:0", true), (&peers, !resolve.is_empty()), ("left", true)];
    for (line, is_due) in said {
        assert_eq!(out.lines().any(|found| found == line), is_due, "{line:?} in {out}{err}");
    }
    // the abort ends both jobs
    let [ours, theirs] = [vec![proc("a", 0), mate], vec![other]];
    let mut asked = launcher.until_asked(5).await;
    asked[1..].sort_by_key(|asked| format!("{asked:?}"));
    let due = [
        Asked::Signal(theirs.clone(), 10),
        Asked::Signal(ours.clone(), 10),
        Asked::Signal(theirs.clone(), 10),
        Asked::Terminate(ours),
        Asked::Terminate(theirs),
    ];
    assert_eq!(asked, due);
    let (status, out, err) = second.end().await;
    assert!(status.success(), "{out}{err}");
    while within(b.next_report()).await.is_some() {}
}

#[tokio::test]
async fn con_07_a_connected_set_is_named_by_processes_in_c() {
    used_by(Peer::Libpmix).await;
}

#[tokio::test]
async fn con_07_a_connected_set_is_named_by_processes_of_libpmix_5() {
    used_by(Peer::Libpmix5).await;
}
