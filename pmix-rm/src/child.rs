//! A process that was started, whoever its parent is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use pmix_host::ProcExit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::sync::oneshot;

use crate::tree;

/// A process, named for good, also when its id goes to another one.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

/// A process whose end can be waited for. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    handle: Handle,
    end: End,
}

/// How its end is known.
#[derive(Debug)]
enum End {
    /// It is a child of this process.
    Own(tokio::process::Child),
    /// Its guardian tells, as the status that the system gave.
    Told(oneshot::Receiver<i32>),
}

impl Handle {
    pub(crate) fn new(pid: Pid, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd: Arc::new(pidfd) }
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&*self.pidfd, signal) {
            tracing::debug!(pid = self.pid.as_raw_pid(), %error, "process not signalled");
        }
    }

    /// Whether it has ended or cannot but end.
    pub(crate) fn has_ended(&self) -> bool {
        let mut ended = [PollFd::new(&*self.pidfd, PollFlags::IN)];
        // the second alone would believe another process that has got the same id
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
            || tree::is_exiting(self.pid)
    }
}

impl Child {
    /// A child of this process that nobody has waited for.
    pub(crate) fn own(child: tokio::process::Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("it has no process id"))?;
        // it cannot have been waited for yet, so the id is still its own
        let handle = Handle::new(pid, pidfd_open(pid, PidfdFlags::empty())?);
        Ok(Self { handle, end: End::Own(child) })
    }

    /// A child of a guardian, which tells of its end while it lives.
    pub(crate) const fn told(handle: Handle, end: oneshot::Receiver<i32>) -> Self {
        Self { handle, end: End::Told(end) }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// How it ended is not known: its guardian was killed, and this process has not become its parent thereby.
    pub(crate) async fn wait(&mut self) -> io::Result<ProcExit> {
        match &mut self.end {
            End::Own(child) => child.wait().await.map(ProcExit::from),
            End::Told(end) => match end.await {
                Ok(status) => Ok(ExitStatus::from_raw(status).into()),
                Err(_) => self.handle.inherited_end().await,
            },
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.handle.signal(Signal::KILL);
    }
}

impl Handle {
    /// The end of a process whose guardian was killed: where this process is the next subreaper, it is the parent now.
    async fn inherited_end(&self) -> io::Result<ProcExit> {
        let unknown = |_| io::Error::other("its guardian was killed, so that nobody knows how it ended");
        let (told, end) = oneshot::channel();
        let pidfd = Arc::clone(&self.pidfd);
        // happens so seldom that a thread for it is not too much
        std::thread::Builder::new().name("inherited".into()).spawn(move || {
            let mut ended = [PollFd::new(&*pidfd, PollFlags::IN)];
            while poll(&mut ended, None) == Err(Errno::INTR) {}
            let _ = told.send(waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED));
        })?;
        let status = end.await.map_err(io::Error::other)?.map_err(unknown)?;
        let status = status.ok_or(Errno::CHILD).map_err(unknown)?;
        let code = status.exit_status().map(ProcExit::Code);
        code.or_else(|| status.terminating_signal().map(ProcExit::Signal))
            .ok_or(Errno::CHILD)
            .map_err(unknown)
    }
}
