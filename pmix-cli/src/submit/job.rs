//! The job that a command line describes.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use pmix_program::variable;
use pmix_tool::types::App;
use pmix_tool::{Directives, Info, keys};
use pmix_topology::ThisHost;

use super::super::Trouble;
use super::super::output::complain;

fn parse_count(text: &str) -> Result<NonZeroU16, String> {
    text.parse().map_err(|_| format!("write a number of processes from 1 to {}", u16::MAX))
}

fn entry(text: OsString) -> Result<OsString, String> {
    variable(&text).map(|_| text)
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job")]
pub(super) struct JobArgs {
    /// Number of processes; -np is the same
    #[arg(short = 'n', long = "np", value_name = "N", default_value = "1", value_parser = parse_count)]
    count: NonZeroU16,

    /// Run only on these nodes of the server: names separated by commas, each with the number of slots to use there after a colon
    #[arg(short = 'H', long, value_name = "LIST")]
    host: Option<String>,

    /// Working directory on all nodes; that of this command if not given
    #[arg(long, value_name = "DIR")]
    wdir: Option<PathBuf>,

    /// Set an environment variable, or pass on one from the environment of this command
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(entry))]
    env: Vec<OsString>,

    /// Map ranks, as for pmixrun: slot, node, core, numa, package and so on, with modifiers such as :PE=N and :NOOVERSUBSCRIBE
    #[arg(long, value_name = "POLICY")]
    map_by: Option<String>,

    /// Bind ranks, as for pmixrun: none, hwthread, core, numa, package and so on
    #[arg(long, value_name = "POLICY")]
    bind_to: Option<String>,

    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(1..))]
    time_limit: Option<i32>,

    /// Program and its arguments; a program without a slash is looked up in the server's PATH
    #[arg(
        trailing_var_arg = true,
        value_hint = clap::ValueHint::AnyPath,
        value_name = "PROGRAM [ARGS]",
        required_unless_present = "stage",
        conflicts_with = "stage"
    )]
    program: Vec<OsString>,
}

/// A description of jobs that has all but their programs.
#[derive(Clone, Debug)]
pub(super) struct Template {
    count: u32,
    env: Vec<OsString>,
    wdir: OsString,
    directives: Directives,
}

impl JobArgs {
    /// What is the same for all jobs, and the program of a single one.
    pub(super) fn into_template(self) -> Result<(Template, Vec<OsString>), Trouble> {
        let Self { count, host, wdir, env, map_by, bind_to, time_limit, program } = self;
        let wdir = absolute(wdir.as_deref().unwrap_or_else(|| Path::new(".")))?;
        let mut set = Vec::new();
        for entry in env {
            match variable(&entry) {
                Ok(Some(variable)) => set.push(variable),
                _ => {
                    let entry = entry.display();
                    complain(&format!("-x {entry} has no effect: {entry} is not set here"));
                }
            }
        }
        let this = ThisHost::by_hostname();
        let by_name = |word: &str| {
            // name:N, but not an IPv6 address
            let counted =
                word.rsplit_once(':').filter(|(name, _)| !name.contains(':') || name.ends_with(']'));
            let (name, count) = counted.map_or((word, None), |(name, count)| (name, Some(count)));
            let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
            let name = if this.is_by_itself(bare) { this.name() } else { name };
            count.map_or_else(|| name.to_owned(), |count| format!("{name}:{count}"))
        };
        let host =
            host.map(|names| names.split(',').map(str::trim).map(by_name).collect::<Vec<_>>().join(","));
        let mut directives = Directives::new();
        for (key, value) in [(&keys::HOST, host), (&keys::MAPBY, map_by), (&keys::BINDTO, bind_to)] {
            if let Some(value) = value {
                directives.push(Info::required(key, value));
            }
        }
        if let Some(limit) = time_limit {
            directives.push(Info::required(&keys::JOB_TIMEOUT, limit));
        }
        let template = Template { count: u32::from(count.get()), env: set, wdir, directives };
        Ok((template, program))
    }
}

impl Template {
    /// How many processes a job has.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The application of a program and its arguments.
    pub(super) fn app(&self, words: &[OsString]) -> App {
        let (program, args) = match words {
            [program, args @ ..] => (program.as_os_str(), args),
            [] => (OsStr::new(""), &[][..]),
        };
        let mut app = App::new(program, self.count).args(args).cwd(&self.wdir);
        app.env.clone_from(&self.env);
        app
    }

    pub(super) fn directives(&self) -> Directives {
        self.directives.clone()
    }
}

/// The server has another directory.
fn absolute(wdir: &Path) -> Result<OsString, Trouble> {
    let failed = |problem| Trouble::Other(format!("working directory {}: {problem}", wdir.display()));
    // `.` is taken out, `..` and links stay: they are for the node to follow
    std::path::absolute(wdir).map(PathBuf::into_os_string).map_err(failed)
}
