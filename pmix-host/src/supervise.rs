//! The watch over a job: what its processes do and what is done about it, to its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pmix_types::{Event, Nspace, Persistence, Pid, ProcId, ProcInfo, ProcState, Rank, Status};
use tokio::sync::{mpsc, oneshot};

use super::cluster::Servers;
use super::job_control::Act;
use super::notices::{self, Told};
use super::plan::Plan;
use super::start::REPORTS;
use super::store::Over;
use super::{JobOutcome, JobReport, LaunchError, LaunchReport, Launcher, OnFailure, ProcExit, StandardHost};

/// Exit code of a job whose time was over, as that of timeout(1).
const TIMED_OUT: i32 = 124;
/// How long the first process to be lost is waited for, so that its end can be told.
const FIRST_TO_FAIL: Duration = Duration::from_secs(1);

/// What a supervisor is told.
#[derive(Debug)]
pub(super) enum Control {
    Connected(Rank),
    Finalized(Rank),
    /// A connection ended without finalize; smaller numbers came first.
    Lost {
        rank: Rank,
        order: u64,
    },
    Abort {
        by: ProcId,
        status: i32,
        message: String,
        /// Had ended by then, perhaps without anybody being told yet.
        dead: Vec<Rank>,
    },
    /// From its owner, or from that of its parent.
    Order {
        act: Act,
        reach: Reach,
    },
    /// A process has asked for it.
    Act {
        /// Whom; `None` for all, and for the jobs they have started, unless these are independent.
        ranks: Option<BTreeSet<Rank>>,
        act: Act,
        done: oneshot::Sender<Result<(), LaunchError>>,
    },
    /// One of its processes has started a job.
    Child {
        nspace: Nspace,
        child: Child,
    },
    /// A job that it started has ended.
    ChildEnded {
        nspace: Nspace,
        outcome: JobOutcome,
    },
}

/// How far down an order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the jobs that are connected with this one (CON-18).
    Connected,
    /// To independent ones too.
    All,
}

/// A job that a process of another has started.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) control: mpsc::UnboundedSender<Control>,
    /// It does not end with the other.
    pub(super) is_independent: bool,
}

impl Child {
    /// Ends it with the other one.
    pub(super) fn end(&self) {
        if !self.is_independent {
            // it may just have ended by itself
            let _ = self.control.send(Control::Order { act: Act::Terminate, reach: Reach::Connected });
        }
    }
}

/// What there is to know of a job that has started.
#[derive(Debug)]
pub(super) struct Watched {
    /// No other job of this host has had it.
    pub(super) number: u32,
    pub(super) nspace: Nspace,
    pub(super) plan: Plan,
    /// What each of its applications runs.
    pub(super) programs: Vec<String>,
    /// Who has asked for it, if a process has.
    pub(super) parent: Option<ProcId>,
    pub(super) told: Told,
    /// How long it may run.
    pub(super) limit: Option<Duration>,
    pub(super) on_failure: OnFailure,
}

/// How far the failure of a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    No,
    /// The others know of it, this process was the first; its end is awaited so that it can be told.
    First(Rank),
    /// It has been told.
    Told(Rank, ProcExit),
}

/// Watches one job.
pub(super) struct Supervisor {
    host: StandardHost,
    servers: Servers,
    job: Watched,
    running: BTreeSet<Rank>,
    connected: BTreeSet<Rank>,
    finalized: BTreeSet<Rank>,
    /// Processes whose connection was lost, in that order, each once; with the order its server has given it.
    lost: Vec<(Rank, u64)>,
    exits: BTreeMap<Rank, ProcExit>,
    /// Those whose failure the others have been told of.
    announced: BTreeSet<Rank>,
    failing: Failing,
    /// Its owner, an abort or the end of its time has ended it: what dies now is no failure.
    asked_to_end: bool,
    abort_status: Option<i32>,
    timed_out: bool,
    /// Those who are to know of its end have been told.
    end_is_told: bool,
    /// Jobs that its processes have started and that run.
    children: BTreeMap<Nspace, Child>,
    /// How the first of them to fail has ended.
    child_failure: Option<JobOutcome>,
}

/// Something the supervisor does at a certain time.
type Alarm = Option<tokio::time::Instant>;

/// What the owner is still to be told.
type Outgoing = VecDeque<JobReport>;

