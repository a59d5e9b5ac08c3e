//! How the host's requests reach the engine: each on a connection of its own, so that a request that is dropped ends as
//! that of a process does that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pmix_engine::{ConnId, Input, RequestId};
use pmix_types::message::{Failure, Operation, Push, Reply, Welcome};
use pmix_types::{Event, Memory, Status};
use tokio::sync::{mpsc, oneshot};

use crate::inbox::{DriverEvent, Inbox, Peer, stopped};

/// Where requests of the host go.
#[derive(Clone)]
pub(super) struct Link(Inbox);

/// A connection of the server's own, while it lasts.
#[derive(Debug)]
pub(super) struct Open {
    inbox: Inbox,
    conn: ConnId,
}

/// What unread events of a stream may take, or one of any size: processes send them, and the host may not read.
const MAX_HEARD: usize = 8 << 20;

/// Where events go.
pub(super) struct Sink {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) unread: Arc<UnreadPushes>,
}

/// What a stream has not read.
#[derive(Debug, Default)]
pub(super) struct UnreadPushes {
    bytes: AtomicUsize,
    missed: AtomicU64,
}

impl UnreadPushes {
    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// An event has been read.
    pub(super) fn read(&self, event: &Event) {
        self.bytes.fetch_sub(event.memory(), Ordering::Relaxed);
    }
}

impl Sink {
    fn push(&self, mut event: Event) {
        event.detach();
        let bytes = event.memory();
        // only this thread adds
        let held = self.unread.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = held == 0 || held + bytes <= MAX_HEARD;
        if !fits || self.events.try_send(event).is_err() {
            self.unread.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.unread.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The other end: the answer to one request, and the events that a registration gets.
struct OwnPeer {
    answer: Option<oneshot::Sender<Result<Reply, Failure>>>,
    sink: Option<Sink>,
}

impl Link {
    pub(super) const fn new(inbox: Inbox) -> Self {
        Self(inbox)
    }

    /// Makes a request, and waits for its reply.
    pub(super) async fn call<O: Operation>(&self, request: O) -> Result<O::Reply, Failure> {
        self.open(request, None).await.map(|(reply, _)| reply)
    }

    /// As [`call`](Self::call); the connection stays open as long as the caller keeps it, and its events go to the sink.
    pub(super) async fn open<O: Operation>(
        &self,
        request: O,
        sink: Option<Sink>,
    ) -> Result<(O::Reply, Open), Failure> {
        let conn = self.0.next_conn();
        let (answer, answered) = oneshot::channel();
        let peer = Box::new(OwnPeer { answer: Some(answer), sink });
        let open = Open { inbox: self.0.clone(), conn };
        if !self.0.send(DriverEvent::Own { conn, peer, request: request.into() }).await {
            return Err(stopped());
        }
        let reply = answered.await.unwrap_or_else(|_| Err(stopped()))?;
        let reply = reply
            .try_into()
            .map_err(|_| Failure::new(Status::ERROR, format!("unexpected reply to {}", O::NAME)))?;
        Ok((reply, open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let lost =
            Input::Lost { conn: self.conn, reason: "the host has its answer, or does not want it".into() };
        self.inbox.send_soon(DriverEvent::Input(lost));
    }
}

impl Peer for OwnPeer {
    fn accept(&mut self, _: Welcome) {}

    fn refuse(&mut self, failure: &Failure) {
        self.reply(RequestId(0), Err(failure.clone()));
    }

    fn reply(&mut self, _: RequestId, result: Result<Reply, Failure>) {
        if let Some(answer) = self.answer.take() {
            // the caller may have stopped waiting
            let _ = answer.send(result);
        }
    }

    fn push(&mut self, push: Push) {
        if let (Push::Event { event, .. }, Some(sink)) = (push, &self.sink) {
            sink.push(event);
        }
    }
}
