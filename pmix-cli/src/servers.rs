//! `pmix servers`: the servers that can be found here.

use std::path::PathBuf;
use std::process::ExitCode;

use pmix_tool::{Nspace, ServerInfo, discover, system_server};
use pmix_types::Uid;
use serde::Serialize;

use super::doctor::no_server;
use super::render::{Columns, write_fitted};
use super::{Console, Trouble};

/// Lists the servers of this user on this node
///
/// They are found by their files; none is contacted. STATE is up, or dead for a server that has left its files behind; the next
/// server that starts removes them. LEVEL is session for a user's own server, and system for the one of
/// the whole node.
///
/// The JSON report is one object: {"schema", "servers": [{"nspace", "rank", "pid", "uid", "node", "version", "uri", "dir", "level", "alive"}]}. What
/// is unknown is null.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if a server is up; 1 if none is, or if the directory of the files cannot be read; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    servers: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    nspace: Nspace,
    rank: pmix_tool::Rank,
    pid: u32,
    uid: Uid,
    node: Option<String>,
    version: Option<String>,
    uri: String,
    dir: PathBuf,
    level: &'static str,
    alive: bool,
}

const COLUMNS: Columns = Columns {
    titles: &["NAMESPACE", "PID", "NODE", "STATE", "LEVEL", "VERSION", "URI"],
    numbers: &[1],
    texts: &[0, 2, 6],
};

pub(super) fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let mut servers = discover()?;
    servers.extend(system_server().filter(|system| servers.iter().all(|server| server.proc != system.proc)));
    let report = Report { servers: servers.into_iter().map(Found::from).collect() };
    let is_any_alive = report.servers.iter().any(|server| server.alive);
    if args.json {
        console.json(&report)?;
    } else if report.servers.is_empty() {
        console.complain(&no_server());
    } else {
        write_fitted(console.out, COLUMNS, report.servers.iter().map(row).collect(), console.width)?;
    }
    Ok(if is_any_alive { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl From<ServerInfo> for Found {
    fn from(server: ServerInfo) -> Self {
        Self {
            rank: server.proc.rank,
            nspace: server.proc.nspace,
            pid: server.pid,
            uid: server.uid,
            node: server.host,
            version: server.version,
            uri: server.uri,
            dir: server.dir,
            level: if server.is_of_session { "session" } else { "system" },
            alive: server.is_alive,
        }
    }
}

fn row(server: &Found) -> Vec<String> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    vec![
        server.nspace.to_string(),
        server.pid.to_string(),
        known(&server.node),
        if server.alive { "up" } else { "dead" }.to_owned(),
        server.level.to_owned(),
        known(&server.version),
        server.uri.clone(),
    ]
}
