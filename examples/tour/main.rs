//! A resource manager, four processes and a tool, from beginning to end.
//!
//! Embeds a server with the [`StandardHost`], starts itself four times as ranks, lets them exchange endpoints
//! in a fence and pass a baton by Gets that wait for a commit, reads their process table through a tool
//! connection while they are alive, and checks all of it.
//!
//! ```text
//! cargo run --example tour
//! cargo run --example tour -- --json
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod rank;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use pmix_client::{Nspace, ProcId, Status};
use pmix_host::{JobReport, JobStart, LaunchReport, MemoryExchange, OutputChannel, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::Server;
use pmix_server::types::{App, DataRange, Event, ProcInfo};
use pmix_tool::Tool;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const RANKS: u32 = 4;
const NODE: &str = "tour-node";
/// Event that tells the ranks that the tool has seen them. Codes below the base are for users.
const SEEN: Status = Status::from_raw(Status::EXTERNAL_ERR_BASE.to_raw() - 1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let done = match argument.as_str() {
        "rank" => rank::run().await,
        "--json" => tour(|_| ()).await.map(|report| println!("{report}")),
        _ => tour(|step| println!("{step}")).await.map(|_| ()),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    if argument == "--json" {
        println!("{}", json!({ "ok": false, "error": error.to_string() }));
    }
    eprintln!("tour: {error}");
    ExitCode::FAILURE
}

/// The resource manager's side; returns the report.
async fn tour(say: impl Fn(String)) -> Result<Value> {
    let root = tempfile::tempdir()?;
    let host = StandardHost::new(LocalLauncher::new(NODE), MemoryExchange::single(NODE));
    let server = Server::builder().host(host.clone()).hostname(NODE).session_root(root.path());
    let server = server.tool_support(true).start().await?;
    say(format!("server  {}", server.handle().uri()));

    let program = std::env::current_exe()?.display().to_string();
    let nspace = Nspace::new(format!("tour-{}", std::process::id()))?;
    let app = App::new(&program, RANKS).arg("rank");
    let mut job = host.start_job(JobStart::new(nspace.clone(), vec![app])).await?;
    say(format!("job     {nspace}: {RANKS} x {program}"));
    let (mut gets, mut bytes) = (0, 0);
    for (proc, counts) in counts_of_all(&mut job).await? {
        let count =
            |what: &str| counts[what].as_u64().ok_or_else(|| format!("a rank has not counted its {what}"));
        let (of_rank, bytes_of_rank) = (count("gets")?, count("bytes")?);
        say(format!("rank    {} has made {of_rank} gets of {bytes_of_rank} bytes in all", proc.rank));
        gets += of_rank;
        bytes += bytes_of_rank;
    }
    check(gets == u64::from(RANKS * (RANKS + 1)), "each rank gets all endpoints and a baton")?;

    // all ranks wait now, so a tool finds them alive
    let tool = Tool::builder().uri(server.handle().uri()).connect().await?;
    let table = tool.proc_table(&nspace).await?;
    tool.finalize().await?;
    for row in &table {
        let hostname = row.hostname.as_deref().unwrap_or("no node");
        say(format!("tool    sees rank {} on {hostname}: {}, pid {}", row.proc.rank, row.state, row.pid));
    }
    let rows: Vec<_> = table.iter().map(json_row).collect();
    check(rows.len() == RANKS as usize, "there is a row for each rank")?;
    let is_alive = |row: &Value| row["state"] == "CONNECTED" && row["pid"].as_i64() > Some(0);
    check(rows.iter().all(is_alive), "each rank is alive")?;
    check(rows.iter().all(|row| row["node"] == NODE), "each rank is on the node")?;
    check(rows.iter().all(|row| row["executable"] == program), "each rank runs this program")?;

    // the host lets the ranks go
    server.handle().notify_event(Event::new(SEEN, ProcId::none()).with_range(DataRange::LOCAL)).await?;
    let outcome = job.outcome().await.ok_or("the job has vanished")?;
    check(outcome.exit_code == 0, "all ranks end well")?;
    let fences = server.stats().await.fences;
    check(fences == 2, "there were two fences")?;
    server.stop().await;
    check(root.path().read_dir()?.next().is_none(), "the server leaves nothing behind")?;
    say(format!("done    {fences} fences, {gets} gets, {bytes} bytes, all as it should be"));
    Ok(
        json!({ "ranks": RANKS, "fences": fences, "gets": gets, "bytes": bytes, "proc_table": rows, "ok": true }),
    )
}

/// Waits until each rank has printed what it has counted.
async fn counts_of_all(job: &mut RunningJob) -> Result<BTreeMap<ProcId, Value>> {
    let mut lines = BTreeMap::<ProcId, Vec<u8>>::new();
    while lines.values().filter(|line| line.ends_with(b"\n")).count() < RANKS as usize {
        match job.next_report().await.ok_or("the job has vanished")? {
            JobReport::Proc(LaunchReport::Output { proc, data, channel: OutputChannel::Stdout }) => {
                lines.entry(proc).or_default().extend(data);
            }
            JobReport::Proc(LaunchReport::Output { data, .. }) => {
                eprint!("{}", String::from_utf8_lossy(&data))
            }
            JobReport::Done(_) => return Err("the job has ended early".into()),
            _ => {}
        }
    }
    lines.into_iter().map(|(proc, line)| Ok((proc, serde_json::from_slice(&line)?))).collect()
}

fn json_row(row: &ProcInfo) -> Value {
    json!({
        "nspace": row.proc.nspace.as_str(), "rank": row.proc.rank.to_raw(), "node": row.hostname,
        "pid": row.pid.0, "state": row.state.to_string(), "executable": row.executable,
    })
}

fn check(is_so: bool, what: &str) -> Result<()> {
    if is_so { Ok(()) } else { Err(format!("this does not hold: {what}").into()) }
}
