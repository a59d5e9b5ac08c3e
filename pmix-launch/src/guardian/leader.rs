//! The leader of a job: the parent of its processes on this node, in the session, the cgroup and, for another user, with the
//! rights and the keyring of the job.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use keyutils::{Keyring, SpecialKeyring};
use pmix_host::Account;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, chdir, getpid, getpriority_process, set_child_subreaper,
    setpgid, setpriority_process, setsid, umask, wait, waitid, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::process::IGNORED;
use super::start::{Outcome, Prepared};
use super::wire::{News, Room, Task, readable, receive, send};
use super::{JobSession, cgroup};
use crate::orphans::{self, children, raw};

/// The main function of a leader.
pub(super) fn lead(link: OwnedFd, cgroup: Option<OsString>, session: JobSession) -> ExitCode {
    let entered = cgroup.map(|dir| cgroup::enter_new(Path::new(&dir))).transpose();
    let kill = entered.unwrap_or_else(|error| {
        tracing::debug!(%error, "no cgroup for a job");
        None
    });
    let link = Arc::new(link);
    let mut leader = Leader { link, user: None, session, kill, started: HashSet::new(), is_over: false };
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
    link: Arc<OwnedFd>,
    /// The user that it has become.
    user: Option<Account>,
    session: JobSession,
    /// Kills all processes of its cgroup, if it has one, and this one with them.
    kill: Option<File>,
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
            let orders = readable(Arc::clone(&self.link))?;
            let mut room = Room::new();
            loop {
                tokio::select! {
                    // reports of ends take precedence over starts
                    biased;
                    _ = ended.recv() => {}
                    ready = orders.readable() => {
                        match ready?.try_io(|link| receive(link, &mut room, RecvFlags::DONTWAIT)) {
                            Ok(Ok(Some((order, descriptors)))) => self.carry_out(order, descriptors),
                            Ok(Ok(None)) => {
                                self.end();
                                return Ok(());
                            }
                            Ok(Err(error)) => return Err(error),
                            Err(_would_block) => {}
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
    fn end(&mut self) {
        if let Some(kill) = &mut self.kill {
            // the guardian reports ends, if it is there
            let _ = kill.write_all(b"1");
        }
        let (link, started) = (Arc::clone(&self.link), self.started.clone());
        orphans::end(move |pid, status| {
            // the launcher may be there, and has only given up its guardian
            if started.contains(&pid) {
                let _ = send(&*link, &News::Ended { pid: pid.as_raw_pid(), status }, &[]);
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
        let _ = send(&*self.link, report, descriptors);
    }

    fn start(&mut self, descriptors: Vec<OwnedFd>) -> Outcome {
        let prepared = Prepared::read(descriptors)?;
        if self.user.as_ref() != prepared.user() {
            let Some(user) = prepared.user().filter(|_| self.user.is_none()) else {
                return Err(io::Error::other("a job has one user"));
            };
            become_user(user)?;
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
            match waitid(WaitId::All, look) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
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

/// Makes this process that of a user, without the launcher's keys.
fn become_user(user: &Account) -> io::Result<()> {
    chdir("/")?;
    // the second one may fail, if the user has as many keys as it may have
    let is_without = has_left_keyring()?;
    take_no_privileges();
    user.assume()?;
    if is_without && let Err(error) = new_keyring() {
        tracing::debug!(%error, "a job has no session keyring of its user");
    }
    Ok(())
}

/// Gives up what the launcher has that its users could not give themselves: files that others may write, priority, and to be spared when
/// memory is short. A real-time policy and a class of input and output stay: nothing safe changes them.
fn take_no_privileges() {
    umask(umask(Mode::empty()) | Mode::WGRP | Mode::WOTH);
    if getpriority_process(None).is_ok_and(|nice| nice < 0) {
        let _ = setpriority_process(None, 0);
    }
    let file = "/proc/self/oom_score_adj";
    if std::fs::read_to_string(file).is_ok_and(|score| score.starts_with('-')) {
        let _ = std::fs::write(file, "0");
    }
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
