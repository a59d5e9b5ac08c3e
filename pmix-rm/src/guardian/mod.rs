//! The guardian: a process that survives a killed launcher, and ends the launcher's processes.
//!
//! A launcher starts the guardian before the first process of a job, and starts all processes through it. They are children
//! of the guardian and in the process group that it leads. It is also their subreaper, so it becomes the parent of orphans
//! among their descendants, even in another group or session. Where cgroup v2 is delegated, each job has its own cgroup.
//!
//! Launcher and guardian communicate over a socket pair ([`wire`]). When the launcher ends in any way, the guardian reads
//! the end of the stream. It kills all its descendants, removes the directories that it protects, and kills its group
//! including itself. When the guardian is killed, the launcher starts another one in the same group. The processes cannot
//! become children of the new guardian, which finds them by their group, their cgroups, and a [`mark`] in their environment.
//! They continue to run, and the launcher learns their exit status if it is the next subreaper, as `pmixrun` is.

mod cgroup;
mod mark;
mod process;
mod start;
mod starting;
mod wire;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::sync::{Notify, oneshot};

use crate::child::{Child, Handle};
use crate::recipe::Recipe;
use mark::Mark;
use starting::{Started, Starting};
use wire::{Order, Report, Room, receive, send};

pub use process::run;

/// Time limit for a guardian to become ready, to receive its dismissal, and to end after it.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The launcher's handle of its guardian. When it is dropped, the guardian acts as if the launcher had died.
#[derive(Debug)]
pub struct Guardian {
    group: Pid,
    mark: Mark,
    shared: Arc<Shared>,
    /// Held while an order is sent, so that orders are sent by number.
    turn: Mutex<()>,
}

/// State shared by the launcher and the thread that watches the guardian.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified, for threads and for tasks, when a killed guardian has been replaced or will not be.
    settled: Condvar,
    notify: Notify,
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
    /// Directories to remove.
    dirs: Vec<PathBuf>,
    /// Cgroups to remove after it has been dismissed.
    cgroups: Vec<PathBuf>,
    /// Callers that wait for the start of a process, by the number of the order.
    asked: HashMap<u64, oneshot::Sender<io::Result<Child>>>,
    /// Number of the last order to start a process.
    number: u64,
    /// Its children, with senders for their exit statuses.
    children: HashMap<i32, oneshot::Sender<i32>>,
}

impl Guardian {
    /// Starts a guardian with a command that calls [`run`], and waits up to ten seconds until it is ready. The same command
    /// starts a replacement if the guardian is killed.
    ///
    /// # Errors
    /// The command could not be started, or it did not call [`run`] in time.
    pub fn start(command: Command) -> io::Result<Self> {
        let guardian = Self::begin(command)?;
        guardian.ready()?;
        Ok(guardian)
    }

    /// The same without waiting. It can be told of directories, and asked for processes, before it is [`ready`](Self::ready).
    pub(crate) fn begin(mut command: Command) -> io::Result<Self> {
        let mark = Mark::new();
        command.env(mark::VARIABLE, mark.value());
        let starting = Starting::new(&mut command, None)?;
        let group = Pid::from_child(&starting.process);
        let state = State {
            process: None,
            link: None,
            is_starting: true,
            failure: None,
            is_dismissed: false,
            dirs: Vec::new(),
            cgroups: Vec::new(),
            asked: HashMap::new(),
            number: 0,
            children: HashMap::new(),
        };
        let shared = Shared { state: Mutex::new(state), settled: Condvar::new(), notify: Notify::new() };
        let shared = Arc::new(shared);
        let guardian = Self { group, mark, shared: Arc::clone(&shared), turn: Mutex::new(()) };
        let watch = move || shared.watch(starting, &mut command, group);
        thread::Builder::new().name("guardian".into()).spawn(watch)?;
        Ok(guardian)
    }

    /// Waits until it is ready.
    pub(crate) fn ready(&self) -> io::Result<()> {
        self.shared.settle_blocking().failure.take().map_or(Ok(()), Err)
    }

    /// The process group that it leads. Processes in it end with the launcher.
    pub const fn group(&self) -> Pid {
        self.group
    }

    /// Has the kernel make ready for a guardian that will soon be started, which takes a while.
    pub(crate) fn is_coming() {
        // without the thread the guardian takes its time
        let _ = thread::Builder::new().name("cgroup".into()).spawn(cgroup::stay);
    }

