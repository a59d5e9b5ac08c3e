//! `pmix stack`: where the ranks of a job are.

mod answer;
mod backend;
mod find;
mod frame;
mod image;
mod link_map;
mod parse;
mod registers;
mod report;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use std::process::ExitCode;
use std::thread::available_parallelism;

use futures::StreamExt;
use futures::stream;
use pmix_tool::types::RankSet;
use pmix_tool::{Error, Nspace, ProcInfo, Status, Tool};

use self::backend::{Backends, Looked, With};
use self::find::NoStack;
use self::report::{JobReport, RankReport, Report};
use super::selection::{Selection, absent, finalize};
use super::{Console, Trouble};

/// Processes that are looked at at once.
const MAX_AT_ONCE: usize = 16;

/// Shows in which functions the ranks of running jobs are, and names those that are elsewhere than most
///
/// The first sentence names them; below it, the stacks of all ranks are merged into one tree from main on. RANKS are those that
/// are in a function, and their number. Ranks of other hosts are named, and not looked at. Libraries without debug
/// information have functions but no lines.
///
/// Each thread is stopped for less than a millisecond, while its registers and its stack are copied; eu-stack (of elfutils)
/// or gdb reads the copy. py-spy does not stop a process. Ranks that were stopped stay stopped.
///
/// The JSON report is one object: {"jobs": [{"nspace", "answer", "places": [{"function", "source", "caller", "caller_source",
/// "ranks", "count", "stopped"}], "tree": [{"function", "sources", "ranks", "count", "threads", "children"}], "procs":
/// [{"rank", "hostname", "pid", "outcome", "message", "is_stopped", "stopped_us", "by"}]}]}. The first place is the one of
/// most ranks. Ranks are texts such as "0-2,4-15", sources such as "late.c:14". The outcome is stack, elsewhere, not_running,
/// gone, not_permitted or failed; stopped_us is how long a thread was stopped to be copied, in microseconds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if all ranks that run on this host were looked at; 1 if one could not be, if a job is not running, \
                  or if no server could be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Only these jobs
    #[arg(value_name = "NSPACE")]
    jobs: Vec<Nspace>,

    /// Only these ranks, such as 0-3,7
    #[arg(long, value_name = "RANGES")]
    ranks: Option<RankSet>,

    /// All threads, not only the main one of each process
    #[arg(long)]
    threads: bool,

    /// The program that finds the functions
    #[arg(long, value_name = "PROGRAM", value_enum, default_value_t)]
    with: With,

    /// Print one JSON object instead of the tree
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let backends = Backends::find(args.with, args.threads).map_err(Trouble::Other)?;
    let mut report = Report::default();
    let mut is_complete = true;
    for (nspace, procs) in tables(&args, console, &mut is_complete).await? {
        report.jobs.push(look(&backends, nspace, procs, args.ranks.as_ref()).await);
    }
    is_complete &= report.is_complete();
    if args.json {
        console.json(&report)?;
    } else {
        report.write(console)?;
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The process tables of the jobs named, or of all jobs.
async fn tables(
    args: &Args,
    console: &mut Console<'_>,
    is_complete: &mut bool,
) -> Result<Vec<(Nspace, Vec<ProcInfo>)>, Trouble> {
    let mut servers = Vec::new();
    if args.jobs.is_empty() {
        for builder in args.selection.candidates()? {
            match all_jobs(builder.connect().await).await {
                Ok(server) => servers.push(server),
                Err(error) => {
                    console.complain(&error.to_string());
                    *is_complete = false;
                }
            }
        }
    } else {
        let found = args.selection.find(&args.jobs, console).await?;
        *is_complete = found.is_complete;
        servers = found.servers;
    }
    let mut tables = Vec::new();
    for (tool, jobs) in servers {
        for job in jobs {
            match tool.proc_table(&job).await {
                Ok(procs) => tables.push((job, procs)),
                Err(error) if error.is_not_found() || error.status() == Status::ERR_INVALID_NAMESPACE => {
                    // it has ended in the meantime, and is missed only if it was asked for
                    if args.jobs.contains(&job) {
                        console.complain(&absent(&job));
                        *is_complete = false;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        finalize(tool).await;
    }
    Ok(tables)
}

async fn all_jobs(tool: Result<Tool, Error>) -> Result<(Tool, Vec<Nspace>), Error> {
    let tool = tool?;
    let jobs = tool.namespaces().await?;
    Ok((tool, jobs))
}

/// Looks at the ranks of a job, some at a time.
async fn look(backends: &Backends, nspace: Nspace, procs: Vec<ProcInfo>, ranks: Option<&RankSet>) -> JobReport {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let at_once = available_parallelism().map_or(1, usize::from).min(MAX_AT_ONCE);
    let named = |info: &ProcInfo| ranks.is_none_or(|ranks| ranks.contains(info.proc.rank));
    let missing = ranks.map(|ranks| ranks - &procs.iter().map(|info| info.proc.rank).collect());
    let looks = procs.into_iter().filter(named).map(|info| {
        let host = host.clone();
        async move {
            let (is_stopped, result) = look_at(backends, &info, &host).await;
            (info, is_stopped, result)
        }
    });
    let mut looked: Vec<_> = stream::iter(looks).buffer_unordered(at_once).collect().await;
    looked.sort_by_key(|(info, ..)| info.proc.rank);
    let procs = looked.into_iter().map(|(info, is_stopped, result)| RankReport::new(info, is_stopped, result));
    JobReport::new(nspace, procs.collect(), missing.unwrap_or_default())
}

/// Whether a rank is stopped by a signal, and its stack.
async fn look_at(backends: &Backends, info: &ProcInfo, host: &str) -> (bool, Result<Looked, NoStack>) {
    let pid = match find::find(info, host) {
        Ok(pid) => pid,
        Err(error) => return (false, Err(error)),
    };
    let is_stopped = find::is_stopped(pid);
    (is_stopped, backends.look(pid).await)
}
