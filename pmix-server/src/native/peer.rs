//! The sending side of a native connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::{Bytes, BytesMut};
use pmix_native::codec::CodecError;
use pmix_native::conn::{ClientAnswer, Frame, Framing, ToolAnswer};
use pmix_native::msg::{Context, IofDelivery, Push as NativePush, Reply as Answer};
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Output, Push, Reply, Welcome};
use pmix_types::{ProcId, Status, Uid};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;

use super::NativeShared;
use super::translate::{Asked, answer};
use crate::door::{LogLine, warn_with};
use crate::inbox::Peer;
use crate::line::{Line, Refused};
use pmix_engine::RequestId;

/// How the server answers the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Client,
    Tool { wants_identity: bool },
}

/// State shared by both sides of a connection.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) context: Context,
    pub(super) line: Arc<Line<Bytes>>,
    /// What the socket takes at once needs no task to write it. The task owns the socket: its end is the end of the messages.
    socket: Weak<OwnedWriteHalf>,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    /// Pending requests, with what their replies depend on.
    pending: HashMap<u64, Asked>,
    /// Codes of each event registration.
    registrations: BTreeMap<u64, Vec<Status>>,
    /// Event registrations that newer ones have replaced, and that have not been ended yet.
    replaced: Vec<u64>,
    /// The process's own number for each output subscription.
    pulls: BTreeMap<u64, u64>,
    /// Codes of events that monitors of the process raise.
    alarms: Vec<Status>,
    /// Why a commit has failed since the last fence.
    commit_failure: Option<Status>,
}

/// Codes of alerts: the engine refuses more monitors than this.
const MAX_ALARMS: usize = 64;

impl Ledger {
    pub(super) fn new(context: Context, line: Arc<Line<Bytes>>, socket: Weak<OwnedWriteHalf>) -> Self {
        Self { context, line, socket, state: Mutex::default() }
    }

    /// Records a pending request of `bytes` bytes.
    pub(super) fn expect(&self, id: u64, asked: Asked, bytes: usize) -> Result<(), Refused> {
        self.line.begin(id, bytes)?;
        self.lock().pending.insert(id, asked);
        Ok(())
    }

    /// Records the code of a monitor, whose events the process has not raised itself although it is their source.
    pub(super) fn monitored(&self, code: Status) {
        let alarms = &mut self.lock().alarms;
        if alarms.len() < MAX_ALARMS && !alarms.contains(&code) {
            alarms.push(code);
        }
    }

    /// Records that a commit has failed, of which the C library says nothing: the next fence does.
    pub(super) fn commit_failed(&self, status: Status) {
        self.lock().commit_failure = Some(status);
    }

    /// Sends a frame.
    pub(super) fn send(&self, frame: Bytes) {
        let bytes = frame.len();
        self.line.send_at_once(frame, bytes, |frame| {
            // the task that writes the rest finds the error, too
            let written = self.socket.upgrade().and_then(|socket| socket.try_write(&frame).ok());
            let rest = frame.slice(written.unwrap_or_default()..);
            (!rest.is_empty()).then(|| (rest.clone(), rest.len()))
        });
    }

    /// Sends a reply to `proc`, or a status that says why that is not possible. `leave` is called for permission to log that.
    pub(super) fn reply(
        &self,
        tag: u32,
        encoded: Result<Bytes, CodecError>,
        proc: &ProcId,
        leave: impl FnOnce() -> Option<LogLine>,
    ) {
        let status = match encoded {
            Ok(payload) => {
                let bytes = payload.len();
                if let Some(failure) = self.line.refuses(bytes) {
                    failure.status
                } else if let Some(frame) = frame(tag, payload) {
                    return self.send(frame);
                } else {
                    warn_with!(leave(), %proc, bytes, "a reply is too large to send");
                    Status::ERR_OUT_OF_RESOURCE
                }
            }
            Err(error) => {
                warn_with!(leave(), %proc, %error, "cannot encode a reply in the dialect of the process");
                Status::ERR_PACK_FAILURE
            }
        };
        // each dialect has every status, and it is small
        let status = Answer::from(status).encode(&self.context).ok();
        if let Some(frame) = status.and_then(|payload| frame(tag, payload)) {
            self.send(frame);
        }
    }

