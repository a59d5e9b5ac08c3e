//! In a job of PBS, on a terminal.

use std::fs;

use pmix_test_wait::until;
use pmix_tests::{PbsJob, processes_of, stop};
use rustix::process::{Pid, Signal, kill_process};

use super::starting::OnTerminal;

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Has a daemon go on that was stopped. The kernel may have done so already, when the script above it had ended.
fn go_on(daemon: i32) {
    let _ = kill_process(Pid::from_raw(daemon).unwrap(), Signal::CONT);
}

#[tokio::test]
async fn the_agent_for_pbs_leaves_no_file_after_a_second_interrupt() {
    let job = PbsJob::start();
    fs::write(job.at("hangs"), "b").unwrap();
    let run = OnTerminal::start(&job.pmixrun(&["--grace", "100000", "true"]));
    let Some(mut run) = run else { return };
    run.until(|lines| lines.last().is_some_and(|line| line == "starting daemons: 1 of 2 ready"));
    let daemon = job.process_of("pmixd");
    stop(daemon).await;
    let pmixrun = job.process_of("pmixrun");
    send(pmixrun, Signal::INT);
    run.until(|lines| lines.iter().any(|line| line.contains("interrupt to kill the daemons at once")));
    // the daemon hangs until pmixrun has ended
    send(pmixrun, Signal::INT);
    let (code, lines) = run.end().await;
    assert_eq!(code, Some(130), "{lines:?}");
    assert_eq!(job.files(), 0, "{lines:?}");
    go_on(daemon);
    job.end_waiting();
    job.end();
}

#[tokio::test]
async fn the_agent_for_pbs_leaves_no_file_of_a_host_that_is_lost() {
    let job = PbsJob::start();
    fs::write(job.at("nodes"), "b\n").unwrap();
    let args = ["--host-grace", "10", "--grace", "100000", "sh", "-c", "echo runs; exec sleep 600"];
    let Some(mut run) = OnTerminal::start(&job.pmixrun(&args)) else { return };
    run.until(|lines| lines.iter().any(|line| line == "runs"));
    let daemon = job.process_of("pmixd");
    stop(daemon).await;
    let (code, lines) = run.end().await;
    assert_eq!(code, Some(137), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("node b is lost: ")), "{lines:?}");
    assert_eq!(job.files(), 0, "{lines:?}");
    // here it descends from pmixrun, which kills what has lost its parents: its directory stays, but no process
    until("no process is left", || {
        let left = processes_of(job.dir());
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}
