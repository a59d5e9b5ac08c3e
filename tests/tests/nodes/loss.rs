//! Daemons that die, and daemons whose head dies.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use pmix_tests::{processes_of, run, within};
use rustix::process::{Pid, Signal, kill_process};

use super::{here, nothing_is_left, with_agent};

/// The daemons of a run, as their process ids.
fn daemons(dir: &std::path::Path) -> Vec<i32> {
    let is_daemon = |line: &str| line.trim_end().ends_with("/pmixd");
    processes_of(dir).into_iter().filter(|(_, line)| is_daemon(line)).map(|(pid, _)| pid).collect()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

async fn until(what: impl Fn() -> bool) {
    within(async {
        while !what() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[test]
fn a_daemon_that_is_killed_ends_the_job_which_names_its_node_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "echo $$ >\"${0%/*}/agent.$host\"; exec \"$@\"";
    let mut command = with_agent(dir.path(), "a,b,c", agent, &["--display", "map", "sleep", "600"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // the map comes when all ranks have started; the rest of it must find a reader
    let (mut first, mut map) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    map.read_line(&mut first).unwrap();
    assert!(first.starts_with("Map of job "), "{first}");
    kill(std::fs::read_to_string(dir.path().join("agent.b")).unwrap().trim().parse().unwrap());
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
    until(|| processes_of(dir.path()).iter().filter(|(_, line)| line.contains("sleep 600")).count() >= 4)
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

#[test]
fn a_daemon_that_hangs_is_named_when_the_time_to_start_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "test $host = a || { echo waiting for the tape >&2; exec sleep 600; }; exec \"$@\"";
    let (code, out, err) =
        run(with_agent(dir.path(), "a,b,c", agent, &["--start-timeout", "1", "--grace", "0", "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains(
            "node b: its daemon was not ready within 1 s; its last line: waiting for the tape; \
             node c: its daemon was not ready within 1 s; its last line: waiting for the tape\n"
        ),
        "{err}"
    );
    assert!(!err.contains("node a"), "{err}");
    nothing_is_left(dir.path());
}
