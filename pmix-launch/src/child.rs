//! A started process, whether its parent is this process or the leader of its job.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use pmix_host::ProcExit;
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::sync::oneshot;

use crate::tree;

/// A process, identified by a pidfd so that reuse of its id does no harm.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

/// A process that can be waited for. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    handle: Handle,
    end: End,
}

/// Source of its exit status.
#[derive(Debug)]
enum End {
    /// It is a child of this process.
    Own(tokio::process::Child),
    /// The leader of its job reports it, or the guardian, as a wait status.
    Told(oneshot::Receiver<i32>),
}

impl Handle {
    pub(crate) fn new(pid: Pid, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd: Arc::new(pidfd) }
    }

    pub(crate) fn pidfd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.pidfd)
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&*self.pidfd, signal) {
            tracing::debug!(pid = self.pid.as_raw_pid(), %error, "cannot signal a process");
        }
    }

    /// Whether it has ended, or is exiting.
    pub(crate) fn has_ended(&self) -> bool {
        // the pid alone might belong to another process by now
        self.is_over() || tree::is_exiting(self.pid)
    }

    /// Whether it has ended. One call of the system.
    pub(crate) fn is_over(&self) -> bool {
        let mut ended = [PollFd::new(&*self.pidfd, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }
}

impl Handle {
    /// Returns how a process has ended whose parent cannot wait for it: as `/proc` shows it, or as killed if it does not.
    pub(crate) fn seen_end(&self) -> ProcExit {
        let stat = Process::new(self.pid.as_raw_pid()).and_then(|process| process.stat());
        match stat.ok().filter(|_| self.is_over()).and_then(|stat| stat.exit_code) {
            Some(status) => ExitStatus::from_raw(status).into(),
            None => ProcExit::Signal(Signal::KILL.as_raw()),
        }
    }
}

impl Child {
    /// A child of this process that has not been waited for.
    pub(crate) fn own(child: tokio::process::Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the child has no process id"))?;
        // it has not been waited for, so the id is still its own
        let handle = Handle::new(pid, pidfd_open(pid, PidfdFlags::empty())?);
        Ok(Self { handle, end: End::Own(child) })
    }

    /// A child of a leader, which reports its end.
    pub(crate) const fn told(handle: Handle, end: oneshot::Receiver<i32>) -> Self {
        Self { handle, end: End::Told(end) }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The exit status is unknown: leader and guardian were killed, and this process has not become the parent.
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
    /// Waits for a process whose leader and guardian were killed. This process is its parent now, if it is the next subreaper.
    async fn inherited_end(&self) -> io::Result<ProcExit> {
        let unknown = |_| {
            io::Error::other(
                "the leader of its job and the guardian were killed, so its exit status is unknown",
            )
        };
        let (told, end) = oneshot::channel();
        let pidfd = Arc::clone(&self.pidfd);
        // rare enough to spend a thread on
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
