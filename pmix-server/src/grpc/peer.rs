//! The sending side of a session.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use pmix_proto::v1::ServerMessage;
use pmix_proto::{EncodedBody, Limits, PART_BYTES};
use pmix_types::Nspace;
use pmix_types::job::JobData;
use pmix_types::message::{Collected, Failure, GroupReply, Modex, Output, Push, Reply, Welcome};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Connection;
use crate::door::{Door, Line};
use crate::driver::{Inbox, Peer, PeerOverrun};
use crate::engine::{PeerCred, RequestId};

/// Messages that may wait to be read by a process before its connection is closed.
const OUTBOX: usize = 16 * 1024;
/// Bytes that may wait likewise; one body may be larger.
const OUTBOX_BYTES: usize = 64 << 20;
/// Of the messages, events leave so many free for answers.
const EVENT_RESERVE: usize = OUTBOX / 2;
/// Bytes that may wait before output is left out.
const OUTPUT_BYTES: usize = 8 << 20;
/// Requests a process may have under way.
pub(super) const MAX_IN_FLIGHT: usize = 4096;

/// What all sessions of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inbox: Inbox,
    pub(super) limits: Limits,
    pub(super) door: Door,
    encoded: Mutex<Encoded>,
}

/// Bodies that many processes get, encoded once.
#[derive(Debug, Default)]
struct Encoded {
    fence: Option<(Arc<Modex>, EncodedBody)>,
    group: Option<(Arc<GroupReply>, EncodedBody)>,
    jobs: HashMap<Nspace, (Arc<JobData>, Bytes)>,
}

impl Shared {
    pub(super) fn new(inbox: Inbox, limits: Limits, door: Door) -> Self {
        Self { inbox, limits, door, encoded: Mutex::default() }
    }

    /// Counts a process that is turned away before the engine sees it, and says why.
    pub(super) fn turn_away(&self, peer: PeerCred, reason: &Failure) {
        if let Some(line) = self.door.turn_away(peer.uid) {
            log_refusal(line, peer, reason);
        }
    }

    /// Says why a process is not let in.
    pub(super) fn log_refusal(&self, peer: PeerCred, reason: &Failure) {
        if let Some(line) = self.door.line(peer.uid) {
            log_refusal(line, peer, reason);
        }
    }

    /// The outcome of a fence goes to all its participants, one after the other.
    fn fence(&self, modex: &Arc<Modex>) -> EncodedBody {
        let mut encoded = self.lock();
        match &encoded.fence {
            Some((held, body)) if Arc::ptr_eq(held, modex) => body.clone(),
            _ => {
                let body = EncodedBody::reply(&Reply::Fence(modex.clone().into()));
                encoded.fence = Some((modex.clone(), body.clone()));
                body
            }
        }
    }

    /// So does what the members of a new group are told.
    fn group(&self, made: &Arc<GroupReply>) -> EncodedBody {
        let mut encoded = self.lock();
        match &encoded.group {
            Some((held, body)) if Arc::ptr_eq(held, made) => body.clone(),
            _ => {
                let body = EncodedBody::reply(&Reply::Group(made.clone()));
                encoded.group = Some((made.clone(), body.clone()));
                body
            }
        }
    }

    /// Job data goes to every process of its namespace.
    fn job(&self, job: &Arc<JobData>) -> Bytes {
        let mut encoded = self.lock();
        match encoded.jobs.get(job.nspace()) {
            Some((held, bytes)) if Arc::ptr_eq(held, job) => bytes.clone(),
            _ => {
                let bytes = pmix_proto::encode_job(job);
                // namespaces that are gone are held by nobody else any more
                encoded.jobs.retain(|_, (held, _)| Arc::strong_count(held) > 1);
                encoded.jobs.insert(job.nspace().clone(), (job.clone(), bytes.clone()));
                bytes
            }
        }
    }

