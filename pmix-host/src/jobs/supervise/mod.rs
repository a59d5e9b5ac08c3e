//! The supervisor of a job: follows its processes until its end, and acts on what happens to them.

mod acts;
mod end;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pmix_types::{Event, Nspace, Persistence, Pid, ProcId, ProcInfo, ProcState, Rank, Status};
use tokio::sync::mpsc;

use super::cluster::Cluster;
use super::control::{Act, Child, Control, Reach, end_late_children};
use super::node::Nodes;
use super::notices;
use super::outcome::{Course, Failing, note_end};
use super::output;
use super::report::{JobReport, OnFailure};
use super::table::JobTable;
use super::watched::Watched;
use crate::allocations::Allocations;
use crate::internode::HeldProc;
use crate::publish::Publishing;
use crate::store::Ended;
use crate::{LaunchReport, Launcher, ProcExit};

/// How long to wait for the first lost process to end, so that its end can be reported.
const FIRST_TO_FAIL: Duration = Duration::from_secs(1);

/// How long the files of its record may take: they may be on a file system that hangs.
const RECORDING: Duration = Duration::from_secs(2);

/// Reports that may wait to be read: what holds back a process whose output nobody takes.
pub(super) const REPORTS: usize = 256;

/// Watches one job.
pub(super) struct Supervisor {
    cluster: Arc<Cluster>,
    launcher: Arc<dyn Launcher>,
    table: Arc<JobTable>,
    allocations: Arc<Allocations>,
    published: Arc<Publishing>,
    nodes: Nodes,
    job: Watched,
    running: BTreeSet<Rank>,
    connected: BTreeSet<Rank>,
    finalized: BTreeSet<Rank>,
    /// Processes whose connection was lost, in that order, each once; with the order its server has given it.
    lost: Vec<(Rank, u64)>,
    /// Processes of whose failure the others have been notified.
    announced: BTreeSet<Rank>,
    course: Course,
    /// The event of its end has been sent.
    end_is_told: bool,
    /// It is in no table any more. Independent jobs that it has started may run.
    has_ended: bool,
    /// What led to its end is on record.
    is_recorded: bool,
    /// Jobs that its processes have started and that run.
    children: BTreeMap<Nspace, Child>,
    /// All that runs was told to end, and what starts from now on is, too.
    is_ending: bool,
    /// What nodes hold of it, if another head has watched it before.
    held: Option<Vec<HeldProc>>,
}

/// Something the supervisor does at a certain time.
type Alarm = Option<tokio::time::Instant>;

/// Reports that the owner has not received yet.
type Outgoing = VecDeque<JobReport>;

