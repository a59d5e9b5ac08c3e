//! `pmixd`: the server of one node, whose jobs the head starts.

use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pmix_host::{Machine, StandardHost};
use pmix_proto::nodes::nodes_client::NodesClient;
use pmix_proto::nodes::{Enrolment, Frame, Hello, Ready, Welcome, frame::Content};
use pmix_server::Server;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::Streaming;

use super::line::{Line, MAX_START_LINE};
use super::link::{Frames, Link};
use super::net::{Loss, Net};
use super::trust::{HEAD, Identity};
use super::{MAX_FRAME, WINDOW, bound_silence, brief, version};
use crate::signals::{Received, Signals};
use crate::{GUARDIAN_COMMAND, Guardian, LocalLauncher, orphans};

/// How long the line on standard input may take, and then the head to let a daemon in.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take before another address is tried beside it.
const SLOW: Duration = Duration::from_millis(300);

/// Runs the daemon until its head is gone or says that the session is over.
pub(crate) fn run() -> ExitCode {
    let line = match read_line(io::stdin(), PATIENCE) {
        Ok(line) => line,
        Err(problem) => {
            tracing::error!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    orphans::adopt();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot create the async runtime");
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(serve(&line));
    orphans::end(|_, _| ());
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("node {}: {problem}", line.node);
            ExitCode::FAILURE
        }
    }
}

/// Reads the line of the starter, which may have been cut off meanwhile.
fn read_line(from: impl Read + Send + 'static, within: Duration) -> Result<Line, String> {
    let (sender, line) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = BufReader::new(from.take(MAX_START_LINE as u64)).read_until(b'\n', &mut text);
        let read = read.map_err(|error| format!("cannot read standard input: {error}"));
        let _ = sender.send(read.and_then(|_| Line::read(&String::from_utf8_lossy(&text))));
    });
    let late = |_| format!("no start line has arrived on standard input within {} s", within.as_secs_f64());
    line.recv_timeout(within).map_err(late)?
}

async fn serve(line: &Line) -> Result<(), String> {
    let mut signals = Signals::receive().map_err(|error| format!("cannot handle signals: {error}"))?;
    let joined = tokio::time::timeout(PATIENCE, join(line)).await;
    let late = || format!("the head has not let this daemon in within {} s", PATIENCE.as_secs());
    let Joined { link, welcome, frames } = joined.map_err(|_| late())??;
    let Welcome { nodes, head, .. } = welcome;
    let me = nodes.iter().position(|name| *name == line.node).filter(|place| *place != 0);
    let me = me.ok_or_else(|| "the head does not know this node".to_owned())?;
    let (net, mut losses) = Net::new(me, nodes);
    net.connect(0, link.clone());
    let (leave, mut leaving) = mpsc::channel(1);
    let node = Node::start(line, &net, &head).await?;
    tokio::spawn(hear(net.clone(), frames, leave));
    let _ = link.send(Frame { content: Some(Content::Ready(Ready {})) }).await;
    let ended = tokio::select! {
        _ = leaving.recv() => Ok(()),
        loss = losses.recv() => {
            let reason = loss.map_or_else(String::new, |Loss { reason, .. }| format!(" ({reason})"));
            Err(format!("the head is gone{reason}: ending all processes here"))
        }
        signal = terminated(&mut signals) => Err(format!("ended by {signal}")),
    };
    node.end().await;
    ended
}

async fn terminated(signals: &mut Signals) -> &'static str {
    loop {
        match signals.next().await {
            Received::End(signal) if signal == rustix::process::Signal::INT => return "SIGINT",
            Received::End(_) => return "SIGTERM",
            Received::PassOn(_) => {}
        }
    }
}

/// Handles what the head sends, until it ends the session or is gone.
async fn hear(net: Net, mut frames: Streaming<Frame>, leave: mpsc::Sender<()>) {
    let reason = loop {
        match frames.message().await {
            Ok(Some(Frame { content: Some(Content::Leave(_)) })) => {
                let _ = leave.send(()).await;
                return;
            }
            Ok(Some(Frame { content: Some(content) })) => net.take(0, content).await,
            Ok(Some(Frame { content: None })) => {
                break "it has sent a message that cannot be read".to_owned();
            }
            Ok(None) => break "it has closed the connection".to_owned(),
            Err(status) => break brief(&status),
        }
    };
    net.lose(0, &reason);
}

/// What runs on the node.
struct Node {
    guardian: Arc<Guardian>,
    launcher: LocalLauncher,
    server: Server,
}