    /// Only the server's own thread comes here, so nobody ever waits.
    fn lock(&self) -> std::sync::MutexGuard<'_, Encoded> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_refusal(Line { left_out }: Line, PeerCred { uid, pid, .. }: PeerCred, reason: &Failure) {
    tracing::warn!(uid, pid, %reason, left_out, "refused a connection");
}

/// A message to a process, and how much of the outbox it takes.
pub(super) struct Queued {
    message: ServerMessage,
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Queued {
    /// Takes it out of the outbox.
    pub(super) fn take(self) -> ServerMessage {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.message
    }
}

/// The messages to one process on their way to its stream.
pub(super) struct SessionPeer {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    outbox: mpsc::Sender<Queued>,
    /// Bytes in the outbox.
    held: Arc<AtomicUsize>,
    version: u32,
    in_flight: Arc<AtomicUsize>,
    missed: u64,
    /// Bytes of output left out that the process has not been told of, by registration.
    lost: BTreeMap<u64, u64>,
    admission: Option<oneshot::Sender<()>>,
    /// Ends the receiving side with this one: who was refused or closed is not listened to any more.
    _end: DropGuard,
}

/// What the receiving side of a session knows of its sending side.
pub(super) struct Link {
    pub(super) messages: mpsc::Receiver<Queued>,
    /// Resolves when the process is let in, or with an error if it is not.
    pub(super) admitted: oneshot::Receiver<()>,
    /// Cancelled when nothing more will be said to the process.
    pub(super) ended: CancellationToken,
    /// Requests that are not answered yet.
    pub(super) in_flight: Arc<AtomicUsize>,
}

impl SessionPeer {
    pub(super) fn new(shared: Arc<Shared>, connection: Arc<Connection>, version: u32) -> (Self, Link) {
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let (admission, admitted) = oneshot::channel();
        let ended = CancellationToken::new();
        let in_flight = Arc::new(AtomicUsize::new(0));
        let peer = Self {
            shared,
            connection,
            outbox,
            held: Arc::default(),
            version,
            in_flight: in_flight.clone(),
            missed: 0,
            lost: BTreeMap::new(),
            admission: Some(admission),
            _end: ended.clone().drop_guard(),
        };
        (peer, Link { messages, admitted, ended, in_flight })
    }

    /// Puts a body into the outbox. One that is larger than the outbox finds room in an empty one.
    fn send(&self, id: u64, body: &EncodedBody) -> Result<(), PeerOverrun> {
        let bytes = body.size();
        let held = self.held.load(Ordering::Relaxed);
        if held > 0 && held + bytes > OUTBOX_BYTES {
            return Err(PeerOverrun);
        }
        let mut rest = bytes;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        for message in body.messages(id) {
            let bytes = rest.min(PART_BYTES);
            rest -= bytes;
            match self.outbox.try_send(Queued { message, bytes, held: self.held.clone() }) {
                Ok(()) => {}
                // its process is gone, the driver will hear of it
                Err(mpsc::error::TrySendError::Closed(_)) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => return Err(PeerOverrun),
            }
        }
        Ok(())
    }

    /// Output is left out where it would fill the outbox; word without bytes, such as that of the end, always goes.
    fn push_output(&mut self, registration: u64, mut output: Output) {
        let has_room =
            self.outbox.capacity() >= EVENT_RESERVE && self.held.load(Ordering::Relaxed) < OUTPUT_BYTES;
        if !has_room && !output.data.is_empty() {
            *self.lost.entry(registration).or_default() += output.data.len() as u64;
            if output.info.is_empty() {
                return;
            }
            output.data = Bytes::new();
        }
        if let Some(bytes) = self.lost.get(&registration).copied()
            && self.send(0, &EncodedBody::push(&Push::OutputLost { registration, bytes })).is_ok()
        {
            self.lost.remove(&registration);
        }
        let bytes = output.data.len() as u64;
        if self.send(0, &EncodedBody::push(&Push::Output { registration, output })).is_err() {
            *self.lost.entry(registration).or_default() += bytes;
        }
    }
}

impl Peer for SessionPeer {
    fn accept(&mut self, welcome: Welcome) {
        self.connection.let_in();
        let job = welcome.job.as_ref().map(|job| self.shared.job(job));
        // a fresh outbox has room
        let _ = self.send(0, &EncodedBody::welcome(&welcome, self.version, job));
        if let Some(admission) = self.admission.take() {
            let _ = admission.send(());
        }
    }

