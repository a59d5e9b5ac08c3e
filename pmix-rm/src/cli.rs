//! The command line of `pmixrun`: from arguments to a [`Plan`].

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser};
use pmix_types::App;

/// What `pmixrun` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) apps: Vec<App>,
    pub(crate) tag_output: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) json: bool,
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

    /// Time in seconds that ranks have to end after one of them failed, or after a signal
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "5", value_parser = parse_seconds)]
    grace: Duration,

    /// Print a report on the job, one JSON object, as the last line of standard output
    #[arg(long)]
    json: bool,

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

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of each application")]
struct AppArgs {
    /// Number of processes to start
    #[arg(short = 'n', long = "np", value_name = "N", default_value = "1", value_parser = parse_count)]
    count: u16,

    /// Set a variable, or pass on one of pmixrun's own that ranks do not inherit (PMIX_*, OMPI_*, PRTE_*)
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
    let FirstApp { tag_output, timeout, grace, json, app } = FirstApp::try_parse_from(first)?;
    let mut apps = vec![app.into_app()?];
    for segment in segments {
        apps.push(FurtherApp::try_parse_from(segment)?.app.into_app()?);
    }
    Ok(Plan { apps, tag_output, timeout, grace, json })
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
        let plan = plan("--timeout 1.5 --grace 0 ./a").unwrap();
        assert_eq!((plan.timeout, plan.grace), (Some(Duration::from_millis(1500)), Duration::ZERO));
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
            ("-n many ./a", "not a number"),
            ("--timeout 0 ./a", "no time"),
            ("--timeout -1 ./a", "timeout"),
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
    }
}
