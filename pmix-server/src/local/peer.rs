//! The sending side of a connection.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use pmix_proto::frames::Frames;
use pmix_proto::v1::{ClientMessage, ServerMessage};
use pmix_proto::{EncodedBody, Limits, PART_BYTES};
use pmix_types::job::JobData;
use pmix_types::message::{Collected, Failure, Fenced, GroupReply, Modex, Output, Push, Reply, Welcome};
use pmix_types::{Nspace, Uid};
use tokio::sync::oneshot;
use tokio_util::codec::Encoder;

use super::connection::{Connection, GrpcLine, Outbound};
use super::files::{Filed, Files, UNREAD_FILES};
use crate::door::{Door, LogLine, warn_with};
use crate::inbox::{Inbox, Peer};
use pmix_engine::{PeerCred, RequestId};

/// Collected data of at least this many bytes is put into a file for processes that take files.
const IN_FILE: usize = 32 << 10;

/// Largest message, in bytes, that is written to the socket at once.
const AT_ONCE: usize = 16 << 10;

/// State that all connections of a server share.
#[derive(Debug)]
pub(super) struct LocalShared {
    pub(super) inbox: Inbox,
    pub(super) limits: Limits,
    pub(super) door: Door,
    encoded: Mutex<Encoded>,
}

/// Bodies for many processes, encoded once.
#[derive(Debug, Default)]
struct Encoded {
    fence: Option<EncodedFence>,
    files: Files,
    group: Option<(Arc<GroupReply>, EncodedBody)>,
    jobs: HashMap<Nspace, (Arc<JobData>, Bytes)>,
}

/// What a fence has collected, in the forms that its participants have needed so far.
#[derive(Debug)]
struct EncodedFence {
    held: Arc<Modex>,
    /// What is in the data: the changes after the first generation up to the second.
    changes: (u64, u64),
    modex: Bytes,
    body: Option<EncodedBody>,
    file: Option<(EncodedBody, Arc<Filed>)>,
}

/// The result of a fence for one participant.
enum FenceResult {
    Body(EncodedBody),
    File(EncodedBody, Arc<Filed>),
}

impl EncodedFence {
    fn new(held: Arc<Modex>, changes: (u64, u64)) -> Self {
        let modex = pmix_proto::modex::encode(&held);
        Self { held, changes, modex, body: None, file: None }
    }

    /// The file for processes of this user, if the data is large and the file is nobody else's.
    fn file(&mut self, files: &mut Files, uid: Uid) -> Option<(EncodedBody, Arc<Filed>)> {
        if self.modex.len() < IN_FILE {
            return None;
        }
        if self.file.is_none() {
            let problem = |error: &std::io::Error| {
                tracing::warn!(%error, "collected data goes to each process by itself, since it cannot be put into a file");
            };
            let filed = files.add(&self.modex, uid).inspect_err(problem).ok();
            let body = |filed: &Filed| EncodedBody::fence_file(filed.bytes() as u64, self.changes);
            self.file = filed.map(|filed| (body(&filed), filed));
        }
        self.file.clone().filter(|(_, file)| file.is_for(uid))
    }

    fn body(&mut self) -> EncodedBody {
        let encode = || {
            let (since, generation) = self.changes;
            let fenced = Fenced::new(Collected::Encoded(self.modex.clone())).with_changes(since, generation);
            EncodedBody::reply(&Reply::Fence(fenced))
        };
        self.body.get_or_insert_with(encode).clone()
    }
}

impl LocalShared {
    pub(super) fn new(inbox: Inbox, limits: Limits, door: Door) -> Self {
        Self { inbox, limits, door, encoded: Mutex::default() }
    }

    /// Counts and logs a process that is refused before it reaches the engine.
    pub(super) fn turn_away(&self, peer: PeerCred, reason: &Failure) {
        log_refusal(self.door.turn_away(peer.uid), peer, reason);
    }

    /// Logs why a process is not let in.
    pub(super) fn log_refusal(&self, peer: PeerCred, reason: &Failure) {
        log_refusal(self.door.line(peer.uid), peer, reason);
    }

    /// The encoded result of a fence, which goes to all its participants one after the other.
    fn fence(&self, modex: &Arc<Modex>, changes: (u64, u64), file_for: Option<Uid>) -> FenceResult {
        let Encoded { fence, files, .. } = &mut *self.lock();
        if !fence.as_ref().is_some_and(|fence| Arc::ptr_eq(&fence.held, modex)) {
            *fence = None;
        }
        let fence = fence.get_or_insert_with(|| EncodedFence::new(modex.clone(), changes));
        let file = file_for.and_then(|uid| fence.file(files, uid));
        file.map_or_else(|| FenceResult::Body(fence.body()), |(body, file)| FenceResult::File(body, file))
    }

    /// Frees what no process has to read any more.
    fn free_files(&self) {
        let mut encoded = self.lock();
        // it would be given to nobody else, but for the participants that are being answered
        encoded.fence = None;
        encoded.files.prune();
    }

    /// The encoded result of a group construction, which goes to all its members.
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

