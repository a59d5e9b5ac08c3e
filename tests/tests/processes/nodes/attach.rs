//! `pmix attach`: a terminal at a job that another command has started.

use std::process::Command;

use pmix_test_wait::until_async;
use pmix_tests::{Running, TestDvm, run};
use rustix::process::Signal;
use serde_json::Value;

use crate::line_now;

/// The namespace of the only job of a DVM.
fn only_job(dvm: &TestDvm) -> String {
    let report: Value = serde_json::from_str(&run(dvm.pmix(&["ps", "--json"], &[])).1).unwrap();
    report["servers"][0]["jobs"][0]["nspace"].as_str().unwrap().to_owned()
}

fn attach(dvm: &TestDvm, options: &[&str]) -> Command {
    dvm.pmix(&["attach"], options)
}

/// Reads lines, and says each.
const ECHO: &str = "echo up; while read line; do echo got $line by $PMIX_RANK; done; echo end";

#[tokio::test]
async fn iof_10_who_attaches_sees_what_a_job_writes_and_gives_it_input() {
    let dvm = TestDvm::alone().await;
    let mut owner = Running::start_with_input(dvm.pmixrun(&["sh", "-c", ECHO]));
    owner.line_with("up").await;
    let job = only_job(&dvm);
    // one only looks: the end of its own input is not that of the job
    let mut looks = Running::start(attach(&dvm, &[&job]));
    let mut other = Running::start_with_input(attach(&dvm, &["--stdin", "--rank", &job]));
    // output is shown from the moment at which a command has attached
    let mut number = 0;
    let line = until_async("the other one shows a line", async || {
        other.write(&format!("line {number}\n")).await;
        number += 1;
        line_now(&mut looks)
    });
    assert!(line.await.ends_with(" by 0"));
    other.line_with("[0]<stdout>: got line ").await;
    owner.line_with("got line 0 by 0").await;

    // one that is told to end leaves the job alone
    looks.signal(Signal::INT);
    let (status, _, err) = looks.end().await;
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    other.write("last\n").await;
    owner.line_with("got last by 0").await;
    // the end of the input of the other is that of the job
    let (status, out, err) = other.end().await;
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    assert!(out.ends_with("[0]<stdout>: got last by 0\n[0]<stdout>: end\n"), "{out}");
    let (status, out, err) = owner.end().await;
    assert_eq!((status.code(), out.as_str()), (Some(0), "end\n"), "{err}");
    let (code, out, err) = run(attach(&dvm, &["nobody"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(err, "pmix: no job nobody is running; `pmix ps` lists the running jobs\n");
}

#[tokio::test]
async fn signals_of_who_attaches_reach_the_job_if_that_is_said() {
    let dvm = TestDvm::alone().await;
    let script =
        "trap 'echo told $PMIX_RANK' USR1; trap 'echo here' USR2; echo up; while :; do sleep 0.02; done";
    let mut owner = Running::start(dvm.submit(&["-n", "2", "sh", "-c", script]));
    owner.line_with("up").await;
    owner.line_with("up").await;
    let job = only_job(&dvm);
    // a command that shows what a job writes has attached
    let has_attached = async |attached: &mut Running| {
        let line = until_async("it shows a line", async || {
            let (code, _, err) = run(dvm.pmix(&["ctrl", "signal", "USR2", &job], &[]));
            assert_eq!(code, Some(0), "{err}");
            line_now(attached)
        });
        assert_eq!(line.await, "here");
    };
    // a rank of it; input that a job does not take is no reason to end
    let rank = format!("{job}:1");
    let mut attached = Running::start_with_input(attach(&dvm, &["--signals", "--stdin", &rank]));
    attached.write("this is not read\n").await;
    has_attached(&mut attached).await;
    attached.signal(Signal::USR1);
    assert_eq!(attached.line_with("told").await, "told 1");
    attached.signal(Signal::QUIT);
    let (status, _, err) = attached.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(err.contains("ERR_NOT_SUPPORTED"), "{err}");

    let mut attached = Running::start(attach(&dvm, &["--signals", &job]));
    has_attached(&mut attached).await;
    attached.signal(Signal::TERM);
    let (status, out, _) = owner.end().await;
    // the other rank was told nothing
    assert_eq!((status.code(), out.matches("told").count()), (Some(143), 1), "{out}");
    assert_eq!(attached.end().await.0.code(), Some(0));
}
