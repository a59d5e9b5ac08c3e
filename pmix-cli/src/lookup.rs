//! `pmix lookup`: data that processes or `pmix publish` have published.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{KeyName, ProcId, Status, Value};
use serde::Serialize;

use super::published::PublishRange;
use super::render::write_value;
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Looks up published data by its keys
///
/// The JSON report is one object: {"schema", "server", "results": {KEY: {"value", "publisher": {"nspace", "rank"}}, ...}, "missing": [KEY, ...]}.
/// Values are those of `pmix query --json`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if all keys were found; 1 if one is missing (those found are printed), if it was not published in time, \
                  if the server keeps no data, or if it could not be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// The keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<KeyName>,

    /// Whose data is looked for
    #[arg(long, value_enum, default_value_t = PublishRange::Session)]
    range: PublishRange,

    /// Wait until all keys are published, no longer than --timeout
    #[arg(long)]
    wait: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Namespace of the server.
    server: String,
    results: BTreeMap<KeyName, PublishedValue>,
    missing: Vec<KeyName>,
}

#[derive(Debug, Serialize)]
struct PublishedValue {
    value: Value,
    publisher: ProcId,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let tool = args.selection.connect().await?;
    let request = tool.client().lookup(args.keys.iter().cloned()).range(args.range.into());
    let request = if args.wait { request.wait_all() } else { request };
    let server = tool.server()?.proc_id().nspace.to_string();
    let (results, missing) = match request.await {
        Ok(published) => {
            let found = published.found().iter().map(|data| {
                (data.key.clone(), PublishedValue { value: data.value.clone(), publisher: data.proc.clone() })
            });
            (found.collect(), published.missing().to_vec())
        }
        Err(error) if error.status() == Status::ERR_NOT_FOUND => (BTreeMap::new(), args.keys),
        Err(error) if args.wait && error.status() == Status::ERR_TIMEOUT => {
            let keys: Vec<_> = args.keys.iter().map(KeyName::as_str).collect();
            let problem = format!("not all published in time (--timeout): {}", keys.join(", "));
            return Err(Trouble::Other(problem));
        }
        Err(error) => return Err(error.into()),
    };
    finalize(tool).await;
    let report = Report { server, results, missing };
    if args.json {
        console.json(&report)?;
    } else {
        for (key, PublishedValue { value, .. }) in &report.results {
            write_value(console.out, key, value, console.width)?;
        }
    }
    if report.missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let missing: Vec<_> = report.missing.iter().map(KeyName::as_str).collect();
    console.complain(&format!("not published: {}", missing.join(", ")));
    Ok(ExitCode::FAILURE)
}
