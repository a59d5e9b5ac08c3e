//! `pmix man`: manual pages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Cli, Trouble};

/// Writes the manual pages of pmix and its commands into a directory
///
/// `pmixrun --man` and `pmixd --man` print theirs.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The directory, which is made if it is missing
    dir: PathBuf,
}

const AFTER_HELP: &str = "\
Example:
  pmix man ~/.local/share/man/man1; man pmix-why

Exit code: 0 if the pages were written; 1 if not; 2 for an invalid command line.";

pub(super) fn run(args: Args) -> Result<ExitCode, Trouble> {
    let Args { dir } = args;
    fs::create_dir_all(&dir).and_then(|()| clap_mangen::generate_to(Cli::command(), &dir)).map_err(
        |error| Trouble::Other(format!("cannot write manual pages to {}: {error}", dir.display())),
    )?;
    Ok(ExitCode::SUCCESS)
}
