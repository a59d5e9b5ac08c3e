//! Ctrl-Z: a job stops with the command that runs it, on all hosts.

use std::process::Command;

use pmix_test_wait::{is_stopped, until};
use pmix_tests::{Running, TestDvm, here, nothing_is_left};
use rustix::process::Signal;

/// Each rank says its process id, and what it hears.
const SCRIPT: [&str; 3] =
    ["sh", "-c", "trap 'echo told; exit 5' USR1; echo $$; while :; do sleep 0.02; done"];

/// Stops a command by Ctrl-Z, and continues it; its job, with a rank on each of two hosts, goes with it.
async fn stops_and_goes_on(command: Command) {
    let mut run = Running::start(command);
    let mut pids = Vec::new();
    for _ in 0..2 {
        pids.push(run.line().await.unwrap().parse().unwrap());
    }
    let pid = run.pid();
    for _ in 0..2 {
        run.signal(Signal::TSTP);
        until("the command is stopped", || is_stopped(pid)).await;
        // they were told before
        until("the ranks are stopped", || pids.iter().all(|&pid| is_stopped(pid))).await;
        run.signal(Signal::CONT);
        until("the ranks go on", || pids.iter().all(|&pid| !is_stopped(pid))).await;
    }
    // one that is continued before it has stopped does not stop
    run.signal(Signal::TSTP);
    run.signal(Signal::CONT);
    run.signal(Signal::USR1);
    let (status, out, err) = run.end().await;
    assert_eq!((status.code(), out.as_str()), (Some(5), "told\ntold\n"), "{err}");
}

#[tokio::test]
async fn ctrl_z_stops_the_ranks_of_all_hosts_with_pmixrun() {
    let dir = tempfile::tempdir().unwrap();
    stops_and_goes_on(here(dir.path(), "a,b", &SCRIPT)).await;
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn ctrl_z_stops_a_job_in_a_dvm_with_the_command_that_has_submitted_it() {
    let dvm = TestDvm::here("a,b", "exec \"$@\"", &[]).await;
    let args = [&["-n", "2"][..], &SCRIPT].concat();
    stops_and_goes_on(dvm.pmixrun(&args)).await;
    stops_and_goes_on(dvm.submit(&args)).await;
    dvm.stop(|dir, _| nothing_is_left(dir.unwrap())).await;
}
