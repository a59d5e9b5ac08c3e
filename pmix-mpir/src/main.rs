//! `pmix-mpir`: stands in for a launcher before debuggers that know only MPIR. See README.md.

#![allow(clippy::print_stderr, reason = "a command says what is wrong")]

mod attach;
mod launch;
mod mpir;
mod ranks;

use std::ffi::OsString;

use clap::Parser;
use pmix_program::log::to_stderr;
use pmix_tool::Nspace;
use pmix_tool::types::{escaped, without_os_codes};

/// Runs a launcher for a debugger that knows only MPIR, and shows the debugger its ranks
///
/// Debug this program. It starts the launcher with --stop-in-init, so that its ranks wait in init, shows the debugger where they are, and releases
/// them when the debugger goes on. Without a debugger the launcher just runs.
#[derive(Debug, Parser)]
#[command(version, override_usage = "pmix-mpir LAUNCHER [ARGS]...\n       pmix-mpir --pid PID [--job NAMESPACE]", after_help = AFTER_HELP)]
struct Args {
    /// Show the ranks of a job that runs: the process id of its launcher. The job is not changed
    #[arg(long, conflicts_with = "launcher", required_unless_present = "launcher")]
    pid: Option<u32>,

    /// Which of its jobs, if there are several
    #[arg(long, value_name = "NAMESPACE", requires = "pid")]
    job: Option<Nspace>,

    /// The launcher and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Exit code: that of the launcher, or 128 plus the number of the signal that ended it; 127 if the launcher does not exist, 126 if it cannot be started. With --pid: \
that of the job, or 1 if the job is not found or its end is unknown. 2 for an invalid command line.";

/// Why there is nothing to debug, or no longer.
type Problem = Box<dyn std::error::Error>;

/// Tells the user, in one line.
fn say(message: &str) {
    eprintln!("pmix-mpir: {}", escaped(&without_os_codes(message)));
}

fn main() {
    to_stderr("warn");
    let words: Vec<_> = std::env::args_os().collect();
    if let [_, word, starter, launcher @ ..] = &words[..]
        && word == launch::HELPER
    {
        std::process::exit(launch::become_launcher(starter, launcher));
    }
    let Args { pid, job, launcher } = Args::parse_from(words);
    if pid.is_none() && !mpir::is_debugged() {
        std::process::exit(launch::exec(&launcher));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(Problem::from).and_then(|runtime| match pid {
        Some(pid) => runtime.block_on(attach::attach(pid, job)),
        None => runtime.block_on(launch::launch(&launcher)),
    });
    std::process::exit(done.unwrap_or_else(|problem| {
        let problem = problem.to_string();
        let problem = without_os_codes(&problem);
        say(&problem);
        mpir::abort(&problem);
        1
    }))
}
