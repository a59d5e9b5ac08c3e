//! A debugger that attaches to a job that is running: shows its processes and, from daemons beside them, what they are
//! doing. The job goes on.
//!
//! ```text
//! target/debug/pmixrun -n 4 sleep 1000 &
//! target/debug/examples/debugger_attach              # the only job of the only server of this user
//! target/debug/examples/debugger_attach JOB          # a job as `pmix ps` shows it
//! ```
#![allow(clippy::print_stdout)]

#[path = "debugger/look.rs"]
mod look;

use look::Result;
use pmix_tool::{Nspace, Tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(word) if word == look::DAEMON => look::daemon().await,
        job => attach(job.map(|job| job.parse()).transpose()?).await,
    }
}

async fn attach(job: Option<Nspace>) -> Result<()> {
    let tool = Tool::builder().connect().await?;
    let job = match (job, &tool.namespaces().await?[..]) {
        (Some(job), _) => job,
        (None, [only]) => only.clone(),
        (None, jobs) => return Err(format!("name one of the {} jobs of this server", jobs.len()).into()),
    };
    let table = tool.proc_table(&job).await?;
    for row in &table {
        let host = row.hostname.as_deref().unwrap_or("unknown");
        let program = row.executable.as_deref().unwrap_or("unknown");
        println!("{} is process {} on {host}, {}: {program}", row.proc, row.pid.0, row.state);
    }
    let alive = table.iter().filter(|row| row.state.is_alive()).count();
    look::look(&tool.client(), &job, alive).await?;
    Ok(tool.finalize().await?)
}
