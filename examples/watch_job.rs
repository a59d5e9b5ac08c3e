//! A tool that follows one job: its processes, their changes, and the end of the job.
//!
//! ```text
//! cargo run --example watch_job -- JOB
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::Duration;

use pmix_tool::watch::WatchUpdate;
use pmix_tool::{Nspace, ProcInfo, Tool};

fn show(row: &ProcInfo) {
    let host = row.hostname.as_deref().unwrap_or("-");
    if row.state.is_terminated() {
        println!("{} on {host} has ended: {} (exit code {})", row.proc, row.state, row.exit_code);
    } else {
        println!("{} on {host} pid {} is {}", row.proc, row.pid, row.state);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let job: Nspace = std::env::args().nth(1).ok_or("usage: watch_job JOB")?.parse()?;
    let tool = Tool::builder().timeout(Duration::from_secs(10)).connect().await?;
    let mut watch = tool.watch_jobs().only([job.clone()]).start().await?;
    while let Some(update) = watch.next().await {
        match update? {
            WatchUpdate::Snapshot(jobs) | WatchUpdate::Resync { jobs, .. } => jobs.procs().for_each(show),
            WatchUpdate::Changed(change) => {
                change.jobs.values().flat_map(|job| &job.procs).for_each(show);
                match change.gone.get(&job) {
                    Some(Some(end)) => println!("{job} has ended with exit code {}", end.exit_code),
                    Some(None) => println!("{job} has ended"),
                    None => continue,
                }
                break;
            }
            _ => {}
        }
    }
    tool.finalize().await?;
    Ok(())
}
