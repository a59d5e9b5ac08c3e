//! What looks at a job from its beginning: the debugger of `--debug`, and the daemons of `--debug-daemons`.
//!
//! The ranks stop in init. When all are there, daemons are started beside them, and then the debugger, which has the terminal. If the
//! debugger ends without having released the ranks, or the daemons where there is no debugger, the job goes on, or is ended if they have
//! failed.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use pmix_host::{JobReport, JobStart, LaunchReport, OnFailure, RunningJob, StandardHost, StartError};
use pmix_server::client::{EventStream, ServerClient};
use pmix_types::keys::env::LAUNCHER_RNDZ_URI;
use pmix_types::message::Failure;
use pmix_types::{App, DataRange, Directives, Event, Nspace, ProcId, Rank, Status, keys};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::causes::with_causes;
use crate::cli::{CommandLine, DebugArgs};
use crate::dvm::Dvm;
use crate::ending::until;

/// The variable that names the job to a debugger and its daemons.
const JOB: &str = "PMIXRUN_JOB";

/// When the user is told which ranks are awaited.
const OVERDUE: Duration = Duration::from_secs(10);

/// What [`Debugging::next`] tells.
#[derive(Debug)]
pub(crate) enum News {
    /// The user is to know.
    Said(String),
    /// What a daemon does.
    Daemon(JobReport),
    /// The user has interrupted the debugger, so the job is interrupted, too.
    Interrupted,
    /// The debugger, or its daemons, cannot be started or have failed, so the job is to end.
    GivenUp(String),
}

/// A debugger and its daemons, from before the job starts to their ends.
pub(crate) struct Debugging {
    wanted: DebugArgs,
    job: Nspace,
    /// The job of the daemons.
    daemon_job: Nspace,
    /// How long daemons may outlast the job.
    grace: Duration,
    /// The address of the server.
    uri: String,
    client: ServerClient,
    host: StandardHost,
    ready: EventStream,
    releases: EventStream,
    /// Ranks that are not in init yet.
    absent: BTreeSet<Rank>,
    /// Ranks that are not released.
    held: BTreeSet<Rank>,
    overdue_at: Option<Instant>,
    starting: Option<JoinHandle<Result<RunningJob, StartError>>>,
    daemons: Option<RunningJob>,
    debugger: Option<Child>,
    /// Nothing more is started.
    is_over: bool,
    /// When daemons that have outlasted the job are asked to end.
    end_at: Option<Instant>,
}

impl Debugging {
    /// Prepares for a job that is about to start; afterwards nothing that its ranks say is missed.
    ///
    /// # Errors
    /// What to tell the user.
    pub(crate) async fn prepare(
        wanted: DebugArgs,
        (job, ranks): (Nspace, usize),
        dvm: &Dvm,
        grace: Duration,
    ) -> Result<Option<Self>, String> {
        let Some(server) = dvm.server().filter(|_| wanted.is_any()) else { return Ok(None) };
        let client = server.client();
        let failed = |failure: Failure| failure.to_string();
        let ready = client.events([Status::READY_FOR_DEBUG]).await.map_err(failed)?;
        let releases = client.events([Status::DEBUGGER_RELEASE]).await.map_err(failed)?;
        let daemon_job = Nspace::new(format!("{job}.debugger")).map_err(|error| error.to_string())?;
        let all: BTreeSet<_> =
            (0..ranks).filter_map(|rank| Rank::new(u32::try_from(rank).ok()?).ok()).collect();
        Ok(Some(Self {
            wanted,
            job,
            daemon_job,
            grace,
            // in the words of the C library, if they are understood: all others find the server by its name in there
            uri: server.native_uri().unwrap_or_else(|| server.uri().to_owned()),
            client,
            host: dvm.host.clone(),
            ready,
            releases,
            held: all.clone(),
            absent: all,
            overdue_at: None,
            starting: None,
            daemons: None,
            debugger: None,
            is_over: false,
            end_at: None,
        }))
    }

    /// The job has started.
    pub(crate) fn started(mut self) -> Self {
        self.overdue_at = Some(Instant::now() + OVERDUE);
        self
    }

