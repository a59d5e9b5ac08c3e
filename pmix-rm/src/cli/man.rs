//! Manual pages.

use std::io::{self, Write};

use clap::{Args, Command, CommandFactory};

use super::head::{DaemonArgs, Head};
use super::options::FirstApp;

/// The option of `pmixrun` and `pmixd` that prints their manual page, if it is the only one.
pub(crate) const MAN: &str = "--man";

const PMIXD: &str = "pmixd --head [OPTIONS]\n       pmixd [--join FILE] [--node-from VARIABLE]";

/// The command line of `pmixrun`.
pub(crate) fn pmixrun_command() -> Command {
    FirstApp::command()
}

/// That of `pmixd` in its two forms.
pub(crate) fn pmixd_command() -> Command {
    let head = Head::command().name("pmixd").override_usage(PMIXD);
    let (short, long) = (head.get_about().cloned(), head.get_long_about().cloned());
    let both = DaemonArgs::augment_args(head.next_help_heading("Options of a daemon, without --head"));
    both.about(short.unwrap_or_default()).long_about(long.unwrap_or_default())
}

/// Prints a manual page.
pub(crate) fn print(command: Command) -> io::Result<()> {
    let mut page = Vec::new();
    pmix_program::man::write(&command, &mut page)?;
    io::stdout().lock().write_all(&page)
}
