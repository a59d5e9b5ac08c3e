//! `pmixd`: the server of one node, whose jobs the head starts.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use pmix_host::{Machine, StandardHost};
use pmix_launch::{GUARDIAN_COMMAND, Guardian, JobSession, LocalLauncher, adopt_orphans, end_orphans};
use pmix_program::log::to_stderr;
use pmix_program::signals::Signals;
use pmix_proto::nodes::{Enrolment, Frame, Hello, Leave, Ready, Resumed, Summons, Welcome, frame::Content};
use pmix_server::Server;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tonic::Streaming;

use super::branch::Branch;
use super::dial::Dial;
use super::join;
use super::line::{Line, MAX_START_LINE};
use super::link::{Frames, Link};
use super::net::{Loss, Net};
use super::peers::{Own, Peers};
use super::port::{Opened, Port};
use super::start::LAST_WORDS;
use super::trust::{HEAD, Identity};
use super::visits::Visits;
use super::{LEAVING, MAX_ADDRESSES, brief, end_of_connection, version};
use crate::causes::with_causes;
use crate::ending::until;
use crate::multi_user::serve_all;
use crate::traces::Log;

/// What is logged.
const LOGGED: &str = "warn";

/// How long the line on standard input may take, and then the head to let a daemon in.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long another daemon may be silent. What it is asked goes through the head then.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// How long to wait before the successor of the head is greeted again.
const AGAIN: Duration = Duration::from_millis(200);

/// Summons that may wait.
const MAX_SUMMONS: usize = 4;

/// Runs the daemon until its head is gone or says that the session is over. The variable has the name of this node, if the
/// line is for several. The line is on standard input if no file is given.
pub(crate) fn run(node_from: Option<&str>, file: Option<&Path>) -> ExitCode {
    let line = file.map_or_else(|| read_line(io::stdin(), PATIENCE), join::read);
    let known = line.and_then(|line| Ok((named(&line, node_from)?, line)));
    let (named, mut line) = match known {
        Ok(known) => known,
        Err(problem) => {
            to_stderr(LOGGED);
            tracing::error!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let log = Log::start(LOGGED, "pmixd", line.traces.as_ref());
    if let Err(problem) = &log {
        tracing::warn!("node {}: fences are not traced here: {problem}", named.node);
        // nor could its ranks write there
        line.traces = None;
    }
    adopt_orphans();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot create the async runtime");
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(serve(&line, &named));
    end_orphans();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("node {}: {problem}", named.node);
            ExitCode::FAILURE
        }
    }
}

/// Which daemon this is, and how it proves that.
pub(super) struct Named {
    node: String,
    token: String,
}

pub(super) fn named(line: &Line, node_from: Option<&str>) -> Result<Named, String> {
    let here = node_from.map(|variable| {
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("{variable} does not have the name of this node"))
    });
    let (node, token) = line.identity(here.transpose()?.as_deref())?;
    Ok(Named { node, token })
}

/// Reads the line of the starter, which may have been cut off meanwhile.
fn read_line(from: impl Read + Send + 'static, within: Duration) -> Result<Line, String> {
    let (sender, line) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = BufReader::new(from.take(MAX_START_LINE as u64)).read_until(b'\n', &mut text);
        let read = read.map_err(|error| format!("cannot read standard input: {error}"));
        let _ =
            sender.send(read.and_then(|_| Line::read(&String::from_utf8_lossy(&text), &"standard input")));
    });
    let late = |_| format!("no start line has arrived on standard input within {} s", within.as_secs_f64());
    line.recv_timeout(within).map_err(late)?
}

