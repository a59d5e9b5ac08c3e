//! A single job, in the foreground or detached.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use pmix_tool::types::{IofChannels, escaped};
use pmix_tool::{Error, JobEnd, JobUpdate, Nspace, OutputFormat, Status, SubmittedJob, Tool, keys};
use rustix::process::Signal;

use super::super::output::complain;
use super::super::printer::{Item, PAUSE, Printer};
use super::super::selection::{Selection, leave};
use super::super::signals::{ENOUGH, Received, Signals};
use super::super::{Console, Trouble, json_line};
use super::job::JobArgs;
use super::{NO_READER, OneArgs, Report, exit_code};

/// How long the server may take to stop a job.
const STOPPING: Duration = Duration::from_secs(5);

/// What has become of a submission so far.
struct Course {
    signals: Signals,
    report: Report,
    /// What is written at the end: whoever reads it may pause, too.
    last: Vec<Item>,
    /// Not all output was written, because its reader paused when this command was to end.
    is_unread: bool,
}

pub(super) async fn run(
    job: JobArgs,
    args: &OneArgs,
    selection: &Selection,
    console: &mut Console<'_>,
) -> Result<ExitCode, Trouble> {
    let begun = Instant::now();
    let (signals, report) = (Signals::receive()?, Report::default());
    let mut course = Course { signals, report, last: Vec::new(), is_unread: false };
    let outcome = follow(job, args, selection, console, &mut course).await;
    let Course { mut signals, mut report, mut last, is_unread } = course;
    if is_unread {
        last.push(Item::Note("the rest of the output is missing: nobody read it".into()));
    }
    if args.json && !is_unread {
        report.seconds = (!args.detach).then(|| begun.elapsed().as_secs_f64());
        if let Err(trouble) = &outcome {
            report.error = Some(trouble.to_string());
        }
        last.push(Item::Text((json_line(&report)? + "\n").into()));
    }
    let mut written = Ok(());
    if !last.is_empty() {
        let printer = Printer::start(OutputFormat::default(), false)?;
        written = printer.finish_or_leave(last, &mut signals).await.unwrap_or(Ok(()));
    }
    let code = outcome?;
    match written.and_then(|()| console.out.flush()) {
        Ok(()) => Ok(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::from(NO_READER)),
        Err(error) => Err(error.into()),
    }
}

async fn follow(
    job: JobArgs,
    args: &OneArgs,
    selection: &Selection,
    console: &mut Console<'_>,
    Course { signals, report, last, is_unread }: &mut Course,
) -> Result<ExitCode, Trouble> {
    let (tool, mut job) = tokio::select! {
        started = start(job, args.detach, selection) => started.inspect_err(|trouble| {
            if let Trouble::Tool(error) = trouble {
                report.status = Some(error.status());
            }
        })?,
        code = signals.interrupted() => return Ok(exit_code(code)),
    };
    report.nspace = Some(job.nspace().clone());
    if args.detach {
        if !args.json {
            writeln!(console.out, "{}", job.nspace())?;
        }
        drop(job);
        leave(tool).await;
        return Ok(ExitCode::SUCCESS);
    }
    let mut foreground = Foreground {
        printer: Some(Printer::start(OutputFormat::default().rank(args.tag_output), args.json)?),
        acts: FuturesUnordered::new(),
        grace: args.grace,
        kill_at: None,
        told_to_end: None,
        times_told: 0,
        missing: 0,
        unwritten: None,
        is_unread: false,
    };
    let end = foreground.until_end(&mut job, signals).await;
    let Foreground { missing, unwritten, told_to_end, .. } = foreground;
    *is_unread = foreground.is_unread;
    report.missing_bytes = (missing > 0).then_some(missing);
    let has_no_reader = unwritten.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    // that is why it was ended, even if the event of its end was lost in a flood of output
    let end = match end {
        Err(_) if has_no_reader => return Ok(ExitCode::from(NO_READER)),
        end => end?,
    };
    let Some(end) = end else {
        let problem = format!("the server does not answer; job {} may still be running", job.nspace());
        last.push(Item::Note(problem.clone()));
        report.error = Some(problem);
        return Ok(exit_code(told_to_end.unwrap_or(1)));
    };
    report.exit_code = Some(end.exit_code);
    report.status = Some(end.status);
    report.first_failure = end.first_failure.as_ref().map(|proc| proc.rank.to_raw());
    let nspace = job.nspace().clone();
    drop(job);
    leave(tool).await;
    match unwritten {
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::from(NO_READER)),
        Some(error) => return Err(error.into()),
        None => {}
    }
    if !end.status.is_success() && told_to_end.is_none() {
        last.push(Item::Note(failure(&nspace, &end)));
    }
    Ok(exit_code(end.exit_code))
}

