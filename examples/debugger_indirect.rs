//! A debugger that launches through another launcher: starts the launcher, which tells in a file where it can be reached,
//! attaches to it, looks at its processes, which wait in init, and releases them.
//!
//! ```text
//! target/debug/examples/debugger_indirect target/debug/pmixrun --stop-in-init -n 4 target/debug/examples/hello
//! ```
#![allow(clippy::print_stdout)]

#[path = "debugger/look.rs"]
mod look;

use std::collections::BTreeSet;
use std::time::Duration;

use look::Result;
use pmix_tool::{EventStream, Nspace, ProcId, Status, Tool};
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match &args[..] {
        [word] if word == look::DAEMON => look::daemon().await,
        [launcher, args @ ..] => debug(launcher, args).await,
        [] => Err("give a launcher with its arguments, by which its processes stop in init".into()),
    }
}

async fn debug(launcher: &str, args: &[String]) -> Result<()> {
    // where only this user can put a file
    let dir = tempfile::tempdir()?;
    let contact = dir.path().join("launcher");
    let mut launcher = Command::new(launcher);
    launcher.args(args).env("PMIX_LAUNCHER_RNDZ_FILE", &contact).kill_on_drop(true);
    let mut launcher = launcher.spawn()?;
    tokio::select! {
        done = look_and_release(Tool::builder().rendezvous_file(&contact)) => done?,
        status = launcher.wait() => return Err(format!("the launcher has ended with {}", status?).into()),
    }
    println!("the launcher has ended with {}", launcher.wait().await?);
    Ok(())
}

async fn look_and_release(launcher: pmix_tool::ToolBuilder) -> Result<()> {
    // the launcher needs a moment
    let tool = launcher.retry(1000, Duration::from_millis(20)).connect().await?;
    let client = tool.client();
    // what was told before is kept for us
    let mut events = client.events([Status::READY_FOR_DEBUG]).await?;
    let job = until_ready(&tool, &mut events).await?;
    let table = tool.proc_table(&job).await?;
    println!("{job}: {} processes wait in init", table.len());
    look::look(&client, &job, table.len()).await?;
    let release = client.notify(Status::DEBUGGER_RELEASE).non_default();
    release.custom_range([ProcId::wildcard(job.clone())]).await?;
    println!("{job}: released");
    // the launcher ends with its job, maybe before us
    let _ = tool.finalize().await;
    Ok(())
}

/// The job of the launcher, when all of its processes have told that they wait.
async fn until_ready(tool: &Tool, events: &mut EventStream) -> Result<Nspace> {
    let mut ready = BTreeSet::new();
    loop {
        let event = events.recv().await.ok_or("the launcher is gone")??;
        let job = event.source.nspace.clone();
        ready.insert(event.source);
        let table = tool.proc_table(&job).await?;
        if table.iter().all(|row| ready.contains(&row.proc)) {
            return Ok(job);
        }
    }
}
