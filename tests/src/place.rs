//! Directories of the system and of sessions, for launchers and tools of several users.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::commands::plain_environment;
use crate::peers::plain_pmixrun;
use crate::programs::{Running, program};

/// A directory of the system and one of sessions, which all users may enter.
#[derive(Debug)]
pub struct Place {
    system: TempDir,
    session: TempDir,
}

impl Place {
    /// Two directories of its own.
    #[expect(clippy::new_without_default, reason = "it makes directories")]
    pub fn new() -> Self {
        let open = || {
            let dir = tempfile::tempdir().unwrap();
            // as /tmp is
            fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
            dir
        };
        Self { system: open(), session: open() }
    }

    /// That of the system.
    pub fn system(&self) -> &Path {
        self.system.path()
    }

    /// That of sessions.
    pub fn session(&self) -> &Path {
        self.session.path()
    }

    /// The file of the system-level server of this node.
    pub fn file(&self) -> PathBuf {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.system().join(format!("pmix.sys.{name}"))
    }

    /// A command that has its files here.
    pub fn placed(&self, mut command: Command) -> Command {
        command.env("PMIX_SYSTEM_TMPDIR", self.system()).env("TMPDIR", self.session());
        command.env_remove("PMIX_SERVER_TMPDIR");
        command
    }

    /// `pmixrun` of the user of the tests.
    pub fn pmixrun(&self) -> Command {
        let mut command = plain_pmixrun();
        plain_environment(&mut command);
        command.env("PMIXRUN_RECORD", "none");
        self.placed(command)
    }

    /// `pmix` of the user of the tests.
    pub fn pmix(&self) -> Command {
        let mut command = Command::new(program("pmix"));
        plain_environment(&mut command);
        self.placed(command)
    }

    /// A launcher here, with these options and a job that sleeps, as far as it has started.
    pub async fn runs(&self, command: Command, options: &[&str]) -> Running {
        let mut command = self.placed(command);
        command.args(options).args(["-n", "1", "sh", "-c", "echo started; exec sleep 1000"]);
        let mut running = Running::start(command);
        running.line_with("started").await;
        running
    }

    /// Whether `pmix ps` succeeds with this selection, and what it says.
    pub async fn ps(&self, command: Command, selection: &[&str]) -> (bool, String) {
        let mut command = self.placed(command);
        command.arg("ps").args(selection);
        let (status, out, err) = Running::start(command).end().await;
        (status.success(), out + &err)
    }
}
