//! Queries for groups and for the time of an allocation, by programs of the C library.

use std::process::Command;

use pmix_host::{Machine, MemoryExchange, StandardHost};
use pmix_server::NativeWire;
use pmix_tests::{Peer, Running, TestLauncher, TestNode, proc};

async fn asks(library: Peer) {
    let Some(program) = library.program("pmix_queries") else { return };
    let launcher = TestLauncher::on_machines([("n0", Some(Machine::new("n0", 4)))]);
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).nspace("registered").hostname("n0").host(host.clone());
    let node = node.server(|server| server.native_wire(NativeWire::On)).start().await;
    let _job = launcher.start(&host, "asking", 1).await;
    let mut command = Command::new(program);
    node.handle().setup_fork(&proc("asking", 0)).await.unwrap().apply(&mut command);
    let (status, out, err) = Running::start(command).end().await;
    assert!(status.success(), "{status} {out}{err}");
    let said: Vec<_> = out.lines().collect();
    let expected =
        ["groups: 1", "group: asked", "member: asking:0", "unknown: not found", "time left: some", "left"];
    assert_eq!(said, expected, "{err}");
}

#[tokio::test]
async fn qry_15a_alc_02_a_c_program_asks_for_groups_and_for_the_time_that_is_left() {
    asks(Peer::Libpmix).await;
}

#[tokio::test]
async fn qry_15a_alc_02_a_program_of_libpmix_5_asks_for_groups_and_for_the_time_that_is_left() {
    asks(Peer::Libpmix5).await;
}
