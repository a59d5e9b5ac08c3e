//! Watches a running job: output, signals, time limits, the end.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use pmix_host::{JobOutcome, JobReport, LaunchReport, OutputChannel, ProcBinding, ProcExit, StandardHost};
use pmix_launch::UNKILLABLE;
use pmix_program::signals::Received;
use pmix_types::ProcId;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::aborts::{Aborts, spawned};
use crate::cli::Plan;
use crate::console::Console;
use crate::debugger::{Debugging, News};
use crate::ending::{Ending, Interrupts, NOT_ENDED, until};
use crate::exit_code::{NO_READER, NOT_STARTED, TIMED_OUT};
use crate::job::Job;
use crate::nodes::{Event, Session};
use crate::output::{Lines, Prefix, tag};
use crate::records::RecordPlace;

/// How a job has ended.
pub(crate) struct JobEnded {
    pub(crate) outcome: JobOutcome,
    /// The exit code of `pmixrun`.
    pub(crate) code: i32,
    /// The reason for ending it early, if any.
    pub(crate) by: Option<Ending>,
}

/// How long a call of abort is kept for what has caused it, which may be found out later: a rank that crashed.
const CAUSE: Duration = Duration::from_millis(300);

/// Watches a job.
pub(crate) struct Watch<'a> {
    plan: Plan,
    job: Job,
    console: &'a mut Console,
    /// The daemons of other nodes, and the host that is told of their loss.
    nodes: Option<(&'a mut Session, StandardHost)>,
    /// What looks at the job.
    debugging: Option<Debugging>,
    lines: BTreeMap<(ProcId, OutputChannel), Lines>,
    records: RecordPlace,
    /// Records that were written, with their nodes.
    recorded: Vec<(String, PathBuf)>,
    /// How the job has ended, while what looked at it is still there.
    outcome: Option<JobOutcome>,
    /// The reason for ending it early, if any.
    ending: Option<Ending>,
    /// The first rank that failed has called exit.
    has_exited: bool,
    /// A rank has called abort.
    has_aborted: bool,
    /// Calls of abort that are not told yet.
    aborts: Aborts,
    /// When they are told.
    tell_aborts_at: Option<Instant>,
    /// The user has been told that a rank failed.
    failure_told: bool,
    /// Writing to standard output failed, and not because its reader has gone away.
    output_lost: bool,
    timeout_at: Option<Instant>,
    /// When to kill ranks that were asked to end.
    kill_at: Option<Instant>,
    killed: bool,
    /// When ranks that were killed are waited for no longer.
    give_up_at: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        plan: Plan,
        job: Job,
        console: &'a mut Console,
        records: RecordPlace,
        nodes: Option<(&'a mut Session, StandardHost)>,
    ) -> Self {
        Self {
            plan,
            job,
            console,
            nodes,
            debugging: None,
            outcome: None,
            lines: BTreeMap::new(),
            records,
            recorded: Vec::new(),
            ending: None,
            has_exited: false,
            has_aborted: false,
            aborts: Aborts::default(),
            tell_aborts_at: None,
            failure_told: false,
            output_lost: false,
            timeout_at: None,
            kill_at: None,
            killed: false,
            give_up_at: None,
        }
    }

    /// The same with what looks at the job.
    pub(crate) fn debugged(self, debugging: Option<Debugging>) -> Self {
        Self { debugging, ..self }
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// What becomes of the job will not be known.
    pub(crate) async fn until_done(&mut self, interrupts: &mut Interrupts) -> Result<JobEnded, String> {
        self.timeout_at = interrupts.ends_at();
        loop {
            if self.debugging.as_ref().is_none_or(Debugging::has_ended)
                && let Some(outcome) = self.outcome.take()
            {
                self.flush();
                self.tell_aborts();
                self.tell_records();
                let code = self.exit_code(&outcome);
                return Ok(JobEnded { outcome, code, by: self.ending });
            }
            let takes_output = !self.console.is_behind();
            tokio::select! {
                signal = interrupts.signal() => self.on_signal(signal, interrupts).await,
                () = until(self.timeout_at) => {
                    self.timeout_at = None;
                    let seconds = self.plan.timeout.unwrap_or_default().as_secs_f64();
                    self.console.tell(format_args!("ending the job after {seconds} seconds (--timeout)"));
                    self.end(Ending::Timeout, Signal::TERM);
                }
                () = until(self.kill_at) => self.kill(),
                () = until(self.tell_aborts_at) => self.tell_aborts(),
                () = until(self.give_up_at) => {
                    self.flush();
                    self.tell_aborts();
                    return Err(NOT_ENDED.to_owned());
                }
                event = next_event(&mut self.nodes) => self.on_node(event),
                written = self.console.advance() => if let Err(error) = written {
                    self.on_output_lost(&error);
                },
                news = next_news(&mut self.debugging, takes_output) => if let Some(news) = news {
                    // one key has interrupted both, whichever is told first
                    if matches!(news, News::Interrupted)
                        && let Some(other) = interrupts.signal().now_or_never()
                        && other != Received::End(Signal::INT)
                    {
                        self.on_signal(other, interrupts).await;
                    }
                    self.on_news(news, interrupts).await;
                },
                report = self.job.next_report(), if takes_output && self.outcome.is_none() => match report {
                    Ok(JobReport::Done(outcome)) => {
                        self.outcome = Some(outcome);
                        if let Some(said) = self.debugging.as_mut().and_then(Debugging::job_ended) {
                            self.console.tell(said);
                        }
                    }
                    Ok(report) => self.on_report(report),
                    Err(why) => {
                        self.flush();
                        self.tell_aborts();
                        return Err(why);
                    }
                },
            }
        }
    }

    fn on_node(&mut self, event: Event) {
        match event {
            Event::Cancelled(why) => {
                self.console.say(why);
                self.end(Ending::Signal(Signal::TERM), Signal::TERM);
            }
            Event::Line { node: Some(node), line } => self.console.say(format_args!("node {node}: {line}")),
            Event::Line { node: None, line } => self.console.say(line),
            event @ (Event::Added(_) | Event::NotAdded { .. } | Event::Left(_)) => {
                tracing::debug!(?event, "the nodes of a run do not change");
            }
            Event::Lost { node, reason } => {
                if let Some((session, host)) = &self.nodes {
                    if !session.is_cancelled() {
                        self.console.tell(format_args!("node {node} is lost: {reason}"));
                    }
                    host.node_lost(&node, &reason);
                }
            }
        }
    }

    async fn on_signal(&mut self, signal: Received, interrupts: &mut Interrupts) {
        match signal {
            // who types it means the debugger, which has the terminal
            Received::End(Signal::INT) if self.debugging.as_ref().is_some_and(Debugging::has_terminal) => {}
            Received::End(Signal::INT) if matches!(self.ending, Some(Ending::Signal(Signal::INT))) => {
                self.console.silence();
                self.kill();
            }
            Received::End(signal) => {
                self.end(Ending::Signal(signal), signal);
                if signal == Signal::INT {
                    self.console.tell("interrupted: asking the ranks to end (interrupt again to kill them)");
                }
            }
            Received::PassOn(signal) => self.job.signal(signal.as_raw()),
            Received::Stop => {
                if let Err(why) = self.job.stop().await {
                    self.console.tell(format_args!("not all ranks are stopped: {why}"));
                }
                if !interrupts.stop() {
                    self.job.signal(Signal::CONT.as_raw());
                }
            }
        }
    }

    /// Asks the ranks to end. The first reason counts, and the grace period starts with it.
    fn end(&mut self, why: Ending, signal: Signal) {
        self.ending.get_or_insert(why);
        self.job.signal(signal.as_raw());
        if let Some(debugging) = &mut self.debugging {
            debugging.signal(signal);
        }
        self.kill_at.get_or_insert_with(|| Instant::now() + self.plan.setup.grace);
    }

    fn kill(&mut self) {
        self.kill_at = None;
        self.killed = true;
        self.give_up_at.get_or_insert_with(|| Instant::now() + UNKILLABLE);
        self.job.kill();
        if let Some(debugging) = &mut self.debugging {
            debugging.signal(Signal::KILL);
        }
    }

    async fn on_news(&mut self, news: News, interrupts: &mut Interrupts) {
        match news {
            News::Said(said) => self.console.tell(said),
            News::Daemon(report) => self.on_report(report),
            News::Interrupted => self.on_signal(Received::End(Signal::INT), interrupts).await,
            News::GivenUp(why) => {
                self.console.say(format_args!("{why}; ending the job"));
                self.end(Ending::Debugger, Signal::TERM);
            }
        }
    }

    fn on_output_lost(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.output_lost = true;
            self.console.say(format_args!("cannot write to standard output: {error}; ending the job"));
        }
        self.end(Ending::Output, Signal::TERM);
    }

    fn on_report(&mut self, report: JobReport) {
        match report {
            JobReport::Proc(LaunchReport::Output { proc, channel, data }) => {
                self.on_output(proc, channel, &data)
            }
            JobReport::Proc(report) => tracing::debug!(?report, "process"),
            JobReport::Abort { by, ranks, status, message } => {
                self.tell_aborts_at.get_or_insert_with(|| Instant::now() + CAUSE);
                self.aborts.add(by, ranks, status, message);
                self.has_aborted = true;
            }
            JobReport::Failed { proc, node, program, exit } if self.ending.is_none() => {
                if let Some(said) = self.job.take_said() {
                    self.console.tell(pmix_types::escaped(&said));
                }
                // what a failure in a spawned job ends is for its spawn to say
                let is_own = proc.nspace == *self.job.nspace();
                let rest = if is_own && !self.plan.is_alone() { "; ending the job" } else { "" };
                let how = match exit {
                    // exit code 0 alone is not a failure
                    ProcExit::Code(0) => "ended with code 0 but without finalize".to_owned(),
                    exit => format!("failed: {exit}"),
                };
                let proc = self.named(&proc);
                // the node is unknown if a job of a DVM ends before its process table can be read
                let place = if node.is_empty() { String::new() } else { format!(" on {node}") };
                self.console.tell(format_args!("{proc} ({program}){place} {how}{rest}"));
                self.has_exited = matches!(exit, ProcExit::Code(code) if code != 0);
                self.failure_told = true;
            }
            JobReport::Bindings(bindings) => self.on_bindings(&bindings),
            JobReport::Recorded { node, file } => self.recorded.push((node, file)),
            report => tracing::debug!(?report, "job"),
        }
    }

    fn tell_aborts(&mut self) {
        self.tell_aborts_at = None;
        for line in self.aborts.take(self.job.nspace(), self.failure_told) {
            self.console.tell(line);
        }
    }

    fn on_bindings(&mut self, bindings: &[ProcBinding]) {
        for ProcBinding { proc, node, bound, .. } in bindings {
            let proc = self.named(proc);
            match bound {
                Some(bound) => self.console.say(format_args!(
                    "{proc} on {node} is bound to {} (processors {})",
                    bound.place, bound.processors
                )),
                None => self.console.say(format_args!("{proc} on {node} is not bound")),
            }
        }
    }

    fn on_output(&mut self, proc: ProcId, channel: OutputChannel, data: &[u8]) {
        let rank = proc.rank;
        let (format, is_alone) = (&self.plan.format, self.plan.is_alone());
        let lines = self.lines.entry((proc.clone(), channel)).or_insert_with(|| {
            match (format.tag, format.timestamp) {
                // there are no other lines to mix with, and a prompt must not wait for its newline
                (false, false) if is_alone => Lines::unbuffered(),
                (false, has_time) => Lines::new(Prefix { has_time, tag: String::new() }),
                (true, has_time) => Lines::new(Prefix { has_time, tag: tag(rank, channel) }),
            }
        });
        let piece = if data.is_empty() { lines.finish() } else { lines.push(data) };
        self.show(&proc, channel, piece);
    }

    /// Writes the rest of incomplete lines.
    fn flush(&mut self) {
        for ((proc, channel), mut lines) in std::mem::take(&mut self.lines) {
            self.show(&proc, channel, lines.finish());
        }
    }

    fn show(&mut self, proc: &ProcId, channel: OutputChannel, piece: Bytes) {
        let channel = if self.plan.format.merge { OutputChannel::Stdout } else { channel };
        self.console.put_output(proc, channel, piece);
    }

    /// Says where the records are, in one line, and makes room for later ones. Not those in the default place that explain nothing: of
    /// a job that the user has ended, or the program by its exit code.
    fn tell_records(&mut self) {
        let (nodes, files): (Vec<_>, Vec<_>) = std::mem::take(&mut self.recorded).into_iter().unzip();
        let explain_nothing = self.has_exited && !self.has_aborted
            || matches!(self.ending, Some(Ending::Signal(Signal::INT) | Ending::Output));
        if explain_nothing && !matches!(self.records, RecordPlace::Named(_)) {
            return self.records.tidy(&files);
        }
        match (nodes.as_slice(), files.as_slice()) {
            ([], _) | (_, []) => return,
            ([node], [file]) => {
                self.console.tell(format_args!("the flight record of {node} is in {}", file.display()));
            }
            ([node, ..], files) => self.console.tell(format_args!(
                "the flight records of {node} and other nodes are in {} files: {}*",
                files.len(),
                common_start(files)
            )),
        }
        self.records.tidy(&files);
    }

    /// A process in messages. The namespace is given only for jobs that were spawned.
    fn named(&self, proc: &ProcId) -> String {
        format!("rank {}{}", proc.rank, spawned(&proc.nspace, self.job.nspace()))
    }

    fn exit_code(&self, outcome: &JobOutcome) -> i32 {
        let killed = self.killed && outcome.exit_code == 128 + Signal::KILL.as_raw();
        match self.ending {
            Some(Ending::Timeout) => TIMED_OUT,
            Some(Ending::Output) if self.output_lost => NOT_STARTED,
            Some(Ending::Output) => NO_READER,
            Some(Ending::Debugger) => NOT_STARTED,
            // they were killed by pmixrun because of this signal
            Some(Ending::Signal(signal)) if killed => 128 + signal.as_raw(),
            // the system keeps 8 bits of a code; a failure must not look like success
            _ => match (outcome.exit_code, outcome.exit_code & 0xff) {
                (0, _) => 0,
                (_, 0) => 1,
                (_, code) => code,
            },
        }
    }
}

/// The next event of a node; waits for ever where there is only this one.
async fn next_event(nodes: &mut Option<(&mut Session, StandardHost)>) -> Event {
    match nodes {
        Some((session, _)) => session.next().await,
        None => std::future::pending().await,
    }
}

/// What a debugger and its daemons do next; waits for ever where there is none.
async fn next_news(debugging: &mut Option<Debugging>, takes_output: bool) -> Option<News> {
    match debugging {
        Some(debugging) => debugging.next(takes_output).await,
        None => std::future::pending().await,
    }
}

/// What the names of all files begin with.
fn common_start(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    let Some((first, others)) = names.split_first() else { return String::new() };
    let is_common = |(index, c): &(usize, char)| {
        others.iter().all(|name| name.get(*index..).is_some_and(|rest| rest.starts_with(*c)))
    };
    first.char_indices().take_while(is_common).map(|(_, c)| c).collect()
}
