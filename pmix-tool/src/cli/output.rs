//! `pmix output`: what processes write, as they write it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use pmix_tool::types::{IofChannels, Rank};
use pmix_tool::{Nspace, OutputChunk, OutputError, OutputFormat, OutputWriter, ProcId};

use super::selection::{Selection, bye};
use super::{Console, Trouble};

/// Follows the output of running jobs or processes until they end
///
/// Standard output goes to standard output, standard error to standard error, in whole lines. What was written before
/// is not shown. Where the output goes otherwise it still goes, unless --redirect is given. Without a server selected it
/// looks for the jobs at all live ones of this user on this node; all have to be at the same.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when all of them have ended, or their server has stopped; 1 if there is no such job or process, if its output cannot \
                  be had, or if the server was lost; 2 if the command line is wrong."
)]
pub(super) struct Args {
    /// Jobs, by their namespaces, or single processes of them
    #[arg(value_name = "NAMESPACE[:RANK]", required = true)]
    targets: Vec<Target>,

    /// Take the output away from where it goes otherwise, until this command ends
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
#[command(next_help_heading = "Format")]
struct Format {
    /// Begin each line with namespace, rank and channel
    #[arg(long)]
    tag: bool,

    /// Begin each line with rank and channel
    #[arg(long)]
    rank: bool,

    /// Begin each line with the time
    #[arg(long)]
    timestamp: bool,

    /// Make each line an XML element
    #[arg(long)]
    xml: bool,

    /// Show pieces as they come, not whole lines
    #[arg(long, conflicts_with_all = ["tag", "rank", "timestamp", "xml"])]
    raw: bool,

    /// Show standard error where standard output goes
    #[arg(long)]
    merge: bool,

    /// Write to NAME.NAMESPACE.RANK.out and .err, too
    #[arg(long, value_name = "NAME")]
    to_file: Option<PathBuf>,

    /// Take NAME for a pattern with %n for the namespace and %r for the rank
    #[arg(long, requires = "to_file")]
    pattern: bool,

    /// Write to DIR/NAMESPACE/rank.RANK/stdout and stderr, too
    #[arg(long, value_name = "DIR")]
    to_directory: Option<PathBuf>,

    /// Write to files only
    #[arg(long)]
    file_only: bool,
}

/// A job, or a process of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target(ProcId);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name: &str| Nspace::new(name).map_err(|error| error.to_string());
        match text.rsplit_once(':').map(|(name, rank)| (name, rank.parse::<u32>())) {
            Some((name, Ok(rank))) => {
                let rank = Rank::new(rank).map_err(|error| error.to_string())?;
                Ok(Self(ProcId::new(named(name)?, rank)))
            }
            _ => Ok(Self(ProcId::wildcard(named(text)?))),
        }
    }
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
    let found = args.selection.find(&jobs, console).await?;
    if !found.is_complete {
        return Ok(ExitCode::FAILURE);
    }
    let mut servers = found.servers.into_iter();
    let (Some((tool, _)), None) = (servers.next(), servers.next()) else {
        let problem = "these jobs are at several servers: follow those of each with a command of its own";
        return Err(Trouble::Other(problem.into()));
    };
    let request = tool.pull_output(procs.clone()).channels(channels);
    let request = if args.redirect { request } else { request.copy() };
    let mut output = tool.within_limit("pull output", request).await?;
    let mut open: BTreeMap<ProcId, IofChannels> = procs.into_iter().map(|proc| (proc, channels)).collect();
    let mut writer = OutputWriter::new(args.format.into(), &mut *console.out, &mut *console.err);
    let mut trouble = None;
    while !open.is_empty() {
        match output.recv().await {
            Some(Ok(chunk)) => {
                writer.write(&chunk)?;
                close(&mut open, &chunk);
            }
            Some(Err(OutputError::Lagged { bytes })) => {
                // where it is missing, as far as lines let it be said
                complain(&format!("{bytes} bytes of output are missing here: they came too fast"));
            }
            // its jobs have ended before
            Some(Err(OutputError::Stopped)) => {}
            Some(Err(error)) => trouble = Some(error),
            None => break,
        }
    }
    writer.finish()?;
    match trouble {
        Some(error) => Err(Trouble::Other(error.to_string())),
        None => {
            drop(output);
            bye(tool).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Notes that nothing more comes from a channel, or from a namespace.
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

/// The writer has the console.
fn complain(problem: &str) {
    let _ = writeln!(io::stderr(), "pmix: {problem}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_job_or_a_process() {
        let read =
            |text: &str| text.parse::<Target>().map(|Target(proc)| (proc.nspace.to_string(), proc.rank));
        assert_eq!(read("job.1"), Ok(("job.1".into(), Rank::WILDCARD)));
        assert_eq!(read("job.1:7"), Ok(("job.1".into(), Rank::from_raw(7))));
        assert_eq!(read("a:b"), Ok(("a:b".into(), Rank::WILDCARD)));
        assert!(read("").is_err() && read(":1").is_err() && read("a:4294967295").is_err());
    }
}
