//! Daemons that die, and daemons whose head dies.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use pmix_test_wait::until;
use pmix_tests::{here, long_enough, nothing_is_left, pmixrun, processes_of, run, with_agent};
use rustix::process::{Pid, Signal, kill_process};

/// The daemons of a run, as their process ids.
fn daemons(dir: &std::path::Path) -> Vec<i32> {
    let is_daemon = |line: &str| line.trim_end().ends_with("/pmixd");
    processes_of(dir).into_iter().filter(|(_, line)| is_daemon(line)).map(|(pid, _)| pid).collect()
}

/// An agent that notes the process id of each daemon.
const NOTED: &str = "echo $$ >\"${0%/*}/agent.$host\"; exec \"$@\"";

/// The daemon that [`NOTED`] has started for b.
fn daemon_of_b(dir: &std::path::Path) -> Pid {
    let pid = std::fs::read_to_string(dir.join("agent.b")).unwrap();
    Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_daemon_that_is_killed_ends_the_job_which_names_its_node_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = with_agent(dir.path(), "a,b,c", NOTED, &["--display", "map", "sleep", "600"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // the map comes when all ranks have started; the rest of it must find a reader
    let (mut first, mut map) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    map.read_line(&mut first).unwrap();
    assert!(first.starts_with("Map of job "), "{first}");
    kill_process(daemon_of_b(dir.path()), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{err}");
    assert!(err.contains("node b is lost: "), "{err}");
    assert!(err.contains("rank 1 (sleep) on b "), "{err}");
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn daemons_whose_head_is_killed_end_their_ranks_and_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        here(dir.path(), "a,b", &["--grace", "0.2", "sh", "-c", "trap '' TERM; echo; sleep 600"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("both ranks sleep", || {
        let processes = processes_of(dir.path());
        let count = processes.iter().filter(|(_, line)| line.starts_with("sleep 600")).count();
        if count == 2 { Ok(()) } else { Err(processes) }
    })
    .await;
    assert_eq!(daemons(dir.path()).len(), 2);
    kill(i32::try_from(child.id()).unwrap());
    child.wait().unwrap();
    nothing_is_left(dir.path());
}

#[test]
fn a_daemon_that_does_not_start_is_named_with_its_last_line_and_the_others_end() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "test $host != b || { echo 'no such disk' >&2; exit 3; }; exec \"$@\"";
    let (code, out, err) = run(with_agent(dir.path(), "a,b,c", agent, &["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("node b: ") && err.contains("ended with exit code 3; its last line: no such disk"),
        "{err}"
    );
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn a_daemon_that_hangs_is_named_when_the_time_to_start_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let script = "test $host = a || { echo waiting for the tape >&2; exec sleep 600; }; exec \"$@\"";
    let hangs = async |seconds: u64| {
        let args = ["--start-timeout", &seconds.to_string(), "--grace", "0", "true"];
        let (code, out, err) = run(with_agent(dir.path(), "a,b,c", script, &args));
        assert_eq!((code, out.as_str()), (Some(1), ""));
        let why = format!("its daemon was not ready within {seconds} s; its last line: waiting for the tape");
        // the other daemon needs some time
        if err.contains("node a") { Err(err) } else { Ok((why, err)) }
    };
    let (why, err) = long_enough(hangs).await;
    assert!(err.contains(&format!("node b: {why}; node c: {why}\n")), "{err}");
    nothing_is_left(dir.path());
}

/// Processes of a run that sleep.
fn sleepers(dir: &std::path::Path) -> usize {
    processes_of(dir).iter().filter(|(_, line)| line.starts_with("sleep 600")).count()
}

#[tokio::test]
async fn the_ranks_of_a_daemon_that_is_stopped_end_and_its_silence_is_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--map-by", "node", "-n", "2", "--head-grace", "15", "--host-grace", "10", "--grace", "1"];
    let args = [&args[..], &["sh", "-c", "sleep 600"]].concat();
    let mut command = with_agent(dir.path(), "a,b", NOTED, &args);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("both ranks sleep", || (sleepers(dir.path()) == 2).then_some(()).ok_or(())).await;
    let daemon = daemon_of_b(dir.path());
    kill_process(daemon, Signal::STOP).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("node b is lost: silent for "), "{err}");
    until("its rank has ended", || (sleepers(dir.path()) == 0).then_some(()).ok_or(())).await;
    // perhaps it has been killed
    let _ = kill_process(daemon, Signal::CONT);
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn a_daemon_that_is_killed_after_its_silence_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--map-by",
        "node",
        "-n",
        "2",
        "--head-grace",
        "3",
        "--host-grace",
        "600",
        "sh",
        "-c",
        "sleep 600; true",
    ];
    let mut command = with_agent(dir.path(), "a,b", NOTED, &args);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("both ranks sleep", || (sleepers(dir.path()) == 2).then_some(()).ok_or(())).await;
    let daemon = daemon_of_b(dir.path());
    kill_process(daemon, Signal::STOP).unwrap();
    until("the rank of b has ended", || (sleepers(dir.path()) == 1).then_some(()).ok_or(())).await;
    kill_process(daemon, Signal::KILL).unwrap();
    assert!(!child.wait_with_output().unwrap().status.success());
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn the_ranks_of_a_launcher_that_is_stopped_without_announcement_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["-n", "2", "sh", "-c", "sleep 600; true"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("both ranks sleep", || (sleepers(dir.path()) == 2).then_some(()).ok_or(())).await;
    let launcher = Pid::from_child(&child);
    kill_process(launcher, Signal::STOP).unwrap();
    until("the ranks have ended", || (sleepers(dir.path()) == 0).then_some(()).ok_or(())).await;
    kill_process(launcher, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{err}");
    assert!(err.contains("silent for ") && err.contains("the guardian has ended all processes"), "{err}");
    nothing_is_left(dir.path());
}
