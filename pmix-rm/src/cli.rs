//! The command line of `pmixrun`: from arguments to a [`Plan`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use pmix_server::NativeWire;
use pmix_types::App;

/// What `pmixrun` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) apps: Vec<App>,
    pub(crate) tag_output: bool,
    pub(crate) timeout: Option<Duration>,
    /// Between the failure of a process and the request to the others to end.
    pub(crate) reaction: Duration,
    /// Between a request to end and force.
    pub(crate) grace: Duration,
    pub(crate) json: bool,
    /// Number of pretended nodes; `None` is the node itself.
    pub(crate) vnodes: Option<u16>,
    pub(crate) native: NativeWire,
    /// Where data is kept that is published for good.
    pub(crate) store: Option<PathBuf>,
    /// Whether ranks wait in init until they are released.
    pub(crate) stop_in_init: bool,
}

impl Plan {
    /// Number of processes.
    pub(crate) fn ranks(&self) -> usize {
        self.apps.iter().map(|app| usize::try_from(app.max_procs).unwrap_or(0)).sum()
    }

    /// Whether there is only one process.
    pub(crate) fn is_alone(&self) -> bool {
        self.ranks() == 1
    }
}

/// Launches a job of one or more applications on this node, with a PMIx server beside it.
///
/// Several applications are separated by a colon; ranks count on from one to the next:
///     pmixrun -n 2 ./solver input.dat : -n 1 --env ROLE=io ./writer
#[derive(Debug, Parser)]
#[command(name = "pmixrun", version, override_usage = USAGE, after_help = AFTER_HELP)]
#[command(verbatim_doc_comment)]
struct FirstApp {
    /// Begin each line of output with its rank: "[2] ", or "[2]<stderr> " for errors
    #[arg(long)]
    tag_output: bool,

    /// End the job after so many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_timeout)]
    timeout: Option<Duration>,

    /// Time in seconds that ranks have to react to the failure of one of them before they are asked to end
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "0.3", value_parser = parse_seconds)]
    reaction: Duration,

    /// Time in seconds that ranks have to end after they were asked to, or after a signal; then they are killed
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "5", value_parser = parse_seconds)]
    grace: Duration,

    /// Divide the ranks in blocks over K pretended nodes, HOST-v0, HOST-v1, ..: each with a server of its own
    #[arg(long, value_name = "K", value_parser = parse_vnodes)]
    vnodes: Option<u16>,

    /// Which programs linked with the C library of PMIx are served
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Native::OpenMpi4)]
    native: Native,

    /// Print a report on the job, one JSON object, as the last line of standard output
    #[arg(long)]
    json: bool,

    /// Keep data that ranks publish until it is unpublished (INDEF) in this file, and publish what it holds
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    /// Make ranks wait in init for a debugger, until `pmix release` lets them go on
    #[arg(long)]
    stop_in_init: bool,

    #[command(flatten)]
    app: AppArgs,
}

/// An application after the first.
#[derive(Debug, Parser)]
#[command(name = "pmixrun", override_usage = USAGE)]
struct FurtherApp {
    #[command(flatten)]
    app: AppArgs,
}

/// [`NativeWire`] in the words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Native {
    /// None: the servers open no port
    Off,
    /// All but those of Open MPI 4, which start alone
    On,
    /// All: JSM_JSRUN_PORT=0 in the environment tells Open MPI 4 that it was launched, and not to bind ranks to cores
    #[value(name = "open-mpi-4")]
    OpenMpi4,
}

