//! The driver's events, and the queue through which they reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_engine::{CallValue, ConnId, HostCall, Input, RequestId};
use pmix_types::message::{Failure, Push, Reply, Request, Welcome};
use pmix_types::{Status, Uid};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::account::own_uid;
use crate::line::{Line, Turn, Unread};
use crate::shares::Shares;

/// Events that may wait for the driver; senders of further events wait.
const INBOX: usize = 4096;

/// The sending side of one connection, on any wire.
pub(crate) trait Peer: Send {
    /// Lets the process in.
    fn accept(&mut self, welcome: Welcome);
    /// Refuses the process and logs that; nothing follows.
    fn refuse(&mut self, failure: &Failure);
    /// Answers a request.
    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>);
    /// Sends an unsolicited message. May leave it out if the peer does not keep up, and then tells the peer so where its wire
    /// has a message for that.
    fn push(&mut self, push: Push);
}

/// An event from a front end or the host.
pub(crate) enum DriverEvent {
    /// A connection begins; its first input follows.
    Open { conn: ConnId, peer: Box<dyn Peer> },
    /// An input for the engine.
    Input(Input),
    /// A request of the server's own host, on a connection for it alone.
    Own { conn: ConnId, peer: Box<dyn Peer>, request: Request },
    /// A request, in its turn.
    Request { conn: ConnId, id: RequestId, request: Request, turn: Turn },
    /// A request that cannot be read: answered without the engine, but in order with the engine's replies.
    Refuse { conn: ConnId, id: RequestId, failure: Failure, turn: Turn },
    /// A call of the host, with the channel for its result.
    Call { call: HostCall, answer: oneshot::Sender<Result<CallValue, Failure>> },
    /// Stops the server; answered when every connection has been closed.
    Stop(oneshot::Sender<()>),
}

/// The sending side of the driver's queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    events: mpsc::Sender<DriverEvent>,
    next_conn: Arc<AtomicU64>,
    /// How long a process may leave messages unread.
    patience: Duration,
    /// Of each user.
    unread: Arc<Shares<Uid, Unread>>,
}

impl Inbox {
    pub(crate) fn new(patience: Duration) -> (Self, mpsc::Receiver<DriverEvent>) {
        let (events, receiver) = mpsc::channel(INBOX);
        (Self { events, next_conn: Arc::default(), patience, unread: Arc::new(Shares::new()) }, receiver)
    }

    /// A number for a new connection.
    pub(crate) fn next_conn(&self) -> ConnId {
        ConnId(self.next_conn.fetch_add(1, Ordering::Relaxed))
    }

    /// A line for a new connection of this user. What root and the server's own user leave unread is not added up.
    pub(crate) fn new_line<M>(&self, uid: Uid) -> Arc<Line<M>> {
        let is_trusted = uid.is_root() || uid == own_uid();
        let of_user = if is_trusted { Arc::default() } else { self.unread.of(&uid, Unread::default) };
        Line::new(self.patience, of_user)
    }

    /// How long a process may leave messages unread.
    #[cfg(feature = "pmi1")]
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Sends an event; returns false if the server has stopped.
    pub(crate) async fn send(&self, event: DriverEvent) -> bool {
        self.events.send(event).await.is_ok()
    }

    /// Asks the server to stop without waiting for it; a full inbox is drained first.
    pub(crate) fn stop_soon(&self) {
        let (done, _) = oneshot::channel();
        let event = DriverEvent::Stop(done);
        let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) else { return };
        // not a task: the runtime may end with what has dropped the server
        let events = self.events.clone();
        let wait = move || drop(events.blocking_send(event));
        if let Err(error) = std::thread::Builder::new().spawn(wait) {
            tracing::error!(%error, "cannot stop the server now; it runs until all its handles are dropped");
        }
    }

    /// Sends an event without waiting for room.
    pub(crate) fn send_soon(&self, event: DriverEvent) {
        let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) else { return };
        let events = self.events.clone();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { events.send(event).await })),
            // a thread waits for room
            Err(_) => {
                let wait = move || drop(events.blocking_send(event));
                if let Err(error) = std::thread::Builder::new().spawn(wait) {
                    tracing::error!(%error, "the server is not told of what its host has dropped");
                }
            }
        }
    }

    /// Makes a call of the host without waiting for its result.
    pub(crate) async fn tell(&self, call: HostCall) -> Result<(), Failure> {
        let (answer, _) = oneshot::channel();
        if self.send(DriverEvent::Call { call, answer }).await { Ok(()) } else { Err(stopped()) }
    }

    /// Makes a call of the host and waits for its result, which is of the type that the call returns.
    pub(crate) async fn call<T: TryFrom<CallValue>>(&self, call: HostCall) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        if !self.send(DriverEvent::Call { call, answer }).await {
            return Err(stopped());
        }
        let value = answered.await.unwrap_or_else(|_| Err(stopped()))?;
        value.try_into().map_err(|_| Status::ERROR.into())
    }
}

pub(crate) fn stopped() -> Failure {
    Failure::new(Status::ERR_INIT, "the server has stopped")
}
