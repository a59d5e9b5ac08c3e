//! Requests under way, and the end of a connection. Knows no transport: typed messages go out through a
//! channel and come in through a [`Deliverer`].

mod patience;

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dashmap::DashMap;
use pmix_types::message::{
    DeregisterEvents, Failure, IofDeregister, IofPull, Operation, Push, RegisterEvents, Reply, Request,
};
use pmix_types::{Event, Info, ProcId, Status, keys};
use tokio::sync::{SetOnce, mpsc, oneshot};

use crate::error::{Error, LostConnection};
use crate::events::{Interest, Router};
use crate::output::{OutputError, OutputQueue, Outputs};
use crate::sync::lock;

/// Requests that may wait for the transport before callers have to.
const QUEUED_REQUESTS: usize = 64;
/// Registrations whose callers have given up, and that are taken back if the server confirms them after all. When there are more, the
/// oldest is forgotten: what it brings is dropped.
const MAX_GIVEN_UP: usize = 1024;

/// A request on its way to the transport.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Never 0, and never that of a request under way.
    pub(crate) id: u64,
    pub(crate) request: Request,
}

/// What the transport does without being waited for.
#[derive(Debug)]
pub(crate) enum Errand {
    /// A request whose reply is not awaited.
    Ask(Outgoing),
    /// The caller has given this request up: its reply is to be dropped.
    #[cfg_attr(not(feature = "native-wire"), allow(dead_code, reason = "only that transport keeps requests"))]
    GiveUp(u64),
}

/// What the transport has received.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The reply to a request.
    Reply {
        id: u64,
        outcome: Result<Reply, Failure>,
    },
    Push(Push),
}

/// The transport's end of the channels of a connection.
#[derive(Debug)]
pub(crate) struct TransportEnd {
    /// Requests in the order they are to be sent. Its end is the end of the conversation.
    pub(crate) requests: mpsc::Receiver<Outgoing>,
    pub(crate) errands: mpsc::UnboundedReceiver<Errand>,
    pub(crate) deliverer: Deliverer,
    /// Resolves when nobody holds the connection any more, so that there is nothing left to receive.
    pub(crate) abandoned: oneshot::Receiver<()>,
}

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    server: ProcId,
    /// How long to wait for the reply to a request that has no limit of its own.
    call_limit: Option<Duration>,
    /// The server is one of the C library. It may end requests that have no limit, has not said all that it knows of the own job, and
    /// keeps what collectives have brought until it is asked for.
    is_native: bool,
    outlet: Mutex<Option<Outlet>>,
    pending: DashMap<u64, PendingRequest>,
    /// Of these, the registrations whose callers have given up, oldest first.
    given_up: Mutex<VecDeque<u64>>,
    last_id: AtomicU64,
    router: Router,
    outputs: Outputs,
    /// The server has said that it stops.
    stops: AtomicBool,
    end: SetOnce<End>,
    _held: oneshot::Sender<()>,
}

#[derive(Clone, Debug)]
struct Outlet {
    requests: mpsc::Sender<Outgoing>,
    // holds at most one entry a registration and one a request, so it needs no bound, and a drop may use it
    errands: mpsc::UnboundedSender<Errand>,
}

/// A request that has no reply yet.
#[derive(Debug)]
struct PendingRequest {
    operation: &'static str,
    reply: oneshot::Sender<Result<Reply, Error>>,
    /// Whether what it registers is for output: that has numbers of its own.
    is_output: bool,
    /// Where what a registration brings goes, from the moment the server confirms it (EVT-15).
    recipient: Option<Recipient>,
}

/// Who hears what a registration brings.
#[derive(Debug)]
enum Recipient {
    Events(Interest),
    Output(Arc<OutputQueue>),
}

#[derive(Clone, Debug)]
enum End {
    Finalized,
    Lost(Arc<LostConnection>),
}