    /// Encoded job data, which goes to every process of its namespace.
    fn job(&self, job: &Arc<JobData>) -> Bytes {
        let mut encoded = self.lock();
        match encoded.jobs.get(job.nspace()) {
            Some((held, bytes)) if Arc::ptr_eq(held, job) => bytes.clone(),
            _ => {
                let bytes = pmix_proto::encode_job(job);
                // only this table still holds the data of namespaces that are gone
                encoded.jobs.retain(|_, (held, _)| Arc::strong_count(held) > 1);
                encoded.jobs.insert(job.nspace().clone(), (job.clone(), bytes.clone()));
                bytes
            }
        }
    }

    /// Only the server's own thread takes this lock, so it never blocks.
    fn lock(&self) -> std::sync::MutexGuard<'_, Encoded> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_refusal(leave: Option<LogLine>, PeerCred { uid, pid, .. }: PeerCred, reason: &Failure) {
    warn_with!(leave, uid = uid.as_raw(), pid, %reason, "refused a connection");
}

/// Sends the messages for one process to its stream.
pub(super) struct GrpcPeer {
    shared: Arc<LocalShared>,
    connection: Arc<Connection>,
    line: Arc<GrpcLine>,
    version: u32,
    takes_files: bool,
    /// Bytes of output that were left out and not yet reported to the process, by registration.
    lost: BTreeMap<u64, u64>,
    admission: Option<oneshot::Sender<()>>,
    /// The last files that it was given, the newest last.
    files: VecDeque<Arc<Filed>>,
}

impl GrpcPeer {
    /// Also returns a receiver that resolves when the process is let in, with an error if it is refused.
    pub(super) fn new(
        shared: Arc<LocalShared>,
        connection: Arc<Connection>,
        line: Arc<GrpcLine>,
        version: u32,
        takes_files: bool,
    ) -> (Self, oneshot::Receiver<()>) {
        let (admission, admitted) = oneshot::channel();
        let peer = Self {
            shared,
            connection,
            line,
            version,
            takes_files,
            lost: BTreeMap::new(),
            admission: Some(admission),
            files: VecDeque::new(),
        };
        (peer, admitted)
    }

    fn send(&self, id: u64, body: &EncodedBody) {
        let mut rest = body.size();
        for message in body.messages(id) {
            let bytes = rest.min(PART_BYTES);
            rest -= bytes;
            self.line.send_at_once(Outbound::Message(message), bytes, |outbound| match outbound {
                Outbound::Message(message) => self.write_at_once(message, bytes),
                other => Some((other, bytes)),
            });
        }
    }

    /// Writes a small message in its frame, if nobody else is writing; returns the rest. Large ones share their bytes with those
    /// of other processes until they are written.
    fn write_at_once(&self, message: ServerMessage, bytes: usize) -> Option<(Outbound, usize)> {
        if bytes > AT_ONCE || !self.connection.writes_at_once() {
            return Some((Outbound::Message(message), bytes));
        }
        let mut frame = BytesMut::new();
        if let Err(error) = Frames::<ClientMessage>::new(0).encode(message, &mut frame) {
            // it is far smaller than the largest frame
            tracing::error!(%error, "a message cannot be sent");
            return None;
        }
        let rest = self.connection.write_at_once(frame.freeze());
        let bytes = rest.len();
        (bytes > 0).then_some((Outbound::Frame(rest), bytes))
    }

    fn hand_over(&mut self, id: u64, body: EncodedBody, file: Arc<Filed>) {
        self.files.push_back(file.clone());
        if self.files.len() > UNREAD_FILES {
            self.files.pop_front();
        }
        self.line.send(Outbound::Fence { id, body, file }, 0);
    }

    /// Output is left out if the line is full; messages without bytes, such as the end of the output, are always sent.
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

impl Peer for GrpcPeer {
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
            Ok(Reply::Fence(Fenced { collected: Collected::Held(modex), since, generation, .. })) => {
                let uid = self.connection.peer.uid;
                match self.shared.fence(modex, (*since, *generation), self.takes_files.then_some(uid)) {
                    FenceResult::Body(body) => body,
                    FenceResult::File(body, file) => return self.hand_over(id.0, body, file),
                }
            }
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
            // the first message must be a welcome or a refusal
            Push::Stopping if self.admission.is_some() => return,
            push => push,
        };
        if !self.line.takes_pushes() {
            self.connection.misses_one();
            return;
        }
        if let Some(missed) = self.connection.missed() {
            self.send(0, &EncodedBody::push(&missed));
        }
        self.send(0, &EncodedBody::push(&push));
    }
}

