//! `pmix man`: manual pages.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use pmix_proto::files::{self, Existing};

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
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let written = files::create_dir_all(&dir, 0o777).and_then(|()| write(&command, &dir));
    written.map_err(|error| {
        Trouble::Other(format!("cannot write manual pages to {}: {error}", dir.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write(command: &Command, dir: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(command, dir)?;
    }
    let page = Man::new(command.clone());
    let mut file = files::open(&dir.join(page.get_filename()), Existing::Truncated, 0o666)?;
    pmix_program::man::write(command, &mut file)
}
