//! The socket or port at which numbers can be read.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener as Bound;
use std::path::{Path, PathBuf};

use pmix_program::loopback::Users;
use pmix_proto::files::Directory;
use pmix_types::Uid;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::MetricsPlace;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;

/// The socket or port, open. The socket is removed when this is dropped.
#[derive(Debug)]
pub(crate) enum Door {
    Socket(UnixListener, SocketFile),
    Port(TcpListener, Users),
}

/// A socket in the file system, removed when dropped if it is still this one.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    _directory: Directory,
    /// The path by way of this directory.
    reached: PathBuf,
    /// Its file system and number there.
    id: (u64, u64),
}

/// A connection to a door.
pub(super) type Connection = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// It is in use, or cannot be made.
    pub(crate) async fn open(place: &MetricsPlace) -> Result<Self, String> {
        match place {
            MetricsPlace::Socket(path) => {
                let failed = |error: io::Error| format!("{}: {error}", path.display());
                let (directory, reached) = Directory::of(path).map_err(failed)?;
                remove_dead(&reached).await.map_err(|why| format!("{}: {why}", path.display()))?;
                let bound = bind_private(&reached).map_err(failed)?;
                let id = id_of(&reached).map_err(failed)?;
                let file = SocketFile { path: path.clone(), _directory: directory, reached, id };
                Ok(Self::Socket(UnixListener::from_std(bound).map_err(failed)?, file))
            }
            MetricsPlace::Port(address) => {
                let listener = TcpListener::bind(address).await;
                listener
                    .map(|listener| Self::Port(listener, Users::open()))
                    .map_err(|error| format!("{address}: {error}"))
            }
        }
    }

    /// The next connection, and the user who makes it, if known. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<(Connection, Option<Uid>)> {
        match self {
            Self::Socket(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| Uid::new(peer.uid()));
                let user = user.filter(|uid| !uid.is_subordinate());
                Ok((Box::new(stream), user))
            }
            Self::Port(listener, users) => {
                let (stream, from) = listener.accept().await?;
                let user = users.of(&stream, from);
                Ok((Box::new(stream), user))
            }
        }
    }

    /// The address of a port.
    pub(super) fn port(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket(..) => None,
            Self::Port(listener, _) => listener.local_addr().ok(),
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.port()) {
            (Self::Socket(_, file), _) => write!(f, "{}", file.path.display()),
            (_, Some(address)) => write!(f, "http://{address}/metrics"),
            (_, None) => write!(f, "a port"),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id_of(&self.reached).is_ok_and(|id| id == self.id)
            && let Err(error) = std::fs::remove_file(&self.reached)
        {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove the socket of the metrics");
        }
    }
}

fn id_of(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Removes the socket of a process of this user that was killed. Anything else stays, and is in the way.
async fn remove_dead(path: &Path) -> Result<(), String> {
    let Ok(there) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !there.file_type().is_socket() || there.uid() != rustix::process::geteuid().as_raw() {
        return Err("it exists and is no socket of this user".into());
    }
    // does not wait for one that takes no connections any more
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| error.to_string())
        }
        _ => Err("another process serves it".into()),
    }
}

/// A socket for this user alone from the moment it appears.
fn bind_private(path: &Path) -> io::Result<Bound> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file of a socket the mode of the socket
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(Bound::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_goes_with_its_door() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let place = MetricsPlace::Socket(path.clone());
        let door = Door::open(&place).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let problem = Door::open(&place).await.unwrap_err();
        assert!(problem.ends_with("another process serves it"), "{problem}");
        drop(door);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_killed_process_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let place = MetricsPlace::Socket(path.clone());
        drop(Bound::bind(&path).unwrap());
        let first = Door::open(&place).await.unwrap();
        // the path is another's by now
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(first);
        let problem = Door::open(&place).await.unwrap_err();
        assert!(problem.contains("no socket of this user"), "{problem}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
