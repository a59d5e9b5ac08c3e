//! What ranks leave in the background when they end.

use std::time::Duration;

use pmix_host::{LaunchReport, Launcher, OutputChannel, ProcExit};
use pmix_launch::LocalLauncher;
use pmix_test_wait::until;
use pmix_types::{Nspace, ProcId, Rank};
use rustix::process::{Signal, kill_process};
use tokio::sync::mpsc;

use crate::common::{launch, launcher, pid_from, runs};
use crate::guardian::{has_cgroups, leader_of};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// A rank that leaves this running, and says its process id.
const LEAVES: &str = "sleep 1000 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo $!";
/// The same, which does not hold the output of the rank.
const LEAVES_SILENTLY: &str =
    "sleep 1000 > /dev/null 2>&1 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo $!";

/// What else a job writes, and how it ends.
async fn rest(mut received: mpsc::Receiver<LaunchReport>) -> (String, String, ProcExit) {
    let (mut out, mut err) = (String::new(), String::new());
    while let Some(report) = received.recv().await {
        match report {
            LaunchReport::Output { channel, data, .. } => {
                let written = if channel == OutputChannel::Stdout { &mut out } else { &mut err };
                written.push_str(std::str::from_utf8(&data).unwrap());
            }
            LaunchReport::Ended { exit, .. } => return (out, err, exit),
            LaunchReport::Started { .. } => {}
            report => panic!("{report:?}"),
        }
    }
    panic!("it has not ended");
}

#[tokio::test]
async fn what_a_rank_leaves_in_the_background_finishes_its_output() {
    let (guarded, _guardian) = launcher();
    for launcher in [guarded, LocalLauncher::new("here")] {
        let received = launch(&launcher, "echo soon; (sleep 2; echo late; echo problem >&2) &").await;
        let told = rest(received).await;
        assert_eq!(told, ("soon\nlate\n".into(), "problem\n".into(), ProcExit::Code(0)));
    }
}

#[tokio::test]
async fn what_is_in_the_session_of_a_job_finishes_without_holding_its_output() {
    let (launcher, _guardian) = launcher();
    let dir = tempfile::tempdir().unwrap();
    let result = dir.path().join("result");
    let script = format!("(sleep 2; echo saved > {}) > /dev/null 2>&1 &", result.display());
    let told = rest(launch(&launcher, &script).await).await;
    assert_eq!(told, (String::new(), String::new(), ProcExit::Code(0)));
    assert_eq!(std::fs::read_to_string(result).unwrap(), "saved\n");
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_killed_and_named() {
    let (launcher, _guardian) = launcher();
    let mut received = launch(&launcher.linger(Duration::ZERO), LEAVES).await;
    let left = pid_from(&mut received).await;
    let (_, err, exit) = rest(received).await;
    let killed = format!(
        "pmix: killed sleep (pid {}), which job had left in the background, 0 s after its last process ended (--linger)\n",
        left.as_raw_pid()
    );
    assert_eq!((err, exit), (killed, ProcExit::Code(0)));
    until("it ends", || !runs(left)).await;
}

#[tokio::test]
async fn without_a_guardian_output_that_is_not_read_any_more_is_told() {
    let mut received = launch(&LocalLauncher::new("here").linger(Duration::ZERO), LEAVES).await;
    let left = pid_from(&mut received).await;
    let (_, err, exit) = rest(received).await;
    assert!(exit == ProcExit::Code(0) && err.contains("job rank 0 has left in the background"), "{err}");
    assert!(err.contains("no longer read, 0 s after its end"), "{err}");
    kill_process(left, Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_daemon_is_not_waited_for_but_killed_and_named() {
    let (launcher, _guardian) = launcher();
    let script = "setsid sleep 1000 < /dev/null > /dev/null 2>&1 &
                  until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo $!";
    let mut received = launch(&launcher.linger(LONG), script).await;
    let daemon = pid_from(&mut received).await;
    let (_, err, exit) = rest(received).await;
    let killed =
        format!("pmix: killed sleep (pid {}), which job had left behind as daemons\n", daemon.as_raw_pid());
    assert_eq!((err, exit), (killed, ProcExit::Code(0)));
    until("it ends", || !runs(daemon)).await;
}

#[tokio::test]
async fn what_a_rank_that_failed_has_left_is_not_waited_for() {
    let (launcher, _guardian) = launcher();
    let mut received = launch(&launcher.linger(LONG), &format!("{LEAVES}; exit 3")).await;
    let left = pid_from(&mut received).await;
    let (_, err, exit) = rest(received).await;
    assert_eq!((err.as_str(), exit), ("", ProcExit::Code(3)));
    until("it ends", || !runs(left)).await;
}

#[tokio::test]
async fn what_a_job_that_is_to_end_has_left_is_not_waited_for() {
    let (launcher, _guardian) = launcher();
    let launcher = launcher.linger(LONG);
    let proc = ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap());
    for (is_request, script) in
        [(true, LEAVES), (true, LEAVES_SILENTLY), (false, LEAVES), (false, LEAVES_SILENTLY)]
    {
        let mut received = launch(&launcher, script).await;
        let left = pid_from(&mut received).await;
        until("the rank has ended", || launcher.has_ended(&proc)).await;
        assert!(runs(left));
        match is_request {
            true => launcher.terminate(std::slice::from_ref(&proc)).await.unwrap(),
            false => launcher.signal(std::slice::from_ref(&proc), Signal::INT.as_raw()).await.unwrap(),
        }
        let (_, err, exit) = rest(received).await;
        assert_eq!((err.as_str(), exit), ("", ProcExit::Code(0)));
        until("it ends", || !runs(left)).await;
    }
}

#[tokio::test]
async fn what_a_job_has_left_goes_with_a_leader_that_is_killed_where_it_has_a_cgroup() {
    if !has_cgroups() {
        return;
    }
    let (launcher, _guardian) = launcher();
    let launcher = launcher.linger(LONG);
    let mut received = launch(&launcher, LEAVES_SILENTLY).await;
    let left = pid_from(&mut received).await;
    let proc = ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap());
    until("the rank has ended", || launcher.has_ended(&proc)).await;
    kill_process(leader_of(left), Signal::KILL).unwrap();
    let (_, err, exit) = rest(received).await;
    assert_eq!((err.as_str(), exit), ("", ProcExit::Code(0)));
    until("it ends", || !runs(left)).await;
}
