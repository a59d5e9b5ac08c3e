//! Processes that ranks left behind outside their process group, such as daemons.

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
pub(crate) fn end(mut tell: impl FnMut(Pid, WaitStatus) + Send + 'static) {
    let (done, gone) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        loop {
            // the children of killed processes become children of this one, so look again
            tree::signal_all(&tree::descendants(&[getpid()]), Signal::KILL);
            let mut ended = wait(WaitOptions::empty());
            // a look takes longer than waiting for those that have ended
            while let Ok(Some((pid, status))) = ended {
                tell(pid, status);
                ended = wait(WaitOptions::NOHANG);
            }
            if matches!(ended, Err(Errno::CHILD)) {
                break;
            }
        }
        let _ = done.send(());
    });
    if gone.recv_timeout(LIMIT).is_err() {
        tracing::warn!("processes left behind by ranks did not end");
    }
}
