//! Our messages by gRPC: the services `Session` and `Queries`, and those about the server itself.
//!
//! It uses hyper for HTTP/2 directly rather than tonic's server, so that it sees why each connection ends, and controls
//! credentials and limits.

mod bodies;
mod counted;
mod queries;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{Stream, StreamExt};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmix_proto::Limits;
use pmix_proto::stream::LocalStream;
use pmix_proto::v1::queries_server::QueriesServer;
use pmix_proto::v1::session_server::{Session, SessionServer};
use pmix_proto::v1::{ClientMessage, ServerMessage};
use tonic::Streaming;
use tonic::body::Body;
use tower::Service;
use tower::util::BoxCloneSyncService;

use self::bodies::{Metered, Paced};
use self::counted::Counted;
use self::queries::QueryService;
use super::connection::{Connection, Outbound};
use super::peer::LocalShared;
use super::session::{Source, session};
use super::{LAST_WORDS, log_overdue};
use crate::door::{Door, LogLine, warn_with};
use pmix_engine::PeerCred;

/// Flow control of a connection. HTTP/2 fixes it before the process is let in.
struct Flow {
    /// Calls that may be open at the same time: `Session.Connect`, and unary calls.
    streams: u32,
    stream_window: u32,
    connection_window: u32,
    /// Largest frame.
    frame: u32,
}

impl Flow {
    /// A frame can hold a whole part of a message, so that a large body is not read in small pieces.
    const OWN: Self = Self { streams: 8, stream_window: 1 << 20, connection_window: 4 << 20, frame: 1 << 20 };
    /// Any program of another user may connect, so this is only enough for the greeting.
    const OTHERS: Self =
        Self { streams: 2, stream_window: 64 << 10, connection_window: 64 << 10, frame: 16 << 10 };
}

/// The services of one server; cloned per connection and request.
#[derive(Clone)]
pub(super) struct Services {
    session: SessionServer<SessionService>,
    queries: QueriesServer<QueryService>,
    /// Services from other crates, by name.
    others: Vec<(&'static str, Boxed)>,
    shared: Arc<LocalShared>,
}

/// A service whose type its crate does not name.
type Boxed = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Serves a connection by HTTP/2.
pub(super) async fn serve(stream: LocalStream, connection: Arc<Connection>, services: Services, door: Door) {
    let peer = connection.peer;
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
            // the last messages are still on their way, but the connection must not keep its place for long
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_WORDS, serving).await.unwrap_or(Ok(()))
        }
        () = connection.overdue() => return log_overdue(peer, &door),
    };
    if let Err(error) = served {
        let has_session = connection.has_session.load(Ordering::Relaxed);
        log_end(peer, &error, || if has_session { door.line(peer.uid) } else { door.turn_away(peer.uid) });
    }
}

/// Warns about a connection that broke the protocol, but not about one whose process disconnected.
fn log_end(peer: PeerCred, error: &hyper::Error, leave: impl FnOnce() -> Option<LogLine>) {
    let reason = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let PeerCred { uid, pid, .. } = peer;
    let broken = std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .is_some_and(|io| io.kind() != io::ErrorKind::InvalidData);
    if error.is_canceled() || error.is_closed() || error.is_incomplete_message() || broken {
        tracing::debug!(uid = uid.as_raw(), pid, reason, "a connection ended");
    } else {
        warn_with!(
            leave(),
            uid = uid.as_raw(),
            pid,
            reason,
            "refused a connection that does not speak the protocol"
        );
    }
}

impl Services {
    pub(super) async fn new(shared: Arc<LocalShared>, limits: Limits) -> Self {
        Self {
            session: SessionServer::new(SessionService(shared.clone()))
                .max_decoding_message_size(limits.message_bytes),
            queries: QueriesServer::new(QueryService(shared.clone()))
                .max_decoding_message_size(limits.message_bytes),
            others: others().await,
            shared,
        }
    }

    pub(super) fn shared(self) -> Arc<LocalShared> {
        self.shared
    }

    /// Passes a call to the service that its path names.
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

/// The service `Session`.
#[derive(Clone, Debug)]
struct SessionService(Arc<LocalShared>);

/// What goes to a gRPC process.
type Outgoing = Pin<Box<dyn Stream<Item = Result<ServerMessage, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl Session for SessionService {
    type ConnectStream = Outgoing;

    async fn connect(
        &self,
        request: tonic::Request<Streaming<ClientMessage>>,
    ) -> Result<tonic::Response<Outgoing>, tonic::Status> {
        let connection = connection_of(&request)?;
        if !connection.begin_session() {
            return Err(tonic::Status::already_exists(
                "this connection already has a Session.Connect call: open another connection",
            ));
        }
        let connection = connection.clone();
        let (run, outgoing) = session(self.0.clone(), Source::Grpc(request.into_inner()), connection);
        tokio::spawn(run);
        // a file cannot be handed over by HTTP/2, so none is given to a process that speaks it
        let outgoing = outgoing.filter_map(async |outbound| match outbound {
            Outbound::Message(message) => Some(Ok(message)),
            Outbound::Frame(_) | Outbound::Fence { .. } => None,
        });
        Ok(tonic::Response::new(Box::pin(outgoing)))
    }
}

/// The connection that a call came on.
fn connection_of<B>(request: &tonic::Request<B>) -> Result<&Arc<Connection>, tonic::Status> {
    request.extensions().get().ok_or_else(|| tonic::Status::internal("the call has no connection"))
}

/// Services about the server itself, for any gRPC client.
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
