//! `pmix completions`: scripts that complete command lines of our programs.

use std::process::ExitCode;
use std::time::Duration;

use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use futures::future::join_all;
use pmix_program::man::COMPLETES;
use pmix_tool::{ToolBuilder, discover};

use super::{Console, Trouble};

/// Prints a script with which a shell completes command lines of pmix, pmixrun and pmixd
///
/// It also completes names of running jobs, for which it asks the servers of this user on this node.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  echo 'source <(pmix completions bash)' >> ~/.bashrc
  echo 'pmix completions fish | source' >> ~/.config/fish/config.fish

Exit code: 0 if the script was printed; 2 for an invalid command line.";

/// How long a shell waits for the names of jobs.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let shell =
        shells.completer(&shell).ok_or_else(|| Trouble::Other(format!("there is no script for {shell}")))?;
    for program in ["pmix", "pmixrun", "pmixd"] {
        let mut script = Vec::new();
        shell.write_registration(COMPLETES, program, program, program, &mut script)?;
        console.out.write_all(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Completes the name of a running job.
pub(super) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| {
            // the limit needs the runtime
            runtime.block_on(async { tokio::time::timeout(PATIENCE, names()).await.unwrap_or_default() })
        });
        names.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
    })
}

/// The jobs of all servers that answer.
async fn names() -> Vec<String> {
    let servers = discover().unwrap_or_default().into_iter().filter(|server| server.is_alive);
    let of = async |server| {
        let tool = ToolBuilder::default().server(server).connect().await.ok()?;
        let jobs = tool.namespaces().await.ok()?;
        Some(jobs.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    join_all(servers.map(of)).await.into_iter().flatten().flatten().collect()
}
