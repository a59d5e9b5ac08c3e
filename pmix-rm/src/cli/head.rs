//! The command line of `pmixd`: of the daemon of a node, and of the head of a DVM.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::etcd::{EtcdArgs, EtcdPlace};
use super::options::{NodeArgs, Serving, Times};
use super::setup::Setup;
use super::{Talk, read_as};
use pmix_launch::JobSession;

/// What `pmixd` is to be.
#[derive(Debug)]
pub(crate) enum Pmixd {
    /// The daemon of a node: the variable with its name, and the file with its start line.
    Daemon {
        node_from: Option<String>,
        join: Option<PathBuf>,
    },
    Head(Box<HeadPlan>),
}

/// A parsed command line of `pmixd --head`.
#[derive(Debug)]
pub(crate) struct HeadPlan {
    pub(crate) setup: Setup,
    pub(crate) etcd: Option<EtcdPlace>,
    /// Directory for what the servers have on record when a job fails.
    pub(crate) record: Option<PathBuf>,
    /// Destination for the address of the server.
    pub(crate) report_uri: Option<OsString>,
    /// Destination for the process id.
    pub(crate) report_pid: Option<OsString>,
    pub(crate) talk: Talk,
}

/// The daemon of a node. It is started by pmixrun or by the head of a DVM, not by hand; `pmixd --head` is such a head.
///
/// It reads one line, from standard input or from the file of --join, which says where its head is and how to prove its
/// own identity to it.
#[derive(Debug, Parser)]
#[command(
    name = "pmixd",
    version,
    after_help = "`pmixd --head --help` lists the options of the head of a DVM; `pmixd --man` prints the manual page."
)]
pub(super) struct DaemonArgs {
    /// Name of the environment variable that holds the name of this node, such as SLURMD_NODENAME; needed if the start
    /// line is for several nodes, because it then names none
    #[arg(long, value_name = "VARIABLE")]
    node_from: Option<String>,

    /// A file of `pmixrun --await-daemons` with the start line, which only its owner may read
    #[arg(long, value_name = "FILE")]
    join: Option<PathBuf>,
}

/// Keeps servers running on this node, or on several, for jobs of `pmix submit` and `pmixrun --dvm` that come and go: a
/// distributed virtual machine (DVM)
///
/// Jobs run side by side. They end when the head ends, on SIGTERM, SIGINT, or `pmix dvm stop`. With --etcd they go on if the head is killed
/// or cut off, under the next one.
#[derive(Debug, Parser)]
#[command(name = "pmixd --head", version, after_help = AFTER_HELP)]
pub(super) struct Head {
    #[command(flatten)]
    nodes: NodeArgs,

    #[command(flatten)]
    serving: Serving,

    #[command(flatten)]
    etcd: EtcdArgs,

    /// Serve all users of the machines, if root starts it: jobs run as the user who submits them, and each sees and controls only
    /// their own. Otherwise only the user of the head and root are served
    #[arg(long)]
    multi_user: bool,

    #[command(flatten)]
    times: Times,

    /// Write the flight record of each server to a file in this directory when a job fails. Otherwise the last 8 are in
    /// the session directory while the head runs
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Write the address of the server to standard output (-), standard error (+) or a file as soon as jobs can be submitted. A file
    /// that did not exist before appears with its whole content, and is removed at the end
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    report_uri: Option<OsString>,

    /// Write the process id to standard output (-), standard error (+) or a file. A file that did not exist before is
    /// removed at the end
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    report_pid: Option<OsString>,

    /// Print errors alone
    #[arg(short, long)]
    quiet: bool,

