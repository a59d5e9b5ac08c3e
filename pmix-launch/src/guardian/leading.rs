//! The launcher's handle of the leader of a job.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, shutdown};
use rustix::process::{Pid, Signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::wire::{News, Room, Task, from_report, offer, readable, receive};
use super::{Child, Handle, Shared, State, cgroup, lock};
use crate::tree::{self, Leftover};

/// How often to look for descendants that were started while others were killed.
const MAX_LOOKS: usize = 100;

/// When to look for the first time what a job has left behind: most leave nothing.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// The longest time between two such looks.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// How long daemons must be all that is left before they are killed.
const ALONE: Duration = Duration::from_secs(1);

/// A process that starts those of one job.
#[derive(Debug)]
pub(super) struct RunningLeader {
    /// No other one has it.
    pub(super) number: u64,
    handle: Handle,
    link: Arc<OwnedFd>,
    /// It has created this one, if it may.
    cgroup: Option<PathBuf>,
    /// Its guardian.
    generation: u64,
    asked: Mutex<Asked>,
    /// Says that it has ended, once it is [listened](Self::listen) to.
    over: watch::Sender<bool>,
}

/// Callers that wait for the start of a process, by the number of the order.
#[derive(Debug, Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<io::Result<Child>>>,
    /// It has ended.
    is_closed: bool,
}

pub(super) fn gone() -> io::Error {
    io::Error::other("the leader of the job has ended in the meantime: it was killed, or the log tells why")
}

