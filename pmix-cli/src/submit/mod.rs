//! `pmix submit`: runs jobs in a server.

mod job;
mod lines;
mod one;
mod room;
pub(super) mod spelling;
mod stage;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pmix_program::seconds;
use pmix_tool::types::Status;
use pmix_tool::{Error, Nspace};
use serde::{Serialize, Serializer};

use super::selection::Selection;
use super::{Console, Trouble};
use job::JobArgs;

/// Runs a job, or many, in a server that starts jobs
///
/// The server is that of a DVM (pmixd --head), of pmixrun, or of another resource manager that starts jobs for tools. Standard output
/// and error of the job are written here in whole lines; its processes have no standard input. They inherit the environment of
/// the server (in a DVM for several users only PATH, HOME, USER, LOGNAME and SHELL), plus what -x sets.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "pmix submit [OPTIONS] PROGRAM [ARGS]...\n       pmix submit [OPTIONS] --stage FILE",
    after_help = AFTER_HELP
)]
pub(super) struct Args {
    #[command(flatten)]
    job: JobArgs,

    #[command(flatten)]
    one: OneArgs,

    #[command(flatten)]
    stage: StageArgs,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A single job")]
struct OneArgs {
    /// Prefix each line with rank and channel
    #[arg(long, conflicts_with = "stage")]
    tag_output: bool,

    /// Print a report on the job as one JSON object, in the last line of standard output
    #[arg(long, conflicts_with = "stage")]
    json: bool,

    /// Print the namespace of the job and leave it running; its output is dropped
    #[arg(long, conflicts_with_all = ["stage", "tag_output"])]
    detach: bool,

    /// Seconds between SIGINT, SIGTERM or SIGHUP and killing the processes that still run
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "5", value_parser = seconds,
        conflicts_with_all = ["stage", "detach"]
    )]
    grace: Duration,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Many jobs")]
struct StageArgs {
    /// Run a job for each line of this file, or of standard input (-): a program and its arguments, split into words as a
    /// shell does, but without expansions. Empty lines and comments (#) are skipped. For each job that has ended, one line of JSON is
    /// printed, in the order in which they end
    #[arg(long, value_name = "FILE")]
    stage: Option<PathBuf>,

    /// Run at most this many jobs at a time [default: the slots of the server's nodes or, if slots are not limited, their
    /// processors]
    #[arg(long, value_name = "N", conflicts_with = "program")]
    jobs: Option<NonZeroUsize>,

    /// Write the output of each job to DIR/LINE.out and DIR/LINE.err; without this option it is dropped
    #[arg(long, value_name = "DIR", conflicts_with = "program")]
    output: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Signals are passed on to the job; SIGTSTP (Ctrl-Z) stops it and this command, but with --stage this command alone. After SIGINT, SIGTERM or SIGHUP its processes have the grace period to end; \
a second SIGINT kills them at once. If the server does not answer, a third signal ends this command alone. With --stage, SIGINT, SIGTERM and \
SIGHUP end the jobs that run, and no more are started; a second SIGINT kills them, and a third signal ends this command in any case. SIGHUP has \
no effect if it is ignored at startup, as under nohup.

A job is refused if too few slots are free. With --stage, it is tried again when another job of the file has ended. While nobody reads the \
reports, no more jobs are started.

If this command is killed, its jobs end, except for one with --detach.

If output is not read fast enough, some of it is dropped, and a message says how much. After a signal that ends jobs, this command gives \
up a reader of its output that pauses for longer than a second; the rest of the output, and the report of --json, are then missing. Servers of OpenPMIx (prte) do not forward what a job writes \
in its first moments.

The JSON report, with --json and for each job of --stage, is one object in a line: {\"schema\", \"nspace\", \"exit_code\", \"status\", \"seconds\"}; where there is one also \"first_failure\" (a rank), \"missing_bytes\" (of output) and \"error\"; and with --stage \"line\", the number of its line in the file.

Exit code: that of the job, which is 0 if all its processes succeeded, or else that of the first that failed, or 128 plus the number \
of the signal that ended it; 124 after --time-limit; 141 if the reader of the output has gone away; 1 if the job could not be started, \
or if the connection to the server was lost; 2 for an invalid command line. With --stage: 0 if all jobs have ended with 0, else 1.";

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let Args { job, one, stage, selection } = args;
    match stage.stage {
        Some(file) => {
            let many = stage::Many { file, jobs: stage.jobs, output: stage.output, job };
            stage::run(many, &selection).await
        }
        None => one::run(job, &one, &selection, console).await,
    }
}

/// What is reported of a job.
#[derive(Debug, Default, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nspace: Option<Nspace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "by_name")]
    status: Option<Status>,
    /// From its submission to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// The rank that failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<u32>,
    /// Of its output, because this command was too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn by_name<S: Serializer>(status: &Option<Status>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&status.unwrap_or(Status::SUCCESS))
}

/// A job was refused because the server has no room for it now.
fn is_for_room(error: &Error) -> bool {
    [Status::ERR_JOB_FAILED_TO_MAP, Status::ERR_JOB_INSUFFICIENT_RESOURCES].contains(&error.status())
}

/// The exit code for one of a job, of which a shell sees eight bits: a failure stays one.
pub(super) fn exit_code(code: i32) -> ExitCode {
    let seen = u8::try_from(code & 0xff).unwrap_or(1);
    ExitCode::from(if code != 0 && seen == 0 { 1 } else { seen })
}

/// The reader of the output has gone away: 128 and SIGPIPE, as a shell would report it.
const NO_READER: u8 = 141;
