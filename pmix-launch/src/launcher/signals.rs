//! Signals to running processes.

use std::collections::BTreeSet;

use pmix_types::{Nspace, ProcId};
use rustix::process::{Pid, Signal, kill_process_group};

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
        let alive = processes.iter().map(|process| &process.handle).filter(|handle| !handle.has_ended());
        let alive: Vec<Handle> = alive.cloned().collect();
        let reached = tokio::task::spawn_blocking(move || {
            let outside = tree::outside_groups(&alive.iter().map(Handle::pid).collect::<Vec<_>>());
            // that took a while
            for handle in alive.iter().filter(|handle| !handle.has_ended()) {
                signal_group(handle.pid(), signal);
            }
            tree::signal_all(&outside, signal);
        });
        if let Err(error) = reached.await {
            tracing::error!(%error, "cannot signal processes");
        }
    }
}

fn signal_group(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_pid(), %error, "cannot signal a process group");
    }
}
