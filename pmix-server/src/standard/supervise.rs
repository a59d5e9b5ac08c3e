//! Jobs that a [`StandardHost`] has started: their start, their watch, their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmix_types::message::Failure;
use pmix_types::{
    DataRange, Event, Info, Nspace, Persistence, Pid, ProcId, ProcInfo, ProcState, Rank, Status, keys,
};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::cluster::Servers;
use super::iof::Forwarding;
use super::job_control::Act;
use super::plan::Plan;
use super::store::Over;
use super::{
    Exchange, JobOutcome, JobReport, JobStart, LaunchError, LaunchReport, Launcher, OnFailure, ProcExit,
    StandardHost,
};
use crate::host::HostError;

/// Reports that may wait to be read: what holds back a process whose output nobody takes.
const REPORTS: usize = 256;
/// How long the first process to be lost is waited for, so that its end can be told.
const FIRST_TO_FAIL: Duration = Duration::from_secs(1);

/// Why a job could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A process could not be started; none is left running.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The server refused the job.
    #[error("{0}")]
    Server(#[from] Failure),
    /// The host has no server yet.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A job that was started, as its owner sees it.
#[derive(Debug)]
pub struct Job {
    nspace: Nspace,
    reports: mpsc::Receiver<JobReport>,
    control: mpsc::UnboundedSender<Control>,
}

impl Job {
    /// Its namespace.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// What happens next; `None` after [`JobReport::Done`]. Output that nobody takes holds its process back.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next_report(&mut self) -> Option<JobReport> {
        self.reports.recv().await
    }

    /// Waits for the end of the job; reports that come before it are dropped, output with them. `None` if the end was
    /// reported already, or the server stopped before.
    ///
    /// # Cancel safety
    /// Cancel-safe, except that reports that have come are gone.
    pub async fn outcome(&mut self) -> Option<JobOutcome> {
        loop {
            if let JobReport::Done(outcome) = self.next_report().await? {
                return Some(outcome);
            }
        }
    }

    /// Sends a signal, by its number, to all processes.
    pub fn signal(&self, signal: i32) {
        // an ended job has no process
        let _ = self.control.send(Control::Signal(signal));
    }

    /// Ends the job: a request first, force after the launcher's grace period.
    pub fn terminate(&self) {
        let _ = self.control.send(Control::Terminate);
    }

    /// The way to its supervisor.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<Control> {
        self.control.clone()
    }

    /// Ends the job at once by force.
    pub fn kill(&self) {
        const SIGKILL: i32 = 9;
        self.signal(SIGKILL);
    }
}

