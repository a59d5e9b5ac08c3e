//! Goes on with the jobs of a head that is gone, as its successor.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use pmix_server::host::{HostError, HostResult};
use pmix_types::{Nspace, Pid, ProcId, ProcInfo, ProcState, Rank, Status};
use tokio::sync::mpsc;

use super::control::{Act, Child, Reach};
use super::endings::JobEnding;
use super::kept::JobFacts;
use super::node::Nodes;
use super::notices;
use super::outcome::note_end;
use super::report::{JobOutcome, JobReport};
use super::running::RunningJob;
use super::spawn::{Owner, pass_on};
use super::start::Jobs;
use super::store::{KeptJob, TicketOf, UnreadableJob};
use super::supervise::{REPORTS, Supervisor};
use super::table::{Forwarding, Hold, JobEntry, JobStarter};
use super::watched::Watched;
use super::{Control, EndedJob};
use crate::internode::{HeldJob, HeldProc};
use crate::nodes::NodesLauncher;
use crate::{LaunchReport, Launcher};

/// What each node has told of jobs. Nodes that are lost are not here.
pub(crate) type HeldBy = BTreeMap<String, BTreeMap<Nspace, HeldJob>>;

/// A job that goes on.
struct Resumed {
    facts: JobFacts,
    held: Vec<HeldProc>,
    /// Of the first call of abort.
    abort_status: Option<i32>,
    control: mpsc::UnboundedSender<Control>,
    controls: mpsc::UnboundedReceiver<Control>,
    reports_out: mpsc::Sender<JobReport>,
    reports: mpsc::Receiver<JobReport>,
    /// What its processes report.
    launch_reports: mpsc::Sender<LaunchReport>,
    reports_in: mpsc::Receiver<LaunchReport>,
}

