//! The head's side of the connections to its daemons: who is let in, and the way of what they send.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pmix_host::Machine;
use pmix_proto::nodes::nodes_server::{Nodes, NodesServer};
use pmix_proto::nodes::{Enrolled, Enrolment, Frame, Welcome, frame::Content};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::gather::Place;
use super::link::Link;
use super::net::Net;
use super::trust::{Authority, Daemon, TrustError};
use super::{MAX_FRAME, lock, version};

/// How long a connection may take to prove its identity.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before accepting again when that has failed.
const AGAIN: Duration = Duration::from_millis(100);
/// Connections that have not done so yet; further ones are closed at once.
const MAX_STRANGERS: usize = 256;
/// Bytes of a frame of a connection that has not.
const MAX_ENROLMENT: usize = 8 << 10;
/// Lines of the log about connections that were refused, in a session.
const MAX_REFUSALS_LOGGED: usize = 50;
/// A connection has ended, and not because of what it said.
const GONE: [io::ErrorKind; 3] =
    [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];

/// What happens at the door.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The daemon of a node takes jobs.
    Ready { node: String, machine: Machine },
    /// The daemon of a node was refused.
    Refused { node: String, reason: String },
}

/// Listens for daemons until it is dropped.
pub(super) struct Door {
    task: JoinHandle<()>,
    port: u16,
    #[cfg(test)]
    shared: Arc<Shared>,
}

struct Shared {
    authority: Arc<Authority>,
    net: Net,
    names: Vec<String>,
    /// How long a daemon may be silent.
    silence: Duration,
    arrivals: mpsc::UnboundedSender<Arrival>,
    strangers: AtomicUsize,
    refusals: AtomicUsize,
    /// Machines of those who have said hello.
    machines: Mutex<BTreeMap<Place, Machine>>,
}

impl Door {
    /// Opens a port for the daemons of these nodes, of which the head is the first.
    ///
    /// # Errors
    /// There is no port, or TLS cannot be set up.
    pub(super) async fn open(
        authority: Arc<Authority>,
        net: Net,
        names: Vec<String>,
        silence: Duration,
    ) -> io::Result<(Self, mpsc::UnboundedReceiver<Arrival>)> {
        let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
            Ok(listener) => listener,
            // there is no IPv6
            Err(_) => TcpListener::bind(("0.0.0.0", 0)).await?,
        };
        let port = listener.local_addr()?.port();
        let tls = TlsAcceptor::from(authority.server_config().map_err(other)?);
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            authority,
            net,
            names,
            silence,
            arrivals,
            strangers: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            machines: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, tls, shared.clone()));
        let door = Self {
            task,
            port,
            #[cfg(test)]
            shared,
        };
        Ok((door, arrived))
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn other(error: TrustError) -> io::Error {
    io::Error::other(error)
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept the connection of a daemon");
                // such as too many open files, which lasts a while
                tokio::time::sleep_until(Instant::now() + AGAIN).await;
                continue;
            }
        };
        let Some(stranger) = Stranger::enter(&shared) else {
            shared.refused(address, "too many connections have not proved their identity");
            continue;
        };
        tokio::spawn(serve(stream, address, tls.clone(), shared.clone(), stranger));
    }
}

/// A place of a connection that has not proved its identity.
struct Stranger(Arc<Shared>);

impl Stranger {
    fn enter(shared: &Arc<Shared>) -> Option<Self> {
        let place = Self(shared.clone());
        (shared.strangers.fetch_add(1, Ordering::Relaxed) < MAX_STRANGERS).then_some(place)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.strangers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Logs a refusal, unless too many have been.
    fn refused(&self, address: SocketAddr, reason: &str) {
        match self.refusals.fetch_add(1, Ordering::Relaxed) {
            number if number < MAX_REFUSALS_LOGGED => {
                tracing::warn!(%address, "refused a connection of a daemon: {reason}");
            }
            MAX_REFUSALS_LOGGED => tracing::warn!("further refusals of daemons are not logged"),
            _ => {}
        }
    }
}

async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
    stranger: Stranger,
) {
    let deadline = Instant::now() + HELLO_WITHIN;
    let _ = stream.set_nodelay(true);
    if let Err(error) = super::bound_silence(&stream, shared.silence) {
        tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
    }
    let stream = match tokio::time::timeout_at(deadline, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // a daemon that has reached this head at another of its addresses
        Ok(Err(error)) if GONE.contains(&error.kind()) => {
            return tracing::debug!(%address, %error, "a connection has ended before it said anything");
        }
        Ok(Err(error)) => return shared.refused(address, &format!("no TLS of this session: {error}")),
        Err(_) => return shared.refused(address, "it has said nothing"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let daemon = certificate.and_then(|certificate| shared.authority.daemon_of(certificate));
    let is_known = daemon.is_some();
    let stranger = Arc::new(Mutex::new(Some(stranger)));
    let service = Service { shared: shared.clone(), address, daemon, stranger: stranger.clone() };
    let limit = if is_known { MAX_FRAME } else { MAX_ENROLMENT };
    let service =
        NodesServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(MAX_FRAME);
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let mut service = service.clone();
        async move { tower::Service::call(&mut service, request.map(tonic::body::Body::new)).await }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(super::ping_every(shared.silence))
        .keep_alive_timeout(shared.silence)
        .max_concurrent_streams(4)
        .initial_stream_window_size(super::WINDOW)
        .initial_connection_window_size(super::WINDOW);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = tokio::time::sleep_until(deadline) => {
            if lock(&stranger).is_some() {
                return shared.refused(address, "it has not proved its identity in time");
            }
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "the connection of a daemon has ended");
    }
}

/// The calls of one connection.
struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Whose certificate it has shown.
    daemon: Option<Daemon>,
    /// Its place among the strangers, until it is let in.
    stranger: Arc<Mutex<Option<Stranger>>>,
}

