//! The guardian: a process that outlives a launcher which is killed, and ends what that left behind.
//!
//! A launcher starts it before the first process of a job, and has it start all of them. They are its children and in the
//! process group that it leads, and it is their subreaper: what they leave behind becomes its child too, whatever group or
//! session that has gone to. Where cgroup v2 is delegated, each job has a cgroup of its own besides.
//!
//! Launcher and guardian talk over a pair of sockets ([`wire`]). When the launcher ends, however that happens, the guardian
//! reads the end of it, kills all that descends from it, removes the directories it was told to protect, and kills its
//! group, itself included. When the guardian is killed, the launcher reads the end of it, and starts another in the same
//! group. Processes of the first cannot become children of the second; it finds them by their group, by their cgroups,
//! and by a [`mark`] in their environment. They go on meanwhile, and the launcher learns how they end if it is the next
//! subreaper, as `pmixrun` is.

mod cgroup;
mod mark;
mod process;
mod start;
mod wire;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::sync::{Notify, oneshot};

use crate::child::{Child, Handle};
use crate::recipe::Recipe;
use mark::Mark;
use wire::{Order, Report, receive, send};

pub use process::run;

/// Longest time that a guardian may take to stand ready; and one that is dismissed to hear of it, and then to end.
const LAST_TIME: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The launcher's end: dropping it makes the guardian act as if the launcher had died.
#[derive(Debug)]
pub struct Guardian {
    group: Pid,
    mark: Mark,
    shared: Arc<Shared>,
    /// Held while a process is asked for, so that those who ask wait in the order of their orders.
    turn: Mutex<()>,
}

/// What is between the launcher and the thread that attends to guardians.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when a guardian that was killed has a successor, or is to have none: to threads, and to tasks.
    settled: Condvar,
    notify: Notify,
}

/// What the launcher knows of the guardian that lives.
#[derive(Debug)]
struct State {
    process: Option<Process>,
    /// To it; `None` when there is none any more, or another one is to take its place.
    link: Option<Arc<OwnedFd>>,
    /// Another one is being started, which nobody waits for with the state in hand: it may hang.
    is_hatching: bool,
    /// There is to be none any more.
    is_dismissed: bool,
    /// What it is to remove.
    dirs: Vec<PathBuf>,
    /// Those who wait for a process to be started, by the number of what they have asked.
    asked: HashMap<u64, oneshot::Sender<io::Result<Child>>>,
    /// Number of the last order to start one.
    number: u64,
    /// Its children, and who waits for their end.
    children: HashMap<i32, oneshot::Sender<i32>>,
}

