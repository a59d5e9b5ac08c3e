//! Real processes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Once;

use pmix_client::ProcId;
use pmix_test_wait::{default_signals, is_stopped, until};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::{TestNode, within};

/// The program whose behaviour its arguments say.
pub fn rank_program() -> PathBuf {
    program("pmix-test-rank")
}

/// The program that does one operation.
pub fn operation_program() -> PathBuf {
    program("pmix-test-operation")
}

/// The program that stays in a phase until something goes wrong.
pub fn phase_program() -> PathBuf {
    program("pmix-test-phase")
}

/// One of our programs, such as `pmixrun`.
///
/// # Panics
/// If it does not build.
pub fn program(name: &str) -> PathBuf {
    build();
    built(name)
}

/// An example's program.
///
/// # Panics
/// If it does not build.
pub fn example(name: &str) -> PathBuf {
    build();
    built(&format!("examples/{name}"))
}

/// Stops a process, and returns once none of its threads runs: the system stops them one after the other.
///
/// # Panics
/// If there is no such process.
pub async fn stop(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    until("all of its threads are stopped", || is_stopped(pid)).await;
}

/// The packages whose programs tests start. This one is among them because the others are to have the features that it asks
/// for, as they have when they are tested together.
const PACKAGES: [&str; 5] = ["pmix-tests", "pmix-rm", "pmix-cli", "pmix-mpir", "pmix-examples"];

/// How variables begin by which cargo describes the package under test.
const CARGO_TELLS: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Has cargo build all programs, once. `cargo test` has built most of them already; it builds no programs of packages that it
/// does not test, and those may be older than their sources.
fn build() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let directory = directory();
        let mut cargo = std::process::Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--bins", "--examples"]);
        cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        cargo.arg("--target-dir").arg(directory.parent().unwrap());
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        // they differ from test to test, and ring's build script, which reads them, would have it compiled again each time
        let told = env::vars_os().map(|(name, _)| name);
        for name in
            told.filter(|name| CARGO_TELLS.iter().any(|known| name.to_string_lossy().starts_with(known)))
        {
            cargo.env_remove(name);
        }
        assert!(cargo.status().unwrap().success(), "the programs do not build");
    });
}

/// Where the profile's programs are: tests run from `deps` in there.
pub(crate) fn directory() -> PathBuf {
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    deps.parent().unwrap().to_owned()
}

pub(crate) fn built(name: &str) -> PathBuf {
    let path = directory().join(name);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// Processes whose environment names the session directory: ranks, guardian, `pmixrun` itself. Process ids and
/// command lines.
pub fn processes_of(dir: &Path) -> Vec<(i32, String)> {
    let wanted = format!("PMIX_SERVER_TMPDIR={}", dir.display());
    let below = dir.to_str().unwrap().as_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = environment.split(|byte| *byte == 0).any(|variable| {
            variable == wanted.as_bytes() || variable.windows(below.len()).any(|part| part == below)
        });
        if ours && pid != i32::try_from(std::process::id()).unwrap() {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&words).replace('\0', " ")));
        }
    }
    found
}

/// The process id of a rank: the child that has its rank in its environment.
///
/// # Panics
/// If there is none.
pub fn pid_of(dir: &Path, rank: u32) -> i32 {
    let wanted = format!("PMIX_RANK={rank}");
    let is_it = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let found = processes_of(dir).into_iter().map(|(pid, _)| pid).find(is_it);
    found.unwrap_or_else(|| panic!("no process of rank {rank}"))
}

/// A process with its output. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Held open as long as the process may read it.
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: ChildStderr,
}

impl Running {
    /// Starts a command with nothing to read.
    pub fn start(command: std::process::Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts a command whose input ends when [`end`](Self::end) is called.
    pub fn start_with_input(command: std::process::Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    /// Starts a command with this input.
    pub fn start_with(command: std::process::Command, stdin: Stdio) -> Self {
        default_signals();
        let mut command = Command::from(command);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = child.stderr.take().unwrap();
        Self { child, stdin, stdout, stderr }
    }

    /// Starts the rank program as a process of a node's job.
    pub async fn rank(node: &TestNode, proc: &ProcId, args: &[&str]) -> Self {
        Self::start(Self::rank_command(node, proc, args).await)
    }

    /// The command that starts the rank program as a process of a node's job.
    pub async fn rank_command(node: &TestNode, proc: &ProcId, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(rank_program());
        node.handle().setup_fork(proc).await.unwrap().apply(&mut command);
        command.args(args);
        command
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("it has ended")).unwrap()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Stops it, as [`stop`] does.
    pub async fn stop(&self) {
        stop(self.pid()).await;
    }

    /// Writes to its input.
    pub async fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line of its standard output; `None` when it is closed.
    pub async fn line(&mut self) -> Option<String> {
        within(self.stdout.next_line()).await.unwrap()
    }

    /// The next line of its standard output, however long it takes.
    pub async fn line_at_last(&mut self) -> Option<String> {
        self.stdout.next_line().await.unwrap()
    }

    /// Reads up to a line that has these words.
    pub async fn line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.line().await.unwrap_or_else(|| panic!("it ended without saying {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Closes its input and waits for its end; what it had left to say on standard output and error.
    pub async fn end(mut self) -> (ExitStatus, String, String) {
        self.stdin = None;
        let (mut out, mut err) = (String::new(), String::new());
        let status = within(async {
            let lines = async {
                while let Some(line) = self.stdout.next_line().await.unwrap() {
                    out.push_str(&line);
                    out.push('\n');
                }
            };
            let errors = self.stderr.read_to_string(&mut err);
            let (status, (), errors) = tokio::join!(self.child.wait(), lines, errors);
            errors.unwrap();
            status.unwrap()
        })
        .await;
        (status, out, err)
    }
}
