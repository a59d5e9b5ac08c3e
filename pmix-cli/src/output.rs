//! `pmix output`: follows the output of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use pmix_tool::types::{IofChannels, keys};
use pmix_tool::{
    AttachedServer, Error, Nspace, OutputChunk, OutputError, OutputFormat, OutputStream, ProcId, Tool,
};
use rustix::process::geteuid;
use tokio::time::timeout;

use super::completions;
use super::printer::{Item, Printer};
use super::selection::{Selection, finalize};
use super::target::Target;
use super::{Console, Trouble, message};

/// Follows the output of running jobs or processes until they end
///
/// Writes standard output to standard output and standard error to standard error, in whole lines. Earlier output is not
/// shown. The output also goes where it went before, unless --redirect is given. On a terminal, control characters of other users'
/// processes are escaped, unless --raw is given. By default it searches for the jobs at all
/// live servers of this user on this node; all jobs must be at the same server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when all of them have ended, or their server has stopped; 1 if a job or process is not running, if its \
                  output is not available, or if the connection to the server was lost; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Jobs, by namespace, or single processes
    #[arg(value_name = "NAMESPACE[:RANK]", required = true, add = completions::jobs())]
    targets: Vec<Target>,

    /// Keep the output from where it normally goes, until this command ends
    #[arg(long)]
    redirect: bool,

    /// Show standard output only
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,

    /// Show standard error only
    #[arg(long)]
    stderr: bool,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Format", group = ArgGroup::new("files").args(["to_file", "to_directory"]).multiple(true))]
struct Format {
    /// Prefix each line with namespace, rank and channel
    #[arg(long)]
    tag: bool,

    /// Prefix each line with rank and channel
    #[arg(long)]
    rank: bool,

    /// Prefix each line with the time
    #[arg(long)]
    timestamp: bool,

    /// Write each line as an XML element
    #[arg(long)]
    xml: bool,

    /// Write output as it arrives, not in whole lines, and unchanged, whoever it belongs to
    #[arg(long, conflicts_with_all = ["tag", "rank", "timestamp", "xml"])]
    raw: bool,

    /// Write standard error to standard output
    #[arg(long)]
    merge: bool,

    /// Also write to NAME.NAMESPACE.RANK.out and .err
    #[arg(long, value_name = "NAME")]
    to_file: Option<PathBuf>,

    /// Treat NAME as a pattern with %n for the namespace and %r for the rank
    #[arg(long, requires = "to_file")]
    pattern: bool,

    /// Also write to DIR/NAMESPACE/rank.RANK/stdout and stderr
    #[arg(long, value_name = "DIR")]
    to_directory: Option<PathBuf>,

    /// Write to files only
    #[arg(long, requires = "files")]
    file_only: bool,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let channels = match (args.stdout, args.stderr) {
        (true, _) => IofChannels::STDOUT,
        (_, true) => IofChannels::STDERR,
        _ => IofChannels::STDOUT | IofChannels::STDERR,
    };
    let procs: BTreeSet<ProcId> = args.targets.into_iter().map(|Target(proc)| proc).collect();
    let mut jobs: Vec<Nspace> = procs.iter().map(|proc| proc.nspace.clone()).collect();
    jobs.dedup();
    let job_servers = args.selection.find(&jobs, console).await?;
    if !job_servers.is_complete {
        return Ok(ExitCode::FAILURE);
    }
    let mut servers = job_servers.servers.into_iter();
    let (Some((tool, _)), None) = (servers.next(), servers.next()) else {
        let problem = "these jobs are at different servers; run one command for each server";
        return Err(Trouble::Other(problem.into()));
    };
    let mut follower = Follower::start(&tool, procs, channels, args.redirect).await?;
    let is_plain = args.format.raw
        || args.selection.trusts_nobody_else() && are_own(&tool, follower.open.keys()).await?;
    let printer = start_printer(is_plain, args.format.into())?;
    let outcome = print(&mut follower, &tool, &printer).await;
    printer.finish().await?;
    outcome?;
    drop(follower);
    finalize(tool).await;
    Ok(ExitCode::SUCCESS)
}

/// Writes output, `is_plain` or with what controls a terminal escaped.
pub(super) fn start_printer(is_plain: bool, format: OutputFormat) -> io::Result<Printer> {
    if is_plain { Printer::start(format, false) } else { Printer::of_another(format) }
}

