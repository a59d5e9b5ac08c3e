//! A directory on each node, below that of the node's server, in which the processes of a job keep files that live no
//! longer than the job.
//!
//! MPI libraries make directories of their own if they are given none, and leave them behind when they are killed. Nobody
//! but the job's user can enter it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use pmix_types::job::JobSpec;
use pmix_types::{Status, keys};

use pmix_server::Account;
use pmix_server::ServerHandle;
use pmix_server::host::{HostError, HostResult};
use pmix_server::remove_tree;

use super::node::NodeJob;

/// The directory of a job, named by its number: a namespace may hold what a name of a file may not.
fn of_job(server: &ServerHandle, number: u32) -> PathBuf {
    server.session_dir().join(format!("job.{number}"))
}

/// Makes the directory of a job on the node of a server, and in it one for each of its processes there; returns the job with
/// the directories that its processes are told.
///
/// Processes of another user are not told the server's directory, which is not for their files, but the job's.
pub(crate) async fn make(
    server: &ServerHandle,
    number: u32,
    job: NodeJob,
    user: Option<&Account>,
) -> HostResult<JobSpec> {
    let NodeJob { spec, here, in_session } = job;
    let path = of_job(server, number);
    let work = work_of(server, number, user);
    let told = in_session.into_iter().filter_map(|app| Some((app, work.to_str()?)));
    let spec = told.fold(spec, |spec, (app, work)| spec.app_info(app, &keys::WDIR, work));
    let top = if user.is_some() { &path } else { server.session_dir() };
    // a string is all that processes can be told
    let (Some(top), Some(dir)) = (top.to_str(), path.to_str()) else { return Ok(spec) };
    let spec =
        spec.session_info(&keys::TMPDIR, top).session_info(&keys::TDIR_RMCLEAN, true).info(&keys::NSDIR, dir);
    let ranks = here.iter().map(|proc| proc.rank);
    let spec =
        ranks.clone().fold(spec, |spec, rank| spec.proc_info(rank, &keys::PROCDIR, format!("{dir}/{rank}")));
    let names: Vec<_> = ranks.map(|rank| rank.to_string()).collect();
    let owner = user.map(|user| (user.uid(), user.gid()));
    let make = move |path: &Path| {
        let make = |path: &Path| {
            DirBuilder::new().mode(0o700).create(path)?;
            owner.map_or(Ok(()), |(uid, gid)| lchown(path, Some(uid), Some(gid)))
        };
        // before the user owns the directory and may put a link there
        DirBuilder::new().mode(0o700).create(path)?;
        names.iter().try_for_each(|name| make(&path.join(name)))?;
        owner.map_or(Ok(()), |(uid, gid)| lchown(path, Some(uid), Some(gid)))
    };
    blocking(&path, make).await.map_err(|error| failed(&path, &error))?;
    Ok(spec)
}

/// A directory to start the processes of a job in, which goes with the session (SPN-02), or, for another user, with the
/// job. The server's own files are not in there.
fn work_of(server: &ServerHandle, number: u32, user: Option<&Account>) -> PathBuf {
    match user {
        None => server.session_dir().join("work"),
        Some(_) => of_job(server, number).join("work"),
    }
}

/// Makes the directory to start the processes of a job in.
pub(crate) async fn work_dir(
    server: &ServerHandle,
    number: u32,
    user: Option<&Account>,
) -> HostResult<String> {
    let make = |path: &Path| DirBuilder::new().mode(0o700).recursive(true).create(path);
    let path = work_of(server, number, user);
    let made = match user {
        None => blocking(&path, make).await,
        Some(user) => {
            let named = path.clone();
            // other processes of the user may be at work there
            user.with_rights(move || make(&named)).await.flatten()
        }
    };
    made.map_err(|error| failed(&path, &error))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Removes what a job has left in its directory, and that.
pub(crate) async fn remove(server: &ServerHandle, number: u32) {
    let path = of_job(server, number);
    match blocking(&path, remove_tree).await {
        Ok(()) => {}
        // it did not start, or the server has stopped and taken all with it
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "directory of a job not removed"),
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
