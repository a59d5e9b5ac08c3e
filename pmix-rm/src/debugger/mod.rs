//! What looks at a job from its beginning, here or in a DVM: the debugger of `--debug`, and the daemons of `--debug-daemons`.
//!
//! The ranks stop in init. When all are there, daemons are started beside them, and then the debugger, which has the terminal. If the
//! debugger ends without having released the ranks, or the daemons where there is no debugger, the job goes on, or is ended if they have
//! failed.

mod server;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use pmix_host::{JobReport, LaunchReport};
use pmix_types::keys::env::LAUNCHER_RNDZ_URI;
use pmix_types::{App, Directives, Event, Nspace, ProcId, Rank, Status, keys};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::server::{Daemons, Events, Missed};
use crate::cli::{CommandLine, DebugArgs};
use crate::ending::until;
use crate::job::Job;

pub(crate) use self::server::DebugServer;

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

/// What is ready before the job starts, so that nothing that its ranks say is missed.
pub(crate) struct Prepared {
    wanted: DebugArgs,
    grace: Duration,
    server: DebugServer,
    ready: Events,
}

/// A debugger and its daemons, from the start of the job to their ends.
pub(crate) struct Debugging {
    wanted: DebugArgs,
    job: Nspace,
    /// How long daemons may outlast the job.
    grace: Duration,
    server: DebugServer,
    ready: Events,
    /// Ranks that are not in init yet.
    absent: BTreeSet<Rank>,
    overdue_at: Option<Instant>,
    /// Events may have been lost, so which ranks wait is also asked, until all do.
    asking: Option<JoinHandle<()>>,
    starting: Option<JoinHandle<Result<Job, String>>>,
    daemons: Option<Job>,
    debugger: Option<Child>,
    /// Those who were to release the ranks are gone; whether they have done so is asked.
    leaving: Option<Leaving>,
    /// Nothing more is started.
    is_over: bool,
    /// When daemons that have outlasted the job are asked to end.
    end_at: Option<Instant>,
}

/// Who has left the ranks, and the failure, if it was one.
struct Leaving {
    who: &'static str,
    failure: Option<String>,
    /// Whether a rank waits still.
    held: JoinHandle<bool>,
}

impl Prepared {
    /// Prepares for a job that is about to start; `None` if nothing is to look at it.
    ///
    /// # Errors
    /// What to tell the user.
    pub(crate) async fn new(
        wanted: DebugArgs,
        server: Option<DebugServer>,
        grace: Duration,
    ) -> Result<Option<Self>, String> {
        let Some(server) = server.filter(|_| wanted.is_any()) else { return Ok(None) };
        let ready = server.events(Status::READY_FOR_DEBUG).await?;
        Ok(Some(Self { wanted, grace, server, ready }))
    }

    /// Follows the job, which has started with this number of ranks.
    pub(crate) fn started(self, job: Nspace, ranks: usize) -> Debugging {
        let Self { wanted, grace, server, ready } = self;
        Debugging {
            wanted,
            job,
            grace,
            server,
            ready,
            absent: (0..ranks).filter_map(|rank| Rank::new(u32::try_from(rank).ok()?).ok()).collect(),
            overdue_at: Some(Instant::now() + OVERDUE),
            asking: None,
            starting: None,
            daemons: None,
            debugger: None,
            leaving: None,
            is_over: false,
            end_at: None,
        }
    }
}

impl Debugging {
    /// Takes one step, after which it may [have ended](Self::has_ended). Cancel-safe.
    pub(crate) async fn next(&mut self, takes_output: bool) -> Option<News> {
        tokio::select! {
            biased;
            Some(event) = self.ready.recv(), if !self.absent.is_empty() => self.on_ready(event),
            () = asked(&mut self.asking) => self.on_all_ready(),
            started = join(&mut self.starting) => self.on_daemons(started),
            status = wait(&mut self.debugger) => self.on_end_of_debugger(status),
            (who, failure, held) = answer(&mut self.leaving) => self.on_left(who, failure, held),
            () = until(self.overdue_at) => self.on_overdue(),
            () = until(self.end_at) => {
                self.end_at = None;
                self.daemons.as_ref().inspect(|job| job.terminate());
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
        self.debugger.is_none() && self.daemons.is_none() && self.starting.is_none() && self.leaving.is_none()
    }

    /// Nothing more is started; daemons have some time to end. Returns what the user is to know.
    pub(crate) fn job_ended(&mut self) -> Option<&'static str> {
        let is_early = !std::mem::replace(&mut self.is_over, true) && !self.absent.is_empty();
        self.end_waiting();
        if let Some(leaving) = self.leaving.take() {
            leaving.held.abort();
        }
        self.end_daemons();
        is_early.then_some(
            "the job has ended before all of its ranks waited in init, so nothing was started to debug it; programs that do not use PMIx do not wait",
        )
    }

    /// Passes a signal on that is to end the job. Nothing more is started.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.is_over = true;
        self.end_waiting();
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
        // they are not waited for, and end with the connection to a DVM
        if signal == Signal::KILL
            && let Some(starting) = self.starting.take()
        {
            starting.abort();
        }
    }

    fn on_ready(&mut self, event: Result<Event, Missed>) -> Option<News> {
        if let Ok(event) = event
            && event.source.nspace == self.job
        {
            self.absent.remove(&event.source.rank);
        }
        if self.absent.is_empty() {
            return self.on_all_ready();
        }
        // those of other jobs may be among the lost ones, so their number tells nothing
        if self.ready.has_missed() {
            self.ask();
        }
        None
    }

    /// Asks which ranks wait.
    fn ask(&mut self) {
        if self.asking.is_none() && !self.is_over {
            let all_wait = self.server.clone().all_wait(self.job.clone(), self.absent.clone());
            self.asking = Some(tokio::spawn(all_wait));
        }
    }

