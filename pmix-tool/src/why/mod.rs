//! Why jobs wait: what waits at a server, joined with what is known of the processes.

mod cases;
mod gather;
mod phrase;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::why::{ProcSet, Wait};
use pmix_types::{Nspace, ProcId};

pub use cases::Case;
pub use process::{CpuUse, Link, Process, ProcessActivity};

/// What waits at a server, and the processes of the jobs concerned, at one moment: see [`Tool::why`](crate::Tool::why).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Why {
    /// The jobs that were asked for and run, in order.
    pub jobs: Vec<Nspace>,
    /// What waits in them, in the order in which the server tells it.
    pub waits: Vec<Wait>,
    /// The processes of these jobs, and of others that take part in what waits, as far as they are known.
    pub procs: BTreeMap<ProcId, Process>,
    /// When the processes were looked at.
    at: Instant,
}

impl Why {
    fn new(jobs: Vec<Nspace>, waits: Vec<Wait>, procs: BTreeMap<ProcId, Process>) -> Self {
        Self { jobs, waits, procs, at: Instant::now() }
    }

    /// The same report, whose processes have the processor time that they have used since an earlier one: this tells those
    /// that spin from those that sleep.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let over = self.interval(earlier);
        for (proc, process) in &mut self.procs {
            process.cpu = earlier.procs.get(proc).and_then(|earlier| process.used_since(earlier, over));
        }
        self
    }

    /// The time between the looks of two reports.
    #[must_use]
    pub fn interval(&self, earlier: &Self) -> Duration {
        self.at.saturating_duration_since(earlier.at)
    }

    /// Processes that something waits for, in order.
    pub fn missing(&self) -> impl Iterator<Item = &Process> {
        let mut missing = ProcSet::new();
        self.waits.iter().for_each(|wait| missing.add_all(&wait.missing));
        self.procs.values().filter(move |process| missing.contains(&process.proc))
    }

    /// The processes of a job, in rank order.
    pub fn procs_of(&self, job: &Nspace) -> impl Iterator<Item = &Process> {
        self.procs.values().filter(move |process| process.proc.nspace == *job)
    }

    /// Jobs in which nothing waits.
    pub fn idle_jobs(&self) -> impl Iterator<Item = &Nspace> {
        self.jobs
            .iter()
            .filter(|job| !self.waits.iter().any(|wait| wait.nspaces().any(|nspace| nspace == *job)))
    }
}
