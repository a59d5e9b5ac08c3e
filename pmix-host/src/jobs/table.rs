//! The running jobs that this host has started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pmix_types::{Event, IofChannels, Nspace, ProcId, ProcInfo, Rank, Status};
use tokio::sync::{Notify, mpsc};

use super::control::Control;
use super::neighbours::NodeRanks;
use super::notices::{for_procs, of_lost_proc};
use super::report::{JobReport, OnFailure};
use crate::user::lock;

/// What is known of a job while it runs.
#[derive(Debug)]
pub(crate) struct JobEntry {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// To its owner.
    pub(crate) reports: mpsc::Sender<JobReport>,
    /// The user as whom it runs, and to whom it belongs.
    pub(crate) owner: u32,
    /// The job of its parent, if they are notified of each other's errors (CON-18).
    pub(crate) connected_to: Option<Nspace>,
    /// What is done when it fails; holds for the jobs it starts too.
    pub(crate) on_failure: OnFailure,
    /// In rank order.
    pub(crate) table: Vec<ProcInfo>,
    pub(crate) node_ranks: NodeRanks,
    pub(crate) forwarding: Forwarding,
}

/// Which output and input of a job is forwarded, and to whom.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// Output that is forwarded (IOF-04).
    pub(crate) channels: IofChannels,
    /// Who takes input: one rank, all, or none.
    pub(crate) stdin: Option<Rank>,
    pub(crate) pullers: Vec<Puller>,
    pub(crate) hold: Hold,
}

/// Output of a job that a tool has spawned is kept for the tool, which cannot pull it before it knows the job's name.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// Where the tool's server is; `None` for a job that was not spawned by a tool, or of which nothing is forwarded.
    pub(crate) node: Option<String>,
    /// Somebody has pulled output.
    pub(crate) pulled: Arc<Notify>,
}

/// A receiver of output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Puller {
    pub(crate) caller: ProcId,
    /// Where its server is.
    pub(crate) node: String,
    pub(crate) procs: Vec<ProcId>,
    pub(crate) channels: IofChannels,
    /// The output also goes where it went before (IOF-03).
    pub(crate) copies: bool,
}

impl Puller {
    pub(crate) fn wants(&self, source: &ProcId, channels: IofChannels) -> bool {
        self.channels.intersects(channels) && self.procs.iter().any(|proc| proc.matches(source))
    }
}

/// The jobs of all nodes in this process.
#[derive(Debug, Default)]
pub(crate) struct JobTable(Mutex<BTreeMap<Nspace, JobEntry>>);

impl JobTable {
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<Nspace, JobEntry>> {
        lock(&self.0)
    }

    pub(crate) fn contains(&self, nspace: &Nspace) -> bool {
        self.entries().contains_key(nspace)
    }

    /// Tells the supervisor of a job, if the job runs.
    pub(crate) fn tell(&self, nspace: &Nspace, control: Control) {
        if let Some(job) = self.entries().get(nspace) {
            // the job may just have ended
            let _ = job.control.send(control);
        }
    }

    /// The process table of a job; empty for one that is not here.
    pub(crate) fn rows(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        self.entries().get(nspace).map(|job| job.table.clone()).unwrap_or_default()
    }

    /// Changes what is known of a process.
    pub(crate) fn with_row(&self, proc: &ProcId, change: impl FnOnce(&mut ProcInfo)) {
        let mut jobs = self.entries();
        let job = jobs.get_mut(&proc.nspace);
        if let Some(row) = job.and_then(|job| job.table.get_mut(proc.rank.to_raw() as usize)) {
            change(row);
        }
    }

    /// All processes of the jobs that are notified of errors of this one: the job of its parent, and those that its own
    /// processes have started (CON-18).
    pub(crate) fn connected_with(&self, nspace: &Nspace) -> Vec<ProcId> {
        let jobs = self.entries();
        let parent = jobs.get(nspace).and_then(|job| job.connected_to.clone());
        let children = jobs
            .iter()
            .filter(|(_, job)| job.connected_to.as_ref() == Some(nspace))
            .map(|(child, _)| child.clone());
        parent.into_iter().chain(children).map(ProcId::wildcard).collect()
    }

    /// The event that tells a job, and those it is connected with, that one of its processes is lost.
    pub(crate) fn lost_proc(&self, proc: ProcId, status: Status) -> Event {
        let mut hearers = self.connected_with(&proc.nspace);
        let own = ProcId::wildcard(proc.nspace.clone());
        let event = of_lost_proc(proc, status);
        if hearers.is_empty() {
            return event;
        }
        hearers.push(own);
        for_procs(event, hearers)
    }

    /// Those of the processes whose jobs were started here.
    pub(crate) fn those_here(&self, procs: &[ProcId]) -> Vec<ProcId> {
        let jobs = self.entries();
        procs.iter().filter(|proc| jobs.contains_key(&proc.nspace)).cloned().collect()
    }
}