impl Service {
    /// Refuses the daemon of a node: it is told why, and so is the log.
    fn refuse(&self, node: &str, status: fn(String) -> Status, reason: String) -> Status {
        self.shared.refused(self.address, &format!("node {}: {reason}", pmix_types::escaped(node)));
        status(reason)
    }
}

#[tonic::async_trait]
impl Nodes for Service {
    async fn enrol(&self, request: Request<Enrolment>) -> Result<Response<Enrolled>, Status> {
        let Enrolment { versions, node, incarnation, token, public_key } = request.into_inner();
        let daemon = Daemon { node: node.clone(), incarnation };
        let versions = versions.unwrap_or_default();
        if let Err(mismatch) = version::negotiate(version::OWN, &versions) {
            let reason = mismatch.to_string();
            // the token is its own, so it is the daemon that is waited for
            if self.shared.authority.has_token(&daemon, &token) {
                let refused = Arrival::Refused { node: node.clone(), reason: reason.clone() };
                let _ = self.shared.arrivals.send(refused);
            }
            return Err(self.refuse(&node, Status::failed_precondition, reason));
        }
        match self.shared.authority.enrol(daemon, &token, &public_key) {
            Ok(certificate) => Ok(Response::new(Enrolled { certificate: certificate.into() })),
            Err(refusal) => Err(self.refuse(&node, Status::permission_denied, refusal.to_string())),
        }
    }

    type JoinStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::JoinStream>, Status> {
        let Some(Daemon { node, .. }) = &self.daemon else {
            let reason = "it has no certificate that the head of this session has signed".to_owned();
            return Err(self.refuse("?", Status::unauthenticated, reason));
        };
        let mut frames = request.into_inner();
        let Some(Frame { content: Some(Content::Hello(hello)) }) = frames.message().await? else {
            let reason = "it does not begin with a hello".to_owned();
            return Err(self.refuse(node, Status::invalid_argument, reason));
        };
        let version = match version::negotiate(version::OWN, &hello.versions.unwrap_or_default()) {
            Ok(version) => version,
            Err(mismatch) => {
                return Err(self.refuse(node, Status::failed_precondition, mismatch.to_string()));
            }
        };
        let place = self.shared.net.place(node).filter(|place| *place != 0);
        let Some(place) = place else {
            return Err(self.refuse(node, Status::permission_denied, "it is no node of this session".into()));
        };
        let (link, waiting) = Link::new(self.shared.silence);
        let names = self.shared.names.clone();
        let head = names.first().cloned().unwrap_or_default();
        let welcome = Content::Welcome(Welcome { version, nodes: names, head });
        let _ = link.send(Frame { content: Some(welcome) }).await;
        if !self.shared.net.connect(place, link) {
            return Err(self.refuse(
                node,
                Status::already_exists,
                "the node has had a daemon, or the session is over".into(),
            ));
        }
        *lock(&self.stranger) = None;
        lock(&self.shared.machines).insert(place, Machine::new(hello.machine, hello.processors));
        tokio::spawn(hear(self.shared.clone(), place, node.clone(), frames));
        Ok(Response::new(Box::pin(waiting.map(Ok::<_, Status>))))
    }
}

/// Handles what a daemon sends, until its connection ends: then it is lost.
async fn hear(shared: Arc<Shared>, place: Place, node: String, mut frames: Streaming<Frame>) {
    let reason = loop {
        match frames.message().await {
            Ok(Some(Frame { content: Some(Content::Ready(_)) })) => {
                let Some(machine) = lock(&shared.machines).remove(&place) else { continue };
                let _ = shared.arrivals.send(Arrival::Ready { node: node.clone(), machine });
            }
            Ok(Some(Frame { content: Some(content) })) => shared.net.take(place, content).await,
            Ok(Some(Frame { content: None })) => {
                break "it has sent a message that cannot be read".to_owned();
            }
            Ok(None) => break "its daemon has ended".to_owned(),
            Err(status) => break format!("its connection has ended: {}", super::brief(&status)),
        }
    };
    shared.net.lose(place, &reason);
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
