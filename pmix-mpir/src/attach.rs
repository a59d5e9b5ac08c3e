//! The ranks of a job that runs.

use pmix_tool::{Nspace, Tool};

use crate::{Problem, mpir, ranks};

/// Shows the debugger a job of the launcher with this process id, and stays until it ends; returns its exit code.
///
/// # Errors
/// There is no such job, or how it ends is not known.
pub(crate) async fn attach(pid: u32, job: Option<Nspace>) -> Result<i32, Problem> {
    let tool = Tool::builder().pid(pid).connect().await?;
    let jobs = tool.namespaces().await?;
    let job = match (job, &jobs[..]) {
        (Some(job), _) if jobs.contains(&job) => job,
        (Some(job), _) => {
            return Err(format!("process {pid} runs no job {job}; `pmix ps` lists those that run").into());
        }
        (None, [only]) => only.clone(),
        (None, []) => return Err(format!("process {pid} runs no job").into()),
        (None, _) => {
            return Err(format!("process {pid} runs {} jobs: name one of them by --job", jobs.len()).into());
        }
    };
    // before the table, so that no end comes in between
    let gone = || format!("job {job} has just ended");
    let end = tool.await_end(job.clone()).await?.ok_or_else(gone)?;
    mpir::present(ranks::of(&tool, &job).await?);
    Ok(end.wait().await?.exit_code)
}
