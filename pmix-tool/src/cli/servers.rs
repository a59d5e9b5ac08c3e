//! `pmix servers`: the servers that the files of this user name.

use std::process::ExitCode;

use pmix_tool::{Nspace, Rank, ServerInfo, discover, system_server};
use serde::Serialize;

use super::render::{Columns, write_fitted};
use super::{Console, Trouble};

/// Lists the servers that tools of this user find on this node
///
/// It reads their rendezvous files and asks none of them. A server that was killed leaves its file, which disturbs no command: it is dead here,
/// until the next server removes it.
///
/// The JSON report is one object: {"servers": [{"pid", "nspace", "rank", "host", "uri", "version", "alive"}]}. What a file does not
/// say is null.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if one of them is alive; 1 if none is, or if the files cannot be read; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    pid: u32,
    nspace: Nspace,
    rank: Rank,
    host: Option<String>,
    uri: String,
    version: Option<String>,
    alive: bool,
}

impl From<ServerInfo> for Row {
    fn from(info: ServerInfo) -> Self {
        Self {
            pid: info.pid,
            nspace: info.proc.nspace,
            rank: info.proc.rank,
            host: info.host,
            uri: info.uri,
            version: info.version,
            alive: info.is_alive,
        }
    }
}

const COLUMNS: Columns =
    Columns { titles: &["PID", "NSPACE", "HOST", "STATE", "URI"], numbers: &[0], texts: &[1, 2, 4] };

pub(super) fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let mut found = discover()?;
    if let Some(system) = system_server()
        && !found.iter().any(|server| server.uri == system.uri)
    {
        found.push(system);
    }
    let servers: Vec<Row> = found.into_iter().map(Row::from).collect();
    let is_any_alive = servers.iter().any(|server| server.alive);
    if args.json {
        #[derive(Serialize)]
        struct Report {
            servers: Vec<Row>,
        }
        console.json(&Report { servers })?;
    } else if !servers.is_empty() {
        write_fitted(console.out, COLUMNS, servers.iter().map(row).collect(), console.width)?;
    }
    if !is_any_alive {
        console.complain("no server that tools of this user find is running on this node");
    }
    Ok(if is_any_alive { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(server: &Row) -> Vec<String> {
    vec![
        server.pid.to_string(),
        server.nspace.to_string(),
        server.host.clone().unwrap_or_else(|| "-".into()),
        if server.alive { "alive" } else { "dead" }.to_owned(),
        server.uri.clone(),
    ]
}
