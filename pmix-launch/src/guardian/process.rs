//! The main loop of the guardian process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair, sockopt::socket_type};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, kill_current_process_group,
    pidfd_open, set_child_subreaper, setrlimit, wait,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::JobSession;
use super::cgroup::Cgroups;
use super::leader::lead;
use super::life::{LOOK, Watched};
use super::mark::Mark;
use super::wire::{Order, Report, Role, Room, offer, readable, receive, send};
use crate::{orphans, tree};

/// Time limit for removing directories at the end.
const REMOVAL_TIME: Duration = Duration::from_secs(1);

/// The main function of a guardian process, and of the leaders that it starts. It ends by killing its process group, so this
/// returns only if the process was not started by [`Guardian::start`](super::Guardian::start), on failure, or from a leader.
pub fn run() -> ExitCode {
    let link = io::stdin();
    let is_socket = matches!(socket_type(&link), Ok(SocketType::SEQPACKET));
    let (true, Some(mark), Ok(link)) = (is_socket, Mark::of_environment(), link.as_fd().try_clone_to_owned())
    else {
        tracing::error!("the guardian must be started by a launcher");
        return ExitCode::FAILURE;
    };
    let (files, session, is_replacement, life) = match receive(&link, &mut Room::new(), RecvFlags::empty()) {
        Ok(Some((Role::Guardian { files, session, is_replacement }, life))) => {
            (files, session, is_replacement, life)
        }
        Ok(Some((Role::Leader { cgroup, session }, _))) => return lead(link, cgroup, session),
        Ok(None) => return ExitCode::FAILURE,
        Err(error) => {
            tracing::error!(%error, "the guardian is not told what to do");
            return ExitCode::FAILURE;
        }
    };
    if let Some(limit) = files {
        lower_file_limit(limit);
    }
    let cgroups = Cgroups::of(mark.as_str());
    let life = life.into_iter().next().map(Watched::new);
    let mut watch = Watch {
        launcher: Arc::new(link),
        life,
        is_silent: false,
        ended: VecDeque::new(),
        session,
        dirs: Vec::new(),
        cgroups,
        predecessors: is_replacement.then_some(mark),
    };
    if let Err(error) = watch.serve() {
        tracing::error!(%error, "the guardian failed");
    }
    watch.end();
    match kill_current_process_group(Signal::KILL) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// For all processes that descend from this one.
fn lower_file_limit(limit: u64) {
    let lowered = Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) };
    if let Err(error) = setrlimit(Resource::Nofile, lowered) {
        tracing::warn!(%error, limit, "cannot set the limit of open files for processes");
    }
}

/// Signals meant for a job or its launcher that would also end guardian and leaders.
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
    launcher: Arc<OwnedFd>,
    life: Option<Watched>,
    /// Whether the launcher is silent for too long.
    is_silent: bool,
    /// Reports of ends for which there was no room yet.
    ended: VecDeque<Report>,
    session: JobSession,
    /// Directories to remove at the end.
    dirs: Vec<PathBuf>,
    cgroups: Cgroups,
    /// The mark of processes that an earlier guardian has started, and that do not descend from this one.
    predecessors: Option<Mark>,
}

impl Watch {
    /// Carries out the orders of the launcher until that ends; kills all processes while it is silent for too long.
    fn serve(&mut self) -> io::Result<()> {
        // orphans become children of this process, so that they can be found
        set_child_subreaper(Some(getpid()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            // receiving them avoids dying from them
            let _ignored = IGNORED.map(|number| signal(SignalKind::from_raw(number)));
            let mut ended = signal(SignalKind::child())?;
            let orders = readable(Arc::clone(&self.launcher))?;
            self.report(&Report::Ready, &[]);
            self.start_leader();
            let mut room = Room::new();
            let mut look_at = Instant::now() + LOOK;
            loop {
                tokio::select! {
                    // reports of ends take precedence
                    biased;
                    _ = ended.recv() => self.reap(),
                    ready = orders.readable() => {
                        match ready?.try_io(|link| receive(link, &mut room, RecvFlags::DONTWAIT)) {
                            Ok(Ok(Some((order, _)))) => {
                                if !self.carry_out(order) {
                                    return Ok(());
                                }
                            }
                            Ok(Ok(None)) => return Ok(()),
                            Ok(Err(error)) => return Err(error),
                            Err(_would_block) => {}
                        }
                    }
                    () = sleep_until(look_at) => {
                        self.look();
                        self.report_ends();
                        look_at = Instant::now() + LOOK;
                    }
                }
            }
        })
    }

