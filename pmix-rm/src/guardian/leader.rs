//! The leader of a job: the parent of its processes on this node, in the session, the cgroup and, for another user, with the
//! rights and the keyring of the job.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use keyutils::{Keyring, SpecialKeyring};
use pmix_host::Account;
use procfs::process::Process;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, chdir, getpid, set_child_subreaper, setpgid,
    setsid, wait, waitid, waitpid,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::process::IGNORED;
use super::start::{Outcome, Prepared};
use super::wire::{News, Room, Task, receive, send};
use super::{JobSession, cgroup};
use crate::orphans;

/// The main function of a leader.
pub(super) fn lead(link: OwnedFd, cgroup: Option<OsString>, session: JobSession) -> ExitCode {
    let mut leader = Leader { link, user: None, session, started: HashSet::new(), is_over: false };
    if let Some(dir) = cgroup.map(PathBuf::from)
        && let Err(error) = cgroup::enter_new(&dir)
    {
        tracing::debug!(%error, dir = %dir.display(), "no cgroup for a job");
    }
    match leader.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the leader of a job failed");
            leader.end();
            ExitCode::FAILURE
        }
    }
}

struct Leader {
    link: OwnedFd,
    /// The user that it has become.
    user: Option<Account>,
    session: JobSession,
    /// The processes that it has started and whose end it has not reported.
    started: HashSet<Pid>,
    /// Nothing more will be started.
    is_over: bool,
}

impl Leader {
    /// Carries out the orders of the launcher until no process of the job is left, or until the launcher ends, and with it all
    /// processes of the job.
    fn serve(&mut self) -> io::Result<()> {
        match self.session {
            JobSession::Own => drop(setsid()?),
            JobSession::Launchers => setpgid(None, None)?,
        }
        // orphans among its descendants become its children
        set_child_subreaper(Some(getpid()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            // a signal that is meant for the job, or for the launcher
            let _ignored = IGNORED.map(|number| signal(SignalKind::from_raw(number)));
            let mut ended = signal(SignalKind::child())?;
            // not used as a stream, only to wait until it is readable
            let orders = std::os::unix::net::UnixStream::from(self.link.try_clone()?);
            orders.set_nonblocking(true)?;
            let orders = UnixStream::from_std(orders)?;
            let mut room = Room::new();
            loop {
                tokio::select! {
                    // reports of ends take precedence over starts
                    biased;
                    _ = ended.recv() => {}
                    ready = orders.readable() => {
                        ready?;
                        let order = || receive(&self.link, &mut room, RecvFlags::DONTWAIT);
                        match orders.try_io(Interest::READABLE, order) {
                            Ok(Some((order, descriptors))) => self.carry_out(order, descriptors),
                            Ok(None) => {
                                self.end();
                                return Ok(());
                            }
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
                let has_children = self.reap()?;
                if self.is_over && !has_children {
                    return Ok(());
                }
            }
        })
    }

    /// Kills all processes of the job.
    fn end(&self) {
        let (link, started) = (self.link.try_clone(), self.started.clone());
        orphans::end(move |pid, status| {
            // the launcher may be there, and has only given up its guardian
            if let (Ok(link), true) = (&link, started.contains(&pid)) {
                let _ = send(link, &News::Ended { pid: pid.as_raw_pid(), status: status.as_raw() }, &[]);
            }
        });
    }

    fn carry_out(&mut self, order: Task, descriptors: Vec<OwnedFd>) {
        match order {
            Task::Start { number } => match self.start(descriptors) {
                Ok((pid, pidfd)) => {
                    self.report(&News::Started { number, pid: pid.as_raw_pid() }, &[pidfd.as_fd()]);
                }
                Err(error) => {
                    let errno = error.raw_os_error();
                    self.report(&News::Failed { number, errno, reason: error.to_string() }, &[]);
                }
            },
            Task::Over => self.is_over = true,
        }
    }

    fn report(&self, report: &News, descriptors: &[BorrowedFd<'_>]) {
        // that the launcher has ended is seen when its orders end
        let _ = send(&self.link, report, descriptors);
    }

    fn start(&mut self, descriptors: Vec<OwnedFd>) -> Outcome {
        let prepared = Prepared::read(descriptors)?;
        if self.user.as_ref() != prepared.user() {
            let Some(user) = prepared.user().filter(|_| self.user.is_none()) else {
                return Err(io::Error::other("a job has one user"));
            };
            become_user(user, self.session)?;
            self.user = Some(user.clone());
        }
        let (pid, pidfd) = prepared.start()?;
        self.started.insert(pid);
        Ok((pid, pidfd))
    }

    /// Reports the ends of processes that it has started, and waits for those of their orphans. Returns whether any are left.
    fn reap(&mut self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            let mut has_found = false;
            for pid in self.started.clone() {
                // it is reported before it is waited for: if this process is killed in between, the guardian becomes its parent,
                // and reports it again
                if let Some(status) = waitid(WaitId::Pid(pid), look)? {
                    self.tell_end(pid, raw(&status));
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG)?;
                    has_found = true;
                }
            }
            match waitid(WaitId::All, look) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            for orphan in children().into_iter().filter(|pid| !self.started.contains(pid)) {
                has_found |= waitpid(Some(orphan), WaitOptions::NOHANG)?.is_some();
            }
            // a system that does not list children
            if !has_found && let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
                self.tell_end(pid, status.as_raw());
            }
        }
    }

    fn tell_end(&mut self, pid: Pid, status: i32) {
        if self.started.remove(&pid) {
            self.report(&News::Ended { pid: pid.as_raw_pid(), status }, &[]);
        }
    }
}

fn children() -> Vec<Pid> {
    let task = Process::myself().and_then(|process| process.task_main_thread());
    let children = task.and_then(|task| task.children()).unwrap_or_default();
    children.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}

/// As `wait` gives it.
fn raw(status: &WaitIdStatus) -> i32 {
    status.exit_status().map(|code| code << 8).or_else(|| status.terminating_signal()).unwrap_or_default()
}

/// Makes this process that of a user, without the launcher's keys.
fn become_user(user: &Account, session: JobSession) -> io::Result<()> {
    chdir("/")?;
    if session == JobSession::Launchers {
        return user.assume();
    }
    // the second one may fail, if the user has as many keys as it may have
    let is_without = has_left_keyring()?;
    user.assume()?;
    if is_without && let Err(error) = new_keyring() {
        tracing::debug!(%error, "a job has no session keyring of its user");
    }
    Ok(())
}

/// Leaves the session keyring, which is that of the launcher. Returns false if no process has keyrings here: the kernel has none, or a
/// container refuses their use.
fn has_left_keyring() -> io::Result<bool> {
    match Keyring::join_anonymous_session() {
        Ok(_) => Ok(true),
        Err(error) if [Errno::NOSYS, Errno::PERM].contains(&Errno::from_raw_os_error(error.0)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a session keyring of the user of this process. As after a login, the user's own keys can be found through it.
fn new_keyring() -> io::Result<()> {
    let mut session = Keyring::join_anonymous_session()?;
    Ok(session.link_keyring(&Keyring::attach(SpecialKeyring::User)?)?)
}
