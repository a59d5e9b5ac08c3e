//! Other users of the machine, as whom real processes run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pmix_server::Account;
use pmix_types::{Gid, Uid};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::peers::{outside_allocations, skipped};
use crate::programs::program;

/// The first user id that is looked at for users of our own.
const FIRST: Uid = Uid::new(4001);

/// A user who is not the one that runs the tests: only root can become one, so without root there is none.
///
/// No database of the machine knows it, and no other process runs as it. It has a directory of its own that all
/// may read.
#[derive(Debug)]
pub struct OtherUser {
    /// Its user id.
    pub uid: Uid,
    /// The id of its group, which has the same number.
    pub gid: Gid,
    home: TempDir,
}

impl OtherUser {
    /// The second user of the machine; `None`, with a line on standard error, without root.
    pub fn second() -> Option<Self> {
        Self::with_uid(unknown_users()[0])
    }

    /// A third, with a group of its own.
    pub fn third() -> Option<Self> {
        Self::with_uid(unknown_users()[1])
    }

    /// A fourth, for one test alone, which may kill all that this user runs.
    pub fn fourth() -> Option<Self> {
        Self::with_uid(unknown_users()[2])
    }

    /// The user `nobody` of the databases: the libraries of MPI need one that has a name.
    pub fn nobody() -> Option<Self> {
        if Account::look_up(Uid::NOBODY, Gid::NOBODY).ok()?.name().is_none() {
            skipped("user nobody in the databases");
            return None;
        }
        Self::with_uid(Uid::NOBODY)
    }

    fn with_uid(uid: Uid) -> Option<Self> {
        if !geteuid().is_root() || !Account::can_be_assumed() {
            skipped("root to become another user");
            return None;
        }
        let gid = group_of(uid);
        // there may be a namespace without such a user, or files of root's own
        let mut enter = Command::new("sh");
        enter.args(["-c", "cd \"$0\""]).arg(std::env::temp_dir()).uid(uid.as_raw()).gid(gid.as_raw());
        if !enter.output().is_ok_and(|entered| entered.status.success()) {
            skipped("directory for temporary files that other users may enter");
            return None;
        }
        let home = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(home.path(), Some(uid.as_raw()), Some(gid.as_raw())).unwrap();
        Some(Self { uid, gid, home })
    }

    /// Its directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A copy of a program where this user may run it.
    pub fn copy_of(&self, program: &Path) -> PathBuf {
        let copy = self.home().join(program.file_name().unwrap());
        if !copy.exists() {
            // by another process: what this one has open for writing, its children have too, and that cannot be run
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
        command.uid(self.uid.as_raw()).gid(self.gid.as_raw()).current_dir(self.home());
        // what programs of the system say is compared
        command
            .env("LC_ALL", "C")
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .env("PMIX_SERVER_TMPDIR", self.home());
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
        let mut command = self.command(self.copy_of(&stranger_program()));
        command.args(args);
        command
    }
}

const fn group_of(uid: Uid) -> Gid {
    Gid::new(uid.as_raw())
}

/// The program that attacks a server as its arguments say.
pub fn stranger_program() -> PathBuf {
    program("pmix-test-stranger")
}

/// Three user ids that no database knows, and that no process had when this one first looked.
fn unknown_users() -> [Uid; 3] {
    static FOUND: OnceLock<[Uid; 3]> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let owner = |process: fs::DirEntry| process.metadata().ok().map(|process| Uid::new(process.uid()));
        let running: Vec<_> = fs::read_dir("/proc").unwrap().flatten().filter_map(owner).collect();
        let is_unknown =
            |uid: &Uid| Account::look_up(*uid, group_of(*uid)).is_ok_and(|account| account.name().is_none());
        let all = (FIRST.as_raw()..Uid::NOBODY.as_raw()).map(Uid::new);
        let mut free = all.filter(|uid| !running.contains(uid)).filter(is_unknown);
        [(); 3].map(|()| free.next().unwrap())
    })
}