    /// Records an event registration of these codes. It replaces older ones that it covers: libraries contact the server for each
    /// handler with directives, but end a code only once, with the last handler for it.
    fn registered(&self, number: u64, codes: Vec<Status>) {
        let known: BTreeSet<_> = codes.iter().collect();
        let mut state = self.lock();
        let LedgerState { registrations, replaced, .. } = &mut *state;
        registrations.retain(|older, held| {
            // no codes are those of the default handlers
            let is_covered =
                held.is_empty() == codes.is_empty() && held.iter().all(|code| known.contains(code));
            replaced.extend(is_covered.then_some(*older));
            !is_covered
        });
        registrations.insert(number, codes);
    }

    /// Removes codes from the registrations; returns the registrations that are now empty, and those that newer ones have
    /// replaced. Libraries send no codes if other handlers need all of them.
    ///
    /// The registration of the default handlers stays when `Ask::DEFAULT_HANDLERS` is among the codes: libraries up to 5.0.11
    /// do not contact the server when a default handler is registered again, so it would receive no events.
    pub(super) fn retire(&self, codes: &[Status]) -> Vec<u64> {
        let codes: BTreeSet<_> = codes.iter().collect();
        let mut state = self.lock();
        let mut ended = std::mem::take(&mut state.replaced);
        state.registrations.retain(|number, held| {
            let concerned = held.iter().any(|code| codes.contains(code));
            held.retain(|code| !codes.contains(code));
            let is_over = concerned && held.is_empty();
            ended.extend(is_over.then_some(*number));
            !is_over
        });
        ended
    }

    /// Both sides run on the server's own thread, so this lock never blocks.
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the messages for one process to its socket.
pub(super) struct NativePeer {
    shared: Arc<NativeShared>,
    ledger: Arc<Ledger>,
    greeting: Greeting,
    /// Uid and address of the process.
    origin: (Uid, SocketAddr),
    admitted: Option<oneshot::Sender<(ProcId, Option<Arc<JobData>>)>>,
    proc: ProcId,
}

impl NativePeer {
    pub(super) fn new(
        shared: Arc<NativeShared>,
        ledger: Arc<Ledger>,
        greeting: Greeting,
        origin: (Uid, SocketAddr),
        admitted: oneshot::Sender<(ProcId, Option<Arc<JobData>>)>,
    ) -> Self {
        Self { shared, ledger, greeting, origin, admitted: Some(admitted), proc: ProcId::none() }
    }

    /// Permission for a log line about its user.
    fn leave(&self) -> Option<LogLine> {
        self.shared.door.line(self.origin.0)
    }

    /// Sends an event or output.
    fn send_push(&self, push: &NativePush, what: &str) {
        match push.encode(&self.ledger.context) {
            Ok(payload) => match frame(push.tag(), payload) {
                Some(frame) => self.ledger.send(frame),
                None => {
                    warn_with!(self.leave(), proc = %self.proc, "dropped {what}: it is too large to send")
                }
            },
            Err(error) => {
                warn_with!(self.leave(), proc = %self.proc, %error, "cannot encode {what} in the dialect of the process");
            }
        }
    }

    /// The native wire has no message about output that was left out, so that is logged.
    fn push_output(&self, registration: u64, output: Output) {
        let Some(own) = self.ledger.lock().pulls.get(&registration).copied() else { return };
        let bytes = output.data.len();
        let is_lost = bytes > 0 && !self.ledger.line.takes_pushes();
        if is_lost {
            warn_with!(self.leave(), proc = %self.proc, bytes, "dropped output: the process is not reading");
        }
        // the end of the output is always sent
        if !is_lost || !output.info.is_empty() {
            let data = if is_lost { Bytes::new() } else { output.data };
            let mut delivery = IofDelivery::new(output.source, output.channels, data);
            (delivery.id, delivery.info) = (own, output.info);
            self.send_push(&NativePush::Iof(delivery), "output");
        }
    }
}

/// Encodes a frame from the server; `None` if the payload is larger than a frame may be.
fn frame(tag: u32, payload: Bytes) -> Option<Bytes> {
    let mut sent = BytesMut::new();
    Framing::default().encode(&Frame { index: 0, tag, payload }, &mut sent).ok()?;
    Some(sent.freeze())
}

impl Peer for NativePeer {
    fn accept(&mut self, welcome: Welcome) {
        self.proc = welcome.proc.clone();
        let greeting = match self.greeting {
            Greeting::Client => ClientAnswer { index: 0 }.encode(),
            Greeting::Tool { wants_identity } => {
                let assigned = wants_identity.then(|| welcome.proc.clone());
                ToolAnswer { assigned, server: welcome.server }.encode()
            }
        };
        self.ledger.send(greeting);
        if let Some(admitted) = self.admitted.take() {
            let _ = admitted.send((welcome.proc, welcome.job));
        }
    }