    /// Takes one step, after which it may [have ended](Self::has_ended). Cancel-safe.
    pub(crate) async fn next(&mut self, takes_output: bool) -> Option<News> {
        tokio::select! {
            // a release that is there when a debugger ends has come first
            biased;
            Some(event) = self.releases.recv() => self.on_release(&event),
            Some(event) = self.ready.recv(), if !self.absent.is_empty() => self.on_ready(&event),
            started = join(&mut self.starting) => self.on_daemons(started),
            status = wait(&mut self.debugger) => self.on_end_of_debugger(status),
            () = until(self.overdue_at) => self.on_overdue(),
            () = until(self.end_at) => {
                self.end_at = None;
                self.daemons.as_ref().inspect(|daemons| daemons.terminate());
                None
            }
            // last, because there may always be some
            report = report(&mut self.daemons), if takes_output => self.on_report(report),
        }
    }

    /// Whether the debugger has the terminal, and so what its user types.
    pub(crate) const fn has_terminal(&self) -> bool {
        self.debugger.is_some()
    }

    /// Whether there is nothing to wait for any more once the job has ended.
    pub(crate) const fn has_ended(&self) -> bool {
        self.debugger.is_none() && self.daemons.is_none() && self.starting.is_none()
    }

    /// Nothing more is started; daemons have some time to end. Returns what the user is to know.
    pub(crate) fn job_ended(&mut self) -> Option<&'static str> {
        let is_early = !std::mem::replace(&mut self.is_over, true) && !self.absent.is_empty();
        self.overdue_at = None;
        self.end_daemons();
        is_early.then_some(
            "the job has ended before all of its ranks waited in init, so no debugger was started; programs that do not use PMIx do not wait",
        )
    }

    /// Passes a signal on that is to end the job. Nothing more is started.
    pub(crate) fn signal(&mut self, signal: Signal) {
        (self.is_over, self.overdue_at) = (true, None);
        let pid =
            self.debugger.as_ref().and_then(Child::id).and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!(%error, "cannot signal the debugger");
        }
        if let Some(daemons) = &self.daemons {
            daemons.signal(signal.as_raw());
        }
    }

    fn on_ready(&mut self, event: &Event) -> Option<News> {
        if event.source.nspace == self.job {
            self.absent.remove(&event.source.rank);
        }
        // ranks whose news were too many to be kept are there, too
        let missed = usize::try_from(self.ready.missed()).unwrap_or(usize::MAX);
        if self.absent.len() > missed || self.is_over {
            return None;
        }
        self.absent.clear();
        self.overdue_at = None;
        let Some(line) = self.wanted.debug_daemons.clone() else { return self.start_debugger() };
        let (host, start) = (self.host.clone(), self.daemons_of(line));
        self.starting = Some(tokio::spawn(async move { host.start_job(start).await }));
        None
    }

    /// Daemons are a job of their own, which is the child of none: how they end does not matter to the job that they look at.
    fn daemons_of(&self, CommandLine { program, args }: CommandLine) -> JobStart {
        let mut app = App::new(program, 1).args(args).env(JOB, self.job.as_str());
        app.cwd = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
        let directives = Directives::new()
            .require(&keys::DEBUG_TARGET, ProcId::wildcard(self.job.clone()))
            .require(&keys::DEBUG_DAEMONS_PER_NODE, 1_u16)
            .require(&keys::BINDTO, "none");
        JobStart::new(self.daemon_job.clone(), vec![app])
            .on_failure(OnFailure::Continue)
            .directives(directives)
    }

    fn on_daemons(&mut self, started: Result<RunningJob, String>) -> Option<News> {
        match started {
            Ok(daemons) => {
                self.daemons = Some(daemons);
                self.end_daemons();
                self.start_debugger()
            }
            Err(_) if self.is_over => None,
            Err(why) => Some(News::GivenUp(format!("the daemons of the debugger do not start: {why}"))),
        }
    }

    fn start_debugger(&mut self) -> Option<News> {
        let CommandLine { program, args } = self.wanted.debug.as_ref().filter(|_| !self.is_over)?;
        let mut command = Command::new(program);
        command.args(args).env(JOB, self.job.as_str()).env(LAUNCHER_RNDZ_URI, &self.uri);
        command.kill_on_drop(true);
        match command.spawn() {
            Ok(child) => {
                self.debugger = Some(child);
                None
            }
            Err(error) => Some(News::GivenUp(format!("the debugger {program} does not start: {error}"))),
        }
    }

    fn on_release(&mut self, event: &Event) -> Option<News> {
        let job = &self.job;
        let released = |rank: &Rank| match event.range {
            DataRange::CUSTOM => {
                let proc = ProcId::new(job.clone(), *rank);
                event.custom_range().iter().any(|to| to.matches(&proc))
            }
            DataRange::NAMESPACE => event.source.nspace == *job,
            DataRange::SESSION | DataRange::GLOBAL => true,
            // it reaches no rank, or not those of other nodes
            _ => false,
        };
        self.held.retain(|rank| !released(rank));
        None
    }

    fn on_overdue(&mut self) -> Option<News> {
        self.overdue_at = None;
        let (count, first) = (self.absent.len(), self.absent.first()?);
        Some(News::Said(format!(
            "waiting for {count} ranks that are not in init yet, the first of them rank {first}: the debugger starts when all are"
        )))
    }

    fn on_end_of_debugger(&mut self, status: io::Result<ExitStatus>) -> Option<News> {
        self.debugger = None;
        if self.is_over {
            self.end_daemons();
            return None;
        }
        match status {
            Ok(status) if status.signal() == Some(Signal::INT.as_raw()) => Some(News::Interrupted),
            Ok(status) if status.success() => self.left("the debugger", None),
            Ok(status) => self.left("the debugger", Some(status.to_string())),
            Err(error) => self.left("the debugger", Some(error.to_string())),
        }
    }

    /// Those who were to release the ranks are gone.
    fn left(&mut self, who: &str, failure: Option<String>) -> Option<News> {
        match (self.held.is_empty(), failure) {
            (true, failure) => {
                tracing::debug!(who, ?failure, "the end after the release");
                None
            }
            (false, Some(failure)) => {
                Some(News::GivenUp(format!("{who} failed ({failure}) before releasing the job")))
            }
            (false, None) => {
                self.held.clear();
                let client = self.client.clone();
                let job = self.job.clone();
                tokio::spawn(async move {
                    let release = client.notify(Status::DEBUGGER_RELEASE).non_default();
                    if let Err(error) = release.custom_range([ProcId::wildcard(job)]).await {
                        tracing::warn!(%error, "cannot release the job");
                    }
                });
                Some(News::Said(format!("{who} ended without releasing the job, which goes on now")))
            }
        }
    }

    fn on_report(&mut self, report: Option<JobReport>) -> Option<News> {
        match report {
            Some(JobReport::Done(outcome)) => {
                (self.daemons, self.end_at) = (None, None);
                // a debugger that is there releases the ranks
                if self.wanted.debug.is_some() || self.is_over {
                    return None;
                }
                let failure = (outcome.exit_code != 0).then(|| format!("exit code {}", outcome.exit_code));
                self.left("the debugger's daemons", failure)
            }
            Some(JobReport::Failed { proc, node, program, exit }) => {
                let said =
                    format!("daemon {} of the debugger ({program}) on {node} failed: {exit}", proc.rank);
                (!self.is_over).then_some(News::Said(said))
            }
            Some(report @ JobReport::Proc(LaunchReport::Output { .. })) => Some(News::Daemon(report)),
            Some(report) => {
                tracing::debug!(?report, "daemons of the debugger");
                None
            }
            None => {
                self.daemons = None;
                None
            }
        }
    }

    /// Gives daemons some time to end, once job and debugger have ended.
    fn end_daemons(&mut self) {
        if self.is_over && self.debugger.is_none() && self.daemons.is_some() {
            let at = Instant::now() + self.grace;
            self.end_at.get_or_insert(at);
        }
    }
}

/// Waits for daemons that are being started, or for ever.
async fn join(
    starting: &mut Option<JoinHandle<Result<RunningJob, StartError>>>,
) -> Result<RunningJob, String> {
    let Some(handle) = starting else { return std::future::pending().await };
    let started = handle.await;
    *starting = None;
    match started {
        Ok(started) => started.map_err(|error| with_causes(&error)),
        Err(error) => Err(error.to_string()),
    }
}

async fn wait(debugger: &mut Option<Child>) -> io::Result<ExitStatus> {
    match debugger {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

async fn report(daemons: &mut Option<RunningJob>) -> Option<JobReport> {
    match daemons {
        Some(job) => job.next_report().await,
        None => std::future::pending().await,
    }
}
