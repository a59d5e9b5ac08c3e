//! The gRPC front end: accepts connections on the Unix socket, asks the kernel who is there, and carries
//! sessions to the driver and back.
//!
//! HTTP/2 is driven by hyper directly rather than by tonic's server, so that each connection's end is seen
//! with its reason, and credentials and limits are ours.

mod connection;
mod frames;
mod peer;
mod queries;
mod session;

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmix_proto::Limits;
use pmix_proto::stream::LocalStream;
use pmix_proto::v1::queries_server::QueriesServer;
use pmix_proto::v1::session_server::SessionServer;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::door::{self, Door, Guest, LogLine, Reserve, warn_with};
use crate::inbox::Inbox;
use connection::{Connection, Metered, Paced};
use frames::Counted;
use peer::Shared;
use pmix_engine::PeerCred;
use queries::QueryService;
use session::SessionService;

/// How long a process has to read what it is told last, before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a connection may have on its way at a time. HTTP/2 fixes it before anybody is let in.
struct Flow {
    /// Streams that may be open: a session, and unary calls beside it.
    streams: u32,
    stream_window: u32,
    connection_window: u32,
    /// Largest frame.
    frame: u32,
}

impl Flow {
    /// Frames hold a whole part, so that a large body is not read in crumbs.
    const OWN: Self = Self { streams: 8, stream_window: 1 << 20, connection_window: 4 << 20, frame: 1 << 20 };
    /// Of other users anybody may come, so there is only as much as is needed to say who it is.
    const OTHERS: Self =
        Self { streams: 2, stream_window: 64 << 10, connection_window: 64 << 10, frame: 16 << 10 };
}

/// Services of one server; cloned per connection and request.
#[derive(Clone)]
struct Services {
    session: SessionServer<SessionService>,
    queries: QueriesServer<QueryService>,
    /// Those of other crates, by name.
    others: Vec<(&'static str, Boxed)>,
}

/// A service whose type its crate does not name.
type Boxed = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The socket of the server, and who may come in.
#[derive(Debug)]
pub(crate) struct Port {
    listener: UnixListener,
    door: Door,
    reserve: Reserve,
}

impl Port {
    pub(crate) fn new(listener: UnixListener, door: Door) -> io::Result<Self> {
        door::deepen(&listener)?;
        let reserve = Reserve::new(door.clone())?;
        Ok(Self { listener, door, reserve })
    }

    /// Accepts connections until its task is dropped.
    pub(crate) async fn accept(self, inbox: Inbox, limits: Limits, connections: TaskTracker) {
        let Self { listener, door, mut reserve } = self;
        let services = Services::new(inbox, limits, door.clone()).await;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    match receive(stream, &door) {
                        Ok((stream, peer, guest)) => {
                            connections.spawn(serve(stream, peer, guest, services.clone(), door.clone()));
                        }
                        Err((uid, reason)) => {
                            warn_with!(door.turn_away(uid), uid, reason, "refused a connection");
                        }
                    }
                    reserve.on_accepted().await;
                }
                Err(error) => reserve.on_error(&error).await,
            }
        }
    }
}

/// Asks the kernel who is there, and the door whether there is a place; else who is refused, and why.
fn receive(stream: UnixStream, door: &Door) -> Result<(LocalStream, PeerCred, Guest), (u32, String)> {
    let own = rustix::process::geteuid().as_raw();
    let broken = |error: io::Error| (own, format!("its socket cannot be used: {error}"));
    let cred = stream.peer_cred().map_err(broken)?;
    let peer = PeerCred { uid: cred.uid(), gid: Some(cred.gid()), pid: cred.pid() };
    let guest = door.enter(peer.uid).map_err(|reason| (peer.uid, reason))?;
    let stream = stream.into_std().and_then(LocalStream::new).map_err(broken)?;
    Ok((stream, peer, guest))
}

