//! `pmix release`: resumes processes that wait for a debugger.

use std::process::ExitCode;

use pmix_tool::types::Status;
use pmix_tool::{Nspace, ProcId, Tool};
use serde::Serialize;

use super::selection::{Selection, finalize};
use super::{Console, Trouble, completions};

/// Resumes the processes of jobs that wait in init for a debugger
///
/// Processes that reach init later do not wait. By default it searches for the jobs at all live servers of this user on
/// this node.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if all jobs were released; 1 if a job is not running, or if no server could \
                        be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// The jobs
    #[arg(value_name = "NAMESPACE", required = true, add = completions::jobs())]
    jobs: Vec<Nspace>,

    /// Print one JSON object: {"schema", "released": [NAMESPACE, ...]}
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let job_servers = args.selection.find(&args.jobs, console).await?;
    let mut released = Vec::new();
    for (tool, jobs) in job_servers.servers {
        release(&tool, &jobs).await?;
        finalize(tool).await;
        released.extend(jobs);
    }
    if args.json {
        #[derive(Serialize)]
        struct Report {
            released: Vec<Nspace>,
        }
        console.json(&Report { released })?;
    }
    Ok(if job_servers.is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn release(tool: &Tool, jobs: &[Nspace]) -> Result<(), Trouble> {
    let procs = jobs.iter().cloned().map(ProcId::wildcard);
    let event = tool.client().notify(Status::DEBUGGER_RELEASE).custom_range(procs).non_default();
    Ok(event.await?)
}
