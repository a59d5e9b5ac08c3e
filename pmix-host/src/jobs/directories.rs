//! A directory on each node, below that of the node's server, in which the processes of a job keep files that live no
//! longer than the job.
//!
//! MPI libraries make directories of their own if they are given none, and leave them behind when they are killed. Nobody
//! but the job's user can enter it.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pmix_types::job::JobSpec;
use pmix_types::{Gid, Nspace, Rank, Status, Uid, keys};

use pmix_server::Account;
use pmix_server::ServerHandle;
use pmix_server::host::{HostError, HostResult};
use pmix_server::remove_tree;

use super::node::NodeJob;
use crate::user::lock;

/// The directories of the jobs on one node.
///
/// Only processes that connect are told of them. So they are made when the first process of a job connects: many jobs are
/// programs that know nothing of PMIx, and making and removing directories is much of what such a job costs.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<BTreeMap<Nspace, Arc<Directory>>>);

/// The directory of a job, with one in it for each of its processes here.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    ranks: Vec<Rank>,
    /// User and group, if it is not for the user of this process.
    owner: Option<(Uid, Gid)>,
    /// Locked while it is made, or removed, on a thread that may block.
    state: Arc<tokio::sync::Mutex<DirectoryState>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DirectoryState {
    #[default]
    Absent,
    Made,
    /// Its job has ended.
    Removed,
}

impl Directories {
    /// Returns the job with the directories that its processes are told.
    ///
    /// Processes of another user are not told the server's directory, which is not for their files, but the job's.
    pub(super) fn plan(
        &self,
        server: &ServerHandle,
        number: u32,
        job: NodeJob,
        user: Option<&Account>,
    ) -> JobSpec {
        let NodeJob { spec, here, in_session } = job;
        let path = of_job(server, number);
        let work = work_of(server, number, user);
        let told = in_session.into_iter().filter_map(|app| Some((app, work.to_str()?)));
        let spec = told.fold(spec, |spec, (app, work)| spec.app_info(app, &keys::WDIR, work));
        let top = if user.is_some() { &path } else { server.session_dir() };
        // a string is all that processes can be told
        let (Some(top), Some(dir)) = (top.to_str(), path.to_str()) else { return spec };
        let ranks: Vec<_> = here.iter().map(|proc| proc.rank).collect();
        let spec = spec.session_info(&keys::TMPDIR, top).session_info(&keys::TDIR_RMCLEAN, true);
        let spec = spec.info(&keys::NSDIR, dir);
        let spec = ranks
            .iter()
            .fold(spec, |spec, rank| spec.proc_info(*rank, &keys::PROCDIR, format!("{dir}/{rank}")));
        let owner = user.map(|user| (user.uid(), user.gid()));
        let directory = Directory { path, ranks, owner, state: Arc::default() };
        lock(&self.0).insert(spec.nspace().clone(), Arc::new(directory));
        spec
    }

    /// Makes the directory of a job, unless that is done: its processes are about to be told of it.
    pub(super) async fn make(&self, nspace: &Nspace) -> HostResult<()> {
        // others are not started by this host
        let Some(directory) = lock(&self.0).get(nspace).cloned() else { return Ok(()) };
        directory.make().await
    }

    /// Makes the directory to start the processes of a job in.
    pub(super) async fn work_dir(
        &self,
        server: &ServerHandle,
        number: u32,
        user: Option<&Account>,
    ) -> HostResult<String> {
        let make = |path: &Path| DirBuilder::new().mode(0o700).recursive(true).create(path);
        let path = work_of(server, number, user);
        let made = match user {
            None => blocking(&path, make).await,
            Some(user) => {
                let of_job = of_job(server, number);
                let directory = lock(&self.0).values().find(|directory| directory.path == of_job).cloned();
                if let Some(directory) = directory {
                    directory.make().await?;
                }
                let named = path.clone();
                // other processes of the user may be at work there
                user.with_rights(move || make(&named)).await.flatten()
            }
        };
        made.map_err(|error| failed(&path, &error))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Removes what a job has left in its directory, and that.
    pub(super) async fn remove(&self, nspace: &Nspace) {
        let Some(directory) = lock(&self.0).remove(nspace) else { return };
        directory.remove().await;
    }
}

impl Directory {
    async fn make(&self) -> HostResult<()> {
        let mut state = self.state.clone().lock_owned().await;
        match *state {
            DirectoryState::Made => return Ok(()),
            DirectoryState::Removed => {
                return Err(failed(&self.path, &io::Error::other("its job has ended")));
            }
            DirectoryState::Absent => {}
        }
        let (ranks, owner) = (self.ranks.clone(), self.owner);
        let made = blocking(&self.path, move |path| {
            make_here(path, &ranks, owner)?;
            *state = DirectoryState::Made;
            Ok(())
        });
        // after a failure, the next process tries it again
        made.await.map_err(|error| failed(&self.path, &error))
    }

