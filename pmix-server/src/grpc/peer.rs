//! The sending side of a session.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use pmix_proto::{EncodedBody, Limits, PART_BYTES};
use pmix_types::Nspace;
use pmix_types::job::JobData;
use pmix_types::message::{Collected, Failure, GroupReply, Modex, Output, Push, Reply, Welcome};
use tokio::sync::oneshot;

use super::connection::{Connection, SessionLine};
use crate::door::{Door, LogLine, warn_with};
use crate::inbox::{Inbox, Peer};
use pmix_engine::{PeerCred, RequestId};

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
        log_refusal(self.door.turn_away(peer.uid), peer, reason);
    }

    /// Says why a process is not let in.
    pub(super) fn log_refusal(&self, peer: PeerCred, reason: &Failure) {
        log_refusal(self.door.line(peer.uid), peer, reason);
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

fn log_refusal(leave: Option<LogLine>, PeerCred { uid, pid, .. }: PeerCred, reason: &Failure) {
    warn_with!(leave, uid, pid, %reason, "refused a connection");
}

/// The messages to one process on their way to its stream.
pub(super) struct SessionPeer {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    line: Arc<SessionLine>,
    version: u32,
    missed: u64,
    /// Bytes of output left out that the process has not been told of, by registration.
    lost: BTreeMap<u64, u64>,
    admission: Option<oneshot::Sender<()>>,
}

impl SessionPeer {
    /// With what resolves when the process is let in, or with an error if it is not.
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Arc<Connection>,
        line: Arc<SessionLine>,
        version: u32,
    ) -> (Self, oneshot::Receiver<()>) {
        let (admission, admitted) = oneshot::channel();
        let admission = Some(admission);
        (Self { shared, connection, line, version, missed: 0, lost: BTreeMap::new(), admission }, admitted)
    }

    fn send(&self, id: u64, body: &EncodedBody) {
        let mut rest = body.size();
        for message in body.messages(id) {
            let bytes = rest.min(PART_BYTES);
            rest -= bytes;
            self.line.send(message, bytes);
        }
    }

    /// Output is left out where it would fill the outbox; word without bytes, such as that of the end, always goes.
    fn push_output(&mut self, registration: u64, mut output: Output) {
        if !self.line.takes_pushes() && !output.data.is_empty() {
            *self.lost.entry(registration).or_default() += output.data.len() as u64;
            if output.info.is_empty() {
                return;
            }
            output.data = Bytes::new();
        }
        if let Some(bytes) = self.lost.remove(&registration) {
            self.send(0, &EncodedBody::push(&Push::OutputLost { registration, bytes }));
        }
        self.send(0, &EncodedBody::push(&Push::Output { registration, output }));
    }
}

impl Peer for SessionPeer {
    fn accept(&mut self, welcome: Welcome) {
        self.connection.let_in();
        let job = welcome.job.as_ref().map(|job| self.shared.job(job));
        self.send(0, &EncodedBody::welcome(&welcome, self.version, job));
        if let Some(admission) = self.admission.take() {
            let _ = admission.send(());
        }
    }

    fn refuse(&mut self, failure: &Failure) {
        self.shared.log_refusal(self.connection.peer, failure);
        self.send(0, &EncodedBody::failure(failure));
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) {
        self.line.end(id.0);
        let body = match &result {
            Ok(Reply::Fence(Collected::Held(modex))) => self.shared.fence(modex),
            Ok(Reply::Group(made)) => self.shared.group(made),
            Ok(Reply::Get(reply)) => {
                EncodedBody::get_reply(reply, reply.job.as_ref().map(|job| self.shared.job(job)))
            }
            Ok(reply) => EncodedBody::reply(reply),
            Err(failure) => EncodedBody::failure(failure),
        };
        let refused = self.line.refuses(body.size());
        self.send(id.0, &refused.as_ref().map_or(body, EncodedBody::failure));
    }

