//! The job beside a check's own, for checks that need two.

use pmix_types::message::{Reply, Request, Spawn};
use pmix_types::{App, Directives, Nspace, Scope, Value, keys};

use super::rank::{Checked, Rank, broken, must, skip};

/// Where the second job of a check that needs one comes from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SecondJob {
    /// Nowhere: such checks are skipped.
    Absent,
    /// It runs already, with a rank for each of the own job's.
    Known(Nspace),
    /// Rank 0 spawns it: as many processes of this application as the own job has. Each must run the same check, with
    /// [`SecondJob::Parent`].
    Spawned(App),
    /// It is the job that has spawned the own one.
    Parent,
}

impl SecondJob {
    /// Its namespace; `None` if there is none. All ranks of a job ask.
    pub(super) async fn find(self, rank: &Rank) -> Checked<Option<Nspace>> {
        match self {
            Self::Absent => Ok(None),
            Self::Known(nspace) => Ok(Some(nspace)),
            Self::Spawned(app) => spawned(rank, app).await.map(Some),
            Self::Parent => {
                let parent = rank.get(rank.me(), keys::PARENT_ID.name(), Directives::new()).await?;
                match must("get of PARENT_ID", parent)? {
                    Value::Proc(parent) => Ok(Some(parent.nspace.clone())),
                    other => Err(broken(format!("the parent is {other:?}"))),
                }
            }
        }
    }
}

/// Rank 0 tells the others what it has spawned.
async fn spawned(rank: &Rank, app: App) -> Checked<Nspace> {
    let told = rank.key("spawned")?;
    if rank.is_first() {
        let spawned = spawn(rank, app).await;
        // an empty name lets the others go, too
        let name = spawned.as_ref().map_or("", Nspace::as_str);
        rank.commit(Scope::GLOBAL, told, name).await?;
        return spawned;
    }
    let name = must("get from rank 0", rank.get(&rank.peer(0), told.as_str(), Directives::new()).await?)?;
    let name = name.as_str().unwrap_or_default();
    Nspace::new(name).map_err(|_| skip("it needs a second job, which rank 0 could not spawn"))
}

async fn spawn(rank: &Rank, mut app: App) -> Checked<Nspace> {
    app.max_procs = i32::try_from(rank.size()).unwrap_or(i32::MAX);
    match must("spawn", rank.request(Request::Spawn(Spawn::new(vec![app]))).await?)? {
        Reply::Spawn(reply) => Ok(reply.nspace),
        other => Err(broken(format!("a spawn was answered with {other:?}"))),
    }
}
