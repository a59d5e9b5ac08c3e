//! `pmix events`: follows events, and notifies them.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use clap::ValueEnum;
use pmix_tool::types::{DataArray, DataRange, Directives, Info, ProcId, escaped};
use pmix_tool::{Event, EventError, OutputFormat, Status, keys};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::printer::{Item, Printer};
use super::qualifier::parse_qualifier;
use super::selection::{Selection, finalize};
use super::target::Target;
use super::{Console, Trouble, json_line};

/// Follows the events of a server, one line for each, or notifies one
///
/// A line has the name of the event, its source (- for the server's host), and what is told about it. It ends when the server does, and with --timeout
/// after that time. If events arrive faster than this command can print them, some are lost, and a line says how many. It never slows the
/// server down.
///
/// With --json, each line is an object: {"schema", "code", "number", "source": {"nspace", "rank"} or null, "range", "info": [{"key", "value"}, ...]}, or
/// {"schema", "missed": COUNT} where events were lost.
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Only these events, by name or number; all events if none is given
    #[arg(value_name = "STATUS")]
    codes: Vec<Status>,

    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only events of this job or process; may be given several times
    #[arg(long, value_name = "NAMESPACE[:RANK]")]
    source: Vec<Target>,

    /// Only events about this job or process; with --inject, which processes it is about
    #[arg(long, value_name = "NAMESPACE[:RANK]")]
    about: Vec<Target>,

    /// Only events of this range; with --inject, its range: rm, local, session (the default) or global
    #[arg(long, value_enum)]
    range: Option<Range>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    inject: Inject,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Notify")]
struct Inject {
    /// Notify this event, by name or number, instead of following any; numbers above 0 are free for programs
    #[arg(long, value_name = "STATUS", conflicts_with_all = ["codes", "count", "source", "json"])]
    inject: Option<Status>,

    /// Deliver it to this job or process only; may be given several times
    #[arg(long, value_name = "NAMESPACE[:RANK]", requires = "inject", conflicts_with = "range")]
    to: Vec<Target>,

    /// Add this info to the event; the value of a key that is not in the Standard is a string
    #[arg(long, value_name = "KEY[=VALUE]", requires = "inject", value_parser = parse_qualifier)]
    info: Vec<Info>,

    /// Deliver it only to those who have registered for its code
    #[arg(long, requires = "inject")]
    non_default: bool,

    /// Do not keep it for those who register later
    #[arg(long, requires = "inject")]
    do_not_cache: bool,
}

/// Whom an event reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Range {
    /// The host of the server only
    Rm,
    /// Processes on the node of the source
    Local,
    /// Processes of the source's namespace
    Namespace,
    /// Processes of the same session
    Session,
    /// All processes
    Global,
    /// Processes that are listed
    Custom,
    /// The source itself
    Proc,
}

