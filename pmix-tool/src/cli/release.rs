//! `pmix release`: lets processes go on that wait for a debugger.

use std::process::ExitCode;

use pmix_tool::types::Status;
use pmix_tool::{Nspace, ProcId, Tool};

use super::selection::{Selection, bye};
use super::{Console, Trouble};

/// Lets the processes of jobs go on that wait in init for a debugger
///
/// Processes that come to that place later go on, too. Without a server selected it looks for the jobs at all live ones of
/// this user on this node.
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
    let found = args.selection.find(&args.jobs, console).await?;
    for (tool, jobs) in found.servers {
        release(&tool, &jobs).await?;
        bye(tool).await;
    }
    Ok(if found.is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn release(tool: &Tool, jobs: &[Nspace]) -> Result<(), Trouble> {
    let procs = jobs.iter().cloned().map(ProcId::wildcard);
    let event = tool.client().notify(Status::DEBUGGER_RELEASE).custom_range(procs).non_default();
    Ok(tool.within_limit("release", event).await?)
}