impl From<Native> for NativeWire {
    fn from(native: Native) -> Self {
        match native {
            Native::Off => Self::Off,
            Native::On => Self::On,
            Native::OpenMpi4 => Self::WithOpenMpi4,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of each application")]
struct AppArgs {
    /// Number of processes to start
    #[arg(short = 'n', long = "np", value_name = "N", default_value = "1", value_parser = parse_count, allow_negative_numbers = true)]
    count: u16,

    /// Set a variable, or pass on one of pmixrun's own that ranks do not inherit (PMIX_*, PRTE_*, OMPI_* but OMPI_MCA_*)
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,

    /// Working directory; a program given with a slash is found from there
    #[arg(long, value_name = "DIR", alias = "wd")]
    wdir: Option<String>,

    /// Program, found on PATH if it has no slash, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]")]
    program: Vec<String>,
}

const USAGE: &str = "pmixrun [OPTIONS] [-n N] PROGRAM [ARGS]... [: [-n N] PROGRAM [ARGS]...]...";

// each paragraph one line: clap breaks them as wide as the terminal
const AFTER_HELP: &str = "\
Rank 0 reads pmixrun's standard input, the others read nothing. SIGINT, SIGTERM and SIGHUP are passed on to the \
ranks, which have the grace period to end; a second SIGINT ends them at once. SIGUSR1 and SIGUSR2 are only passed on.

When a rank fails the others hear of it through PMIx and have the reaction time to end by themselves. Then they get \
SIGTERM, and when the grace period is over SIGKILL.

Exit code: 0 if all ranks ended well; else that of the rank that failed first, 128 and the signal's number if a \
signal ended it; 124 after --timeout; 141 if nobody reads the output any more; 1 if the job could not be started; \
2 if the command line is wrong.

RUST_LOG=debug shows on standard error what pmixrun does.";

/// Reads a command line, the name of the command first.
///
/// # Errors
/// What clap says: also the texts of `--help` and `--version`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Plan, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let name = args.first().cloned().unwrap_or_default();
    let args = args.get(1..).unwrap_or_default();
    let mut segments = args.split(|arg| arg == ":").map(|segment| std::iter::once(&name).chain(segment));

    let first = segments.next().into_iter().flatten();
    let FirstApp { tag_output, timeout, reaction, grace, json, vnodes, native, store, stop_in_init, app } =
        FirstApp::try_parse_from(first)?;
    let mut apps = vec![app.into_app()?];
    for segment in segments {
        apps.push(FurtherApp::try_parse_from(segment)?.app.into_app()?);
    }
    let native = native.into();
    Ok(Plan { apps, tag_output, timeout, reaction, grace, json, vnodes, native, store, stop_in_init })
}

impl AppArgs {
    fn into_app(self) -> Result<App, clap::Error> {
        let mut program = self.program.into_iter();
        let mut app = App::new(program.next().unwrap_or_default(), i32::from(self.count)).args(program);
        app.cwd = self.wdir;
        for entry in self.env {
            app.env.push(variable(entry).map_err(|reason| {
                use clap::CommandFactory;
                FirstApp::command().error(clap::error::ErrorKind::ValueValidation, reason)
            })?);
        }
        Ok(app)
    }
}

/// `NAME=VALUE` as it is, `NAME` with the value it has here.
fn variable(entry: String) -> Result<String, String> {
    match entry.split_once('=') {
        Some(("", _)) => Err(format!("--env {entry}: a variable needs a name")),
        Some(_) => Ok(entry),
        None => match std::env::var(&entry) {
            Ok(value) => Ok(format!("{entry}={value}")),
            Err(error) => Err(format!("--env {entry}: {error}; write {entry}=VALUE to give it one")),
        },
    }
}

fn parse_count(text: &str) -> Result<u16, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("a job needs at least one process".into()),
        Ok(count) => u16::try_from(count).map_err(|_| format!("at most {} processes", u16::MAX)),
        Err(_) if text == "p" => Err("write -n N or --np N".into()),
        Err(_) => Err("not a number of processes".into()),
    }
}

/// Most pretended nodes: each has a server with a thread of its own.
const MAX_VNODES: u16 = 256;

