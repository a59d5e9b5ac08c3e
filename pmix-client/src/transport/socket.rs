use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use pmix_proto::stream::LocalStream;
use rustix::fs::{Mode, OFlags};
use tokio::net::UnixStream;

use crate::error::{Error, TransportError};

/// Longest path in bytes that the address of a Unix socket holds.
const MAX_PATH: usize = 107;

/// Connects to the socket at a path of any length.
pub(super) async fn connect(path: &Path) -> Result<LocalStream, Error> {
    let connected = connect_any_length(path).await.and_then(|socket| LocalStream::new(socket.into_std()?));
    connected.map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::NotFound => {
                "there is no such socket; the server has ended, or the URI is an old one"
            }
            io::ErrorKind::ConnectionRefused => "nobody listens there; the server has ended",
            io::ErrorKind::PermissionDenied => "it is closed to this user",
            _ => "the operating system does not let us",
        };
        let address = path.display().to_string();
        Error::Transport(Box::new(TransportError {
            address,
            problem: problem.to_owned(),
            source: Some(error),
        }))
    })
}

async fn connect_any_length(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= MAX_PATH {
        return UnixStream::connect(path).await;
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // through an open directory the path is short, whatever the directory is called
    let directory =
        rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    UnixStream::connect(below(directory.as_raw_fd(), name)).await
}

fn below(directory: i32, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.to_string()).join(name)
}