impl From<Range> for DataRange {
    fn from(range: Range) -> Self {
        match range {
            Range::Rm => Self::RM,
            Range::Local => Self::LOCAL,
            Range::Namespace => Self::NAMESPACE,
            Range::Session => Self::SESSION,
            Range::Global => Self::GLOBAL,
            Range::Custom => Self::CUSTOM,
            Range::Proc => Self::PROC_LOCAL,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  pmix events
  pmix events EVENT_JOB_END ERR_PROC_TERM_WO_SYNC --json
  pmix events -25 --count 1 --timeout 60
  pmix events --about job-1
  pmix events --inject 4711 --to job-1 --info EVENT_TEXT_MESSAGE='save now'

Exit code: 0 after --count events, without --count when --timeout has passed, or when the server has taken the event of --inject; 1 if fewer events \
came in that time, if the connection to the server is lost, if it could not be queried, or refuses; 2 for an invalid command line.";

/// A line of the JSON report.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum EventLine<'a> {
    Event { code: Status, number: i32, source: Option<&'a ProcId>, range: DataRange, info: &'a Directives },
    Missed { missed: u64 },
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    if let Some(code) = args.inject.inject {
        return notify(code, args, console).await;
    }
    let end = args.selection.chosen_limit().map(|limit| Instant::now() + limit);
    let tool = args.selection.connect().await?;
    let request = tool.client().events(args.codes);
    // the server leaves out the others
    let request = match procs(args.source) {
        Some(sources) => request
            .directive(keys::RANGE, DataRange::CUSTOM)
            .directive(keys::EVENT_CUSTOM_RANGE, DataArray::Proc(sources)),
        None => request,
    };
    let request = match procs(args.about) {
        Some(about) => request.directive(keys::EVENT_AFFECTED_PROCS, DataArray::Proc(about)),
        None => request,
    };
    let range = args.range.map(DataRange::from);
    let mut events = request.await?;
    let printer = Printer::start(OutputFormat::default(), false)?;
    let mut left = args.count;
    let mut outcome = Ok(());
    while left != Some(0) {
        let next = match end {
            Some(end) => timeout_at(end, events.recv()).await,
            None => Ok(events.recv().await),
        };
        let line = match next {
            Ok(Some(Ok(event))) if range.is_some_and(|range| range != event.range) => continue,
            Ok(Some(Ok(event))) => {
                left = left.map(|left| left - 1);
                line_of(&event, args.json)?
            }
            Ok(Some(Err(EventError::Lagged { missed }))) if args.json => {
                json_line(&EventLine::Missed { missed })?
            }
            Ok(Some(Err(lagged @ EventError::Lagged { .. }))) => format!("# {lagged}"),
            Ok(Some(Err(error))) => {
                outcome = Err(error);
                break;
            }
            Ok(None) => {
                outcome = Err(EventError::Disconnected);
                break;
            }
            Err(_) => break,
        };
        if !printer.print(Item::Text((line + "\n").into())).await {
            break;
        }
    }
    printer.finish().await?;
    outcome.map_err(|error| Trouble::Other(error.to_string()))?;
    drop(events);
    finalize(tool).await;
    Ok(if left.is_none_or(|left| left == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Those that are named, if any are.
fn procs(targets: Vec<Target>) -> Option<Vec<ProcId>> {
    let procs: Vec<_> = targets.into_iter().map(|Target(proc)| proc).collect();
    (!procs.is_empty()).then_some(procs)
}

async fn notify(code: Status, args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let range = args.range.unwrap_or(Range::Session);
    if matches!(range, Range::Namespace | Range::Custom | Range::Proc) {
        console.complain("this command has a namespace of its own: choose --range rm, local, session or global, or name receivers by --to");
        return Ok(ExitCode::from(2));
    }
    let tool = args.selection.connect().await?;
    let Inject { to, info, non_default, do_not_cache, .. } = args.inject;
    let mut request = tool.client().notify(code).infos(info.into());
    request = match procs(to) {
        Some(to) => request.custom_range(to),
        None => request.range(range.into()),
    };
    if let Some(about) = procs(args.about) {
        request = request.affected_procs(about);
    }
    if non_default {
        request = request.non_default();
    }
    if do_not_cache {
        request = request.do_not_cache();
    }
    request.await?;
    finalize(tool).await;
    Ok(ExitCode::SUCCESS)
}

fn line_of(event: &Event, json: bool) -> io::Result<String> {
    let source = Some(&event.source).filter(|source| source.is_valid());
    if json {
        let number = event.code.into();
        return json_line(&EventLine::Event {
            code: event.code,
            number,
            source,
            range: event.range,
            info: &event.info,
        });
    }
    let mut line = event.code.to_string();
    // a text takes what is written to it
    let _ = match source {
        Some(source) => write!(line, " {source}"),
        None => write!(line, " -"),
    };
    for info in event.info.as_slice() {
        let _ = write!(line, " {}={}", info.key, info.value);
    }
    Ok(escaped(&line).to_string())
}