/// What is known of a job while it runs.
#[derive(Debug)]
pub(super) struct JobEntry {
    pub(super) control: mpsc::UnboundedSender<Control>,
    /// To its owner.
    pub(super) reports: mpsc::Sender<JobReport>,
    /// What is done when it fails; holds for the jobs it starts too.
    pub(super) on_failure: OnFailure,
    /// In rank order.
    pub(super) table: Vec<ProcInfo>,
    pub(super) forwarding: Forwarding,
}

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
    },
    Signal(i32),
    Terminate,
    /// A process has asked for it.
    Act {
        /// Whom; `None` for all, and for the jobs they have started.
        ranks: Option<BTreeSet<Rank>>,
        act: Act,
        done: oneshot::Sender<Result<(), LaunchError>>,
    },
    /// One of its processes has started a job, which ends with this one.
    Child {
        nspace: Nspace,
        control: mpsc::UnboundedSender<Self>,
    },
    /// A job that it started has ended.
    ChildEnded {
        nspace: Nspace,
        outcome: JobOutcome,
    },
}

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    /// Starts a job: tells the servers of it, launches its processes, and watches them until all have ended.
    ///
    /// Ranks are numbered app by app and put on the launcher's nodes in blocks, as even as possible.
    ///
    /// # Errors
    /// [`StartError`] names the process, program, node and cause; nothing is left running or registered.
    ///
    /// # Cancel safety
    /// Not cancel-safe: a dropped future may leave processes running until the launcher is dropped.
    pub async fn start_job(&self, start: JobStart) -> Result<Job, StartError> {
        let JobStart { nspace, apps, on_failure, parent, forwarded, stdin } = start;
        let forwarding = Forwarding { channels: forwarded, stdin, pullers: Vec::new() };
        let servers = self.servers()?;
        let plan = Plan::new(&nspace, &apps, self.0.shared.launcher.nodes())?;
        let (control, controls) = mpsc::unbounded_channel();
        let (reports_out, reports) = mpsc::channel(REPORTS);
        {
            let mut jobs = self.jobs();
            if jobs.contains_key(&nspace) {
                return Err(StartError::Invalid(format!("namespace {nspace} is in use: choose another")));
            }
            let (control, table) = (control.clone(), plan.table(&nspace));
            jobs.insert(
                nspace.clone(),
                JobEntry { control, reports: reports_out.clone(), on_failure, table, forwarding },
            );
        }
        let number = self.0.shared.started.fetch_add(1, Ordering::Relaxed);
        let (launch_reports, reports_in) = mpsc::channel(REPORTS);
        let started = async {
            servers.register_job(number, &plan.spec(&nspace, parent.as_ref())).await?;
            let mut job = plan.launch_job(&nspace, &apps, &servers).await?;
            for proc in &mut job.procs {
                proc.takes_stdin = stdin.is_some_and(|rank| rank.matches(proc.rank));
            }
            self.0.shared.launcher.launch(job, launch_reports).await?;
            Ok::<(), StartError>(())
        };
        if let Err(error) = started.await {
            self.jobs().remove(&nspace);
            // it may not have come as far as to be registered
            servers.deregister_job(number, &nspace).await;
            return Err(error);
        }
        let supervisor = Supervisor {
            host: self.clone(),
            number,
            servers,
            running: plan.all_ranks(),
            programs: apps.into_iter().map(|app| app.command).collect(),
            plan,
            nspace: nspace.clone(),
            on_failure,
            connected: BTreeSet::new(),
            finalized: BTreeSet::new(),
            lost: Vec::new(),
            exits: BTreeMap::new(),
            announced: BTreeSet::new(),
            failing: Failing::No,
            asked_to_end: false,
            abort_status: None,
            children: BTreeMap::new(),
            child_failure: None,
        };
        tokio::spawn(supervisor.run(controls, reports_in, reports_out));
        Ok(Job { nspace, reports, control })
    }

    /// The process table of a job that was started here and runs; empty for any other.
    pub fn process_table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        self.jobs().get(nspace).map(|job| job.table.clone()).unwrap_or_default()
    }
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
struct Supervisor<L, X> {
    host: StandardHost<L, X>,
    /// No other job of this host has had it.
    number: u32,
    servers: Servers,
    plan: Plan,
    programs: Vec<String>,
    nspace: Nspace,
    on_failure: OnFailure,
    running: BTreeSet<Rank>,
    connected: BTreeSet<Rank>,
    finalized: BTreeSet<Rank>,
    /// Processes whose connection was lost, in that order, each once; with the order its server has given it.
    lost: Vec<(Rank, u64)>,
    exits: BTreeMap<Rank, ProcExit>,
    /// Those whose failure the others have been told of.
    announced: BTreeSet<Rank>,
    failing: Failing,
    /// Its owner or an abort has ended it: what dies now is no failure.
    asked_to_end: bool,
    abort_status: Option<i32>,
    /// Jobs that its processes have started and that run.
    children: BTreeMap<Nspace, mpsc::UnboundedSender<Control>>,
    /// How the first of them to fail has ended.
    child_failure: Option<JobOutcome>,
}

/// Something the supervisor does at a certain time.
type Alarm = Option<tokio::time::Instant>;

