//! How jobs come to be: checked, registered with the servers, launched, and given to a supervisor.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::atomic::Ordering;

use pmix_types::job::JobSpec;
use pmix_types::message::Failure;
use pmix_types::{App, Nspace, ProcInfo, Status, keys};
use thiserror::Error;
use tokio::sync::mpsc;

use super::gate::own_uid;
use super::iof::Forwarding;
use super::job_control::Act;
use super::plan::{Plan, Starting};
use super::supervise::{Control, Reach, Supervisor, Watched};
use super::wishes::Wishes;
use super::{
    Account, Exchange, JobOutcome, JobReport, JobStart, LaunchError, Launcher, Machine, OnFailure,
    StandardHost,
};
use pmix_server::host::HostError;

/// Reports that may wait to be read: what holds back a process whose output nobody takes.
pub(super) const REPORTS: usize = 256;

/// Why a job could not be started.
#[derive(Error)]
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
    /// The host cannot do what is asked for, or has no server yet.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Whoever asked for it does not wait any more; no process is left running.
    #[error("it took too long to start the job, or who asked for it is gone")]
    Abandoned,
}

impl StartError {
    /// The Standard's status: one of the `ERR_JOB_*` if nodes or processes are the reason (SPN-06).
    pub const fn status(&self) -> Status {
        match self {
            Self::Launch(error) => error.status,
            Self::Invalid(_) => Status::ERR_BAD_PARAM,
            Self::Server(failure) => failure.status,
            Self::Host(error) => error.status(),
            Self::Abandoned => Status::ERR_TIMEOUT,
        }
    }
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
        self.order(Act::Signal(signal));
    }

    /// Ends the job: a request first, force after the launcher's grace period.
    pub fn terminate(&self) {
        self.order(Act::Terminate);
    }

    fn order(&self, act: Act) {
        // an ended job has no process
        let _ = self.control.send(Control::Order { act, reach: Reach::All });
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
    /// The user it runs as, whose it is.
    pub(super) owner: u32,
    /// The job of its parent, if they hear of each other's errors (CON-18).
    pub(super) connected_to: Option<Nspace>,
    /// What is done when it fails; holds for the jobs it starts too.
    pub(super) on_failure: OnFailure,
    /// In rank order.
    pub(super) table: Vec<ProcInfo>,
    pub(super) forwarding: Forwarding,
}

impl StandardHost {
    /// Starts a job: tells the servers of it, launches its processes, and watches them until all have ended.
    ///
    /// Ranks are numbered app by app and put on the nodes in blocks, as even as possible: on all of the launcher's, unless
    /// `HOST` or `HOSTFILE` names some (SPN-02). Applications that name the same nodes share them.
    ///
    /// # Errors
    /// [`StartError`] names the process, program, node and cause; nothing is left running or registered.
    ///
    /// # Cancel safety
    /// Not cancel-safe: a dropped future may leave processes running until the launcher is dropped.
    pub async fn start_job(&self, start: JobStart) -> Result<Job, StartError> {
        self.start_job_unless(start, std::future::pending()).await
    }

