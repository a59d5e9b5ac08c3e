//! A port for daemons: who connects has little time to prove its identity, and few places until it has.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nix::ifaddrs::getifaddrs;
use pmix_program::loopback::Visitors;
use pmix_proto::nodes::nodes_server::{Nodes, NodesServer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::io::InspectReader;
use tonic::Status;

use super::{MAX_FRAME, bound_silence, lock};
use crate::http2::{WINDOW, ping_every};

/// How long a connection may take to prove its identity.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before accepting again when that has failed.
const AGAIN: Duration = Duration::from_millis(100);
/// Connections that have not done so yet. For a further one goes the oldest of the address that has most.
pub(super) const MAX_STRANGERS: usize = 256;
/// Connections that were refused in a session and have a line of the log each. Further ones are counted, in a line at a time.
const MAX_REFUSALS_LOGGED: usize = 50;
/// The time between such lines.
const COUNTED_FOR: Duration = Duration::from_secs(60);
/// A connection has ended, and not because of what it said.
pub(super) const GONE: [io::ErrorKind; 3] =
    [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];

/// What is behind a port.
pub(super) trait House: Send + Sync + 'static {
    type Calls: Nodes;

    /// What is said on one connection, and how many bytes a message may have.
    fn receive(self: &Arc<Self>, visitor: Visitor) -> (Self::Calls, usize);
}

/// Who has connected.
pub(super) struct Visitor {
    address: SocketAddr,
    certificate: Option<CertificateDer<'static>>,
    heard: Heard,
    /// Its place among the strangers, until it is let in.
    stranger: Arc<Mutex<Option<Stranger>>>,
    counts: Arc<Counts>,
}

impl Visitor {
    /// The certificate whose key it has proved to have, if any.
    pub(super) const fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()
    }

    pub(super) const fn heard(&self) -> &Heard {
        &self.heard
    }

    /// It has proved its identity. Returns false if it has had to make room meanwhile: its connection is about to be closed.
    #[must_use]
    pub(super) fn let_in(&self) -> bool {
        let mut stranger = lock(&self.stranger);
        let is_in = stranger.as_ref().is_none_or(|stranger| stranger.place.settle());
        if is_in {
            *stranger = None;
        }
        is_in
    }

    /// Refuses the daemon of a node: it is told why, and so is the log.
    pub(super) fn refuse(&self, node: &str, status: fn(String) -> Status, reason: String) -> Status {
        self.counts.refused(self.address, &format!("node {}: {reason}", pmix_types::escaped(node)));
        status(reason)
    }
}

/// When something has last come from the other side of a connection.
#[derive(Clone, Debug)]
pub(super) struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn again(&self) {
        *lock(&self.0) = Instant::now();
    }

    /// For how long the other side has been silent.
    pub(super) fn silence(&self) -> Duration {
        lock(&self.0).elapsed()
    }
}

struct Counts {
    strangers: Mutex<Visitors<IpAddr, Arc<Place>>>,
    refusals: Mutex<Refusals>,
}

#[derive(Default)]
struct Refusals {
    all: usize,
    /// Those that the log has not been told of.
    unlogged: usize,
}

impl Counts {
    fn new() -> Self {
        Self { strangers: Mutex::new(Visitors::up_to(MAX_STRANGERS)), refusals: Mutex::default() }
    }

    /// Logs a refusal, or counts it for a line that comes later.
    fn refused(self: &Arc<Self>, address: SocketAddr, reason: &str) {
        let unlogged = {
            let mut refusals = lock(&self.refusals);
            refusals.all += 1;
            refusals.unlogged += usize::from(refusals.all > MAX_REFUSALS_LOGGED);
            refusals.unlogged
        };
        match unlogged {
            0 => tracing::warn!(%address, "refused a connection of a daemon: {reason}"),
            1 => {
                let (counts, reason) = (self.clone(), reason.to_owned());
                tokio::spawn(async move {
                    tokio::time::sleep_until(Instant::now() + COUNTED_FOR).await;
                    let number = std::mem::take(&mut lock(&counts.refusals).unlogged);
                    tracing::warn!(number, first = %address, "refused connections of daemons, the first because: {reason}");
                });
            }
            _ => {}
        }
    }
}