impl Node {
    async fn start(line: &Line, net: &Net, head: &str) -> Result<Self, String> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let failed = |error: io::Error| format!("guardian: {error}");
        // it becomes ready while the server starts
        let guardian = Arc::new(Guardian::begin(command).map_err(failed)?);
        let launcher = LocalLauncher::new(&line.node).with_guardian(guardian.clone()).grace(line.grace());
        let host = StandardHost::member(launcher.clone(), net.clone(), head).with_records(line.records());
        let server = Server::builder()
            .host(host)
            .hostname(&line.node)
            .native_wire(line.native())
            .pmi1_wire(line.pmi1());
        let server = server.start().await.map_err(|error| crate::run::with_causes(&error))?;
        guardian.protect(server.handle().session_dir()).map_err(failed)?;
        guardian.ready().map_err(failed)?;
        Ok(Self { guardian, launcher, server })
    }

    /// Ends all processes, with the grace that they have, and the server.
    async fn end(self) {
        self.launcher.end_all().await;
        self.server.stop().await;
        if let Err(error) = self.guardian.finish() {
            tracing::warn!(%error, "cannot wait for the guardian");
        }
    }
}

/// A connection to the head that has let this daemon in.
struct Joined {
    link: Link,
    welcome: Welcome,
    frames: Streaming<Frame>,
}

/// Has the head sign a key, and connects with that.
async fn join(line: &Line) -> Result<Joined, String> {
    let identity = Identity::new(&line.authority()?).map_err(|error| error.to_string())?;
    let first = identity.first_config().map_err(|error| error.to_string())?;
    let (mut client, address) = connect(&line.heads, &first, line.head_grace()).await?;
    let refused = |status: &tonic::Status| format!("the head at {address} refuses: {}", brief(status));
    let enrolment = Enrolment {
        versions: Some(version::spoken(version::OWN)),
        node: line.node.clone(),
        incarnation: line.incarnation,
        token: line.token.clone(),
        public_key: identity.point().into(),
    };
    let enrolled = client.enrol(enrolment).await.map_err(|status| refused(&status))?.into_inner();
    drop(client);
    let config = identity.config(enrolled.certificate.to_vec()).map_err(|error| error.to_string())?;
    let (mut client, _) = connect(&[address], &config, line.head_grace()).await?;
    let machine = Machine::this();
    let hello = Hello {
        versions: Some(version::spoken(version::OWN)),
        machine: machine.name,
        processors: machine.processors,
    };
    let (link, waiting): (Link, Frames) = Link::new(line.head_grace());
    let _ = link.send(Frame { content: Some(Content::Hello(hello)) }).await;
    let mut frames = client.join(waiting).await.map_err(|status| refused(&status))?.into_inner();
    match frames.message().await.map_err(|status| refused(&status))? {
        Some(Frame { content: Some(Content::Welcome(welcome)) }) => Ok(Joined { link, welcome, frames }),
        _ => Err(format!("the head at {address} does not begin with a welcome")),
    }
}

pub(super) type Client = NodesClient<Channel>;

/// A connection of HTTP/2 as a service.
#[derive(Clone)]
pub(super) struct Channel(SendRequest<tonic::body::Body>);

impl tower::Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Connects to the head at the first of its addresses that answers. Another one is tried when one has failed or is slow.
async fn connect(
    heads: &[SocketAddr],
    config: &Arc<ClientConfig>,
    silence: Duration,
) -> Result<(Client, SocketAddr), String> {
    let mut attempts = JoinSet::new();
    let mut problems = Vec::new();
    let mut left = heads.iter().copied();
    loop {
        if let Some(address) = left.next() {
            let config = config.clone();
            attempts.spawn(async move {
                let connected = connect_to(address, config, silence).await;
                connected.map(|client| (client, address)).map_err(|error| format!("{address}: {error}"))
            });
        }
        let slow = async {
            if left.len() == 0 {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep_until(Instant::now() + SLOW).await;
        };
        tokio::select! {
            attempt = attempts.join_next() => match attempt {
                Some(Ok(Ok(connected))) => return Ok(connected),
                Some(Ok(Err(problem))) => problems.push(problem),
                Some(Err(panic)) => problems.push(panic.to_string()),
                None => return Err(format!("cannot connect to the head: {}", problems.join("; "))),
            },
            () = slow => {}
        }
    }
}

pub(super) async fn connect_to(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    silence: Duration,
) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    bound_silence(&stream, silence)?;
    let stream = TlsConnector::from(config).connect(ServerName::try_from(HEAD)?, stream).await?;
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(super::ping_every(silence))
        .keep_alive_timeout(silence)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the head has ended");
        }
    });
    let client = NodesClient::with_origin(Channel(sender), Uri::from_static("https://head.pmix.invalid"));
    Ok(client.max_decoding_message_size(MAX_FRAME).max_encoding_message_size(MAX_FRAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_whose_line_does_not_come_does_not_stay() {
        let (nothing, _starter) = io::pipe().unwrap();
        let error = read_line(nothing, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error, "no start line has arrived on standard input within 0.02 s");
    }
}
