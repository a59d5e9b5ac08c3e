//! `pmix doctor`: causes of failing launches on this node, and remedies.

mod clock;
mod environment;
mod files;
mod finding;
mod hosts;
mod limits;
mod network;
mod programs;
mod run;
mod servers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::{join, join_all};

use self::finding::{Finding, Report};
use self::run::bounded;
pub(super) use self::servers::no_server;
use super::{Console, Trouble};

/// No group of checks takes longer, but for servers and ssh, which have limits of their own: a name service or file
/// system that hangs is a finding.
const LIMIT: Duration = Duration::from_secs(5);

type Check = fn() -> Vec<Finding>;

/// Checks this node for causes of failing launches
///
/// Checks the directories and servers of this user, file systems for temporary files and shared memory, limits, host
/// name and loopback, clock, environment variables, and installed programs. Each finding is one line: the problem and
/// the remedy. It changes nothing and, without --ssh, contacts no other node.
///
/// The JSON report is one object: {"schema", "failures", "warnings", "findings": [{"check", "level", "text", "remedy"}]}. Level is
/// ok, note, warning or failure; remedy is null for ok and note.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if nothing failed; 1 if something did, or, with --strict, if there are warnings; 2 for \
                        an invalid command line."
)]
pub(super) struct Args {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,

    /// Also print checks without problems
    #[arg(short, long)]
    verbose: bool,

    /// Exit with 1 for warnings too
    #[arg(long)]
    strict: bool,

    /// Check this host file: lines such as "node1 slots=8" or "node1:8"
    #[arg(long, alias = "hostfile", value_name = "FILE")]
    host_file: Option<PathBuf>,

    /// Log in to each host of the host file with ssh, without a password
    #[arg(long, requires = "host_file")]
    ssh: bool,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let groups: [(_, Check); 6] = [
        ("files", files::check),
        ("limits", limits::check),
        ("network", network::check),
        ("clock", clock::check),
        ("environment", environment::check),
        ("cgroups", programs::cgroups),
    ];
    let groups = join_all(groups.map(|(name, check)| bounded(name, LIMIT, check)));
    let local = join(groups, join(servers::check(LIMIT), programs::check()));
    let hosts = async {
        match args.host_file {
            Some(file) => hosts::check(file, args.ssh).await,
            None => Vec::new(),
        }
    };
    let ((groups, (servers, programs)), hosts) = join(local, hosts).await;
    let findings: Vec<Finding> =
        groups.into_iter().flatten().chain(programs).chain(hosts).chain(servers).collect();
    let report = Report::new(findings);
    if args.json {
        console.json(&report)?;
    } else {
        report.write(console.out, args.verbose, console.width)?;
    }
    Ok(if report.is_well(args.strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
