//! In a job of PBS, whose task manager starts the daemons.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_tests::{DEADLINE, processes_of, program, run, stop};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::nothing_is_left;
use super::starting::OnTerminal;

/// What PBS has in place of ssh: it reads no input and passes none on, its tasks write to the output of the job, and it knows no
/// hosts but those of the job. On a host that `hangs` names nothing is ever heard, and one that `fails` names starts nothing.
const PBS_TMRSH: &str = r#"#!/bin/sh
host=$1 dir=${PBS_NODEFILE%/*}
shift
grep -qx -- "$host" "$PBS_NODEFILE" || { echo "pbs_tmrsh: host \"$host\" is not a node in job" >&2; exit 255; }
echo "$@" >>"$PBS_JOB_OUTPUT"
if test "$(cat "$dir/hangs")" = "$host"; then
    echo waits
    trap "" TERM
    sleep 600
fi
if test "$(cat "$dir/fails")" = "$host"; then
    until test "$(grep -c . "$PBS_JOB_OUTPUT")" = 2; do sleep 0.01; done
    echo "no task can be started" >&2
    exit 1
fi
"$@" </dev/null >>"$PBS_JOB_OUTPUT" 2>&1
"#;

/// A job of PBS with a slot on `a`, and two on `b`.
struct Job(TempDir);

impl Job {
    fn start() -> Self {
        let job = Self(tempfile::tempdir().unwrap());
        for name in ["bin", "shared"] {
            fs::create_dir(job.at(name)).unwrap();
        }
        for (name, text) in
            [("bin/pbs_tmrsh", PBS_TMRSH), ("nodes", "a\nb\nb\n"), ("hangs", ""), ("fails", "")]
        {
            fs::write(job.at(name), text).unwrap();
        }
        fs::set_permissions(job.at("bin/pbs_tmrsh"), fs::Permissions::from_mode(0o755)).unwrap();
        program("pmix-rm", "pmixd");
        job
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// `pmixrun` in the job, with the agent of the examples.
    fn pmixrun(&self, args: &[&str]) -> Command {
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/pbs/by-tm");
        let mut command = pmix_tests::pmixrun(self.0.path(), &["--launch-agent", agent]);
        command.args(args).env("PBS_NODEFILE", self.at("nodes")).env("PBS_JOBID", "12.server");
        command.env("PATH", format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap()));
        command.env("PBS_JOB_OUTPUT", self.at("output")).env("PMIXRUN_SHARED", self.at("shared"));
        command
    }

    /// The files with start lines.
    fn files(&self) -> usize {
        fs::read_dir(self.at("shared")).unwrap().count()
    }

    /// The process whose command begins so.
    fn process(&self, words: &str) -> i32 {
        let processes = processes_of(self.0.path());
        let found = processes.iter().find(|(_, line)| line.starts_with(words));
        found.unwrap_or_else(|| panic!("{words} of {processes:?}")).0
    }

    fn process_of(&self, name: &str) -> i32 {
        self.process(&format!("{} ", program("pmix-rm", name).display()))
    }

    /// Ends what still waits for the host that hangs, as PBS does when its job ends.
    fn end_waiting(&self) {
        send(self.process(&format!("/bin/sh {} b", self.at("bin/pbs_tmrsh").display())), Signal::KILL);
        send(self.process("sleep 600"), Signal::KILL);
    }

    fn end(self) {
        for name in ["bin", "shared"] {
            fs::remove_dir_all(self.at(name)).unwrap();
        }
        nothing_is_left(self.0.path());
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Has a daemon go on that was stopped. The kernel may have done so already, when the script above it had ended.
fn go_on(daemon: i32) {
    let _ = kill_process(Pid::from_raw(daemon).unwrap(), Signal::CONT);
}

#[test]
fn the_agent_for_pbs_starts_daemons_without_input_and_leaves_no_file() {
    let job = Job::start();
    let (code, out, err) = run(job.pmixrun(&["sh", "-c", "echo $PMIX_RANK $PMIX_HOSTNAME"]));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (Some(0), ["0 a", "1 b", "2 b"].into()), "{err}");
    let output = fs::read_to_string(job.at("output")).unwrap();
    assert_eq!(output.matches("pmixd --join ").count(), 2, "{output}");
    assert_eq!(job.files(), 0);
    let (code, out, err) = run(job.pmixrun(&["--daemon", "/nowhere/pmixd", "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("by-tm ended with exit code 127"), "{err}");
    assert_eq!(job.files(), 0);
    job.end();
}

#[test]
fn the_agent_for_pbs_leaves_no_file_where_the_start_of_another_daemon_fails() {
    let job = Job::start();
    fs::write(job.at("fails"), "a").unwrap();
    fs::write(job.at("hangs"), "b").unwrap();
    let (code, out, err) = run(job.pmixrun(&["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("node a: ") && err.contains("no task can be started"), "{err}");
    assert_eq!(job.files(), 0, "{err}");
    job.end_waiting();
    job.end();
}

#[tokio::test]
async fn the_agent_for_pbs_leaves_no_file_after_a_second_interrupt() {
    let job = Job::start();
    fs::write(job.at("hangs"), "b").unwrap();
    let mut run = OnTerminal::start(&job.pmixrun(&["--grace", "300", "true"]));
    run.until(|lines| lines.last().is_some_and(|line| line == "starting daemons: 1 of 2 ready"));
    let daemon = job.process_of("pmixd");
    stop(daemon).await;
    let pmixrun = job.process_of("pmixrun");
    send(pmixrun, Signal::INT);
    run.until(|lines| lines.iter().any(|line| line.contains("interrupt to kill the daemons at once")));
    let began = Instant::now();
    send(pmixrun, Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(130), "{lines:?}");
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    assert_eq!(job.files(), 0, "{lines:?}");
    go_on(daemon);
    job.end_waiting();
    job.end();
}

#[tokio::test]
async fn the_agent_for_pbs_leaves_no_file_of_a_host_that_is_lost() {
    let job = Job::start();
    fs::write(job.at("nodes"), "b\n").unwrap();
    let args = ["--host-grace", "0.5", "--grace", "300", "sh", "-c", "echo runs; exec sleep 600"];
    let mut run = OnTerminal::start(&job.pmixrun(&args));
    run.until(|lines| lines.iter().any(|line| line == "runs"));
    let daemon = job.process_of("pmixd");
    stop(daemon).await;
    let began = Instant::now();
    let (code, lines) = run.end();
    assert_eq!(code, Some(137), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("node b is lost: ")), "{lines:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(job.files(), 0, "{lines:?}");
    // here it descends from pmixrun, which kills what has lost its parents: its directory stays, but no process
    let began = Instant::now();
    while !processes_of(job.0.path()).is_empty() {
        assert!(began.elapsed() < DEADLINE, "{:?}", processes_of(job.0.path()));
        std::thread::yield_now();
    }
}
