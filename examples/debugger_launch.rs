//! A debugger that launches what it debugs: has the server start an application whose processes wait in init, looks at
//! them from daemons beside them, and releases them.
//!
//! ```text
//! target/debug/pmixrun -n 1 sleep 1000 &             # any launcher whose server can start jobs
//! target/debug/examples/debugger_launch 4 target/debug/examples/hello
//! ```
#![allow(clippy::print_stdout)]

#[path = "debugger/look.rs"]
mod look;

use std::collections::BTreeSet;

use look::Result;
use pmix_tool::types::App;
use pmix_tool::{Client, Directives, EventStream, Nspace, ProcId, Status, Tool, keys};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match &args[..] {
        [word] if word == look::DAEMON => look::daemon().await,
        [ranks, program, args @ ..] => debug(App::new(program, ranks.parse()?).args(args)).await,
        _ => Err("give a number of processes and a program with its arguments".into()),
    }
}

async fn debug(app: App) -> Result<()> {
    let ranks = usize::try_from(app.max_procs)?;
    let tool = Tool::builder().connect().await?;
    let client = tool.client();
    // before the spawn: nothing is missed
    let mut events = client.events([Status::READY_FOR_DEBUG]).await?;
    let mut ends = client.events([Status::EVENT_JOB_END]).await?;
    // required: a launcher that cannot stop processes must not let them run
    let stop = Directives::new().require(&keys::DEBUG_STOP_IN_INIT, true);
    let job = client.spawn([app]).notify_completion().directives(stop).await?;
    tokio::select! {
        ready = until_ready(&mut events, &job, ranks) => ready?,
        // it may end, or fail, before all of its processes are in init
        status = ended(&mut ends, &job) => return Err(format!("{job} has ended with {} before it was debugged", status?).into()),
    }
    println!("{job}: {ranks} processes wait in init");

    for row in tool.proc_table(&job).await? {
        let host = row.hostname.as_deref().unwrap_or("unknown");
        println!("{} is process {} on {host}", row.proc, row.pid.0);
    }
    look::look(&client, &job, ranks).await?;

    release(&client, &job).await?;
    let status = ended(&mut ends, &job).await?;
    println!("{job}: released, and ended with {status}");
    Ok(tool.finalize().await?)
}

/// Each process tells that it waits.
async fn until_ready(events: &mut EventStream, job: &Nspace, ranks: usize) -> Result<()> {
    let mut ready = BTreeSet::new();
    while ready.len() < ranks {
        let event = events.recv().await.ok_or("the server is gone")??;
        if event.source.nspace == *job {
            ready.insert(event.source.rank);
        }
    }
    Ok(())
}

async fn release(client: &Client, job: &Nspace) -> Result<()> {
    let release = client.notify(Status::DEBUGGER_RELEASE).non_default();
    Ok(release.custom_range([ProcId::wildcard(job.clone())]).await?)
}

async fn ended(ends: &mut EventStream, job: &Nspace) -> Result<Status> {
    loop {
        let event = ends.recv().await.ok_or("the server is gone")??;
        if event.info.get(keys::EVENT_AFFECTED_PROC)? == Some(ProcId::wildcard(job.clone())) {
            return Ok(event.info.get(keys::JOB_TERM_STATUS)?.ok_or("an end without status")?);
        }
    }
}