async fn start(
    job: JobArgs,
    is_detached: bool,
    selection: &Selection,
) -> Result<(Tool, SubmittedJob), Trouble> {
    let (template, program) = job.into_template()?;
    let tool = selection.connect().await?;
    let submitter = tool.submitter().await?;
    let (directives, output) = match is_detached {
        true => (template.directives().require(&keys::SPAWN_CHILD_SEP, true), IofChannels::NONE),
        false => (template.directives(), IofChannels::STDOUT | IofChannels::STDERR),
    };
    let job = submitter.submit(vec![template.app(&program)], directives, output).await?;
    Ok((tool, job))
}

/// What failed.
fn failure(job: &Nspace, end: &JobEnd) -> String {
    let JobEnd { exit_code, status, first_failure, .. } = end;
    // not of a job that it has spawned
    let is_own = first_failure.as_ref().is_none_or(|proc| proc.nspace == *job);
    match first_failure {
        _ if is_own && *status == Status::ERR_TIMEOUT => "the job has exceeded its time limit".to_owned(),
        _ if is_own && *status == Status::ERR_JOB_KILLED_BY_CMD => {
            format!("the job was ended on request, exit code {exit_code}")
        }
        Some(proc) => {
            let why = end.message.as_deref().map(|why| format!("{}; ", escaped(why))).unwrap_or_default();
            format!(
                "{why}rank {} of job {} failed first: {status}, exit code {exit_code}",
                proc.rank, proc.nspace
            )
        }
        None => format!("the job has failed: {status}, exit code {exit_code}"),
    }
}

/// The outcome of a request.
struct Act {
    /// Nothing more can be done for the end of the job.
    is_last: bool,
    outcome: Result<(), Error>,
}

/// The job that this command waits for.
struct Foreground {
    /// `None` once nothing is written any more.
    printer: Option<Printer>,
    /// Requests on behalf of signals, which may take long.
    acts: FuturesUnordered<BoxFuture<'static, Act>>,
    /// How long processes have to end after a signal that ends them.
    grace: Duration,
    kill_at: Option<Instant>,
    /// The exit code for why the job is to end, if its own does not come.
    told_to_end: Option<i32>,
    /// How many signals have said so.
    times_told: u32,
    missing: u64,
    /// Why output cannot be written.
    unwritten: Option<io::Error>,
    /// That of [`Course`].
    is_unread: bool,
}

impl Foreground {
    /// `None` if the job is to end and its server does not answer.
    async fn until_end(
        &mut self,
        job: &mut SubmittedJob,
        signals: &mut Signals,
    ) -> Result<Option<JobEnd>, Error> {
        let end = self.follow(job, signals).await;
        if let Some(printer) = self.printer.take() {
            match printer.finish_or_leave([], signals).await {
                Some(written) => self.unwritten = written.err(),
                None => self.is_unread = true,
            }
        }
        end
    }

