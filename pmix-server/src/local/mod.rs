//! The front end of our own messages, in frames and by gRPC: accepts connections on the Unix socket, asks the kernel for the peer's
//! credentials, and passes messages between processes and the driver.

mod connection;
mod files;
mod framed;
#[cfg(feature = "grpc")]
mod grpc;
mod peer;
mod session;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pmix_proto::Limits;
use pmix_proto::frames::PREFACE;
use pmix_proto::proof::QUESTION;
use pmix_proto::stream::LocalStream;
use pmix_types::Uid;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

use crate::account::own_uid;
use crate::door::{self, Door, Guest, Reserve, warn_with};
use crate::inbox::Inbox;
use connection::Connection;
#[cfg(feature = "grpc")]
use grpc::Services;
use peer::LocalShared;
use pmix_engine::PeerCred;

/// How long a process may take to read its last messages before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Services of a server that speaks in frames alone.
#[cfg(not(feature = "grpc"))]
#[derive(Clone)]
struct Services(Arc<LocalShared>);

#[cfg(not(feature = "grpc"))]
impl Services {
    fn shared(self) -> Arc<LocalShared> {
        self.0
    }
}

/// The socket of the server, and its door.
#[derive(Debug)]
pub(crate) struct LocalPort {
    listener: UnixListener,
    door: Door,
    reserve: Reserve,
}

impl LocalPort {
    pub(crate) fn new(listener: UnixListener, door: Door) -> io::Result<Self> {
        door::deepen(&listener)?;
        let reserve = Reserve::new(door.clone())?;
        Ok(Self { listener, door, reserve })
    }

    /// Accepts connections until its task is dropped.
    pub(crate) async fn accept(self, inbox: Inbox, limits: Limits, connections: TaskTracker) {
        let Self { listener, door, mut reserve } = self;
        let shared = Arc::new(LocalShared::new(inbox, limits, door.clone()));
        #[cfg(feature = "grpc")]
        let services = Services::new(shared, limits).await;
        #[cfg(not(feature = "grpc"))]
        let services = Services(shared);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    match receive(&stream, &door) {
                        Ok((peer, guest)) => {
                            connections.spawn(serve(stream, peer, guest, services.clone(), door.clone()));
                        }
                        Err((uid, reason)) => {
                            warn_with!(
                                door.turn_away(uid),
                                uid = uid.as_raw(),
                                reason,
                                "refused a connection"
                            );
                        }
                    }
                    reserve.on_accepted().await;
                }
                Err(error) => reserve.on_error(&error).await,
            }
        }
    }
}

/// Asks the kernel for the credentials, and the door for a place. An error names the refused uid and the reason.
fn receive(stream: &UnixStream, door: &Door) -> Result<(PeerCred, Guest), (Uid, String)> {
    let broken = |error: io::Error| (own_uid(), format!("its socket cannot be used: {error}"));
    let cred = stream.peer_cred().map_err(broken)?;
    let peer = PeerCred { uid: cred.uid().into(), gid: Some(cred.gid().into()), pid: cred.pid() };
    let guest = door.enter(peer.uid).map_err(|reason| (peer.uid, reason))?;
    Ok((peer, guest))
}

/// Serves a connection on the wire that its first byte tells, after the question that may come before that.
async fn serve(mut stream: UnixStream, peer: PeerCred, guest: Guest, services: Services, door: Door) {
    let connection = Arc::new(Connection::new(peer, guest));
    let begun = async {
        let mut first = framed::first_byte(&stream).await?;
        if first == Some(QUESTION[0]) {
            let (mut reader, mut writer) = stream.split();
            door.secrets().answer(peer.uid, &[], &mut reader, &mut writer).await?;
            first = framed::first_byte(&stream).await?;
        }
        let mut stream = LocalStream::new(stream.into_std()?)?;
        let is_framed = first == Some(PREFACE[0]);
        if is_framed {
            framed::preface(&mut stream).await?;
        }
        io::Result::Ok((stream, is_framed))
    };
    let begun = tokio::select! {
        begun = begun => begun,
        () = connection.overdue() => return log_overdue(peer, &door),
    };
    let PeerCred { uid, pid, .. } = peer;
    match begun {
        Ok((stream, true)) => framed::serve(stream, connection, services.shared()).await,
        #[cfg(feature = "grpc")]
        Ok((stream, false)) => grpc::serve(stream, connection, services, door).await,
        #[cfg(not(feature = "grpc"))]
        Ok(_) => {
            let reason = "this server was built without gRPC";
            warn_with!(door.turn_away(uid), uid = uid.as_raw(), pid, reason, "refused a connection");
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let reason = error.to_string();
            warn_with!(
                door.turn_away(uid),
                uid = uid.as_raw(),
                pid,
                reason,
                "refused a connection that does not speak the protocol"
            );
        }
        Err(error) => tracing::debug!(uid = uid.as_raw(), pid, %error, "a connection ended"),
    }
}

fn log_overdue(PeerCred { uid, pid, .. }: PeerCred, door: &Door) {
    let leave = door.turn_away(uid);
    warn_with!(leave, uid = uid.as_raw(), pid, "refused a connection: no request arrived in time");
}
