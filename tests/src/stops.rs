//! Jobs whose ranks wait in init for a debugger.

use std::path::Path;

use pmix_client::types::Status;
use pmix_client::{EventStream, Nspace, ProcId, Rank, keys};
use pmix_test_wait::{until_async, within};
use pmix_tool::Tool;

use crate::commands::pmix;
use crate::peers::{pmixrun, run};
use crate::programs::{Running, program};

/// A tool at the server of `pmixrun`, as soon as there is one.
async fn tool(root: &Path) -> Tool {
    until_async("pmixrun lets a tool in", async || Tool::builder().session_root(root).connect().await).await
}

/// The ranks of a job of two that wait, each as it tells so.
async fn waiting(events: &mut EventStream) -> Vec<ProcId> {
    let mut procs = Vec::new();
    while procs.len() < 2 {
        let event = within(events.recv()).await.unwrap().unwrap();
        assert_eq!(event.info.get(&keys::BREAKPOINT).unwrap().as_deref(), Some("pmix-init"));
        procs.push(event.source);
    }
    procs.sort();
    procs
}

/// Runs a job of two over so many simulated nodes, whose ranks wait in init until they are released, one after the other. Each
/// rank says when it has connected, and waits for the other one after that.
///
/// # Panics
/// If a rank does not wait, or does not go on.
pub async fn stops_and_goes(command: &[&str], vnodes: &str) {
    // building it may take longer than the job may
    program("pmix");
    let dir = tempfile::tempdir().unwrap();
    let args = ["--stop-in-init", "--tag-output", "--vnodes", vnodes, "-n", "2"];
    let mut job = Running::start(pmixrun(dir.path(), &[&args, command].concat()));
    let nspace = format!("run.{}.{}", rustix::system::uname().nodename().to_str().unwrap(), job.pid());
    let nspace: Nspace = nspace.parse().unwrap();
    let rank = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));

    let tool = tool(dir.path()).await;
    let mut events = within(tool.client().events([Status::READY_FOR_DEBUG])).await.unwrap();
    assert_eq!(waiting(&mut events).await, [rank(0), rank(1)]);
    let (_, said, _) = run(pmix(dir.path(), &["why", "--timeout", "600", nspace.as_str()]));
    let awaited = format!("for a debugger; `pmix release {nspace}` lets the job go on");
    assert!(said.contains("ranks 0-1 have waited up to ") && said.contains(&awaited), "{said}");
    let second = tool.client().notify(Status::DEBUGGER_RELEASE).custom_range([rank(1)]).non_default();
    within(second).await.unwrap();
    let line = job.line().await.unwrap();
    assert!(line.starts_with("[1]<stdout>: ") && line.contains("connected to"), "{line}");

    let release = pmix(dir.path(), &["release", nspace.as_str()]);
    assert_eq!(run(release), (Some(0), String::new(), String::new()));
    let line = job.line_with("connected to").await;
    assert!(line.starts_with("[0]<stdout>: "), "{line}");
    let (status, _, err) = job.end().await;
    assert!(status.success(), "{err}");
}
