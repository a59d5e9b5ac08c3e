//! The receiving side of a native connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pmix_native::Version;
use pmix_native::conn::{Connect, Frame, Framing, Peer as Who, ToolAnswer, ToolIdentity, tag};
use pmix_native::msg::{Context, Reply as Answer, Request as Ask, Unread};
use pmix_proto::proof::QUESTION;
use pmix_types::message::{DeregisterEvents, Failure, Hello, Identity, Monitor, Request};
use pmix_types::{Directives, Info, Memory, Pid, ProcId, Status, Uid, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::NativeShared;
use super::job::bare_job;
use super::peer::{Greeting, Ledger, NativePeer};
use super::translate::{Asked, Task, task};
use crate::door::{Door, LogLine, warn_with};
use crate::holder::holder_of;
use crate::inbox::DriverEvent;
use crate::line::{Line, Refused, Turn, UNREAD};
use crate::loopback::Arrival;
use pmix_engine::{ConnId, Input, PeerCred, RequestId};

/// A connection without a greeting within this time is closed.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Ids of requests that a connection makes by itself begin here, above all tags.
const ERRANDS: u64 = 1 << 32;
/// Bytes of messages waiting to be written that are joined into one write.
const WRITE_BYTES: usize = 64 << 10;
/// What is read at a time at least: more than most requests take.
const READ_BYTES: usize = 2 << 10;

/// Largest frame, in bytes, that does not count towards the limit for large frames of its process.
const SMALL_FRAME: usize = 64 << 10;

/// Why a process is disconnected while an incomplete large frame blocks its other connections.
const UNFINISHED: &str = "it did not finish sending a message";

/// Serves a connection of an admitted user.
pub(super) async fn run(arrival: Arrival, shared: Arc<NativeShared>) {
    let Arrival { stream, sockets, uid, mut guest } = arrival;
    let from = sockets.from;
    let (mut reading, mut writing) = stream.into_split();
    let mut arrived = BytesMut::new();
    let begun = async {
        answer_question(&mut reading, &mut writing, &mut arrived, &shared.door, uid).await?;
        connect_message(&mut reading, &mut arrived).await
    };
    let connect = match tokio::time::timeout(CONNECT_WITHIN, begun).await {
        Ok(Ok(connect)) => connect,
        Ok(Err(reason)) => {
            return shared.turn_away(uid, from, &format!("it does not speak the protocol: {reason}"));
        }
        Err(_) => return shared.turn_away(uid, from, "no greeting arrived in time"),
    };
    let (hello, greeting, mut peer) = match admission(&connect, uid) {
        Ok(admission) => admission,
        Err(failure) => {
            shared.turn_away(uid, from, &failure.to_string());
            // clients accept no status at this point
            if !matches!(connect.peer, Who::Client(_)) {
                let _ = writing.write_all(&ToolAnswer::refusal(failure.status)).await;
            }
            return;
        }
    };
    let reattaches = matches!(hello.identity, Identity::Tool(_));
    if reattaches {
        // it keeps its name when it attaches again (TOL-12), so the process must be known
        peer.pid = match shared.owners.inode_of(&sockets) {
            Some(inode) => holder_of(inode, uid).await,
            None => None,
        };
    }
    let version = connect.version.parse().unwrap_or_else(|_| Version::of_dialect(connect.encoding.dialect));
    let line = shared.inbox.new_line(uid);
    let writing = Arc::new(writing);
    let context = Context::new(connect.encoding, version);
    let ledger = Arc::new(Ledger::new(context, line.clone(), Arc::downgrade(&writing)));
    let (admitted, admission) = oneshot::channel();
    let sender = NativePeer::new(shared.clone(), ledger.clone(), greeting, (uid, from), admitted);
    tokio::spawn(write(writing, line.clone()));
    let conn = shared.inbox.next_conn();
    if !shared.inbox.send(DriverEvent::Open { conn, peer: Box::new(sender) }).await {
        return;
    }
    shared.inbox.send(DriverEvent::Input(Input::Hello { conn, peer, hello, reattaches })).await;
    let mut connection = NativeConnection { conn, uid, shared, ledger, errands: ERRANDS };
    let (inbox, door) = (connection.shared.inbox.clone(), connection.shared.door.clone());
    let talk = async {
        let admitted = tokio::select! {
            admitted = admission => admitted,
            // the process may disconnect while the host decides; it sends nothing before the answer
            reason = closed(&mut reading) => return Some(reason),
        };
        // an error means that it was refused; the sending side has logged the reason
        let (proc, job) = admitted.ok()?;
        // requests count only if the connection is still open, so that its owner can be verified
        Some(match connection.shared.owners.uid_of(&sockets) {
            Ok(still) if still == uid => {
                guest.let_in();
                connection.requests(&mut reading, &mut arrived, &proc, job.as_ref()).await
            }
            Ok(other) => format!("its socket now belongs to uid {other}, no longer to uid {uid}"),
            Err(error) => {
                let reason =
                    format!("{proc} disconnected before it was admitted; its requests were dropped: {error}");
                connection.shared.log_refusal(uid, from, &reason);
                String::new()
            }
        })
    };
    // nothing more is read from a process that is being disconnected
    let reason = tokio::select! {
        biased;
        () = line.finished() => None,
        () = line.stalled() => {
            line.abandon();
            warn_with!(door.line(uid), %from, uid = uid.as_raw(), reason = UNREAD, "closed a connection");
            Some(UNREAD.to_owned())
        }
        reason = talk => reason,
    };
    if let Some(reason) = reason {
        inbox.send(DriverEvent::Input(Input::Lost { conn, reason })).await;
    }
    line.linger().await;
}

/// Resolves when the peer closes the socket, or the socket fails, while there is nothing to read.
async fn closed(reading: &mut OwnedReadHalf) -> String {
    match reading.peek(&mut [0]).await {
        Ok(0) | Err(_) => String::new(),
        // there is data, which `requests` will read
        Ok(_) => std::future::pending().await,
    }
}

/// Answers the question that may come before all else.
async fn answer_question(
    reading: &mut OwnedReadHalf,
    writing: &mut OwnedWriteHalf,
    arrived: &mut BytesMut,
    door: &Door,
    uid: Uid,
) -> Result<(), String> {
    if reading.read_buf(arrived).await.map_err(|error| error.to_string())? == 0 {
        return Err("it disconnected without a greeting".into());
    }
    if arrived.first() != Some(&QUESTION[0]) {
        return Ok(());
    }
    let read = arrived.split_to(arrived.len().min(QUESTION.len()));
    let answered = door.secrets().answer(uid, &read, reading, writing).await;
    answered.map_err(|error| error.to_string())
}

async fn connect_message(reading: &mut OwnedReadHalf, arrived: &mut BytesMut) -> Result<Connect, String> {
    loop {
        if let Some(connect) = Connect::decode(arrived).map_err(|error| error.to_string())? {
            return Ok(connect);
        }
        match reading.read_buf(arrived).await {
            Ok(0) => return Err("it disconnected without a greeting".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The identity that a process claims, on a socket that belongs to the user `uid` as reported by the kernel. A registered
/// process in a user namespace sees other uids than we do, so its claim may differ; a claim grants nothing.
fn admission(connect: &Connect, uid: Uid) -> Result<(Hello, Greeting, PeerCred), Failure> {
    let refused = |message: String| Failure::new(Status::ERR_INVALID_CRED, message);
    let said = match (&connect.peer, connect.security.user(), &*connect.security.mechanism) {
        (_, Some(user), _) => user,
        // libraries choose MUNGE where it runs; the credential is not read, as the kernel tells whose socket it is
        (Who::Tool { user, .. }, None, "munge") => *user,
        (.., mechanism) => {
            let message = format!("security mechanism {mechanism} is not supported, only `native` is");
            return Err(refused(message));
        }
    };
    let (identity, greeting) = match &connect.peer {
        Who::Client(proc) => (Identity::Client(proc.clone()), Greeting::Client),
        Who::Tool { identity: ToolIdentity::Given(proc), .. } => {
            (Identity::Tool(Some(proc.clone())), Greeting::Tool { wants_identity: false })
        }
        // it has its identity from the environment that a server sets for clients, so it is a client (TOL-16)
        Who::Tool { identity: ToolIdentity::Started(proc), .. } => {
            (Identity::Client(proc.clone()), Greeting::Tool { wants_identity: false })
        }
        Who::Tool { identity: ToolIdentity::Assign, .. } => {
            (Identity::Tool(None), Greeting::Tool { wants_identity: true })
        }
        other => {
            let message = format!("this kind of process is not supported: {other:?}");
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
    };
    let is_client = matches!(identity, Identity::Client(_));
    let agrees = said.uid == uid;
    // the uid of a registered process is compared with its registration; a tool has only its claim
    if !agrees && !is_client {
        return Err(refused(format!("it claims uid {}, but its socket belongs to uid {uid}", said.uid)));
    }
    // the group is only a claim: it is compared with the registration, and not believed without one; a process that sees
    // other uids than we do does not know its group here
    let gid = (is_client && agrees).then_some(said.gid);
    let peer = PeerCred { uid, gid, pid: None };
    let mut hello = Hello::new(identity, Pid(0));
    hello.directives = Directives::from(connect.info.clone());
    Ok((hello, greeting, peer))
}

struct NativeConnection {
    conn: ConnId,
    uid: Uid,
    shared: Arc<NativeShared>,
    ledger: Arc<Ledger>,
    errands: u64,
}

impl NativeConnection {
    /// Passes requests to the driver until the connection ends; returns the reason.
    async fn requests(
        &mut self,
        reading: &mut OwnedReadHalf,
        arrived: &mut BytesMut,
        proc: &ProcId,
        job: Option<&Arc<pmix_types::job::JobData>>,
    ) -> String {
        let framing = Framing::default();
        let mut turn = self.ledger.line.turn().await;
        // permits for the large frame that is being read
        let mut room = None;
        loop {
            match framing.decode(arrived) {
                Ok(Some(frame)) => {
                    if let Err(reason) = self.on_frame(frame, proc, job, turn).await {
                        return reason;
                    }
                    room = None;
                    turn = self.ledger.line.turn().await;
                }
                Ok(None) => {
                    let announced = framing.announced(arrived).ok().flatten().unwrap_or_default();
                    if room.is_none() && announced > SMALL_FRAME {
                        room = Some(self.room(proc, announced).await);
                    }
                    if let Err(reason) = self.more(reading, arrived, room.is_some()).await {
                        return reason;
                    }
                }
                Err(error) => {
                    warn_with!(self.leave(), %proc, %error, "closed a connection that broke the protocol");
                    return format!("it broke the protocol: {error}");
                }
            }
        }
    }

    /// Reads further bytes; an error says why the connection ends. A large frame must make progress, because other
    /// connections of its process may wait for it. Cancel-safe.
    async fn more(
        &self,
        reading: &mut OwnedReadHalf,
        arrived: &mut BytesMut,
        takes_room: bool,
    ) -> Result<(), String> {
        if arrived.capacity() - arrived.len() < READ_BYTES / 2 {
            arrived.reserve(READ_BYTES);
        }
        let read = reading.read_buf(arrived);
        let read = match takes_room {
            true => tokio::time::timeout(self.ledger.line.patience(), read).await,
            false => Ok(read.await),
        };
        match read {
            Ok(Ok(0) | Err(_)) => Err(String::new()),
            Ok(Ok(_)) => Ok(()),
            Err(_) => {
                warn_with!(self.leave(), uid = self.uid.as_raw(), reason = UNFINISHED, "closed a connection");
                Err(UNFINISHED.to_owned())
            }
        }
    }

    /// Waits until the large frames on the connections of a process leave room for another one of `bytes` bytes. Hold the
    /// permit until the frame has become a request, which has its own limits. Cancel-safe.
    async fn room(&self, proc: &ProcId, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // no frame is larger than the whole share, and the semaphore is never closed
        let bytes = u32::try_from(bytes).ok()?;
        self.shared
            .frames
            .of(proc, || Semaphore::new(Framing::MAX_PAYLOAD))
            .acquire_many_owned(bytes)
            .await
            .ok()
    }

    async fn on_frame(
        &mut self,
        received: Frame,
        proc: &ProcId,
        job: Option<&Arc<pmix_types::job::JobData>>,
        turn: Turn,
    ) -> Result<(), String> {
        if received.tag == tag::HEARTBEAT {
            self.errands += 1;
            return self.ask(self.errands, heartbeat(), turn).await;
        }
        if received.tag < tag::FIRST_REQUEST {
            // there are no subscriptions for input
            return Ok(());
        }
        let asked = match Ask::decode(&self.ledger.context, &received.payload) {
            Ok(asked) => asked,
            Err(error) => {
                warn_with!(self.leave(), %proc, %error, "cannot decode a request");
                if Ask::is_commit(&self.ledger.context, &received.payload) {
                    self.ledger.commit_failed(error.status());
                }
                self.answer(received.tag, proc, &error.status().into());
                return Ok(());
            }
        };
        if let Ask::Commit(parts) = &asked {
            for Unread { key, error, .. } in parts.iter().flat_map(|part| &part.unread) {
                warn_with!(self.leave(), %proc, key, %error, "a value of a commit is left out, as it is not valid");
            }
        }
        match task(proc, asked) {
            Task::Ask(request, asked) => {
                let is_commit = asked == Asked::Commit;
                let mut turn = turn;
                if matches!(asked, Asked::RegisterEvents(_)) {
                    turn = self.end_registrations(&[], turn).await?;
                }
                let id = u64::from(received.tag);
                if let Request::Monitor(monitor) = &request {
                    // an alarm without a code of its own has that of its kind
                    let code = if monitor.monitor.is(&keys::MONITOR_FILE) {
                        Status::MONITOR_FILE_ALERT
                    } else {
                        Status::MONITOR_HEARTBEAT_ALERT
                    };
                    self.ledger.monitored(if monitor.code.is_success() { code } else { monitor.code });
                }
                match self.ledger.expect(id, asked, request.memory()) {
                    Ok(()) => return self.ask(id, request, turn).await,
                    Err(Refused::TooMany) => {
                        let under_way = self.ledger.line.under_way();
                        warn_with!(self.leave(), %proc, under_way, "too many pending requests");
                        if is_commit {
                            self.ledger.commit_failed(Status::ERR_RESOURCE_BUSY);
                        }
                        self.answer(received.tag, proc, &Status::ERR_RESOURCE_BUSY.into());
                    }
                    Err(Refused::Twice) => {
                        return Err(format!("it has two pending requests with number {id}"));
                    }
                }
            }
            Task::Job => {
                let context = &self.ledger.context;
                let encoded = match job {
                    Some(job) => self.shared.jobs.reply(job, &self.shared.server, context),
                    None => bare_job(proc, &self.shared.server).encode(context),
                };
                self.ledger.reply(received.tag, encoded, proc, || self.leave());
            }
            Task::Deregister(codes) => drop(self.end_registrations(&codes, turn).await?),
            Task::Distances(asked) => {
                let reply = self.shared.distances.answer(asked).await;
                self.answer(received.tag, proc, &reply);
            }
            Task::Refuse(status) => self.answer(received.tag, proc, &status.into()),
        }
        Ok(())
    }

    /// Ends the event registrations that are over when these codes are, and those that have been replaced. Returns the turn of
    /// the next request.
    async fn end_registrations(&mut self, codes: &[Status], mut turn: Turn) -> Result<Turn, String> {
        for number in self.ledger.retire(codes) {
            self.errands += 1;
            self.ask(self.errands, Request::DeregisterEvents(DeregisterEvents::new(number)), turn).await?;
            turn = self.ledger.line.turn().await;
        }
        Ok(turn)
    }

    /// Permission for a log line about its user.
    fn leave(&self) -> Option<LogLine> {
        self.shared.door.line(self.uid)
    }

    async fn ask(&self, id: u64, request: Request, turn: Turn) -> Result<(), String> {
        let event = DriverEvent::Request { conn: self.conn, id: RequestId(id), request, turn };
        if self.shared.inbox.send(event).await { Ok(()) } else { Err(String::new()) }
    }

    fn answer(&self, tag: u32, proc: &ProcId, reply: &Answer) {
        self.ledger.reply(tag, reply.encode(&self.ledger.context), proc, || self.leave());
    }
}

/// The request that processes on the gRPC wire send for a heartbeat.
fn heartbeat() -> Request {
    Request::Monitor(Monitor::new(Info::new(&keys::SEND_HEARTBEAT, true), Status::SUCCESS))
}

/// Writes messages to the socket until the line ends or is abandoned.
async fn write(writing: Arc<OwnedWriteHalf>, line: Arc<Line<Bytes>>) {
    tokio::select! {
        _ = write_all(&writing, &line) => {}
        () = line.abandoned() => {}
    }
    line.abandon();
}

/// Joins small frames that are ready into one write.
async fn write_all(writing: &OwnedWriteHalf, line: &Line<Bytes>) -> io::Result<()> {
    let mut joined = BytesMut::new();
    while let Some((mut first, mut held)) = line.next().await {
        if first.len() >= WRITE_BYTES {
            write_one(writing, &mut first, held, line).await?;
            continue;
        }
        joined.extend_from_slice(&first);
        while joined.len() < WRITE_BYTES {
            let Some((next, bytes)) = line.try_next() else { break };
            joined.extend_from_slice(&next);
            held += bytes;
        }
        write_one(writing, &mut joined, held, line).await?;
    }
    Ok(())
}

/// Writes one buffer; every piece that the socket accepts counts as progress.
async fn write_one(
    writing: &OwnedWriteHalf,
    sent: &mut impl Buf,
    mut held: usize,
    line: &Line<Bytes>,
) -> io::Result<()> {
    while sent.has_remaining() {
        writing.writable().await?;
        // a long line to a fast reader must not take the turns of others
        tokio::task::consume_budget().await;
        let written = match writing.try_write(sent.chunk()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            written => written?,
        };
        sent.advance(written);
        let written = written.min(held);
        held -= written;
        line.sent(written);
    }
    line.sent(held);
    Ok(())
}