    fn end_waiting(&mut self) {
        self.overdue_at = None;
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
    }

    fn on_all_ready(&mut self) -> Option<News> {
        self.absent.clear();
        self.end_waiting();
        if self.is_over {
            return None;
        }
        let Some(line) = self.wanted.debug_daemons.clone() else { return self.start_debugger() };
        let start = self.server.clone().start(self.daemons_of(line));
        self.starting = Some(tokio::spawn(start));
        None
    }

    fn daemons_of(&self, CommandLine { program, args }: CommandLine) -> Daemons {
        let mut app = App::new(program, 1).args(args).env(JOB, self.job.as_str());
        app.cwd = std::env::current_dir().ok().map(PathBuf::into_os_string);
        let directives = Directives::new()
            .require(&keys::DEBUG_TARGET, ProcId::wildcard(self.job.clone()))
            .require(&keys::DEBUG_DAEMONS_PER_NODE, 1_u16)
            .require(&keys::BINDTO, "none");
        Daemons { nspace: format!("{}.debugger", self.job), app, directives }
    }

    fn on_daemons(&mut self, started: Result<Job, String>) -> Option<News> {
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
        command.args(args).env(JOB, self.job.as_str()).kill_on_drop(true);
        let child = self
            .server
            .uri()
            .and_then(|uri| command.env(LAUNCHER_RNDZ_URI, uri).spawn().map_err(|error| error.to_string()));
        match child {
            Ok(child) => {
                self.debugger = Some(child);
                None
            }
            Err(error) => {
                let program = program.display();
                Some(News::GivenUp(format!("the debugger {program} does not start: {error}")))
            }
        }
    }

    fn on_overdue(&mut self) -> Option<News> {
        self.overdue_at = None;
        self.ask();
        let (count, first) = (self.absent.len(), self.absent.first()?);
        Some(News::Said(format!(
            "waiting for ranks that are not in init yet: {count}, the first of them rank {first}; the debugger starts when all are"
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
    fn left(&mut self, who: &'static str, failure: Option<String>) -> Option<News> {
        let held = tokio::spawn(self.server.clone().holds(self.job.clone()));
        self.leaving = Some(Leaving { who, failure, held });
        None
    }

    fn on_left(&mut self, who: &str, failure: Option<String>, held: bool) -> Option<News> {
        if self.is_over {
            return None;
        }
        match (held, failure) {
            (false, failure) => {
                tracing::debug!(who, ?failure, "the end after the release");
                None
            }
            (true, Some(failure)) => {
                Some(News::GivenUp(format!("{who} failed ({failure}) before releasing the job")))
            }
            (true, None) => {
                let release = self.server.clone().release(self.job.clone());
                tokio::spawn(async move {
                    if let Err(error) = release.await {
                        tracing::warn!(%error, "cannot release the job");
                    }
                });
                Some(News::Said(format!("{who} ended without releasing the job, which goes on now")))
            }
        }
    }

    fn on_report(&mut self, report: Result<JobReport, String>) -> Option<News> {
        match report {
            Ok(JobReport::Done(outcome)) => {
                (self.daemons, self.end_at) = (None, None);
                // a debugger that is there releases the ranks
                if self.wanted.debug.is_some() || self.is_over {
                    return None;
                }
                let failure = (outcome.exit_code != 0).then(|| format!("exit code {}", outcome.exit_code));
                self.left("the debugger's daemons", failure)
            }
            Ok(JobReport::Failed { proc, node, program, exit }) => {
                // the node is unknown if a job of a DVM ends before its process table can be read
                let place = if node.is_empty() { String::new() } else { format!(" on {node}") };
                let said = format!("daemon {} of the debugger ({program}){place} failed: {exit}", proc.rank);
                (!self.is_over).then_some(News::Said(said))
            }
            Ok(report @ JobReport::Proc(LaunchReport::Output { .. })) => Some(News::Daemon(report)),
            Ok(report) => {
                tracing::debug!(?report, "daemons of the debugger");
                None
            }
            Err(why) => {
                tracing::warn!(why, "daemons of the debugger");
                (self.daemons, self.end_at) = (None, None);
                if self.wanted.debug.is_some() || self.is_over {
                    return None;
                }
                self.left("the debugger's daemons", Some(why))
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
async fn join(starting: &mut Option<JoinHandle<Result<Job, String>>>) -> Result<Job, String> {
    let Some(handle) = starting else { return std::future::pending().await };
    let started = handle.await;
    *starting = None;
    started.unwrap_or_else(|error| Err(error.to_string()))
}

/// Waits until all ranks wait, if that is asked, or for ever.
async fn asked(asking: &mut Option<JoinHandle<()>>) {
    let Some(handle) = asking else { return std::future::pending().await };
    let ended = handle.await;
    *asking = None;
    if let Err(error) = ended {
        tracing::error!(%error, "asking which ranks wait");
        std::future::pending().await
    }
}

/// Waits for the answer whether a rank waits still, or for ever.
async fn answer(leaving: &mut Option<Leaving>) -> (&'static str, Option<String>, bool) {
    let Some(Leaving { held, .. }) = leaving else { return std::future::pending().await };
    let held = held.await.unwrap_or_else(|error| {
        tracing::error!(%error, "which ranks wait");
        false
    });
    let (who, failure) = leaving.take().map_or(("", None), |left| (left.who, left.failure));
    (who, failure, held)
}

async fn wait(debugger: &mut Option<Child>) -> io::Result<ExitStatus> {
    match debugger {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

async fn report(daemons: &mut Option<Job>) -> Result<JobReport, String> {
    match daemons {
        Some(job) => job.next_report().await,
        None => std::future::pending().await,
    }
}