/// A connection that has not proved its identity, and has a place as long as this lives.
struct Stranger {
    counts: Arc<Counts>,
    place: Arc<Place>,
}

#[derive(Default)]
struct Place {
    is_settled: AtomicBool,
    /// Told when it has to go.
    goes: Notify,
}

impl Place {
    /// It is decided whether the connection is let in or has to go; false if it was before.
    fn settle(&self) -> bool {
        !self.is_settled.swap(true, Ordering::AcqRel)
    }
}

impl Stranger {
    /// Gives a place to one from this address.
    fn enter(counts: &Arc<Counts>, from: IpAddr) -> Self {
        let place = Arc::new(Place::default());
        let other = lock(&counts.strangers).add(from.to_canonical(), place.clone());
        if let Some(other) = other.filter(|other| other.settle()) {
            other.goes.notify_one();
        }
        Self { counts: counts.clone(), place }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        lock(&self.counts.strangers).retain(|one| !Arc::ptr_eq(one, &self.place));
    }
}

/// A port where nobody is received yet: who connects waits.
pub(super) struct Port(TcpListener);

impl Port {
    /// At the first address of this interface, or at all addresses of the node.
    ///
    /// # Errors
    /// There is no port, or no such interface with an address.
    pub(super) async fn bind(interface: Option<&str>) -> io::Result<Self> {
        if let Some(name) = interface {
            let address = addresses().find(|(of, _)| of == name);
            let missing = || io::Error::other(format!("there is no interface {name} with an address"));
            let (_, address) = address.ok_or_else(missing)?;
            return Ok(Self(TcpListener::bind((address, 0)).await?));
        }
        let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
            Ok(listener) => listener,
            // there is no IPv6
            Err(_) => TcpListener::bind(("0.0.0.0", 0)).await?,
        };
        Ok(Self(listener))
    }

    /// Where daemons may reach it. The certificate proves that it is this one.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let Ok(own) = self.0.local_addr() else { return Vec::new() };
        if !own.ip().is_unspecified() {
            return vec![own];
        }
        let others = addresses().map(|(_, address)| address).filter(|address| !address.is_loopback());
        let all = others.chain([Ipv4Addr::LOCALHOST.into()]);
        all.map(|address| SocketAddr::new(address, own.port())).collect()
    }

    /// Receives who connects, until it is dropped. A connection ends that has been silent for so long.
    pub(super) fn open<H: House>(self, tls: Arc<ServerConfig>, silence: Duration, house: Arc<H>) -> Opened {
        let counts = Arc::new(Counts::new());
        #[cfg_attr(not(test), allow(clippy::redundant_clone, reason = "tests count strangers"))]
        let reception = Reception { tls: TlsAcceptor::from(tls), silence, house, counts: counts.clone() };
        let task = tokio::spawn(accept(self.0, Arc::new(reception)));
        Opened {
            task,
            #[cfg(test)]
            counts,
        }
    }
}

/// The addresses of this node, each with the name of its interface.
fn addresses() -> impl Iterator<Item = (String, IpAddr)> {
    getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            // one of a link needs the number of an interface, which differs on the other side
            (_, Some(v6)) if !v6.ip().is_unicast_link_local() => IpAddr::V6(v6.ip()),
            _ => return None,
        };
        Some((interface.interface_name, ip))
    })
}

/// A port where visitors are received until this is dropped.
pub(super) struct Opened {
    task: JoinHandle<()>,
    #[cfg(test)]
    counts: Arc<Counts>,
}

#[cfg(test)]
impl Opened {
    /// Connections that have not proved their identity.
    pub(super) fn strangers(&self) -> usize {
        lock(&self.counts.strangers).count()
    }

