//! The guardian: a process that survives a killed launcher, and ends the launcher's processes.
//!
//! A launcher starts the guardian before the first process of a job. For each job the guardian starts a *leader*, ahead of time,
//! which starts the processes of the job: they are its children, and each leads a process group. A leader has a cgroup where cgroup
//! v2 is delegated. Unless the jobs belong to the launcher's session ([`JobSession`]), it also leads a session. The leader of another
//! user's job becomes a process of that user, with a session keyring of its own. So a job reaches no other by `kill 0`, and none of
//! another user by `SIGCONT` or by keys. Guardian and leaders are subreapers, so orphans of a job become children of its leader.
//!
//! Launcher, guardian and leaders communicate over socket pairs ([`wire`]). When the launcher ends in any way, each leader reads the
//! end of its stream and kills its job; the guardian does too, kills all its descendants, and removes the directories that it
//! protects. It also kills all jobs while the launcher is silent for too long ([`life`]), and then goes on. If a leader is killed, the
//! guardian becomes the parent of its processes, which continue to run unless they are stopped, and reports their ends. When the
//! guardian is killed, the launcher starts another one, and jobs with a leader notice nothing. The new guardian finds processes
//! without a leader by their cgroup and a [`mark`] in their environment; the launcher learns their exit status if it is the next
//! subreaper, as `pmixrun` is.

mod cgroup;
mod leader;
mod leading;
mod life;
mod mark;
mod process;
mod start;
mod starting;
mod wire;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::child::{Child, Handle};
use crate::recipe::Recipe;
use crate::tree::Leftover;
use leading::RunningLeader;
use life::Life;
use mark::Mark;
use starting::{ReadyGuardian, Starting};
use wire::{Order, Report, Room, from_report, notify, receive, send};

pub use process::run;

/// Time limit for a guardian to become ready, to receive its dismissal, and to end after it.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// How long the guardian may start no leader while jobs wait for one. A job may have to wait until the leaders of others have been
/// started.
const LEADER_LIMIT: Duration = Duration::from_secs(30);

/// Time limit for the start of a process of another user, who can block it (by a lease on the program, or by a stop signal).
const START_LIMIT: Duration = Duration::from_secs(10);

/// The same for a process of the launcher's own user, whose program may be on a slow file system.
const OWN_START_LIMIT: Duration = Duration::from_secs(120);

/// The session of a job's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobSession {
    /// Each job has its own: its processes have no terminal, and processes of other jobs cannot continue them when they are stopped.
    Own,
    /// Jobs belong to the session of the launcher, so that their processes can open its terminal.
    Launchers,
}

/// The launcher's handle of its guardian. When it is dropped, guardian and leaders act as if the launcher had died.
#[derive(Debug)]
pub struct Guardian {
    mark: Mark,
    shared: Arc<Shared>,
}

/// State shared by the launcher, the thread that watches the guardian, and the tasks that read from leaders.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified, for threads and for tasks, when a killed guardian has been replaced or will not be, and when there is a leader for
    /// another job.
    settled: Condvar,
    notify: Notify,
    life: Life,
}

/// The launcher's view of the current guardian.
#[derive(Debug)]
struct State {
    process: Option<Process>,
    /// Connection to it; `None` if it is gone or being replaced.
    link: Option<Arc<OwnedFd>>,
    /// It or a replacement is being started. The state is not locked meanwhile, as the start may hang.
    is_starting: bool,
    /// Why there is none.
    failure: Option<io::Error>,
    /// The launcher has dismissed it.
    is_dismissed: bool,
    /// How many guardians there were before.
    generation: u64,
    /// The guardian of this generation may still report ends.
    reports: bool,
    /// How many leaders there have been.
    led: u64,
    /// Directories to remove.
    dirs: Vec<PathBuf>,
    /// For the next job: its leader, or why there is none.
    spare: Option<io::Result<RunningLeader>>,
    /// The guardian is about to start one.
    is_coming: bool,
    /// Whether it is started as soon as the one before has a job: most launchers that share their session have a single job.
    is_ahead: bool,
    /// Leaders of jobs that have not ended.
    jobs: HashMap<String, Arc<RunningLeader>>,
    /// All leaders of jobs, also of those that have ended and left something behind.
    leaders: HashMap<u64, Arc<RunningLeader>>,
    /// Who waits for the exit statuses of processes, by the number of their leader and their process id.
    children: HashMap<(u64, i32), oneshot::Sender<i32>>,
    /// Those whose leaders were killed: the guardian reports them.
    orphans: HashMap<i32, oneshot::Sender<i32>>,
    /// Ends that the guardian has reported of processes of a killed leader whose last reports have not been read.
    early: HashMap<i32, i32>,
}

