//! What `pmixrun` does with a [`Plan`]: server, launcher, job, and clearing up behind them.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use pmix_server::Server;
use pmix_server::standard::{
    Job, JobOutcome, JobReport, JobStart, LaunchReport, MemoryExchange, OnFailure, OutputChannel,
    StandardHost,
};
use pmix_types::{Nspace, ProcId};
use rustix::process::Signal;
use rustix::system::uname;
use tokio::time::Instant;

use crate::cli::Plan;
use crate::console::Console;
use crate::output::{Lines, tag};
use crate::report::Report;
use crate::signals::{Received, Signals};
use crate::{GUARDIAN_COMMAND, Guardian, LocalLauncher, orphans, stdin};

/// Exit code of a job that could not be started.
const NOT_STARTED: i32 = 1;
/// Exit code of a job that took too long, as that of timeout(1).
const TIMED_OUT: i32 = 124;
/// Exit code when nobody reads the output: 128 and SIGPIPE, as a shell would show it.
const NO_READER: i32 = 141;
/// Longest time between the request to end and force that a launcher takes within the end of a failed job.
const LAUNCHER_GRACE: Duration = Duration::from_secs(2);

/// Runs a job and returns the exit code for it.
pub(crate) async fn run(plan: Plan) -> i32 {
    let started = Instant::now();
    let node = uname().nodename().to_string_lossy().into_owned();
    let ranks = plan.apps.iter().map(|app| usize::try_from(app.max_procs).unwrap_or(0)).sum();
    let (mut console, mut signals, nspace) = match prepare(&node) {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return NOT_STARTED;
        }
    };
    let json = plan.json;
    let mut report = Report::new(&nspace, ranks);
    let code = match launch(plan, &node, nspace, &mut console, &mut signals, &mut report).await {
        Ok(code) => code,
        Err(error) => {
            console.say(&error);
            report.error(&error);
            NOT_STARTED
        }
    };
    if json {
        report.duration(started.elapsed());
        console.put_line(&report.to_line());
    }
    tokio::select! {
        written = console.finish() => if is_broken(&written) { NO_READER } else { code },
        // whoever holds up the output does not hold us
        Received::End(_) = signals.next() => code,
    }
}

fn prepare(node: &str) -> io::Result<(Console, Signals, Nspace)> {
    let nspace = Nspace::new(format!("pmixrun.{node}.{}", std::process::id())).map_err(io::Error::other)?;
    Ok((Console::start()?, Signals::receive()?, nspace))
}

fn is_broken(written: &io::Result<()>) -> bool {
    written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Sets up all that a job needs, runs it, and leaves nothing behind; the error says why it did not start.
async fn launch(
    plan: Plan,
    node: &str,
    nspace: Nspace,
    console: &mut Console,
    signals: &mut Signals,
    report: &mut Report,
) -> Result<i32, String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(GUARDIAN_COMMAND);
    let guardian = Guardian::start(command).map_err(|error| format!("{node}: guardian: {error}"))?;
    let guardian = Arc::new(guardian);
    let (rank_zero, continued) =
        stdin::for_rank_zero().map_err(|error| format!("{node}: standard input: {error}"))?;
    let launcher = LocalLauncher::new(node)
        .with_guardian(Arc::clone(&guardian))
        .grace(plan.grace.min(LAUNCHER_GRACE))
        .first_stdin(rank_zero);
    let host = StandardHost::new(launcher, MemoryExchange::single(node));
    let server = Server::builder().host(host.clone()).hostname(node).tool_support(true).start().await;
    let server = server.map_err(|error| format!("{node}: {}", with_causes(&error)))?;

    let code = async {
        guardian
            .protect(server.handle().session_dir())
            .map_err(|error| format!("{node}: guardian: {error}"))?;
        let grace = plan.grace;
        let start = JobStart::new(nspace, plan.apps.clone()).on_failure(OnFailure::End { grace });
        let job = host.start_job(start).await.map_err(|error| with_causes(&error))?;
        let mut run = Run::new(plan, job, console, continued);
        let (outcome, code) = run.to_end(signals).await?;
        report.ended(&outcome, code, run.ending.map(Ending::name));
        Ok(code)
    };
    let code = code.await;

    report.server(&server.stats().await);
    server.stop().await;
    if let Err(error) = guardian.finish() {
        tracing::warn!(%error, "guardian");
    }
    orphans::end();
    code
}

/// An error with those that caused it, where they say something new.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Why a job is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Signal(Signal),
    Timeout,
    Output,
}

impl Ending {
    const fn name(self) -> &'static str {
        match self {
            Self::Signal(Signal::INT) => "SIGINT",
            Self::Signal(_) => "SIGTERM",
            Self::Timeout => "timeout",
            Self::Output => "output",
        }
    }
}

/// A job on its way.
struct Run<'a> {
    plan: Plan,
    job: Job,
    console: &'a mut Console,
    lines: BTreeMap<(ProcId, OutputChannel), Lines>,
    continued: Sender<()>,
    ending: Option<Ending>,
    /// Standard output took no more, and not because its reader left.
    output_lost: bool,
    timeout_at: Option<Instant>,
    /// When those that were asked to end are killed.
    kill_at: Option<Instant>,
    killed: bool,
}

