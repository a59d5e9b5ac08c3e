//! The main loop of the guardian process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use rustix::net::{RecvFlags, SocketType, sockopt::socket_type};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpgrp, getpid, getrlimit,
    kill_current_process_group, set_child_subreaper, setrlimit, wait, waitpid,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::cgroup::Cgroups;
use super::mark::Mark;
use super::start::{Outcome, Starts, children_of};
use super::wire::{Order, Report, Room, receive, send};
use crate::{orphans, tree};

/// Time limit for removing directories at the end.
const REMOVAL_TIME: Duration = Duration::from_secs(1);

/// How long the guardian stays in the cgroup of a job after the start of its processes: moving takes the kernel some ten
/// milliseconds, in which the ends of processes of short jobs would have to wait for their report.
const STAY: Duration = Duration::from_millis(100);

/// How often to look for ended children while processes of other users are being started.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The main function of a guardian process. It ends by killing its process group, so this returns only if the process was
/// not started by [`Guardian::start`](super::Guardian::start), or on failure.
pub fn run() -> ExitCode {
    let launcher = io::stdin();
    let is_socket = matches!(socket_type(&launcher), Ok(SocketType::SEQPACKET));
    let (true, Some(mark), Ok(launcher)) =
        (is_socket, Mark::of_environment(), launcher.as_fd().try_clone_to_owned())
    else {
        tracing::error!("the guardian must be started by a launcher");
        return ExitCode::FAILURE;
    };
    let mut watch = Watch {
        launcher,
        dirs: Vec::new(),
        cgroups: Cgroups::of(mark.as_str()),
        starts: Starts::new(),
        leaves_at: None,
        is_dismissed: false,
    };
    if let Err(error) = watch.serve() {
        tracing::error!(%error, "the guardian failed");
    }
    watch.end(&mark);
    match kill_current_process_group(Signal::KILL) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Signals meant for a job that would also end its guardian.
pub(super) const IGNORED: [i32; 10] = [
    Signal::HUP.as_raw(),
    Signal::INT.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::PIPE.as_raw(),
    Signal::ALARM.as_raw(),
    Signal::TERM.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
    Signal::TSTP.as_raw(),
    Signal::VTALARM.as_raw(),
];

/// The state of the guardian.
struct Watch {
    launcher: OwnedFd,
    /// Directories to remove at the end.
    dirs: Vec<PathBuf>,
    cgroups: Cgroups,
    starts: Starts,
    /// When it leaves the cgroup of a job whose processes have all been started.
    leaves_at: Option<Instant>,
    /// The launcher has ended regularly, or is about to.
    is_dismissed: bool,
}

impl Watch {
    /// Carries out the orders of the launcher until that ends.
    fn serve(&mut self) -> io::Result<()> {
        // orphans become children of this process, so that they can be found
        set_child_subreaper(Some(getpid()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            // signals to the group are meant for the processes in it; receiving them avoids dying from them
            let _ignored = IGNORED.map(|number| signal(SignalKind::from_raw(number)));
            let mut ended = signal(SignalKind::child())?;
            // not used as a stream, only to wait until it is readable
            let orders = std::os::unix::net::UnixStream::from(self.launcher.try_clone()?);
            orders.set_nonblocking(true)?;
            let orders = UnixStream::from_std(orders)?;
            let cgroup = self.cgroups.prepare().map(|dir| dir.as_os_str().to_owned());
            self.report(&Report::Ready { cgroup })?;
            self.cgroups.enter_prepared();
            let mut room = Room::new();
            loop {
                tokio::select! {
                    // reports of ends take precedence over starts
                    biased;
                    _ = ended.recv() => self.reap()?,
                    // SIGCHLD may precede the end of the thread that started the child
                    () = tokio::time::sleep_until(Instant::now() + LOOK_AGAIN), if !self.starts.is_empty() => {
                        self.reap()?;
                    }
                    () = tokio::time::sleep_until(self.leaves_at.unwrap_or_else(Instant::now)),
                        if self.leaves_at.is_some() =>
                    {
                        self.leaves_at = None;
                        self.cgroups.leave();
                    }
                    (number, outcome) = self.starts.next() => {
                        self.tell(number, outcome)?;
                        // ends that could not be reported in the meantime
                        self.reap()?;
                    }
                    ready = orders.readable() => {
                        ready?;
                        let order = || receive(&self.launcher, &mut room, RecvFlags::DONTWAIT);
                        match orders.try_io(Interest::READABLE, order) {
                            Ok(Some((order, descriptors))) => {
                                if !self.carry_out(order, descriptors).await? {
                                    return Ok(());
                                }
                            }
                            Ok(None) => return Ok(()),
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
            }
        })
    }

    /// Carries out an order. Returns false after the last one.
    async fn carry_out(&mut self, order: Order, descriptors: Vec<OwnedFd>) -> io::Result<bool> {
        match order {
            Order::Protect(dir) => self.dirs.push(dir.into()),
            Order::Files(limit) => {
                let lowered = Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) };
                if let Err(error) = setrlimit(Resource::Nofile, lowered) {
                    tracing::warn!(%error, limit, "cannot set the limit of open files for processes");
                }
            }
            Order::Start { number, job } => {
                self.leaves_at = None;
                self.cgroups.visit(&job);
                for (number, outcome) in self.starts.start(number, descriptors).await {
                    self.tell(number, outcome)?;
                }
                self.reap()?;
            }
            Order::Started => self.leaves_at = Some(Instant::now() + STAY),
            Order::Kill { job } => self.cgroups.kill(&job),
            Order::Ended { job } => self.cgroups.ended(&job),
            Order::Finish => {
                self.dirs.clear();
                self.is_dismissed = true;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports the ends of all children that have ended; the launcher ignores those of orphans.
    ///
    /// A thread that starts a process waits for the child itself if exec fails, and nobody else may do so. While there are such
    /// threads, only children of the main thread are waited for.
    fn reap(&mut self) -> io::Result<()> {
        if !self.starts.is_empty() {
            let children = children_of(getpid());
            // includes children of threads that have ended, whose start is reported before their end
            for (number, outcome) in self.starts.ended() {
                self.tell(number, outcome)?;
            }
            for pid in children {
                if let Ok(Some((pid, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                    self.tell_end(pid, status)?;
                }
            }
        }
        while self.starts.is_empty()
            && let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG)
        {
            self.tell_end(pid, status)?;
        }
        Ok(())
    }

    fn tell(&self, number: u64, outcome: Outcome) -> io::Result<()> {
        match outcome {
            Ok((pid, pidfd)) => {
                let report = Report::Started { number, pid: pid.as_raw_pid() };
                send(&self.launcher, &report, &[pidfd.as_fd()])
            }
            Err(error) => {
                let errno = error.raw_os_error();
                self.report(&Report::Failed { number, errno, reason: error.to_string() })
            }
        }
    }

    fn tell_end(&self, pid: Pid, status: WaitStatus) -> io::Result<()> {
        self.report(&Report::Ended { pid: pid.as_raw_pid(), status: status.as_raw() })
    }

    fn report(&self, report: &Report) -> io::Result<()> {
        send(&self.launcher, report, &[])
    }

    /// Kills the remaining processes and removes directories and cgroups.
    fn end(mut self, mark: &Mark) {
        self.cgroups.kill_all(self.is_dismissed);
        if getpgrp() != getpid() {
            // a replacement: the processes of the previous guardian do not descend from this one
            tree::signal_all(&mark.processes(), Signal::KILL);
        }
        let launcher = self.launcher;
        orphans::end(move |pid, status| {
            let report = Report::Ended { pid: pid.as_raw_pid(), status: status.as_raw() };
            // the launcher is alive if it has dismissed the guardian
            let _ = send(&launcher, &report, &[]);
        });
        remove_within(REMOVAL_TIME, self.dirs);
        self.cgroups.remove_all();
    }
}

/// Removes directories, but returns after `limit`, as a file system may hang.
fn remove_within(limit: Duration, dirs: Vec<PathBuf>) {
    if dirs.is_empty() {
        return;
    }
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        for dir in dirs {
            if let Err(error) = pmix_server::remove_session_dir(&dir) {
                tracing::warn!(%error, dir = %dir.display(), "cannot remove a directory of a dead launcher");
            }
        }
        let _ = done.send(());
    });
    let _ = wait.recv_timeout(limit);
}