impl Jobs {
    /// Goes on with the jobs that were kept, as far as nodes hold all of them. What else nodes hold is ended: jobs that were just
    /// being started, and those that had ended.
    ///
    /// # Errors
    /// What was kept cannot be read.
    pub(crate) async fn resume(
        &self,
        launcher: &NodesLauncher,
        kept: &[KeptJob],
        ended: &[EndedJob],
        held: HeldBy,
    ) -> Result<(), UnreadableJob> {
        let mut facts = kept.iter().map(JobFacts::read).collect::<Result<Vec<_>, _>>()?;
        let endings = ended.iter().map(JobEnding::read).collect::<Result<Vec<_>, _>>()?;
        // parents come before their children
        facts.sort_by_key(|facts| facts.number);
        let numbers =
            facts.iter().map(|facts| facts.number).chain(endings.iter().map(|ending| ending.number));
        let children = facts.iter().map(|facts| facts.last_child);
        let children = children.chain(endings.iter().map(JobEnding::last_child));
        self.cluster.count_from(numbers.max(), children.max());
        for ending in &endings {
            if let Some(ticket) = ending.ticket.clone() {
                let has_run = ending.status != Status::ERR_JOB_FAILED_TO_LAUNCH;
                let nspace = ending.nspace.clone();
                self.cluster.settle(ticket, if has_run { Ok(nspace) } else { Err(nspace) });
            }
        }
        self.cluster.table.remember(endings);
        let nodes = match self.cluster.nodes() {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::error!(%error, "no job can be resumed");
                return Ok(());
            }
        };
        // their ends are known, and may not have been told to anybody
        let has_ended = |facts: &JobFacts| self.cluster.table.ending(&facts.nspace);
        let (over, facts): (Vec<_>, Vec<_>) = facts.into_iter().partition(|facts| has_ended(facts).is_some());
        let gone = |facts: &JobFacts| self.gone(facts);
        let (whole, broken): (Vec<_>, Vec<_>) =
            facts.into_iter().partition(|facts| is_whole(facts, &held, &gone(facts)));
        let mut known: BTreeSet<_> = whole.iter().map(|facts| facts.nspace.clone()).collect();
        for facts in over {
            if let Some(ending) = has_ended(&facts) {
                let outcome = JobOutcome::new(ending.status, ending.exit_code);
                let event = notices::of_end(&facts.nspace, &outcome, None);
                let hearers = facts.parent.clone().filter(|_| facts.notices.of_end(&outcome));
                nodes.notify(&notices::for_procs(event, hearers.into_iter().collect())).await;
            }
            self.clear(launcher, &nodes, &held, &facts.nspace).await;
            known.insert(facts.nspace);
        }
        for facts in broken {
            tracing::warn!(nspace = %facts.nspace, "the job was being started when its head was lost: it is ended");
            // what has not come to any node can be started as if for the first time
            let has_started = of_job(&held, &facts.nspace).any(|(_, job)| !job.procs.is_empty());
            let ticket = facts.ticket.clone().filter(|_| has_started);
            if let Some(ticket) = ticket.clone() {
                self.cluster.settle(ticket, Err(facts.nspace.clone()));
            }
            // before the job is forgotten: its request must not be carried out again
            self.note_failed(&facts, ticket).await;
            self.clear(launcher, &nodes, &held, &facts.nspace).await;
            known.insert(facts.nspace);
        }
        let held_jobs: BTreeSet<_> = held.values().flatten().map(|(nspace, _)| nspace.clone()).collect();
        for nspace in held_jobs.difference(&known) {
            self.clear(launcher, &nodes, &held, nspace).await;
        }
        let used = whole.iter().flat_map(|facts| facts.plan.nodes.iter());
        let lost: BTreeSet<String> = used.filter(|node| !held.contains_key(*node)).cloned().collect();
        let resumed: Vec<_> = whole.into_iter().map(|facts| self.enter_again(facts, &held)).collect();
        let there: BTreeSet<String> = held.keys().cloned().collect();
        let children: Vec<_> = resumed.iter().map(child_of).collect();
        for job in resumed {
            let of_this =
                |(parent, ..): &&(Option<Nspace>, Nspace, _)| parent.as_ref() == Some(&job.facts.nspace);
            let children =
                children.iter().filter(of_this).map(|(_, nspace, child)| (nspace.clone(), child()));
            let children = children.collect();
            self.go_on(launcher, nodes.clone(), &there, job, children);
        }
        for node in lost {
            self.cluster.table.node_lost(&node);
            let why = launcher.loss_reason(&node);
            let why = why.as_deref().unwrap_or("it has not come to the successor of its head");
            launcher.node_lost(&node, why);
        }
        Ok(())
    }

    /// The nodes of a job that were lost before others of the same names came.
    fn gone(&self, facts: &JobFacts) -> BTreeSet<String> {
        let now = self.site.places_of(&facts.plan.nodes);
        let places = facts.plan.nodes.iter().zip(facts.places.iter().zip(now));
        places.filter(|(_, (then, now))| *then != now).map(|(node, _)| node.clone()).collect()
    }

    /// Ends what nodes have of a job.
    async fn clear(&self, launcher: &NodesLauncher, nodes: &Nodes, held: &HeldBy, nspace: &Nspace) {
        let left = |job: &HeldJob| {
            let left = job.procs.iter().filter(|proc| proc.exit.is_none());
            left.map(|proc| ProcId::new(nspace.clone(), proc.rank)).collect::<Vec<_>>()
        };
        let left = of_job(held, nspace).map(|(node, job)| (node.clone(), left(job)));
        launcher.kill_on(left.filter(|(_, procs)| !procs.is_empty()).collect()).await;
        nodes.end_job(nspace).await;
        if let Some(store) = self.cluster.store() {
            store.forget(nspace);
        }
    }

    /// Those who ask what has become of a job, or of the spawn with this ticket, are told that it has failed to start.
    async fn note_failed(&self, facts: &JobFacts, ticket: Option<TicketOf>) {
        let outcome = JobOutcome::new(Status::ERR_JOB_FAILED_TO_LAUNCH, 1);
        let ending =
            JobEnding::new(facts.number, &facts.nspace, facts.owner, facts.last_child, ticket, &outcome);
        if let Some(store) = self.cluster.store() {
            store.end(ending.keep()).await;
        }
        self.cluster.table.remember([ending]);
    }

    /// Has a job in the table again.
    fn enter_again(&self, facts: JobFacts, held: &HeldBy) -> Resumed {
        let (control, controls) = mpsc::unbounded_channel();
        let (reports_out, reports) = mpsc::channel(REPORTS);
        let (launch_reports, reports_in) = mpsc::channel(REPORTS);
        let nspace = &facts.nspace;
        let abort_status = of_job(held, nspace).find_map(|(_, job)| job.abort_status);
        let held: Vec<HeldProc> =
            of_job(held, nspace).flat_map(|(_, job)| job.procs.iter().cloned()).collect();
        let lost_nodes = self.gone(&facts);
        let mut table = facts.plan.table(nspace);
        for proc in &held {
            let row = usize::try_from(proc.rank.to_raw()).ok().and_then(|rank| table.get_mut(rank));
            row.into_iter().for_each(|row| fill(row, proc));
        }
        let entry = JobEntry {
            control: control.clone(),
            reports: reports_out.clone(),
            from_procs: launch_reports.downgrade(),
            owner: facts.owner,
            connected_to: facts
                .parent
                .as_ref()
                .filter(|_| !facts.is_independent)
                .map(|parent| parent.nspace.clone()),
            ends_with: facts.ends_with.clone(),
            is_of_daemons: facts.is_of_daemons,
            on_failure: facts.on_failure,
            table,
            apps: facts.plan.apps(),
            exported: Vec::new(),
            lost_nodes,
            node_ranks: facts.node_ranks.clone(),
            written: BTreeMap::new(),
            forwarding: Forwarding {
                channels: facts.channels,
                stdin: facts.stdin,
                pullers: Vec::new(),
                hold: Hold { node: facts.hold.clone(), ..Hold::default() },
            },
        };
        self.cluster.table.entries().insert(nspace.clone(), entry);
        if let Some(ticket) = facts.ticket.clone() {
            self.cluster.settle(ticket, Ok(nspace.clone()));
        }
        Resumed {
            facts,
            held,
            abort_status,
            control,
            controls,
            reports_out,
            reports,
            launch_reports,
            reports_in,
        }
    }

    /// Watches a job again.
    fn go_on(
        &self,
        launcher: &NodesLauncher,
        nodes: Nodes,
        there: &BTreeSet<String>,
        job: Resumed,
        children: BTreeMap<Nspace, Child>,
    ) {
        let Resumed { facts, held, abort_status, control, controls, reports_out, reports, .. } = job;
        let (launch_reports, reports_in) = (job.launch_reports, job.reports_in);
        // of a requester that is gone with its node, no loss is told
        let is_gone =
            |requester: &JobStarter| requester.node != self.site.node() && !there.contains(&requester.node);
        if facts.ends_with.as_ref().is_some_and(is_gone) {
            let (act, reach) = (Act::Terminate, Reach::Connected);
            let _ = control.send(Control::Order { act, reach, done: None });
        }
        let over: BTreeSet<Rank> =
            held.iter().filter(|proc| proc.exit.is_some()).map(|proc| proc.rank).collect();
        let nspace = facts.nspace.clone();
        let left = (0..).map(Rank::from_raw).zip(facts.plan.places());
        let left = left.filter(|(rank, _)| !over.contains(rank));
        launcher.take_up(&nspace, launch_reports, left.map(|(rank, node)| (node, rank)));
        for node in self.gone(&facts) {
            launcher.part_lost(&nspace, &node);
        }
        let owner = facts.parent.as_ref().and_then(|parent| {
            let entries = self.cluster.table.entries();
            let job = entries.get(&parent.nspace)?;
            Some(Owner { control: job.control.clone(), reports: job.reports.clone() })
        });
        let watched = Watched {
            number: facts.number,
            nspace: nspace.clone(),
            plan: facts.plan,
            programs: facts.programs,
            owner: facts.owner,
            parent: facts.parent,
            // only a job of a tool ends with its requester
            is_of_tool: facts.ends_with.is_some(),
            notices: facts.notices,
            limit: facts.ends_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default()),
            on_failure: facts.on_failure,
            place: None,
            ticket: facts.ticket,
        };
        let supervisor = Supervisor::new(&self.cluster, self.published().clone(), nodes, watched);
        let supervisor = supervisor.taking_up(held, abort_status, children);
        tokio::spawn(supervisor.run(controls, reports_in, reports_out));
        tokio::spawn(pass_on(RunningJob::new(nspace, reports, control), owner));
    }

    /// Whether it is remembered that a job has ended.
    pub(crate) fn has_ended(&self, nspace: &Nspace) -> bool {
        self.cluster.table.ending(nspace).is_some()
    }

    /// What has become of a spawn that was requested before; `None` if this is the first time.
    pub(crate) fn settled(&self, ticket: &TicketOf) -> Option<HostResult<Nspace>> {
        let failed = |nspace: Nspace| {
            let message =
                format!("{nspace} was being started when the head of the DVM was lost: it has been ended");
            HostError::new(Status::ERR_JOB_FAILED_TO_LAUNCH, message)
        };
        self.cluster.settled(ticket).map(|settled| settled.map_err(failed))
    }
}

