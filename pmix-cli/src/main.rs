//! `pmix`: queries the PMIx servers of this node and runs jobs in them. A file for each subcommand, and what they share.

mod attach;
mod attrs;
mod color;
mod completions;
mod ctrl;
mod doctor;
mod dvm;
mod events;
mod get;
mod groups;
mod hosts;
mod info;
mod log;
mod lookup;
mod man;
mod named;
mod nodes;
mod output;
mod printer;
mod ps;
mod publish;
mod published;
mod qualifier;
mod query;
mod record;
mod refresh;
mod release;
mod render;
mod selection;
mod servers;
mod sets;
mod signals;
mod stack;
mod submit;
mod target;
mod top;
mod unpublish;
mod wait;
mod web;
mod why;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pmix_tool::types::{escaped, escaped_json, without_os_codes};
use serde::Serialize;
use thiserror::Error;

use self::named::Named;

/// Queries the PMIx servers of this user on this node, and runs jobs in them
#[derive(Debug, Parser)]
#[command(name = "pmix", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Colour states in tables: auto (on a terminal, unless NO_COLOR or CLICOLOR=0 is set), always, never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true
    )]
    color: color::When,
}

#[derive(Debug, Subcommand)]
enum Command {
    Attach(attach::Args),
    Attrs(attrs::Args),
    Completions(completions::Args),
    Ctrl(ctrl::Args),
    Doctor(doctor::Args),
    Dvm(dvm::Args),
    Events(events::Args),
    Get(get::Args),
    Groups(sets::GroupArgs),
    Info(info::Args),
    Log(log::Args),
    Lookup(lookup::Args),
    Man(man::Args),
    Nodes(nodes::Args),
    Output(output::Args),
    Ps(ps::Args),
    Psets(sets::PsetArgs),
    Publish(publish::Args),
    Query(query::Args),
    Release(release::Args),
    Servers(servers::Args),
    Stack(stack::Args),
    #[command(visible_alias = "spawn")]
    Submit(Box<submit::Args>),
    Top(top::Args),
    Unpublish(unpublish::Args),
    Wait(wait::Args),
    Web(web::Args),
    Why(why::Args),
}

const AFTER_HELP: &str = "\
Servers are found by their files below PMIX_SERVER_TMPDIR; if that is not set, below TMPDIR or /tmp, and in \
XDG_RUNTIME_DIR. Servers of Open MPI 5 and PRRTE (mpirun, prte) are found in their session directories there; `pmix why` \
does not work with them, and mpirun of Open MPI 5.0 may not exit by itself after several tools have attached. pmix does not attach \
to mpirun of Open MPI 4, which would crash.

Exit code: 0 on success; 1 on failure, or if no server could be queried; 2 for an invalid command line. `pmix submit` \
and `pmix wait` exit with the code of the job. The help of each command has the details.

RUST_LOG=debug logs what pmix does to standard error.";

/// An error that ends a command with a message and exit code 1.
#[derive(Debug, Error)]
enum Trouble {
    #[error(transparent)]
    Tool(#[from] pmix_tool::Error),
    /// It says what it is about: see [`named::about`].
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("{0}")]
    Other(String),
}

impl From<pmix_tool::client::Error> for Trouble {
    fn from(error: pmix_tool::client::Error) -> Self {
        Self::Tool(error.into())
    }
}

/// Where a command writes.
struct Console<'a> {
    out: &'a mut dyn Write,
    /// Messages for people: what failed and what is missing.
    err: &'a mut dyn Write,
    /// Columns of the terminal, if standard output is one.
    width: Option<usize>,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    match args.nth(1) {
        Some(first) if first == stack::AS => stack::as_another_user(args),
        _ => command(std::env::args_os()),
    }
}

