//! Servers for tools of this node.

use std::process::Command;

use pmix_client::Rank;
use pmix_client::types::App;
use pmix_host::{JobStart, MemoryExchange, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::NativeWire;
use pmix_test_wait::within;

use crate::commands::plain_environment;
use crate::node::TestNode;

/// What processes run that say what they read.
pub const ECHO: &str = r#"while read line; do echo "heard $line"; done"#;

/// A server with the job `echo` of two, both of which take input and answer. It has the name that the system calls its node,
/// by which the C library looks for files.
pub async fn echoing_node() -> (TestNode, RunningJob) {
    let name = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let host = StandardHost::new(LocalLauncher::new(&name), MemoryExchange::single(&name));
    let node = TestNode::builder(1).hostname(&name).host(host.clone());
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let apps = vec![App::new("sh", 2).args(["-c", ECHO])];
    let echo = JobStart::new("echo".parse().unwrap(), apps).stdin(Rank::WILDCARD);
    (node, within(host.start_job(echo)).await.unwrap())
}

/// A tool that has only the directories to go by.
pub fn beside(node: &TestNode, mut command: Command) -> Command {
    plain_environment(&mut command);
    for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR"] {
        command.env(name, node.root());
    }
    command
}
