//! Runs of `pmixrun` whose remains can be seen.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use pmix_host::{LaunchJob, LaunchProc, LaunchReport, Launcher, ProcExit};
use pmix_launch::{Guardian, JobSession, LocalLauncher};
use pmix_test_wait::default_signals;
use pmix_types::{App, Nspace, Rank};
use procfs::process::{Process, Stat};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Beginnings of the names of variables that mean something to `pmixrun`, or to those it starts: who runs the tests may have some.
const MEANT: [&str; 10] =
    ["PMIX", "PRTE_", "OMPI_", "MPI", "PMI_", "SLURM", "PBS_", "OTEL_", "RUST_LOG", "XDG_STATE_HOME"];

/// A place for session directories, so that what is left can be seen.
pub(crate) struct Site {
    pub(crate) root: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn pmixrun(&self, args: &[&str]) -> Command {
        default_signals();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
        for (name, _) in std::env::vars_os() {
            if MEANT.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
                command.env_remove(name);
            }
        }
        command.args(args).env("PMIX_SERVER_TMPDIR", self.root.path()).stdin(Stdio::null());
        command.env("PMIX_SYSTEM_TMPDIR", self.root.path()).env("PMIXRUN_RECORD", "none");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let done = Done(self.pmixrun(args).output().unwrap());
        assert_eq!(self.left(), Vec::<PathBuf>::new(), "a session directory is left: {done:?}");
        done
    }

    /// The same by a command that takes it as its last arguments.
    pub(crate) fn pmixrun_below(&self, launcher: &[&str], args: &[&str]) -> Command {
        let inner = self.pmixrun(args);
        let mut command = Command::new(launcher[0]);
        command.args(&launcher[1..]).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run_below(&self, launcher: &[&str], args: &[&str]) -> Done {
        Done(self.pmixrun_below(launcher, args).output().unwrap())
    }

    /// Starts it with a pipe at each standard stream.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::new(&mut self.pmixrun(args))
    }

    /// Session directories that are there.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let users = std::fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().path());
        let inside = users.flat_map(|user| std::fs::read_dir(user).into_iter().flatten());
        inside.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }
}

pub(crate) struct Done(pub(crate) Output);

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}\nstdout: {}\nstderr: {}", self.0.status, self.out(), self.err())
    }
}

impl Done {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap_or_else(|| panic!("no exit code: {self:?}"))
    }

    pub(crate) fn out(&self) -> &str {
        std::str::from_utf8(&self.0.stdout).unwrap()
    }

    pub(crate) fn err(&self) -> &str {
        std::str::from_utf8(&self.0.stderr).unwrap()
    }

    /// Lines of standard output, sorted: ranks write in any order.
    pub(crate) fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out().lines().collect();
        lines.sort_unstable();
        lines
    }
}

pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    /// Starts it with a pipe at each standard stream.
    pub(crate) fn new(command: &mut Command) -> Self {
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child }
    }

    /// Reads so many lines of standard output.
    #[allow(clippy::unbuffered_bytes)]
    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        // nothing may be lost in a buffer
        let mut lines = Vec::new();
        let out = self.child.stdout.as_mut().unwrap();
        while lines.len() < count {
            let mut line = Vec::new();
            for byte in out.bytes() {
                match byte.unwrap() {
                    b'\n' => break,
                    byte => line.push(byte),
                }
            }
            lines.push(String::from_utf8(line).unwrap());
        }
        lines
    }

    /// Reads a line from each of so many ranks: their process ids.
    pub(crate) fn pids(&mut self, count: usize) -> Vec<Pid> {
        self.lines(count).iter().map(|line| Pid::from_raw(line.parse().unwrap()).unwrap()).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn finish(self) -> Done {
        Done(self.child.wait_with_output().unwrap())
    }
}

/// The hard limit of open files for programs of tests: a small one, and no more than there may be.
pub(crate) fn hard_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.map_or(4096, |own| own.min(4096))
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z") && !rest.starts_with(" X"))
}

/// Name of the program a process runs.
pub(crate) fn program(pid: Pid) -> String {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).unwrap_or_default();
    name.trim_end().to_owned()
}

pub(crate) fn stat_of(pid: Pid) -> Stat {
    Process::new(pid.as_raw_pid()).unwrap().stat().unwrap()
}

/// The process group of a process.
pub(crate) fn group_of(pid: Pid) -> Pid {
    Pid::from_raw(stat_of(pid).pgrp).unwrap()
}

pub(crate) fn children_of(pid: u32) -> Vec<Pid> {
    // each thread has children of its own, and may end while it is looked at, as the process may
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let children = children.map(Result::unwrap_or_default).collect::<String>();
    children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A launcher in this process, which is no subreaper, with `pmixrun` as guardian.
pub(crate) fn launcher() -> (LocalLauncher, Arc<Guardian>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
    command.arg("__guardian").stderr(Stdio::null());
    let guardian = Arc::new(Guardian::start(command, JobSession::Launchers).unwrap());
    (LocalLauncher::new("here").with_guardian(Arc::clone(&guardian)), guardian)
}

pub(crate) async fn launch(launcher: &LocalLauncher, script: &str) -> mpsc::Receiver<LaunchReport> {
    launch_as(launcher, "job", script).await
}

/// Launches a job of this name.
pub(crate) async fn launch_as(
    launcher: &LocalLauncher,
    job: &str,
    script: &str,
) -> mpsc::Receiver<LaunchReport> {
    let apps = vec![App::new("sh", 1).args(["-c", script])];
    let mut job = LaunchJob::new(Nspace::new(job).unwrap(), apps);
    job.procs.push(LaunchProc::new(Rank::new(0).unwrap(), "here".into(), 0, Vec::new()));
    let (reports, received) = mpsc::channel(8);
    launcher.launch(job, reports).await.unwrap();
    received
}

pub(crate) async fn exit_of(mut received: mpsc::Receiver<LaunchReport>) -> ProcExit {
    while let Some(report) = received.recv().await {
        if let LaunchReport::Ended { exit, .. } = report {
            return exit;
        }
    }
    panic!("it has not ended");
}

/// The first line that a process writes.
pub(crate) async fn pid_from(received: &mut mpsc::Receiver<LaunchReport>) -> Pid {
    while let Some(report) = received.recv().await {
        if let LaunchReport::Output { data, .. } = report {
            return Pid::from_raw(std::str::from_utf8(&data).unwrap().trim().parse().unwrap()).unwrap();
        }
    }
    panic!("it has said nothing");
}