impl Guardian {
    /// Starts a guardian with a command that calls [`run`], and waits up to ten seconds until it is ready. The same command starts
    /// a replacement if the guardian is killed. The guardian starts leaders by its own program (`/proc/self/exe`), with its arguments
    /// and one more, `leader`, and with an empty environment: these, too, must make the program call [`run`].
    ///
    /// # Errors
    /// The command could not be started, or it did not call [`run`] in time.
    pub fn start(command: Command, session: JobSession) -> io::Result<Self> {
        let guardian = Self::begin(command, session)?;
        guardian.ready()?;
        Ok(guardian)
    }

    /// As [`start`](Self::start), without waiting. Directories and processes can be given to it before it is [`ready`](Self::ready).
    ///
    /// # Errors
    /// The command, or the thread that watches the guardian, could not be started.
    pub fn begin(mut command: Command, session: JobSession) -> io::Result<Self> {
        let mark = Mark::new();
        command.env(mark::VARIABLE, mark.value());
        let life = Life::new()?;
        let starting = Starting::new(&mut command, session, false, &life)?;
        let state = State {
            process: None,
            link: None,
            is_starting: true,
            failure: None,
            is_dismissed: false,
            generation: 0,
            reports: true,
            led: 0,
            dirs: Vec::new(),
            spare: None,
            is_coming: true,
            is_ahead: session == JobSession::Own,
            jobs: HashMap::new(),
            leaders: HashMap::new(),
            children: HashMap::new(),
            orphans: HashMap::new(),
            early: HashMap::new(),
        };
        let (state, notify) = (Mutex::new(state), Notify::new());
        let shared = Arc::new(Shared { state, settled: Condvar::new(), notify, life });
        let guardian = Self { mark, shared: Arc::clone(&shared) };
        let watch = move || shared.watch(starting, &mut command, session);
        thread::Builder::new().name("guardian".into()).spawn(watch)?;
        Ok(guardian)
    }

