//! What the driver is brought, and the way to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_engine::{CallValue, ConnId, HostCall, Input, RequestId};
use pmix_types::Status;
use pmix_types::message::{Failure, Push, Reply, Request, Welcome};
use tokio::sync::{mpsc, oneshot};

use crate::line::{Line, Turn};

/// Events that may wait for the driver; who brings more waits.
const INBOX: usize = 4096;

/// The sending side of one connection, in whatever its wire is.
pub(crate) trait Peer: Send {
    /// Lets it in.
    fn accept(&mut self, welcome: Welcome);
    /// Turns it away and says so in the log; nothing follows.
    fn refuse(&mut self, failure: &Failure);
    /// Answers a request.
    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>);
    /// Says something unasked; may leave it out if the peer does not keep up, and must then tell it so.
    fn push(&mut self, push: Push);
}

/// What front ends, the host and timers bring.
pub(crate) enum DriverEvent {
    /// A connection begins; its first input follows.
    Open { conn: ConnId, peer: Box<dyn Peer> },
    /// Something for the engine.
    Input(Input),
    /// A request, in its turn.
    Request { conn: ConnId, id: RequestId, request: Request, turn: Turn },
    /// A request that cannot even be read is answered without the engine, in turn with its answers.
    Refuse { conn: ConnId, id: RequestId, failure: Failure, turn: Turn },
    /// The host calls, and waits for the answer here.
    Call { call: HostCall, answer: oneshot::Sender<Result<CallValue, Failure>> },
    /// The server ends; answered when every connection has been closed.
    Stop(oneshot::Sender<()>),
}

/// Where events are brought. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    events: mpsc::Sender<DriverEvent>,
    next_conn: Arc<AtomicU64>,
    /// How long a process may leave unread what it is told.
    patience: Duration,
}

impl Inbox {
    pub(crate) fn new(patience: Duration) -> (Self, mpsc::Receiver<DriverEvent>) {
        let (events, receiver) = mpsc::channel(INBOX);
        (Self { events, next_conn: Arc::default(), patience }, receiver)
    }

    /// A number for a new connection.
    pub(crate) fn next_conn(&self) -> ConnId {
        ConnId(self.next_conn.fetch_add(1, Ordering::Relaxed))
    }

    /// What is between a new connection and the server.
    pub(crate) fn new_line<M>(&self) -> Arc<Line<M>> {
        Line::new(self.patience)
    }

    /// Brings an event; false if the server has ended.
    pub(crate) async fn send(&self, event: DriverEvent) -> bool {
        self.events.send(event).await.is_ok()
    }

    /// Asks the server to stop without waiting; a full inbox is drained first.
    pub(crate) fn stop_soon(&self) {
        let (done, _) = oneshot::channel();
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(DriverEvent::Stop(done)) {
            let events = self.events.clone();
            // not on a runtime, perhaps: a thread of its own waits for room
            std::thread::spawn(move || drop(events.blocking_send(event)));
        }
    }

    /// Calls the library for the host.
    pub(crate) async fn call(&self, call: HostCall) -> Result<CallValue, Failure> {
        let (answer, answered) = oneshot::channel();
        if !self.send(DriverEvent::Call { call, answer }).await {
            return Err(stopped());
        }
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> Failure {
    Failure::new(Status::ERR_INIT, "the server has stopped")
}
