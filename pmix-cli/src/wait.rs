//! `pmix wait`: waits for the end of a job, whoever has started it.

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pmix_tool::types::Status;
use pmix_tool::{Error, JobEnd, Nspace, ToolBuilder};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::selection::{Selection, finalize};
use super::submit::exit_code;
use super::{Console, Trouble, completions};

/// How long another server may take to be there when one is lost that knew the job.
const RECONNECT: Duration = Duration::from_secs(60);
/// How long to wait before servers are looked for again.
const AGAIN: Duration = Duration::from_secs(2);

/// Waits for the end of a job, and exits with its exit code
///
/// The job may have been submitted by another command, or with --detach, and may already have ended: a server remembers how its last 1,000 jobs ended.
/// With etcd, so does the next head of a DVM. If a server that knows the job is lost, another one is looked for on this node, for up to 60 seconds.
///
/// The wait itself has no limit: --timeout is for servers that do not answer. `timeout 60 pmix wait NAMESPACE` waits a minute.
///
/// With --json, the report is one object: {"schema", "nspace", "exit_code", "status"}.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: that of the job, as that of `pmix submit`; 1 if no server knows the job, or none can be queried; 2 for an invalid command line.")]
pub(super) struct Args {
    /// The job
    #[arg(value_name = "NAMESPACE", add = completions::jobs())]
    job: Nspace,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    nspace: &'a Nspace,
    exit_code: i32,
    status: Status,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let Args { job, json, selection } = args;
    let end = until_end(&selection, &job).await?;
    if json {
        console.json(&Report { nspace: &job, exit_code: end.exit_code, status: end.status })?;
    }
    Ok(exit_code(end.exit_code))
}

fn unknown(job: &Nspace) -> String {
    format!(
        "no server here knows a job {job}: it is not running, and it is not among the last 1,000 that have ended"
    )
}

/// Waits at whichever server knows the job.
async fn until_end(selection: &Selection, job: &Nspace) -> Result<JobEnd, Trouble> {
    let mut deadline = Instant::now();
    loop {
        let mut problem = None;
        let candidates = selection.candidates();
        let candidates =
            candidates.inspect_err(|error| tracing::debug!(%error, "no server")).unwrap_or_default();
        // one that hangs holds up no other
        let mut looks: FuturesUnordered<_> =
            candidates.into_iter().map(|builder| look(builder, job)).collect();
        while let Some(ended) = looks.next().await {
            match ended {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                // no other server knows more
                Err((error @ Error::UnknownEnd(_), _)) => return Err(error.into()),
                Err((error, was_known)) => {
                    if was_known {
                        deadline = Instant::now() + RECONNECT;
                    }
                    problem = Some(error);
                }
            }
        }
        if Instant::now() >= deadline {
            return Err(problem.map_or_else(|| Trouble::Other(unknown(job)), Trouble::from));
        }
        sleep_until(Instant::now() + AGAIN).await;
    }
}

/// Waits for the end of a job at a server; `None` if that does not know it. An error says whether it did.
async fn look(builder: ToolBuilder, job: &Nspace) -> Result<Option<JobEnd>, (Error, bool)> {
    let unknown = |error| (error, false);
    let tool = builder.connect().await.map_err(unknown)?;
    let ended = match tool.await_end(job.clone()).await {
        Ok(Some(awaited)) => awaited.wait().await.map(Some).map_err(|error| (error, true)),
        Ok(None) => Ok(None),
        Err(error) => Err(unknown(error)),
    };
    finalize(tool).await;
    ended
}