    async fn follow(
        &mut self,
        job: &mut SubmittedJob,
        signals: &mut Signals,
    ) -> Result<Option<JobEnd>, Error> {
        let mut waiting = None;
        loop {
            tokio::select! {
                news = job.next(), if waiting.is_none() => match news.unwrap_or_else(|| Err(pmix_tool::client::Error::Finalized.into()))? {
                    JobUpdate::Output(chunk) if self.printer.is_some() => waiting = Some(Item::Chunk(chunk)),
                    JobUpdate::Output(chunk) if self.is_unread => self.missing += chunk.data.len() as u64,
                    JobUpdate::Missing { bytes } => {
                        self.missing += bytes;
                        waiting = self.printer.is_some().then(|| Item::Note(missing(bytes)));
                    }
                    JobUpdate::Ended(end) => return Ok(Some(end)),
                    _ => {}
                },
                is_taken = hand(self.printer.as_ref(), &mut waiting), if waiting.is_some() => {
                    if !is_taken {
                        waiting = None;
                        self.has_not_written(job).await;
                    }
                }
                // the end of the job comes behind what it has written
                () = until(Some(Instant::now() + PAUSE)), if waiting.is_some() && self.told_to_end.is_some() => {
                    if let Some(Item::Chunk(chunk)) = waiting.take() {
                        self.missing += chunk.data.len() as u64;
                    }
                    // it goes on with what it has, but nobody waits for it
                    (self.printer, self.is_unread) = (None, true);
                }
                signal = signals.next() => {
                    let is_unanswered = !self.acts.is_empty();
                    self.pass_on(signal, job, signals).await;
                    if self.times_told >= ENOUGH && is_unanswered {
                        return Ok(None);
                    }
                }
                () = until(self.kill_at) => {
                    self.kill_at = None;
                    self.act(job.kill(), true);
                }
                Some(Act { is_last, outcome }) = self.acts.next(), if !self.acts.is_empty() => match outcome {
                    Err(error) if is_last && error.is_timeout() => return Ok(None),
                    // a job may end before a signal reaches it
                    Err(error) if !error.is_not_found() => complain(&error.to_string()),
                    _ => {}
                }
            }
        }
    }

    async fn pass_on(&mut self, received: Received, job: &SubmittedJob, signals: &mut Signals) {
        match received {
            Received::PassOn(signal) => self.act(job.signal(signal.as_raw()), false),
            Received::Stop => {
                stop(job).await;
                if !signals.stop() {
                    self.act(job.signal(Signal::CONT.as_raw()), false);
                }
            }
            Received::End(signal) => {
                self.kill_at.get_or_insert_with(|| Instant::now() + self.grace);
                self.is_to_end(signal);
                self.act(job.signal(signal.as_raw()), false);
            }
            Received::Kill => {
                self.is_to_end(Signal::INT);
                self.act(job.kill(), true);
            }
        }
    }

    fn is_to_end(&mut self, signal: Signal) {
        self.told_to_end = Some(128 + signal.as_raw());
        self.times_told += 1;
    }

    fn act(&self, request: impl Future<Output = Result<(), Error>> + Send + 'static, is_last: bool) {
        self.acts.push(async move { Act { is_last, outcome: request.await } }.boxed());
    }

    /// Nobody reads what the job writes.
    async fn has_not_written(&mut self, job: &SubmittedJob) {
        if let Some(printer) = self.printer.take() {
            self.unwritten = printer.finish().await.err();
        }
        self.told_to_end = Some(NO_READER.into());
        self.act(job.terminate(), true);
    }
}

/// Stops a job.
async fn stop(job: &SubmittedJob) {
    match tokio::time::timeout(STOPPING, job.signal(Signal::STOP.as_raw())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => complain(&format!("the job is not stopped: {error}")),
        Err(_) => complain("the job is not stopped: its server does not answer"),
    }
}

/// Hands over what is to be written, once there is room; returns false if nothing can be written. Cancel-safe.
async fn hand(printer: Option<&Printer>, item: &mut Option<Item>) -> bool {
    match printer {
        Some(printer) => printer.take(item).await,
        None => false,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

fn missing(bytes: u64) -> String {
    match bytes {
        0 => "the job's output is missing: the job ended before this command could request it".to_owned(),
        _ => format!("{bytes} bytes of output are missing here: this command could not keep up"),
    }
}