/// What nodes have of a job.
fn of_job<'a>(held: &'a HeldBy, nspace: &Nspace) -> impl Iterator<Item = (&'a String, &'a HeldJob)> {
    held.iter().filter_map(move |(node, jobs)| Some((node, jobs.get(nspace)?)))
}

/// Takes what a node knows of a process down.
fn fill(row: &mut ProcInfo, proc: &HeldProc) {
    let HeldProc { started, is_connected, is_finalized, exit, .. } = proc;
    if let Some((pid, executable)) = started {
        (row.pid, row.executable) = (Pid(*pid), Some(executable.clone()));
        row.state = if *is_connected { ProcState::CONNECTED } else { ProcState::RUNNING };
    }
    if let Some(exit) = exit {
        note_end(row, *exit, *is_connected && !is_finalized);
    }
}

/// Whether each of its nodes that is there has started all of its processes.
fn is_whole(facts: &JobFacts, held: &HeldBy, gone: &BTreeSet<String>) -> bool {
    let mut wanted = BTreeMap::<String, BTreeSet<Rank>>::new();
    for (rank, node) in (0..).map(Rank::from_raw).zip(facts.plan.places()) {
        wanted.entry(node).or_default().insert(rank);
    }
    wanted.into_iter().all(|(node, ranks)| {
        let Some(jobs) = held.get(&node).filter(|_| !gone.contains(&node)) else { return true };
        let Some(job) = jobs.get(&facts.nspace) else { return false };
        let there: BTreeSet<_> = job.procs.iter().map(|proc| proc.rank).collect();
        ranks.is_subset(&there)
    })
}

/// A job as its parent knows it: the job of the parent, its own name, and the way to it.
fn child_of(job: &Resumed) -> (Option<Nspace>, Nspace, impl Fn() -> Child + use<>) {
    let (control, is_independent) = (job.control.clone(), job.facts.is_independent);
    let may_fail = job.facts.notices.of_failure();
    let parent = job.facts.parent.as_ref().map(|parent| parent.nspace.clone());
    (parent, job.facts.nspace.clone(), move || Child { control: control.clone(), is_independent, may_fail })
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