    /// Whether it survives this signal to its group.
    pub(crate) fn ignores(signal: Signal) -> bool {
        signal == Signal::CONT || process::IGNORED.contains(&signal.as_raw())
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

    /// The environment variable that marks its processes.
    pub(crate) fn mark(&self) -> (OsString, OsString) {
        (mark::VARIABLE.into(), self.mark.value())
    }

    /// Makes it start a process of a job with these standard streams, and a socket for PMI-1 to inherit. Call [`started`](Self::started) after the last one.
    /// Waits while the guardian is being replaced.
    ///
    /// # Errors
    /// As [`Command::spawn`]; or the guardian is gone.
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
        let (asked, answer) = oneshot::channel();
        self.shared.settle().await;
        self.ask(job, &descriptors, asked)?;
        // only the process has its end of the socket now
        drop((streams, pmi1));
        answer.await.unwrap_or_else(|_| Err(io::Error::other("the guardian was killed in the meantime")))
    }

    fn ask(
        &self,
        job: &str,
        descriptors: &[BorrowedFd<'_>],
        asked: oneshot::Sender<io::Result<Child>>,
    ) -> io::Result<()> {
        let _turn = lock(&self.turn);
        let (link, number) = {
            let mut state = self.shared.lock();
            let link = state.link()?;
            state.number += 1;
            let number = state.number;
            state.asked.insert(number, asked);
            (link, number)
        };
        // not locked: sending may have to wait for the thread that locks the state
        let sent = send(link, &Order::Start { number, job: job.to_owned() }, descriptors);
        if sent.is_err() {
            self.shared.lock().asked.remove(&number);
        }
        sent
    }

    /// Tells it that all processes of a job have been started.
    pub(crate) fn started(&self) {
        self.tell(&Order::Started);
    }

    /// Makes it kill all processes of a job that has a cgroup.
    pub(crate) fn kill(&self, job: &str) {
        self.tell(&Order::Kill { job: job.to_owned() });
    }

    /// Tells it that a job has ended.
    pub(crate) fn ended(&self, job: &str) {
        self.tell(&Order::Ended { job: job.to_owned() });
    }

    /// Dismisses the guardian: it kills the rest of its processes, removes no directories, and ends. Blocks until it has
    /// ended. A second call does nothing.
    ///
    /// # Errors
    /// Waiting for the process failed.
    pub fn finish(&self) -> io::Result<()> {
        let (process, link, cgroups) = {
            let mut state = self.shared.settle_blocking();
            state.is_dismissed = true;
            (state.process.take(), state.link.take(), std::mem::take(&mut state.cgroups))
        };
        let Some(mut process) = process else { return Ok(()) };
        let told = link.map(|link| {
            let takes_orders = is_ready(PollFd::new(&*link, PollFlags::OUT))?;
            takes_orders.then(|| send(&*link, &Order::Finish, &[])).ok_or(io::ErrorKind::TimedOut)?
        });
        if told.is_none_or(|told| told.is_err()) {
            tracing::warn!("the guardian ended before the launcher");
            // nobody has waited for it yet, so the id still belongs to its group
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        if !is_ready(PollFd::new(&pidfd, PollFlags::IN))? {
            tracing::warn!(pid = process.id(), "the guardian does not end; killing its process group");
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        process.wait()?;
        for cgroup in cgroups {
            if let Err(error) = fs::remove_dir(&cgroup)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(%error, cgroup = %cgroup.display(), "cannot remove the last cgroup of the guardian");
            }
        }
        Ok(())
    }

    /// Sends an order that only matters to a live guardian.
    fn tell(&self, order: &Order) {
        let link = self.shared.lock().link();
        if let Ok(link) = link {
            notify(&link, order);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_dismissed = true;
        if let Some(link) = state.link.take() {
            // it may still report exit statuses
            let _ = shutdown(&*link, Shutdown::Write);
        }
    }
}

/// What a report of the guardian is to somebody who waits.
enum News {
    Answer(oneshot::Sender<io::Result<Child>>, Box<io::Result<Child>>),
    End(oneshot::Sender<i32>, i32),
}

impl News {
    /// A process that was started for a caller that has given up is dropped, which kills it.
    fn tell(self) {
        match self {
            Self::Answer(asked, answer) => drop(asked.send(*answer)),
            Self::End(waiting, status) => drop(waiting.send(status)),
        }
    }
}

impl State {
    fn link(&self) -> io::Result<Arc<OwnedFd>> {
        self.link.clone().ok_or_else(|| io::Error::other("the guardian is gone"))
    }

    /// Takes note of a report of the guardian; returns whom to tell what.
    fn note(&mut self, report: Report, descriptors: Vec<OwnedFd>) -> Option<News> {
        match report {
            Report::Ready { .. } => None,
            Report::Started { number, pid } => {
                let asked = self.asked.remove(&number)?;
                let (Some(id), Some(pidfd)) = (Pid::from_raw(pid), descriptors.into_iter().next()) else {
                    let error = "the launcher reached its limit of open files (ulimit -n)";
                    return Some(News::Answer(asked, Box::new(Err(io::Error::other(error)))));
                };
                let (ended, end) = oneshot::channel();
                self.children.insert(pid, ended);
                Some(News::Answer(asked, Box::new(Ok(Child::told(Handle::new(id, pidfd), end)))))
            }
            Report::Failed { number, errno, reason } => {
                let error = errno.map_or_else(|| io::Error::other(reason), io::Error::from_raw_os_error);
                Some(News::Answer(self.asked.remove(&number)?, Box::new(Err(error))))
            }
            Report::Ended { pid, status } => Some(News::End(self.children.remove(&pid)?, status)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until no replacement is being started, which has a time limit. Cancel-safe.
    async fn settle(&self) {
        loop {
            let settled = self.notify.notified();
            if !self.lock().is_starting {
                return;
            }
            settled.await;
        }
    }

    /// The same for threads; returns the locked state.
    fn settle_blocking(&self) -> MutexGuard<'_, State> {
        let settled = self.settled.wait_while(self.lock(), |state| state.is_starting);
        settled.unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the reports of the guardian and its replacements until the last one is gone.
    fn watch(&self, first: Starting, command: &mut Command, group: Pid) {
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
            self.settled.notify_all();
            self.notify.notify_waiters();
            let Some(open) = link else { return };
            while let Ok(Some((report, descriptors))) = receive(&*open, &mut room, RecvFlags::empty()) {
                let news = self.lock().note(report, descriptors);
                // not locked: whoever is woken needs the state at once
                let _ = news.map(News::tell);
            }
            drop(open);
            link = self.replace(command, group);
        }
    }

    /// Keeps a guardian that is ready, and returns the connection to it.
    fn is_there(&self, started: Started) -> Arc<OwnedFd> {
        let Started { process, link, cgroup } = started;
        let link = Arc::new(link);
        let mut state = self.lock();
        state.is_starting = false;
        state.cgroups.extend(cgroup);
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
    fn replace(&self, command: &mut Command, group: Pid) -> Option<Arc<OwnedFd>> {
        let (asked, children, mut dead) = {
            let mut state = self.lock();
            // it reports no more exit statuses: its children have another parent now
            let (asked, children) = (std::mem::take(&mut state.asked), std::mem::take(&mut state.children));
            let mut dead = state.process.take()?;
            let is_wanted = state.link.take().is_some();
            if !is_wanted {
                drop(state);
                let _ = dead.wait();
                return None;
            }
            state.is_starting = true;
            (asked, children, dead)
        };
        // it may have closed only its connection
        let _ = dead.kill();
        // the group exists until it has been waited for, so the replacement can join it
        let started = Starting::new(command, Some(group)).and_then(Starting::ready);
        let _ = dead.wait();
        drop((asked, children));
        match started {
            Ok(started) => {
                let link = self.is_there(started);
                tracing::warn!(pid = dead.id(), "the guardian was killed and has been replaced");
                Some(link)
            }
            Err(error) => {
                self.lock().is_starting = false;
                tracing::error!(%error, "the guardian was killed and could not be replaced: if this process is \
                    killed too, the processes it started survive");
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

/// Sends an order without a reply. A dead guardian is noticed elsewhere.
fn notify(link: &OwnedFd, order: &Order) {
    if let Err(error) = send(link, order, &[]) {
        tracing::debug!(%error, ?order, "cannot reach the guardian");
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
        let error = Guardian::start(Command::new("/bin/true")).unwrap_err();
        assert!(error.to_string().contains("before it was ready"), "{error}");
    }
}
