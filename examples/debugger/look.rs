//! What the debuggers among the examples share: daemons that look with gdb at the processes of a job, each at those of its
//! node, and tell the debugger what they see.

use std::error::Error;
use std::io;

use pmix_tool::types::{App, DataArray};
use pmix_tool::{Client, Directives, Nspace, ProcId, ProcInfo, Query, Status, keys};
use tokio::process::Command;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The argument with which a debugger starts itself as a daemon.
pub(crate) const DAEMON: &str = "daemon";
/// What daemons tell. Positive codes are free for programs.
const SEEN: Status = Status::from_raw(1);

/// Starts a daemon on each node that has processes of the job, and prints what they see in these processes.
pub(crate) async fn look(client: &Client, job: &Nspace, processes: usize) -> Result<()> {
    let mut events = client.events([SEEN, Status::EVENT_JOB_END]).await?;
    let app = App::new(std::env::current_exe()?.display().to_string(), 1).arg(DAEMON);
    let directives = Directives::new()
        .require(&keys::DEBUGGER_DAEMONS, true)
        .require(&keys::DEBUG_TARGET, ProcId::wildcard(job.clone()))
        .require(&keys::DEBUG_DAEMONS_PER_NODE, 1u16);
    // daemons are a job of their own, whose end is told
    let daemons = client.spawn([app]).notify_completion().directives(directives).await?;
    let mut seen = 0;
    while seen < processes {
        let event = events.recv().await.ok_or("the server is gone")??;
        if event.code == SEEN && event.source.nspace == daemons {
            println!("{}", event.info.get(keys::EVENT_TEXT_MESSAGE)?.unwrap_or_default());
            seen += 1;
        } else if event.info.get(keys::EVENT_AFFECTED_PROC)? == Some(ProcId::wildcard(daemons.clone())) {
            match event.info.get(keys::JOB_TERM_STATUS)? {
                // what they have told may come later than the news of their end
                None | Some(Status::SUCCESS) => {}
                Some(status) => return Err(format!("the daemons have ended with {status}").into()),
            }
        }
    }
    Ok(())
}

/// What a daemon does.
pub(crate) async fn daemon() -> Result<()> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id();
    let target = client.get(ProcId::wildcard(me.nspace.clone()), keys::DEBUG_TARGET).await?;
    let debugger = client.get(me, keys::PARENT_ID).await?;
    let key = &keys::QUERY_LOCAL_PROC_TABLE;
    let query = Query::new(key).qualifier(&keys::NSPACE, &target.nspace);
    let Some(DataArray::ProcInfo(table)) = client.query([query]).await?.get(key)? else {
        return Err(format!("no process of {} is on this node", target.nspace).into());
    };
    for row in table.into_iter().filter(|row| row.state.is_alive()) {
        let text = format!("rank {}: {}", row.proc.rank, backtrace(&row).await?);
        client.notify(SEEN).info(keys::EVENT_TEXT_MESSAGE, text).custom_range([debugger.clone()]).await?;
    }
    Ok(client.finalize().await?)
}

/// The functions in which the first thread of a process is, the innermost first.
async fn backtrace(row: &ProcInfo) -> Result<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "bt", "-p", &row.pid.0.to_string()]);
    let output = match gdb.output().await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok("gdb is not installed".into()),
        output => output?,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // "#1  0x00007f4d in function (arguments) at file.c:7"
    let frames = text.lines().filter(|line| line.starts_with('#'));
    let functions: Vec<_> = frames
        .filter_map(|line| line.split_once(" in ").map(|(_, rest)| rest).or_else(|| line.get(4..)))
        .filter_map(|rest| rest.split(" (").next())
        .collect();
    if functions.is_empty() {
        return Err(format!("gdb: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(functions.join(" < "))
}
