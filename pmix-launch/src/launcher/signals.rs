//! Signals to running processes.

use std::collections::{BTreeMap, BTreeSet};

use pmix_host::Account;
use pmix_types::{Gid, Nspace, ProcId, Uid};
use rustix::io::Errno;
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
            signal_all(&alive, signal);
        }))
        .await;
    }

    /// Signals processes and their descendants with the rights of the user who runs them: what has become another user's, such as a
    /// command under `sudo`, gets no signal that this user could not send, although root's launcher could. All are killed, whoever owns
    /// them by now, as at the end of the job.
    ///
    /// # Errors
    /// One that its user may not signal; all others are signalled.
    pub(super) async fn reach_for_user(processes: &[Process], signal: Signal) -> Result<(), Pid> {
        let mut own = Vec::new();
        let mut others = BTreeMap::<Uid, Vec<Process>>::new();
        for process in processes {
            match process.user.filter(|_| signal != Signal::KILL) {
                Some(user) => others.entry(user).or_default().push(process.clone()),
                None => own.push(process.clone()),
            }
        }
        if !own.is_empty() {
            Self::reach(&own, signal).await;
        }
        let mut refused = None;
        for (user, processes) in others {
            let alive = alive(&processes);
            let account = Account::with_groups(user, Gid::new(user.as_raw()), Vec::new());
            match account.send_signals(move || signal_all(&alive, signal)).await {
                Ok(found) => refused = refused.or(found),
                Err(error) => {
                    tracing::warn!(uid = user.as_raw(), %error, "cannot signal the processes of a user");
                }
            }
        }
        refused.map_or(Ok(()), Err)
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

/// Signals processes and their descendants; returns one in whose group none may be signalled.
fn signal_all(alive: &[Handle], signal: Signal) -> Option<Pid> {
    let outside = tree::outside_groups(&alive.iter().map(Handle::pid).collect::<Vec<_>>());
    let mut refused = None;
    // that took a while
    for group in alive.iter().filter(|handle| !handle.has_ended()).map(Handle::pid) {
        if let Err(error) = kill_process_group(group, signal) {
            tracing::debug!(group = group.as_raw_pid(), %error, "cannot signal a process group");
            if error == Errno::PERM {
                refused.get_or_insert(group);
            }
        }
    }
    tree::signal_all(&outside, signal);
    refused
}