impl Supervisor {
    pub(super) fn new(
        cluster: &Arc<Cluster>,
        published: Arc<Publishing>,
        nodes: Nodes,
        job: Watched,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            launcher: cluster.launcher.clone(),
            table: cluster.table.clone(),
            allocations: cluster.allocations.clone(),
            published,
            nodes,
            running: job.plan.all_ranks(),
            job,
            connected: BTreeSet::new(),
            finalized: BTreeSet::new(),
            lost: Vec::new(),
            announced: BTreeSet::new(),
            course: Course::default(),
            end_is_told: false,
            has_ended: false,
            is_recorded: false,
            children: BTreeMap::new(),
            is_ending: false,
            held: None,
        }
    }

    /// Goes on with a job that another head has watched, of which nodes hold this.
    pub(super) fn taking_up(
        mut self,
        held: Vec<HeldProc>,
        abort_status: Option<i32>,
        children: BTreeMap<Nspace, Child>,
    ) -> Self {
        (self.held, self.children) = (Some(held), children);
        // it may have got no further
        self.course.abort_status = abort_status;
        self.course.asked_to_end = abort_status.is_some();
        self
    }

    pub(super) async fn run(
        mut self,
        mut controls: mpsc::UnboundedReceiver<Control>,
        mut reports: mpsc::Receiver<LaunchReport>,
        out: mpsc::Sender<JobReport>,
    ) {
        let mut outgoing = Outgoing::new();
        let now = tokio::time::Instant::now();
        // a limit beyond the clock's end is none
        let mut limit_at: Alarm = self.job.limit.and_then(|limit| now.checked_add(limit));
        let (mut end_at, mut tell_at): (Alarm, Alarm) = (None, None);
        self.table.counters.job_started();
        match self.held.take() {
            Some(held) => {
                // they count here as their job does
                let has_started = |proc: &&HeldProc| proc.started.is_some() || proc.exit.is_some();
                self.table.counters.procs_started(held.iter().filter(has_started).count());
                self.take_up(held, &mut outgoing).await;
            }
            None => {
                self.job.notices.log_start(&self.job.nspace);
                for event in notices::of_start(&self.job.nspace) {
                    self.tell_of_job(event, self.job.notices.of_start()).await;
                }
            }
        }
        let (mut had_failed, mut done) = (false, None);
        loop {
            if !had_failed && self.course.has_failed() {
                had_failed = true;
                self.record("it has failed", &mut outgoing).await;
                let now = tokio::time::Instant::now();
                tell_at = Some(now + FIRST_TO_FAIL);
                if let OnFailure::End { grace } = self.job.on_failure {
                    end_at = Some(now + grace);
                }
            }
            if self.running.is_empty() && !self.end_is_told {
                self.end_is_told = true;
                self.tell_of_end().await;
            }
            if !self.has_ended && self.is_over() && outgoing.is_empty() {
                (limit_at, end_at, tell_at) = (None, None, None);
                done = Some(self.end(&mut controls, &mut outgoing).await);
            }
            // the end of the first job is that of the host, which ends all that runs
            if self.job.parent.is_some() || self.children.is_empty() {
                outgoing.extend(done.take().map(JobReport::Done));
            }
            if self.has_ended && self.children.is_empty() && outgoing.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(control) = controls.recv() => self.on_control(control, &mut outgoing).await,
                // before the reports: a process that writes without end must not keep them from their turn
                () = until(end_at) => {
                    end_at = None;
                    self.end_all().await;
                }
                () = until(tell_at) => {
                    tell_at = None;
                    self.tell_any(&mut outgoing);
                }
                () = until(limit_at) => {
                    limit_at = None;
                    self.end_in_time(&mut outgoing).await;
                }
                // one report at a time: who does not take output holds its process back
                permit = out.reserve(), if !outgoing.is_empty() => {
                    let report = outgoing.pop_front();
                    if let (Ok(permit), Some(report)) = (permit, report) {
                        permit.send(report);
                    }
                }
                Some(report) = reports.recv(), if outgoing.len() < REPORTS => {
                    self.on_report(report, &mut controls, &mut outgoing).await;
                }
                else => break,
            }
        }
        end_late_children(controls);
    }

    /// Notifies tools on all nodes of the job, and its requester if that has asked for it (SPN-05).
    async fn tell_of_job(&self, event: Event, is_for_parent: bool) {
        let parent = self.job.parent.clone().filter(|_| is_for_parent);
        self.nodes.notify(&notices::for_procs(event, parent.into_iter().collect())).await;
    }

    /// Takes up what has happened to its processes before. Of failures the others are told once more: it is not known whether they
    /// have heard of them.
    async fn take_up(&mut self, held: Vec<HeldProc>, out: &mut Outgoing) {
        let mut failed = Vec::new();
        for HeldProc { rank, is_connected, is_finalized, lost, exit, .. } in held {
            if is_connected {
                self.connected.insert(rank);
            }
            if is_finalized {
                self.finalized.insert(rank);
            }
            if let Some(order) = lost {
                self.note_lost(rank, order);
                failed.push(rank);
            }
            if let Some(exit) = exit {
                if self.take_end(rank, exit) {
                    failed.push(rank);
                }
                self.forget_published(rank);
            }
        }
        if self.course.abort_status.is_some() {
            self.end_all().await;
        }
        for rank in failed {
            self.fail(rank).await;
        }
        self.tell(out);
    }

    /// A process has ended. Returns whether that is a failure.
    fn take_end(&mut self, rank: Rank, exit: ProcExit) -> bool {
        self.table.counters.proc_ended(exit);
        self.running.remove(&rank);
        self.course.exits.insert(rank, exit);
        let left_early = self.connected.contains(&rank) && !self.finalized.contains(&rank);
        self.with_row(rank, |row| note_end(row, exit, left_early));
        left_early || exit != ProcExit::Code(0)
    }

    async fn on_control(&mut self, control: Control, out: &mut Outgoing) {
        match control {
            // it was killed while its server let it in, and has ended
            Control::Connected(rank) if !self.running.contains(&rank) => {}
            Control::Connected(rank) => {
                self.connected.insert(rank);
                self.finalized.remove(&rank);
                // it is back: another failure is news again
                self.announced.remove(&rank);
                self.set_state(rank, ProcState::CONNECTED);
            }
            Control::Finalized(rank) => {
                self.finalized.insert(rank);
            }
            Control::Lost { rank, order } => {
                self.note_lost(rank, order);
                self.fail(rank).await;
                self.tell(out);
            }
            Control::Abort { by, ranks: Some(ranks), status, message, dead }
                if self.job.on_failure == OnFailure::Continue =>
            {
                let lives = |rank: &Rank| self.running.contains(rank) && !dead.contains(rank);
                let named: BTreeSet<_> = ranks.iter().filter(lives).collect();
                // an aborted process has not succeeded, whatever status the caller gave
                let status_of = named.iter().map(|rank| (*rank, if status == 0 { 1 } else { status }));
                self.course.aborted.extend(status_of);
                out.push_back(JobReport::Abort { by, ranks: Some(ranks), status, message });
                if let Err(error) = self.act_on(Some(named), Act::Terminate).await {
                    tracing::warn!(%error, "cannot end processes that are aborted");
                }
            }
            Control::Abort { by, ranks, status, message, dead } => {
                if let Some(first) = self.first_dead(&by, dead) {
                    // before all whose loss is told from now on, also those of other nodes
                    self.lost.insert(0, (first, 0));
                    self.fail(first).await;
                }
                self.record("abort was called", out).await;
                out.push_back(JobReport::Abort { by, ranks, status, message });
                // after a failure it is one of its effects: MPI libraries abort when they hear that a peer is lost
                if !self.course.has_failed() {
                    self.course.abort_status.get_or_insert(status);
                }
                self.course.asked_to_end = true;
                self.end_all().await;
            }
            Control::TimeOver => self.end_in_time(out).await,
            Control::Order { act, reach, done: None } => {
                if let Err(error) = self.act(None, act, reach, out).await {
                    tracing::warn!(%error, ?act, "cannot signal or end the job");
                }
            }
            Control::Order { act, reach, done: Some(done) } => {
                self.act_and_answer(act, reach, done, out).await;
            }
            Control::Act { ranks, act, done } => {
                let acted = self.act(ranks, act, Reach::Connected, out).await;
                // the requester may be gone, not least because of its request
                let _ = done.send(acted);
            }
            Control::Child { nspace, child } => {
                // its spawn was under way when all others were ended
                if self.is_ending {
                    child.end();
                }
                self.children.insert(nspace, child);
            }
            Control::ChildEnded { nspace, outcome } => {
                let child = self.children.get_mut(&nspace);
                let concerns_us = child.as_ref().is_none_or(|child| !child.is_independent);
                let is_told = child.as_ref().is_some_and(|child| child.may_fail);
                // what it has left is independent
                child.into_iter().for_each(|child| child.is_independent = true);
                // what ends on request is no failure, neither of the child nor of its parent
                let has_failed = outcome.exit_code != 0 && outcome.status != Status::ERR_JOB_KILLED_BY_CMD;
                if concerns_us && has_failed && !self.course.asked_to_end {
                    let may_fail = self.job.is_of_tool || is_told;
                    if !self.course.fails_with_child() && (self.course.child_failure.is_none() || !may_fail) {
                        self.course.child_failure = Some(outcome);
                        self.course.outlives_child = may_fail;
                    }
                }
            }
            Control::ChildGone { nspace } => drop(self.children.remove(&nspace)),
        }
    }

    /// Its time is over, or that of its allocation.
    async fn end_in_time(&mut self, out: &mut Outgoing) {
        self.record("its time is over", out).await;
        self.course.timed_out = true;
        self.course.asked_to_end = true;
        self.end_all().await;
    }

    async fn on_report(
        &mut self,
        report: LaunchReport,
        controls: &mut mpsc::UnboundedReceiver<Control>,
        out: &mut Outgoing,
    ) {
        match &report {
            LaunchReport::Started { proc, pid, executable } => {
                self.with_row(proc.rank, |row| {
                    // it may have been told to the head before
                    self.table.counters.procs_started(usize::from(row.pid.0 <= 0));
                    row.pid = Pid(*pid);
                    row.executable = Some(executable.clone());
                    // it may have connected before this report came
                    if row.state == ProcState::LAUNCH_UNDERWAY {
                        row.state = ProcState::RUNNING;
                    }
                });
                if let Some(node) = self.job.plan.node_of(proc.rank).and_then(|node| self.nodes.get(node)) {
                    node.proc_started(proc, *pid).await;
                }
            }
            LaunchReport::Output { proc, channel, data } => {
                self.table.counters.output(*channel, data);
                let is_kept = output::forward(&self.table, &self.nodes, proc, *channel, data).await;
                // the owner hears of the end in any case: it may hold the beginning of a line
                if !is_kept && !data.is_empty() {
                    return;
                }
            }
            LaunchReport::Ended { proc, exit } => {
                let rank = proc.rank;
                let exit = self.course.aborted.remove(&rank).map_or(*exit, ProcExit::Code);
                let has_failed = self.take_end(rank, exit);
                // after the table says so: what is published from now on is known to come late
                self.forget_published(rank);
                if let Some(node) = self.job.plan.node_of(rank).and_then(|node| self.nodes.get(node)) {
                    node.proc_ended(proc, format!("it ended with {exit}")).await;
                    // by now its server has told of those it lost before, of whom this one may have heard and ended
                    while let Ok(control) = controls.try_recv() {
                        self.on_control(control, out).await;
                    }
                }
                out.push_back(JobReport::Proc(report));
                let mut status = Status::SUCCESS;
                if has_failed {
                    self.fail(rank).await;
                    status = self.course.status_of(rank);
                }
                let (proc, wanted) = (self.proc(rank), self.job.notices);
                wanted.log_proc(&proc, status, exit);
                let asked = self.job.parent.clone().filter(|_| wanted.of_proc(status));
                let ended = notices::of_ended_proc(proc, status, exit, asked);
                self.nodes.notify(&ended).await;
                self.tell(out);
                return;
            }
        }
        out.push_back(JobReport::Proc(report));
    }

    /// A process has failed: notifies the others, once per process.
    async fn fail(&mut self, rank: Rank) {
        // a lost connection and an end are two signs of one failure
        if self.course.asked_to_end || !self.announced.insert(rank) {
            return;
        }
        // after the failure of a child job it is one of its effects
        if self.course.failing == Failing::No && !self.course.fails_with_child() {
            self.course.failing = Failing::First(rank);
        }
        let event = self.table.lost_proc(self.proc(rank), self.course.status_of(rank));
        self.nodes.notify(&event).await;
    }

    /// The first of these whose death is news: a process that has left without finalize.
    fn first_dead(&self, aborter: &ProcId, dead: Vec<Rank>) -> Option<Rank> {
        if self.course.has_failed() || self.course.asked_to_end {
            return None;
        }
        dead.into_iter().find(|rank| {
            let left_early = self.connected.contains(rank) && !self.finalized.contains(rank);
            // its end may be on its way here, or just being told
            left_early && !self.announced.contains(rank) && self.proc(*rank) != *aborter
        })
    }

    /// News of one server may overtake each other on their way, which their numbers show; those of several are taken in
    /// the order they come.
    fn note_lost(&mut self, rank: Rank, order: u64) {
        if self.lost.iter().any(|(lost, _)| *lost == rank) {
            return;
        }
        let node = self.job.plan.node_of(rank);
        let is_later = |&(lost, number): &(Rank, u64)| number > order && self.job.plan.node_of(lost) == node;
        let place = self.lost.iter().position(is_later).unwrap_or(self.lost.len());
        self.lost.insert(place, (rank, order));
    }

    /// Tells the owner how the first process to fail has ended, as soon as that is known.
    fn tell(&mut self, out: &mut Outgoing) {
        // the one lost first is the cause; others may have died of it and been reported sooner
        let first = match self.course.failing {
            Failing::First(rank) => self.lost.first().map_or(rank, |(lost, _)| *lost),
            _ => return,
        };
        if let Some(exit) = self.course.exits.get(&first).copied() {
            self.tell_of(first, exit, out);
        }
    }

    /// The first lost process has not ended: reports any that has.
    fn tell_any(&mut self, out: &mut Outgoing) {
        if let Failing::First(rank) = self.course.failing
            && let Some(exit) = self.course.exits.get(&rank).copied()
        {
            self.tell_of(rank, exit, out);
        }
    }

    fn tell_of(&mut self, rank: Rank, exit: ProcExit, out: &mut Outgoing) {
        self.course.failing = Failing::Told(rank, exit);
        let app = self.job.plan.ranks.get(rank.to_raw() as usize).map_or(0, |(_, app)| *app);
        out.push_back(JobReport::Failed {
            proc: self.proc(rank),
            node: self.job.plan.node_of(rank).unwrap_or_default().to_owned(),
            program: self.job.programs.get(app).cloned().unwrap_or_default(),
            exit,
        });
    }

    /// What a process has published may end with it, or with the last one of its application.
    fn forget_published(&self, ended: Rank) {
        let app_of = |rank: Rank| self.job.plan.ranks.get(rank.to_raw() as usize).map(|(_, app)| *app);
        let app = app_of(ended);
        let forget = |ranks, persistence| {
            let nspace = self.job.nspace.clone();
            self.published.forget(Ended::Procs { nspace, ranks: Some(ranks), persistence });
        };
        forget([ended].into_iter().collect(), Persistence::PROC);
        if !self.running.iter().any(|rank| app_of(*rank) == app) {
            let members = self.job.plan.all_ranks().into_iter().filter(|rank| app_of(*rank) == app);
            forget(members.collect(), Persistence::APP);
        }
    }

    /// Has all nodes write down what led to the end of the job, before that is done which ends it.
    async fn record(&mut self, why: &str, out: &mut Outgoing) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let records = self.nodes.keep_records(&self.job.nspace, why);
        match tokio::time::timeout(RECORDING, records).await {
            Ok(files) => {
                out.extend(files.into_iter().map(|(node, file)| JobReport::Recorded { node, file }));
            }
            Err(_) => {
                tracing::warn!(nspace = %self.job.nspace, "writing the flight record of the job takes too long; going on without waiting for it");
            }
        }
    }

    fn running_procs(&self) -> Vec<ProcId> {
        self.running.iter().map(|rank| self.proc(*rank)).collect()
    }

    fn proc(&self, rank: Rank) -> ProcId {
        ProcId::new(self.job.nspace.clone(), rank)
    }

    fn set_state(&self, rank: Rank, state: ProcState) {
        self.with_row(rank, |row| row.state = state);
    }

    fn with_row(&self, rank: Rank, change: impl FnOnce(&mut ProcInfo)) {
        self.table.with_row(&self.proc(rank), change);
    }
}

/// Until a time, or for ever.
async fn until(alarm: Alarm) {
    match alarm {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
