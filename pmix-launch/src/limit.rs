//! Limits of open files. That of this process says how many processes it can start. Where the server has raised it
//! (`ServerBuilder::raise_nofile`), started processes get the original one.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};

use pmix_types::Uid;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tokio::process::Child;

/// Files that this process has open for each process: a pidfd, and pipes for output and errors.
const FOR_EACH: u64 = 3;

/// Descriptors of this process for each process that another user may have here: of each, it has four, with the connection to the
/// server, so a user takes a quarter of them.
const SHARE: u64 = 16;

/// Fewer processes are not worth a look at the files that are open.
const MANY: usize = 64;

/// Files that other threads may open while the limit is low.
const SPARE: u64 = 64;

/// Held while the limit is lowered, as it applies to the whole process.
static LOWERED: Mutex<()> = Mutex::new(());

/// Checks, before the first process is started, that this process may open enough files for all of them; returns the reason if it may not.
pub(crate) fn lack(processes: usize) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current.filter(|_| processes >= MANY)?;
    let left = limit.saturating_sub(open_files()?);
    let needed = FOR_EACH.saturating_mul(processes as u64);
    (needed > left).then(|| {
        format!(
            "for {processes} processes the launcher needs {needed} open files, but may have only {left} more: raise the limit \
             (ulimit -Hn; ServerBuilder::raise_nofile), or use more hosts"
        )
    })
}

/// Checks that another user, who has `held` processes here, may have `new` ones; returns the reason if not.
pub(crate) fn lack_of_user(uid: Uid, held: usize, new: usize) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current?;
    let most = limit / SHARE;
    (held.saturating_add(new) as u64 > most).then(|| {
        format!(
            "uid {uid} may have {most} processes on a node, because each takes some of the {limit} files that the launcher may open, \
             and has {held}: wait for the end of other jobs, use more hosts, or have the limit of the launcher raised (ulimit -Hn)"
        )
    })
}

/// Starts a process of this user. It has the limit from the start, unless this process has so many open files that other
/// threads could fail to open one meanwhile.
pub(crate) fn spawn_own(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let has_room = |limit: &u64| open_files().is_some_and(|open| open + SPARE < *limit);
    let Some(limit) = pmix_server::inherited_file_limit().filter(has_room) else {
        return spawn_other(spawn);
    };
    let _alone = LOWERED.lock().unwrap_or_else(PoisonError::into_inner);
    let raised = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..raised }) {
        tracing::debug!(%error, "cannot lower the limit of open files for a process");
    }
    let spawned = spawn();
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit, "cannot raise the limit of open files again");
    }
    spawned
}

/// Starts a process of another user, who can delay the start: the limit is set a moment later.
pub(crate) fn spawn_other(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let child = spawn()?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let (Some(limit), Some(pid)) = (pmix_server::inherited_file_limit(), pid) {
        let lowered = Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) };
        if let Err(error) = prlimit(Some(pid), Resource::Nofile, lowered) {
            tracing::debug!(%error, "cannot lower the limit of open files of a process");
        }
    }
    Ok(child)
}

fn open_files() -> Option<u64> {
    fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64)
}
