//! The limit of open files of started processes. The server raises that of this process; started processes get the original
//! one.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tokio::process::Child;

/// Files that other threads may open while the limit is low.
const SPARE: u64 = 64;

/// Held while the limit is lowered, as it applies to the whole process.
static LOWERED: Mutex<()> = Mutex::new(());

/// Starts a process of this user. It has the limit from the start, unless this process has so many open files that other
/// threads could fail to open one meanwhile.
pub(crate) fn spawn_own(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let Some(limit) = pmix_server::inherited_file_limit().filter(|limit| open_files() + SPARE < *limit)
    else {
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

fn open_files() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(u64::MAX - SPARE, |files| files.count() as u64)
}