    /// Clients are refused by closing the socket, since they accept no status at this point.
    fn refuse(&mut self, failure: &Failure) {
        let (uid, from) = self.origin;
        self.shared.log_refusal(uid, from, &failure.to_string());
        if self.greeting != Greeting::Client {
            self.ledger.send(ToolAnswer::refusal(failure.status));
        }
        self.admitted = None;
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) {
        self.ledger.line.end(id.0);
        let asked = self.ledger.lock().pending.remove(&id.0);
        // no reply to a request that the connection made by itself
        let (Some(asked), Ok(tag)) = (asked, u32::try_from(id.0)) else { return };
        match (&result, &asked) {
            (Ok(Reply::Registered(number)), Asked::RegisterEvents(codes)) => {
                self.ledger.registered(*number, codes.clone());
            }
            (Ok(Reply::Registered(number)), Asked::IofPull(own)) => {
                self.ledger.lock().pulls.insert(*number, *own);
            }
            (_, Asked::IofDeregister(number)) => {
                self.ledger.lock().pulls.remove(number);
            }
            _ => {}
        }
        let result = match asked {
            Asked::Commit => {
                result.inspect_err(|failure| {
                    warn_with!(self.leave(), proc = %self.proc, %failure, "a commit has failed; the next fence says so");
                    self.ledger.commit_failed(failure.status);
                })
            }
            Asked::Abort => result.inspect_err(|failure| {
                warn_with!(self.leave(), proc = %self.proc, %failure, "an abort is refused, of which its caller does not hear");
            }),
            Asked::Fence => {
                let failed = self.ledger.lock().commit_failure.take();
                result.and_then(|reply| failed.map_or(Ok(reply), |status| Err(status.into())))
            }
            _ => result,
        };
        let reply = match result {
            Ok(reply) => answer(&self.shared.server, &self.proc, self.ledger.context.client, reply, asked),
            Err(failure) => failure.status.into(),
        };
        let encoded = reply.encode(&self.ledger.context);
        self.ledger.reply(tag, encoded, &self.proc, || self.leave());
    }

    fn push(&mut self, push: Push) {
        let (event, is_kept) = match push {
            Push::Event { event, is_kept, .. } => (event, is_kept),
            Push::Output { registration, output } => return self.push_output(registration, output),
            _ => return,
        };
        // the C library has already run its handlers for an event that its own process has raised; before 5.0 it also keeps that for
        // later ones
        let library = self.ledger.context.client;
        let is_known = !is_kept || library.major < 5;
        if is_known && event.source == self.proc && !self.ledger.lock().alarms.contains(&event.code) {
            return;
        }
        if !self.ledger.line.takes_pushes() {
            warn_with!(self.leave(), proc = %self.proc, "dropped an event: the process is not reading");
            return;
        }
        self.send_push(&NativePush::Event(event), "an event");
    }
}

/// After a refusal or the end of the connection, no further messages are sent.
impl Drop for NativePeer {
    fn drop(&mut self) {
        self.ledger.line.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_native::msg::{Command, Request as Ask};
    use pmix_native::{Dialect, Encoding, Version};
    use pmix_types::{Event, Info, IofChannels, Nspace, Rank, Value, keys};

    use super::*;
    use crate::door::Door;
    use crate::inbox::Inbox;
    use crate::native::job::JobCache;
    use pmix_proto::owner::Owners;

    fn ledger(inbox: &Inbox) -> Ledger {
        Ledger::new(
            Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2)),
            inbox.new_line(Uid::ROOT),
            Weak::new(),
        )
    }

