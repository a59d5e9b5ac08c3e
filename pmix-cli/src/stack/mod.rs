//! `pmix stack`: where the ranks of a job are.

mod answer;
mod as_user;
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

pub(super) use self::as_user::{AS, run as as_another_user};
use self::backend::{Backends, With};
use self::report::{JobStacks, RankReport, Report};
use super::selection::{Selection, absent, finalize};
use super::{Console, Trouble, completions};

/// Processes that are looked at at once.
const MAX_AT_ONCE: usize = 16;
/// Copies that are held at once. Each takes some 2 MB.
const MAX_COPIES: usize = 64;

/// Shows which functions the ranks of running jobs are in, and names the ranks that differ from the majority
///
/// The first sentence names them; below it, the stacks of all ranks are merged into one tree from main on. RANKS are
/// the ranks in a function, and their number. Ranks on other hosts are named, but not examined. Libraries without
/// debug information have functions but no lines.
///
/// Each thread is stopped while its registers and its stack are copied, which takes less than a millisecond; eu-stack (of
/// elfutils) or gdb reads the copy. py-spy does not stop a process. Ranks that were stopped stay stopped. For processes of other users,
/// root runs these programs as their user, where kernel.yama.ptrace_scope must be 0 for py-spy.
///
/// The JSON report is one object: {"schema", "jobs": [{"nspace", "answer", "places": [{"function", "source", "caller", "caller_source",
/// "ranks", "count", "stopped"}], "tree": [{"function", "sources", "ranks", "count", "threads", "children"}], "procs":
/// [{"rank", "node", "pid", "outcome", "message", "is_stopped", "stopped_us", "by"}]}]}. The first place is that
/// of most ranks. Ranks are texts such as "0-2,4-15", sources such as "late.c:14". The outcome is stack, elsewhere,
/// not_running, gone, not_permitted or failed; stopped_us is the time for which a thread was stopped to be copied, in
/// microseconds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if all ranks that run on this host were examined; 1 if one could not be, if a job is not running, \
                  or if no server could be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Only these jobs
    #[arg(value_name = "NAMESPACE", add = completions::jobs())]
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
async fn look(
    backends: &Backends,
    nspace: Nspace,
    procs: Vec<ProcInfo>,
    ranks: Option<&RankSet>,
) -> JobStacks {
    let missing = ranks.map(|ranks| ranks - &procs.iter().map(|info| info.proc.rank).collect());
    let named = procs.into_iter().filter(|info| ranks.is_none_or(|ranks| ranks.contains(info.proc.rank)));
    let mut reports = Vec::new();
    for some in named.collect::<Vec<_>>().chunks(MAX_COPIES) {
        reports.extend(look_at(backends, some).await);
    }
    reports.sort_by_key(RankReport::rank);
    JobStacks::new(nspace, reports, missing.unwrap_or_default())
}

/// Copies all processes first, so that the picture is of one moment, and nothing competes with the copying.
async fn look_at(backends: &Backends, procs: &[ProcInfo]) -> Vec<RankReport> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let at_once = available_parallelism().map_or(1, usize::from).min(MAX_AT_ONCE);
    let copies = stream::iter(procs).map(|info| {
        let found = find::find(info, &host);
        async move {
            let is_stopped = found.as_ref().is_ok_and(|pid| find::is_stopped(*pid));
            let copy = match &found {
                Ok(pid) => backends.copy(*pid).await,
                Err(_) => None,
            };
            (info, found, is_stopped, copy)
        }
    });
    let copies: Vec<_> = copies.buffer_unordered(at_once).collect().await;
    let looks = stream::iter(copies).map(|(info, found, is_stopped, copy)| async move {
        let looked = match found {
            Ok(pid) => backends.look(pid, copy).await,
            Err(error) => Err(error),
        };
        RankReport::new(info, is_stopped, looked)
    });
    looks.buffer_unordered(at_once).collect().await
}
