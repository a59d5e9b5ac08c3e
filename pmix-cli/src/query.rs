//! `pmix query`: any key that a server or its host can answer.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{DataType, Info, KeyDef, KeyName, Value, keys};
use pmix_tool::{Query, Status};
use serde::Serialize;

use super::qualifier::{parse_key, parse_qualifier};
use super::render::{write_table, write_value};
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Queries a server for the values of keys
///
/// By default it queries the only live server of this user on this node.
///
/// The JSON report is one object: {"schema", "server", "status", "results": {KEY: VALUE, ...}, "missing": [KEY, ...]}.
/// Numbers, strings and arrays are those of JSON; a process is {"nspace", "rank"}, an info {"key", "value"},
/// bytes are {"bytes": HEX}.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A key such as pmix.qry.ns, or its constant such as QUERY_NAMESPACES
    #[arg(value_name = "KEY", value_parser = parse_key, required_unless_present = "list")]
    keys: Vec<KeyName>,

    /// Restrict the query, as by pmix.nspace=job-1 or PROCID=job-1:0; may be repeated
    #[arg(short, long = "qualifier", value_name = "KEY=VALUE", value_parser = parse_qualifier)]
    qualifiers: Vec<Info>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// List the Standard's query keys, or all keys that match PATTERN in name, constant or meaning
    #[arg(
        long,
        value_name = "PATTERN",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["keys", "qualifiers", "json"]
    )]
    list: Option<String>,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
Examples:
  pmix query QUERY_NAMESPACES
  pmix query pmix.qry.ptable --qualifier pmix.nspace=job-1 --json
  pmix query --list rank

Exit code: 0 if at least one key was found, with missing keys on standard error; 1 if none was found or no server could \
be queried; 2 for an invalid command line.";

#[derive(Debug, Serialize)]
struct Report {
    /// Namespace of the server.
    server: String,
    status: Status,
    results: BTreeMap<KeyName, Value>,
    missing: Vec<KeyName>,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    if let Some(pattern) = &args.list {
        return list(pattern, console);
    }
    let report = request(&args).await?;
    if args.json {
        console.json(&report)?;
    } else {
        for (key, value) in &report.results {
            write_value(console.out, key, value, console.width)?;
        }
    }
    if !report.missing.is_empty() {
        let missing: Vec<_> = report.missing.iter().map(KeyName::as_str).collect();
        console.complain(&format!("not found: {}", missing.join(", ")));
    }
    Ok(if report.results.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn request(args: &Args) -> Result<Report, Trouble> {
    let tool = args.selection.connect().await?;
    let mut query = Query::dynamic(args.keys.iter().cloned());
    query.qualifiers.extend(args.qualifiers.iter().cloned());
    let answer = tool.query([query]).await;
    let server = tool.server()?.proc_id().nspace.to_string();
    let report = match answer {
        Ok(answer) => {
            let found = answer.results().iter().flat_map(|result| &result.infos);
            let results = found.map(|info| (info.key.clone(), info.value.clone())).collect();
            Report { server, status: answer.status(), results, missing: answer.missing().to_vec() }
        }
        Err(error) if [Status::ERR_NOT_FOUND, Status::ERR_NOT_SUPPORTED].contains(&error.status()) => {
            Report { server, status: error.status(), results: BTreeMap::new(), missing: args.keys.clone() }
        }
        Err(error) => return Err(error.into()),
    };
    finalize(tool).await;
    Ok(report)
}

fn list(pattern: &str, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let matching: Vec<_> = keys::all().iter().copied().filter(|key| matches(key, pattern)).collect();
    if matching.is_empty() {
        return Err(Trouble::Other(format!("no key of the Standard matches {pattern:?}")));
    }
    if console.width.is_some() {
        // rows of a table would not fit a terminal
        for key in matching {
            writeln!(console.out, "{}  {}  {}\n    {}", key.name, key.constant, type_name(key), key.doc)?;
        }
    } else {
        let row = |key: &KeyDef| {
            vec![key.name.to_owned(), key.constant.to_owned(), type_name(key), key.doc.to_owned()]
        };
        let rows = matching.into_iter().map(row).collect();
        write_table(console.out, &["KEY", "CONSTANT", "TYPE", "MEANING"], rows, &[], None)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn matches(key: &KeyDef, pattern: &str) -> bool {
    if pattern.is_empty() {
        return key.constant.starts_with("QUERY_");
    }
    let pattern = pattern.to_lowercase();
    [key.name, key.constant, key.doc].iter().any(|text| text.to_lowercase().contains(&pattern))
}

fn type_name(key: &KeyDef) -> String {
    key.data_type.map_or_else(|| "any".into(), |data_type: DataType| data_type.to_string())
}
