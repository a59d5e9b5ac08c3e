use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_proto::stream::LocalStream;
use pmix_types::Uid;
use rustix::fs::{Mode, OFlags};
use tokio::net::UnixStream;

use crate::error::{Error, TransportError};

/// How long connecting pauses while as many processes wait to be accepted as the system lets wait.
const CONNECT_AGAIN: Duration = Duration::from_millis(10);
/// Longest path in bytes that the address of a Unix socket holds.
const MAX_PATH: usize = 107;

/// Connects to the socket at a path of any length; also the user who listens there, if the system tells.
pub(super) async fn connect(path: &Path) -> Result<(LocalStream, Option<Uid>), Error> {
    let connected = connect_any_length(path).await.and_then(|socket| {
        let owner = socket.peer_cred().ok().map(|peer| Uid::new(peer.uid()));
        Ok((LocalStream::new(socket.into_std()?)?, owner))
    });
    connected.map_err(|error| failure(path, error))
}

fn failure(path: &Path, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such socket; the server has ended, the URI is an old one, or this is a container: then mount \
             the socket's directory into it under the same path"
        }
        io::ErrorKind::ConnectionRefused => "nothing listens there; the server has ended",
        io::ErrorKind::PermissionDenied => {
            "this user has no permission; a container must run as the user who started the server (podman: --userns \
             keep-id)"
        }
        _ => "the operating system reports an error",
    };
    let address = path.display().to_string();
    Error::Transport(Box::new(TransportError { address, problem: problem.to_owned(), source: Some(error) }))
}

async fn connect_any_length(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= MAX_PATH {
        return connect_in_turn(path).await;
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // through an open directory the path is short, whatever the directory is called
    let directory =
        rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    connect_in_turn(&below(directory.as_raw_fd(), name)).await
}

/// A socket with a full queue of connections turns others away, where a port would let them wait. The server lives, so
/// there will be room.
async fn connect_in_turn(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep_until(tokio::time::Instant::now() + CONNECT_AGAIN).await;
            }
            connected => return connected,
        }
    }
}

fn below(directory: i32, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.to_string()).join(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use pmix_test_wait::within;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_a_container_does_not_have_is_named_with_what_to_mount() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("not/there");
        let error = connect(&path).await.unwrap_err().to_string();
        assert!(
            error.contains(path.to_str().unwrap()) && error.contains("mount the socket's directory"),
            "{error}"
        );
    }

    #[test]
    fn a_socket_of_somebody_else_is_told_from_one_that_is_not_there() {
        let error = failure(Path::new("/there"), io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(error.contains("/there") && error.contains("this user has no permission"), "{error}");
        assert!(error.contains("a container must run as the user who started the server"), "{error}");
    }

    #[tokio::test]
    async fn a_full_queue_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        // the queue of length 0 takes one
        let _first = within(connect(&path)).await.unwrap();
        let mut next = Box::pin(connect(&path));
        tokio::time::pause();
        assert!(tokio::time::timeout(10 * CONNECT_AGAIN, &mut next).await.is_err());
        tokio::time::resume();
        listener.accept().unwrap();
        within(next).await.unwrap();
    }
}
