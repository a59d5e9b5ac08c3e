//! Many jobs, one for each line of a file.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use pmix_proto::files::{self, Existing};
use pmix_tool::types::IofChannels;
use pmix_tool::{Error, JobEnd, JobUpdate, Nspace, OutputChunk, OutputFormat, Submitter, Tool};
use tokio::sync::watch;

use super::super::printer::{Item, Printer};
use super::super::selection::{Selection, leave};
use super::super::signals::{ENOUGH, Received, Signals};
use super::super::{Trouble, json_line};
use super::job::{JobArgs, Template};
use super::lines::{Line, Lines};
use super::room::{Moment, Room, of_nodes};
use super::{NO_READER, Report, exit_code, is_for_room};

/// What the command line says of the jobs.
#[derive(Debug)]
pub(super) struct Many {
    pub(super) file: PathBuf,
    pub(super) jobs: Option<NonZeroUsize>,
    pub(super) output: Option<PathBuf>,
    pub(super) job: JobArgs,
}

pub(super) async fn run(many: Many, selection: &Selection) -> Result<ExitCode, Trouble> {
    let Many { file, jobs, output, job } = many;
    let (template, _) = job.into_template()?;
    let unreadable = |error: io::Error| Trouble::Other(format!("{}: {error}", file.display()));
    let lines = Lines::open(&file).map_err(unreadable)?;
    if let Some(directory) = &output {
        let failed = |error: io::Error| Trouble::Other(format!("--output {}: {error}", directory.display()));
        files::create_dir_all(directory, 0o777).map_err(failed)?;
    }
    let mut signals = Signals::receive()?;
    let (tool, submitter, limit) = tokio::select! {
        ready = prepare(selection, jobs, &template) => ready?,
        code = signals.interrupted() => return Ok(exit_code(code)),
    };
    let mut stage = Stage {
        template,
        output,
        submitter,
        lines: Some(lines),
        room: Room::new(limit),
        under_way: FuturesUnordered::new(),
        again: VecDeque::new(),
        order: watch::Sender::new(Order::Go),
        times_told: 0,
        all_succeeded: true,
        printer: Some(Printer::start(OutputFormat::default(), false)?),
        reports: VecDeque::new(),
    };
    let mut outcome = stage.run(&mut signals).await;
    let (all_succeeded, printer, reports) =
        (stage.all_succeeded, stage.printer.take(), std::mem::take(&mut stage.reports));
    drop(stage);
    leave(tool).await;
    if let Some(printer) = printer {
        let written = printer.finish_or_leave(reports, &mut signals).await;
        let written = written.map_or(Err(Stop::Unheard), |written| written.map_err(Stop::Unwritten));
        outcome = outcome.and(written);
    }
    match outcome {
        Ok(()) if all_succeeded => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(ExitCode::FAILURE),
        Err(Stop::Unwritten(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::from(NO_READER))
        }
        Err(Stop::Unwritten(error)) => Err(error.into()),
        Err(Stop::Unread(error)) => Err(unreadable(error)),
        Err(Stop::Unheard) => {
            Err(Trouble::Other("the rest of the reports is missing: nobody read it".into()))
        }
        Err(Stop::Unended(jobs)) => Err(Trouble::Other(format!(
            "not waiting any longer: up to {jobs} of the jobs may still be running"
        ))),
    }
}

/// The tool, and how many jobs may run at a time.
async fn prepare(
    selection: &Selection,
    jobs: Option<NonZeroUsize>,
    template: &Template,
) -> Result<(Tool, Submitter, usize), Trouble> {
    let tool = selection.connect().await?;
    let limit = match jobs {
        Some(jobs) => jobs.get(),
        None => {
            let unknown = |_| Trouble::Other("the server does not say how many jobs fit: use --jobs".into());
            let room = tool.nodes().await.map(|nodes| of_nodes(&nodes));
            let room = match room {
                Ok(room) => room.ok_or(()).map_err(unknown)?,
                Err(Error::Unsupported(_)) => return Err(unknown(())),
                Err(error) => return Err(error.into()),
            };
            (room / template.count() as usize).max(1)
        }
    };
    let submitter = tool.submitter().await?;
    Ok((tool, submitter, limit))
}

/// What all jobs are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Go,
    /// They are to end.
    End,
    Kill,
}

/// Why no more jobs are started, beside signals.
#[derive(Debug)]
enum Stop {
    Unwritten(io::Error),
    Unread(io::Error),
    /// Nobody has read the last reports in time.
    Unheard,
    /// This many jobs have not ended, although signals have asked for it again and again.
    Unended(usize),
}

