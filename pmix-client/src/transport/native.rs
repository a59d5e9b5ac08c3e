//! The wire of the C library, over loopback TCP. What is said on it is in [`pmix_native::client`]; here are the handshake and the
//! socket.

mod clocks;
mod credential;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use pmix_native::client::{Caller, Conversation, Delivery, own_limit};
use pmix_native::conn::{
    ClientAnswer, Connect, ConnectError, FrameError, Framing, Peer, Role, ToolAnswer, ToolIdentity, User,
};
use pmix_native::env::Offered;
use pmix_native::msg::Context;
use pmix_proto::Limits;
use pmix_proto::owner::{Owners, SocketPair};
use pmix_types::message::{Hello, Identity, Welcome};
use pmix_types::{Info, ProcId, Uid, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::connection::{Deliverer, Errand, Incoming, Outgoing, TransportEnd};
use crate::error::{Error, TransportError};
use crate::singleton;
use crate::trust::Trust;
use clocks::Clocks;

/// Bytes not sent yet, above which no further request is taken.
const UNSENT: usize = 1 << 20;
/// Requests that are written together.
const BURST: usize = 256;
/// Errands that are run together.
const ERRANDS: usize = 4096;
/// How long a server may take to accept a connection before it has shown whose process it is, and how often to look.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Room for what comes next.
const ROOM: usize = 16 << 10;

/// Connects, says hello, asks for the data of the own job, and serves the connection from then on.
pub(super) async fn connect(
    server: &Offered,
    trust: &Trust,
    hello: &Hello,
    limits: Limits,
    end: TransportEnd,
) -> Result<Welcome, Error> {
    let address = server.uri.address;
    let security = credential::of(&server.security).await?;
    let mut socket = TcpStream::connect(address).await.map_err(|error| refused(address, error))?;
    // messages are written whole, so Nagle's algorithm would only delay them
    socket.set_nodelay(true).map_err(|error| refused(address, error))?;
    let sockets = SocketPair::new(&socket, address).map_err(|error| lost(address, error))?;
    trust.verify(&server.uri.server, &address.to_string(), &mut socket, owner_of(sockets)).await?;
    let user = credential::own_user();
    let peer = peer(&hello.identity, user);
    let mut connect = Connect::new(peer.clone(), security, server.encoding, server.version.to_string());
    connect.store.clone_from(&server.store);
    connect.info = hello.directives.as_slice().to_vec();
    if matches!(peer, Peer::Tool { .. }) {
        connect.info.extend(about_the_tool(hello, user));
    }
    let greeting = connect.encode().map_err(|error| Error::protocol(error.to_string()))?;
    socket.write_all(&greeting).await.map_err(|error| lost(address, error))?;
    let mut arrived = BytesMut::new();
    let answer = answer(&mut socket, &mut arrived, &peer, address).await?;

    let proc = answer.proc.or_else(|| peer.proc().cloned()).unwrap_or_else(ProcId::none);
    let hostname = server.hostname.clone().unwrap_or_else(singleton::hostname);
    let mut caller = Caller::new(proc.clone(), user, hostname, Context::new(server.encoding, server.version));
    (caller.index, caller.max_payload) = (answer.index, limits.body_bytes);
    let mut line = Line {
        framing: Framing::new(limits.body_bytes.min(Framing::MAX_PAYLOAD)),
        conversation: Conversation::new(caller),
        socket,
        arrived,
        skipping: 0,
        unsent: BytesMut::new(),
    };
    line.conversation.start();
    let job = loop {
        line.step().await.map_err(|reason| transport(address, reason, None))?;
        match line.conversation.next_delivery() {
            Some(Delivery::Job(job)) => break job,
            Some(other) => tracing::debug!(?other, "the server is ahead of its job data"),
            None => {}
        }
    };
    let server = answer.server.unwrap_or_else(|| server.uri.server.clone());
    let mut welcome = Welcome::new(proc, server, line.conversation.hostname());
    // a tool belongs to no job
    if matches!(hello.identity, Identity::Client(_)) {
        welcome = welcome.with_job(job.map_err(|failure| Error::failed("init", failure))?);
    }
    let TransportEnd { requests, errands, deliverer, abandoned } = end;
    tokio::spawn(serve(line, requests, errands, deliverer, abandoned));
    Ok(welcome)
}

/// The user of the process that has accepted the connection.
async fn owner_of(sockets: SocketPair) -> io::Result<Uid> {
    let (tell, told) = oneshot::channel();
    let look = move || {
        let _ = tell.send(accepted_by(&sockets));
    };
    // polled in a thread: the kernel sends no notice of an accept, and a test may have paused the clock of tokio
    std::thread::Builder::new().name("server".into()).spawn(look)?;
    told.await.map_err(io::Error::other)?
}

/// Waits until the connection is accepted: until then the kernel reports no owner. Blocks.
fn accepted_by(sockets: &SocketPair) -> io::Result<Uid> {
    let owners = Owners::open()?;
    let began = Instant::now();
    while began.elapsed() < ACCEPT_WITHIN {
        match owners.uid_of(sockets) {
            // it may have ended instead
            Err(error) if error.kind() == io::ErrorKind::NotConnected => owners.confirm(sockets)?,
            told => return told,
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
    let problem = format!("it has not accepted the connection within {} s", ACCEPT_WITHIN.as_secs());
    Err(io::Error::new(io::ErrorKind::TimedOut, problem))
}

fn peer(identity: &Identity, user: User) -> Peer {
    let identity = match identity {
        Identity::Client(proc) => return Peer::Client(proc.clone()),
        Identity::Tool(Some(proc)) => ToolIdentity::Given(proc.clone()),
        _ => ToolIdentity::Assign,
    };
    Peer::Tool { role: Role::Tool, user, identity }
}

/// What tools of the C library say of themselves. PRRTE crashes without any of it.
fn about_the_tool(hello: &Hello, User { uid, gid }: User) -> Vec<Info> {
    let mut info = vec![
        Info::new(&keys::PROC_PID, hello.pid),
        Info::new(&keys::USERID, uid),
        Info::new(&keys::GRPID, gid),
    ];
    let program = std::env::current_exe().ok();
    info.extend(program.map(|program| Info::new(&keys::CMD_LINE, program.to_string_lossy().into_owned())));
    info
}

/// What a server says to let a process in.
struct Admission {
    index: u32,
    /// The name that it has assigned to a tool.
    proc: Option<ProcId>,
    server: Option<ProcId>,
}

async fn answer(
    socket: &mut TcpStream,
    arrived: &mut BytesMut,
    peer: &Peer,
    address: SocketAddr,
) -> Result<Admission, Error> {
    loop {
        let admission = match peer {
            Peer::Client(_) => {
                let answer = ClientAnswer::decode(arrived);
                answer.map(|answer| {
                    answer.map(|ClientAnswer { index }| Admission { index, proc: None, server: None })
                })
            }
            _ => ToolAnswer::decode(arrived, peer.wants_identity()).map(|answer| {
                let admitted = |answer: ToolAnswer| Admission {
                    index: 0,
                    proc: answer.assigned,
                    server: Some(answer.server),
                };
                answer.map(admitted)
            }),
        };
        match admission {
            Ok(Some(admission)) => return Ok(admission),
            Ok(None) => {}
            Err(ConnectError::Refused(status)) => return Err(Error::failed("init", status)),
            Err(error) => return Err(Error::protocol(error.to_string())),
        }
        match socket.read_buf(arrived).await {
            Ok(0) => {
                let problem = "it closed the connection without an answer: it has ended, or it refuses this process, such as \
                               one that it has not started or one of another user";
                return Err(transport(address, problem, None));
            }
            Ok(_) => {}
            Err(error) => return Err(lost(address, error)),
        }
    }
}

fn refused(address: SocketAddr, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there; the server has ended",
        _ => "the operating system reports an error",
    };
    transport(address, problem, Some(error))
}

fn lost(address: SocketAddr, error: io::Error) -> Error {
    transport(address, "the connection broke while the process was let in", Some(error))
}

fn transport(address: SocketAddr, problem: impl Into<String>, source: Option<io::Error>) -> Error {
    let address = address.to_string();
    Error::Transport(Box::new(TransportError { address, problem: problem.into(), source }))
}

/// A connection after the handshake.
struct Line {
    framing: Framing,
    conversation: Conversation,
    socket: TcpStream,
    arrived: BytesMut,
    /// Bytes to come of a message that is too large.
    skipping: usize,
    unsent: BytesMut,
}

impl Line {
    /// Sends and receives once. An error says why the connection has ended.
    ///
    /// Cancel safe: what has come and what is not sent yet is kept.
    async fn step(&mut self) -> Result<(), String> {
        self.collect();
        self.arrived.reserve(ROOM);
        let (mut reading, mut writing) = self.socket.split();
        tokio::select! {
            read = reading.read_buf(&mut self.arrived) => match read {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(_) => self.take_frames()?,
                Err(error) => return Err(format!("the connection failed: {error}")),
            },
            written = writing.write_buf(&mut self.unsent), if !self.unsent.is_empty() => {
                written.map_err(|error| format!("the connection failed: {error}"))?;
            }
        }
        Ok(())
    }

    /// Hands on all messages that are there.
    fn take_frames(&mut self) -> Result<(), String> {
        loop {
            let skipped = self.skipping.min(self.arrived.len());
            self.arrived.advance(skipped);
            self.skipping -= skipped;
            if self.skipping > 0 {
                return Ok(());
            }
            match self.framing.decode(&mut self.arrived) {
                Ok(Some(frame)) => self.conversation.receive(&frame),
                Ok(None) => return Ok(()),
                Err(FrameError::TooLarge { length, .. }) => {
                    let mut header = self.arrived.get(4..8).unwrap_or_default();
                    self.conversation.skip(header.try_get_u32().unwrap_or_default(), length);
                    self.skipping = Framing::HEADER.saturating_add(length);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Puts what is to be said in line.
    fn collect(&mut self) {
        let sent = self.conversation.take_sent();
        if self.unsent.is_empty() {
            self.unsent = sent;
        } else {
            self.unsent.extend_from_slice(&sent);
        }
    }
}

/// Serves a connection until it ends or its last handle is dropped.
async fn serve(
    mut line: Line,
    mut requests: mpsc::Receiver<Outgoing>,
    mut errands: mpsc::UnboundedReceiver<Errand>,
    deliverer: Deliverer,
    mut abandoned: oneshot::Receiver<()>,
) {
    let (mut has_requests, mut has_errands) = (true, true);
    let (mut clocks, mut run) = (Clocks::default(), Vec::new());
    let reason = loop {
        hand_on(&mut line.conversation, &deliverer, &mut clocks);
        line.collect();
        if !has_requests && !has_errands && line.unsent.is_empty() {
            // finalized: every request is sent, and no caller waits for a reply
            return;
        }
        let has_room = line.unsent.len() < UNSENT;
        tokio::select! {
            ended = line.step() => {
                if let Err(reason) = ended {
                    hand_on(&mut line.conversation, &deliverer, &mut clocks);
                    break reason;
                }
            }
            request = requests.recv(), if has_requests && has_room => match request {
                Some(request) => {
                    ask(&mut line.conversation, request, &deliverer, &mut clocks);
                    // those that wait are written together
                    for _ in 1..BURST {
                        let Ok(next) = requests.try_recv() else { break };
                        ask(&mut line.conversation, next, &deliverer, &mut clocks);
                    }
                }
                None => has_requests = false,
            },
            count = errands.recv_many(&mut run, ERRANDS), if has_errands => {
                has_errands = count > 0;
                let mut given_up = HashSet::new();
                for errand in run.drain(..) {
                    match errand {
                        Errand::Ask(request) => ask(&mut line.conversation, request, &deliverer, &mut clocks),
                        Errand::GiveUp(id) => drop(given_up.insert(id)),
                    }
                }
                line.conversation.give_up(&given_up);
            }
            () = clocks.strike() => {
                for id in clocks.take_over() {
                    line.conversation.expire(id);
                }
            }
            _ = &mut abandoned => return,
        }
    };
    deliverer.close(reason);
}

fn ask(
    conversation: &mut Conversation,
    Outgoing { id, request }: Outgoing,
    deliverer: &Deliverer,
    clocks: &mut Clocks,
) {
    if let Some(limit) = own_limit(&request) {
        clocks.start(id, limit);
    }
    conversation.request(id, request);
    // given up while it was in line
    if !deliverer.is_awaited(id) {
        conversation.give_up(&HashSet::from([id]));
    }
}

fn hand_on(conversation: &mut Conversation, deliverer: &Deliverer, clocks: &mut Clocks) {
    while let Some(delivery) = conversation.next_delivery() {
        match delivery {
            Delivery::Reply { id, outcome } => {
                clocks.stop(id);
                deliverer.deliver(Incoming::Reply { id, outcome });
            }
            Delivery::Push(push) => deliverer.deliver(Incoming::Push(push)),
            Delivery::Job(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
