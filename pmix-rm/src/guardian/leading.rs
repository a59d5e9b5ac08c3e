//! The launcher's handle of the leader of a job.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, shutdown};
use rustix::process::{Pid, Signal};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::wire::{News, Room, Task, offer, receive};
use super::{Child, Handle, LeaderId, Shared, State, Waiting, cgroup, from_report, lock};
use crate::tree;

/// A process that starts those of one job.
#[derive(Debug)]
pub(super) struct Leader {
    handle: Handle,
    link: OwnedFd,
    /// It has created this one, if it may.
    cgroup: Option<PathBuf>,
    /// Its guardian.
    generation: u64,
    asked: Mutex<Asked>,
}

/// Callers that wait for the start of a process, by the number of the order.
#[derive(Debug, Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<io::Result<Child>>>,
    /// It has ended.
    is_closed: bool,
}

pub(super) fn killed() -> io::Error {
    io::Error::other("the leader of the job was killed in the meantime")
}

pub(super) fn late(limit: Duration) -> io::Error {
    let reason = format!(
        "it did not start within {} s: another process holds a lease on the program, or its file system hangs",
        limit.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

impl Leader {
    /// One that the guardian of this generation has started, with the descriptors of the report.
    pub(super) fn new(
        pid: i32,
        descriptors: Vec<OwnedFd>,
        cgroup: Option<OsString>,
        generation: u64,
    ) -> io::Result<Self> {
        let (Some(pid), Ok([link, pidfd])) = (Pid::from_raw(pid), <[OwnedFd; 2]>::try_from(descriptors))
        else {
            return Err(too_many_files());
        };
        let handle = Handle::new(pid, pidfd);
        let cgroup = cgroup.map(PathBuf::from);
        Ok(Self { handle, link, cgroup, generation, asked: Mutex::default() })
    }

    /// Has it start a process.
    pub(super) fn ask(
        &self,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<oneshot::Receiver<io::Result<Child>>> {
        let (asks, answer) = oneshot::channel();
        let mut asked = lock(&self.asked);
        if asked.is_closed {
            return Err(killed());
        }
        asked.last += 1;
        let number = asked.last;
        // it has room for more than are asked for at a time, unless another user has stopped it
        offer(&self.link, &Task::Start { number }, descriptors)?;
        asked.waiting.insert(number, asks);
        Ok(answer)
    }

    /// Nothing more will be started: it ends when it has no descendants any more.
    pub(super) fn dismiss(&self) {
        self.tell(&Task::Over);
    }

    /// Makes it end its job.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.link, Shutdown::Write);
    }

    fn tell(&self, order: &Task) {
        if let Err(error) = offer(&self.link, order, &[]) {
            tracing::debug!(%error, ?order, "cannot reach the leader of a job");
        }
    }

    /// Kills all processes of its job, and the leader itself, which may be stopped: the guardian reports what it cannot.
    pub(super) fn kill(&self) {
        if !self.cgroup.as_deref().is_some_and(cgroup::kill) && !self.handle.has_ended() {
            tree::signal_all(&tree::descendants(&[self.handle.pid()]), Signal::KILL);
            self.handle.signal(Signal::KILL);
        }
    }

    /// Handles its reports until it ends.
    pub(super) fn listen(leader: &Arc<Self>, shared: Arc<Shared>) -> io::Result<()> {
        // not used as a stream, only to wait until it is readable
        let reports = std::os::unix::net::UnixStream::from(leader.link.try_clone()?);
        reports.set_nonblocking(true)?;
        let reports = UnixStream::from_std(reports)?;
        let leader = Arc::clone(leader);
        tokio::spawn(async move {
            let mut room = Room::new();
            while reports.readable().await.is_ok() {
                let report = || receive(&leader.link, &mut room, RecvFlags::DONTWAIT);
                match reports.try_io(Interest::READABLE, report) {
                    Ok(Some((report, descriptors))) => leader.note(report, descriptors, &shared),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the leader of a job has sent something else than a report");
                        break;
                    }
                }
            }
            leader.has_ended(&shared);
        });
        Ok(())
    }

    fn note(&self, report: News, descriptors: Vec<OwnedFd>, shared: &Shared) {
        match report {
            News::Started { number, pid } => {
                let answer = match (Pid::from_raw(pid), descriptors.into_iter().next()) {
                    (Some(pid), Some(pidfd)) => {
                        let (told, end) = oneshot::channel();
                        let waiting = Waiting { leader: self.id(), is_alone: false, told };
                        shared.lock().children.insert(pid.as_raw_pid(), waiting);
                        Ok(Child::told(Handle::new(pid, pidfd), end))
                    }
                    _ => Err(too_many_files()),
                };
                self.answer(number, answer);
            }
            News::Failed { number, errno, reason } => self.answer(number, Err(from_report(errno, reason))),
            News::Ended { pid, status } => {
                let waiting = shared.lock().children.remove(&pid);
                if let Some(Waiting { told, .. }) = waiting {
                    let _ = told.send(status);
                }
            }
        }
    }

    /// A process that was started for a caller that has given up is dropped, which kills it.
    fn answer(&self, number: u64, answer: io::Result<Child>) {
        let asked = lock(&self.asked).waiting.remove(&number);
        if let Some(asked) = asked {
            let _ = asked.send(answer);
        }
    }

    fn has_ended(&self, shared: &Shared) {
        let waiting = {
            let mut asked = lock(&self.asked);
            asked.is_closed = true;
            std::mem::take(&mut asked.waiting)
        };
        drop(waiting);
        let (told, unknown) = shared.lock().leader_ended(self.id());
        for (told, status) in told {
            let _ = told.send(status);
        }
        drop(unknown);
    }

    pub(super) const fn id(&self) -> LeaderId {
        (self.handle.pid(), self.generation)
    }
}

impl State {
    /// A leader has ended. If its guardian is still there, that reports the ends of its processes, and may have done so. Returns
    /// those who wait for known exit statuses, and those who wait for a report that nobody will make.
    fn leader_ended(&mut self, leader: LeaderId) -> (Vec<(oneshot::Sender<i32>, i32)>, Vec<Waiting>) {
        self.leaders.remove(&leader);
        let is_its = |waiting: &Waiting| waiting.leader == leader;
        if leader.1 != self.generation || !self.reports {
            return (Vec::new(), self.take_children(is_its));
        }
        let mut told = Vec::new();
        for (pid, status) in std::mem::take(&mut self.early) {
            match self.children.remove(&pid) {
                Some(waiting) if is_its(&waiting) => told.push((waiting.told, status)),
                // it was another process of the same number
                Some(waiting) => drop(self.children.insert(pid, waiting)),
                None => self.early.push_back((pid, status)),
            }
        }
        self.children
            .values_mut()
            .filter(|waiting| is_its(waiting))
            .for_each(|waiting| waiting.is_alone = true);
        (told, Vec::new())
    }

    pub(super) fn take_children(&mut self, meant: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        self.children.extract_if(|_, waiting| meant(waiting)).map(|(_, waiting)| waiting).collect()
    }
}

fn too_many_files() -> io::Error {
    io::Error::other("the launcher reached its limit of open files (ulimit -n)")
}
