//! A single job, in the foreground or detached.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use pmix_tool::types::IofChannels;
use pmix_tool::{Error, JobEnd, JobNews, OutputFormat, OutputWriter, Status, SubmittedJob, Tool, keys};

use super::super::output::complain;
use super::super::selection::{Selection, finalize};
use super::super::{Console, Trouble};
use super::job::JobArgs;
use super::signals::{Received, Signals};
use super::{NO_READER, OneArgs, Report, exit_code};

pub(super) async fn run(
    job: JobArgs,
    args: &OneArgs,
    selection: &Selection,
    console: &mut Console<'_>,
) -> Result<ExitCode, Trouble> {
    let begun = Instant::now();
    let mut signals = Signals::receive()?;
    let mut report = Report::default();
    let outcome = follow(job, args, selection, console, (&mut signals, &mut report)).await;
    if args.json {
        report.seconds = (!args.detach).then(|| begun.elapsed().as_secs_f64());
        if let Err(trouble) = &outcome {
            report.error = Some(trouble.to_string());
        }
        console.json_line(&report)?;
    }
    outcome
}

async fn follow(
    job: JobArgs,
    args: &OneArgs,
    selection: &Selection,
    console: &mut Console<'_>,
    (signals, report): (&mut Signals, &mut Report),
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
        finalize(tool).await;
        return Ok(ExitCode::SUCCESS);
    }
    let format = OutputFormat::default().rank(args.tag_output);
    let mut foreground = Foreground {
        writer: OutputWriter::new(format, &mut *console.out, &mut *console.err),
        acts: FuturesUnordered::new(),
        is_told_to_end: false,
        missing: 0,
        unwritten: None,
    };
    let end = foreground.until_end(&mut job, signals).await;
    let Foreground { missing, unwritten, is_told_to_end, .. } = foreground;
    report.missing_bytes = (missing > 0).then_some(missing);
    let end = end?;
    report.exit_code = Some(end.exit_code);
    report.status = Some(end.status);
    report.first_failure = end.first_failure.as_ref().map(|proc| proc.rank.to_raw());
    drop(job);
    finalize(tool).await;
    match unwritten {
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::from(NO_READER)),
        Some(error) => return Err(error.into()),
        None => {}
    }
    if !end.status.is_success() && !is_told_to_end {
        console.complain(&failure(&end));
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
fn failure(end: &JobEnd) -> String {
    let JobEnd { exit_code, status, first_failure, .. } = end;
    match first_failure {
        Some(proc) => {
            format!("rank {} of job {} failed first: {status}, exit code {exit_code}", proc.rank, proc.nspace)
        }
        None if *status == Status::ERR_TIMEOUT => "the time of the job is over".to_owned(),
        None => format!("the job has failed: {status}, exit code {exit_code}"),
    }
}

/// The job that this command waits for.
struct Foreground<'a> {
    writer: OutputWriter<&'a mut dyn io::Write, &'a mut dyn io::Write>,
    /// Requests on behalf of signals, which may take long.
    acts: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    is_told_to_end: bool,
    missing: u64,
    /// Why output cannot be written.
    unwritten: Option<io::Error>,
}

impl Foreground<'_> {
    async fn until_end(&mut self, job: &mut SubmittedJob, signals: &mut Signals) -> Result<JobEnd, Error> {
        let end = loop {
            tokio::select! {
                news = job.next() => match news.unwrap_or_else(|| Err(pmix_tool::client::Error::Finalized.into()))? {
                    JobNews::Output(chunk) => {
                        if self.unwritten.is_none() && let Err(error) = self.writer.write(&chunk) {
                            self.has_not_written(error, job);
                        }
                    }
                    JobNews::Missing { bytes } => {
                        self.missing += bytes;
                        complain(&missing(bytes));
                    }
                    JobNews::Ended(end) => break end,
                    _ => {}
                },
                signal = signals.next() => self.pass_on(signal, job),
                Some(outcome) = self.acts.next(), if !self.acts.is_empty() => {
                    // a job may end before a signal reaches it
                    if let Err(error) = outcome && !error.is_not_found() {
                        complain(&error.to_string());
                    }
                }
            }
        };
        if self.unwritten.is_none()
            && let Err(error) = self.writer.finish()
        {
            self.unwritten = Some(error);
        }
        Ok(end)
    }

    fn pass_on(&mut self, signal: Received, job: &SubmittedJob) {
        self.is_told_to_end |= !matches!(signal, Received::PassOn(_));
        self.acts.push(match signal {
            Received::End(signal) | Received::PassOn(signal) => job.signal(signal.as_raw()).boxed(),
            Received::Kill => job.kill().boxed(),
        });
    }

    /// Nobody reads what the job writes.
    fn has_not_written(&mut self, error: io::Error, job: &SubmittedJob) {
        self.unwritten = Some(error);
        self.is_told_to_end = true;
        self.acts.push(job.terminate().boxed());
    }
}

fn missing(bytes: u64) -> String {
    match bytes {
        0 => "output of the job is missing: it had ended before this command could ask for it".to_owned(),
        _ => format!("{bytes} bytes of output are missing here: this command could not keep up"),
    }
}
