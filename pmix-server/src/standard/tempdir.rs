//! Where the processes of a job keep what only lives as long as the job: a directory on each node, below that of the
//! node's server.
//!
//! MPI libraries make directories of their own if they are given none, and leave them behind when they are killed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pmix_types::job::JobSpec;
use pmix_types::{Status, keys};

use crate::handle::ServerHandle;
use crate::host::{HostError, HostResult};

/// The directory of a job, named by its number: a namespace may hold what a name of a file may not.
fn of_job(server: &ServerHandle, number: u32) -> PathBuf {
    server.session_dir().join(format!("job.{number}"))
}

/// Makes the directory of a job on the node of a server; the job as the processes there are told of it.
pub(super) async fn make(server: &ServerHandle, number: u32, spec: JobSpec) -> HostResult<JobSpec> {
    let path = of_job(server, number);
    // a string is all that processes can be told
    let (Some(top), Some(dir)) = (server.session_dir().to_str(), path.to_str()) else { return Ok(spec) };
    let spec =
        spec.session_info(&keys::TMPDIR, top).session_info(&keys::TDIR_RMCLEAN, true).info(&keys::NSDIR, dir);
    let failed = |error: &io::Error| {
        HostError::new(Status::ERROR, format!("cannot make directory {}: {error}", path.display()))
    };
    blocking(&path, |path| DirBuilder::new().mode(0o700).create(path))
        .await
        .map_err(|error| failed(&error))?;
    Ok(spec)
}

/// Removes what a job has left in its directory, and that.
pub(super) async fn remove(server: &ServerHandle, number: u32) {
    let path = of_job(server, number);
    match blocking(&path, |path| fs::remove_dir_all(path)).await {
        Ok(()) => {}
        // it did not start, or the server has stopped and taken all with it
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "directory of a job not removed"),
    }
}

async fn blocking(path: &Path, work: fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let path = path.to_owned();
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(done) => done,
        Err(panic) => Err(io::Error::other(panic)),
    }
}
