//! Processes that ranks left behind without their group: daemons, for instance.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

use crate::tree;

/// How long ended processes may take to be gone.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes this process the parent of what its descendants leave behind, so that [`end`] finds it.
pub(crate) fn adopt() {
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        tracing::debug!(%error, "no subreaper");
    }
}

/// Kills all that descends from this process, and waits until it is gone; tells each end. No child may have another owner.
pub(crate) fn end(mut tell: impl FnMut(Pid, WaitStatus) + Send + 'static) {
    let (done, gone) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        loop {
            // the children of those that die become ours: look again
            tree::signal_all(&tree::descendants(&[getpid()]), Signal::KILL);
            let mut ended = wait(WaitOptions::empty());
            // looking takes longer than waiting for those that have ended by now
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
        tracing::warn!("processes left behind by ranks do not end");
    }
}