impl<'a> Run<'a> {
    fn new(plan: Plan, job: Job, console: &'a mut Console, continued: Sender<()>) -> Self {
        let timeout_at = plan.timeout.map(|time| Instant::now() + time);
        Self {
            plan,
            job,
            console,
            lines: BTreeMap::new(),
            continued,
            ending: None,
            output_lost: false,
            timeout_at,
            kill_at: None,
            killed: false,
        }
    }

    async fn to_end(&mut self, signals: &mut Signals) -> Result<(JobOutcome, i32), String> {
        loop {
            tokio::select! {
                signal = signals.next() => self.on_signal(signal),
                () = until(self.timeout_at) => {
                    self.timeout_at = None;
                    let seconds = self.plan.timeout.unwrap_or_default().as_secs_f64();
                    self.console.say(format_args!("the job is ended after {seconds} seconds (--timeout)"));
                    self.end(Ending::Timeout, Signal::TERM);
                }
                () = until(self.kill_at) => self.kill(),
                written = self.console.advance(), if self.console.is_behind() => if let Err(error) = written {
                    self.on_output_lost(&error);
                },
                report = self.job.next_report(), if !self.console.is_behind() => match report {
                    Some(JobReport::Done(outcome)) => {
                        self.flush();
                        let code = self.exit_code(&outcome);
                        return Ok((outcome, code));
                    }
                    Some(report) => self.on_report(report),
                    None => return Err("nobody watches the job any more".into()),
                },
            }
        }
    }

    fn on_signal(&mut self, signal: Received) {
        match signal {
            Received::End(Signal::INT) if matches!(self.ending, Some(Ending::Signal(Signal::INT))) => {
                self.console.silence();
                self.kill();
            }
            Received::End(signal) => {
                self.end(Ending::Signal(signal), signal);
                if signal == Signal::INT {
                    self.console
                        .say("interrupted: the ranks are asked to end (interrupt again to end them at once)");
                }
            }
            Received::PassOn(signal) => self.job.signal(signal.as_raw()),
            // the thread is gone if standard input is no terminal
            Received::Continue => drop(self.continued.send(())),
        }
    }

    /// Asks the ranks to end; the first reason stands, and the time they have runs from there.
    fn end(&mut self, why: Ending, signal: Signal) {
        self.ending.get_or_insert(why);
        self.job.signal(signal.as_raw());
        self.kill_at.get_or_insert_with(|| Instant::now() + self.plan.grace);
    }

    fn kill(&mut self) {
        self.kill_at = None;
        self.killed = true;
        self.job.kill();
    }

    fn on_output_lost(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.output_lost = true;
            tracing::error!(%error, "cannot write to standard output: the job is ended");
        }
        self.end(Ending::Output, Signal::TERM);
    }

    fn on_report(&mut self, report: JobReport) {
        match report {
            JobReport::Proc(LaunchReport::Output { proc, channel, data }) => {
                self.on_output(proc, channel, &data)
            }
            JobReport::Proc(report) => tracing::debug!(?report, "process"),
            JobReport::Abort { by, status, message } => {
                let message = if message.is_empty() { String::new() } else { format!(": {message}") };
                self.console.say(format_args!("{by} called abort with status {status}{message}"));
            }
            JobReport::Failed { proc, node, program, exit } if self.ending.is_none() => {
                let grace = self.plan.grace.as_secs_f64();
                let rest = if self.plan.is_alone() {
                    String::new()
                } else {
                    format!("; the others have {grace} seconds to end")
                };
                self.console.say(format_args!("{proc} ({program}) on {node} failed: {exit}{rest}"));
            }
            report => tracing::debug!(?report, "job"),
        }
    }

    fn on_output(&mut self, proc: ProcId, channel: OutputChannel, data: &[u8]) {
        let rank = proc.rank;
        let lines = self.lines.entry((proc, channel)).or_insert_with(|| match self.plan.tag_output {
            true => Lines::new(Some(tag(rank, channel))),
            // nobody's lines to mix with: a prompt must not wait for its end
            false if self.plan.is_alone() => Lines::unbuffered(),
            false => Lines::new(None),
        });
        let piece = if data.is_empty() { lines.finish() } else { lines.push(data) };
        self.console.put(channel, piece);
    }

    /// Hands on what waits for the end of its line.
    fn flush(&mut self) {
        for ((_, channel), mut lines) in std::mem::take(&mut self.lines) {
            self.console.put(channel, lines.finish());
        }
    }

    fn exit_code(&self, outcome: &JobOutcome) -> i32 {
        let killed = self.killed && outcome.exit_code == 128 + Signal::KILL.as_raw();
        match self.ending {
            Some(Ending::Timeout) => TIMED_OUT,
            Some(Ending::Output) if self.output_lost => NOT_STARTED,
            Some(Ending::Output) => NO_READER,
            // it was us who killed them, because of this one
            Some(Ending::Signal(signal)) if killed => 128 + signal.as_raw(),
            // what the system keeps of a code; no failure may look like success
            _ => match (outcome.exit_code, outcome.exit_code & 0xff) {
                (0, _) => 0,
                (_, 0) => 1,
                (_, code) => code,
            },
        }
    }
}

impl Plan {
    /// Whether there is only one process.
    fn is_alone(&self) -> bool {
        matches!(self.apps.as_slice(), [app] if app.max_procs == 1)
    }
}

/// Until a time, or for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
