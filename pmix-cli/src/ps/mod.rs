//! `pmix ps`: jobs and their processes.

mod table;
mod watch;

use std::process::ExitCode;

use futures::future::join_all;
use pmix_tool::types::SessionNode;
use pmix_tool::{Error, Nspace, ProcInfo, Status, Tool, ToolBuilder};
use serde::Serialize;

use super::hosts::{HOST_COLUMNS, JobHost, host_row, hosts_of};
use super::render::write_fitted;
use super::selection::{Selection, absent, finalize};
use super::{Console, Trouble, completions};

/// Lists running jobs with their processes
///
/// By default it queries all live servers of this user on this node. Ranks of a job that are on the same node and in the same state
/// share a row; with --ranks each has its own. EXIT is the exit code of processes that have ended; - means unknown.
///
/// The JSON report is one object: {"schema", "servers": [{"nspace", "pid", "uri", "jobs": [{"nspace", "procs": [{"proc":
/// {"nspace", "rank"}, "node", "executable", "pid", "exit_code", "state"}]}]}]}. The pid of a server selected
/// with --uri is null; that of a process is 0 before it starts. The list is empty if no server could be queried.
///
/// With --hosts there is a row for each host of a job: how many processes of a job the host takes (-: any number, or unknown), the
/// ranks there, and their states. Lost hosts are marked; `pmix nodes` shows the reason. In the JSON report "hosts" takes the place
/// of "procs": [{"node", "slots", "ranks": "0-3,7", "states": {STATE: COUNT}, "lost": REASON or null}].
///
/// With --watch the table is followed by a line for each change, until no server is left, or none of the given jobs. The server is queried each second, and as
/// soon as a job starts or ends. A slow reader does not slow the server down: missed changes are skipped, and the whole table is printed again. In the
/// JSON report each line is an object with "schema", "server" (its namespace) and one of: "snapshot": {"missed": COUNT of events, "jobs": [{"nspace",
/// "procs"}]} with all processes; "changed": [{"nspace", "procs"}] with those that are new or have changed; "removed": [{"nspace", "ranks": [RANK, ...] or null for
/// the whole job, "exit_code", "status"}], where the last two are null if they are unknown.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the table was printed; 1 if no server is running or none could be queried, \
                        or if one of the given jobs is not running; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// List only these jobs
    #[arg(value_name = "NAMESPACE", add = completions::jobs())]
    jobs: Vec<Nspace>,

    /// Show each rank in a row of its own, with its process id
    #[arg(long, conflicts_with = "hosts")]
    ranks: bool,

    /// Show the hosts of each job instead of its processes
    #[arg(long)]
    hosts: bool,

    /// Go on, and print what changes
    #[arg(long, conflicts_with = "hosts")]
    watch: bool,

    /// Print JSON instead of text: one object, or one in each line with --watch
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    servers: Vec<ServerReport>,
}

#[derive(Debug, Serialize)]
struct ServerReport {
    nspace: Nspace,
    pid: Option<u32>,
    uri: String,
    jobs: Vec<JobReport>,
}

#[derive(Debug, Serialize)]
struct JobReport {
    nspace: Nspace,
    #[serde(flatten)]
    rows: Rows,
}

/// What is shown of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Rows {
    Procs(Vec<ProcInfo>),
    Hosts(Vec<JobHost>),
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    if args.watch {
        return watch::run(&args, console).await;
    }
    let mut report = Report::default();
    // one that hangs holds none of the others up
    let answers = args.selection.candidates()?.into_iter().map(|tool| query(tool, &args));
    for answer in join_all(answers).await {
        match answer {
            Ok(server) => report.servers.push(server),
            Err(error) => console.complain(&error.to_string()),
        }
    }
    if args.json {
        console.json(&report)?;
    } else {
        report.write(&args, console)?;
    }
    let missing: Vec<_> = args.jobs.iter().filter(|job| !report.has(job)).collect();
    if !report.servers.is_empty() {
        missing.iter().for_each(|job| console.complain(&absent(job)));
    }
    let is_complete = !report.servers.is_empty() && missing.is_empty();
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn query(builder: ToolBuilder, Args { jobs: wanted, hosts, .. }: &Args) -> Result<ServerReport, Error> {
    let tool = builder.connect().await?;
    let nodes = if *hosts { Some(nodes(&tool).await?) } else { None };
    let mut jobs = Vec::new();
    for nspace in tool.namespaces().await? {
        if wanted.is_empty() || wanted.contains(&nspace) {
            jobs.extend(query_job(&tool, nspace, nodes.as_deref()).await?);
        }
    }
    jobs.sort_by(|one, other| natord::compare(&one.nspace, &other.nspace));
    let server = tool.server()?;
    let report = ServerReport {
        nspace: server.proc_id().nspace.clone(),
        pid: server.info().map(|info| info.pid),
        uri: server.uri().to_owned(),
        jobs,
    };
    finalize(tool).await;
    Ok(report)
}

/// The nodes of the server's session; none where it does not tell of them.
async fn nodes(tool: &Tool) -> Result<Vec<SessionNode>, Error> {
    match tool.nodes().await {
        Err(error) if error.is_not_supported() => Ok(Vec::new()),
        nodes => nodes,
    }
}

/// The hosts of a job among these nodes, or its processes. `None` if the job has ended in the meantime.
async fn query_job(
    tool: &Tool,
    nspace: Nspace,
    nodes: Option<&[SessionNode]>,
) -> Result<Option<JobReport>, Error> {
    match tool.proc_table(&nspace).await {
        Ok(procs) => {
            let rows = match nodes {
                Some(nodes) => Rows::Hosts(hosts_of(&procs, nodes)),
                None => Rows::Procs(procs),
            };
            Ok(Some(JobReport { nspace, rows }))
        }
        Err(error) if error.is_not_found() || error.status() == Status::ERR_INVALID_NAMESPACE => Ok(None),
        Err(error) => Err(error),
    }
}

impl JobReport {
    fn procs(&self) -> &[ProcInfo] {
        if let Rows::Procs(procs) = &self.rows { procs } else { &[] }
    }

    fn hosts(&self) -> impl Iterator<Item = Vec<String>> {
        let hosts = if let Rows::Hosts(hosts) = &self.rows { &hosts[..] } else { &[] };
        hosts.iter().map(|host| host_row(&self.nspace, host))
    }
}

impl Report {
    fn has(&self, nspace: &Nspace) -> bool {
        self.servers.iter().flat_map(|server| &server.jobs).any(|job| job.nspace == *nspace)
    }

    /// A table for each server, with a title if there are several. If jobs are given, servers without them are left out.
    fn write(&self, args: &Args, console: &mut Console<'_>) -> std::io::Result<()> {
        let is_shown = |server: &&ServerReport| args.jobs.is_empty() || !server.jobs.is_empty();
        let shown: Vec<_> = self.servers.iter().filter(is_shown).collect();
        for (index, server) in shown.iter().enumerate() {
            if index > 0 {
                writeln!(console.out)?;
            }
            if let (2.., Some(pid)) = (shown.len(), server.pid) {
                writeln!(console.out, "server {}, pid {pid}:", server.nspace)?;
            }
            if args.hosts {
                let rows = server.jobs.iter().flat_map(JobReport::hosts).collect();
                write_fitted(console.out, HOST_COLUMNS, rows, console.width)?;
            } else {
                table::write(server.jobs.iter().flat_map(JobReport::procs), args.ranks, console)?;
            }
        }
        Ok(())
    }
}
