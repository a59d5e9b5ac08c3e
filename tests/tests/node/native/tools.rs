//! Our own tools at a server that serves tools of the C library, too.

use std::process::Command;

use pmix_tests::{Running, beside, echoing_node, program};

/// One file serves the tools of both kinds.
#[tokio::test]
async fn tol_03a_our_own_tools_find_a_server_of_both_wires() {
    let (node, _job) = echoing_node().await;
    let mut ps = beside(&node, Command::new(program("pmix")));
    ps.arg("ps");
    let (status, out, err) = Running::start(ps).end().await;
    assert!(status.success(), "{out}{err}");
    assert!(out.contains("echo"), "{out}{err}");
}
