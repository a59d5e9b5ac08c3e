//! The native front end: OpenPMIx's own wire on loopback TCP. Programs linked with the C library become clients of the same
//! engine and share jobs with those that use `pmix-client`.
//!
//! It is thin on purpose: it checks who connects, and converts requests to those of [`pmix_types::message`] and replies back.

mod connection;
mod distances;
mod job;
mod peer;
mod translate;

use std::net::SocketAddr;
use std::sync::Arc;

use pmix_native::conn::ServerUri;
use pmix_types::{ProcId, Uid};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::door::Door;
use crate::error::ServerError;
use crate::inbox::Inbox;
use crate::loopback::{Loopback, log_refusal};
use crate::shares::Shares;
use distances::Distances;
use job::JobCache;
use pmix_proto::owner::Owners;

/// State that all connections of a server share.
#[derive(Debug)]
struct NativeShared {
    inbox: Inbox,
    server: ProcId,
    owners: Arc<Owners>,
    door: Door,
    jobs: JobCache,
    distances: Distances,
    /// Bytes of large frames that a process may have in transit on all its connections: one frame of the largest size.
    frames: Shares<ProcId, Semaphore>,
}

/// A port of the loopback interface, chosen by the system. Other machines cannot reach it.
#[derive(Debug)]
pub(crate) struct NativePort {
    loopback: Loopback,
    door: Door,
}

impl NativePort {
    /// Opens the port. Fails if the kernel does not report who connects, as it could be any user of the machine.
    pub(crate) fn open(server: &ProcId, door: Door) -> Result<(Self, ServerUri), ServerError> {
        let (loopback, address) = Loopback::open(door.clone())?;
        Ok((Self { loopback, door }, ServerUri { server: server.clone(), address }))
    }

    /// Accepts connections until aborted. They are tracked.
    pub(crate) async fn accept(self, inbox: Inbox, server: ProcId, connections: TaskTracker) {
        let Self { loopback, door } = self;
        let shared = Arc::new(NativeShared {
            inbox,
            server,
            owners: loopback.owners(),
            door,
            jobs: JobCache::default(),
            distances: Distances::default(),
            frames: Shares::new(),
        });
        loopback.accept(|arrival| drop(connections.spawn(connection::run(arrival, shared.clone())))).await;
    }
}

impl NativeShared {
    /// Counts and logs a connection of this user that is refused before it reaches the engine.
    fn turn_away(&self, uid: Uid, from: SocketAddr, reason: &str) {
        log_refusal(self.door.turn_away(uid), uid, from, reason);
    }

    /// Logs why a connection of this user is not let in.
    fn log_refusal(&self, uid: Uid, from: SocketAddr, reason: &str) {
        log_refusal(self.door.line(uid), uid, from, reason);
    }
}