struct Stage {
    template: Template,
    output: Option<PathBuf>,
    submitter: Submitter,
    /// `None` once no more are started.
    lines: Option<Lines>,
    room: Room,
    under_way: FuturesUnordered<BoxFuture<'static, Attempt>>,
    /// Commands that found no room.
    again: VecDeque<FileCommand>,
    order: watch::Sender<Order>,
    /// How many signals have asked for the end.
    times_told: u32,
    all_succeeded: bool,
    /// `None` once reports cannot be written.
    printer: Option<Printer>,
    /// Those that wait for room. While there are any, only jobs that run add some.
    reports: VecDeque<Item>,
}

/// A line of the file that is a command.
#[derive(Debug)]
struct FileCommand {
    line: u64,
    words: Vec<OsString>,
}

/// A job of which nothing more comes.
struct Attempt {
    command: FileCommand,
    submitted: Moment,
    seconds: f64,
    seen: Seen,
    outcome: Result<JobEnd, Error>,
}

/// What is known of a job beside its end.
#[derive(Debug, Default)]
struct Seen {
    /// `None` unless it has started.
    nspace: Option<Nspace>,
    missing: u64,
    /// That of an output file.
    unwritten: Option<io::Error>,
}

impl Stage {
    async fn run(&mut self, signals: &mut Signals) -> Result<(), Stop> {
        let mut stop = None;
        loop {
            let has_room = self.reports.is_empty() && self.room.has(self.under_way.len());
            if has_room && let Some(command) = self.again.pop_front() {
                self.submit(command);
                continue;
            }
            if self.lines.is_none() && self.again.is_empty() && self.under_way.is_empty() {
                return stop.map_or(Ok(()), Err);
            }
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if signal == Received::Stop {
                        // jobs go on
                        let _ = signals.stop();
                    }
                    self.on_signal(signal);
                    if self.times_told >= ENOUGH {
                        return Err(Stop::Unended(self.under_way.len()));
                    }
                }
                () = failure(self.printer.as_ref()) => {
                    if let Err(error) = self.stop_printing().await {
                        stop.get_or_insert(Stop::Unwritten(error));
                    }
                }
                // if it fails, that is seen first
                _ = hand(self.printer.as_ref(), &mut self.reports), if !self.reports.is_empty() => {}
                Some(attempt) = self.under_way.next(), if !self.under_way.is_empty() => {
                    if let Err(error) = self.on_end(attempt) {
                        self.end(Order::End);
                        stop.get_or_insert(Stop::Unwritten(error));
                    }
                }
                line = next_line(self.lines.as_mut()), if has_room && self.lines.is_some() => match line {
                    Some(Ok(line)) => {
                        if let Err(error) = self.on_line(line) {
                            self.end(Order::End);
                            stop.get_or_insert(Stop::Unwritten(error));
                        }
                    }
                    Some(Err(error)) => {
                        self.lines = None;
                        stop.get_or_insert(Stop::Unread(error));
                    }
                    None => self.lines = None,
                },
            }
        }
    }

    /// Ends all, because no report can be written; returns why.
    async fn stop_printing(&mut self) -> io::Result<()> {
        self.end(Order::End);
        self.reports.clear();
        match self.printer.take() {
            Some(printer) => printer.finish().await,
            None => Ok(()),
        }
    }

    /// Has a report printed as soon as there is room for it.
    fn print(&mut self, report: &Report) -> io::Result<()> {
        if self.printer.is_some() {
            self.reports.push_back(Item::Text((json_line(report)? + "\n").into()));
        }
        Ok(())
    }

    /// Starts no more jobs, and has those that run end.
    fn end(&mut self, order: Order) {
        self.lines = None;
        self.again.clear();
        // those who have not been started are no success
        self.all_succeeded = false;
        self.order.send_replace(order);
    }

    fn on_signal(&mut self, signal: Received) {
        let order = match signal {
            Received::End(_) => Order::End,
            Received::Kill => Order::Kill,
            // meant for a single job
            Received::PassOn(_) | Received::Stop => return,
        };
        self.times_told += 1;
        self.end(order);
    }

    fn on_line(&mut self, line: Line) -> io::Result<()> {
        let Line { number, words } = line;
        match words {
            Ok(words) => {
                self.submit(FileCommand { line: number, words });
                Ok(())
            }
            Err(problem) => {
                self.all_succeeded = false;
                let report =
                    Report { line: Some(number), error: Some(problem.to_owned()), ..Report::default() };
                self.print(&report)
            }
        }
    }

    fn submit(&self, command: FileCommand) {
        let Self { template, output, submitter, room, order, .. } = self;
        let files = output.as_deref().map(|directory| Files::new(directory, command.line));
        let attempt = Attempting {
            submitter: submitter.clone(),
            template: template.clone(),
            submitted: room.now(),
            files,
            order: order.subscribe(),
        };
        self.under_way.push(attempt.run(command).boxed());
    }

    fn on_end(&mut self, attempt: Attempt) -> io::Result<()> {
        let Attempt { command, submitted, seconds, seen, outcome } = attempt;
        let Seen { nspace, missing, unwritten } = seen;
        let (line, seconds) = (Some(command.line), Some(seconds));
        let mut report = Report { line, nspace, seconds, ..Report::default() };
        match outcome {
            Ok(end) => {
                self.room.ended();
                report.exit_code = Some(end.exit_code);
                report.status = Some(end.status);
                report.first_failure = end.first_failure.as_ref().map(|proc| proc.rank.to_raw());
                report.missing_bytes = (missing > 0).then_some(missing);
                report.error = unwritten.map(|error| format!("its output cannot be written: {error}"));
                self.all_succeeded &= end.exit_code == 0 && report.error.is_none();
            }
            Err(error) => {
                let is_open = *self.order.borrow() == Order::Go;
                if is_for_room(&error) && is_open && self.room.refused(submitted, self.under_way.len()) {
                    self.again.push_back(command);
                    return Ok(());
                }
                if error.is_lost_connection() {
                    // each further job would fail the same way
                    self.end(Order::End);
                }
                self.all_succeeded = false;
                report.status = Some(error.status());
                report.error = Some(error.to_string());
            }
        }
        self.print(&report)
    }
}

