//! The command line of `pmixrun`: parses arguments into a [`Plan`].

mod appfile;
mod debug;
mod dvm;
mod etcd;
mod head;
mod man;
mod options;
mod output;
mod setup;
mod spelling;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches};
use pmix_program::variable;
use pmix_types::{App, Directives, Uid};

pub(crate) use debug::{CommandLine, DebugArgs};
pub(crate) use dvm::DvmPlace;
pub(crate) use etcd::EtcdPlace;
pub(crate) use head::{HeadPlan, Pmixd, pmixd};
pub(crate) use man::{MAN, pmixd_command, pmixrun_command, print as print_page};
pub(crate) use options::Stdin;
use options::{AppArgs, EndArgs, FirstApp, FurtherApp, Habit, Setting, Streams, is_separator};
use output::Directive;
pub(crate) use output::{Format, Layout};
pub(crate) use setup::Setup;
use spelling::Typed;

/// A parsed command line.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) apps: Vec<App>,
    /// Format and files of the output.
    pub(crate) format: Format,
    pub(crate) stdin: Stdin,
    /// Whether to print the map of ranks first.
    pub(crate) shows_map: bool,
    /// Destination for the process id of `pmixrun`.
    pub(crate) report_pid: Option<OsString>,
    pub(crate) talk: Talk,
    /// Warnings about options without effect.
    pub(crate) warnings: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    /// Time from the failure of a process to the request to the others to end.
    pub(crate) reaction: Duration,
    /// Directory for what the servers have on record when the job fails, as the option names it.
    pub(crate) record: Option<PathBuf>,
    pub(crate) json: bool,
    /// The DVM that it runs in, if it is to have none of its own.
    pub(crate) dvm: Option<DvmPlace>,
    /// Whose DVM is trusted, besides one of root or of this user.
    pub(crate) trust_uid: Option<Uid>,
    /// What it runs on.
    pub(crate) setup: Setup,
    /// Whether ranks wait in init until they are released.
    pub(crate) stop_in_init: bool,
    /// What looks at the job from its beginning.
    pub(crate) debug: DebugArgs,
    /// Directives for the places and bindings of ranks.
    pub(crate) binding: Directives,
}

/// How verbose a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Only errors that keep it from its task.
    Little,
    #[default]
    Usual,
    /// Everything it does.
    Much,
}

impl Talk {
    const fn of(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Little,
            (_, true) => Self::Much,
            _ => Self::Usual,
        }
    }

    /// What is logged.
    pub(crate) const fn log(self) -> &'static str {
        match self {
            Self::Little => "error",
            Self::Usual => "warn",
            Self::Much => "warn,pmix_rm=debug,pmix_launch=debug,pmix_server=debug",
        }
    }
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

/// Parses a command line, starting with the name of the command.
///
/// # Errors
/// The problem with the command line; also the texts of `--help` and `--version`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Plan, clap::Error> {
    parse_in(args, |name| std::env::var(name).ok())
}

