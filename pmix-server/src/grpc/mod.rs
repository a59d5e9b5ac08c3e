//! The front end of our own messages, by gRPC and in frames: accepts connections on the Unix socket, asks the kernel for the peer's
//! credentials, and passes messages between processes and the driver.
//!
//! It uses hyper for HTTP/2 directly rather than tonic's server, so that it sees why each connection ends, and controls
//! credentials and limits.

mod connection;
mod files;
mod framed;
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
use pmix_proto::frames::PREFACE;
use pmix_proto::proof::QUESTION;
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

/// How long a process may take to read its last messages before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

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

/// Services of one server; cloned per connection and request.
#[derive(Clone)]
struct Services {
    session: SessionServer<SessionService>,
    queries: QueriesServer<QueryService>,
    /// Services from other crates, by name.
    others: Vec<(&'static str, Boxed)>,
    shared: Arc<Shared>,
}

/// A service whose type its crate does not name.
type Boxed = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The socket of the server, and its door.
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
                    match receive(&stream, &door) {
                        Ok((peer, guest)) => {
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

/// Asks the kernel for the credentials, and the door for a place. An error names the refused uid and the reason.
fn receive(stream: &UnixStream, door: &Door) -> Result<(PeerCred, Guest), (u32, String)> {
    let own = rustix::process::geteuid().as_raw();
    let broken = |error: io::Error| (own, format!("its socket cannot be used: {error}"));
    let cred = stream.peer_cred().map_err(broken)?;
    let peer = PeerCred { uid: cred.uid(), gid: Some(cred.gid()), pid: cred.pid() };
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
            door.secrets().answer(peer.uid, &[], (&mut reader, &mut writer)).await?;
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
        Ok((stream, true)) => framed::serve(stream, connection, services.shared).await,
        Ok((stream, false)) => serve_http2(stream, connection, services, door).await,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let reason = error.to_string();
            warn_with!(
                door.turn_away(uid),
                uid,
                pid,
                reason,
                "refused a connection that does not speak the protocol"
            );
        }
        Err(error) => tracing::debug!(uid, pid, %error, "a connection ended"),
    }
}

fn log_overdue(PeerCred { uid, pid, .. }: PeerCred, door: &Door) {
    let leave = door.turn_away(uid);
    warn_with!(leave, uid, pid, "refused a connection: no request arrived in time");
}

async fn serve_http2(stream: LocalStream, connection: Arc<Connection>, services: Services, door: Door) {
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
            queries: QueriesServer::new(QueryService(shared.clone()))
                .max_decoding_message_size(limits.message_bytes),
            others: others().await,
            shared,
        }
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