impl Connection {
    /// A connection to a server: one of ours, or one that is spoken to as the C library does. Requests without a limit of their own
    /// have `call_limit`.
    pub(crate) fn new(
        server: ProcId,
        is_native: bool,
        call_limit: Option<Duration>,
    ) -> (Arc<Self>, TransportEnd) {
        let (requests, requests_end) = mpsc::channel(QUEUED_REQUESTS);
        let (errands, errands_end) = mpsc::unbounded_channel();
        let (held, abandoned) = oneshot::channel();
        let connection = Arc::new(Self {
            server,
            call_limit,
            is_native,
            outlet: Mutex::new(Some(Outlet { requests, errands })),
            // two shards: more would be for many threads, and DashMap asks the system how many there are
            pending: DashMap::with_shard_amount(2),
            given_up: Mutex::new(VecDeque::new()),
            last_id: AtomicU64::new(0),
            router: Router::default(),
            outputs: Outputs::default(),
            stops: AtomicBool::new(false),
            end: SetOnce::new(),
            _held: held,
        });
        let deliverer = Deliverer { connection: Arc::downgrade(&connection), reason: None };
        let end = TransportEnd { requests: requests_end, errands: errands_end, deliverer, abandoned };
        (connection, end)
    }

    pub(crate) const fn server(&self) -> &ProcId {
        &self.server
    }

    /// Whether the server is spoken to as the C library does.
    pub(crate) const fn is_native(&self) -> bool {
        self.is_native
    }

    pub(crate) const fn router(&self) -> &Router {
        &self.router
    }

