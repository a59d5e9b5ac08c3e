//! What a host counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use pmix_types::ProcState;

use crate::jobs::JobTable;
use crate::{JobOutcome, Launcher, OutputChannel, ProcExit};

/// What the jobs of a host and its nodes have done since it was made, and what there is now. Hosts of one cluster have one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStats {
    /// Jobs that run now.
    pub jobs_running: u64,
    /// Jobs that have started.
    pub jobs_started: u64,
    /// Jobs that have ended with exit code 0.
    pub jobs_succeeded: u64,
    /// Jobs that have ended otherwise.
    pub jobs_failed: u64,
    /// How many processes of the jobs that run now are in each state.
    pub procs: BTreeMap<ProcState, u64>,
    /// Processes that have started.
    pub procs_started: u64,
    /// Processes that have ended with exit code 0.
    pub procs_succeeded: u64,
    /// Processes that have ended otherwise.
    pub procs_failed: u64,
    /// Bytes that processes have written to standard output.
    pub stdout_bytes: u64,
    /// Bytes that processes have written to standard error.
    pub stderr_bytes: u64,
    /// Nodes that take jobs.
    pub nodes_up: u64,
    /// Nodes that are to leave.
    pub nodes_draining: u64,
    /// Nodes that are lost.
    pub nodes_lost: u64,
    /// Slots of the nodes that take jobs; `None` if one of them has any number.
    pub slots: Option<u64>,
}

/// Counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    jobs_started: AtomicU64,
    jobs_succeeded: AtomicU64,
    jobs_failed: AtomicU64,
    procs_started: AtomicU64,
    procs_succeeded: AtomicU64,
    procs_failed: AtomicU64,
    stdout_bytes: AtomicU64,
    stderr_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn job_started(&self) {
        add(&self.jobs_started, 1);
    }

    pub(crate) fn job_ended(&self, outcome: &JobOutcome) {
        add(if outcome.exit_code == 0 { &self.jobs_succeeded } else { &self.jobs_failed }, 1);
    }

    pub(crate) fn procs_started(&self, count: usize) {
        add(&self.procs_started, count as u64);
    }

    pub(crate) fn proc_ended(&self, exit: ProcExit) {
        add(if exit == ProcExit::Code(0) { &self.procs_succeeded } else { &self.procs_failed }, 1);
    }

    pub(crate) fn output(&self, channel: OutputChannel, data: &Bytes) {
        let counter = match channel {
            OutputChannel::Stdout => &self.stdout_bytes,
            OutputChannel::Stderr => &self.stderr_bytes,
        };
        add(counter, data.len() as u64);
    }
}

impl HostStats {
    pub(crate) fn of(table: &JobTable, launcher: &dyn Launcher) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &table.counters;
        // what has ended is read before what has started, so that never more has ended
        let mut stats = Self {
            jobs_succeeded: count(&counters.jobs_succeeded),
            jobs_failed: count(&counters.jobs_failed),
            jobs_started: count(&counters.jobs_started),
            procs_succeeded: count(&counters.procs_succeeded),
            procs_failed: count(&counters.procs_failed),
            procs_started: count(&counters.procs_started),
            stdout_bytes: count(&counters.stdout_bytes),
            stderr_bytes: count(&counters.stderr_bytes),
            slots: Some(0),
            ..Self::default()
        };
        let jobs = table.entries();
        stats.jobs_running = jobs.len() as u64;
        for row in jobs.values().flat_map(|job| &job.table) {
            *stats.procs.entry(row.state).or_default() += 1;
        }
        drop(jobs);
        for node in launcher.nodes() {
            if launcher.loss_reason(&node).is_some() {
                stats.nodes_lost += 1;
            } else if launcher.is_draining(&node) {
                stats.nodes_draining += 1;
            } else {
                stats.nodes_up += 1;
                let slots = launcher.slots(&node).map(u64::from);
                stats.slots = stats.slots.zip(slots).map(|(all, more)| all + more);
            }
        }
        stats
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
