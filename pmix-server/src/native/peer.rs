//! The sending side of a native session.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use pmix_native::conn::{ClientAnswer, Frame, Framing, ToolAnswer};
use pmix_native::msg::{Context, IofDelivery, Push as NativePush, Reply as Answer};
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Output, Push, Reply, Welcome};
use pmix_types::{ProcId, Status};
use tokio::sync::oneshot;

use super::Shared;
use super::translate::{AnswerAs, answer};
use crate::door::{LogLine, warn_with};
use crate::inbox::Peer;
use crate::line::{Line, Refused};
use pmix_engine::RequestId;

/// How the server answers the connect message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Client,
    Tool { wants_identity: bool },
}

/// What both sides of a session hold.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) context: Context,
    pub(super) line: Arc<Line<Bytes>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests under way, with the form of their answers.
    pending: HashMap<u64, AnswerAs>,
    /// Codes of each event registration.
    registrations: BTreeMap<u64, Vec<Status>>,
    /// The process's own number of each output subscription.
    pulls: BTreeMap<u64, u64>,
}

impl Ledger {
    pub(super) fn new(context: Context, line: Arc<Line<Bytes>>) -> Self {
        Self { context, line, state: Mutex::default() }
    }

    /// Notes a request of so many bytes.
    pub(super) fn expect(&self, id: u64, form: AnswerAs, bytes: usize) -> Result<(), Refused> {
        self.line.begin(id, bytes)?;
        self.lock().pending.insert(id, form);
        Ok(())
    }

    /// Sends a frame.
    pub(super) fn send(&self, frame: Bytes) {
        let bytes = frame.len();
        self.line.send(frame, bytes);
    }

    /// Takes codes out of the registrations; returns those that are empty now. No codes means the default handlers.
    pub(super) fn retire(&self, codes: &[Status]) -> Vec<u64> {
        let mut state = self.lock();
        let mut ended = Vec::new();
        state.registrations.retain(|number, held| {
            let concerned =
                if codes.is_empty() { held.is_empty() } else { held.iter().any(|code| codes.contains(code)) };
            held.retain(|code| !codes.contains(code));
            let is_over = concerned && held.is_empty();
            ended.extend(is_over.then_some(*number));
            !is_over
        });
        ended
    }

    /// Both sides run on the server's own thread, so nobody ever waits.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frames to one process on their way to its socket.
pub(super) struct NativePeer {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    greeting: Greeting,
    /// Whose it is, and where from.
    origin: (u32, SocketAddr),
    admitted: Option<oneshot::Sender<(ProcId, Option<Arc<JobData>>)>>,
    proc: ProcId,
}

impl NativePeer {
    pub(super) fn new(
        shared: Arc<Shared>,
        ledger: Arc<Ledger>,
        greeting: Greeting,
        origin: (u32, SocketAddr),
        admitted: oneshot::Sender<(ProcId, Option<Arc<JobData>>)>,
    ) -> Self {
        Self { shared, ledger, greeting, origin, admitted: Some(admitted), proc: ProcId::none() }
    }

    /// Whether the log may have a line about its user.
    fn leave(&self) -> Option<LogLine> {
        self.shared.door.line(self.origin.0)
    }

    /// The C library has no word for output that was left out: it is logged.
    fn push_output(&self, registration: u64, output: Output) {
        let Some(own) = self.ledger.lock().pulls.get(&registration).copied() else { return };
        let lost = output.data.len();
        let mut delivery = IofDelivery::new(output.source, output.channels, output.data);
        (delivery.id, delivery.info) = (own, output.info);
        let push = NativePush::Iof(delivery);
        match push.encode(&self.ledger.context) {
            Ok(payload) if lost == 0 || self.ledger.line.takes_pushes() => {
                self.ledger.send(frame(push.tag(), payload));
            }
            Ok(_) => {
                warn_with!(self.leave(), proc = %self.proc, bytes = lost, "left out output: the process does not read");
            }
            Err(error) => {
                warn_with!(self.leave(), %error, "output cannot be written in the dialect of its process");
            }
        }
    }
}

/// A frame of the server.
pub(super) fn frame(tag: u32, payload: Bytes) -> Bytes {
    let mut sent = BytesMut::with_capacity(Framing::HEADER + payload.len());
    match Framing::default().encode(&Frame { index: 0, tag, payload }, &mut sent) {
        Ok(()) => sent.freeze(),
        Err(error) => {
            tracing::warn!(%error, "a message is too large to be sent");
            Bytes::new()
        }
    }
}

/// The reply as bytes; a bare status if it cannot be written.
pub(super) fn encode(context: &Context, reply: &Answer) -> Bytes {
    reply.encode(context).unwrap_or_else(|error| {
        tracing::warn!(%error, "an answer cannot be written in the dialect of its process");
        Answer::from(Status::ERR_PACK_FAILURE).encode(context).unwrap_or_default()
    })
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

    /// Clients are refused by closing the socket: they take no status at this point.
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
        let form = self.ledger.lock().pending.remove(&id.0);
        // an errand of the session's own, nobody waits for it
        let (Some(form), Ok(tag)) = (form, u32::try_from(id.0)) else { return };
        if let (Ok(Reply::Registered(number)), AnswerAs::Registration(codes)) = (&result, &form) {
            self.ledger.lock().registrations.insert(*number, codes.clone());
        }
        match (&result, &form) {
            (Ok(Reply::Registered(number)), AnswerAs::Pull(own)) => {
                self.ledger.lock().pulls.insert(*number, *own);
            }
            (_, AnswerAs::PullEnd(number)) => {
                self.ledger.lock().pulls.remove(number);
            }
            _ => {}
        }
        let reply = match result {
            Ok(reply) => answer(&self.shared.server, self.ledger.context.client, reply, form),
            Err(failure) => failure.status.into(),
        };
        let payload = encode(&self.ledger.context, &reply);
        let payload = match self.ledger.line.refuses(payload.len()) {
            Some(failure) => encode(&self.ledger.context, &failure.status.into()),
            None => payload,
        };
        self.ledger.send(frame(tag, payload));
    }

