//! Why a server cannot start.

use pmix_types::NspaceError;
use thiserror::Error;

use crate::session_dir::SessionDirError;

/// Why a server cannot start.
#[derive(Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The private directory cannot be used.
    #[error(transparent)]
    SessionDir(#[from] SessionDirError),
    /// The server's thread or runtime cannot be made.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The name given for the server is no namespace.
    #[error("server namespace: {0}")]
    Nspace(#[from] NspaceError),
    /// Connections to the socket cannot be accepted.
    #[error("cannot accept connections on the socket: {0}")]
    Socket(#[source] std::io::Error),
    /// The loopback port of the native wire cannot be opened.
    #[error("the native wire cannot start, as the loopback interface cannot be listened on: {0}")]
    Tcp(#[source] std::io::Error),
    /// The kernel does not tell who owns a loopback connection, so the native wire could not tell users apart: some
    /// containers do not let netlink SOCK_DIAG through.
    #[error(
        "the native wire cannot start, as the kernel does not tell who connects (netlink SOCK_DIAG: {0}); \
         allow it in this container or turn the native wire off"
    )]
    SockDiag(#[source] std::io::Error),
    /// There is no tokio runtime to run upcalls on.
    #[error("a server must be started from within a tokio runtime, its upcalls run there")]
    NoRuntime,
}

pmix_types::message_first!(ServerError);
