//! `pmix psets` and `pmix groups`: named sets of processes, and their members.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{DataArray, KeyName, Value};
use pmix_tool::{Error, Info, ProcId, Query, Tool, keys};
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
    after_help = "Exit code: 0 if the table was printed; 1 if a set is not there, or if no server could be queried; 2 for an invalid command line."
)]
pub(super) struct PsetArgs {
    /// Only these process sets
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

/// Lists groups and their members
///
/// By default it asks the only live server of this user on this node, which knows the groups that have members on its node; the head knows all groups.
///
/// The JSON report is one object: {"schema", "groups": [{"name", "members": [{"nspace", "rank"}]}]}.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the table was printed; 1 if a group is not there, or if no server could be queried; 2 for an invalid command line."
)]
pub(super) struct GroupArgs {
    /// Only these groups
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

/// What the two differ in.
struct SetKind {
    names: KeyName,
    members: KeyName,
    of: KeyName,
    /// The field of the JSON report.
    field: &'static str,
    word: &'static str,
}

const COLUMNS: Columns = Columns { titles: &["NAME", "SIZE", "MEMBERS"], numbers: &[1], texts: &[0, 2] };

pub(super) async fn psets(args: PsetArgs, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let kind = SetKind {
        names: keys::QUERY_PSET_NAMES.key_name(),
        members: keys::QUERY_PSET_MEMBERSHIP.key_name(),
        of: keys::PSET_NAME.key_name(),
        field: "psets",
        word: "process set",
    };
    list(&kind, &args.names, args.json, &args.selection, console).await
}

pub(super) async fn groups(args: GroupArgs, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let kind = SetKind {
        names: keys::QUERY_GROUP_NAMES.key_name(),
        members: keys::QUERY_GROUP_MEMBERSHIP.key_name(),
        of: keys::GROUP_ID.key_name(),
        field: "groups",
        word: "group",
    };
    list(&kind, &args.names, args.json, &args.selection, console).await
}

async fn list(
    kind: &SetKind,
    wanted: &[String],
    json: bool,
    selection: &Selection,
    console: &mut Console<'_>,
) -> Result<ExitCode, Trouble> {
    let (sets, missing) = ask(kind, wanted, selection).await?;
    match json {
        true => console.json(&BTreeMap::from([(kind.field, sets)]))?,
        false => write(&sets, console)?,
    }
    for name in &missing {
        console.complain(&format!("there is no {} {name}", kind.word));
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The sets, all or those that are wanted, and the names of those that are not there.
async fn ask(
    kind: &SetKind,
    wanted: &[String],
    selection: &Selection,
) -> Result<(Vec<Set>, Vec<String>), Trouble> {
    let tool = selection.connect().await?;
    let all = names(&tool, &kind.names).await?;
    let mut sets = Vec::new();
    for name in all.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        // it may be gone by now
        if let Some(members) = members(&tool, kind, name).await? {
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
async fn names(tool: &Tool, key: &KeyName) -> Result<Vec<String>, Error> {
    Ok(match value(tool, Query::dynamic([key.clone()]), key).await? {
        Some(Value::String(list)) => {
            list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
        Some(Value::DataArray(array)) => array.iter().map(|name| name.to_string()).collect(),
        _ => Vec::new(),
    })
}

async fn members(tool: &Tool, kind: &SetKind, name: &str) -> Result<Option<Vec<ProcId>>, Error> {
    let mut query = Query::dynamic([kind.members.clone()]);
    query.qualifiers.push(Info::dynamic(kind.of.clone(), Value::String(name.to_owned())));
    Ok(match value(tool, query, &kind.members).await? {
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
