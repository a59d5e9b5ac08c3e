//! The second job, for checks that need two.

use pmix_types::{App, Directives, Nspace, Scope, Value, keys};

use super::rank::{Checked, Rank, broken, must, skip};

/// How a check that needs a second job obtains it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SecondJob {
    /// There is none; such checks are skipped.
    Absent,
    /// It is already running, with as many ranks as this job.
    Known(Nspace),
    /// Rank 0 spawns it from this application, with as many processes as this job has. Each must run the same check with
    /// [`SecondJob::Parent`].
    Spawned(App),
    /// It is the job that spawned this one.
    Parent,
}

impl SecondJob {
    /// Its namespace; `None` if there is none. Every rank of a job must call this.
    pub(super) async fn find(self, rank: &Rank) -> Checked<Option<Nspace>> {
        match self {
            Self::Absent => Ok(None),
            Self::Known(nspace) => Ok(Some(nspace)),
            Self::Spawned(app) => spawned(rank, app).await.map(Some),
            Self::Parent => {
                let parent = rank.get(rank.me(), keys::PARENT_ID.name(), Directives::new()).await?;
                match must("get of PARENT_ID", parent)? {
                    Value::Proc(parent) => Ok(Some(parent.nspace.clone())),
                    other => Err(broken(format!("PARENT_ID is {other:?}, which is not a process"))),
                }
            }
        }
    }
}

/// Rank 0 spawns the job and tells the others its namespace.
async fn spawned(rank: &Rank, app: App) -> Checked<Nspace> {
    let told = rank.key("spawned")?;
    if rank.is_first() {
        let spawned = spawn(rank, app).await;
        // an empty name tells the others that the spawn failed
        let name = spawned.as_ref().map_or("", Nspace::as_str);
        rank.commit(Scope::GLOBAL, told, name).await?;
        return spawned;
    }
    let name = must("get from rank 0", rank.get(&rank.peer(0), told.as_str(), Directives::new()).await?)?;
    let name = name.as_str().unwrap_or_default();
    Nspace::new(name).map_err(|_| skip("needs a second job, which rank 0 could not spawn"))
}

async fn spawn(rank: &Rank, mut app: App) -> Checked<Nspace> {
    app.max_procs = i32::try_from(rank.size()).unwrap_or(i32::MAX);
    must("spawn", rank.spawn(app, Directives::new()).await?)
}
