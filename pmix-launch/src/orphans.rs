//! Processes that ranks left behind outside their process group, such as daemons.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getpid, set_child_subreaper, wait, waitid,
    waitpid,
};

use crate::tree;

/// The first argument of a program that is to call [`run_guardian`](crate::run_guardian).
pub const GUARDIAN_COMMAND: &str = "__guardian";

/// Time for killed processes to end.
const LIMIT: Duration = Duration::from_secs(2);
/// Time for guardians to end what daemons have left that were killed, and to remove their directories.
const GUARDIANS: Duration = Duration::from_secs(5);

/// Makes this process the parent of orphans among its descendants, so that [`end_orphans`] finds them.
pub fn adopt_orphans() {
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        tracing::debug!(%error, "cannot become a subreaper");
    }
}

/// Kills all descendants of this process and waits for their end, up to a few seconds. Guardians among them whose only argument is
/// [`GUARDIAN_COMMAND`], such as those of launchers that were killed, have time to clean up before. Nothing else may wait for children of this process.
pub fn end_orphans() {
    let until = Instant::now() + GUARDIANS;
    while children().into_iter().any(is_guardian) && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    end(|_, _| ());
}

/// Whether a process runs as a guardian. Whatever else calls itself so gains a moment.
fn is_guardian(pid: Pid) -> bool {
    let words = Process::new(pid.as_raw_pid()).and_then(|process| process.cmdline());
    words.is_ok_and(|words| words.len() == 2 && words[1] == GUARDIAN_COMMAND)
}

/// Kills all descendants of this process, waits for their end, and calls `tell` for each. Nothing else may wait for children.
pub(crate) fn end(tell: impl FnMut(Pid, i32) + Send + 'static) {
    let (done, gone) = std::sync::mpsc::channel();
    let tell = Arc::new(Mutex::new(tell));
    let own = Arc::clone(&tell);
    let thread = std::thread::Builder::new().spawn(move || {
        end_all(&mut *own.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = done.send(());
    });
    if thread.is_err() {
        // its user has as many threads as it may have: better to hang than to leave them
        end_all(&mut *tell.lock().unwrap_or_else(PoisonError::into_inner));
    } else if gone.recv_timeout(LIMIT).is_err() {
        tracing::warn!("processes left behind by ranks did not end");
    }
}

fn end_all(tell: &mut impl FnMut(Pid, i32)) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        // told before it is waited for: if this process is killed in between, its next subreaper tells it again
        let ended = children().into_iter().find_map(|pid| {
            let status = waitid(WaitId::Pid(pid), look | WaitIdOptions::NOHANG).ok()??;
            Some((pid, raw(&status)))
        });
        if let Some((pid, status)) = ended {
            tell(pid, status);
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            continue;
        }
        match wait(WaitOptions::NOHANG) {
            // a system that does not list children
            Ok(Some((pid, status))) => tell(pid, status.as_raw()),
            // without children there are no descendants: whatever they leave behind becomes a child of this process
            Err(Errno::CHILD) => break,
            _ => {
                // the children of killed processes become children of this one, so look again
                tree::signal_all(&tree::descendants(&[getpid()]), Signal::KILL);
                let _ = waitid(WaitId::All, look);
            }
        }
    }
}

/// The children of this process, as far as its first thread has them.
pub(crate) fn children() -> Vec<Pid> {
    let task = Process::myself().and_then(|process| process.task_main_thread());
    let children = task.and_then(|task| task.children()).unwrap_or_default();
    children.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}

/// As `wait` gives it, but for whether there is a core dump.
pub(crate) fn raw(status: &WaitIdStatus) -> i32 {
    status.exit_status().map(|code| code << 8).or_else(|| status.terminating_signal()).unwrap_or_default()
}
