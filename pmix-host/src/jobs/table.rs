//! The running jobs that this host has started.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use pmix_types::{Event, IofChannels, Nspace, Persistence, ProcId, ProcInfo, Rank, Status, Uid};
use tokio::sync::{Notify, mpsc};

use super::control::{Act, Control, Reach};
use super::endings::{Endings, JobEnding};
use super::neighbours::NodeRanks;
use super::notices::{for_procs, of_lost_proc};
use super::report::{JobReport, OnFailure};
use crate::LaunchReport;
use crate::stats::Counters;
use crate::store::Ended;
use crate::user::lock;

/// What is known of a job while it runs.
#[derive(Debug)]
pub(crate) struct JobEntry {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// To its owner.
    pub(crate) reports: mpsc::Sender<JobReport>,
    /// To its supervisor, as long as any of its processes runs.
    pub(crate) from_procs: mpsc::WeakSender<LaunchReport>,
    /// The user as whom it runs, and to whom it belongs.
    pub(crate) owner: Uid,
    /// The job of its parent, if they are notified of each other's errors (CON-18).
    pub(crate) connected_to: Option<Nspace>,
    /// The tool that has started it and with which it ends, if that is lost.
    pub(crate) ends_with: Option<JobStarter>,
    /// Its processes are daemons of a debugger, which take no slots.
    pub(crate) is_of_daemons: bool,
    /// What is done when it fails; holds for the jobs it starts too.
    pub(crate) on_failure: OnFailure,
    /// In rank order.
    pub(crate) table: Vec<ProcInfo>,
    /// The application of each rank.
    pub(crate) apps: Vec<usize>,
    /// Of each application, the variables that jobs inherit which its processes start; none after another head has taken it up.
    pub(crate) exported: Vec<Vec<OsString>>,
    /// Its nodes that were lost. Others of the same names may have come since, and have nothing of it.
    pub(crate) lost_nodes: BTreeSet<String>,
    pub(crate) node_ranks: NodeRanks,
    pub(crate) forwarding: Forwarding,
    /// Bytes of output of each rank that has written any.
    pub(crate) written: BTreeMap<Rank, u64>,
}

/// A process of no job of this host that has started one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobStarter {
    pub(crate) proc: ProcId,
    /// Where its server is.
    pub(crate) node: String,
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
#[derive(Clone, Debug, Default)]
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

impl JobEntry {
    /// The variables that a job inherits if this rank starts it.
    pub(super) fn exported_by(&self, rank: Rank) -> Vec<OsString> {
        let app = self.apps.get(usize::try_from(rank.to_raw()).unwrap_or(usize::MAX));
        app.and_then(|app| self.exported.get(*app)).cloned().unwrap_or_default()
    }

    /// Whether processes of it are on a node of this name, or were.
    fn has_on(&self, node: &str) -> bool {
        self.table.iter().any(|row| row.hostname.as_deref() == Some(node))
    }

    /// The end of a process, and that of its application, as far as they have come.
    pub(crate) fn ended_of(&self, proc: &ProcId) -> Vec<Ended> {
        let rank = proc.rank.to_raw() as usize;
        if self.table.get(rank).is_none_or(|row| !row.state.is_terminated()) {
            return Vec::new();
        }
        let is_of_app = |(of, _): &(&usize, &ProcInfo)| self.apps.get(rank) == Some(*of);
        let members = || self.apps.iter().zip(&self.table).filter(is_of_app).map(|(_, row)| row);
        let mut ended = vec![Ended::of_proc(proc)];
        if members().all(|row| row.state.is_terminated()) {
            let ranks = Some(members().map(|row| row.proc.rank).collect());
            ended.push(Ended::Procs { nspace: proc.nspace.clone(), ranks, persistence: Persistence::APP });
        }
        ended
    }

    /// Ends it, first by a request, and what is connected with it.
    pub(super) fn terminate(&self) {
        let (act, reach) = (Act::Terminate, Reach::Connected);
        // it may just have ended
        let _ = self.control.send(Control::Order { act, reach, done: None });
    }
}

/// The jobs of all nodes in this process.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    jobs: Mutex<BTreeMap<Nspace, JobEntry>>,
    /// One has been removed.
    ended: Notify,
    /// How the last ones have ended, for those who ask later.
    endings: Mutex<Endings>,
    pub(crate) counters: Counters,
}

impl JobTable {
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<Nspace, JobEntry>> {
        lock(&self.jobs)
    }

    /// Remembers how jobs have ended, of as many as it can.
    pub(super) fn remember(&self, endings: impl IntoIterator<Item = JobEnding>) {
        let mut all = lock(&self.endings);
        endings.into_iter().for_each(|ending| all.remember(ending));
    }

    /// How a job has ended, if that is remembered.
    pub(crate) fn ending(&self, nspace: &Nspace) -> Option<JobEnding> {
        lock(&self.endings).of(nspace).cloned()
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

    /// How many processes run on each node, without daemons of debuggers.
    pub(crate) fn running_on_nodes(&self) -> BTreeMap<String, u32> {
        on_nodes(&self.entries())
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

    /// Ends the jobs that end with this process, which its server on that node has lost.
    pub(crate) fn end_jobs_of(&self, requester: &ProcId, node: &str) {
        let is_theirs = |job: &&JobEntry| {
            job.ends_with
                .as_ref()
                .is_some_and(|JobStarter { proc, node: own }| proc == requester && own == node)
        };
        self.entries().values().filter(is_theirs).for_each(JobEntry::terminate);
    }

    /// Forgets a job.
    pub(super) fn remove(&self, nspace: &Nspace) {
        self.entries().remove(nspace);
        self.ended.notify_waiters();
    }

    /// Ends all jobs, and waits for their ends.
    pub(super) async fn end_all(&self) {
        self.entries().values().for_each(JobEntry::terminate);
        self.until(BTreeMap::is_empty).await;
    }

    /// Waits for the ends of all jobs with processes on this node.
    pub(crate) async fn until_free(&self, node: &str) {
        let is_there = |job: &JobEntry| job.has_on(node) && !job.lost_nodes.contains(node);
        self.until(|jobs| !jobs.values().any(is_there)).await;
    }

    /// A node is lost, with all that jobs have had there, and all tools: nothing else tells of those.
    pub(crate) fn node_lost(&self, node: &str) {
        for job in self.entries().values_mut() {
            if job.has_on(node) {
                job.lost_nodes.insert(node.to_owned());
            }
            job.forwarding.pullers.retain(|puller| puller.node != node);
            if job.ends_with.as_ref().is_some_and(|requester| requester.node == node) {
                job.terminate();
            }
        }
        self.ended.notify_waiters();
    }

    /// Waits for ends of jobs.
    async fn until(&self, is_so: impl Fn(&BTreeMap<Nspace, JobEntry>) -> bool) {
        loop {
            let mut ended = pin!(self.ended.notified());
            // from now on it hears of each
            ended.as_mut().enable();
            if is_so(&self.entries()) {
                return;
            }
            ended.await;
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

/// How many processes of these jobs run on each node, or are about to start there, without daemons of debuggers.
pub(super) fn on_nodes(jobs: &BTreeMap<Nspace, JobEntry>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::<String, u32>::new();
    let jobs = jobs.values().filter(|job| !job.is_of_daemons);
    for row in jobs.flat_map(|job| &job.table).filter(|row| row.state.is_alive()) {
        let Some(node) = &row.hostname else { continue };
        match counts.get_mut(node) {
            Some(count) => *count += 1,
            None => drop(counts.insert(node.clone(), 1)),
        }
    }
    counts
}
