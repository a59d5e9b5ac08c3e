//! A debugger in C: it starts a job that stops in init, and daemons for it, and releases it.

use std::process::Command;

use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::NativeWire;
use pmix_tests::{Peer, Running, TestNode, beside, rank_program};

async fn debugs(library: Peer) {
    let Some(debugger) = library.program("pmix_debugger") else { return };
    let name = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let host = StandardHost::new(LocalLauncher::new(&name), MemoryExchange::single(&name));
    let node = TestNode::builder(1).hostname(&name).host(host);
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let file = node.handle().session_dir().join(format!("pmix.{name}.tool"));
    let text = std::fs::read_to_string(file).unwrap();
    // processes in Rust, and in C by the same library
    let c = library.program("pmix_peers").unwrap();
    for (program, argument) in [(rank_program(), "fence"), (c, "/dev/null")] {
        let mut command = beside(&node, Command::new(&debugger));
        command.arg(text.lines().next().unwrap()).arg(&program).arg(argument);
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success(), "{status} {out}{err}");
        for rank in 0..2 {
            let waits = format!("rank {rank} waits in init");
            assert_eq!(out.matches(&waits).count(), 1, "{out}{err}");
        }
        let order = ["waits in", " has looked", " is released and has ended", "left"];
        let places: Vec<_> = order.map(|said| out.find(said)).into_iter().flatten().collect();
        assert!(places.len() == order.len() && places.is_sorted(), "{out}{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_a_debugger_in_c_stops_looks_at_and_releases_a_job() {
    debugs(Peer::Libpmix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_a_debugger_of_libpmix_5_stops_looks_at_and_releases_a_job() {
    debugs(Peer::Libpmix5).await;
}
