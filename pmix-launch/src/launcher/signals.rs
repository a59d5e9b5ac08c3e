//! Signals to running processes.

use std::collections::{BTreeSet, HashSet};

use pmix_types::{Nspace, ProcId, Uid};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::JoinHandle;

use super::{LocalLauncher, Process};
use crate::child::Handle;
use crate::tree;

impl LocalLauncher {
    /// Kills the rest of each job whose running processes are all among these.
    pub(super) fn kill_whole_jobs(&self, procs: &[ProcId]) {
        let Some(guardian) = &self.guardian else { return };
        let jobs: BTreeSet<&Nspace> = procs.iter().map(|proc| &proc.nspace).collect();
        let meant: BTreeSet<&ProcId> = procs.iter().collect();
        let is_whole = |job: &&&Nspace| {
            self.running().keys().filter(|proc| proc.nspace == ***job).all(|proc| meant.contains(proc))
        };
        for job in jobs.iter().filter(is_whole) {
            guardian.kill(job.as_str());
        }
    }

    /// Signals processes and their descendants.
    ///
    /// Each leads a process group, which receives the signal at once, as from a terminal: otherwise a child created at the same
    /// moment may miss it. Descendants that have left the group receive it after that. Another thread looks for them in /proc, so that
    /// nobody else waits.
    pub(super) async fn reach(processes: &[Process], signal: Signal) {
        let alive = alive(processes);
        done(tokio::task::spawn_blocking(move || {
            let outside = tree::outside_groups(&alive.iter().map(Handle::pid).collect::<Vec<_>>());
            // that took a while
            for handle in alive.iter().filter(|handle| !handle.has_ended()) {
                signal_group(handle.pid(), signal);
            }
            tree::signal_all(&outside, signal);
        }))
        .await;
    }

    /// Signals processes and their descendants on behalf of the user who runs them: what has become another user's, such as a command
    /// under `sudo`, gets no signal that this user could not send, although root's launcher could. All are killed, whoever owns them by
    /// now, as at the end of the job.
    pub(super) async fn reach_for_user(processes: &[Process], signal: Signal) {
        let (others, own): (Vec<_>, Vec<_>) =
            processes.iter().cloned().partition(|process| process.user.is_some() && signal != Signal::KILL);
        if !own.is_empty() {
            Self::reach(&own, signal).await;
        }
        if others.is_empty() {
            return;
        }
        let users: BTreeSet<Uid> = others.iter().filter_map(|process| process.user).collect();
        let alive = alive(&others);
        done(tokio::task::spawn_blocking(move || {
            let leaders: Vec<_> = alive.iter().map(Handle::pid).collect();
            let (mut mixed, mut theirs) = (HashSet::new(), Vec::new());
            for member in tree::members(&leaders) {
                match member.seen.may_be_signalled_by(&users) {
                    Some(true) => theirs.push(member),
                    Some(false) => mixed.extend(member.group),
                    None => {}
                }
            }
            for handle in alive.iter().filter(|handle| !handle.has_ended() && !mixed.contains(&handle.pid()))
            {
                signal_group(handle.pid(), signal);
            }
            let is_reached = |group: Pid| leaders.contains(&group) && !mixed.contains(&group);
            let rest = theirs.iter().filter(|member| !member.group.is_some_and(is_reached));
            tree::signal_all(&rest.map(|member| member.seen).collect::<Vec<_>>(), signal);
        }))
        .await;
    }
}

fn alive(processes: &[Process]) -> Vec<Handle> {
    let alive = processes.iter().map(|process| &process.handle).filter(|handle| !handle.has_ended());
    alive.cloned().collect()
}

async fn done(reached: JoinHandle<()>) {
    if let Err(error) = reached.await {
        tracing::error!(%error, "cannot signal processes");
    }
}

fn signal_group(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_pid(), %error, "cannot signal a process group");
    }
}
