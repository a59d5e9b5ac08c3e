//! `pmix psets`: process sets and their members.

use std::process::ExitCode;

use pmix_tool::types::{DataArray, KeyName, Value};
use pmix_tool::{Error, ProcId, Query, Tool, keys};
use serde::Serialize;

use super::render::{Columns, write_fitted};
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Lists process sets and their members
///
/// By default it asks the only live server of this user on this node.
///
/// The JSON report is one object: {"schema", "psets": [{"name", "members": [{"nspace", "rank"}]}]}.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the table was printed; 1 if a set is not there, or if no server could be asked; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Only these process sets
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Set {
    name: String,
    members: Vec<ProcId>,
}

const COLUMNS: Columns = Columns { titles: &["NAME", "SIZE", "MEMBERS"], numbers: &[1], texts: &[0, 2] };

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    #[derive(Serialize)]
    struct Report {
        psets: Vec<Set>,
    }
    let (sets, missing) = ask(&args.names, &args.selection).await?;
    if args.json {
        console.json(&Report { psets: sets })?;
    } else {
        write(&sets, console)?;
    }
    Ok(verdict(&missing, console))
}

fn verdict(missing: &[String], console: &mut Console<'_>) -> ExitCode {
    for name in missing {
        console.complain(&format!("there is no process set {name}"));
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The sets, all or those that are wanted, and the names of those that are not there.
async fn ask(wanted: &[String], selection: &Selection) -> Result<(Vec<Set>, Vec<String>), Trouble> {
    let tool = selection.connect().await?;
    let all = names(&tool).await?;
    let mut sets = Vec::new();
    for name in all.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        // it may be gone by now
        if let Some(members) = members(&tool, name).await? {
            sets.push(Set { name: name.clone(), members });
        }
    }
    finalize(tool).await;
    let is_there = |name: &&String| !sets.iter().any(|set| set.name == **name);
    let missing = wanted.iter().filter(is_there).cloned().collect();
    Ok((sets, missing))
}

async fn value(tool: &Tool, query: Query, key: &KeyName) -> Result<Option<Value>, Error> {
    match tool.query([query]).await {
        Ok(answer) => Ok(answer.get_value(key).cloned()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The Standard has them as an array, its headers as a list with commas.
async fn names(tool: &Tool) -> Result<Vec<String>, Error> {
    Ok(match value(tool, Query::new(&keys::QUERY_PSET_NAMES), &keys::QUERY_PSET_NAMES.key_name()).await? {
        Some(Value::String(list)) => {
            list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
        Some(Value::DataArray(array)) => array.iter().map(|name| name.to_string()).collect(),
        _ => Vec::new(),
    })
}

async fn members(tool: &Tool, name: &str) -> Result<Option<Vec<ProcId>>, Error> {
    let query = Query::new(&keys::QUERY_PSET_MEMBERSHIP).qualifier(&keys::PSET_NAME, name);
    Ok(match value(tool, query, &keys::QUERY_PSET_MEMBERSHIP.key_name()).await? {
        Some(Value::DataArray(array)) => match *array {
            DataArray::Proc(members) => Some(members),
            _ => Some(Vec::new()),
        },
        _ => None,
    })
}

fn write(sets: &[Set], console: &mut Console<'_>) -> std::io::Result<()> {
    let row = |set: &Set| {
        let members: Vec<_> = set.members.iter().map(ProcId::to_string).collect();
        vec![set.name.clone(), set.members.len().to_string(), members.join(",")]
    };
    write_fitted(console.out, COLUMNS, sets.iter().map(row).collect(), console.width)
}