impl Guardian {
    /// Starts a guardian with a command that ends up in [`run`], and waits until it stands ready, for ten seconds at most.
    /// The same command starts another one if that is killed.
    ///
    /// # Errors
    /// The command could not be started, or it did not call [`run`] in time.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mark = Mark::new();
        command.env(mark::VARIABLE, mark.value());
        let (process, link) = hatch(&mut command, None)?;
        let group = Pid::from_child(&process);
        let state = State {
            process: Some(process),
            link: Some(Arc::new(link)),
            is_hatching: false,
            is_dismissed: false,
            dirs: Vec::new(),
            asked: HashMap::new(),
            number: 0,
            children: HashMap::new(),
        };
        let shared = Shared { state: Mutex::new(state), settled: Condvar::new(), notify: Notify::new() };
        let shared = Arc::new(shared);
        let guardian = Self { group, mark, shared: Arc::clone(&shared), turn: Mutex::new(()) };
        thread::Builder::new().name("guardian".into()).spawn(move || shared.attend(&mut command, group))?;
        Ok(guardian)
    }

    /// The process group it leads: processes in it end with the launcher.
    pub const fn group(&self) -> Pid {
        self.group
    }

    /// Whether it lives on when its group gets this signal.
    pub(crate) fn ignores(signal: Signal) -> bool {
        signal == Signal::CONT || process::IGNORED.contains(&signal.as_raw())
    }

    /// Has it remove a directory if the launcher ends without [`finish`](Self::finish).
    ///
    /// # Errors
    /// The guardian is gone.
    pub fn protect(&self, dir: &Path) -> io::Result<()> {
        let dir = std::path::absolute(dir)?;
        let link = {
            let mut state = self.shared.lock();
            state.dirs.push(dir.clone());
            if state.is_hatching {
                // its successor will be told
                return Ok(());
            }
            state.link()?
        };
        // if this one has just died, its successor is told
        say(&link, &Order::Protect(dir.into_os_string()));
        Ok(())
    }

    /// The variable that its processes have in their environment.
    pub(crate) fn mark(&self) -> (OsString, OsString) {
        (mark::VARIABLE.into(), self.mark.value())
    }

    /// Has it start a process of a job, with these standard streams. When all are, [`started`](Self::started) is to be
    /// called.
    ///
    /// # Errors
    /// As [`Command::spawn`]; or the guardian is gone. While another one takes its place, this waits for that.
    ///
    /// # Cancel safety
    /// A process that was started for nobody is killed.
    pub(crate) async fn spawn(&self, job: &str, recipe: &Recipe, streams: [OwnedFd; 3]) -> io::Result<Child> {
        let mut file = File::from(memfd_create("recipe", MemfdFlags::CLOEXEC)?);
        file.write_all(&recipe.to_bytes()?)?;
        let here = openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let [stdin, stdout, stderr] = &streams;
        let descriptors = [file.as_fd(), here.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let (asked, answer) = oneshot::channel();
        self.shared.settle().await;
        self.ask(job, &descriptors, asked)?;
        drop(streams);
        answer.await.unwrap_or_else(|_| Err(io::Error::other("the guardian was killed meanwhile")))
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
        // without the state: who waits for room here must not hold up those who make it
        let sent = send(link, &Order::Start { number, job: job.to_owned() }, descriptors);
        if sent.is_err() {
            self.shared.lock().asked.remove(&number);
        }
        sent
    }

    /// All processes of a job are started.
    pub(crate) fn started(&self) {
        self.tell(&Order::Started);
    }

    /// Has all processes of a job killed, where there is a cgroup for it.
    pub(crate) fn kill(&self, job: &str) {
        self.tell(&Order::Kill { job: job.to_owned() });
    }

    /// A job has ended.
    pub(crate) fn ended(&self, job: &str) {
        self.tell(&Order::Ended { job: job.to_owned() });
    }

    /// Dismisses it: it kills what is left of its processes, removes nothing, and has ended when this returns.
    /// Blocks for that short while. Doing it twice does nothing.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn finish(&self) -> io::Result<()> {
        let (process, link) = {
            let mut state = self.shared.settle_blocking();
            state.is_dismissed = true;
            (state.process.take(), state.link.take())
        };
        let Some(mut process) = process else { return Ok(()) };
        let told = link.map(|link| {
            let takes_orders = is_ready(PollFd::new(&*link, PollFlags::OUT))?;
            takes_orders.then(|| send(&*link, &Order::Finish, &[])).ok_or(io::ErrorKind::TimedOut)?
        });
        if told.is_none_or(|told| told.is_err()) {
            tracing::warn!("the guardian was gone before the launcher");
            // as long as nobody has waited for it, its group is no other
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        if !is_ready(PollFd::new(&pidfd, PollFlags::IN))? {
            tracing::warn!(pid = process.id(), "the guardian does not end, it is killed with its group");
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        process.wait().map(drop)
    }

    /// Says what only matters to a guardian that lives.
    fn tell(&self, order: &Order) {
        let link = self.shared.lock().link();
        if let Ok(link) = link {
            say(&link, order);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_dismissed = true;
        if let Some(link) = state.link.take() {
            // it may still tell how processes end
            let _ = shutdown(&*link, Shutdown::Write);
        }
    }
}

impl State {
    fn link(&self) -> io::Result<Arc<OwnedFd>> {
        self.link.clone().ok_or_else(|| io::Error::other("there is no guardian any more"))
    }

    /// Takes in what the guardian says.
    fn hear(&mut self, report: Report, descriptors: Vec<OwnedFd>) {
        match report {
            Report::Ready => {}
            Report::Started { number, pid } => {
                let Some(asked) = self.asked.remove(&number) else { return };
                let (Some(id), Some(pidfd)) = (Pid::from_raw(pid), descriptors.into_iter().next()) else {
                    let _ = asked.send(Err(io::Error::other("the launcher ran out of files (ulimit -n)")));
                    return;
                };
                let (ended, end) = oneshot::channel();
                self.children.insert(pid, ended);
                // if nobody waits for it any more, it is killed by being dropped
                let _ = asked.send(Ok(Child::told(Handle::new(id, pidfd), end)));
            }
            Report::Failed { number, errno, reason } => {
                let error = errno.map_or_else(|| io::Error::other(reason), io::Error::from_raw_os_error);
                if let Some(asked) = self.asked.remove(&number) {
                    let _ = asked.send(Err(error));
                }
            }
            Report::Ended { pid, status } => {
                if let Some(ended) = self.children.remove(&pid) {
                    let _ = ended.send(status);
                }
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until no guardian is about to take the place of another: not longer than that may take. Cancel-safe.
    async fn settle(&self) {
        loop {
            let settled = self.notify.notified();
            if !self.lock().is_hatching {
                return;
            }
            settled.await;
        }
    }

    /// The same for threads, with the state then.
    fn settle_blocking(&self) -> MutexGuard<'_, State> {
        let settled = self.settled.wait_while(self.lock(), |state| state.is_hatching);
        settled.unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears what guardians say, one after the other, until there is to be none any more.
    fn attend(&self, command: &mut Command, group: Pid) {
        let mut link = self.lock().link.clone();
        while let Some(open) = link {
            while let Ok(Some((report, descriptors))) = receive(&*open, RecvFlags::empty()) {
                self.lock().hear(report, descriptors);
            }
            drop(open);
            link = self.replace(command, group);
            self.settled.notify_all();
            self.notify.notify_waiters();
        }
    }

    /// Puts another guardian in the place of one that was killed; the link to it. `None` if there is to be none.
    fn replace(&self, command: &mut Command, group: Pid) -> Option<Arc<OwnedFd>> {
        let (asked, children, mut dead) = {
            let mut state = self.lock();
            // they hear of no end from it any more, once its children are others' children
            let (asked, children) = (std::mem::take(&mut state.asked), std::mem::take(&mut state.children));
            let mut dead = state.process.take()?;
            let is_wanted = state.link.take().is_some();
            if !is_wanted {
                drop(state);
                let _ = dead.wait();
                return None;
            }
            state.is_hatching = true;
            (asked, children, dead)
        };
        // one that only closed its connection must not guard on
        let _ = dead.kill();
        // as long as it was not waited for, its group is there to be joined
        let hatched = hatch(command, Some(group));
        let _ = dead.wait();
        let mut state = self.lock();
        state.is_hatching = false;
        drop((asked, children));
        match hatched {
            Ok((process, link)) => {
                let link = Arc::new(link);
                for dir in &state.dirs {
                    say(&link, &Order::Protect(dir.clone().into_os_string()));
                }
                tracing::warn!(pid = dead.id(), "the guardian was killed, another has taken its place");
                state.process = Some(process);
                if state.is_dismissed {
                    // the launcher was dropped meanwhile
                    let _ = shutdown(&*link, Shutdown::Write);
                } else {
                    state.link = Some(Arc::clone(&link));
                }
                Some(link)
            }
            Err(error) => {
                tracing::error!(%error, "the guardian was killed, and there is no other: if this process is killed \
                    too, what it has started lives on");
                None
            }
        }
    }
}

/// Whether a descriptor is ready within the time that a guardian may take to end.
fn is_ready(descriptor: PollFd<'_>) -> io::Result<bool> {
    let mut descriptors = [descriptor];
    loop {
        match poll(&mut descriptors, Some(&LAST_TIME)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Says what needs no answer; a guardian that is dead is found out otherwise.
fn say(link: &OwnedFd, order: &Order) {
    if let Err(error) = send(link, order, &[]) {
        tracing::debug!(%error, ?order, "the guardian does not hear");
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a guardian process, in a group of its own or in one that is there.
fn hatch(command: &mut Command, group: Option<Pid>) -> io::Result<(Process, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let group = group.map_or(0, Pid::as_raw_pid);
    let process = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).process_group(group).spawn();
    // its end must be in no other hands, or nobody would hear when it dies
    command.stdin(Stdio::null());
    let mut process = process?;
    // until it says so a signal to the group could still end it
    let said = match is_ready(PollFd::new(&ours, PollFlags::IN)) {
        Ok(true) => receive(&ours, RecvFlags::empty()),
        Ok(false) => {
            let seconds = LAST_TIME.tv_sec;
            let hangs =
                format!("the guardian process was not ready within {seconds} s: it hangs, or was stopped");
            Err(io::Error::new(io::ErrorKind::TimedOut, hangs))
        }
        Err(error) => Err(error),
    };
    match said {
        Ok(Some((Report::Ready, _))) => {
            if let Some(files) = pmix_server::inherited_file_limit() {
                say(&ours, &Order::Files(files));
            }
            Ok((process, ours))
        }
        other => {
            let _ = process.kill();
            let _ = process.wait();
            let early = io::ErrorKind::UnexpectedEof;
            let ended = || io::Error::new(early, "the guardian process ended before it was ready");
            Err(other.err().unwrap_or_else(ended))
        }
    }
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