    fn inbox() -> Inbox {
        Inbox::new(Duration::from_secs(60)).0
    }

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Nspace::new("job").unwrap(), Rank::from_raw(rank))
    }

    /// The sending side of a connection of rank 0, and its unread messages.
    fn peer() -> (NativePeer, Arc<Line<Bytes>>) {
        let (owners, inbox) = (Arc::new(Owners::open().unwrap()), inbox());
        let ledger = Arc::new(ledger(&inbox));
        let (server, door) = (ProcId::none(), Door::new(false));
        let (jobs, frames) = (JobCache::default(), crate::shares::Shares::new());
        let shared =
            NativeShared { inbox, server, owners, door, jobs, distances: Default::default(), frames };
        let origin = (Uid::ROOT, SocketAddr::from(([127, 0, 0, 1], 1)));
        let (admitted, _) = oneshot::channel();
        let mut peer = NativePeer::new(Arc::new(shared), ledger.clone(), Greeting::Client, origin, admitted);
        peer.proc = proc(0);
        (peer, ledger.line.clone())
    }

    /// How many frames wait, and what they hold.
    fn read(line: &Line<Bytes>) -> (usize, usize) {
        let frames = std::iter::from_fn(|| line.try_next());
        frames.fold((0, 0), |(count, bytes), (frame, _)| (count + 1, bytes + frame.len()))
    }

    /// The status of the next answer.
    fn status(peer: &NativePeer, line: &Line<Bytes>, command: Command) -> Status {
        let (frame, _) = line.try_next().expect("an answer");
        let frame = Framing::default().decode(&mut BytesMut::from(frame)).unwrap().unwrap();
        Answer::decode(&peer.ledger.context, command, &frame.payload).unwrap().status
    }

    #[test]
    fn put_06_the_next_fence_says_that_a_commit_has_failed() {
        let (mut peer, line) = peer();
        let mut answered = |form, result, command| {
            peer.ledger.expect(101, form, 1).unwrap();
            peer.reply(RequestId(101), result);
            status(&peer, &line, command)
        };
        let done = || Ok(Reply::Done);
        let full = Status::ERR_OUT_OF_RESOURCE;
        assert_eq!(answered(Asked::Commit, Err(full.into()), Command::COMMIT), full);
        // nothing else does, and only once
        assert_eq!(answered(Asked::Other, done(), Command::PUBLISH), Status::SUCCESS);
        for expected in [full, Status::SUCCESS] {
            assert_eq!(answered(Asked::Fence, done(), Command::FENCE), expected);
        }
    }

    #[test]
    fn evt_13_a_c_process_gets_its_own_events_that_were_kept_if_its_library_does_not_keep_them() {
        for (version, comes) in [(Version::new(4, 2, 2), false), (Version::new(5, 0, 11), true)] {
            let (mut peer, line) = peer();
            let context = Context::new(Encoding::plain(Dialect::V41), version);
            let ledger = Ledger::new(context, line.clone(), Weak::new());
            peer.ledger = Arc::new(ledger);
            let Push::Event { registrations, event, .. } = event_of(0) else { panic!("no event") };
            peer.push(Push::Event { registrations, event, is_kept: true });
            assert_eq!(line.try_next().is_some(), comes, "{version:?}");
        }
    }

    fn event_of(rank: u32) -> Push {
        Push::Event {
            registrations: vec![1],
            event: Event::new(Status::from_raw(-4242), proc(rank)),
            is_kept: false,
        }
    }

    #[test]
    fn evt_14_what_a_c_process_has_told_itself_does_not_come_back_to_it() {
        let (mut peer, line) = peer();
        peer.push(event_of(0));
        assert!(line.try_next().is_none());
        peer.push(event_of(1));
        assert!(line.try_next().is_some());
    }

    #[test]
    fn mon_02_a_c_process_hears_of_its_own_alerts_of_a_limited_number_of_codes() {
        let (mut peer, line) = peer();
        peer.ledger.monitored(Status::from_raw(-4242));
        peer.push(event_of(0));
        assert!(line.try_next().is_some(), "the monitor has raised it, not the process");
        for code in 0..1000 {
            peer.ledger.monitored(Status::from_raw(code));
        }
        assert_eq!(peer.ledger.lock().alarms.len(), MAX_ALARMS);
    }

    #[test]
    fn a_c_process_that_does_not_read_takes_a_bounded_number_of_bytes() {
        const LARGE: usize = 1 << 20;
        let (mut peer, line) = peer();
        let large = || Info::dynamic("big".parse().unwrap(), Value::ByteObject(vec![0; LARGE].into()));
        let Push::Event { registrations, event, is_kept } = event_of(1) else { panic!("no event") };
        let push = Push::Event { registrations, event: event.with_info(large()), is_kept };
        for _ in 0..50 {
            peer.push(push.clone());
        }
        // replies are sent, large ones only up to a limit; beyond it the caller receives a failure
        for id in 0..500 {
            peer.ledger.expect(id, Asked::Other, 1).unwrap();
            peer.reply(RequestId(id), Ok(Reply::Info(vec![large()])));
        }
        peer.ledger.expect(1, Asked::Other, 1).unwrap();
        peer.reply(RequestId(1), Ok(Reply::Done));
        let (frames, bytes) = read(&line);
        assert!((501 + 5..501 + 10).contains(&frames), "{frames}");
        assert!((200 * LARGE..300 * LARGE).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_c_process_that_does_not_read_hears_of_the_end_of_output_all_the_same() {
        let (mut peer, line) = peer();
        peer.ledger.lock().pulls.insert(7, 8);
        let mut push = |bytes: usize, info: Vec<Info>| {
            let mut output = Output::new(proc(1), IofChannels::STDOUT, vec![0; bytes].into());
            output.info = info.into();
            peer.push(Push::Output { registration: 7, output });
        };
        const PIECE: usize = 1 << 20;
        for _ in 0..20 {
            push(PIECE, vec![]);
        }
        let (kept, _) = read(&line);
        assert!((5..20).contains(&kept), "{kept}");
        push(PIECE, vec![Info::new(&keys::IOF_COMPLETE, true)]);
        let (ends, bytes) = read(&line);
        assert!(ends == 1 && bytes < PIECE, "{ends} {bytes}");
    }

    #[test]
    fn a_reply_that_is_too_large_or_has_no_form_in_the_dialect_is_answered_with_its_failure() {
        let (peer, line) = peer();
        let answered = |encoded| {
            peer.ledger.reply(101, encoded, &proc(0), || peer.leave());
            let (frame, _) = line.try_next().expect("an answer");
            let frame = Framing::default().decode(&mut BytesMut::from(frame)).unwrap().unwrap();
            assert_eq!(frame.tag, 101);
            Answer::decode(&peer.ledger.context, Command::GET, &frame.payload).unwrap().status
        };
        let too_large = Bytes::from(vec![0; Framing::MAX_PAYLOAD + 1]);
        assert_eq!(answered(Ok(too_large)), Status::ERR_OUT_OF_RESOURCE);
        let failed = Answer::decode(&peer.ledger.context, Command::GET, &[]).unwrap_err();
        assert_eq!(answered(Err(failed)), Status::ERR_PACK_FAILURE);
    }

    #[test]
    fn evt_15_a_registration_of_a_c_process_ends_with_the_last_of_its_codes() {
        let ledger = ledger(&inbox());
        let codes = |codes: &[i32]| codes.iter().copied().map(Status::from_raw).collect::<Vec<_>>();
        let held = [(1, codes(&[])), (2, codes(&[-5])), (3, codes(&[-5, -6]))];
        ledger.lock().registrations.extend(held);
        assert!(ledger.retire(&codes(&[-7])).is_empty());
        assert_eq!(ledger.retire(&codes(&[-5])), [2], "the third still waits for its other code");
        assert!(ledger.retire(&codes(&[])).is_empty(), "other handlers need all of the codes");
        assert_eq!(ledger.retire(&codes(&[-5, -6])), [3]);
        assert!(ledger.retire(&codes(&[-6])).is_empty());
        assert!(ledger.retire(&[Ask::DEFAULT_HANDLERS]).is_empty(), "it may be registered again unnoticed");
        ledger.registered(4, codes(&[]));
        assert_eq!(ledger.retire(&codes(&[])), [1], "the newer one has replaced it");
        assert!(ledger.retire(&codes(&[])).is_empty());
    }

    #[test]
    fn evt_09_registrations_that_newer_ones_cover_do_not_pile_up() {
        let ledger = ledger(&inbox());
        let codes = |codes: &[i32]| codes.iter().copied().map(Status::from_raw).collect::<Vec<_>>();
        ledger.registered(1, codes(&[-5]));
        ledger.registered(2, codes(&[-6, -5]));
        assert_eq!(ledger.retire(&[]), [1]);
        ledger.registered(3, codes(&[-5, -7]));
        ledger.registered(4, codes(&[]));
        assert!(ledger.retire(&[]).is_empty(), "each still has a code of its own");
        for number in 5..2000 {
            ledger.registered(number, codes(&[-7, -6, -5]));
            assert!(!ledger.retire(&[]).is_empty());
            assert_eq!(ledger.lock().registrations.len(), 2);
        }
        ledger.registered(2000, codes(&[-5, -6, -7]));
        assert_eq!(ledger.retire(&codes(&[-5, -6, -7])), [1999, 2000], "no event comes after the end");
    }
}