    fn push(&mut self, push: Push) {
        // a process's own library has run its handlers already
        let event = match push {
            Push::Event { event, .. } => event,
            Push::Output { registration, output } => return self.push_output(registration, output),
            _ => return,
        };
        if event.source == self.proc {
            return;
        }
        if !self.ledger.line.takes_pushes() {
            warn_with!(self.leave(), proc = %self.proc, "dropped an event: the process is not reading");
            return;
        }
        let push = NativePush::Event(event);
        match push.encode(&self.ledger.context) {
            Ok(payload) => self.ledger.send(frame(push.tag(), payload)),
            Err(error) => {
                warn_with!(self.leave(), %error, "an event cannot be written in the dialect of its process");
            }
        }
    }
}

/// Who was refused or closed is told no more.
impl Drop for NativePeer {
    fn drop(&mut self) {
        self.ledger.line.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_native::{Dialect, Encoding, Version};
    use pmix_types::{Event, Info, Nspace, Rank, Value};

    use super::*;
    use crate::door::Door;
    use crate::inbox::Inbox;
    use crate::native::job::JobCache;
    use crate::native::owner::Owners;

    fn ledger(inbox: &Inbox) -> Ledger {
        Ledger::new(Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2)), inbox.new_line())
    }

    fn inbox() -> Inbox {
        Inbox::new(Duration::from_secs(60)).0
    }

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Nspace::new("job").unwrap(), Rank::from_raw(rank))
    }

    /// The sending side of a session of rank 0, and what waits to be read.
    fn peer() -> (NativePeer, Arc<Line<Bytes>>) {
        let (owners, inbox) = (Owners::open().unwrap(), inbox());
        let ledger = Arc::new(ledger(&inbox));
        let (server, door) = (ProcId::none(), Door::new(false));
        let (jobs, frames) = (JobCache::default(), crate::shares::Shares::new(0));
        let shared = Shared { inbox, server, owners, door, jobs, frames };
        let origin = (0, SocketAddr::from(([127, 0, 0, 1], 1)));
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

    fn event_of(rank: u32) -> Push {
        Push::Event { registrations: vec![1], event: Event::new(Status::from_raw(-4242), proc(rank)) }
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
    fn a_c_process_that_does_not_read_takes_a_bounded_number_of_bytes() {
        const LARGE: usize = 1 << 20;
        let (mut peer, line) = peer();
        let large = || Info::dynamic("big".parse().unwrap(), Value::ByteObject(vec![0; LARGE].into()));
        let Push::Event { registrations, event } = event_of(1) else { panic!("no event") };
        let push = Push::Event { registrations, event: event.with_info(large()) };
        for _ in 0..50 {
            peer.push(push.clone());
        }
        // answers find room, large ones up to a limit, which those who wait for them are told of
        for id in 0..500 {
            peer.ledger.expect(id, AnswerAs::Info, 1).unwrap();
            peer.reply(RequestId(id), Ok(Reply::Info(vec![large()])));
        }
        peer.ledger.expect(1, AnswerAs::Status, 1).unwrap();
        peer.reply(RequestId(1), Ok(Reply::Done));
        let (frames, bytes) = read(&line);
        assert!((501 + 5..501 + 10).contains(&frames), "{frames}");
        assert!((200 * LARGE..300 * LARGE).contains(&bytes), "{bytes}");
    }

    #[test]
    fn evt_15_a_registration_of_a_c_process_ends_with_the_last_of_its_codes() {
        let ledger = ledger(&inbox());
        let codes = |codes: &[i32]| codes.iter().copied().map(Status::from_raw).collect::<Vec<_>>();
        let held = [(1, codes(&[])), (2, codes(&[-5])), (3, codes(&[-5, -6]))];
        ledger.lock().registrations.extend(held);
        assert!(ledger.retire(&codes(&[-7])).is_empty());
        assert_eq!(ledger.retire(&codes(&[-5])), [2], "the third still waits for its other code");
        assert_eq!(ledger.retire(&codes(&[])), [1], "no codes are those of the default handlers");
        assert_eq!(ledger.retire(&codes(&[-5, -6])), [3]);
        assert!(ledger.retire(&codes(&[-6])).is_empty());
    }
}
