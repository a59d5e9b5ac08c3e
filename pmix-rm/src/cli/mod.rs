//! The command line of `pmixrun`: from arguments to a [`Plan`].

mod appfile;
mod options;
mod output;
mod spelling;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches};
use pmix_server::NativeWire;
use pmix_types::App;

pub(crate) use options::Stdin;
use options::{AppArgs, End, FirstApp, FurtherApp, Habit, Setting, Streams, is_separator};
use output::Directive;
pub(crate) use output::{Format, Layout};
use spelling::Typed;

/// What `pmixrun` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) apps: Vec<App>,
    /// How output is shown and kept.
    pub(crate) format: Format,
    pub(crate) stdin: Stdin,
    /// Whether to show first where the ranks run.
    pub(crate) shows_map: bool,
    /// Where to write the process id of `pmixrun`.
    pub(crate) report_pid: Option<String>,
    pub(crate) talk: Talk,
    /// What was asked for and cannot be had.
    pub(crate) warnings: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    /// Between the failure of a process and the request to the others to end.
    pub(crate) reaction: Duration,
    /// Between a request to end and force.
    pub(crate) grace: Duration,
    pub(crate) json: bool,
    /// Number of simulated nodes; `None` is the node itself.
    pub(crate) vnodes: Option<u16>,
    pub(crate) native: NativeWire,
    /// Where data is kept that is published for good.
    pub(crate) store: Option<PathBuf>,
    /// Whether ranks wait in init until they are released.
    pub(crate) stop_in_init: bool,
}

/// How much `pmixrun` says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Only what keeps it from doing what it was asked to.
    Little,
    #[default]
    Usual,
    /// All it does.
    Much,
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

/// Reads a command line, the name of the command first.
///
/// # Errors
/// What is wrong with it; also the texts of `--help` and `--version`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Plan, clap::Error> {
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
                let problem = format!("'{count}' belongs on the lines of the file that '{option}' names");
                return Err(wrong(ErrorKind::ArgumentConflict, problem));
            }
            if !app.program.is_empty() || segments.next().is_some() {
                let problem =
                    format!("a program cannot stand beside '{option}', whose file names all of them");
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
    let format = streams.format().map_err(|problem| wrong(ErrorKind::ArgumentConflict, problem))?;
    let Streams { stdin, display, json, report_pid, quiet, verbose, .. } = streams;
    let End { timeout, reaction, grace } = end;
    let Setting { app: _, vnodes, native, store, stop_in_init } = setting;
    let plan = Plan {
        apps,
        format,
        stdin,
        shows_map: display.is_some() || habit.display_map,
        report_pid,
        talk: match (quiet, verbose) {
            (true, _) => Talk::Little,
            (_, true) => Talk::Much,
            _ => Talk::Usual,
        },
        warnings,
        timeout,
        reaction,
        grace,
        json,
        vnodes,
        native: native.into(),
        store,
        stop_in_init,
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

/// Reads the words of one application.
fn read<T: FromArgMatches>(mut command: Command, words: &[OsString]) -> Result<(T, Typed), clap::Error> {
    let mut whole = FirstApp::command();
    whole.build();
    let typed = Typed::read(&mut command, &whole, words)?;
    let matches = command.try_get_matches_from_mut(&typed.args);
    let read = matches.and_then(|matches| T::from_arg_matches(&matches));
    Ok((read.map_err(|error| typed.rename(error, &command))?, typed))
}

/// An error of a line in a file.
fn at_line(error: clap::Error, file: &std::path::Path, line: usize) -> clap::Error {
    let text = error.to_string();
    let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    // also where the line asks for help or the version, which says nothing of the job
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

    /// Variables that are set for an application; what is set by name comes last and wins.
    fn environment(&self, typed: &Typed) -> Result<Vec<String>, clap::Error> {
        let parameters = [("OMPI_MCA_", &self.mca), ("PMIX_MCA_", &self.pmixmca)];
        let keys =
            parameters.iter().flat_map(|(_, pairs)| pairs.chunks_exact(2)).flat_map(|pair| pair.first());
        if let Some(key) = keys.into_iter().find(|key| key.is_empty() || key.contains('=')) {
            let problem = format!("'{key}' is not a valid parameter name: write KEY VALUE");
            return Err(FirstApp::command().error(ErrorKind::ValueValidation, problem));
        }
        let mut env: Vec<String> = parameters
            .into_iter()
            .flat_map(|(prefix, pairs)| {
                pairs.chunks_exact(2).map(move |pair| format!("{prefix}{}", pair.join("=")))
            })
            .collect();
        let option = typed.spelling("env").unwrap_or("--env");
        for entry in &self.env {
            let variable = variable(entry).map_err(|reason| {
                let problem = format!("'{option} {entry}': {reason}");
                FirstApp::command().error(ErrorKind::ValueValidation, problem)
            })?;
            env.push(variable);
        }
        Ok(env)
    }
}

/// What the names of those parameters of Open MPI begin with that its launcher reads, and no rank.
const OF_LAUNCHER: [&str; 17] = [
    "errmgr", "ess", "filem", "grpcomm", "iof", "odls", "oob", "orte", "plm", "prte", "ras", "rmaps", "rml",
    "routed", "rtc", "schizo", "state",
];

impl AppArgs {
    /// Parameters that reach only ranks, although they are meant for a launcher.
    fn warnings(&self) -> Vec<String> {
        let is_of_launcher = |key: &str| OF_LAUNCHER.contains(&key.split('_').next().unwrap_or_default());
        let pairs =
            self.mca.chunks_exact(2).filter(|pair| pair.first().is_some_and(|key| is_of_launcher(key)));
        pairs
            .map(|pair| pair.join(" "))
            .map(|pair| {
                format!("--mca {pair} has no effect: it is for the launcher of Open MPI, not for its ranks")
            })
            .collect()
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
    /// What has no effect although it may be meant to have one.
    fn warnings(&self) -> Vec<String> {
        let pairs = self.prtemca.chunks_exact(2).map(|pair| pair.join(" "));
        pairs.map(|pair| format!("--prtemca {pair} has no effect: there is no PRRTE here")).collect()
    }
}

/// `NAME=VALUE` as it is, `NAME` with the value it has here.
fn variable(entry: &str) -> Result<String, String> {
    match entry.split_once('=') {
        Some(("", _)) => Err("a variable needs a name".into()),
        Some(_) => Ok(entry.to_owned()),
        None => match std::env::var(entry) {
            Ok(value) => Ok(format!("{entry}={value}")),
            Err(error) => Err(format!("{error}; write {entry}=VALUE to give it one")),
        },
    }
}

#[cfg(test)]
mod tests;
