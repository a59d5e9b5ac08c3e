//! `pmix completions`: scripts that complete command lines of `pmix`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::{Cli, Console, Trouble};

/// Prints a script with which a shell completes command lines of pmix
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  dir=~/.local/share/bash-completion/completions; mkdir -p $dir; pmix completions bash > $dir/pmix
  mkdir -p ~/.config/fish/completions; pmix completions fish > ~/.config/fish/completions/pmix.fish

Exit code: 0 if the script was printed; 2 for an invalid command line.";

pub(super) fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "pmix", &mut script);
    console.out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