    /// Log what the head does to standard error
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

const AFTER_HELP: &str = "\
When the head is ready, it says so on standard error, and to systemd (Type=notify). When a node is lost, the jobs that run there \
are ended; other jobs go on, and that node gets no further jobs.

Exit code: 0 if it was told to end; 1 if it could not start, or cannot go on; 2 for an invalid command line.

RUST_LOG=debug logs what it does to standard error.";

/// Parses the command line of `pmixd`, without the name of the command.
///
/// # Errors
/// The problem with it; also the texts of `--help` and `--version`.
pub(crate) fn pmixd(args: impl IntoIterator<Item = OsString>) -> Result<Pmixd, clap::Error> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.first().is_some_and(|first| first == "--head") {
        args.remove(0);
        return head(&args, |name| std::env::var(name).ok()).map(|plan| Pmixd::Head(Box::new(plan)));
    }
    args.insert(0, "pmixd".into());
    DaemonArgs::try_parse_from(args).map(|DaemonArgs { node_from, join }| Pmixd::Daemon { node_from, join })
}

fn head(args: &[OsString], variable: impl Fn(&str) -> Option<String>) -> Result<HeadPlan, clap::Error> {
    let (given, typed) = read_as::<Head>(Head::command(), Head::command(), args)?;
    let Head { nodes, serving, etcd, multi_user, times, record, report_uri, report_pid, quiet, verbose } =
        given;
    let setup = Setup::new(nodes, serving, times, &typed, variable)
        .map_err(|(kind, problem)| Head::command().error(kind, problem))?;
    let setup = Setup { multi_user, session: JobSession::Own, ..setup };
    if let Some(traces) = setup.traces.as_ref().filter(|_| multi_user) {
        let checked = traces.check_for_all_users();
        checked.map_err(|problem| Head::command().error(ErrorKind::ValueValidation, problem))?;
    }
    let etcd = etcd.place().map_err(|problem| Head::command().error(ErrorKind::ValueValidation, problem))?;
    Ok(HeadPlan { setup, etcd, record, report_uri, report_pid, talk: Talk::of(quiet, verbose) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The plan for a command line outside of any allocation.
    fn plan(line: &str) -> Result<HeadPlan, String> {
        let args: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        head(&args, |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn the_commands_are_well_formed() {
        Head::command().debug_assert();
        DaemonArgs::command().debug_assert();
    }

    #[cfg(feature = "otel")]
    #[test]
    fn a_head_for_several_users_refuses_an_address_with_credentials_for_traces() {
        let line = "--trace-to http://user:secret@collector:4317";
        assert!(plan(line).unwrap().setup.traces.is_some());
        let problem = plan(&format!("--multi-user {line}")).unwrap_err();
        assert!(problem.contains("--trace-to: ") && !problem.contains("secret"), "{problem}");
        assert!(plan("--multi-user --trace-to http://collector:4317").unwrap().setup.traces.is_some());
    }

    #[test]
    fn a_head_is_set_up_like_a_run() {
        let given = plan("-host n1:4,n2 --tree-degree 2 --grace 1.5 --report-uri - -q").unwrap();
        assert_eq!(given.setup.hosts.unwrap().slots(), 5);
        assert_eq!((given.setup.start.tree_degree, given.setup.grace), (2, Duration::from_millis(1500)));
        assert_eq!((given.report_uri, given.talk), (Some("-".into()), Talk::Little));
        assert_eq!(plan("--vnodes 3").unwrap().setup.vnodes, Some(3));
        assert!(plan("--multi-user").unwrap().setup.multi_user && !plan("").unwrap().setup.multi_user);
        for (line, words) in [
            ("--host n1 --vnodes 2", "cannot be used with"),
            ("--interface eth0", "has no meaning without '--host'"),
            ("./a", "unexpected argument './a'"),
            ("-n 3", "-n"),
        ] {
            let problem = plan(line).unwrap_err();
            assert!(problem.contains(words), "{line}: {problem}");
        }
    }

    #[test]
    fn without_that_word_it_is_a_daemon() {
        let daemon = |args: &[&str]| pmixd(args.iter().map(OsString::from));
        let head = daemon(&["--head", "--vnodes", "3"]);
        assert!(matches!(head, Ok(Pmixd::Head(plan)) if plan.setup.vnodes == Some(3)));
        assert!(
            matches!(daemon(&["--join", "f"]), Ok(Pmixd::Daemon { join: Some(file), .. }) if file == *"f")
        );
        assert!(daemon(&["--join", "f", "--head"]).is_err());
    }
}
