//! Other users of the machine, as whom real processes run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::peers::{outside_allocations, skipped};
use crate::programs::built;

/// A user who is not the one that runs the tests: only root can become one, so without root there is none.
///
/// Nothing needs to be known of the user but the number; it has a directory of its own that all may read.
#[derive(Debug)]
pub struct OtherUser {
    /// User id and group id.
    pub uid: u32,
    home: TempDir,
}

impl OtherUser {
    /// The second user of the machine; `None`, with a line on standard error, without root.
    pub fn second() -> Option<Self> {
        Self::with_uid(4001)
    }

    /// A third, with a group of its own.
    pub fn third() -> Option<Self> {
        Self::with_uid(4002)
    }

    /// The user `nobody` of the databases: the libraries of MPI need one that has a name.
    pub fn nobody() -> Option<Self> {
        Self::with_uid(65534)
    }

    fn with_uid(uid: u32) -> Option<Self> {
        if !geteuid().is_root() {
            skipped("root to become another user");
            return None;
        }
        let home = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(home.path(), Some(uid), Some(uid)).unwrap();
        Some(Self { uid, home })
    }

    /// Its directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A copy of a program where this user may run it.
    pub fn copy_of(&self, program: &Path) -> PathBuf {
        let copy = self.home().join(program.file_name().unwrap());
        if !copy.exists() {
            // by another process: what this one has open for writing, its children have too, and nobody can run that
            let copied = Command::new("cp").arg(program).arg(&copy).status().unwrap();
            assert!(copied.success());
            fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        }
        copy
    }

    /// A command that this user runs, in its own directory, without further groups, and without variables that tell
    /// of a server of ours.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PMIX_")) {
            command.env_remove(name);
        }
        outside_allocations(&mut command);
        command.uid(self.uid).gid(self.uid).current_dir(self.home());
        command.env("HOME", self.home()).env("TMPDIR", self.home()).env("PMIX_SERVER_TMPDIR", self.home());
        command
    }

    /// A command of a shell, run by this user.
    pub fn command_line(&self, words: &str) -> Command {
        let mut command = self.command("/bin/sh");
        command.args(["-c", words]);
        command
    }

    /// `pmix-test-stranger`, run by this user: attacks a server as its arguments say.
    pub fn stranger(&self, args: &[&str]) -> Command {
        let mut command = self.command(self.copy_of(&built("pmix-test-stranger")));
        command.args(args);
        command
    }
}