async fn serve(line: &Line, named: &Named) -> Result<(), String> {
    let mut signals = Signals::receive().map_err(|error| format!("cannot handle signals: {error}"))?;
    let attached = tokio::time::timeout(PATIENCE, Attached::new(line, named)).await;
    let late = || format!("the head has not let this daemon in within {} s", PATIENCE.as_secs());
    let Attached { peers, welcome, link, frames, mut losses, port: _port, greeting, mut summons } =
        attached.map_err(|_| late())??;
    let (leave, mut leaving) = mpsc::channel(1);
    let branch = Branch::new(link.clone());
    let node = Node::start(line, &named.node, &peers, &welcome.head).await?;
    let ready =
        || Frame { content: Some(Content::Ready(Ready { uri: node.server.handle().uri().to_owned() })) };
    let mut hearing = tokio::spawn(hear(peers.clone(), frames, branch.clone(), leave.clone()));
    let _ = link.send(ready()).await;
    let (mut epoch, mut deadline) = (welcome.epoch, None);
    let mut left = None;
    let ended = loop {
        tokio::select! {
            Some(lost) = leaving.recv() => {
                left = Some((lost, Instant::now()));
                break Ok(());
            }
            loss = losses.recv() => {
                let reason = loss.map_or_else(String::new, |Loss { reason, .. }| format!(" ({reason})"));
                if !line.awaits_successor {
                    break Err(format!("the head is gone{reason}: ending all processes here"));
                }
                be_silent();
                deadline = Some(Instant::now() + line.head_grace());
            }
            () = until(deadline) => {
                let grace = line.head_grace().as_secs_f64();
                break Err(format!("the head is gone, and no other has let this daemon in within {grace} s: ending all processes here"));
            }
            newer = later(&mut summons, epoch) => {
                let obey = |newer| {
                    epoch = newer;
                    hearing.abort();
                    be_silent();
                    peers.forget_head();
                    deadline = Some(Instant::now() + line.head_grace());
                };
                let greeted = tokio::select! {
                    greeted = greeting.greet_last(newer, &mut summons, obey) => greeted,
                    signal = terminated(&mut signals) => break Err(format!("ended by {signal}")),
                };
                // what is told of losses until now is that of the head before
                while losses.try_recv().is_ok() {}
                match greeted {
                    Ok(Greeted { link, welcome, frames }) => {
                        peers.net().reconnect(link.clone(), &welcome.nodes);
                        hearing = tokio::spawn(hear(peers.clone(), frames, branch.clone(), leave.clone()));
                        let _ = link.send(ready()).await;
                        deadline = None;
                    }
                    Err(problem) => tracing::warn!("cannot join the successor of the head: {problem}"),
                }
            }
            signal = terminated(&mut signals) => break Err(format!("ended by {signal}")),
        }
    };
    // no head comes any more: what waits for one fails
    let _ = peers.net().succession().inspect(|succession| succession.give_up());
    node.end().await;
    // if the head is gone, there is no one to pass lines on to, and the daemons that were started from here end by themselves
    if let Some((lost, since)) = left {
        // the head waits as long for this daemon, which needs a little for its own end
        let within = (line.grace() + LEAVING).saturating_sub(since.elapsed() + 3 * LAST_WORDS);
        tokio::select! {
            () = branch.end(&lost, within) => {}
            _ = losses.recv() => {}
        }
    }
    ended
}

