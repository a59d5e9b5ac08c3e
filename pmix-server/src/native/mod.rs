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

use pmix_native::conn::{Framing, ServerUri};
use pmix_types::ProcId;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

use crate::door::{self, Door, LogLine, Reserve, warn_with};
use crate::error::ServerError;
use crate::inbox::Inbox;
use crate::shares::Shares;
use job::JobCache;
use owner::{Connection, Owners};

/// Stands for a user whom the kernel does not name; the system gives this number to nobody.
const UNKNOWN: u32 = u32::MAX;

/// What all sessions of the listener share.
#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    server: ProcId,
    owners: Owners,
    door: Door,
    jobs: JobCache,
    /// Bytes of frames that are being read, of all connections of a process: one of the largest.
    frames: Shares<ProcId>,
}

/// A port of the loopback interface that the system chose; nothing else can ever reach it.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    owners: Owners,
    door: Door,
    reserve: Reserve,
}

impl Port {
    /// Listens. Refused where the kernel does not tell who connects: any user of the machine could be it.
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
    /// Serves a connection if its user has business here; others are turned away before a byte of theirs is read.
    fn receive(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let unknown = |error: io::Error| {
            self.turn_away(UNKNOWN, from, &format!("the owner of its socket is not known: {error}"));
        };
        let connection = match Connection::new(&stream, from) {
            Ok(connection) => connection,
            Err(error) => return unknown(error),
        };
        // whoever has no business here is not worth the second question
        let uid = match self.owners.claimed_by(&connection) {
            Ok(uid) => uid,
            Err(error) => return unknown(error),
        };
        let guest = match self.door.enter(uid) {
            Ok(guest) => guest,
            Err(reason) => return self.turn_away(uid, from, &reason),
        };
        match self.owners.confirm(&connection).and_then(|()| stream.set_nodelay(true)) {
            Ok(()) => drop(tokio::spawn(session::run(stream, connection, uid, guest, self.clone()))),
            Err(error) => unknown(error),
        }
    }

    /// Counts a connection of that user that is turned away before the engine sees it, and says why.
    fn turn_away(&self, uid: u32, from: SocketAddr, reason: &str) {
        log_refusal(self.door.turn_away(uid), uid, from, reason);
    }

    /// Says why a connection of that user is not let in.
    fn log_refusal(&self, uid: u32, from: SocketAddr, reason: &str) {
        log_refusal(self.door.line(uid), uid, from, reason);
    }
}

fn log_refusal(leave: Option<LogLine>, uid: u32, from: SocketAddr, reason: &str) {
    let uid = (uid != UNKNOWN).then_some(uid);
    warn_with!(leave, %from, uid, reason, "refused a connection");
}
