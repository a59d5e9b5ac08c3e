//! Processes and their descendants, from `/proc`.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;

use procfs::ProcError;
use procfs::process::{Process, Stat, StatFlags, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process as it was seen in `/proc`. Its id may be that of another process by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    /// When it has started, in ticks of the system.
    since: u64,
}

impl Seen {
    pub(crate) fn of(stat: &Stat) -> Option<Self> {
        Pid::from_raw(stat.pid).map(|pid| Self { pid, since: stat.starttime })
    }

    /// A descriptor of it, unless it has ended.
    pub(crate) fn open(self) -> Option<OwnedFd> {
        // whatever it is, it stays the same, also if it ends
        let pidfd = pidfd_open(self.pid, PidfdFlags::empty()).ok()?;
        let now = Process::new(self.pid.as_raw_pid()).and_then(|process| process.stat());
        now.is_ok_and(|stat| stat.starttime == self.since).then_some(pidfd)
    }

    /// Sends it a signal, unless it has ended.
    fn signal(self, signal: Signal) {
        if let Some(pidfd) = self.open() {
            send(&pidfd, signal);
        }
    }
}

/// Sends a signal to a process, unless it has ended.
pub(crate) fn send(pidfd: &OwnedFd, signal: Signal) {
    if let Err(error) = pidfd_send_signal(pidfd, signal) {
        tracing::debug!(%error, "cannot signal a process");
    }
}

/// All live descendants of `roots`, each after its parent, without the roots.
pub(crate) fn descendants(roots: &[Pid]) -> Vec<Seen> {
    below(roots, |_, seen| seen)
}

/// The live descendants of leaders of process groups that are in none of these groups, each after its parent.
pub(crate) fn outside_groups(leaders: &[Pid]) -> Vec<Seen> {
    // a group whose leader is in another PID namespace has no number here
    let group = |stat: &Stat, seen| (seen, Pid::from_raw(stat.pgrp));
    let outside = |(seen, group): (Seen, Option<Pid>)| {
        Some(seen).filter(|_| !group.is_some_and(|group| leaders.contains(&group)))
    };
    below(leaders, group).into_iter().filter_map(outside).collect()
}

/// A process that a job has left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) pid: Pid,
    /// The name of its program.
    name: String,
    /// Whether it is in the session of the leader of its job.
    pub(crate) is_in_session: bool,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name.escape_debug(), self.pid.as_raw_pid())
    }
}

/// The live descendants of the leader of a job.
pub(crate) fn leftovers(leader: Pid) -> Vec<Leftover> {
    let session = Process::new(leader.as_raw_pid()).and_then(|leader| leader.stat()).map(|stat| stat.session);
    below(&[leader], |stat, Seen { pid, .. }| Leftover {
        pid,
        name: stat.comm.clone(),
        is_in_session: session.as_ref().is_ok_and(|session| stat.session == *session),
    })
}

/// All live descendants of `roots`, each after its parent, as `view` shows them.
fn below<T>(roots: &[Pid], view: impl Fn(&Stat, Seen) -> T) -> Vec<T> {
    let mut children: HashMap<Pid, Vec<(Pid, T)>> = HashMap::new();
    for stat in stats() {
        if let (Some(seen), Some(parent)) = (Seen::of(&stat), Pid::from_raw(stat.ppid)) {
            children.entry(parent).or_default().push((seen.pid, view(&stat, seen)));
        }
    }
    let mut found = Vec::new();
    let mut next = roots.to_vec();
    while let Some(parent) = next.pop() {
        for (child, shown) in children.remove(&parent).unwrap_or_default() {
            found.push(shown);
            next.push(child);
        }
    }
    found
}

/// Sends a signal to processes; those that have ended are skipped.
pub(crate) fn signal_all(processes: &[Seen], signal: Signal) {
    processes.iter().for_each(|process| process.signal(signal));
}

/// Whether a process has ended or is exiting: none of its threads will run another instruction of its program.
///
/// The kernel marks a thread before it closes its files, so this is true before others can see the end, such as by a closed
/// connection.
pub(crate) fn is_exiting(pid: Pid) -> bool {
    // a process that cannot be read may still be running
    let is_gone = |error| matches!(error, ProcError::NotFound(_));
    match Process::new(pid.as_raw_pid()).and_then(|process| process.tasks()) {
        Ok(mut threads) => threads.all(|thread| match thread.and_then(|thread| thread.stat()) {
            Ok(stat) => stat.flags & StatFlags::PF_EXITING.bits() != 0,
            Err(error) => is_gone(error),
        }),
        Err(error) => is_gone(error),
    }
}

/// All processes that have not ended.
fn stats() -> impl Iterator<Item = Stat> {
    let processes = all_processes().into_iter().flatten().flatten();
    let has_ended = |stat: &Stat| matches!(stat.state, 'Z' | 'X');
    processes.filter_map(move |process| {
        let stat = process.stat().ok()?;
        // its first thread may have ended before others
        let mut threads =
            process.tasks().into_iter().flatten().flatten().filter_map(|thread| thread.stat().ok());
        let is_live = !has_ended(&stat) || threads.any(|thread| !has_ended(&thread));
        is_live.then_some(stat)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead, Write};
    use std::process::{Command, Stdio};

    use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};

    use super::*;

    #[test]
    fn descendants_are_those_below_any_of_the_roots() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 600 > /dev/null & echo $!; read line; echo there; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = io::BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = says.next().unwrap();
        let sleeper = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        let shell_pid = Pid::from_child(&shell);
        let of_shell = descendants(&[shell_pid]);
        assert_eq!(of_shell.iter().map(|seen| seen.pid).collect::<Vec<_>>(), [sleeper]);
        let below = descendants(&[getpid()]);
        let [of_shell] = of_shell[..] else { unreachable!() };
        let own = below.iter().copied().find(|seen| seen.pid == shell_pid).unwrap();
        assert!(below.contains(&of_shell), "{below:?}");
        // the process that had the number before
        signal_all(&[Seen { since: own.since - 1, ..own }], Signal::KILL);
        shell.stdin.take().unwrap().write_all(b"are you?\n").unwrap();
        assert_eq!(says.next().as_deref(), Some("there"));
        signal_all(&[of_shell, own], Signal::KILL);
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_is_exiting_from_its_last_instruction_on() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(!is_exiting(pid));
        child.kill().unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(is_exiting(pid), "it has ended and nobody has waited for it");
        child.wait().unwrap();
        assert!(is_exiting(pid), "it is gone");
    }
}
