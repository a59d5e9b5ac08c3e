//! The gRPC front end: accepts connections on the Unix socket, asks the kernel who is there, and carries
//! sessions to the driver and back.
//!
//! HTTP/2 is driven by hyper directly rather than by tonic's server, so that each connection's end is seen
//! with its reason, and credentials and limits are ours.

mod peer;
mod queries;
mod session;

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmix_proto::Limits;
use pmix_proto::stream::LocalStream;
use pmix_proto::v1::queries_server::QueriesServer;
use pmix_proto::v1::session_server::SessionServer;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::door::{self, Door, Guest, LogLine, Reserve, warn_with};
use crate::driver::Inbox;
use crate::engine::PeerCred;
use peer::Shared;
use queries::QueryService;
use session::SessionService;

/// Streams a connection may have open: a session, and a few unary calls beside it.
const MAX_STREAMS: u32 = 8;
/// How long a process has to read what it is told last, before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest frame: that of a whole part, so that a large body is not read in crumbs.
const FRAME: u32 = 1 << 20;

/// Services of one server; cloned per connection and request.
#[derive(Clone)]
struct Services {
    session: SessionServer<SessionService>,
    queries: QueriesServer<QueryService>,
    health: Boxed,
    reflection: Option<Boxed>,
}

/// A service whose type its crate does not name.
type Boxed = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// What is known of a connection: given to its calls.
#[derive(Debug)]
struct Connection {
    peer: PeerCred,
    /// A session has begun on it; there can be only one.
    has_session: AtomicBool,
    /// Told by its first call.
    called: Notify,
    /// Its place at the door.
    guest: Mutex<Guest>,
    /// Its session has ended, whoever has ended it.
    over: CancellationToken,
}

impl Connection {
    fn new(peer: PeerCred, guest: Guest) -> Self {
        Self {
            peer,
            has_session: AtomicBool::new(false),
            called: Notify::new(),
            guest: Mutex::new(guest),
            over: CancellationToken::new(),
        }
    }

    fn of<B>(request: &tonic::Request<B>) -> Result<&Arc<Self>, tonic::Status> {
        request.extensions().get().ok_or_else(|| tonic::Status::internal("the connection is not known"))
    }

    /// The process at its other end has been let in.
    fn let_in(&self) {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner).let_in();
    }
}

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
        calls.called.notify_one();
        request.extensions_mut().insert(calls.clone());
        services.clone().call(request.map(Body::new))
    });
    let mut serving = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .serve_connection(TokioIo::new(stream), service)
    );
    let first_call = async {
        tokio::select! {
            served = serving.as_mut() => Some(served),
            () = connection.called.notified() => None,
        }
    };
    let served = match tokio::time::timeout(session::HELLO_WITHIN, first_call).await {
        Ok(Some(served)) => served,
        Ok(None) => {
            tokio::select! {
                served = serving.as_mut() => served,
                () = connection.over.cancelled() => {
                    // what was said last is still on its way; nobody keeps a place for having been here
                    serving.as_mut().graceful_shutdown();
                    tokio::time::timeout(LAST_WORDS, serving).await.unwrap_or(Ok(()))
                }
            }
        }
        Err(_) => {
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
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<SessionServer<SessionService>>().await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(pmix_proto::FILE_DESCRIPTOR_SET)
            .build_v1();
        Self {
            session: SessionServer::new(SessionService(shared.clone()))
                .max_decoding_message_size(limits.message_bytes),
            queries: QueriesServer::new(QueryService(shared)).max_decoding_message_size(limits.message_bytes),
            health: Boxed::new(health),
            reflection: reflection.ok().map(Boxed::new),
        }
    }

    /// Hands a call to the service its path names.
    async fn call(mut self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        match (service, &mut self.reflection) {
            ("pmix.v1.Session", _) => self.session.call(request).await,
            ("pmix.v1.Queries", _) => self.queries.call(request).await,
            ("grpc.health.v1.Health", _) => self.health.call(request).await,
            ("grpc.reflection.v1.ServerReflection", Some(reflection)) => reflection.call(request).await,
            _ => Ok(tonic::Status::unimplemented("no such service").into_http()),
        }
    }
}