/// Hands over the first report, once there is room. Cancel-safe.
async fn hand(printer: Option<&Printer>, reports: &mut VecDeque<Item>) -> bool {
    match printer {
        Some(printer) => printer.take_from(|| reports.pop_front()).await,
        None => false,
    }
}

/// Waits until reports cannot be written.
async fn failure(printer: Option<&Printer>) {
    match printer {
        Some(printer) => printer.has_failed().await,
        None => std::future::pending().await,
    }
}

async fn next_line(lines: Option<&mut Lines>) -> Option<io::Result<Line>> {
    lines?.next().await
}

/// What is needed for one job.
struct Attempting {
    submitter: Submitter,
    template: Template,
    submitted: Moment,
    files: Option<Files>,
    order: watch::Receiver<Order>,
}

impl Attempting {
    async fn run(mut self, command: FileCommand) -> Attempt {
        let begun = Instant::now();
        let mut seen = Seen::default();
        let outcome = self.follow(&command, &mut seen).await;
        let (submitted, seconds) = (self.submitted, begun.elapsed().as_secs_f64());
        Attempt { command, submitted, seconds, seen, outcome }
    }

    async fn follow(&mut self, command: &FileCommand, seen: &mut Seen) -> Result<JobEnd, Error> {
        let wanted = match &self.files {
            Some(_) => IofChannels::STDOUT | IofChannels::STDERR,
            None => IofChannels::NONE,
        };
        let app = self.template.app(&command.words);
        let mut job = self.submitter.submit(vec![app], self.template.directives(), wanted).await?;
        seen.nspace = Some(job.nspace().clone());
        if let Some(files) = &self.files {
            seen.unwritten = files.create().err();
        }
        let mut done = Order::Go;
        let mut acts = FuturesUnordered::new();
        loop {
            let order = *self.order.borrow_and_update();
            if order != done {
                done = order;
                acts.push(match order {
                    Order::Go | Order::End => job.terminate().boxed(),
                    Order::Kill => job.kill().boxed(),
                });
            }
            tokio::select! {
                news = job.next() => match news.unwrap_or_else(|| Err(pmix_tool::client::Error::Finalized.into()))? {
                    JobUpdate::Output(chunk) => {
                        if let Some(files) = self.files.as_ref().filter(|_| seen.unwritten.is_none()) {
                            seen.unwritten = files.append(&chunk).err();
                        }
                    }
                    JobUpdate::Missing { bytes } => seen.missing += bytes,
                    JobUpdate::Ended(end) => return Ok(end),
                    _ => {}
                },
                Ok(()) = self.order.changed() => {}
                // it may have ended by itself
                Some(_) = acts.next(), if !acts.is_empty() => {}
            }
        }
    }
}

/// Where the output of a job goes. None is kept open: there may be more than a process can have open.
#[derive(Debug)]
struct Files {
    out: PathBuf,
    err: PathBuf,
}

impl Files {
    fn new(directory: &Path, line: u64) -> Self {
        Self { out: directory.join(format!("{line}.out")), err: directory.join(format!("{line}.err")) }
    }

    fn create(&self) -> io::Result<()> {
        files::open(&self.out, Existing::Truncated, 0o666)?;
        files::open(&self.err, Existing::Truncated, 0o666).map(drop)
    }

    fn append(&self, chunk: &OutputChunk) -> io::Result<()> {
        if chunk.data.is_empty() {
            return Ok(());
        }
        let path = if chunk.channels.contains(IofChannels::STDOUT) { &self.out } else { &self.err };
        files::open(path, Existing::Appended, 0o666)?.write_all(&chunk.data)
    }
}