/// The same with the variables that name an allocation.
fn parse_in(
    args: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Plan, clap::Error> {
    let args: Vec<OsString> = args.into_iter().skip(1).collect();
    let mut segments = args.split(is_separator);
    let whole = FirstApp::command();
    let (first, typed) = read::<FirstApp>(whole.clone(), segments.next().unwrap_or_default())?;
    let wrong = |kind, problem: String| whole.clone().error(kind, problem);
    let FirstApp { app, streams, end, setting, habit } = first;

    let mut apps = Vec::new();
    let mut warnings = habit.warnings();
    warnings.extend(app.warnings());
    match &setting.app {
        None => {
            apps.push(app.into_app(&typed)?);
            for segment in segments {
                apps.push(further(segment, &mut warnings)?);
            }
        }
        Some(file) => {
            let option = typed.spelling("app").unwrap_or("--app");
            if let Some(count) = typed.spelling("count") {
                let problem = format!("'{count}' belongs in the file given by '{option}'");
                return Err(wrong(ErrorKind::ArgumentConflict, problem));
            }
            if !app.program.is_empty() || segments.next().is_some() {
                let problem =
                    format!("a program cannot be given with '{option}', whose file lists all programs");
                return Err(wrong(ErrorKind::ArgumentConflict, problem));
            }
            let lines = appfile::read(file)
                .map_err(|problem| wrong(ErrorKind::ValueValidation, format!("'{option}': {problem}")))?;
            let common = app.environment(&typed)?;
            for (number, words) in lines {
                let mut line =
                    further(&words, &mut warnings).map_err(|error| at_line(error, file, number))?;
                line.env.splice(0..0, common.iter().cloned());
                line.cwd = line.cwd.or_else(|| app.wdir.clone());
                apps.push(line);
            }
        }
    }
    let EndArgs { timeout, reaction, times, record } = end;
    let policy = setting.policy().map_err(|bad| wrong(ErrorKind::ArgumentConflict, bad.to_string()))?;
    let binding = setting.binding();
    let Setting { app: app_file, dvm, trust_uid, nodes, serving, stop_in_init, debug, .. } = setting;
    let setup = match dvm {
        Some(_) => Setup::in_dvm(nodes, serving, times, &typed),
        None => Setup::new(nodes, serving, times, &typed, variable),
    };
    let setup = setup.map_err(|(kind, problem)| wrong(kind, problem))?;
    if let [app] = &mut *apps
        && app_file.is_none()
        && typed.spelling("count").is_none()
    {
        let procs = setup.procs(&policy, dvm.is_some());
        let procs = procs.map_err(|problem| wrong(ErrorKind::MissingRequiredArgument, problem))?;
        app.max_procs = procs.map_or(app.max_procs, |procs| i32::try_from(procs).unwrap_or(i32::MAX));
    }
    if dvm.is_none() {
        let procs = apps.iter().map(|app| u64::try_from(app.max_procs).unwrap_or_default());
        setup.check_room(procs, &policy).map_err(|problem| wrong(ErrorKind::ValueValidation, problem))?;
    }
    if setup.hosts.is_some() || dvm.is_some() {
        // daemons start elsewhere
        for app in &mut apps {
            let named = app.cwd.take().unwrap_or_else(|| ".".into());
            let whole = std::path::absolute(&named).map(PathBuf::into_os_string);
            app.cwd = Some(whole.unwrap_or(named));
        }
    }
    let format = streams.format().map_err(|problem| wrong(ErrorKind::ArgumentConflict, problem))?;
    let Streams { mut stdin, display, json, report_pid, quiet, verbose, .. } = streams;
    if debug.debug.is_some() {
        if let Some(given) = typed.spelling("stdin").filter(|_| stdin != Stdin::None) {
            let problem = format!("'{given}': the debugger of '--debug' has the standard input");
            return Err(wrong(ErrorKind::ArgumentConflict, problem));
        }
        stdin = Stdin::None;
    }
    let plan = Plan {
        apps,
        format,
        stdin,
        shows_map: display.is_some() || habit.display_map,
        report_pid,
        talk: Talk::of(quiet, verbose),
        warnings,
        timeout,
        reaction,
        record,
        json,
        dvm,
        trust_uid,
        setup,
        stop_in_init: stop_in_init || debug.is_any(),
        debug,
        binding,
    };
    if let Stdin::Rank(rank) = plan.stdin
        && usize::try_from(rank.to_raw()).is_ok_and(|rank| rank >= plan.ranks())
    {
        let option = typed.spelling("stdin").unwrap_or("--stdin");
        let problem = format!("'{option} {rank}': no such rank: the job has {}", plan.ranks());
        return Err(wrong(ErrorKind::ValueValidation, problem));
    }
    Ok(plan)
}

/// An application after the first.
fn further(words: &[OsString], warnings: &mut Vec<String>) -> Result<App, clap::Error> {
    let (FurtherApp { app }, typed) = read::<FurtherApp>(FurtherApp::command(), words)?;
    warnings.extend(app.warnings());
    app.into_app(&typed)
}

/// Parses the words of one application.
fn read<T: FromArgMatches>(command: Command, words: &[OsString]) -> Result<(T, Typed), clap::Error> {
    read_as(FirstApp::command(), command, words)
}

/// Parses words of a command line, of which `command` has all options that may stand there, and `whole` all that may stand anywhere.
fn read_as<T: FromArgMatches>(
    mut whole: Command,
    mut command: Command,
    words: &[OsString],
) -> Result<(T, Typed), clap::Error> {
    whole.build();
    let typed = Typed::read(&mut command, &whole, words)?;
    let matches = command.try_get_matches_from_mut(&typed.args);
    let read = matches.and_then(|matches| T::from_arg_matches(&matches));
    Ok((read.map_err(|error| typed.rename(error, &command))?, typed))
}

/// The error of a line of a file.
fn at_line(error: clap::Error, file: &std::path::Path, line: usize) -> clap::Error {
    let text = error.to_string();
    let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    // also for --help and --version, which make no sense there
    FirstApp::command()
        .error(ErrorKind::ValueValidation, format!("{}, line {line}: {problem}", file.display()))
}

impl AppArgs {
    fn into_app(mut self, typed: &Typed) -> Result<App, clap::Error> {
        let env = self.environment(typed)?;
        let mut program = std::mem::take(&mut self.program).into_iter();
        let Some(name) = program.next() else {
            let problem = "no PROGRAM given";
            return Err(FirstApp::command().error(ErrorKind::MissingRequiredArgument, problem));
        };
        let mut app = App::new(name, u32::from(self.count)).args(program);
        app.cwd = self.wdir;
        app.env = env;
        Ok(app)
    }

    /// Variables for an application. Those set by name come last and override the others.
    fn environment(&self, typed: &Typed) -> Result<Vec<OsString>, clap::Error> {
        let parameters = [("OMPI_MCA_", &self.mca), ("PMIX_MCA_", &self.pmixmca)];
        let keys =
            parameters.iter().flat_map(|(_, pairs)| pairs.chunks_exact(2)).flat_map(|pair| pair.first());
        if let Some(key) = keys.into_iter().find(|key| key.is_empty() || key.as_bytes().contains(&b'=')) {
            let problem = format!("'{}' is not a valid parameter name: write KEY VALUE", key.display());
            return Err(FirstApp::command().error(ErrorKind::ValueValidation, problem));
        }
        let entry = |prefix, pair: &[OsString]| {
            [OsStr::new(prefix), &pair.join(OsStr::new("="))].join(OsStr::new(""))
        };
        let mut env: Vec<OsString> = parameters
            .into_iter()
            .flat_map(|(prefix, pairs)| pairs.chunks_exact(2).map(move |pair| entry(prefix, pair)))
            .collect();
        let option = typed.spelling("env").unwrap_or("--env");
        for entry in &self.env {
            let variable = variable(entry).map_err(|reason| {
                let problem = format!("'{option} {}': {reason}", entry.display());
                FirstApp::command().error(ErrorKind::ValueValidation, problem)
            })?;
            env.extend(variable);
        }
        Ok(env)
    }
}

/// Prefixes of parameters that only Open MPI's launcher reads.
const OF_LAUNCHER: [&str; 17] = [
    "errmgr", "ess", "filem", "grpcomm", "iof", "odls", "oob", "orte", "plm", "prte", "ras", "rmaps", "rml",
    "routed", "rtc", "schizo", "state",
];

impl AppArgs {
    /// Warnings about parameters that are meant for a launcher, but reach only the ranks, and about variables that are not set.
    fn warnings(&self) -> Vec<String> {
        let is_of_launcher =
            |key: &OsStr| OF_LAUNCHER.contains(&key.to_string_lossy().split('_').next().unwrap_or_default());
        let pairs =
            self.mca.chunks_exact(2).filter(|pair| pair.first().is_some_and(|key| is_of_launcher(key)));
        let of_launcher = pairs.map(|pair| pair.join(OsStr::new(" "))).map(|pair| {
            format!(
                "--mca {} has no effect: it is meant for Open MPI's launcher, not for ranks",
                pair.display()
            )
        });
        let unset = self.env.iter().filter(|entry| variable(entry) == Ok(None)).map(|name| name.display());
        let unset = unset.map(|name| format!("-x {name} has no effect: {name} is not set here"));
        of_launcher.chain(unset).collect()
    }
}

impl Streams {
    fn format(&self) -> Result<Format, String> {
        let mut format = Format {
            tag: self.tag_output,
            timestamp: self.timestamp_output,
            merge: self.merge_stderr_to_stdout,
            ..Format::default()
        };
        let said = self.output.iter().chain(&self.output_filename).cloned();
        said.into_iter().try_for_each(|directive: Directive| format.add(directive))?;
        Ok(format)
    }
}

impl Habit {
    /// Warnings about options without effect.
    fn warnings(&self) -> Vec<String> {
        let pairs = self.prtemca.chunks_exact(2).map(|pair| pair.join(" "));
        pairs.map(|pair| format!("--prtemca {pair} has no effect: pmixrun does not use PRRTE")).collect()
    }
}

#[cfg(test)]
mod tests;