/// Runs a command line, the name of the command first.
fn command(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    pmix_program::man::complete(Cli::command);
    let words = submit::spelling::with_long_np(Cli::command(), args);
    let matches = groups::grouped(Cli::command()).try_get_matches_from(words);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(mut error) => {
            // clap's advice on how to pass it as an argument would not help
            error.remove(clap::error::ContextKind::Suggested);
            // there is nowhere to report a failure
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    color::set(cli.color);
    pmix_program::log::to_stderr("warn");
    let (mut out, mut err) = (Named::stdout(io::BufWriter::new(io::stdout().lock())), io::stderr());
    let mut console = Console { out: &mut out, err: &mut err, width: terminal_width() };
    let outcome = run(cli, &mut console).and_then(|code| match console.out.flush() {
        // its reader has gone, which does not change what became of a job
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    });
    match outcome {
        Ok(code) => code,
        // the reader has seen enough, as with `pmix ps | head -1`
        Err(Trouble::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(trouble) => {
            console.complain(&trouble.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Trouble::Runtime)?;
    runtime.block_on(async {
        match cli.command {
            Command::Attach(args) => attach::run(args, console).await,
            Command::Attrs(args) => attrs::run(args, console).await,
            Command::Completions(args) => completions::run(args, console),
            Command::Ctrl(args) => ctrl::run(args, console).await,
            Command::Doctor(args) => doctor::run(args, console).await,
            Command::Dvm(args) => dvm::run(args, console).await,
            Command::Events(args) => events::run(args, console).await,
            Command::Get(args) => get::run(args, console).await,
            Command::Groups(args) => sets::groups(args, console).await,
            Command::Info(args) => info::run(args, console).await,
            Command::Log(args) => log::run(args, console).await,
            Command::Lookup(args) => lookup::run(args, console).await,
            Command::Man(args) => man::run(args),
            Command::Nodes(args) => nodes::run(args, console).await,
            Command::Output(args) => output::run(args, console).await,
            Command::Ps(args) => ps::run(args, console).await,
            Command::Psets(args) => sets::psets(args, console).await,
            Command::Publish(args) => publish::run(args).await,
            Command::Query(args) => query::run(args, console).await,
            Command::Release(args) => release::run(args, console).await,
            Command::Servers(args) => servers::run(args, console),
            Command::Stack(args) => stack::run(args, console).await,
            Command::Submit(args) => submit::run(*args, console).await,
            Command::Top(args) => top::run(args, console).await,
            Command::Unpublish(args) => unpublish::run(args).await,
            Command::Wait(args) => wait::run(args, console).await,
            Command::Web(args) => web::run(args, console).await,
            Command::Why(args) => why::run(args, console).await,
        }
    })
}

/// The form of all JSON reports: the first field of each. A field that is new does not change it; one that is gone or means
/// something else does.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    report: &'a T,
}

/// A report in one line.
fn json_line(report: &impl Serialize) -> io::Result<String> {
    Ok(escaped_json(&serde_json::to_string(&Versioned { schema: SCHEMA, report })?))
}

/// A message for people, in one line: servers and programs have a part in what it says.
fn message(problem: &str) -> String {
    format!("pmix: {}", escaped(&without_os_codes(problem)))
}

impl Console<'_> {
    fn complain(&mut self, problem: &str) {
        // a closed standard error is no reason to fail
        let _ = writeln!(self.err, "{}", message(problem));
    }

    /// One object, which says which form of reports it has.
    fn json(&mut self, report: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string_pretty(&Versioned { schema: SCHEMA, report })?;
        writeln!(self.out, "{}", escaped_json(&json))
    }

    /// The same in one line.
    fn json_line(&mut self, report: &impl Serialize) -> io::Result<()> {
        writeln!(self.out, "{}", json_line(report)?)
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tol_06a_tol_06b_one_server_is_selected_at_most() {
        assert!(Cli::try_parse_from(["pmix", "ps", "--pid", "1"]).is_ok());
        assert!(Cli::try_parse_from(["pmix", "ps", "--pid", "1", "--server", "s"]).is_err());
        assert!(Cli::try_parse_from(["pmix", "query", "k", "--uri", "u", "--file", "f"]).is_err());
    }

    #[test]
    fn a_query_needs_keys_or_a_list() {
        assert!(Cli::try_parse_from(["pmix", "query"]).is_err());
        assert!(Cli::try_parse_from(["pmix", "query", "--list"]).is_ok());
        assert!(Cli::try_parse_from(["pmix", "query", "--list", "ns"]).is_ok());
        assert!(Cli::try_parse_from(["pmix", "query", "pmix.qry.nope"]).is_err());
    }

    #[test]
    fn output_goes_to_files_only_if_there_are_any() {
        let is_valid = |options: &[&str]| {
            let words = [&["pmix", "output", "job", "--file-only"], options].concat();
            Cli::try_parse_from(words).map_err(|error| error.exit_code())
        };
        assert!(matches!(is_valid(&[]), Err(2)));
        for options in
            [&["--to-file", "a"][..], &["--to-directory", "b"], &["--to-file", "a", "--to-directory", "b"]]
        {
            assert!(is_valid(options).is_ok(), "{options:?}");
        }
    }
}