    fn push(&mut self, push: Push) {
        let push = match push {
            Push::Output { registration, output } => return self.push_output(registration, output),
            // its first word must be a welcome or a refusal
            Push::Stopping if self.admission.is_some() => return,
            push => push,
        };
        if !self.line.takes_pushes() {
            self.missed += 1;
            return;
        }
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            self.send(0, &EncodedBody::push(&Push::Lagged { missed }));
        }
        self.send(0, &EncodedBody::push(&push));
    }
}

/// Who was refused or closed is not listened to any more.
impl Drop for SessionPeer {
    fn drop(&mut self) {
        self.line.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_proto::{Assembler, ServerBody};
    use pmix_types::{Event, Info, IofChannels, ProcId, Status, Value, keys};

    use super::*;

    fn output(bytes: usize, is_complete: bool) -> Push {
        let source = ProcId::wildcard("job".parse().unwrap());
        let mut output = Output::new(source, IofChannels::STDOUT, vec![0; bytes].into());
        if is_complete {
            output.info.push(Info::new(&keys::IOF_COMPLETE, true));
        }
        Push::Output { registration: 7, output }
    }

    /// The sending side of a session, and what waits to be read.
    fn peer() -> (SessionPeer, Arc<SessionLine>) {
        let inbox = Inbox::new(Duration::from_secs(60)).0;
        let line = inbox.new_line();
        let door = Door::new(false);
        let peer = PeerCred { uid: 0, gid: Some(0), pid: None };
        let connection = Arc::new(Connection::new(peer, door.enter(0).unwrap()));
        let shared = Arc::new(Shared::new(inbox, Limits::default(), door));
        (SessionPeer::new(shared, connection, line.clone(), 1).0, line)
    }

    #[test]
    fn a_process_that_does_not_read_loses_output_but_hears_of_it_and_of_the_end() {
        let (mut peer, line) = peer();
        const PIECES: usize = 300;
        const PIECE: usize = 64 << 10;
        for _ in 0..PIECES {
            peer.push(output(PIECE, false));
        }
        peer.push(output(5, true));
        // answers still find room
        line.begin(1, 10).unwrap();
        peer.reply(RequestId(1), Ok(Reply::Done));
        let mut kept = read(&line);
        assert_eq!(kept.pop(), Some(output(0, true)));
        let lost = ((PIECES + 1 - kept.len()) * PIECE + 5) as u64;
        assert_eq!(kept.pop(), Some(Push::OutputLost { registration: 7, bytes: lost }));
        assert!(kept.len() > PIECES / 3 && kept.len() < PIECES / 2, "{}", kept.len());
        assert!(kept.iter().all(|push| *push == output(PIECE, false)));
        // it reads again
        peer.push(output(3, false));
        assert_eq!(read(&line), [output(3, false)]);
    }

    #[test]
    fn events_are_bounded_in_bytes_and_those_left_out_are_counted() {
        let (mut peer, line) = peer();
        let event = Event::new(Status::from_raw(-4242), ProcId::none())
            .with_info(Info::dynamic("big".parse().unwrap(), Value::ByteObject(vec![0; 1 << 20].into())));
        let push = Push::Event { registrations: vec![1], event };
        for _ in 0..20 {
            peer.push(push.clone());
        }
        let kept = read(&line).len();
        assert!((5..10).contains(&kept), "{kept}");
        peer.push(push.clone());
        assert_eq!(read(&line), [Push::Lagged { missed: 20 - kept as u64 }, push]);
    }

    /// What was said unasked and waits to be read.
    fn read(line: &SessionLine) -> Vec<Push> {
        let mut assembler = Assembler::new(Limits::default());
        let mut pushes = Vec::new();
        while let Some((message, bytes)) = line.try_next() {
            line.sent(bytes);
            if let Some((0, ServerBody::Push(push))) = assembler.accept_server(message).unwrap() {
                pushes.push(push);
            }
        }
        pushes
    }
}
