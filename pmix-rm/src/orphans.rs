//! Processes that ranks left behind outside their process group, such as daemons.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

use crate::tree;

/// Time for killed processes to end.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes this process the parent of orphans among its descendants, so that [`end`] finds them.
pub(crate) fn adopt() {
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        tracing::debug!(%error, "cannot become a subreaper");
    }
}

/// Kills all descendants of this process, waits for their end, and calls `tell` for each. Nothing else may wait for children.
pub(crate) fn end(tell: impl FnMut(Pid, WaitStatus) + Send + 'static) {
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

fn end_all(tell: &mut impl FnMut(Pid, WaitStatus)) {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => tell(pid, status),
            // without children there are no descendants: whatever they leave behind becomes a child of this process
            Err(Errno::CHILD) => break,
            _ => {
                // the children of killed processes become children of this one, so look again
                tree::signal_all(&tree::descendants(&[getpid()]), Signal::KILL);
                if let Ok(Some((pid, status))) = wait(WaitOptions::empty()) {
                    tell(pid, status);
                }
            }
        }
    }
}
