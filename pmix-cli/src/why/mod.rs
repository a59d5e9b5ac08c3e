//! `pmix why`: what waits, and for whom.

mod page;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use pmix_tool::{AttachedServer, Error, Nspace, Tool, ToolBuilder, Why};
use tokio::time::{Instant, sleep_until};

use super::completions;
use super::selection::{Selection, absent, finalize};
use super::{Console, Trouble, record};
use report::Report;

/// Seconds that a server may take: a command about what hangs must not hang.
const PATIENCE: u32 = 3;
/// Between the two looks of one report: ten of the kernel's ticks.
const BETWEEN: Duration = Duration::from_millis(100);
/// Between two reports.
const PERIOD: Duration = Duration::from_secs(1);
/// Moves the cursor home and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Explains why jobs wait
///
/// Prints a sentence for each incomplete collective, get, lookup, spawn, group and other request, with the missing
/// processes and their activity; then a table of these operations, and one of the missing processes. If nothing waits
/// in PMIx, it prints the activity of each process. By default it queries all live servers of this user on this node
/// about all jobs.
///
/// ARRIVED is the number of participants that have entered, or the processes that sent the request; HOST means that
/// the server waits for its resource manager. STATE is as reported by the kernel: runs, sleeps, blocked (in a device
/// or a file system), stopped (by a signal), traced (stopped by a debugger), ended; a process that has used more than
/// half of a processor runs. PMIX is "no init" before a process has called PMIx_Init. CPU is its share of one
/// processor between two samples, SYSCALL and CHANNEL are where its main thread waits in the kernel. - means unknown
/// or none.
///
/// The JSON report is one object, and one in each line with --watch: {"schema", "servers": [{"nspace", "pid", "uri", "jobs":
/// ["NSPACE"], "interval", "sentences": ["TEXT"], "waits": [{"id", "operation", "about", "node", "waited", "left", "expected",
/// "arrived", "missing", "excused", "fetching", "at_host", "error": {"status", "message"}, "missing_procs": ["PROC"]}], "procs":
/// ["PROC"]}]}. PROC is {"proc": {"nspace", "rank"}, "node", "pid", "state", "pmix", "exit_code", "syscall", "wait_channel",
/// "rss", "cpu_time", "cpu_share", "threads", "tracer"}. Times are in seconds, memory is in bytes; "expected" and the like
/// are objects such as {"job-1": "0-12,14"}; unknown values are null.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if a report was printed, whether or not anything waits; 1 if no server is running or could \
                        be queried, or if one of the given jobs is not running; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Only these jobs
    #[arg(value_name = "NAMESPACE", add = completions::jobs())]
    jobs: Vec<Nspace>,

    /// Report each second, until interrupted or until the jobs have ended
    #[arg(long)]
    watch: bool,

    /// Print JSON instead of sentences and tables
    #[arg(long)]
    json: bool,

    /// Write what the servers have on record, their last requests, replies, calls of the host and connections, to this file
    /// instead of a report; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "watch", "json"])]
    record: Option<PathBuf>,

    #[command(flatten)]
    selection: Selection,
}

/// A server with the last report of it.
#[derive(Debug)]
struct Observed {
    tool: Tool,
    server: AttachedServer,
    last: Why,
    interval: Duration,
}

pub(super) async fn run(mut args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    args.selection = args.selection.with_patience(PATIENCE);
    if let Some(file) = &args.record {
        return record::run(&args.selection, file, console).await;
    }
    let candidates = args.selection.candidates()?;
    let mut observed = Vec::new();
    for attached in join_all(candidates.into_iter().map(|tool| attach(tool, &args.jobs))).await {
        match attached {
            Ok(server) => observed.push(server),
            Err(error) => tell(&error, console),
        }
    }
    sleep_until(Instant::now() + BETWEEN).await;
    look_again(&mut observed, &args.jobs).await.iter().for_each(|error| tell(error, console));
    let has = |job: &&Nspace| observed.iter().any(|server| server.last.jobs.contains(job));
    let missing: Vec<_> = args.jobs.iter().filter(|job| !has(job)).collect();
    if !observed.is_empty() {
        missing.iter().for_each(|job| console.complain(&absent(job)));
    }
    let is_complete = !observed.is_empty() && missing.is_empty();
    args.print(&observed, true, console)?;
    let is_over = |server: &Observed| !args.jobs.is_empty() && server.last.jobs.is_empty();
    let mut due = Instant::now();
    while args.watch && !observed.iter().all(is_over) {
        due = (due + PERIOD).max(Instant::now() + BETWEEN);
        sleep_until(due).await;
        let count = observed.len();
        let errors = look_again(&mut observed, &args.jobs).await;
        if errors.len() < count {
            args.print(&observed, false, console)?;
        }
        // below the page, which begins on a cleared screen
        errors.iter().for_each(|error| tell(error, console));
    }
    join_all(observed.into_iter().map(|server| finalize(server.tool))).await;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn attach(builder: ToolBuilder, jobs: &[Nspace]) -> Result<Observed, Error> {
    let tool = builder.connect().await?;
    let server = tool.server()?;
    let last = tool.why(jobs).await?;
    Ok(Observed { tool, server, last, interval: Duration::ZERO })
}

/// All servers at once, so that one that hangs does not make the others' processor times too long. Returns why some have not
/// answered. Those are asked again, and their last reports stay, unless their connections are lost.
async fn look_again(servers: &mut Vec<Observed>, jobs: &[Nspace]) -> Vec<Error> {
    let looks = servers.iter_mut().map(|server| server.look(jobs));
    let mut outcomes = join_all(looks).await.into_iter();
    let mut errors = Vec::new();
    servers.retain(|_| match outcomes.next() {
        Some(Err(error)) => {
            let stays = !error.is_lost_connection();
            errors.push(error);
            stays
        }
        _ => true,
    });
    errors
}

/// Says why a server has not answered.
fn tell(error: &Error, console: &mut Console<'_>) {
    if error.is_timeout() {
        console.complain(&format!("{error}; pmix doctor says whether it is stopped"));
    } else if !error.is_server_stopped() {
        console.complain(&error.to_string());
    }
    // the jobs of one that has stopped have ended
}

impl Observed {
    async fn look(&mut self, jobs: &[Nspace]) -> Result<(), Error> {
        let now = self.tool.why(jobs).await?;
        self.interval = now.interval(&self.last);
        self.last = now.since(&self.last);
        Ok(())
    }
}

impl Args {
    fn print(&self, observed: &[Observed], is_first: bool, console: &mut Console<'_>) -> io::Result<()> {
        match (self.json, self.watch) {
            (true, true) => console.json_line(&Report::of(observed))?,
            (true, false) => console.json(&Report::of(observed))?,
            (false, watch) => {
                match (watch, console.width) {
                    (true, Some(_)) => write!(console.out, "{CLEAR}")?,
                    (true, None) if !is_first => writeln!(console.out)?,
                    _ => {}
                }
                page::write(observed, !self.jobs.is_empty(), console)?;
            }
        }
        console.out.flush()
    }
}
