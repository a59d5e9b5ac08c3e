//! `pmix info`: what a server is and what it can do.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{KeyName, SessionNode};
use pmix_tool::{Error, Nspace, Query, Tool, keys};
use pmix_types::Uid;
use serde::Serialize;

use super::attrs::functions_of;
use super::render::write_wrapped;
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Shows a server: its version, its wires, its nodes, and what it supports
///
/// By default it asks the only live server of this user on this node. OPERATIONS are the functions of the Standard that the server
/// or its host carries out, QUERIES the keys that `pmix query` can ask it for, SPAWN the attributes of `pmix submit` and of
/// spawn that it honours. `pmix attrs` has the attributes of each function.
///
/// The JSON report is one object: {"schema", "nspace", "pid", "uri", "version", "wire", "node", "uid", "jobs": [NAMESPACE, ...], "nodes": [as in
/// `pmix nodes`], "operations": {FUNCTION: [LEVEL, ...]}, "queries": [KEY, ...], "spawn": [KEY, ...]}. What is unknown is null.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the description was printed; 1 if no server could be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Report {
    nspace: Nspace,
    pid: Option<u32>,
    uri: String,
    version: Option<String>,
    wire: &'static str,
    node: Option<String>,
    uid: Option<Uid>,
    jobs: Vec<Nspace>,
    nodes: Option<Vec<SessionNode>>,
    operations: BTreeMap<String, Vec<&'static str>>,
    queries: Vec<String>,
    spawn: Vec<String>,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let tool = args.selection.connect().await?;
    let report = ask(&tool).await?;
    finalize(tool).await;
    if args.json {
        console.json(&report)?;
    } else {
        report.write(console)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(tool: &Tool) -> Result<Report, Error> {
    let server = tool.server()?;
    let info = server.info();
    let known = unless_unknown(tool.query([Query::attributes(Vec::<&str>::new())]).await)?;
    let operations = known.map(|answer| functions_of(&answer)).unwrap_or_default();
    Ok(Report {
        nspace: server.proc_id().nspace.clone(),
        pid: info.map(|info| info.pid),
        uri: server.uri().to_owned(),
        version: info.and_then(|info| info.version.clone()),
        wire: if server.is_of_openpmix() { "native" } else { "grpc" },
        node: info.and_then(|info| info.host.clone()),
        uid: info.map(|info| info.uid),
        jobs: unless_unknown(tool.namespaces().await)?.unwrap_or_default(),
        nodes: unless_unknown(tool.nodes().await)?,
        operations,
        queries: list(tool, keys::QUERY_SUPPORTED_KEYS.key_name()).await?,
        spawn: list(tool, keys::QUERY_SPAWN_SUPPORT.key_name()).await?,
    })
}

/// Servers of other families may not know all of this.
fn unless_unknown<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() || error.is_not_supported() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The value of a key that is a list of names.
async fn list(tool: &Tool, key: KeyName) -> Result<Vec<String>, Error> {
    let answer = unless_unknown(tool.query([Query::dynamic([key.clone()])]).await)?;
    let text =
        answer.and_then(|answer| answer.get_value(&key)?.as_str().map(str::to_owned)).unwrap_or_default();
    Ok(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

impl Report {
    fn write(&self, console: &mut Console<'_>) -> std::io::Result<()> {
        let plain = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let names = |names: Vec<String>| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
        let nodes = self.nodes.iter().flatten().map(|node| match (&node.lost, node.slots) {
            (Some(_), _) => format!("{} (lost)", node.name),
            (None, Some(slots)) => format!("{}:{slots}", node.name),
            (None, None) => node.name.clone(),
        });
        let rows = [
            ("NAMESPACE", self.nspace.to_string()),
            ("PID", self.pid.map_or_else(|| "-".into(), |pid| pid.to_string())),
            ("NODE", plain(&self.node)),
            ("VERSION", plain(&self.version)),
            ("WIRE", self.wire.to_owned()),
            ("URI", self.uri.clone()),
            ("JOBS", names(self.jobs.iter().map(Nspace::to_string).collect())),
            ("NODES", names(nodes.collect())),
            ("OPERATIONS", names(self.operations.keys().cloned().collect())),
            ("QUERIES", names(self.queries.clone())),
            ("SPAWN", names(self.spawn.clone())),
        ];
        for (title, text) in rows {
            let line = format!("{title:<12}{}", pmix_tool::types::escaped(&text));
            write_wrapped(console.out, &line, console.width)?;
        }
        Ok(())
    }
}
