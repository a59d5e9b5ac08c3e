//! The receiving side of a native session.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pmix_native::Version;
use pmix_native::conn::{Connect, Frame, Framing, Peer as Who, ToolAnswer, ToolIdentity, tag};
use pmix_native::msg::{Context, Reply as Answer, Request as Ask};
use pmix_types::message::{Failure, Hello, Identity, Monitor, Request};
use pmix_types::{Directives, Info, Pid, ProcId, Status, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::job::bare_job;
use super::owner::Connection;
use super::peer::{Greeting, Ledger, MAX_IN_FLIGHT, NativePeer, encode, frame};
use super::translate::{Task, task};
use crate::door::Guest;
use crate::driver::Event;
use crate::engine::{ConnId, Input, PeerCred, RequestId};

/// A connection that does not say who it is within this time is closed.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Ids of requests that a session makes by itself begin here, above all tags.
const ERRANDS: u64 = 1 << 32;
/// Bytes of messages waiting to be written that are joined into one write.
const WRITE_BYTES: usize = 64 << 10;

/// Serves a connection whose other end belongs to that user.
pub(super) async fn run(
    stream: TcpStream,
    connection: Connection,
    uid: u32,
    mut guest: Guest,
    shared: Arc<Shared>,
) {
    let from = connection.from;
    let (mut reading, mut writing) = stream.into_split();
    let mut arrived = BytesMut::new();
    let connect =
        match tokio::time::timeout(CONNECT_WITHIN, connect_message(&mut reading, &mut arrived)).await {
            Ok(Ok(connect)) => connect,
            Ok(Err(reason)) => {
                return shared.turn_away(uid, from, &format!("it does not speak the protocol: {reason}"));
            }
            Err(_) => return shared.turn_away(uid, from, "it did not say who it is in time"),
        };
    let (hello, greeting, peer) = match admission(&connect, uid) {
        Ok(admission) => admission,
        Err(failure) => {
            shared.turn_away(uid, from, &failure.to_string());
            // clients take no status at this point
            if !matches!(connect.peer, Who::Client(_)) {
                let _ = writing.write_all(&ToolAnswer::refusal(failure.status)).await;
            }
            return;
        }
    };
    let version = connect.version.parse().unwrap_or_else(|_| Version::of_dialect(connect.encoding.dialect));
    let ledger = Arc::new(Ledger::new(Context::new(connect.encoding, version)));
    let (admitted, admission) = oneshot::channel();
    let (sender, outbox, frames) =
        NativePeer::new(shared.clone(), ledger.clone(), greeting, (uid, from), admitted);
    tokio::spawn(write(writing, frames));
    let conn = shared.inbox.next_conn();
    if !shared.inbox.send(Event::Open { conn, peer: Box::new(sender) }).await {
        return;
    }
    shared.inbox.send(Event::Input(Input::Hello { conn, peer, hello })).await;
    let mut session = Session { conn, shared, ledger, outbox, errands: ERRANDS };
    let reason = tokio::select! {
        admitted = admission => match admitted {
            // nothing it has sent counts unless it is still there to be asked about
            Ok((proc, job)) => match session.shared.owners.uid_of(&connection) {
                Ok(still) if still == uid => {
                    guest.let_in();
                    session.requests(&mut reading, &mut arrived, &proc, job.as_ref()).await
                }
                Ok(other) => format!("its socket belongs to uid {other} now, no more to uid {uid}"),
                Err(error) => {
                    let reason = format!("{proc} left before it was let in, so its requests are dropped: {error}");
                    session.shared.log_refusal(uid, from, &reason);
                    String::new()
                }
            },
            // refused, and its other side has said why
            Err(_) => return,
        },
        // a process that leaves while the host is asked; one that waits sends nothing before the answer
        reason = closed(&mut reading) => reason,
    };
    session.shared.inbox.send(Event::Input(Input::Lost { conn, reason })).await;
}

/// Resolves when the socket is closed by the peer, or broken, while nothing is to be read.
async fn closed(reading: &mut OwnedReadHalf) -> String {
    match reading.peek(&mut [0]).await {
        Ok(0) | Err(_) => String::new(),
        // something came: the session will read it
        Ok(_) => std::future::pending().await,
    }
}

async fn connect_message(reading: &mut OwnedReadHalf, arrived: &mut BytesMut) -> Result<Connect, String> {
    loop {
        if let Some(connect) = Connect::decode(arrived).map_err(|error| error.to_string())? {
            return Ok(connect);
        }
        match reading.read_buf(arrived).await {
            Ok(0) => return Err("it left without saying who it is".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Who connects, on a socket that belongs to that user.
fn admission(connect: &Connect, uid: u32) -> Result<(Hello, Greeting, PeerCred), Failure> {
    let refused = |message: String| Failure::new(Status::ERR_INVALID_CRED, message);
    let said = connect.security.user().ok_or_else(|| {
        refused(format!("security mechanism {} is not supported, only native", connect.security.mechanism))
    })?;
    if uid != said.uid {
        return Err(refused(format!(
            "it says it is of uid {}, but its socket belongs to uid {uid}",
            said.uid
        )));
    }
    let peer = PeerCred { uid, gid: said.gid, pid: None };
    let (identity, greeting) = match &connect.peer {
        Who::Client(proc) => (Identity::Client(proc.clone()), Greeting::Client),
        Who::Tool { identity: ToolIdentity::Given(proc), .. } => {
            (Identity::Tool(Some(proc.clone())), Greeting::Tool { wants_identity: false })
        }
        // its name is from the environment that a server gives to clients, so it is one (TOL-16)
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
    let mut hello = Hello::new(identity, Pid(0));
    hello.directives = Directives::from(connect.info.clone());
    Ok((hello, greeting, peer))
}

struct Session {
    conn: ConnId,
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    outbox: mpsc::Sender<Bytes>,
    errands: u64,
}

impl Session {
    /// Carries requests to the driver until the process leaves; says why it did.
    async fn requests(
        &mut self,
        reading: &mut OwnedReadHalf,
        arrived: &mut BytesMut,
        proc: &ProcId,
        job: Option<&Arc<pmix_types::job::JobData>>,
    ) -> String {
        let framing = Framing::default();
        loop {
            match framing.decode(arrived) {
                Ok(Some(frame)) => {
                    if let Err(reason) = self.on_frame(frame, proc, job).await {
                        return reason;
                    }
                }
                Ok(None) => match reading.read_buf(arrived).await {
                    Ok(0) | Err(_) => return String::new(),
                    Ok(_) => {}
                },
                Err(error) => {
                    tracing::warn!(%proc, %error, "closed a connection that broke the protocol");
                    return format!("it broke the protocol: {error}");
                }
            }
        }
    }

    async fn on_frame(
        &mut self,
        received: Frame,
        proc: &ProcId,
        job: Option<&Arc<pmix_types::job::JobData>>,
    ) -> Result<(), String> {
        if received.tag == tag::HEARTBEAT {
            self.errands += 1;
            return self.ask(self.errands, heartbeat()).await;
        }
        if received.tag < tag::FIRST_REQUEST {
            // nobody has asked for input yet
            return Ok(());
        }
        let asked = match Ask::decode(&self.ledger.context, &received.payload) {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(%proc, %error, "a request cannot be read");
                return self.answer(received.tag, &Status::ERR_UNPACK_FAILURE.into()).await;
            }
        };
        match task(proc, asked) {
            Task::Ask(request, form) => {
                let id = u64::from(received.tag);
                if !self.ledger.expect(id, form) {
                    tracing::warn!(%proc, MAX_IN_FLIGHT, "too many requests under way");
                    return self.answer(received.tag, &Status::ERR_RESOURCE_BUSY.into()).await;
                }
                self.ask(id, request).await
            }
            Task::Job => {
                let context = &self.ledger.context;
                let encoded = match job {
                    Some(job) => self.shared.jobs.reply(job, &self.shared.server, context),
                    None => bare_job(proc, &self.shared.server).encode(context),
                };
                let payload = encoded.unwrap_or_else(|error| {
                    tracing::warn!(%proc, %error, "job data cannot be written in the dialect of its process");
                    encode(context, &Status::ERR_PACK_FAILURE.into())
                });
                self.send(frame(received.tag, payload)).await
            }
            Task::Deregister(codes) => {
                for number in self.ledger.retire(&codes) {
                    self.errands += 1;
                    self.ask(self.errands, Request::DeregisterEvents(number)).await?;
                }
                Ok(())
            }
            Task::Refuse(status) => self.answer(received.tag, &status.into()).await,
        }
    }

    async fn ask(&self, id: u64, request: Request) -> Result<(), String> {
        let input = Input::Request { conn: self.conn, id: RequestId(id), request };
        if self.shared.inbox.send(Event::Input(input)).await { Ok(()) } else { Err(String::new()) }
    }

    async fn answer(&self, tag: u32, reply: &Answer) -> Result<(), String> {
        self.send(frame(tag, encode(&self.ledger.context, reply))).await
    }

    async fn send(&self, bytes: Bytes) -> Result<(), String> {
        self.outbox.send(bytes).await.map_err(|_| "it does not read any more".to_owned())
    }
}

/// What processes of the other wire say in its place.
fn heartbeat() -> Request {
    Request::Monitor(Monitor::new(Info::new(&keys::SEND_HEARTBEAT, true), Status::SUCCESS))
}

/// Writes what is sent, as much at a time as there is.
async fn write(mut writing: OwnedWriteHalf, mut frames: mpsc::Receiver<Bytes>) {
    let mut joined = BytesMut::new();
    while let Some(first) = frames.recv().await {
        joined.extend_from_slice(&first);
        while joined.len() < WRITE_BYTES {
            let Ok(next) = frames.try_recv() else { break };
            joined.extend_from_slice(&next);
        }
        if writing.write_all(&joined).await.is_err() {
            return;
        }
        joined.clear();
    }
}