    /// Blocks this thread until it is ready, ten seconds at most.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn ready(&self) -> io::Result<()> {
        let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        self.shared.settle_blocking().failure.as_ref().map_or(Ok(()), |error| Err(copy(error)))
    }

    /// Makes it remove the directory of a server if the launcher ends without [`finish`](Self::finish).
    ///
    /// # Errors
    /// The guardian is gone.
    pub fn protect(&self, dir: &Path) -> io::Result<()> {
        let dir = std::path::absolute(dir)?;
        let link = {
            let mut state = self.shared.lock();
            state.dirs.push(dir.clone());
            if state.is_starting {
                // its replacement will be told
                return Ok(());
            }
            state.link()?
        };
        // if this one has just died, its replacement is told
        notify(&link, &Order::Protect(dir.into_os_string()));
        Ok(())
    }

    /// The process id of the current guardian process; `None` while it is being replaced, and when it is gone.
    pub fn pid(&self) -> Option<Pid> {
        self.shared.lock().process.as_ref().map(Pid::from_child)
    }

    /// The environment variable that marks its processes.
    pub(crate) fn mark(&self) -> (OsString, OsString) {
        (mark::VARIABLE.into(), self.mark.value())
    }

    /// Starts a process of a job with these standard streams, and a socket for PMI-1 to inherit. Waits for the leader of the job,
    /// which the first of its processes needs, and while the guardian is being replaced.
    ///
    /// # Errors
    /// As [`Command::spawn`]; or guardian or leader are gone or do not answer; or another user has blocked the start for ten seconds.
    ///
    /// # Cancel safety
    /// A process that is started after this was dropped is killed.
    pub(crate) async fn spawn(
        &self,
        job: &str,
        recipe: &Recipe,
        streams: [OwnedFd; 3],
        pmi1: Option<OwnedFd>,
    ) -> io::Result<Child> {
        let mut file = File::from(memfd_create("recipe", MemfdFlags::CLOEXEC)?);
        file.write_all(&recipe.to_bytes()?)?;
        let here = openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let [stdin, stdout, stderr] = &streams;
        let streams_of_it = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let descriptors: Vec<_> = [file.as_fd(), here.as_fd()]
            .into_iter()
            .chain(streams_of_it)
            .chain(pmi1.as_ref().map(AsFd::as_fd))
            .collect();
        let leader = self.shared.leader(job).await?;
        let answer = leader.ask(&descriptors)?;
        // only the process has its end of the socket now
        drop((streams, pmi1));
        let limit = if recipe.user.is_some() { START_LIMIT } else { OWN_START_LIMIT };
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(leading::gone())),
            Err(_) => {
                leader.kill();
                Err(leading::late(limit))
            }
        }
    }

    /// Kills all processes of a job, also those that have left their process group.
    pub(crate) fn kill(&self, job: &str) {
        let leader = self.shared.lock().jobs.get(job).cloned();
        if let Some(leader) = leader {
            leader.kill();
        }
    }

    /// Kills the leader of a job, which does not report the ends of its processes: the guardian does it.
    pub(crate) fn kill_leader(&self, job: &str) {
        let leader = self.shared.lock().jobs.get(job).cloned();
        if let Some(leader) = leader {
            leader.kill_it();
        }
    }

    /// A job has ended, on this node: its leader ends with the last of its descendants.
    pub(crate) fn ended(&self, job: &str) {
        let leader = self.shared.lock().jobs.remove(job);
        if let Some(leader) = leader {
            leader.dismiss();
        }
    }

    /// The processes of a job have ended, on this node: waits for what they have left behind, and kills what is left at this moment.
    /// Returns what was killed.
    pub(crate) fn wind_up<M: Future<Output = ()>>(
        &self,
        job: &str,
        moment: M,
    ) -> impl Future<Output = Vec<Leftover>> + use<M> {
        let leader = self.shared.lock().jobs.remove(job);
        async move {
            let Some(leader) = leader else { return Vec::new() };
            leader.dismiss();
            leader.wind_up(moment).await
        }
    }

    /// Dismisses the guardian: it kills the rest of its processes, removes no directories, and ends. Blocks until it has
    /// ended. A second call does nothing.
    ///
    /// # Errors
    /// Waiting for the process failed.
    pub fn finish(&self) -> io::Result<()> {
        let finished = self.dismiss();
        self.shared.release();
        finished
    }

    fn dismiss(&self) -> io::Result<()> {
        let (process, link) = {
            let mut state = self.shared.settle_blocking();
            state.is_dismissed = true;
            (state.process.take(), state.link.take())
        };
        let Some(mut process) = process else { return Ok(()) };
        let group = Pid::from_child(&process);
        let told = link.map(|link| {
            let takes_orders = is_ready(PollFd::new(&*link, PollFlags::OUT))?;
            takes_orders.then(|| send(&*link, &Order::Finish, &[])).ok_or(io::ErrorKind::TimedOut)?
        });
        if told.is_none_or(|told| told.is_err()) {
            tracing::warn!("the guardian ended before the launcher");
            // nobody has waited for it yet, so the id still belongs to its group
            let _ = kill_process_group(group, Signal::KILL);
        }
        let pidfd = pidfd_open(group, PidfdFlags::empty())?;
        if !is_ready(PollFd::new(&pidfd, PollFlags::IN))? {
            tracing::warn!(pid = process.id(), "the guardian does not end; killing its process group");
            let _ = kill_process_group(group, Signal::KILL);
        }
        process.wait()?;
        Ok(())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let link = {
            let mut state = self.shared.lock();
            state.is_dismissed = true;
            state.link.take()
        };
        if let Some(link) = link {
            // it may still report exit statuses
            let _ = shutdown(&*link, Shutdown::Write);
        }
        self.shared.release();
    }
}

