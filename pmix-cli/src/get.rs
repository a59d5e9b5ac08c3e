//! `pmix get`: values of a job or of one of its processes.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{KeyName, ProcId, Value, keys};
use pmix_tool::{Error, Nspace, Tool};
use serde::Serialize;

use super::qualifier::parse_key;
use super::render::write_value;
use super::selection::{Selection, finalize};
use super::target::Target;
use super::{Console, Trouble, completions};

/// Gets values of a running job, or of one of its processes
///
/// Without keys it gets all that is known: the values of the job or the process that the Standard defines, and what the process has put.
/// By default it searches for the job at all live servers of this user on this node.
///
/// The JSON report is one object: {"schema", "server", "proc": {"nspace", "rank"}, "results": {KEY: VALUE, ...}, "missing": [KEY, ...]}. The rank of a job is
/// "WILDCARD". Values are those of `pmix query --json`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A job, by namespace, or a process
    #[arg(value_name = "NAMESPACE[:RANK]", add = completions::jobs())]
    target: Target,

    /// A key such as pmix.job.size, its constant such as JOB_SIZE, or one of the program's own
    #[arg(value_name = "KEY", value_parser = parse_key)]
    keys: Vec<KeyName>,

    /// Wait until the process, on any node, has committed the keys, at most --timeout for each key
    #[arg(long, requires = "keys")]
    wait: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
Examples:
  pmix get job-1 JOB_SIZE
  pmix get job-1:0 HOSTNAME my.port --json

Exit code: 0 if all keys were found; 1 if one is missing (those found are printed), if the job is not running or has no such process, if a \
value was not put in time, or if no server could be queried; 2 for an invalid command line.";

#[derive(Debug, Serialize)]
struct Report {
    /// Namespace of the server.
    server: Nspace,
    proc: ProcId,
    results: BTreeMap<KeyName, Value>,
    missing: Vec<KeyName>,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let Target(proc) = args.target;
    let found = args.selection.find(std::slice::from_ref(&proc.nspace), console).await?;
    let Some((tool, _)) = found.servers.into_iter().next() else { return Ok(ExitCode::FAILURE) };
    // whether there is such a process, and what the job has
    let size = tool.client().get(ProcId::wildcard(proc.nspace.clone()), &keys::JOB_SIZE).immediate();
    let size: u32 = size.await?;
    if !proc.rank.is_wildcard() && proc.rank.to_raw() >= size {
        return Err(Trouble::Other(format!(
            "job {} has no rank {}: its size is {size}",
            proc.nspace, proc.rank
        )));
    }
    let mut report = Report {
        server: tool.server()?.proc_id().nspace.clone(),
        results: BTreeMap::new(),
        missing: Vec::new(),
        proc,
    };
    if args.keys.is_empty() {
        report.results = all(&tool, &report.proc).await?;
    }
    for key in args.keys {
        let request = tool.client().get::<Value>(&report.proc, key.clone());
        let request = if args.wait { request } else { request.immediate() };
        match request.await {
            Ok(value) => drop(report.results.insert(key, value)),
            Err(error) if error.is_not_found() => report.missing.push(key),
            Err(error) if args.wait && error.is_timeout() => {
                return Err(Trouble::Other(format!(
                    "{} has not put {key} in time (--timeout)",
                    named(&report.proc)
                )));
            }
            Err(error) => return Err(error.into()),
        }
    }
    finalize(tool).await;
    if args.json {
        console.json(&report)?;
    } else {
        for (key, value) in &report.results {
            write_value(console.out, key, value, console.width)?;
        }
    }
    if report.missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let missing: Vec<_> = report.missing.iter().map(KeyName::as_str).collect();
    console.complain(&format!("{} has no value for: {}", named(&report.proc), missing.join(", ")));
    Ok(ExitCode::FAILURE)
}

/// A job or a process, for people.
fn named(proc: &ProcId) -> String {
    if proc.rank.is_wildcard() { format!("job {}", proc.nspace) } else { proc.to_string() }
}

/// All that is known of a job or a process: the job's values are here since the first get.
async fn all(tool: &Tool, proc: &ProcId) -> Result<BTreeMap<KeyName, Value>, Error> {
    let mut results = BTreeMap::new();
    let client = tool.client();
    // which process this is would be the answer about this command
    for definition in keys::all().iter().filter(|definition| definition.name != keys::PROCID.name()) {
        let Ok(key) = KeyName::new(definition.name) else { continue };
        if let Ok(value) = client.get::<Value>(proc, key.clone()).optional().await {
            results.insert(key, value);
        }
    }
    if !proc.rank.is_wildcard() {
        let put = client.get_all(proc).directive(keys::IMMEDIATE, true);
        match put.await {
            Ok(put) => results.extend(put.into_iter().map(|info| (info.key, info.value))),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(results)
}