impl<L: Launcher, X: Exchange> Supervisor<L, X> {
    async fn run(
        mut self,
        mut controls: mpsc::UnboundedReceiver<Control>,
        mut reports: mpsc::Receiver<LaunchReport>,
        out: mpsc::Sender<JobReport>,
    ) {
        let mut outgoing = std::collections::VecDeque::new();
        let (mut end_at, mut tell_at): (Alarm, Alarm) = (None, None);
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
                Some(report) = reports.recv(), if outgoing.len() < REPORTS => self.on_report(report, &mut outgoing).await,
                () = until(end_at) => {
                    end_at = None;
                    self.end_all().await;
                }
                () = until(tell_at) => {
                    tell_at = None;
                    self.tell_any(&mut outgoing);
                }
                else => break,
            }
            if !was && self.has_failed() {
                let now = tokio::time::Instant::now();
                tell_at = Some(now + FIRST_TO_FAIL);
                if let OnFailure::End { grace } = self.on_failure {
                    end_at = Some(now + grace);
                }
            }
        }
        let outcome = self.outcome();
        // the namespace is gone before its owner hears of the end
        self.host.jobs().remove(&self.nspace);
        controls.close();
        while let Ok(control) = controls.try_recv() {
            // a job that was started while this one ended
            if let Control::Child { control, .. } = control {
                let _ = control.send(Control::Terminate);
            }
        }
        self.servers.deregister_job(self.number, &self.nspace).await;
        for host in self.host.on_all_nodes() {
            host.forget_job(&self.nspace);
        }
        let _ = out.send(JobReport::Done(outcome)).await;
    }

    async fn on_control(&mut self, control: Control, out: &mut std::collections::VecDeque<JobReport>) {
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
            Control::Abort { by, status, message } => {
                out.push_back(JobReport::Abort { by, status, message });
                // after a failure it is one of its effects: MPI libraries abort when they hear that a peer is lost
                if !self.has_failed() {
                    self.abort_status.get_or_insert(status);
                }
                self.asked_to_end = true;
                self.end_all().await;
            }
            Control::Signal(signal) => {
                if let Err(error) = self.act(None, Act::Signal(signal)).await {
                    tracing::warn!(%error, signal, "cannot signal the job");
                }
            }
            Control::Act { ranks, act, done } => {
                let acted = self.act(ranks, act).await;
                // who asked may be gone, not least by what it asked for
                let _ = done.send(acted);
            }
            Control::Child { nspace, control } => {
                self.children.insert(nspace, control);
            }
            Control::ChildEnded { nspace, outcome } => {
                self.children.remove(&nspace);
                // what ends on request is no failure
                if outcome.exit_code != 0 && !self.asked_to_end {
                    self.child_failure.get_or_insert(outcome);
                }
            }
            Control::Terminate => {
                self.asked_to_end = true;
                self.end_all().await;
            }
        }
    }

    async fn on_report(&mut self, report: LaunchReport, out: &mut std::collections::VecDeque<JobReport>) {
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
                if let Some(server) = self.plan.node_of(rank).and_then(|node| self.servers.of(node)) {
                    let _ = server.client_ended(proc, format!("it ended with {exit}")).await;
                }
                out.push_back(JobReport::Proc(report));
                if left_early || exit != ProcExit::Code(0) {
                    self.fail(rank).await;
                }
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
        let proc = ProcId::new(self.nspace.clone(), rank);
        let status = match self.exits.get(&rank) {
            Some(ProcExit::Signal(_)) => Status::ERR_PROC_ABORTED_BY_SIG,
            Some(ProcExit::Code(code)) if *code != 0 => Status::ERR_EXIT_NONZERO_TERM,
            _ => Status::ERR_PROC_TERM_WO_SYNC,
        };
        let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none())
            .with_range(DataRange::NAMESPACE)
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc))
            .with_info(Info::new(&keys::PROC_TERM_STATUS, status));
        self.servers.notify_event(&event).await;
    }

    /// News of one server may overtake each other on their way, which their numbers show; those of several are taken in
    /// the order they come.
    fn note_lost(&mut self, rank: Rank, order: u64) {
        if self.lost.iter().any(|(lost, _)| *lost == rank) {
            return;
        }
        let node = self.plan.node_of(rank);
        let is_later = |&(lost, number): &(Rank, u64)| number > order && self.plan.node_of(lost) == node;
        let place = self.lost.iter().position(is_later).unwrap_or(self.lost.len());
        self.lost.insert(place, (rank, order));
    }

    /// Tells the owner how the first process to fail has ended, as soon as that is known.
    fn tell(&mut self, out: &mut std::collections::VecDeque<JobReport>) {
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
    fn tell_any(&mut self, out: &mut std::collections::VecDeque<JobReport>) {
        if let Failing::First(rank) = self.failing
            && let Some(exit) = self.exits.get(&rank).copied()
        {
            self.tell_of(rank, exit, out);
        }
    }

    fn tell_of(&mut self, rank: Rank, exit: ProcExit, out: &mut std::collections::VecDeque<JobReport>) {
        self.failing = Failing::Told(rank, exit);
        let app = self.plan.ranks.get(rank.to_raw() as usize).map_or(0, |(_, app)| *app);
        out.push_back(JobReport::Failed {
            proc: ProcId::new(self.nspace.clone(), rank),
            node: self.plan.node_of(rank).unwrap_or_default().to_owned(),
            program: self.programs.get(app).cloned().unwrap_or_default(),
            exit,
        });
    }

    fn has_failed(&self) -> bool {
        self.failing != Failing::No || self.child_failure.is_some()
    }

    /// What a process has published may end with it, or with the last one of its application.
    fn forget_published(&self, ended: Rank) {
        let app_of = |rank: Rank| self.plan.ranks.get(rank.to_raw() as usize).map(|(_, app)| *app);
        let app = app_of(ended);
        let forget = |ranks, persistence| {
            let nspace = self.nspace.clone();
            self.host.forget_published(Over::Procs { nspace, ranks: Some(ranks), persistence });
        };
        forget([ended].into_iter().collect(), Persistence::PROC);
        if !self.running.iter().any(|rank| app_of(*rank) == app) {
            let members = self.plan.all_ranks().into_iter().filter(|rank| app_of(*rank) == app);
            forget(members.collect(), Persistence::APP);
        }
    }

    fn tell_children(&self, control: impl Fn() -> Control) {
        for child in self.children.values() {
            let _ = child.send(control());
        }
    }

    /// Acts on those of these processes that run, or on all and the jobs they have started.
    async fn act(&mut self, ranks: Option<BTreeSet<Rank>>, act: Act) -> Result<(), LaunchError> {
        let mut procs = self.running_procs();
        match &ranks {
            Some(ranks) => procs.retain(|proc| ranks.contains(&proc.rank)),
            None => {
                self.asked_to_end |= match act {
                    Act::Signal(signal) => [2, 9, 15].contains(&signal),
                    Act::Terminate => true,
                };
                self.tell_children(|| match act {
                    Act::Signal(signal) => Control::Signal(signal),
                    Act::Terminate => Control::Terminate,
                });
            }
        }
        match act {
            _ if procs.is_empty() => Ok(()),
            Act::Signal(signal) => self.host.0.shared.launcher.signal(&procs, signal).await,
            Act::Terminate => self.host.0.shared.launcher.terminate(&procs).await,
        }
    }

    async fn end_all(&mut self) {
        self.tell_children(|| Control::Terminate);
        let procs = self.running_procs();
        if !procs.is_empty()
            && let Err(error) = self.host.0.shared.launcher.terminate(&procs).await
        {
            tracing::warn!(%error, "cannot end the job");
        }
    }

    fn running_procs(&self) -> Vec<ProcId> {
        self.running.iter().map(|rank| ProcId::new(self.nspace.clone(), *rank)).collect()
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
        let own_code = match (self.abort_status, first_failure) {
            // aborted is not done, whatever the caller thinks of it
            (Some(0), _) => 1,
            (Some(status), _) => status,
            // it left without finalize, which is a failure whatever it returned
            (None, Some((_, ProcExit::Code(0)))) => 1,
            (None, Some((_, exit))) => exit.shell_code(),
            (None, None) => 0,
        };
        let procs = self.host.process_table(&self.nspace);
        let first_failure = first_failure.map(|(rank, exit)| (ProcId::new(self.nspace.clone(), rank), exit));
        match &self.child_failure {
            // ended because of it
            Some(child) if self.abort_status.is_none() && self.failing == Failing::No => {
                JobOutcome { procs, ..child.clone() }
            }
            _ => JobOutcome { exit_code: own_code, first_failure, procs },
        }
    }

    fn set_state(&self, rank: Rank, state: ProcState) {
        self.with_row(rank, |row| row.state = state);
    }

    fn with_row(&self, rank: Rank, change: impl FnOnce(&mut ProcInfo)) {
        let mut jobs = self.host.jobs();
        if let Some(row) =
            jobs.get_mut(&self.nspace).and_then(|job| job.table.get_mut(rank.to_raw() as usize))
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
