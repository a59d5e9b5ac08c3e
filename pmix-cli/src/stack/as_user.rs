//! Programs that read what belongs to a process of another user run as that user: what they are made to open may be hostile.
//!
//! Such a program could itself be traced by the user, so it has nothing of root's: no capability, group, variable, session, terminal or
//! keyring. This program starts itself once more for that, because it has to become the user before the other program begins.

use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use keyutils::Keyring;
use nix::unistd::{close, setgroups, setresgid, setresuid};
use pmix_types::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior, setsid};

use super::super::output::complain;

/// The first argument of a process that is to become another user and run another program.
pub(crate) const AS: &str = "__as";

/// The user and the groups of a process, its own one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Uid,
    pub(super) groups: Vec<Gid>,
}

impl Owner {
    /// Whether programs are to run as this user: it is not the one that runs this one, which is root.
    pub(super) fn is_another(&self) -> bool {
        geteuid().is_root() && !self.uid.is_root()
    }

    /// Runs a program with the permissions of this user, or with those of this process if that is not root's.
    pub(super) fn command(&self, program: &Path) -> Command {
        if !self.is_another() {
            return Command::new(program);
        }
        let mut command = Command::new("/proc/self/exe");
        let groups: Vec<_> = self.groups.iter().map(Gid::to_string).collect();
        command.args([AS, &self.uid.to_string(), &groups.join(",")]).arg(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir("/");
        command
    }
}

/// Becomes the user that the arguments name, and runs the program that follows them.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut text = || args.next()?.into_string().ok();
    let uid = text().and_then(|uid| uid.parse().ok());
    let groups: Option<Vec<Gid>> =
        text().and_then(|groups| groups.split(',').map(|gid| gid.parse().ok()).collect());
    let (Some(uid), Some(groups), Some(program)) = (uid, groups, args.next()) else {
        complain(&format!("{AS}: a user, groups and a program are missing"));
        return ExitCode::from(2);
    };
    let failed = match close_all().and_then(|()| assume(uid, &groups)) {
        Ok(()) => Command::new(&program).args(args).exec(),
        Err(error) => error,
    };
    complain(&format!("{} cannot run as uid {uid}: {failed}", Path::new(&program).display()));
    ExitCode::FAILURE
}

/// Closes what root's shell has left open besides standard input, output and error.
fn close_all() -> io::Result<()> {
    let numbers = |file: io::Result<DirEntry>| file.ok()?.file_name().to_str()?.parse::<RawFd>().ok();
    let open: Vec<_> = fs::read_dir("/proc/self/fd")?.filter_map(numbers).filter(|fd| *fd > 2).collect();
    for fd in open {
        // one of them was that of the directory
        let _ = close(fd);
    }
    Ok(())
}

fn assume(uid: Uid, groups: &[Gid]) -> io::Result<()> {
    let uid = nix::unistd::Uid::from_raw(uid.as_raw());
    let groups: Vec<_> = groups.iter().map(|gid| nix::unistd::Gid::from_raw(gid.as_raw())).collect();
    let gid = *groups.first().ok_or(io::ErrorKind::InvalidInput)?;
    setsid()?;
    leave_keyring()?;
    setgroups(&groups)?;
    setresgid(gid, gid, gid)?;
    // drops all capabilities
    setresuid(uid, uid, uid)?;
    // whatever `fs.suid_dumpable` says, nobody traces this program until it is the other one
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Leaves the session keyring, which is root's. Some kernels and containers have none.
fn leave_keyring() -> io::Result<()> {
    match Keyring::join_anonymous_session() {
        Err(error) if ![Errno::NOSYS, Errno::PERM].contains(&Errno::from_raw_os_error(error.0)) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
