//! Each operation of a program linked with the C library, under a host that does everything.

use pmix_server::{NativeWire, ServerBuilder};
use pmix_tests::{Peer, Running, TestNode, Willing};

/// Two processes linked with the C library under a host that does everything.
async fn operations(library: Peer) {
    let Some(program) = library.program("pmix_ops") else { return };
    let server = |server: ServerBuilder| server.native_wire(NativeWire::On);
    let node = TestNode::builder(2).host(Willing).server(server).start().await;
    let mut running = Vec::new();
    for rank in 0..2 {
        let mut command = std::process::Command::new(&program);
        node.handle().setup_fork(&node.proc(rank)).await.unwrap().apply(&mut command);
        running.push(Running::start(command));
    }
    for (rank, process) in running.into_iter().enumerate() {
        let (status, out, err) = process.end().await;
        assert!(status.success(), "{out}{err}");
        let start = format!("{rank} OP ");
        let answers: Vec<_> =
            out.lines().filter_map(|line| line.strip_prefix(&start)?.split_once(' ')).collect();
        for due in ["allocate", "monitor", "get-credential", "validate-credential", "finalize"] {
            assert!(answers.iter().any(|(operation, _)| *operation == due), "{due}: {out}{err}");
        }
        for (operation, status) in answers {
            assert_eq!(status, "0", "{operation}: {out}{err}");
        }
        assert!(out.contains(&format!("{rank} group has a context id\n")), "{out}{err}");
    }
}

#[tokio::test]
async fn all_that_a_host_does_is_done_for_a_c_client() {
    operations(Peer::Libpmix).await;
}

#[tokio::test]
async fn all_that_a_host_does_is_done_for_a_client_of_libpmix_5() {
    operations(Peer::Libpmix5).await;
}
