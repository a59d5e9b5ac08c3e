//! The limit of open files of processes that are started here, whose server has raised its own: they get the one that this
//! process was given.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tokio::process::Child;

/// Files that other threads may open while the limit is low.
const SPARE: u64 = 64;

/// The limit is the whole process's.
static LOWERED: Mutex<()> = Mutex::new(());

/// Starts a process of this user: with the limit from its first moment, unless this process has so many files open that
/// others would fail to open theirs meanwhile.
pub(crate) fn spawn_own(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let Some(limit) = pmix_server::inherited_file_limit().filter(|limit| open_files() + SPARE < *limit)
    else {
        return spawn_other(spawn);
    };
    let _alone = LOWERED.lock().unwrap_or_else(PoisonError::into_inner);
    let raised = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..raised }) {
        tracing::debug!(%error, "the limit of open files stays raised for processes");
    }
    let spawned = spawn();
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit, "the limit of open files is not raised any more");
    }
    spawned
}

/// Starts a process of another user, who can make that take long: with the limit a moment later.
pub(crate) fn spawn_other(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let child = spawn()?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let (Some(limit), Some(pid)) = (pmix_server::inherited_file_limit(), pid) {
        let lowered = Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) };
        if let Err(error) = prlimit(Some(pid), Resource::Nofile, lowered) {
            tracing::debug!(%error, "the limit of open files stays raised for a process");
        }
    }
    Ok(child)
}

fn open_files() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(u64::MAX - SPARE, |files| files.count() as u64)
}