pub(super) fn late(limit: Duration) -> io::Error {
    let reason = format!(
        "it did not start within {} s: another process holds a lease on the program or has stopped it, or its file system hangs",
        limit.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

impl RunningLeader {
    /// One with this number that the guardian of this generation has started, with the descriptors of the report.
    pub(super) fn new(
        number: u64,
        generation: u64,
        pid: i32,
        descriptors: Vec<OwnedFd>,
        cgroup: Option<OsString>,
    ) -> io::Result<Self> {
        let (Some(pid), Ok([link, pidfd])) = (Pid::from_raw(pid), <[OwnedFd; 2]>::try_from(descriptors))
        else {
            return Err(too_many_files());
        };
        let handle = Handle::new(pid, pidfd);
        let cgroup = cgroup.map(PathBuf::from);
        let (link, asked, over) = (Arc::new(link), Mutex::default(), watch::Sender::new(false));
        Ok(Self { number, handle, link, cgroup, generation, asked, over })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.handle.is_over()
    }

    /// Has it start a process.
    pub(super) fn ask(
        &self,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<oneshot::Receiver<io::Result<Child>>> {
        let (asks, answer) = oneshot::channel();
        let mut asked = lock(&self.asked);
        if asked.is_closed {
            return Err(gone());
        }
        asked.last += 1;
        let number = asked.last;
        // it has room for more than are asked for at a time, unless another user has stopped it
        offer(&*self.link, &Task::Start { number }, descriptors)?;
        asked.waiting.insert(number, asks);
        Ok(answer)
    }

    /// Nothing more will be started: it ends when it has no descendants any more.
    pub(super) fn dismiss(&self) {
        if let Err(error) = offer(&*self.link, &Task::Over, &[]) {
            tracing::debug!(%error, "the leader of a job has ended or is stopped");
            self.close();
        }
    }

    /// Makes it end its job.
    pub(super) fn close(&self) {
        let _ = shutdown(&*self.link, Shutdown::Write);
    }

    /// Kills all processes of its job, and the leader itself, which may be stopped: the guardian reports what it cannot.
    pub(super) fn kill(&self) {
        if self.has_ended() {
            self.cgroup.iter().for_each(|dir| cgroup::kill(dir));
            return;
        }
        // so that it becomes the parent of whatever is left when others are killed, and starts nothing
        self.handle.signal(Signal::STOP);
        let mut signalled = HashSet::new();
        for _ in 0..MAX_LOOKS {
            let mut new = tree::descendants(&[self.handle.pid()]);
            // one that a file system holds up stays, and starts nothing
            new.retain(|&seen| signalled.insert(seen));
            if new.is_empty() {
                break;
            }
            tree::signal_all(&new, Signal::KILL);
            if self.cgroup.is_some() {
                break;
            }
        }
        // at one moment, but not those whose first thread has ended
        if let Some(dir) = &self.cgroup {
            cgroup::kill(dir);
        }
        self.handle.signal(Signal::KILL);
    }

    /// Waits until the leader, which has been dismissed, has ended with the last process of its job. At the given moment, or when only
    /// daemons are left, which have gone to sessions of their own, kills what is left. Returns what it has killed.
    pub(super) async fn wind_up(self: Arc<Self>, moment: impl Future<Output = ()>) -> Vec<Leftover> {
        let mut over = self.over.subscribe();
        tokio::pin!(moment);
        let (mut pause, mut alone_since) = (FIRST_LOOK, None);
        loop {
            let is_over = tokio::select! {
                biased;
                _ = over.wait_for(|is_over| *is_over) => {
                    // nothing, unless its user has killed it
                    self.cgroup.iter().for_each(|dir| cgroup::kill(dir));
                    return Vec::new();
                }
                () = &mut moment => true,
                () = sleep_until(Instant::now() + pause) => false,
            };
            let leader = self.handle.pid();
            let left = aside(move || tree::leftovers(leader)).await.unwrap_or_default();
            // one that is just ending is no daemon
            let are_alone = !left.is_empty() && left.iter().all(|process| !process.is_in_session);
            alone_since = alone_since.or_else(|| Some(Instant::now())).filter(|_| are_alone);
            if is_over || alone_since.is_some_and(|since| since.elapsed() >= ALONE) {
                aside(move || self.kill()).await;
                return left;
            }
            pause = (2 * pause).min(LAST_LOOK);
        }
    }

    /// Kills it alone.
    pub(super) fn kill_it(&self) {
        self.handle.signal(Signal::KILL);
    }

    /// Handles its reports until it ends.
    pub(super) fn listen(leader: &Arc<Self>, shared: Arc<Shared>) -> io::Result<()> {
        let reports = readable(Arc::clone(&leader.link))?;
        let end = readable(leader.handle.pidfd())?;
        let leader = Arc::clone(leader);
        tokio::spawn(async move {
            let mut room = Room::new();
            while let Ok(mut ready) = reports.readable().await {
                match ready.try_io(|link| receive(link, &mut room, RecvFlags::DONTWAIT)) {
                    Ok(Ok(Some((report, descriptors)))) => leader.note(report, descriptors, &shared),
                    Ok(Ok(None)) => break,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the leader of a job has sent something else than a report");
                        leader.kill();
                        break;
                    }
                    Err(_would_block) => {}
                }
            }
            // a process that ends closes what it has open before its children have another parent
            let _ = end.readable().await;
            leader.ended(&shared);
            leader.over.send_replace(true);
        });
        Ok(())
    }

    fn note(&self, report: News, descriptors: Vec<OwnedFd>, shared: &Shared) {
        match report {
            News::Started { number, pid } => {
                let answer = match (Pid::from_raw(pid), descriptors.into_iter().next()) {
                    (Some(pid), Some(pidfd)) => {
                        let (told, end) = oneshot::channel();
                        shared.lock().children.insert((self.number, pid.as_raw_pid()), told);
                        Ok(Child::told(Handle::new(pid, pidfd), end))
                    }
                    _ => Err(too_many_files()),
                };
                self.answer(number, answer);
            }
            News::Failed { number, errno, reason } => self.answer(number, Err(from_report(errno, reason))),
            News::Ended { pid, status } => {
                let told = shared.lock().children.remove(&(self.number, pid));
                if let Some(told) = told {
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

    fn ended(&self, shared: &Shared) {
        let waiting = {
            let mut asked = lock(&self.asked);
            asked.is_closed = true;
            std::mem::take(&mut asked.waiting)
        };
        drop(waiting);
        let (known, unknown) = shared.lock().leader_ended(self.number, self.generation);
        for (told, status) in known {
            let _ = told.send(status);
        }
        drop(unknown);
    }
}

/// Those who wait for exit statuses that are known, and those who wait for a report that nobody will make.
type Left = (Vec<(oneshot::Sender<i32>, i32)>, Vec<oneshot::Sender<i32>>);

impl State {
    /// A leader has ended. If its guardian is still there, that reports the ends of its processes, and may have done so.
    fn leader_ended(&mut self, leader: u64, generation: u64) -> Left {
        self.leaders.remove(&leader);
        let is_its = |(number, _): &(u64, i32), _: &mut _| *number == leader;
        let waiting: Vec<_> = self.children.extract_if(is_its).collect();
        let is_reported = generation == self.generation && self.reports;
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for ((_, pid), told) in waiting {
            match self.early.remove(&pid) {
                Some(status) => known.push((told, status)),
                None if is_reported => drop(self.orphans.insert(pid, told)),
                None => unknown.push(told),
            }
        }
        let children: HashSet<_> = self.children.keys().map(|(_, pid)| *pid).collect();
        self.early.retain(|pid, _| children.contains(pid));
        (known, unknown)
    }
}

/// Looks through `/proc`, which may take a while, beside the tasks of this thread. `None` if that panics.
async fn aside<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok()
}

fn too_many_files() -> io::Error {
    io::Error::other("the launcher reached its limit of open files (ulimit -n)")
}