/// The next summons of a later head than this one. Cancel-safe.
async fn later(summons: &mut mpsc::Receiver<Summons>, epoch: u64) -> Summons {
    loop {
        match summons.recv().await {
            Some(summons) if summons.epoch > epoch => return summons,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Writes nothing to standard error any more: what has started this daemon is gone with the head, or does not read any more.
fn be_silent() {
    let nothing = File::options().write(true).open("/dev/null");
    if let Err(error) = nothing.and_then(|nothing| Ok(rustix::stdio::dup2_stderr(nothing)?)) {
        tracing::debug!(%error, "standard error stays open");
    }
}

async fn terminated(signals: &mut Signals) -> &'static str {
    if signals.ending().await == Signal::INT { "SIGINT" } else { "SIGTERM" }
}

/// Handles what the head sends, until it ends the session or is gone.
pub(super) async fn hear(
    peers: Peers,
    mut frames: Streaming<Frame>,
    branch: Branch,
    leave: mpsc::Sender<Vec<String>>,
) {
    let reason = loop {
        match frames.message().await {
            Ok(Some(Frame { content: Some(Content::Leave(Leave { lost, .. })) })) => {
                peers.leave();
                let _ = leave.send(lost).await;
                return;
            }
            Ok(Some(Frame { content: Some(Content::Start(start)) })) => branch.start(start).await,
            Ok(Some(Frame { content: Some(Content::Resumed(Resumed {})) })) => {
                let _ = peers.net().succession().inspect(|succession| succession.resume());
            }
            Ok(Some(Frame { content: Some(content) })) => peers.take(content).await,
            Ok(Some(Frame { content: None })) => {
                break "it has sent a message that cannot be read".to_owned();
            }
            Ok(None) => break "it has closed the connection".to_owned(),
            Err(status) => break end_of_connection("the head", &status),
        }
    };
    peers.net().lose(0, &reason);
}

/// What runs on the node.
struct Node {
    guardian: Arc<Guardian>,
    launcher: LocalLauncher,
    server: Server,
}

impl Node {
    async fn start(line: &Line, node: &str, peers: &Peers, head: &str) -> Result<Self, String> {
        if line.multi_user {
            serve_all().map_err(|why| format!("its head serves several users: {why}"))?;
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let failed = |error: io::Error| format!("guardian: {error}");
        // it becomes ready while the server starts
        let guardian = Arc::new(Guardian::begin(command, JobSession::Own).map_err(failed)?);
        guardian.end_if_silent(line.head_grace()).map_err(failed)?;
        let launcher = LocalLauncher::new(node)
            .with_guardian(guardian.clone())
            .grace(line.grace())
            .linger(line.linger());
        let mut host =
            StandardHost::member(launcher.clone(), peers.clone(), head).with_records(line.records());
        if line.multi_user {
            host = host.allow_other_users();
        }
        let mut server = Server::builder()
            .raise_nofile(true)
            .host(host)
            .hostname(node)
            .tool_support(true)
            .other_users(line.multi_user)
            .native_wire(line.native())
            .pmi1_wire(line.pmi1());
        if let Some(traces) = &line.traces
            && let Some(root) = traces.root()
        {
            server = server.traces(root, traces.for_ranks(line.multi_user));
        }
        let server = server.start().await.map_err(|error| with_causes(&error))?;
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
    greeted: Greeted,
    greeting: Greeting,
    /// For other daemons.
    port: Option<(Port, Arc<ServerConfig>)>,
    config: Arc<ClientConfig>,
}

/// Has the head sign a key, and connects with that.
async fn join(line: &Line, named: &Named) -> Result<Joined, String> {
    let identity = Identity::new(&line.authority()?).map_err(|error| error.to_string())?;
    let config = identity.first_config().map_err(|error| error.to_string())?;
    let silence = line.head_grace();
    let dial = Dial { name: HEAD.to_owned(), config, silence };
    let failed = |problems| format!("cannot connect to the head: {problems}");
    let (mut client, address) = dial.any_with_room(&line.heads).await.map_err(failed)?;
    let refused = |status: &tonic::Status| format!("the head at {address} refuses: {}", brief(status));
    let enrolment = Enrolment {
        versions: Some(version::spoken(version::OWN)),
        node: named.node.clone(),
        incarnation: line.incarnation,
        token: named.token.clone(),
        public_key: identity.point().into(),
    };
    let enrolled = client.enrol(enrolment).await.map_err(|status| refused(&status))?.into_inner();
    drop(client);
    let certificate = enrolled.certificate.to_vec();
    let config = identity.config(certificate.clone()).map_err(|error| error.to_string())?;
    let port = port(&identity, certificate, line.interface.as_deref()).await;
    let addresses = port.iter().flat_map(|(port, _)| port.addresses()).map(|at| at.to_string()).collect();
    let greeting = Greeting { dial: Dial { config: config.clone(), ..dial }, addresses };
    let greeted = greeting.say(&[address]).await?;
    Ok(Joined { greeted, greeting, port, config })
}

/// What a daemon with a certificate says to its head.
pub(super) struct Greeting {
    dial: Dial,
    /// Where other daemons reach this one.
    addresses: Vec<String>,
}

/// A head that has let this daemon in.
struct Greeted {
    link: Link,
    welcome: Welcome,
    frames: Streaming<Frame>,
}

impl Greeting {
    /// Greets the successor of the head that has summoned this daemon last. `obey` is told the epoch of each.
    async fn greet_last(
        &self,
        mut newest: Summons,
        summons: &mut mpsc::Receiver<Summons>,
        mut obey: impl FnMut(u64),
    ) -> Result<Greeted, String> {
        loop {
            obey(newest.epoch);
            tokio::select! {
                newer = later(summons, newest.epoch) => newest = newer,
                greeted = self.greet(&newest.heads) => return greeted,
            }
        }
    }

    /// Greets the successor of the head, which is at one of these addresses, until it answers: it summons a daemon once.
    async fn greet(&self, heads: &[String]) -> Result<Greeted, String> {
        let heads = heads.iter().take(MAX_ADDRESSES).filter_map(|head| head.parse().ok());
        let heads: Vec<SocketAddr> = heads.collect();
        let deadline = Instant::now() + SILENCE;
        loop {
            let problem = match timeout_at(deadline, self.say(&heads)).await {
                Ok(Ok(greeted)) => return Ok(greeted),
                Ok(Err(problem)) => problem,
                Err(_) => format!("it has not let this daemon in within {} s", SILENCE.as_secs()),
            };
            if Instant::now() + AGAIN >= deadline {
                return Err(problem);
            }
            sleep_until(Instant::now() + AGAIN).await;
        }
    }

    async fn say(&self, heads: &[SocketAddr]) -> Result<Greeted, String> {
        let failed = |problems| format!("cannot connect to the head: {problems}");
        let (mut client, address) = self.dial.any_with_room(heads).await.map_err(failed)?;
        let refused = |status: &tonic::Status| format!("the head at {address} refuses: {}", brief(status));
        let machine = Machine::this();
        let hello = Hello {
            versions: Some(version::spoken(version::OWN)),
            machine: machine.name,
            processors: machine.processors,
            addresses: self.addresses.clone(),
            ..Hello::default()
        };
        let (link, waiting): (Link, Frames) = Link::new(self.dial.silence);
        let _ = link.send(Frame { content: Some(Content::Hello(hello)) }).await;
        let mut frames = client.join(waiting).await.map_err(|status| refused(&status))?.into_inner();
        match frames.message().await.map_err(|status| refused(&status))? {
            Some(Frame { content: Some(Content::Welcome(welcome)) }) => Ok(Greeted { link, welcome, frames }),
            _ => Err(format!("the head at {address} does not begin with a welcome")),
        }
    }
}

/// A port for other daemons. Without one they ask through the head.
async fn port(
    identity: &Identity,
    certificate: Vec<u8>,
    interface: Option<&str>,
) -> Option<(Port, Arc<ServerConfig>)> {
    let tls = identity.server_config(certificate).map_err(|error| error.to_string());
    let port = Port::bind(interface).await.map_err(|error| error.to_string());
    match port.and_then(|port| Ok((port, tls?))) {
        Ok(port) => Some(port),
        Err(error) => {
            tracing::warn!(
                "cannot open a port for other daemons: {error}; they reach this one through the head, which is slower"
            );
            None
        }
    }
}

/// A daemon's end of the exchange, and the tasks that serve it.
pub(super) struct Attached {
    pub(super) peers: Peers,
    pub(super) welcome: Welcome,
    pub(super) link: Link,
    pub(super) frames: Streaming<Frame>,
    losses: mpsc::UnboundedReceiver<Loss>,
    /// Open for other daemons while this is here.
    pub(super) port: Option<Opened>,
    pub(super) greeting: Greeting,
    /// From successors of the head.
    pub(super) summons: mpsc::Receiver<Summons>,
}

impl Attached {
    /// Connects with the head, and opens a port for other daemons.
    pub(super) async fn new(line: &Line, named: &Named) -> Result<Self, String> {
        let Joined { greeted: Greeted { link, welcome, frames }, greeting, port, config } =
            join(line, named).await?;
        let me = welcome.nodes.iter().rposition(|name| *name == named.node).filter(|place| *place != 0);
        let me = me.ok_or_else(|| "the head does not know this node".to_owned())?;
        let (net, losses) = Net::new(me, welcome.nodes.clone());
        net.connect(0, link.clone());
        let own = Own { config, incarnation: line.incarnation, silence: SILENCE };
        let peers = Peers::new(net, own);
        peers.net().gather(line.tree_degree, Arc::new(peers.clone()));
        if line.awaits_successor && port.is_none() {
            return Err("cannot open the port at which the next head would reach this daemon".to_owned());
        }
        if line.awaits_successor {
            peers.net().await_successors();
        }
        let (summons, summoned) = mpsc::channel(MAX_SUMMONS);
        let summons = line.awaits_successor.then_some(summons);
        let visits = Visits { peers: peers.clone(), silence: SILENCE, summons };
        let port = port.map(|(port, tls)| port.open(tls, SILENCE, Arc::new(visits)));
        Ok(Self { peers, welcome, link, frames, losses, port, greeting, summons: summoned })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::super::fixture::{Session, allow_open_files};
    use super::super::port::MAX_STRANGERS;
    use super::*;

    #[test]
    fn a_daemon_whose_line_does_not_come_does_not_stay() {
        let (nothing, _starter) = io::pipe().unwrap();
        let error = read_line(nothing, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error, "no start line has arrived on standard input within 0.02 s");
    }

    #[tokio::test]
    async fn a_daemon_is_let_in_at_a_port_that_is_full_of_silent_connections() {
        allow_open_files();
        let session = Session::new(&["h", "a"]).await;
        let mut silent = Vec::new();
        for _ in 0..MAX_STRANGERS {
            silent.push(TcpStream::connect(session.heads[0]).await.unwrap());
        }
        let strangers = || session.door.strangers();
        session.still.until("all have come", || strangers() == MAX_STRANGERS).await;
        let daemon = session.daemon("a").await;
        assert!(session.head.absent().is_empty());
        assert!((1..=session.heads.len()).contains(&session.door.refusals()), "the oldest have made room");
        drop((daemon, silent));
    }

    #[tokio::test]
    async fn a_successor_that_does_not_answer_keeps_no_later_one_waiting() {
        let session = Session::new(&["h", "a"]).await;
        let daemon = session.attached("a").await;
        let listen = async || tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mute, next) = (listen().await, listen().await);
        let summons = |epoch, head: &tokio::net::TcpListener| Summons {
            epoch,
            heads: vec![head.local_addr().unwrap().to_string()],
            ..Summons::default()
        };
        let (sender, mut summoned) = mpsc::channel(2);
        let mut epochs = Vec::new();
        let comes_to_the_next = async {
            let _open = mute.accept().await.unwrap();
            // one of an earlier head is ignored
            sender.send(summons(4, &mute)).await.unwrap();
            sender.send(summons(6, &next)).await.unwrap();
            next.accept().await.unwrap()
        };
        let greeting =
            daemon.greeting.greet_last(summons(5, &mute), &mut summoned, |epoch| epochs.push(epoch));
        // no time passes, in which the first one could be given up
        session
            .still
            .within("it comes to the next", async {
                tokio::select! {
                    _ = greeting => panic!("no head has let it in"),
                    _ = comes_to_the_next => {}
                }
            })
            .await;
        assert_eq!(epochs, [5, 6]);
    }
}