fn parse_vnodes(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(count @ 1..=MAX_VNODES) => Ok(count),
        _ => Err(format!("from 1 to {MAX_VNODES} nodes can be pretended")),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| String::from("not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        Duration::ZERO => Err("a job that may take no time cannot run".into()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, String> {
        let args = std::iter::once("pmixrun").chain(line.split_whitespace()).map(OsString::from);
        parse(args).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_is_well_formed() {
        use clap::CommandFactory;
        FirstApp::command().debug_assert();
        FurtherApp::command().debug_assert();
    }

    #[test]
    fn what_follows_the_program_is_its_own() {
        let plan = plan("-n 4 --tag-output ./app -n 2 --json -x -- y").unwrap();
        assert!(plan.tag_output && !plan.json);
        let [app] = plan.apps.as_slice() else { panic!("{:?}", plan.apps) };
        assert_eq!((app.command.as_str(), app.max_procs), ("./app", 4));
        assert_eq!(app.argv, ["./app", "-n", "2", "--json", "-x", "--", "y"]);
    }

    #[test]
    fn colons_separate_applications() {
        let plan = plan("-n 2 --env A=1 --json ./a one : -n 3 --wdir /tmp -x B=x=y ./b : ./c").unwrap();
        assert!(plan.json);
        let apps: Vec<_> = plan.apps.iter().map(|app| (app.command.as_str(), app.max_procs)).collect();
        assert_eq!(apps, [("./a", 2), ("./b", 3), ("./c", 1)]);
        assert_eq!(plan.apps[0].env, ["A=1"]);
        assert_eq!(plan.apps[1].env, ["B=x=y"]);
        assert_eq!(plan.apps[1].cwd.as_deref(), Some("/tmp"));
        assert!(plan.apps[2].env.is_empty() && plan.apps[2].cwd.is_none());
    }

    #[test]
    fn a_variable_without_value_is_passed_on() {
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        assert_eq!(plan("--env PATH ./a").unwrap().apps[0].env, [path]);
        assert!(plan("--env NO_SUCH_VARIABLE ./a").unwrap_err().contains("NO_SUCH_VARIABLE=VALUE"));
        assert!(plan("--env =x ./a").unwrap_err().contains("needs a name"));
    }

    #[test]
    fn times_are_seconds() {
        let plan = plan("--timeout 1.5 --grace 0 --reaction 2 ./a").unwrap();
        assert_eq!((plan.timeout, plan.grace), (Some(Duration::from_millis(1500)), Duration::ZERO));
        assert_eq!(plan.reaction, Duration::from_secs(2));
    }

    #[test]
    fn ranks_wait_for_a_debugger_if_they_are_to() {
        assert!(plan("--stop-in-init ./a").unwrap().stop_in_init);
        assert!(!plan("./a --stop-in-init").unwrap().stop_in_init);
    }

    #[test]
    fn all_programs_run_on_the_node_itself_if_nothing_is_said() {
        let given = plan("--vnodes 3 --native off ./a").unwrap();
        assert_eq!((given.vnodes, given.native), (Some(3), NativeWire::Off));
        let default = plan("./a").unwrap();
        assert_eq!((default.vnodes, default.native), (None, NativeWire::WithOpenMpi4));
    }

    #[test]
    fn errors_say_what_to_do() {
        for (line, hint) in [
            ("", "PROGRAM"),
            ("-n 2", "PROGRAM"),
            ("-n 2 ./a :", "PROGRAM"),
            ("-n 0 ./a", "at least one"),
            ("-n 65536 ./a", "at most 65535"),
            ("-np 4 ./a", "write -n N or --np N"),
            ("-n -1 ./a", "not a number of processes"),
            ("-n many ./a", "not a number"),
            ("--timeout 0 ./a", "no time"),
            ("--timeout -1 ./a", "timeout"),
            ("--vnodes 0 ./a", "from 1 to 256"),
            ("--vnodes 257 ./a", "from 1 to 256"),
            ("--native yes ./a", "open-mpi-4"),
            ("--no-such-option ./a", "--no-such-option"),
            ("./a : --json ./b", "--json"),
        ] {
            let error = plan(line).unwrap_err();
            assert!(error.contains(hint), "{line}: {error}");
        }
    }

    #[test]
    fn help_names_exit_codes_and_separator() {
        let help = plan("--help").unwrap_err();
        assert!(help.contains("124") && help.contains(" : ") && help.contains("--grace"), "{help}");
        assert!(help.contains("--vnodes") && help.contains("JSM_JSRUN_PORT"), "{help}");
    }
}
