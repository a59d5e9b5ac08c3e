//! `pmix release`: lets processes go on that wait for a debugger.

use std::process::ExitCode;

use pmix_tool::types::Status;
use pmix_tool::{Nspace, ProcId, Tool};

use super::selection::Selection;
use super::{Console, Trouble};

/// Lets the processes of jobs go on that wait in init for a debugger
///
/// Processes that come to that place later go on, too. Without a server selected it asks the only live one of this user
/// on this node.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if all of these jobs were told; 1 if there is no such job, or if no server could \
                        be asked; 2 if the command line is wrong."
)]
pub(super) struct Args {
    /// The jobs
    #[arg(value_name = "NSPACE", required = true)]
    jobs: Vec<Nspace>,

    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let tool = args.selection.connect().await?;
    let running = tool.namespaces().await?;
    let (known, absent): (Vec<_>, Vec<_>) = args.jobs.into_iter().partition(|job| running.contains(job));
    release(&tool, &known).await?;
    absent.iter().for_each(|job| console.complain(&format!("no job {job} runs here")));
    // they are told, however the goodbye goes
    if let Err(error) = tool.finalize().await {
        tracing::debug!(%error, "finalize");
    }
    Ok(if absent.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn release(tool: &Tool, jobs: &[Nspace]) -> Result<(), Trouble> {
    if jobs.is_empty() {
        return Ok(());
    }
    let procs = jobs.iter().cloned().map(ProcId::wildcard);
    let event = tool.client().notify(Status::DEBUGGER_RELEASE).custom_range(procs).non_default();
    Ok(tool.within_limit("release", event).await?)
}