    pub(crate) const fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end.get().is_none()
    }

    /// Sends a request and waits for its reply. Once sent it stands; dropping the future drops the reply.
    ///
    /// Fails with `ERR_TIMEOUT` if the server does not answer within [`patience::SLACK`] after the limit of the request, or, if it has
    /// none, within that of the connection.
    pub(crate) async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.send(request, None).await
    }

    /// As [`Connection::request`], with the reply in its form.
    pub(crate) async fn call<O: Operation>(&self, request: O) -> Result<O::Reply, Error> {
        in_form::<O>(self.send(request.into(), None).await?)
    }

    /// As [`Connection::call`] for a registration whose events go to `interest`.
    pub(crate) async fn register(&self, request: RegisterEvents, interest: Interest) -> Result<u64, Error> {
        in_form::<RegisterEvents>(self.send(request.into(), Some(Recipient::Events(interest))).await?)
    }

    /// As [`Connection::call`] for an output subscription that goes to `queue`.
    pub(crate) async fn pull(&self, request: IofPull, queue: Arc<OutputQueue>) -> Result<u64, Error> {
        in_form::<IofPull>(self.send(request.into(), Some(Recipient::Output(queue))).await?)
    }

    async fn send(&self, request: Request, recipient: Option<Recipient>) -> Result<Reply, Error> {
        let (operation, limit) = (request.operation(), patience::wait(&request, self.call_limit));
        let reply = async { self.slot().await?.send_with(request, recipient).await };
        self.within(limit, operation, reply).await
    }

    /// Awaits the reply to a request that has no limit of its own.
    pub(crate) async fn answer<O: Operation>(&self, call: PendingCall<'_, O>) -> Result<O::Reply, Error> {
        in_form::<O>(self.within(self.call_limit, O::NAME, call.reply).await?)
    }

    /// Room for a request that has no limit of its own.
    pub(crate) async fn slot_in_time(&self, operation: &'static str) -> Result<Slot<'_>, Error> {
        self.within(self.call_limit, operation, self.slot()).await
    }

    async fn within<T>(
        &self,
        limit: Option<Duration>,
        operation: &'static str,
        reply: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(limit) = limit else { return reply.await };
        let outcome = tokio::time::timeout(limit, reply).await;
        outcome.unwrap_or_else(|_| Err(patience::exhausted(operation, &self.server, limit)))
    }

    /// Room for one request. Requests are sent in the order of [`Slot::send`].
    pub(crate) async fn slot(&self) -> Result<Slot<'_>, Error> {
        let outlet = lock(&self.outlet).clone().ok_or_else(|| self.end_error())?;
        match outlet.requests.reserve_owned().await {
            Ok(permit) => Ok(Slot { connection: self, permit }),
            Err(_) => {
                // the transport has stopped sending and is about to say why
                self.end.wait().await;
                Err(self.end_error())
            }
        }
    }

    /// Ends a registration without waiting: safe in a drop, outside of any runtime.
    pub(crate) fn retire(&self, registration: u64) {
        self.router.remove(registration);
        self.run_errand(Request::DeregisterEvents(DeregisterEvents::new(registration)));
    }

    /// As [`Connection::retire`] for an output subscription.
    pub(crate) fn retire_output(&self, registration: u64) {
        self.outputs.remove(registration);
        self.run_errand(Request::IofDeregister(IofDeregister::new(registration)));
    }

    /// Sends a request that nobody waits for.
    fn run_errand(&self, request: Request) {
        let Some(outlet) = lock(&self.outlet).clone() else { return };
        let (reply, _) = oneshot::channel();
        let operation = request.operation();
        let pending = PendingRequest { operation, reply, is_output: false, recipient: None };
        let id = self.expect(pending);
        // a transport that is gone has no registrations any more
        let _ = outlet.errands.send(Errand::Ask(Outgoing { id, request }));
    }

    /// Takes back a registration whose caller has not heard of it.
    fn take_back(&self, registration: u64, is_output: bool) {
        if is_output {
            self.retire_output(registration);
        } else {
            self.retire(registration);
        }
    }

    /// The caller of a request waits no longer. A server that never answers must not fill memory, so the request is forgotten, but for a
    /// registration, which is taken back if the server confirms it.
    fn give_up(&self, id: u64) {
        let Some(has_recipient) = self.pending.get(&id).map(|request| request.recipient.is_some()) else {
            return;
        };
        let mut forgotten = Some(id);
        if has_recipient {
            let mut given_up = lock(&self.given_up);
            given_up.push_back(id);
            forgotten = if given_up.len() > MAX_GIVEN_UP { given_up.pop_front() } else { None };
        }
        if let Some(id) = forgotten
            && self.pending.remove(&id).is_some()
            // others hold nothing of a request
            && self.is_native
            && let Some(outlet) = lock(&self.outlet).clone()
        {
            // a transport that is gone holds nothing, either
            let _ = outlet.errands.send(Errand::GiveUp(id));
        }
    }

    /// Ends the conversation after a finalize: what waits and what comes later fails with `ERR_INIT`.
    pub(crate) fn finish(&self) {
        self.conclude(End::Finalized);
        self.router.end();
        self.outputs.end();
    }

    fn lose(&self, reason: String) {
        let has_stopped = self.stops.load(Ordering::Relaxed);
        let reason = if has_stopped { "the server has stopped".into() } else { reason };
        let event = Event::new(Status::ERR_LOST_CONNECTION, self.server.clone())
            .with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, &*reason));
        let lost = LostConnection { server: self.server.clone(), reason, has_stopped };
        if self.conclude(End::Lost(Arc::new(lost))) {
            tracing::debug!(server = %self.server, has_stopped, "connection lost");
            self.router.lose(&event);
            self.outputs.lose(if has_stopped { OutputError::Stopped } else { OutputError::Disconnected });
        }
    }

    /// The first end counts.
    fn conclude(&self, end: End) -> bool {
        let is_first = self.end.set(end).is_ok();
        lock(&self.outlet).take();
        // whoever waits finds the end in place of a reply
        self.pending.clear();
        is_first
    }

    /// Why calls fail after the end.
    pub(crate) fn end_error(&self) -> Error {
        match self.end.get() {
            Some(End::Finalized) => Error::Finalized,
            Some(End::Lost(lost)) => Error::Lost(Arc::clone(lost)),
            None => {
                let reason = "it was closed on this side".into();
                let server = self.server.clone();
                Error::Lost(Arc::new(LostConnection { server, reason, has_stopped: false }))
            }
        }
    }

    fn expect(&self, request: PendingRequest) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.pending.insert(id, request);
        // an end that came before the line above has not seen this request
        if !self.is_open() {
            self.pending.remove(&id);
        }
        id
    }

    fn receive(&self, incoming: Incoming) {
        match incoming {
            Incoming::Reply { id, outcome } => self.receive_reply(id, outcome),
            Incoming::Push(Push::Event { registrations, event, .. }) => {
                self.router.deliver(&registrations, &event)
            }
            Incoming::Push(Push::Lagged { missed }) => self.router.lag(missed),
            Incoming::Push(Push::Output { registration, output }) => {
                self.outputs.deliver(registration, output);
            }
            Incoming::Push(Push::OutputLost { registration, bytes }) => self.outputs.lag(registration, bytes),
            Incoming::Push(Push::Stopping) => self.stops.store(true, Ordering::Relaxed),
            Incoming::Push(_) => {}
        }
    }

    fn receive_reply(&self, id: u64, outcome: Result<Reply, Failure>) {
        let Some((_, request)) = self.pending.remove(&id) else {
            tracing::debug!(id, "dropped a reply to a request that was given up");
            return;
        };
        let PendingRequest { operation, reply, is_output, recipient } = request;
        if recipient.is_some() && reply.is_closed() {
            lock(&self.given_up).retain(|given_up| *given_up != id);
        }
        let registration = match &outcome {
            Ok(Reply::Registered(registration)) => Some(*registration),
            _ => None,
        };
        match (registration, recipient) {
            (Some(registration), Some(Recipient::Events(interest))) => {
                self.router.add(registration, interest)
            }
            (Some(registration), Some(Recipient::Output(queue))) => self.outputs.add(registration, queue),
            _ => {}
        }
        let outcome = outcome.map_err(|failure| Error::failed(operation, failure));
        if reply.send(outcome).is_err()
            && let Some(registration) = registration
        {
            // the caller has given up, so nobody would ever read what comes
            self.take_back(registration, is_output);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.router.end();
        self.outputs.end();
    }
}