    /// Looks whether the launcher lives, and kills all processes if it is silent for too long.
    fn look(&mut self) {
        let silent = self.life.as_mut().and_then(Watched::look);
        if let Some(silent) = silent.filter(|_| !self.is_silent) {
            // it may be stopped, and read nothing
            let _ = offer(&*self.launcher, &Report::Silent { seconds: silent.as_secs_f64() }, &[]);
        }
        self.is_silent = silent.is_some();
        if self.is_silent {
            self.kill();
        }
    }

    /// Kills the processes of all jobs that there are now, and leaders.
    fn kill(&self) {
        self.cgroups.kill_all();
        let predecessors = self.predecessors.as_ref().map_or_else(Vec::new, Mark::processes);
        tree::signal_all(&predecessors, Signal::KILL);
        tree::signal_all(&tree::descendants(&[getpid()]), Signal::KILL);
    }

    /// Carries out an order. Returns false after the last one.
    fn carry_out(&mut self, order: Order) -> bool {
        match order {
            Order::Protect(dir) => self.dirs.push(dir.into()),
            Order::Lead => self.start_leader(),
            Order::Finish => {
                self.dirs.clear();
                return false;
            }
        }
        true
    }

    /// Starts the leader of a job to come.
    fn start_leader(&mut self) {
        let cgroup = self.cgroups.next();
        match leader(self.session, cgroup.as_deref().map(|dir| dir.as_os_str())) {
            Ok((pid, pidfd, link)) => {
                if let Some(dir) = &cgroup {
                    self.cgroups.note(pid, dir.clone());
                }
                let cgroup = cgroup.map(PathBuf::into_os_string);
                let report = Report::Leader { pid: pid.as_raw_pid(), cgroup };
                self.report(&report, &[link.as_fd(), pidfd.as_fd()]);
            }
            Err(error) => {
                let errno = error.raw_os_error();
                self.report(&Report::NoLeader { errno, reason: error.to_string() }, &[]);
            }
        }
    }

    /// Reports the ends of all children: of processes whose leaders were killed, and of leaders and orphans, which the launcher
    /// ignores.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.cgroups.child_ended(pid);
            self.ended.push_back(Report::Ended { pid: pid.as_raw_pid(), status: status.as_raw() });
        }
        if self.is_silent && self.life.as_ref().is_some_and(Watched::is_still_silent) {
            // the children of those that have ended are its own now
            self.kill();
        }
        self.report_ends();
    }

    /// Reports ends, as many as the launcher has room for now: it may be stopped, and must be looked at all the same.
    fn report_ends(&mut self) {
        while let Some(report) = self.ended.front() {
            match offer(&*self.launcher, report, &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // if the launcher has ended, its last orders still count
                _ => drop(self.ended.pop_front()),
            }
        }
    }

    fn report(&self, report: &Report, descriptors: &[BorrowedFd<'_>]) {
        // if the launcher has ended, its last orders still count
        let _ = send(&*self.launcher, report, descriptors);
    }

    /// Kills the processes of all jobs, and removes directories and cgroups.
    fn end(self) {
        self.kill();
        let Self { launcher, ended, cgroups, dirs, .. } = self;
        // the launcher is alive if it has dismissed the guardian
        let tell = move |report: &Report| {
            let _ = send(&*launcher, report, &[]);
        };
        ended.iter().for_each(&tell);
        orphans::end(move |pid, status| {
            tell(&Report::Ended { pid: pid.as_raw_pid(), status });
        });
        remove_within(REMOVAL_TIME, dirs);
        cgroups.remove_all();
    }
}

/// Starts a leader by this program. Returns it with the launcher's end of its link.
fn leader(session: JobSession, cgroup: Option<&OsStr>) -> io::Result<(Pid, OwnedFd, OwnedFd)> {
    let (link, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    send(&link, &Role::Leader { cgroup: cgroup.map(OsStr::to_owned), session }, &[])?;
    let mut command = Command::new("/proc/self/exe");
    let mut args = std::env::args_os();
    command.arg0(args.next().unwrap_or_default());
    // it may become a process of another user, whom the launcher's environment does not concern
    command.args(args).arg("leader").env_clear().envs(Mark::of_this_process());
    let child = command.stdin(Stdio::from(its)).stdout(Stdio::null()).spawn()?;
    let pid = Pid::from_child(&child);
    // it has not been waited for, so the id is still its own
    Ok((pid, pidfd_open(pid, PidfdFlags::empty())?, link))
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