    fn refuse(&mut self, failure: &Failure) {
        self.shared.log_refusal(self.connection.peer, failure);
        let _ = self.send(0, &EncodedBody::failure(failure));
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) -> Result<(), PeerOverrun> {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let body = match &result {
            Ok(Reply::Fence(Collected::Held(modex))) => self.shared.fence(modex),
            Ok(Reply::Group(made)) => self.shared.group(made),
            Ok(Reply::Get(reply)) => {
                EncodedBody::get_reply(reply, reply.job.as_ref().map(|job| self.shared.job(job)))
            }
            Ok(reply) => EncodedBody::reply(reply),
            Err(failure) => EncodedBody::failure(failure),
        };
        self.send(id.0, &body)
    }

    fn push(&mut self, push: Push) {
        let push = match push {
            Push::Output { registration, output } => return self.push_output(registration, output),
            push => push,
        };
        if self.outbox.capacity() < EVENT_RESERVE {
            self.missed += 1;
            return;
        }
        if self.missed > 0 && self.send(0, &EncodedBody::push(&Push::Lagged { missed: self.missed })).is_ok()
        {
            self.missed = 0;
        }
        // there is room, and one more missed would be told next time
        if self.send(0, &EncodedBody::push(&push)).is_err() {
            self.missed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_proto::{Assembler, ServerBody};
    use pmix_types::{Info, IofChannels, ProcId, keys};

    use super::*;

    fn output(bytes: usize, is_complete: bool) -> Push {
        let source = ProcId::wildcard("job".parse().unwrap());
        let mut output = Output::new(source, IofChannels::STDOUT, vec![0; bytes].into());
        if is_complete {
            output.info.push(Info::new(&keys::IOF_COMPLETE, true));
        }
        Push::Output { registration: 7, output }
    }

    #[test]
    fn a_process_that_does_not_read_loses_output_but_hears_of_it_and_of_the_end() {
        let door = Door::new(false);
        let shared = Arc::new(Shared::new(Inbox::new().0, Limits::default(), door.clone()));
        let peer = PeerCred { uid: 0, gid: 0, pid: None };
        let connection = Arc::new(Connection::new(peer, door.enter(0).unwrap()));
        let (mut peer, mut link) = SessionPeer::new(shared, connection, 1);
        const PIECE: usize = 64 << 10;
        for _ in 0..300 {
            peer.push(output(PIECE, false));
        }
        peer.push(output(5, true));
        // answers still find room
        peer.reply(RequestId(1), Ok(Reply::Done)).unwrap();
        assert_eq!(link.messages.len(), OUTPUT_BYTES / PIECE + 3);
        let mut kept = read(&mut link);
        assert_eq!(kept.pop(), Some(output(0, true)));
        let lost = ((300 - OUTPUT_BYTES / PIECE) * PIECE + 5) as u64;
        assert_eq!(kept.pop(), Some(Push::OutputLost { registration: 7, bytes: lost }));
        assert!(kept.iter().all(|push| *push == output(PIECE, false)));
        // it reads again
        peer.push(output(3, false));
        assert_eq!(read(&mut link), [output(3, false)]);
    }

    /// What was said unasked and waits to be read.
    fn read(link: &mut Link) -> Vec<Push> {
        let mut assembler = Assembler::new(Limits::default());
        let mut pushes = Vec::new();
        while let Ok(queued) = link.messages.try_recv() {
            if let Some((0, ServerBody::Push(push))) = assembler.accept_server(queued.take()).unwrap() {
                pushes.push(push);
            }
        }
        pushes
    }
}
