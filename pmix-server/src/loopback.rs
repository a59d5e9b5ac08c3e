//! A port of the loopback interface on which the kernel says who connects. Other machines cannot reach it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pmix_types::Uid;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

use crate::door::{self, Door, Guest, LogLine, Reserve, warn_with};
use crate::error::ServerError;
use pmix_proto::owner::{Owners, SocketPair};

/// The port, chosen by the system.
#[derive(Debug)]
pub(crate) struct Loopback {
    listener: TcpListener,
    owners: Arc<Owners>,
    door: Door,
    reserve: Reserve,
}

/// A connection of a user who is admitted.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    pub(crate) sockets: SocketPair,
    /// The user to whom its other end belongs.
    pub(crate) uid: Uid,
    pub(crate) guest: Guest,
}

impl Loopback {
    /// Opens the port. Fails if the kernel does not report who connects, as it could be any user of the machine.
    pub(crate) fn open(door: Door) -> Result<(Self, SocketAddr), ServerError> {
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
        Ok((Self { listener, owners: Arc::new(owners), door, reserve }, address))
    }

    /// Whom the kernel is asked about owners.
    pub(crate) fn owners(&self) -> Arc<Owners> {
        self.owners.clone()
    }

    /// Accepts connections until aborted. Those of users who are not admitted are refused before a byte is read.
    pub(crate) async fn accept(mut self, serve: impl Fn(Arrival)) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    if let Some(arrival) = self.receive(stream, from) {
                        serve(arrival);
                    }
                    self.reserve.on_accepted().await;
                }
                Err(error) => self.reserve.on_error(&error).await,
            }
        }
    }

    fn receive(&self, stream: TcpStream, from: SocketAddr) -> Option<Arrival> {
        let refused = |uid: Option<Uid>, reason: &str| {
            log_refusal(self.door.turn_away(uid), uid, from, reason);
            None
        };
        let unknown =
            |error: io::Error| refused(None, &format!("the owner of its socket is unknown: {error}"));
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
            Err(reason) => return refused(Some(uid), &reason),
        };
        match self.owners.confirm(&sockets).and_then(|()| stream.set_nodelay(true)) {
            Ok(()) => Some(Arrival { stream, sockets, uid, guest }),
            Err(error) => unknown(error),
        }
    }
}

/// Logs why a connection of this user, or of an unknown one, is refused, if there is a line for it.
pub(crate) fn log_refusal(
    leave: Option<LogLine>,
    uid: impl Into<Option<Uid>>,
    from: SocketAddr,
    reason: &str,
) {
    let uid = uid.into().map(Uid::as_raw);
    warn_with!(leave, %from, uid, reason, "refused a connection");
}