async fn serve(stream: LocalStream, peer: PeerCred, guest: Guest, services: Services, door: Door) {
    let connection = Arc::new(Connection::new(peer, guest));
    let calls = connection.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        calls.on_call();
        request.extensions_mut().insert(calls.clone());
        let calls = calls.clone();
        services.clone().call(request.map(|body| Body::new(Metered::new(body, calls))))
    });
    let flow = if connection.is_other() { Flow::OTHERS } else { Flow::OWN };
    let mut serving = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(flow.streams)
            .initial_stream_window_size(flow.stream_window)
            .initial_connection_window_size(flow.connection_window)
            .max_frame_size(flow.frame)
            .serve_connection(TokioIo::new(Counted::new(stream, connection.clone())), service)
    );
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = connection.over.cancelled() => {
            // what was said last is still on its way; nobody keeps a place for having been here
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_WORDS, serving).await.unwrap_or(Ok(()))
        }
        () = connection.overdue() => {
            let PeerCred { uid, pid, .. } = peer;
            let leave = door.turn_away(uid);
            warn_with!(leave, uid, pid, "refused a connection: it did not ask for anything in time");
            return;
        }
    };
    if let Err(error) = served {
        let has_session = connection.has_session.load(Ordering::Relaxed);
        log_end(peer, &error, || if has_session { door.line(peer.uid) } else { door.turn_away(peer.uid) });
    }
}

/// A connection that broke the protocol is worth a warning; one whose process just went away is not.
fn log_end(peer: PeerCred, error: &hyper::Error, leave: impl FnOnce() -> Option<LogLine>) {
    let reason = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let PeerCred { uid, pid, .. } = peer;
    let broken = std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .is_some_and(|io| io.kind() != io::ErrorKind::InvalidData);
    if error.is_canceled() || error.is_closed() || error.is_incomplete_message() || broken {
        tracing::debug!(uid, pid, reason, "a connection ended");
    } else {
        warn_with!(leave(), uid, pid, reason, "refused a connection that does not speak the protocol");
    }
}

impl Services {
    async fn new(inbox: Inbox, limits: Limits, door: Door) -> Self {
        let shared = Arc::new(Shared::new(inbox, limits, door));
        Self {
            session: SessionServer::new(SessionService(shared.clone()))
                .max_decoding_message_size(limits.message_bytes),
            queries: QueriesServer::new(QueryService(shared)).max_decoding_message_size(limits.message_bytes),
            others: others().await,
        }
    }

    /// Hands a call to the service its path names.
    async fn call(mut self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        match service {
            "pmix.v1.Session" => {
                let connection = request.extensions().get::<Arc<Connection>>().cloned();
                let answer = self.session.call(request).await;
                match connection {
                    Some(connection) => {
                        answer.map(|answer| answer.map(|body| Body::new(Paced::new(body, connection))))
                    }
                    None => answer,
                }
            }
            "pmix.v1.Queries" => self.queries.call(request).await,
            _ => match self.others.iter_mut().find(|(name, _)| *name == service) {
                Some((_, other)) => other.call(request).await,
                None => Ok(tonic::Status::unimplemented("no such service").into_http()),
            },
        }
    }
}

/// Services that say something of a server to any gRPC client.
#[allow(clippy::unused_async, reason = "without the feature `health` there is nothing to await")]
async fn others() -> Vec<(&'static str, Boxed)> {
    #[allow(unused_mut, reason = "each feature adds one")]
    let mut others: Vec<(&'static str, Boxed)> = Vec::new();
    #[cfg(feature = "health")]
    {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<SessionServer<SessionService>>().await;
        others.push(("grpc.health.v1.Health", Boxed::new(health)));
    }
    #[cfg(feature = "reflection")]
    {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(pmix_proto::FILE_DESCRIPTOR_SET)
            .build_v1();
        others.extend(
            reflection.ok().map(|service| ("grpc.reflection.v1.ServerReflection", Boxed::new(service))),
        );
    }
    others
}
