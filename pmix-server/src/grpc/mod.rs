//! The gRPC front end: accepts connections on the Unix socket, asks the kernel who is there, and carries
//! sessions to the driver and back.
//!
//! HTTP/2 is driven by hyper directly rather than by tonic's server, so that each connection's end is seen
//! with its reason, and credentials and limits are ours.

mod peer;
mod queries;
mod session;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::driver::Inbox;
use crate::engine::PeerCred;
use peer::Shared;
use queries::QueryService;
use session::SessionService;

/// Streams a connection may have open: a session, and a few unary calls beside it.
const MAX_STREAMS: u32 = 8;
/// How long accepting pauses when the system has no descriptor for one more connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
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
}

impl Connection {
    fn of<B>(request: &tonic::Request<B>) -> Result<&Arc<Self>, tonic::Status> {
        request.extensions().get().ok_or_else(|| tonic::Status::internal("the connection is not known"))
    }
}

/// Accepts connections until its task is dropped.
pub(crate) async fn accept(listener: UnixListener, inbox: Inbox, limits: Limits, connections: TaskTracker) {
    let services = Services::new(inbox, limits).await;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, services.clone()));
            }
            Err(error) => {
                // out of descriptors, most likely: those in use must go on, and one may become free
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep_until(Instant::now() + ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, services: Services) {
    let known = stream.peer_cred().and_then(|cred| Ok((cred, LocalStream::new(stream.into_std()?)?)));
    let (peer, stream) = match known {
        Ok((cred, stream)) => (PeerCred { uid: cred.uid(), gid: cred.gid(), pid: cred.pid() }, stream),
        Err(error) => {
            tracing::warn!(%error, "refused a connection: the kernel does not tell who it is");
            return;
        }
    };
    let connection =
        Arc::new(Connection { peer, has_session: AtomicBool::new(false), called: Notify::new() });
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
        Ok(None) => serving.await,
        Err(_) => {
            let PeerCred { uid, pid, .. } = peer;
            return tracing::warn!(uid, pid, "refused a connection: it did not ask for anything in time");
        }
    };
    if let Err(error) = served {
        log_end(peer, &error);
    }
}

/// A connection that broke the protocol is worth a warning; one whose process just went away is not.
fn log_end(peer: PeerCred, error: &hyper::Error) {
    let reason = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let PeerCred { uid, pid, .. } = peer;
    let broken = std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<std::io::Error>())
        .is_some_and(|io| io.kind() != std::io::ErrorKind::InvalidData);
    if error.is_canceled() || error.is_closed() || error.is_incomplete_message() || broken {
        tracing::debug!(uid, pid, reason, "a connection ended");
    } else {
        tracing::warn!(uid, pid, reason, "refused a connection that does not speak the protocol");
    }
}

impl Services {
    async fn new(inbox: Inbox, limits: Limits) -> Self {
        let shared = Arc::new(Shared::new(inbox, limits));
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
