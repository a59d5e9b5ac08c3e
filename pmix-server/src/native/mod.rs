//! The native front end: OpenPMIx's own wire on loopback TCP. Programs linked with the C library become clients of the same
//! engine and share jobs with those that use `pmix-client`.
//!
//! It is thin on purpose: it checks who connects, and converts requests to those of [`pmix_types::message`] and replies back.

mod connection;
mod job;
mod owner;
mod peer;
mod translate;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pmix_native::conn::{Framing, ServerUri};
use pmix_types::ProcId;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

use crate::door::{self, Door, LogLine, Reserve, warn_with};
use crate::error::ServerError;
use crate::inbox::Inbox;
use crate::shares::Shares;
use job::JobCache;
use owner::{Owners, SocketPair};

/// Stands for a user whom the kernel does not name; no user of the system has this uid.
const UNKNOWN: u32 = u32::MAX;

/// State that all connections of a server share.
#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    server: ProcId,
    owners: Owners,
    door: Door,
    jobs: JobCache,
    /// Bytes of large frames that a process may have in transit on all its connections: one frame of the largest size.
    frames: Shares<ProcId>,
}

/// A port of the loopback interface, chosen by the system. Other machines cannot reach it.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    owners: Owners,
    door: Door,
    reserve: Reserve,
}

impl Port {
    /// Opens the port. Fails if the kernel does not report who connects, as it could be any user of the machine.
    pub(crate) fn open(server: &ProcId, door: Door) -> Result<(Self, ServerUri), ServerError> {
        let owners =
            Owners::open().map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => ServerError::Tcp(error),
                _ => ServerError::SockDiag(error),
            })?;
        let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(|listener| door::deepen(&listener).map(|()| listener))
            .and_then(TcpListener::from_std)
            .map_err(ServerError::Tcp)?;
        let address = listener.local_addr().map_err(ServerError::Tcp)?;
        let reserve = Reserve::new(door.clone()).map_err(ServerError::Tcp)?;
        Ok((Self { listener, owners, door, reserve }, ServerUri { server: server.clone(), address }))
    }

    /// Accepts connections until aborted.
    pub(crate) async fn accept(self, inbox: Inbox, server: ProcId) {
        let Self { listener, owners, door, mut reserve } = self;
        let shared = Arc::new(Shared {
            inbox,
            server,
            owners,
            door,
            jobs: JobCache::default(),
            frames: Shares::new(Framing::MAX_PAYLOAD),
        });
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    shared.receive(stream, from);
                    reserve.on_accepted().await;
                }
                Err(error) => reserve.on_error(&error).await,
            }
        }
    }
}

impl Shared {
    /// Serves a connection if its user is admitted; refuses it otherwise, before reading a byte.
    fn receive(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let unknown = |error: io::Error| {
            self.turn_away(UNKNOWN, from, &format!("the owner of its socket is unknown: {error}"));
        };
        let sockets = match SocketPair::new(&stream, from) {
            Ok(sockets) => sockets,
            Err(error) => return unknown(error),
        };
        // strangers are refused after the first query to the kernel already
        let uid = match self.owners.claimed_by(&sockets) {
            Ok(uid) => uid,
            Err(error) => return unknown(error),
        };
        let guest = match self.door.enter(uid) {
            Ok(guest) => guest,
            Err(reason) => return self.turn_away(uid, from, &reason),
        };
        match self.owners.confirm(&sockets).and_then(|()| stream.set_nodelay(true)) {
            Ok(()) => drop(tokio::spawn(connection::run(stream, sockets, uid, guest, self.clone()))),
            Err(error) => unknown(error),
        }
    }

    /// Counts and logs a connection of this user that is refused before it reaches the engine.
    fn turn_away(&self, uid: u32, from: SocketAddr, reason: &str) {
        log_refusal(self.door.turn_away(uid), uid, from, reason);
    }

    /// Logs why a connection of this user is not let in.
    fn log_refusal(&self, uid: u32, from: SocketAddr, reason: &str) {
        log_refusal(self.door.line(uid), uid, from, reason);
    }
}

fn log_refusal(leave: Option<LogLine>, uid: u32, from: SocketAddr, reason: &str) {
    let uid = (uid != UNKNOWN).then_some(uid);
    warn_with!(leave, %from, uid, reason, "refused a connection");
}