/// Room for one request in the queue to the transport.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    connection: &'a Connection,
    permit: mpsc::OwnedPermit<Outgoing>,
}

impl<'a> Slot<'a> {
    pub(crate) fn send<O: Operation>(self, request: O) -> PendingCall<'a, O> {
        PendingCall { reply: self.send_with(request.into(), None), operation: PhantomData }
    }

    fn send_with(self, request: Request, recipient: Option<Recipient>) -> PendingReply<'a> {
        let (reply, outcome) = oneshot::channel();
        let (operation, is_output) = (request.operation(), matches!(request, Request::IofPull(_)));
        let id = self.connection.expect(PendingRequest { operation, reply, is_output, recipient });
        tracing::trace!(id, operation, "request");
        self.permit.send(Outgoing { id, request });
        PendingReply { connection: self.connection, id, is_output, outcome, is_over: false }
    }
}

/// The reply in the form of its operation: another one breaks the protocol.
fn in_form<O: Operation>(reply: Reply) -> Result<O::Reply, Error> {
    reply.try_into().map_err(|_| Error::protocol(format!("unexpected reply to {}", O::NAME)))
}

/// A reply to come, in the form of its operation.
#[derive(Debug)]
#[must_use = "a reply has to be awaited"]
pub(crate) struct PendingCall<'a, O> {
    reply: PendingReply<'a>,
    operation: PhantomData<fn() -> O>,
}

/// A reply to come.
#[derive(Debug)]
#[must_use = "a reply has to be awaited"]
struct PendingReply<'a> {
    connection: &'a Connection,
    id: u64,
    /// Whether a registration is one for output.
    is_output: bool,
    is_over: bool,
    outcome: oneshot::Receiver<Result<Reply, Error>>,
}

impl Future for PendingReply<'_> {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context));
        self.is_over = true;
        Poll::Ready(outcome.unwrap_or_else(|_| Err(self.connection.end_error())))
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // what comes from now on is taken back there, and what has come already here
        self.outcome.close();
        match self.outcome.try_recv() {
            Ok(Ok(Reply::Registered(registration))) => {
                self.connection.take_back(registration, self.is_output)
            }
            _ => self.connection.give_up(self.id),
        }
    }
}

/// Brings in what the transport receives. Dropping it, in whatever way the transport ends, ends the connection.
#[derive(Debug)]
pub(crate) struct Deliverer {
    connection: Weak<Connection>,
    reason: Option<String>,
}

impl Deliverer {
    pub(crate) fn deliver(&self, incoming: Incoming) {
        if let Some(connection) = self.connection.upgrade() {
            connection.receive(incoming);
        }
    }

    /// Whether a reply to this request is of any use.
    #[cfg(feature = "native-wire")]
    pub(crate) fn is_awaited(&self, id: u64) -> bool {
        self.connection.upgrade().is_some_and(|connection| connection.pending.contains_key(&id))
    }

    /// Ends the connection and says why.
    pub(crate) fn close(mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            connection
                .lose(self.reason.take().unwrap_or_else(|| "the runtime that served it has ended".into()));
        }
    }
}

#[cfg(test)]
mod tests;
