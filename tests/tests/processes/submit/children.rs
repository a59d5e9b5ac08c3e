//! Jobs whose processes have started others, and which of these their ends wait for.

use pmix_client::ProcId;
use pmix_client::types::Nspace;
use pmix_test_wait::{until_async, within};
use pmix_tests::{Running, pmixrun, rank_program, run};
use pmix_tool::Tool;
use rustix::process::Signal;

use super::Rig;

/// Starts a job whose rank starts another and then does this; returns both names.
async fn start(rig: &Rig, options: &[&str], child: &str, end: &str) -> (Running, Nspace, Nspace) {
    let program = rank_program();
    let words = [&["submit"], options, &[program.to_str().unwrap(), "spawn-and", child, end]].concat();
    let mut submit = Running::start(rig.pmix(&words));
    let (parent, child) = names(&submit.line_with("started").await);
    (submit, parent, child)
}

/// Those of the job and of its child, as the rank says the latter.
fn names(line: &str) -> (Nspace, Nspace) {
    let child = line.trim_end().strip_prefix("started ").unwrap();
    let (parent, _) = child.rsplit_once('.').unwrap();
    (parent.parse().unwrap(), child.parse().unwrap())
}

async fn until_gone(tool: &Tool, job: &Nspace) {
    let is_gone = async || !tool.namespaces().await.unwrap().contains(job);
    until_async(format!("{job} has ended"), is_gone).await;
}

/// All processes of a job have ended, but it is there.
async fn until_idle(tool: &Tool, job: &Nspace) {
    let is_idle = async || {
        let table = tool.proc_table(job).await.unwrap();
        !table.is_empty() && table.iter().all(|row| !row.state.is_alive())
    };
    until_async(format!("all processes of {job} have ended"), is_idle).await;
}

async fn lives(tool: &Tool, job: &Nspace) -> bool {
    within(tool.proc_table(job)).await.unwrap().iter().all(|row| row.state.is_alive())
}

#[tokio::test]
async fn con_18_a_job_ends_while_an_independent_child_goes_on() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    // the failure of its rank is told at once, too
    for (end, code) in [("finalize", 0), ("leave", 1)] {
        let (submit, parent, child) = start(&rig, &[], "independent", end).await;
        let (status, _, err) = submit.end().await;
        assert_eq!((status.code(), err.is_empty()), (Some(code), code == 0), "{err}");
        let jobs = within(tool.namespaces()).await.unwrap();
        assert!(!jobs.contains(&parent) && jobs.contains(&child), "{jobs:?}");
        assert!(lives(&tool, &child).await);
        let (code, out, err) = run(rig.pmix(&["ctrl", "kill", &parent]));
        assert!(code == Some(1) && err.contains(&format!("no job {parent} is running")), "{out}{err}");
        let (code, out, err) = run(rig.pmix(&["ctrl", "kill", &child]));
        assert_eq!(code, Some(0), "{out}{err}");
        until_gone(&tool, &child).await;
    }
    rig.end().await;
}

#[tokio::test]
async fn con_18_who_ends_a_job_ends_the_children_that_it_waits_for() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let (submit, _, child) = start(&rig, &["--time-limit", "2"], "connected", "finalize").await;
    submit.end().await;
    until_gone(&tool, &child).await;
    for by_signal in [true, false] {
        let (submit, parent, child) = start(&rig, &[], "connected", "finalize").await;
        until_idle(&tool, &parent).await;
        assert!(lives(&tool, &child).await);
        if by_signal {
            submit.signal(Signal::TERM);
        } else {
            let (code, out, err) = run(rig.pmix(&["ctrl", "kill", &parent]));
            assert_eq!(code, Some(0), "{out}{err}");
        }
        submit.end().await;
        until_gone(&tool, &child).await;
    }
    rig.end().await;
}

#[tokio::test]
async fn con_18_of_the_jobs_of_a_lost_tool_an_independent_child_goes_on() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let mut children = Vec::new();
    for kind in ["independent", "connected"] {
        let (submit, parent, child) = start(&rig, &[], kind, "block").await;
        submit.signal(Signal::KILL);
        submit.end().await;
        until_gone(&tool, &parent).await;
        children.push(child);
    }
    until_gone(&tool, &children[1]).await;
    assert!(lives(&tool, &children[0]).await);
    rig.end().await;
}

#[tokio::test]
async fn con_18_a_launcher_goes_on_for_an_independent_child_and_ends_with_it() {
    for is_ended_by_signal in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = pmixrun(dir.path(), &[]);
        command.arg(rank_program()).args(["spawn-and", "independent", "finalize"]);
        let mut launcher = Running::start(command);
        let (parent, child) = names(&launcher.line_with("started").await);
        let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
        until_gone(&tool, &parent).await;
        assert!(lives(&tool, &child).await);
        if is_ended_by_signal {
            launcher.signal(Signal::TERM);
        } else {
            within(tool.client().job_control([ProcId::wildcard(child)]).kill()).await.unwrap();
        }
        let (status, _, err) = launcher.end().await;
        assert!(is_ended_by_signal || status.success(), "{status} {err}");
    }
}