    /// How many have been refused.
    pub(super) fn refusals(&self) -> usize {
        lock(&self.counts.refusals).all
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reception<H> {
    tls: TlsAcceptor,
    silence: Duration,
    house: Arc<H>,
    counts: Arc<Counts>,
}

async fn accept<H: House>(listener: TcpListener, reception: Arc<Reception<H>>) {
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
        let stranger = Stranger::enter(&reception.counts, address.ip());
        let reception = reception.clone();
        tokio::spawn(async move {
            let place = stranger.place.clone();
            tokio::select! {
                () = reception.serve(stream, address, stranger) => {}
                () = place.goes.notified() => {
                    reception.counts.refused(address, "too many connections have not proved their identity");
                }
            }
        });
    }
}

impl<H: House> Reception<H> {
    async fn serve(&self, stream: TcpStream, address: SocketAddr, stranger: Stranger) {
        let deadline = Instant::now() + HELLO_WITHIN;
        let _ = stream.set_nodelay(true);
        if let Err(error) = bound_silence(&stream, self.silence) {
            tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
        }
        let heard = Heard::now();
        let hears = heard.clone();
        let stream = InspectReader::new(stream, move |_: &[u8]| hears.again());
        let stream = match tokio::time::timeout_at(deadline, self.tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            // a daemon that has reached this port at another of its addresses
            Ok(Err(error)) if GONE.contains(&error.kind()) => {
                return tracing::debug!(%address, %error, "a connection has ended before it said anything");
            }
            Ok(Err(error)) => {
                return self.counts.refused(address, &format!("no TLS of this session: {error}"));
            }
            Err(_) => return self.counts.refused(address, "it has said nothing"),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let certificate = certificate.map(|certificate| certificate.clone().into_owned());
        let stranger = Arc::new(Mutex::new(Some(stranger)));
        let counts = self.counts.clone();
        let visitor = Visitor { address, certificate, heard, stranger: stranger.clone(), counts };
        let (calls, limit) = self.house.receive(visitor);
        let service =
            NodesServer::new(calls).max_decoding_message_size(limit).max_encoding_message_size(MAX_FRAME);
        let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let mut service = service.clone();
            async move { tower::Service::call(&mut service, request.map(tonic::body::Body::new)).await }
        });
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(ping_every(self.silence))
            .keep_alive_timeout(self.silence)
            .max_concurrent_streams(4)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = tokio::time::sleep_until(deadline) => {
                if lock(&stranger).is_some() {
                    return self.counts.refused(address, "it has not proved its identity in time");
                }
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "the connection of a daemon has ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write};

    use pmix_test_wait::turn;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::set_default;
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// The fields of each event of this thread.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{field}={value:?} ").unwrap();
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = String::new();
            event.record(&mut Fields(&mut line));
            lock(&self.0).push(line);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_logged_one_by_one_at_first_and_then_counted_in_a_line_a_minute() {
        let lines = Lines::default();
        let _subscriber = set_default(lines.clone());
        let taken = || std::mem::take(&mut *lock(&lines.0));
        let (counts, address) = (Arc::new(Counts::new()), SocketAddr::from(([127, 0, 0, 1], 9)));
        for _ in 0..MAX_REFUSALS_LOGGED + 7 {
            counts.refused(address, "no TLS");
        }
        assert_eq!(taken().len(), MAX_REFUSALS_LOGGED);
        let pass = async |time| {
            // the line that waits has begun to wait, and then has come
            turn().await;
            tokio::time::advance(time).await;
            turn().await;
            taken()
        };
        for number in [7, 3] {
            let counted = pass(COUNTED_FOR * 2).await;
            assert_eq!(counted.len(), 1, "{counted:?}");
            assert!(counted[0].contains(&format!("number={number} ")), "{counted:?}");
            assert!(counted[0].contains("127.0.0.1:9") && counted[0].contains("no TLS"), "{counted:?}");
            for _ in 0..3 {
                counts.refused(address, "no TLS");
            }
        }
        for (time, lines) in [(COUNTED_FOR - COUNTED_FOR / 10, 0), (COUNTED_FOR / 5, 1), (COUNTED_FOR * 3, 0)]
        {
            assert_eq!(pass(time).await.len(), lines, "after {time:?}");
        }
    }
}
