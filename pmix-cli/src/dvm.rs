//! `pmix dvm`: servers that stay and run the jobs of tools.

use std::process::ExitCode;

use pmix_tool::{EventError, Nspace, ProcId, Status};
use serde::Serialize;

use super::selection::Selection;
use super::{Console, Trouble};

/// Ends a DVM: a server that stays and runs jobs for tools, as `pmixd --head` starts it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: DvmCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DvmCommand {
    Stop(StopArgs),
}

/// Ends a DVM with its jobs, and waits until its server has stopped answering
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when the server has stopped answering; 1 if there is none, or if it cannot be ended; 2 for an invalid command line."
)]
struct StopArgs {
    /// Print one JSON object at the end: {"schema", "stopped": NAMESPACE}
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let DvmCommand::Stop(StopArgs { json, selection }) = args.command;
    let tool = selection.connect().await?;
    let server = tool.server()?;
    let client = server.client();
    // before it is told: its last words may be the answer
    let mut events = client.events([Status::ERR_LOST_CONNECTION]).await?;
    let itself = ProcId::wildcard(server.proc_id().nspace.clone());
    let told = client.job_control([itself]).terminate().await;
    if let Err(error) = told
        && !error.is_lost_connection()
    {
        return Err(error.into());
    }
    // its jobs have their time to end
    while let Some(event) = events.recv().await {
        if event == Err(EventError::Disconnected) {
            break;
        }
    }
    if json {
        #[derive(Serialize)]
        struct Report<'a> {
            stopped: &'a Nspace,
        }
        console.json(&Report { stopped: &server.proc_id().nspace })?;
    }
    Ok(ExitCode::SUCCESS)
}
