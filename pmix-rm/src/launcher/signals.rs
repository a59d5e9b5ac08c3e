//! Signals to running processes.

use std::collections::BTreeSet;

use pmix_types::{Nspace, ProcId};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{LocalLauncher, Process};
use crate::guardian::Guardian;
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
    /// A process group receives a signal at once, as from a terminal. Without a group, a child created at the same moment may
    /// miss it. The group of the guardian has the processes of all jobs, also what those that have ended have left behind, so
    /// it is signalled only if there has been no other job.
    pub(super) fn reach(&self, processes: &[Process], signal: Signal) {
        match &self.guardian {
            None => {
                for process in processes {
                    signal_group(process.handle.pid(), signal);
                }
            }
            Some(guardian) if Guardian::ignores(signal) && self.reach_group(guardian, processes, signal) => {}
            Some(_) => signal_trees(processes, signal),
        }
    }

    /// Signals the group of the guardian if these are all processes of the only job there has been; returns whether it did.
    fn reach_group(&self, guardian: &Guardian, processes: &[Process], signal: Signal) -> bool {
        // locked until the signal is sent, so that no launch begins before
        let launches = self.launches();
        let is_alone = launches.begun == 1 && launches.under_way.is_empty();
        let are_all = is_alone && self.running().len() == processes.len();
        if are_all {
            signal_group(guardian.group(), signal);
        }
        are_all
    }
}

fn signal_group(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_pid(), %error, "cannot signal a process group");
    }
}

/// Signals processes and their descendants, parents first: a shell must receive the signal before it sees its child die
/// from it.
fn signal_trees(processes: &[Process], signal: Signal) {
    let roots: Vec<Pid> = processes.iter().map(|process| process.handle.pid()).collect();
    let below = tree::descendants(&roots);
    for process in processes {
        process.handle.signal(signal);
    }
    tree::signal_all(&below, signal);
}
