//! Our commands in an environment that tells them nothing of this machine, and programs made for a test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{processes_of, program};

/// Variables that programs of ours read, besides those of PMIx, of pmixrun and of OpenTelemetry.
const READ: [&str; 6] =
    ["RUST_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TRACEPARENT", "XDG_RUNTIME_DIR"];

/// `pmix` for the servers below this directory, and for no other that runs on this machine.
pub fn pmix(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program("pmix"));
    plain_environment(&mut command);
    command.args(args).env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir);
    command
}

/// `pmix-check` with these arguments, which checks this launcher, the default one if there is none. All files of both are in
/// the directory.
pub fn pmix_check(dir: &Path, args: &[&str], launcher: &[&str]) -> Command {
    let mut command = Command::new(program("pmix-check"));
    plain_environment(&mut command);
    command.env("TMPDIR", dir).env("PMIXRUN_RECORD", "none").args(args);
    if !launcher.is_empty() {
        command.arg("--").args(launcher);
    }
    command
}

/// Takes from the environment of one of our programs what the tests themselves were started with.
pub fn plain_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if READ.contains(&&*text) || text.starts_with("PMIX") || text.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
}

/// Writes a script or program, with the directories above it, that can be executed at once.
///
/// Another process writes it. If this one did, a child that another test starts meanwhile would have it open, too, until it
/// executes its own program, and the system executes no file that is open for writing.
///
/// # Panics
/// If it cannot be written.
pub fn executable(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(file).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success(), "{} cannot be written", file.display());
}

/// How often to look at most for processes that are left.
const LOOKS: usize = 1000;

/// When it is dropped, kills the processes whose environment names this directory: those of a server that is part of the test
/// itself outlast the test otherwise.
#[derive(Debug)]
pub struct EndsProcesses(PathBuf);

impl EndsProcesses {
    /// Those of this directory.
    pub fn of(dir: &Path) -> Self {
        Self(dir.to_owned())
    }
}

impl Drop for EndsProcesses {
    fn drop(&mut self) {
        // what one has started at the last moment is seen the next time; one that has ended has no environment
        for _ in 0..LOOKS {
            let left = processes_of(&self.0);
            if left.is_empty() {
                break;
            }
            for pid in left.into_iter().filter_map(|(pid, _)| Pid::from_raw(pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// The same command, with its changes of the environment, as what another program is to start.
pub fn started_by(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}