/// After a refusal or the end of the connection, no further messages are sent.
impl Drop for GrpcPeer {
    fn drop(&mut self) {
        self.line.finish();
        if !self.files.is_empty() {
            self.files.clear();
            self.shared.free_files();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_proto::{Assembler, ServerBody};
    use pmix_types::message::{ProcData, PutEntry};
    use pmix_types::{Event, Gid, Info, IofChannels, ProcId, Rank, Scope, Status, Value, keys};

    use super::*;

    fn output(bytes: usize, is_complete: bool) -> Push {
        let source = ProcId::wildcard("job".parse().unwrap());
        let mut output = Output::new(source, IofChannels::STDOUT, vec![0; bytes].into());
        if is_complete {
            output.info.push(Info::new(&keys::IOF_COMPLETE, true));
        }
        Push::Output { registration: 7, output }
    }

    /// The sending side of a connection, and its unread messages.
    fn peer() -> (GrpcPeer, Arc<GrpcLine>) {
        let inbox = Inbox::new(Duration::from_secs(60)).0;
        let line = inbox.new_line(Uid::ROOT);
        let door = Door::new(false);
        let peer = PeerCred { uid: Uid::ROOT, gid: Some(Gid::ROOT), pid: None };
        let connection = Arc::new(Connection::new(peer, door.enter(Uid::ROOT).unwrap()));
        let shared = Arc::new(LocalShared::new(inbox, Limits::default(), door));
        (GrpcPeer::new(shared, connection, line.clone(), 1, true).0, line)
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

    fn is_in_a_file(line: &GrpcLine) -> Option<Arc<Filed>> {
        match line.try_next().unwrap().0 {
            Outbound::Fence { id: 9, file, .. } => Some(file),
            Outbound::Message(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn collected(bytes: usize) -> Arc<Modex> {
        let value = Value::ByteObject(vec![7; bytes].into());
        let entry = PutEntry::new(Scope::GLOBAL, "k".parse().unwrap(), value);
        Arc::new(Modex::new(vec![ProcData::new(
            ProcId::new("job".parse().unwrap(), Rank::from_raw(0)),
            vec![entry],
        )]))
    }

    #[test]
    fn large_collections_are_put_into_a_file_once_for_the_processes_of_a_user_that_take_files() {
        let (mut peer, line) = peer();
        let answer = |peer: &mut GrpcPeer, line: &GrpcLine, modex: &Arc<Modex>| {
            peer.reply(RequestId(9), Ok(Reply::Fence(Fenced::new(modex.clone()))));
            is_in_a_file(line)
        };
        assert!(answer(&mut peer, &line, &collected(100)).is_none());
        let large = collected(IN_FILE);
        let first = answer(&mut peer, &line, &large).unwrap();
        let (mut second, other_line) = another(&peer, Uid::ROOT, true);
        assert!(Arc::ptr_eq(&first, &answer(&mut second, &other_line, &large).unwrap()));
        // not to another user, nor on a wire without files
        let (mut other, other_line) = another(&peer, Uid::new(1), true);
        assert!(answer(&mut other, &other_line, &large).is_none());
        let (mut grpc, grpc_line) = another(&peer, Uid::ROOT, false);
        assert!(answer(&mut grpc, &grpc_line, &large).is_none());

        // a file is kept for as long as one of them may have to read it
        for _ in 0..UNREAD_FILES {
            assert!(first.given().is_some());
            answer(&mut peer, &line, &collected(IN_FILE)).unwrap();
        }
        let last = Arc::downgrade(&answer(&mut peer, &line, &collected(IN_FILE)).unwrap());
        let first = Arc::downgrade(&{ first });
        assert!(first.upgrade().unwrap().given().is_some());
        drop(second);
        assert!(first.upgrade().is_none() && last.upgrade().unwrap().given().is_some());
        drop(peer);
        assert!(last.upgrade().is_none());
    }

    #[test]
    fn events_are_bounded_in_bytes_and_those_left_out_are_counted() {
        let (mut peer, line) = peer();
        let event = Event::new(Status::from_raw(-4242), ProcId::none())
            .with_info(Info::dynamic("big".parse().unwrap(), Value::ByteObject(vec![0; 1 << 20].into())));
        let push = Push::Event { registrations: vec![1], event, is_kept: false };
        for _ in 0..20 {
            peer.push(push.clone());
        }
        let kept = read(&line).len();
        assert!((5..10).contains(&kept), "{kept}");
        peer.push(push.clone());
        assert_eq!(read(&line), [Push::Lagged { missed: 20 - kept as u64 }, push]);
    }

    /// Another process of the same server.
    fn another(of: &GrpcPeer, uid: Uid, takes_files: bool) -> (GrpcPeer, Arc<GrpcLine>) {
        let line = of.shared.inbox.new_line(uid);
        let guest = Door::new(true).enter(uid).unwrap();
        let connection = Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest));
        (GrpcPeer::new(of.shared.clone(), connection, line.clone(), 1, takes_files).0, line)
    }

    /// The unread unsolicited messages.
    fn read(line: &GrpcLine) -> Vec<Push> {
        let mut assembler = Assembler::new(Limits::default());
        let mut pushes = Vec::new();
        while let Some((message, bytes)) = line.try_next() {
            line.sent(bytes);
            let Outbound::Message(message) = message else { panic!("a fence was answered") };
            if let Some((0, ServerBody::Push(push))) = assembler.accept_server(message).unwrap() {
                pushes.push(push);
            }
        }
        pushes
    }
}