/// Whether all of these processes are this user's. Of a server that does not say it, an ordinary user sees no others; root takes them for
/// others'.
pub(super) async fn are_own(tool: &Tool, procs: impl Iterator<Item = &ProcId>) -> Result<bool, Error> {
    let jobs: BTreeSet<_> = procs.map(|proc| proc.nspace.clone()).collect();
    let own = geteuid();
    for job in jobs {
        let asked = tool.client().get(ProcId::wildcard(job), keys::USERID).immediate();
        match asked.await {
            Ok(owner) if owner.as_raw() == own.as_raw() => {}
            Err(error) if !own.is_root() && !error.is_lost_connection() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Prints all output, unless nothing can be written.
async fn print(follower: &mut Follower, tool: &Tool, printer: &Printer) -> Result<(), Trouble> {
    while let Some(next) = follower.next(tool).await? {
        if !printer.print(item(next)?).await {
            break;
        }
    }
    Ok(())
}

/// What is to be written of output, or where it is missing.
pub(super) fn item(next: Result<OutputChunk, OutputError>) -> Result<Item, Trouble> {
    match next {
        Ok(chunk) => Ok(Item::Chunk(chunk)),
        Err(OutputError::Lagged { bytes }) => Ok(Item::Note(missing(bytes))),
        Err(error) => Err(Trouble::Other(error.to_string())),
    }
}

/// The message where output was lost.
fn missing(bytes: u64) -> String {
    format!("{bytes} bytes of output are missing here: this command could not keep up")
}

/// The output of processes until all of them have ended.
pub(super) struct Follower {
    output: OutputStream,
    /// What has not ended.
    open: BTreeMap<ProcId, IofChannels>,
    silence: Silence,
    server: AttachedServer,
}

impl Follower {
    /// Asks for the output: a copy of it, unless it is to be redirected.
    pub(super) async fn start(
        tool: &Tool,
        procs: BTreeSet<ProcId>,
        channels: IofChannels,
        redirect: bool,
    ) -> Result<Self, Error> {
        let request = tool.pull_output(procs.clone()).channels(channels);
        let request = if redirect { request } else { request.copy() };
        let output = request.await?;
        let server = tool.server()?;
        let silence = Silence { may_hide_ends: server.is_of_openpmix(), ended: Vec::new() };
        Ok(Self { output, open: procs.into_iter().map(|proc| (proc, channels)).collect(), silence, server })
    }

    /// What comes next; `None` when all have ended. Cancel-safe.
    pub(super) async fn next(
        &mut self,
        tool: &Tool,
    ) -> Result<Option<Result<OutputChunk, OutputError>>, Error> {
        while !self.open.is_empty() {
            let Some(next) = self.silence.recv(&mut self.output).await else {
                self.silence.look(tool, &mut self.open).await?;
                continue;
            };
            match next {
                Some(Ok(chunk)) => {
                    close(&mut self.open, &chunk);
                    return Ok(Some(Ok(chunk)));
                }
                // its jobs have ended
                Some(Err(OutputError::Stopped)) => {}
                Some(Err(OutputError::Disconnected)) if has_left(&self.server) => {}
                Some(Err(error)) => return Ok(Some(Err(error))),
                None => break,
            }
        }
        Ok(None)
    }
}

/// What a server does not say: one of OpenPMIx does not tell that output has ended, so that silence needs a look at its jobs.
struct Silence {
    may_hide_ends: bool,
    /// Jobs that had ended at the last look.
    ended: Vec<Nspace>,
}

/// How long a server may be silent before a look.
const SILENCE: Duration = Duration::from_secs(1);

impl Silence {
    /// What the stream brings; `None` after a silence that means something.
    async fn recv(&self, output: &mut OutputStream) -> Option<Option<Result<OutputChunk, OutputError>>> {
        if !self.may_hide_ends {
            return Some(output.recv().await);
        }
        // what came before the answer about the jobs is here already
        let limit = if self.ended.is_empty() { SILENCE } else { Duration::ZERO };
        timeout(limit, output.recv()).await.ok()
    }

    /// Closes what jobs had open that have ended and of which no output is left, or looks which have ended.
    async fn look(&mut self, tool: &Tool, open: &mut BTreeMap<ProcId, IofChannels>) -> Result<(), Error> {
        if !self.ended.is_empty() {
            open.retain(|proc, _| !self.ended.contains(&proc.nspace));
            self.ended.clear();
            return Ok(());
        }
        let running = match tool.namespaces().await {
            Ok(running) => running,
            Err(error) if error.is_not_found() => Vec::new(),
            // the stream says it as well
            Err(error) if error.is_lost_connection() => return Ok(()),
            Err(error) => return Err(error),
        };
        let jobs = open.keys().map(|proc| proc.nspace.clone());
        self.ended = jobs.filter(|job| !running.contains(job)).collect();
        Ok(())
    }
}

/// Whether a server of OpenPMIx has stopped in good order, as `mpirun` does with its job: it has removed its files.
fn has_left(server: &AttachedServer) -> bool {
    let info = server.info().filter(|_| server.is_of_openpmix());
    info.is_some_and(|info| {
        let host = info.host.as_deref().unwrap_or_default();
        !info.dir.join(format!("pmix.{host}.tool.{}", info.pid)).exists()
    })
}

/// Notes the end of a channel or of a namespace.
fn close(open: &mut BTreeMap<ProcId, IofChannels>, chunk: &OutputChunk) {
    if !chunk.is_complete {
        return;
    }
    let is_closed = |proc: &ProcId| {
        if chunk.source.rank.is_wildcard() { chunk.source.matches(proc) } else { *proc == chunk.source }
    };
    open.retain(|proc, channels| {
        if is_closed(proc) {
            *channels -= chunk.channels;
        }
        !channels.is_empty()
    });
}

/// Writes to standard error directly, beside what a thread writes.
pub(super) fn complain(problem: &str) {
    let _ = writeln!(io::stderr(), "{}", message(problem));
}

impl From<Format> for OutputFormat {
    fn from(args: Format) -> Self {
        let mut format = Self::default()
            .tag(args.tag)
            .rank(args.rank)
            .timestamp(args.timestamp)
            .xml(args.xml)
            .raw(args.raw)
            .merge(args.merge)
            .pattern(args.pattern)
            .file_only(args.file_only);
        if let Some(name) = args.to_file {
            format = format.file(name);
        }
        if let Some(directory) = args.to_directory {
            format = format.directory(directory);
        }
        format
    }
}