impl State {
    fn link(&self) -> io::Result<Arc<OwnedFd>> {
        self.link.clone().ok_or_else(|| io::Error::other("the guardian is gone"))
    }

    /// Takes note of a report of the guardian; returns who waits for the exit status in it.
    fn note(&mut self, report: Report, descriptors: Vec<OwnedFd>) -> Option<(oneshot::Sender<i32>, i32)> {
        match report {
            Report::Ready => {}
            Report::Silent { seconds } => {
                tracing::error!("silent for {seconds} s: the guardian has ended all processes");
            }
            Report::Leader { pid, cgroup } => {
                self.is_coming = false;
                self.led += 1;
                let leader = RunningLeader::new(self.led, self.generation, pid, descriptors, cgroup);
                self.spare = Some(leader).filter(|_| !self.is_dismissed);
            }
            Report::NoLeader { errno, reason } => {
                self.is_coming = false;
                self.spare = Some(Err(from_report(errno, reason)));
            }
            Report::Ended { pid, status } => {
                if let Some(told) = self.orphans.remove(&pid) {
                    return Some((told, status));
                }
                // its leader is ending: that may not be seen yet
                if self.children.keys().any(|(_, child)| *child == pid) {
                    self.early.insert(pid, status);
                }
            }
        }
        None
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The same as [`State::is_starting`] for threads; returns the locked state.
    fn settle_blocking(&self) -> MutexGuard<'_, State> {
        let settled = self.settled.wait_while(self.lock(), |state| state.is_starting);
        settled.unwrap_or_else(PoisonError::into_inner)
    }

