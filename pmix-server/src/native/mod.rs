//! The native front end: OpenPMIx's own wire on loopback TCP, so that programs linked with the C library are clients
//! of the same engine and sit in the same jobs as those of `pmix-client`.
//!
//! Thin on purpose: it checks who connects, turns requests into those of [`pmix_types::message`], and replies back.

mod job;
mod owner;
mod peer;
mod session;
mod translate;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pmix_native::conn::ServerUri;
use pmix_types::ProcId;
use rustix::process::geteuid;
use tokio::net::{TcpListener, TcpStream};

use crate::driver::Inbox;
use crate::server::ServerError;
use job::JobCache;
use owner::{Connection, Owners};

/// What all sessions of the listener share.
#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    server: ProcId,
    owners: Owners,
    jobs: JobCache,
}

/// A port of the loopback interface that the system chose; nothing else can ever reach it.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    owners: Owners,
    other_users: bool,
}

impl Port {
    /// Listens. Refused where the kernel does not tell who connects: any user of the machine could be it.
    pub(crate) fn open(server: &ProcId, other_users: bool) -> Result<(Self, ServerUri), ServerError> {
        let owners = Owners::open().map_err(ServerError::SockDiag)?;
        let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(TcpListener::from_std)
            .map_err(ServerError::Tcp)?;
        let address = listener.local_addr().map_err(ServerError::Tcp)?;
        Ok((Self { listener, owners, other_users }, ServerUri { server: server.clone(), address }))
    }

    /// Accepts connections until aborted.
    pub(crate) async fn accept(self, inbox: Inbox, server: ProcId) {
        let Self { listener, owners, other_users } = self;
        let shared = Arc::new(Shared { inbox, server, owners, jobs: JobCache::default() });
        loop {
            match listener.accept().await {
                Ok((stream, from)) => match who(&stream, from, &shared.owners, other_users) {
                    Ok((connection, uid)) => {
                        tokio::spawn(session::run(stream, connection, uid, shared.clone()));
                    }
                    Err(reason) => tracing::warn!(%from, %reason, "refused a connection"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// Who has connected. Users who have no business here are refused before a byte of theirs is read.
fn who(
    stream: &TcpStream,
    from: SocketAddr,
    owners: &Owners,
    other_users: bool,
) -> io::Result<(Connection, u32)> {
    stream.set_nodelay(true)?;
    let connection = Connection::new(stream, from, stream.local_addr()?)?;
    let uid = owners.uid_of(&connection).map_err(|error| {
        io::Error::new(error.kind(), format!("the owner of its socket is not known: {error}"))
    })?;
    let own = geteuid().as_raw();
    if other_users || [own, 0].contains(&uid) {
        return Ok((connection, uid));
    }
    let message = format!("its socket belongs to uid {uid}, and this server serves uid {own} only");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
