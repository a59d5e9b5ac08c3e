//! Why a server cannot start.

use pmix_types::{NspaceError, Status};
use thiserror::Error;

use crate::session_dir::SessionDirError;

/// Why a server cannot start.
#[derive(Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The private directory cannot be used.
    #[error(transparent)]
    SessionDir(#[from] SessionDirError),
    /// The server's thread or runtime cannot be created.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The name given to the server is not a valid namespace.
    #[error("invalid namespace for the server: {0}")]
    Nspace(#[from] NspaceError),
    /// The server cannot accept connections on the socket.
    #[error("cannot accept connections on the socket: {0}")]
    Socket(#[source] std::io::Error),
    /// The loopback port of the native wire cannot be opened.
    #[error("the native wire cannot start: cannot listen on the loopback interface: {0}")]
    Tcp(#[source] std::io::Error),
    /// The kernel does not report the owner of a loopback connection, so the native wire could not tell users apart. Some
    /// containers block netlink SOCK_DIAG.
    #[error(
        "the native wire cannot start: the kernel does not report who connects (netlink SOCK_DIAG: {0}); \
         allow SOCK_DIAG in this container or turn the native wire off"
    )]
    SockDiag(#[source] std::io::Error),
    /// The loopback port for PMI-1 cannot be opened, or the kernel does not report who connects to it.
    #[error("cannot open the port for PMI-1: {0}; use Pmi1Wire::Inherited, for which no port is needed")]
    Pmi1(#[source] std::io::Error),
    /// There is no tokio runtime to run upcalls on.
    #[error("start the server from within a tokio runtime, on which its upcalls run")]
    NoRuntime,
}

#[cfg(feature = "pmi1")]
impl ServerError {
    /// The same failure of the port for PMI-1.
    pub(crate) fn of_pmi1(self) -> Self {
        match self {
            Self::Tcp(error) | Self::SockDiag(error) => Self::Pmi1(error),
            other => other,
        }
    }
}

pmix_types::message_first!(ServerError);
pmix_types::statuses! {
    ServerError,
    "that of its cause; `ERR_OUT_OF_RESOURCE` without a thread, `ERR_NOT_SUPPORTED` if the kernel does not report who \
     connects, `ERR_INIT` without a runtime",
    |this| match this {
        Self::SessionDir(error) => error.status(),
        Self::Nspace(error) => error.status(),
        Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        Self::Socket(_) | Self::Tcp(_) | Self::Pmi1(_) => Status::ERR_COMM_FAILURE,
        Self::SockDiag(_) => Status::ERR_NOT_SUPPORTED,
        Self::NoRuntime => Status::ERR_INIT,
    };
}