    /// The leader of a job; for a new job the one that is there for it, as soon as there is one. Cancel-safe.
    async fn leader(self: &Arc<Self>, job: &str) -> io::Result<Arc<RunningLeader>> {
        // one that has failed since it was started says nothing about the next
        let mut is_last = false;
        loop {
            let changed = self.notify.notified();
            match self.leader_now(job)? {
                Some(Err(error)) if is_last => return Err(error),
                Some(Err(_)) => {
                    is_last = true;
                    continue;
                }
                Some(Ok(leader)) => return Ok(leader),
                None => {}
            }
            if tokio::time::timeout(LEADER_LIMIT, changed).await.is_err() {
                let problem = format!(
                    "the guardian has not started a leader for {} s: it hangs or is stopped",
                    LEADER_LIMIT.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
        }
    }

    /// The same, if it is there. Otherwise another one is being started; after the failure of one, when this is called again.
    fn leader_now(self: &Arc<Self>, job: &str) -> io::Result<Option<io::Result<Arc<RunningLeader>>>> {
        let mut state = self.lock();
        if let Some(leader) = state.jobs.get(job) {
            return Ok(Some(Ok(Arc::clone(leader))));
        }
        if state.is_starting {
            return Ok(None);
        }
        let link = state.link()?;
        let spare = state.spare.take();
        let asks = !state.is_coming && (spare.is_none() || state.is_ahead);
        state.is_coming |= asks;
        let leader = spare.map(|spare| {
            let leader =
                spare.and_then(|leader| if leader.has_ended() { Err(leading::gone()) } else { Ok(leader) });
            leader.map(Arc::new)
        });
        if let Some(Ok(leader)) = &leader {
            state.jobs.insert(job.to_owned(), Arc::clone(leader));
            state.leaders.insert(leader.number, Arc::clone(leader));
        }
        drop(state);
        if asks {
            notify(&link, &Order::Lead);
        }
        let leader = match leader {
            None => return Ok(None),
            Some(Err(error)) => return Ok(Some(Err(error))),
            Some(Ok(leader)) => leader,
        };
        if let Err(error) = RunningLeader::listen(&leader, Arc::clone(self)) {
            let mut state = self.lock();
            state.jobs.remove(job);
            state.leaders.remove(&leader.number);
            return Ok(Some(Err(error)));
        }
        Ok(Some(Ok(leader)))
    }

    /// Closes the links to all leaders, which makes them end their jobs.
    fn release(&self) {
        let mut state = self.lock();
        state.is_dismissed = true;
        state.leaders.values().for_each(|leader| leader.close());
        state.jobs.clear();
        state.spare = None;
    }

    /// Handles the reports of the guardian and its replacements until the last one is gone.
    fn watch(&self, first: Starting, command: &mut Command, session: JobSession) {
        let mut link = match first.ready() {
            Ok(started) => Some(self.is_there(started)),
            Err(error) => {
                let mut state = self.lock();
                (state.is_starting, state.failure) = (false, Some(error));
                None
            }
        };
        let mut room = Room::new();
        loop {
            self.tell_all();
            let Some(open) = link else { return };
            while let Ok(Some((report, descriptors))) = receive(&*open, &mut room, RecvFlags::empty()) {
                let is_new = matches!(report, Report::Leader { .. } | Report::NoLeader { .. });
                let ended = self.lock().note(report, descriptors);
                // not locked: whoever is woken needs the state at once
                if let Some((told, status)) = ended {
                    let _ = told.send(status);
                }
                if is_new {
                    self.tell_all();
                }
            }
            drop(open);
            link = self.replace(command, session);
        }
    }

    fn tell_all(&self) {
        self.settled.notify_all();
        self.notify.notify_waiters();
    }

    /// Keeps a guardian that is ready, and returns the connection to it.
    fn is_there(&self, started: ReadyGuardian) -> Arc<OwnedFd> {
        let ReadyGuardian { process, link } = started;
        let link = Arc::new(link);
        let mut state = self.lock();
        (state.is_starting, state.reports) = (false, true);
        for dir in &state.dirs {
            notify(&link, &Order::Protect(dir.clone().into_os_string()));
        }
        state.process = Some(process);
        if state.is_dismissed {
            // the launcher was dropped in the meantime
            let _ = shutdown(&*link, Shutdown::Write);
        } else {
            state.link = Some(Arc::clone(&link));
        }
        link
    }

    /// Replaces a killed guardian and returns the connection to the new one; `None` if there is none.
    fn replace(&self, command: &mut Command, session: JobSession) -> Option<Arc<OwnedFd>> {
        let (unknown, dead) = {
            let mut state = self.lock();
            state.reports = false;
            let dead = state.process.take().map(|dead| (dead, state.link.take().is_some()));
            if dead.as_ref().is_some_and(|(_, is_wanted)| *is_wanted) {
                state.is_starting = true;
                // the leader that is there for the next job would not be its child
                state.spare = None;
                state.is_coming = true;
                state.generation += 1;
            }
            (std::mem::take(&mut state.orphans), dead)
        };
        let reaped = dead.map(|(mut dead, is_wanted)| {
            if is_wanted {
                // it may have closed only its connection
                let _ = dead.kill();
            }
            let _ = dead.wait();
            (dead.id(), is_wanted)
        });
        // nobody reports their ends any more; they have another parent by now
        drop(unknown);
        let (dead, true) = reaped? else { return None };
        let started = Starting::new(command, session, true, &self.life).and_then(Starting::ready);
        match started {
            Ok(started) => {
                let link = self.is_there(started);
                tracing::warn!(pid = dead, "the guardian was killed and has been replaced");
                Some(link)
            }
            Err(error) => {
                self.lock().is_starting = false;
                tracing::error!(%error, "the guardian was killed and could not be replaced: no other job can be \
                    started, and if this process is killed too, its directories remain");
                None
            }
        }
    }
}

/// Whether a descriptor becomes ready within the time limit of the guardian.
fn is_ready(descriptor: PollFd<'_>) -> io::Result<bool> {
    let mut descriptors = [descriptor];
    loop {
        match poll(&mut descriptors, Some(&TIME_LIMIT)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_no_guardian_is_an_error() {
        let error = Guardian::start(Command::new("/bin/true"), JobSession::Own).unwrap_err();
        assert!(error.to_string().contains("before it was ready"), "{error}");
    }
}