    /// The same, given up when `abandoned` is ready before all processes have started.
    pub(super) async fn start_job_unless(
        &self,
        start: JobStart,
        abandoned: impl Future<Output = ()> + Send,
    ) -> Result<Job, StartError> {
        let JobStart { nspace, apps, on_failure, parent, forwarded, stdin, user, directives } = start;
        if let Some(user) = user.as_ref().filter(|_| !self.0.shared.launcher.starts_as_others()) {
            let (uid, own) = (user.uid(), own_uid());
            let message = format!(
                "jobs of uid {uid} cannot be started here: the launcher starts them as uid {own} only"
            );
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message).into());
        }
        let whose = user.as_ref();
        let Wishes { apps: wanted, added, told, limit, is_independent, stops } =
            Wishes::new(apps, directives)?;
        let servers = self.servers()?;
        let nodes = self.0.shared.launcher.nodes();
        let plan = Plan::new(&nspace, &wanted, &added, nodes, whose).await?;
        servers.check_nodes(&plan.nodes, &self.0.exchange.nodes())?;
        let apps: Vec<App> = wanted.into_iter().map(|wanted| wanted.app).collect();
        // registered by the server's owner: such a job must not be changed by this one, nor end with it
        if servers.know(&nspace).await {
            return Err(in_use(&nspace));
        }
        let (control, controls) = mpsc::unbounded_channel();
        let (reports_out, reports) = mpsc::channel(REPORTS);
        self.enter(&nspace, || JobEntry {
            control: control.clone(),
            reports: reports_out.clone(),
            owner: whose.map_or_else(own_uid, Account::uid),
            connected_to: parent.as_ref().filter(|_| !is_independent).map(|parent| parent.nspace.clone()),
            on_failure,
            table: plan.table(&nspace),
            forwarding: Forwarding { channels: forwarded, stdin, pullers: Vec::new() },
        })?;
        let number = self.0.shared.started.fetch_add(1, Ordering::Relaxed);
        let (launch_reports, reports_in) = mpsc::channel(REPORTS);
        let started = async {
            let spec = stops.into_iter().fold(plan.spec(&nspace, parent.as_ref()), JobSpec::raw);
            let spec = spec.info(&keys::USERID, whose.map_or_else(own_uid, Account::uid));
            let spec = self
                .crowded(&plan.nodes)
                .into_iter()
                .fold(spec, |spec, node| spec.node_info(node, &keys::NODE_OVERSUBSCRIBED, true));
            servers.register_job(number, &spec, whose).await?;
            let mut job =
                plan.launch_job(Starting { nspace: &nspace, number, user: whose }, &apps, &servers).await?;
            for proc in &mut job.procs {
                proc.takes_stdin = stdin.is_some_and(|rank| rank.matches(proc.rank));
            }
            self.0.shared.launcher.launch(job, launch_reports).await?;
            Ok::<(), StartError>(())
        };
        let started = tokio::select! {
            started = started => started,
            () = abandoned => Err(StartError::Abandoned),
        };
        if let Err(error) = started {
            self.jobs().remove(&nspace);
            // it may not have come as far as to be registered
            servers.deregister_job(number, &nspace).await;
            return Err(error);
        }
        let programs = apps.into_iter().map(|app| app.command).collect();
        let watched =
            Watched { number, nspace: nspace.clone(), plan, programs, parent, told, limit, on_failure };
        let supervisor = Supervisor::new(self.clone(), servers, watched);
        tokio::spawn(supervisor.run(controls, reports_in, reports_out));
        Ok(Job { nspace, reports, control })
    }

    /// Takes the name.
    fn enter(&self, nspace: &Nspace, entry: impl FnOnce() -> JobEntry) -> Result<(), StartError> {
        match self.jobs().entry(nspace.clone()) {
            Entry::Occupied(_) => Err(in_use(nspace)),
            Entry::Vacant(vacant) => {
                vacant.insert(entry());
                Ok(())
            }
        }
    }

    /// The nodes on whose machines more processes are than these have processors for: those of all jobs that were started
    /// here and run, on all nodes of the machine. Of the others nothing is said: Open MPI 5 takes any value for a yes.
    ///
    /// Jobs that run already are not told when another crowds them: MPI libraries ask when they start.
    fn crowded(&self, nodes: &[String]) -> Vec<String> {
        let mut counts = BTreeMap::<String, u32>::new();
        for row in self.jobs().values().flat_map(|job| &job.table).filter(|row| row.state.is_alive()) {
            if let Some(node) = &row.hostname {
                *counts.entry(node.clone()).or_default() += 1;
            }
        }
        // asked once for each: a launcher reads files to tell
        let machine = |node: &String| Some((node.clone(), self.0.shared.launcher.machine(node)?));
        let machines: BTreeMap<String, Machine> = counts.keys().filter_map(machine).collect();
        let mut crowds = BTreeMap::<&str, u32>::new();
        for (node, machine) in &machines {
            *crowds.entry(&machine.name).or_default() += counts.get(node).copied().unwrap_or_default();
        }
        let is_crowded =
            |machine: &Machine| crowds.get(&*machine.name).is_some_and(|crowd| *crowd > machine.processors);
        nodes.iter().filter(|node| machines.get(*node).is_some_and(is_crowded)).cloned().collect()
    }

    /// The process table of a job that was started here and runs; empty for any other.
    pub fn process_table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        self.jobs().get(nspace).map(|job| job.table.clone()).unwrap_or_default()
    }
}

fn in_use(nspace: &Nspace) -> StartError {
    StartError::Invalid(format!("namespace {nspace} is in use: choose another"))
}

pmix_types::message_first!(StartError);
