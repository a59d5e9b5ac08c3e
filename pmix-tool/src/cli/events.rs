//! `pmix events`: follows events.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use pmix_tool::types::{DataRange, Directives, ProcId, escaped};
use pmix_tool::{Event, EventError, Status};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Follows the events of a server, one line for each
///
/// A line has the name of the event, its source (- for the server's host), and what is told about it. It ends when the server does, and with --timeout
/// after that time. This command may be slower than events come: then some are lost, and a line says how many. It never slows the server.
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

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
Examples:
  pmix events
  pmix events EVENT_JOB_END ERR_PROC_TERM_WO_SYNC --json
  pmix events -25 --count 1 --timeout 60

Exit code: 0 after --count events, or without --count when --timeout has passed; 1 if fewer came in that time, if the connection to the server is \
lost, or if it could not be asked; 2 for an invalid command line.";

/// A line of the JSON report.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Event { code: Status, number: i32, source: Option<&'a ProcId>, range: DataRange, info: &'a Directives },
    Missed { missed: u64 },
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let end = args.selection.chosen_limit().map(|limit| Instant::now() + limit);
    let tool = args.selection.connect().await?;
    let mut events = tool.within_limit("register events", tool.client().events(args.codes)).await?;
    let mut left = args.count;
    while left != Some(0) {
        let next = match end {
            Some(end) => timeout_at(end, events.recv()).await,
            None => Ok(events.recv().await),
        };
        match next {
            Ok(Some(Ok(event))) => {
                write_event(&event, args.json, console)?;
                left = left.map(|left| left - 1);
            }
            Ok(Some(Err(EventError::Lagged { missed }))) if args.json => {
                console.json_line(&Line::Missed { missed })?;
            }
            Ok(Some(Err(lagged @ EventError::Lagged { .. }))) => writeln!(console.out, "# {lagged}")?,
            Ok(Some(Err(error))) => return Err(Trouble::Other(error.to_string())),
            Ok(None) => return Err(Trouble::Other(EventError::Disconnected.to_string())),
            Err(_) => break,
        }
        console.out.flush()?;
    }
    drop(events);
    finalize(tool).await;
    Ok(if left.is_none_or(|left| left == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_event(event: &Event, json: bool, console: &mut Console<'_>) -> io::Result<()> {
    let source = Some(&event.source).filter(|source| source.is_valid());
    if json {
        let number = event.code.into();
        return console.json_line(&Line::Event {
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
    writeln!(console.out, "{}", escaped(&line))
}