impl Supervisor {
    pub(super) fn new(host: StandardHost, servers: Servers, job: Watched) -> Self {
        Self {
            host,
            servers,
            running: job.plan.all_ranks(),
            job,
            connected: BTreeSet::new(),
            finalized: BTreeSet::new(),
            lost: Vec::new(),
            exits: BTreeMap::new(),
            announced: BTreeSet::new(),
            failing: Failing::No,
            asked_to_end: false,
            abort_status: None,
            timed_out: false,
            end_is_told: false,
            children: BTreeMap::new(),
            child_failure: None,
        }
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
        for event in notices::of_start(&self.job.nspace) {
            self.tell_of_job(event, self.job.told.of_start()).await;
        }
        while !(self.running.is_empty() && self.children.is_empty() && outgoing.is_empty()) {
            let was = self.has_failed();
            tokio::select! {
                biased;
                Some(control) = controls.recv() => self.on_control(control, &mut outgoing).await,
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
                    self.timed_out = true;
                    self.asked_to_end = true;
                    self.end_all().await;
                }
                else => break,
            }
            if !was && self.has_failed() {
                let now = tokio::time::Instant::now();
                tell_at = Some(now + FIRST_TO_FAIL);
                if let OnFailure::End { grace } = self.job.on_failure {
                    end_at = Some(now + grace);
                }
            }
            if self.running.is_empty() && !self.end_is_told {
                self.end_is_told = true;
                limit_at = None;
                self.tell_of_end().await;
            }
        }
        let outcome = self.outcome();
        // the namespace is gone before its owner hears of the end
        self.host.jobs().remove(&self.job.nspace);
        controls.close();
        while let Ok(control) = controls.try_recv() {
            // a job that was started while this one ended
            if let Control::Child { child, .. } = control {
                child.end();
            }
        }
        self.servers.deregister_job(self.job.number, &self.job.nspace).await;
        for host in self.host.on_all_nodes() {
            host.forget_job(&self.job.nspace);
        }
        let _ = out.send(JobReport::Done(outcome)).await;
    }

    /// Tools hear of the job on whatever node, and so does who has asked for it if that was asked for, too (SPN-05).
    async fn tell_of_job(&self, event: Event, is_for_parent: bool) {
        let parent = self.job.parent.clone().filter(|_| is_for_parent);
        self.servers.notify_event(&notices::for_procs(event, parent.into_iter().collect())).await;
    }

    /// All of its processes have ended.
    async fn tell_of_end(&self) {
        let (nspace, outcome) = (&self.job.nspace, self.outcome());
        if let Some(event) = notices::of_failure(nspace, &outcome) {
            let hearers = self.host.connected_with(nspace);
            self.servers.notify_event(&notices::for_procs(event, hearers)).await;
        }
        self.tell_of_job(notices::of_end(nspace, &outcome), self.job.told.of_end(&outcome)).await;
    }

    async fn on_control(&mut self, control: Control, out: &mut Outgoing) {
        match control {
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
            Control::Abort { by, status, message, dead } => {
                if let Some(first) = self.first_dead(&by, dead) {
                    // before all whose loss is told from now on, also those of other nodes
                    self.lost.insert(0, (first, 0));
                    self.fail(first).await;
                }
                out.push_back(JobReport::Abort { by, status, message });
                // after a failure it is one of its effects: MPI libraries abort when they hear that a peer is lost
                if !self.has_failed() {
                    self.abort_status.get_or_insert(status);
                }
                self.asked_to_end = true;
                self.end_all().await;
            }
            Control::Order { act, reach } => {
                if let Err(error) = self.act(None, act, reach).await {
                    tracing::warn!(%error, ?act, "cannot reach the job");
                }
            }
            Control::Act { ranks, act, done } => {
                let acted = self.act(ranks, act, Reach::Connected).await;
                // who asked may be gone, not least by what it asked for
                let _ = done.send(acted);
            }
            Control::Child { nspace, child } => {
                self.children.insert(nspace, child);
            }
            Control::ChildEnded { nspace, outcome } => {
                let concerns_us = self.children.remove(&nspace).is_none_or(|child| !child.is_independent);
                // what ends on request is no failure
                if concerns_us && outcome.exit_code != 0 && !self.asked_to_end {
                    self.child_failure.get_or_insert(outcome);
                }
            }
        }
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
                    row.pid = Pid(*pid);
                    row.executable = Some(executable.clone());
                    // it may have connected before this report came
                    if row.state == ProcState::LAUNCH_UNDERWAY {
                        row.state = ProcState::RUNNING;
                    }
                });
            }
            LaunchReport::Output { proc, channel, data } => {
                let is_kept = self.host.forward_output(&self.servers, proc, *channel, data).await;
                // the owner hears of the end in any case: it may hold the beginning of a line
                if !is_kept && !data.is_empty() {
                    return;
                }
            }
            LaunchReport::Ended { proc, exit } => {
                let (rank, exit) = (proc.rank, *exit);
                self.running.remove(&rank);
                self.exits.insert(rank, exit);
                let left_early = self.connected.contains(&rank) && !self.finalized.contains(&rank);
                self.with_row(rank, |row| {
                    row.exit_code = exit.shell_code();
                    row.state = if left_early && exit == ProcExit::Code(0) {
                        ProcState::TERM_WO_SYNC
                    } else {
                        exit.state()
                    };
                });
                // after the table says so: what is published from now on is known to come late
                self.forget_published(rank);
                if let Some(server) = self.job.plan.node_of(rank).and_then(|node| self.servers.of(node)) {
                    let _ = server.client_ended(proc, format!("it ended with {exit}")).await;
                    // by now its server has told of those it lost before, of whom this one may have heard and ended
                    while let Ok(control) = controls.try_recv() {
                        self.on_control(control, out).await;
                    }
                }
                out.push_back(JobReport::Proc(report));
                let mut status = Status::SUCCESS;
                if left_early || exit != ProcExit::Code(0) {
                    self.fail(rank).await;
                    status = self.status_of(rank);
                }
                let ended = notices::of_ended_proc(self.proc(rank), status, exit);
                self.servers.notify_event(&ended).await;
                self.tell(out);
                return;
            }
        }
        out.push_back(JobReport::Proc(report));
    }

    /// A process has failed: the others are told, once per process.
    async fn fail(&mut self, rank: Rank) {
        // a lost connection and an end are two signs of one failure
        if self.asked_to_end || !self.announced.insert(rank) {
            return;
        }
        // after the failure of a child job it is one of its effects
        if self.failing == Failing::No && self.child_failure.is_none() {
            self.failing = Failing::First(rank);
        }
        let event = self.host.lost_proc(self.proc(rank), self.status_of(rank));
        self.servers.notify_event(&event).await;
    }

    /// How a process that has failed came to its end, as far as that is known.
    fn status_of(&self, rank: Rank) -> Status {
        match self.exits.get(&rank) {
            Some(ProcExit::Signal(_)) => Status::ERR_PROC_ABORTED_BY_SIG,
            Some(ProcExit::Code(code)) if *code != 0 => Status::ERR_EXIT_NONZERO_TERM,
            _ => Status::ERR_PROC_TERM_WO_SYNC,
        }
    }

    /// The first of these whose death is news: a process that has left without finalize.
    fn first_dead(&self, aborter: &ProcId, dead: Vec<Rank>) -> Option<Rank> {
        if self.has_failed() || self.asked_to_end {
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
        let first = match self.failing {
            Failing::First(rank) => self.lost.first().map_or(rank, |(lost, _)| *lost),
            _ => return,
        };
        if let Some(exit) = self.exits.get(&first).copied() {
            self.tell_of(first, exit, out);
        }
    }

    /// The first one to be lost lives on: tells of any that has ended.
    fn tell_any(&mut self, out: &mut Outgoing) {
        if let Failing::First(rank) = self.failing
            && let Some(exit) = self.exits.get(&rank).copied()
        {
            self.tell_of(rank, exit, out);
        }
    }

    fn tell_of(&mut self, rank: Rank, exit: ProcExit, out: &mut Outgoing) {
        self.failing = Failing::Told(rank, exit);
        let app = self.job.plan.ranks.get(rank.to_raw() as usize).map_or(0, |(_, app)| *app);
        out.push_back(JobReport::Failed {
            proc: self.proc(rank),
            node: self.job.plan.node_of(rank).unwrap_or_default().to_owned(),
            program: self.job.programs.get(app).cloned().unwrap_or_default(),
            exit,
        });
    }

    fn has_failed(&self) -> bool {
        self.failing != Failing::No || self.child_failure.is_some()
    }

    /// What a process has published may end with it, or with the last one of its application.
    fn forget_published(&self, ended: Rank) {
        let app_of = |rank: Rank| self.job.plan.ranks.get(rank.to_raw() as usize).map(|(_, app)| *app);
        let app = app_of(ended);
        let forget = |ranks, persistence| {
            let nspace = self.job.nspace.clone();
            self.host.forget_published(Over::Procs { nspace, ranks: Some(ranks), persistence });
        };
        forget([ended].into_iter().collect(), Persistence::PROC);
        if !self.running.iter().any(|rank| app_of(*rank) == app) {
            let members = self.job.plan.all_ranks().into_iter().filter(|rank| app_of(*rank) == app);
            forget(members.collect(), Persistence::APP);
        }
    }

    fn tell_children(&self, act: Act, reach: Reach) {
        for child in self.children.values() {
            if reach == Reach::All || !child.is_independent {
                let _ = child.control.send(Control::Order { act, reach });
            }
        }
    }

    /// Acts on those of these processes that run, or on all and the jobs they have started.
    async fn act(
        &mut self,
        ranks: Option<BTreeSet<Rank>>,
        act: Act,
        reach: Reach,
    ) -> Result<(), LaunchError> {
        let mut procs = self.running_procs();
        match &ranks {
            Some(ranks) => procs.retain(|proc| ranks.contains(&proc.rank)),
            None => {
                self.asked_to_end |= match act {
                    Act::Signal(signal) => [2, 9, 15].contains(&signal),
                    Act::Terminate => true,
                };
                self.tell_children(act, reach);
            }
        }
        match act {
            _ if procs.is_empty() => Ok(()),
            Act::Signal(signal) => self.host.0.shared.launcher.signal(&procs, signal).await,
            Act::Terminate => self.host.0.shared.launcher.terminate(&procs).await,
        }
    }

    async fn end_all(&mut self) {
        self.tell_children(Act::Terminate, Reach::Connected);
        let procs = self.running_procs();
        if !procs.is_empty()
            && let Err(error) = self.host.0.shared.launcher.terminate(&procs).await
        {
            tracing::warn!(%error, "cannot end the job");
        }
    }

    fn running_procs(&self) -> Vec<ProcId> {
        self.running.iter().map(|rank| self.proc(*rank)).collect()
    }

    fn outcome(&self) -> JobOutcome {
        let first_failure = match self.failing {
            Failing::Told(rank, exit) => Some((rank, exit)),
            Failing::First(rank) => self.exits.get(&rank).map(|exit| (rank, *exit)),
            // ended on request: what the processes made of it
            Failing::No => self
                .exits
                .iter()
                .find(|(_, exit)| **exit != ProcExit::Code(0))
                .map(|(rank, exit)| (*rank, *exit)),
        };
        let (own_code, status) = match (self.abort_status, first_failure) {
            _ if self.timed_out => (TIMED_OUT, Status::ERR_TIMEOUT),
            // aborted is not done, whatever the caller thinks of it
            (Some(0), _) => (1, Status::ERR_JOB_ABORTED),
            (Some(status), _) => (status, Status::ERR_JOB_ABORTED),
            (None, Some((_, exit))) if self.asked_to_end && self.failing == Failing::No => {
                (exit.shell_code(), Status::ERR_JOB_KILLED_BY_CMD)
            }
            // it left without finalize, which is a failure whatever it returned
            (None, Some((_, ProcExit::Code(0)))) => (1, Status::ERR_JOB_TERM_WO_SYNC),
            (None, Some((_, ProcExit::Code(code)))) => (code, Status::ERR_JOB_NON_ZERO_TERM),
            (None, Some((_, exit))) => (exit.shell_code(), Status::ERR_JOB_ABORTED_BY_SIG),
            (None, None) => (0, Status::SUCCESS),
        };
        let procs = self.host.process_table(&self.job.nspace);
        let first_failure = first_failure.map(|(rank, exit)| (self.proc(rank), exit));
        match &self.child_failure {
            // ended because of it
            Some(child) if self.abort_status.is_none() && !self.timed_out && self.failing == Failing::No => {
                JobOutcome { procs, ..child.clone() }
            }
            _ => JobOutcome { exit_code: own_code, status, first_failure, procs },
        }
    }

    fn proc(&self, rank: Rank) -> ProcId {
        ProcId::new(self.job.nspace.clone(), rank)
    }

    fn set_state(&self, rank: Rank, state: ProcState) {
        self.with_row(rank, |row| row.state = state);
    }

    fn with_row(&self, rank: Rank, change: impl FnOnce(&mut ProcInfo)) {
        let mut jobs = self.host.jobs();
        if let Some(row) =
            jobs.get_mut(&self.job.nspace).and_then(|job| job.table.get_mut(rank.to_raw() as usize))
        {
            change(row);
        }
    }
}

/// Until a time, or for ever.
async fn until(alarm: Alarm) {
    match alarm {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
