//! The ranks of a job, as PMIx tells them.

use std::collections::BTreeSet;
use std::time::Duration;

use pmix_tool::{EventError, EventStream, Nspace, ProcInfo, Tool};
use tokio::time::{Instant, sleep_until, timeout};

use crate::mpir::Rank;
use crate::{Problem, say};

/// When the user is told what is awaited.
pub(crate) const OVERDUE: Duration = Duration::from_secs(10);

/// How long a rank that runs may be without a process id: a rank can reach init before its launcher has reported its start.
const NAMELESS: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The ranks of a job that run, in their order.
///
/// # Errors
/// There are none, or the server does not tell them.
pub(crate) async fn of(tool: &Tool, job: &Nspace) -> Result<Vec<Rank>, Problem> {
    let until = Instant::now() + NAMELESS;
    let mut table = loop {
        let mut table = tool.proc_table(job.clone()).await?;
        table.retain(|row| row.state.is_alive());
        if table.iter().all(|row| row.pid.0 > 0) || Instant::now() >= until {
            break table;
        }
        sleep_until(Instant::now() + LOOK_AGAIN).await;
    };
    table.retain(|row| row.pid.0 > 0);
    if table.is_empty() {
        return Err(format!("job {job} has no rank that runs").into());
    }
    Ok(table.into_iter().map(rank).collect())
}

fn rank(row: ProcInfo) -> Rank {
    Rank {
        // one that does not say where a process is has no other host
        host: row
            .hostname
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
        executable: row.executable.unwrap_or_default(),
        pid: row.pid.0,
    }
}

/// The job whose ranks tell by these events that they wait in init, when all of them have.
///
/// # Errors
/// The server is gone.
pub(crate) async fn waiting(tool: &Tool, ready: &mut EventStream) -> Result<Nspace, Problem> {
    let mut job: Option<(Nspace, usize)> = None;
    let mut there = BTreeSet::new();
    let mut missed = 0;
    let mut is_told = false;
    loop {
        let Ok(event) = timeout(OVERDUE, ready.recv()).await else {
            if !std::mem::replace(&mut is_told, true) {
                say(&format!("waiting until all ranks are in init; so far {} are", there.len()));
            }
            continue;
        };
        match event.ok_or(EventError::Disconnected)? {
            Ok(event) => {
                let nspace = event.source.nspace;
                if job.is_none() {
                    let size = tool.proc_table(nspace.clone()).await?.len();
                    job = Some((nspace.clone(), size));
                }
                if job.as_ref().is_some_and(|(job, _)| *job == nspace) {
                    there.insert(event.source.rank);
                }
            }
            // there were more than are kept
            Err(EventError::Lagged { missed: more, .. }) => {
                missed += usize::try_from(more).unwrap_or(usize::MAX)
            }
            Err(error) => return Err(error.into()),
        }
        if let Some((job, size)) = &job
            && there.len() + missed >= *size
        {
            return Ok(job.clone());
        }
    }
}