    async fn remove(&self) {
        let mut state = self.state.clone().lock_owned().await;
        if std::mem::replace(&mut *state, DirectoryState::Removed) != DirectoryState::Made {
            return;
        }
        match blocking(&self.path, remove_tree).await {
            Ok(()) => {}
            // the server has stopped and taken all with it
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "directory of a job not removed");
            }
        }
    }
}

/// Makes a directory with one for each of these processes; all of it or nothing.
fn make_here(path: &Path, ranks: &[Rank], owner: Option<(Uid, Gid)>) -> io::Result<()> {
    let give =
        |path: &Path| owner.map_or(Ok(()), |(uid, gid)| lchown(path, Some(uid.as_raw()), Some(gid.as_raw())));
    DirBuilder::new().mode(0o700).create(path)?;
    let filled = ranks.iter().try_for_each(|rank| {
        // before the user owns the directory and may put a link there
        let of_proc = path.join(rank.to_string());
        DirBuilder::new().mode(0o700).create(&of_proc)?;
        give(&of_proc)
    });
    filled.and_then(|()| give(path)).inspect_err(|_| drop(remove_tree(path)))
}

/// The directory of a job, named by its number: a namespace may hold what a name of a file may not.
fn of_job(server: &ServerHandle, number: u32) -> PathBuf {
    server.session_dir().join(format!("job.{number}"))
}

/// A directory to start the processes of a job in, which goes with the session (SPN-02), or, for another user, with the
/// job. The server's own files are not in there.
fn work_of(server: &ServerHandle, number: u32, user: Option<&Account>) -> PathBuf {
    match user {
        None => server.session_dir().join("work"),
        Some(_) => of_job(server, number).join("work"),
    }
}

fn failed(path: &Path, error: &io::Error) -> HostError {
    let message = format!("cannot make directory {}: {error}", path.display());
    HostError::new(Account::status_of(error, Status::ERR_JOB_SYS_OP_FAILED), message)
}

async fn blocking(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let path = path.to_owned();
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(done) => done,
        Err(panic) => Err(io::Error::other(panic)),
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    fn of(path: PathBuf) -> Arc<Directory> {
        let ranks = [0, 7].map(Rank::from_raw).into();
        Arc::new(Directory { path, ranks, owner: None, state: Arc::default() })
    }

    #[tokio::test]
    async fn the_first_process_that_connects_makes_what_all_of_its_job_may_use() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("job.1");
        let directory = of(path.clone());
        for made in join_all((0..8).map(|_| directory.make())).await {
            made.unwrap();
        }
        std::fs::write(path.join("7/left"), "").unwrap();
        // the next one finds it as it is
        directory.make().await.unwrap();
        assert!(path.join("0").is_dir() && path.join("7/left").is_file());
        directory.remove().await;
        assert!(!path.exists());
        let late = directory.make().await.unwrap_err();
        assert!(late.to_string().contains("its job has ended") && !path.exists(), "{late}");
    }

    #[tokio::test]
    async fn a_job_of_which_no_process_connects_has_no_directory() {
        let root = tempfile::tempdir().unwrap();
        let directory = of(root.path().join("job.1"));
        directory.remove().await;
        directory.make().await.unwrap_err();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_made_is_tried_again_for_the_next_process() {
        let root = tempfile::tempdir().unwrap();
        let session = root.path().join("session");
        let directory = of(session.join("job.1"));
        let error = directory.make().await.unwrap_err();
        assert!(error.to_string().contains("cannot make directory"), "{error}");
        std::fs::create_dir(&session).unwrap();
        directory.make().await.unwrap();
        directory.remove().await;
        assert_eq!(std::fs::read_dir(session).unwrap().count(), 0);
    }
}
