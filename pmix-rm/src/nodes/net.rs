//! The exchange between the head and its nodes, at either end, over the connections of nodes with their head, which passes on
//! what they send each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use pmix_host::{Exchange, ExchangeError, Responder};
use pmix_proto::nodes::{self, Frame, ask::What, frame::Content};
use pmix_types::trace::TraceContext;
use tokio::sync::mpsc;
use tokio::task::unconstrained;

use super::gather::{MAX_GIVEN, Place};
use super::link::{Link, Unsent};
use super::lock;
use super::names::Names;
use super::operations::{Operations, Reach};
use super::pending::{Answered, Pending};
use super::succession::Succession;

/// What a daemon is told that comes too late.
const NOT_WANTED: &str = "its head no longer waits for it";

/// Requests of one node that this one has not answered; further ones fail.
const MAX_ASKED: usize = 16_384;

/// One end of the exchange. All clones are the same end.
#[derive(Clone)]
pub(super) struct Net(Arc<NetInner>);

struct NetInner {
    me: Place,
    /// The name of this node.
    own: String,
    names: Names,
    operations: OnceLock<Operations>,
    /// Requests from here.
    asked: Pending,
    /// How many there have been.
    last: AtomicU64,
    /// How many requests of each node are being answered.
    answering: Mutex<BTreeMap<Place, usize>>,
    responder: OnceLock<Arc<dyn Responder>>,
    links: Mutex<BTreeMap<Place, Link>>,
    /// Nodes that have not connected with this one yet; `None` if none may any more.
    expected: Mutex<Option<BTreeSet<Place>>>,
    losses: mpsc::UnboundedSender<Loss>,
    /// Of a daemon whose head may have a successor.
    succession: OnceLock<Succession>,
    /// The head is to confirm that it is the head before a node counts as lost.
    is_cautious: AtomicBool,
}

/// A node that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) node: String,
    pub(super) reason: String,
}

impl Net {
    /// The end of the node `me` among these, of which the head is the first. Losses of connections are reported.
    pub(super) fn new(me: Place, names: Vec<String>) -> (Self, mpsc::UnboundedReceiver<Loss>) {
        let expected = if me == 0 { (1..names.len()).collect() } else { BTreeSet::from([0]) };
        Self::expecting(me, names, expected)
    }

    /// The same; these nodes may connect.
    pub(super) fn expecting(
        me: Place,
        names: Vec<String>,
        expected: BTreeSet<Place>,
    ) -> (Self, mpsc::UnboundedReceiver<Loss>) {
        let (losses, lost) = mpsc::unbounded_channel();
        let inner = NetInner {
            me,
            own: names.get(me).cloned().unwrap_or_default(),
            expected: Mutex::new(Some(expected)),
            names: Names::new(names),
            operations: OnceLock::new(),
            asked: Pending::default(),
            last: AtomicU64::new(0),
            answering: Mutex::default(),
            responder: OnceLock::new(),
            links: Mutex::default(),
            losses,
            succession: OnceLock::new(),
            is_cautious: AtomicBool::new(false),
        };
        (Self(Arc::new(inner)), lost)
    }

    /// The head of this daemon may have a successor: what it is asked while there is none waits.
    pub(super) fn await_successors(&self) {
        let _ = self.0.succession.set(Succession::default());
    }

    pub(super) fn succession(&self) -> Option<&Succession> {
        self.0.succession.get()
    }

    /// Takes the connection with the successor of the head in place of the one before, and the nodes that it knows. It takes
    /// requests once it says so.
    pub(super) fn reconnect(&self, link: Link, nodes: &[String]) {
        for (place, name) in nodes.iter().enumerate().skip(1) {
            if place >= self.0.names.count() {
                self.0.names.add(name);
            } else if !name.is_empty() {
                self.0.names.correct(place, name);
            }
        }
        lock(&self.0.links).insert(0, link);
    }

    /// A node whose connection has ended counts as lost when [`declare_lost`](Self::declare_lost) says so.
    pub(super) fn be_cautious(&self) {
        self.0.is_cautious.store(true, Ordering::Relaxed);
    }

    /// A node is lost, as this head has confirmed, or has left.
    pub(super) fn declare_lost(&self, place: Place, reason: &str) {
        self.0.names.leave(place);
        let _ = self.0.operations.get().inspect(|operations| operations.lose(place));
        self.tell_lost(place, reason);
    }

    /// Takes part in operations, in trees of this degree, from now on.
    pub(super) fn gather(&self, degree: usize, reach: Arc<dyn Reach>) {
        let operations = Operations::new(self.0.me, self.0.names.clone(), degree, reach);
        // the first one counts
        let _ = self.0.operations.set(operations);
    }

    pub(super) fn operations(&self) -> Result<&Operations, ExchangeError> {
        self.0.operations.get().ok_or_else(|| self.unreachable(self.0.me))
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.0.names.place(name)
    }

    /// The place that a message means, if there is a node.
    pub(super) fn place_in(&self, number: u32) -> Option<Place> {
        self.0.names.place_in(number)
    }

    /// That of this node.
    pub(super) fn me(&self) -> Place {
        self.0.me
    }

    pub(super) fn name(&self, place: Place) -> Arc<str> {
        self.0.names.name(place)
    }

    /// The head lets another node connect, and tells all others of it; returns its place.
    pub(super) fn add(&self, name: &str) -> Place {
        // whoever connects meanwhile is welcomed with this name, or is told it now
        let links = lock(&self.0.links);
        let place = self.0.names.add(name);
        if let Some(expected) = lock(&self.0.expected).as_mut() {
            expected.insert(place);
        }
        let others: Vec<_> = links.keys().copied().collect();
        drop(links);
        let added = nodes::Added { node: name.to_owned(), place: u32::try_from(place).unwrap_or(u32::MAX) };
        self.begin_to_tell(others, &Content::Added(added));
        place
    }

    /// The head has declared a node lost.
    pub(super) fn hear_lost(&self, place: Place) {
        self.0.names.leave(place);
    }

    /// A node that was told to leave has left: the others hear of it like of a loss, which need not be confirmed.
    pub(super) fn has_left(&self, place: Place) {
        if self.0.is_cautious.load(Ordering::Relaxed) {
            self.declare_lost(place, "it has left");
        }
    }

    /// Lets a node that was expected no longer connect. If it has connected, its daemon is told to leave. That is no loss: no
    /// operation waits for it.
    pub(super) fn dismiss(&self, place: Place) {
        if let Some(expected) = lock(&self.0.expected).as_mut() {
            expected.remove(&place);
        }
        if let Some(link) = lock(&self.0.links).remove(&place) {
            let leave = nodes::Leave { reason: NOT_WANTED.to_owned(), lost: Vec::new() };
            begin(async move {
                let _ = link.send(Frame { content: Some(Content::Leave(leave)) }).await;
            });
        }
        self.0.names.leave(place);
        let vacant = nodes::Added { node: String::new(), place: u32::try_from(place).unwrap_or(u32::MAX) };
        let others = lock(&self.0.links).keys().copied().collect();
        self.begin_to_tell(others, &Content::Added(vacant));
    }

    /// Whether there is a connection to a node.
    pub(super) fn is_connected(&self, place: Place) -> bool {
        lock(&self.0.links).contains_key(&place)
    }

    /// Takes note of a node that the head has added, or that has not come.
    pub(super) fn take_added(&self, nodes::Added { node, place }: &nodes::Added) {
        // the welcome may have told it already
        match usize::try_from(*place) {
            Ok(place) if place == self.0.names.count() => drop(self.0.names.add(node)),
            Ok(place) if node.is_empty() => drop(self.0.names.leave(place)),
            Ok(place) if self.succession().is_some() && place > 0 => self.0.names.correct(place, node),
            _ => {}
        }
    }

    /// Takes the connection to a node, unless there has been one, or the session is over.
    pub(super) fn connect(&self, place: Place, link: Link) -> bool {
        self.connect_with(place, link, |_| None)
    }

    /// The same; the node is welcomed with the names of all nodes that remain. It is told of each that is added afterwards.
    pub(super) fn connect_with(
        &self,
        place: Place,
        link: Link,
        welcome: impl FnOnce(Vec<String>) -> Option<Content>,
    ) -> bool {
        let mut links = lock(&self.0.links);
        let is_expected = lock(&self.0.expected).as_mut().is_some_and(|expected| expected.remove(&place));
        if !is_expected {
            return false;
        }
        if let Some(content) = welcome(self.0.names.remaining()) {
            let link = link.clone();
            // nothing waits before it
            begin(async move {
                let _ = link.send(Frame { content: Some(content) }).await;
            });
        }
        links.insert(place, link);
        true
    }

    /// Lets no other node connect: the session is over.
    pub(super) fn close(&self) {
        *lock(&self.0.expected) = None;
    }

    /// Whether no node may connect any more.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.0.expected).is_none()
    }

    /// The nodes that this one is not connected with: one that has come back is.
    pub(super) fn absent(&self) -> Vec<String> {
        let links = lock(&self.0.links);
        let is_absent = |(place, name): &(Place, String)| {
            *place != self.0.me && !links.contains_key(place) && self.place(name) == Some(*place)
        };
        self.0.names.all().into_iter().enumerate().filter(is_absent).map(|(_, name)| name).collect()
    }

    /// Sends a frame to all nodes that this one is connected with.
    pub(super) async fn send_all(&self, content: Content) {
        let places: Vec<_> = lock(&self.0.links).keys().copied().collect();
        // one that does not read keeps nobody waiting
        join_all(places.into_iter().map(|place| self.send(place, content.clone()))).await;
    }

    /// The connection to a node has ended, or the node does not read: it is lost, and so is what waits for it.
    pub(super) fn lose(&self, place: Place, reason: &str) {
        if lock(&self.0.links).remove(&place).is_none() {
            return;
        }
        if let Some(succession) = self.succession() {
            succession.lose();
            let node = self.name(place).to_string();
            self.0.asked.fail(|_| true, || ExchangeError::Replaced { node: node.clone() });
        } else {
            // what others are asked goes through the head
            self.0.asked.fail(|to| self.0.me != 0 || to == place, || self.unreachable(place));
            if self.0.me != 0 {
                let _ = self.0.operations.get().inspect(|operations| operations.end(place));
            } else if !self.0.is_cautious.load(Ordering::Relaxed) {
                self.declare_lost(place, reason);
            }
        }
        let loss = Loss { node: self.name(place).to_string(), reason: reason.to_owned() };
        let _ = self.0.losses.send(loss);
    }

    /// Tells all others that a node is lost. At the end of the session all of them are, one after the other.
    fn tell_lost(&self, place: Place, reason: &str) {
        if lock(&self.0.expected).is_none() {
            return;
        }
        let others = lock(&self.0.links).keys().copied().collect();
        let number = u32::try_from(place).unwrap_or_default();
        let lost =
            nodes::Lost { node: self.name(place).to_string(), reason: reason.to_owned(), place: number };
        self.begin_to_tell(others, &Content::Lost(lost));
    }

    /// Sends a frame to nodes, and waits for none of them: one that does not read is lost some time. Each gets its frames in
    /// order.
    pub(super) fn begin_to_tell(&self, places: Vec<Place>, content: &Content) {
        for place in places {
            let (net, content) = (self.clone(), content.clone());
            begin(async move {
                net.send(place, content).await;
            });
        }
    }

    /// Sends a frame towards a node; false if it cannot be reached.
    pub(super) async fn send(&self, to: Place, content: Content) -> bool {
        let next = if self.0.me == 0 { to } else { 0 };
        let Some(link) = lock(&self.0.links).get(&next).cloned() else { return false };
        match link.send(Frame { content: Some(content) }).await {
            Ok(()) => true,
            Err(Unsent::Closed) => false,
            Err(Unsent::Full) => {
                // another connection may have taken its place meanwhile
                if lock(&self.0.links).get(&next).is_some_and(|now| now.is(&link)) {
                    self.lose(next, &format!("it has read nothing for {} s", link.patience().as_secs_f64()));
                }
                false
            }
        }
    }

    /// Handles a frame of a node that this one is connected with.
    pub(super) async fn take(&self, from: Place, content: Content) {
        if !lock(&self.0.links).contains_key(&from) {
            // what one says that is lost comes too late
            return;
        }
        match content {
            Content::Ask(ask) => self.take_ask(from, ask).await,
            // the head hears each node itself, and no other one answers in its place
            Content::Answer(nodes::Answer { id, .. })
                if self.0.me == 0 && self.0.asked.asked(id).is_some_and(|to| to != from) =>
            {
                tracing::warn!(node = &*self.name(from), "a node has answered what another one was asked");
            }
            Content::Answer(nodes::Answer { id, result }) => {
                self.0.asked.answer(id, self.answer_in(from, result));
            }
            _ => tracing::warn!(node = &*self.name(from), "a node has sent what it must not send"),
        }
    }

    async fn take_ask(&self, from: Place, ask: nodes::Ask) {
        // nobody but the head asks for another
        let asker = if self.0.me == 0 { self.name(from).to_string() } else { ask.from.clone() };
        let net = self.clone();
        match self.answer(from, asker, ask) {
            Ok(answering) => begin(async move {
                let (answer, _turn) = answering.await;
                net.send(from, Content::Answer(answer)).await;
            }),
            Err(too_many) => {
                self.send(from, Content::Answer(too_many)).await;
            }
        }
    }

    /// What to answer to a node, by this one or by the one that is asked. The request is under way until the turn is dropped.
    ///
    /// # Errors
    /// Too many of its requests are: what to answer to that.
    pub(super) fn answer(
        &self,
        from: Place,
        asker: String,
        ask: nodes::Ask,
    ) -> Result<impl Future<Output = (nodes::Answer, Turn)> + Send + use<>, nodes::Answer> {
        let nodes::Ask { id, to, what, .. } = ask;
        let Some(turn) = Turn::take(self, from) else {
            let why = format!("node {to} has {MAX_ASKED} requests of node {asker} that are not answered");
            return Err(nodes::Answer { id, result: Some(nodes::answer::Result::Failed(why)) });
        };
        let net = self.clone();
        Ok(async move {
            let answered = match (net.place(&to), what) {
                (Some(place), Some(what)) => net.ask(&asker, place, what).await,
                (Some(_), None) => Err(ExchangeError::Other("the request is empty".into())),
                (None, _) => Err(ExchangeError::Unreachable { node: to }),
            };
            let result = Some(match answered {
                Ok(reply) => nodes::answer::Result::Reply(reply),
                Err(ExchangeError::Unreachable { node }) => nodes::answer::Result::Unreachable(node),
                Err(ExchangeError::Other(why)) => nodes::answer::Result::Failed(why),
                Err(error) => nodes::answer::Result::Failed(error.to_string()),
            });
            (nodes::Answer { id, result }, turn)
        })
    }

    /// What a node has answered.
    pub(super) fn answer_in(&self, from: Place, result: Option<nodes::answer::Result>) -> Answered {
        match result {
            Some(nodes::answer::Result::Reply(reply)) => Ok(reply),
            Some(nodes::answer::Result::Unreachable(node)) => Err(ExchangeError::Unreachable { node }),
            Some(nodes::answer::Result::Failed(why)) => Err(ExchangeError::Other(why)),
            None => Err(self.unreachable(from)),
        }
    }

    /// Asks a node on behalf of another one, or of this one.
    pub(super) async fn ask(&self, from: &str, to: Place, what: What) -> Answered {
        if to == self.0.me {
            return self.answer_here(from, what).await;
        }
        let what = self.small_enough(what, &self.name(to))?;
        if let Some(succession) = self.succession()
            && !succession.wait().await
        {
            return Err(self.unreachable(to));
        }
        let id = self.next_id();
        let Some(mut asked) = self.0.asked.begin(id, to) else { return Err(self.unreachable(to)) };
        let ask = nodes::Ask { id, from: from.to_owned(), to: self.name(to).to_string(), what: Some(what) };
        if !self.send(to, Content::Ask(ask)).await {
            return match self.succession() {
                // it has just been lost
                Some(_) => Err(ExchangeError::Replaced { node: self.name(0).to_string() }),
                None => Err(self.unreachable(to)),
            };
        }
        asked.answered().await.unwrap_or_else(|| Err(self.unreachable(to)))
    }

    /// A number for a request from here.
    pub(super) fn next_id(&self) -> u64 {
        self.0.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn unreachable(&self, place: Place) -> ExchangeError {
        ExchangeError::Unreachable { node: self.name(place).to_string() }
    }

    async fn answer_here(&self, from: &str, what: What) -> Answered {
        match what {
            What::Request(request) => {
                let responder = self.0.responder.get().ok_or_else(|| self.unreachable(self.0.me))?;
                let reply = responder.respond(from, request).await;
                self.fits(reply.len(), from).map(|()| reply)
            }
            What::Step(step) => {
                let place =
                    self.place(from).ok_or_else(|| ExchangeError::Unreachable { node: from.to_owned() })?;
                let heard = self.operations()?.hear(place, step).await;
                heard.map_err(|why| ExchangeError::Other(format!("a step of an operation: {why}")))
            }
        }
    }

    /// What a message to a node has room for. The steps of operations have their own bound.
    pub(super) fn small_enough(&self, what: What, to: &str) -> Result<What, ExchangeError> {
        if let What::Request(request) = &what {
            self.fits(request.len(), to)?;
        }
        Ok(what)
    }

    fn fits(&self, size: usize, to: &str) -> Result<(), ExchangeError> {
        if size <= MAX_GIVEN {
            return Ok(());
        }
        let me = &self.0.own;
        Err(ExchangeError::Other(format!(
            "a message of {size} bytes from node {me} to node {to} is too large: at most {MAX_GIVEN} are sent"
        )))
    }
}

/// The head's way to others, or that of a node without connections to others: through the head.
#[async_trait]
impl Reach for Net {
    async fn step(&self, to: Place, step: Bytes) -> Answered {
        self.ask(&self.0.own, to, What::Step(step)).await
    }
}

/// Does what can be done at once, in the order in which frames come, and the rest beside what comes next.
pub(super) fn begin(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    // a task whose turn is nearly over would otherwise put it off, behind what comes next
    let first = std::pin::pin!(unconstrained(work.as_mut())).poll(&mut Context::from_waker(Waker::noop()));
    if first == Poll::Pending {
        tokio::spawn(work);
    }
}

/// A request of a node that is being answered.
pub(super) struct Turn {
    net: Net,
    from: Place,
}

impl Turn {
    /// None if too many of its requests are.
    fn take(net: &Net, from: Place) -> Option<Self> {
        let mut answering = lock(&net.0.answering);
        let under_way = answering.entry(from).or_default();
        if *under_way >= MAX_ASKED {
            return None;
        }
        *under_way += 1;
        Some(Self { net: net.clone(), from })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(under_way) = lock(&self.net.0.answering).get_mut(&self.from) {
            *under_way -= 1;
        }
    }
}

#[async_trait]
impl Exchange for Net {
    fn node(&self) -> &str {
        &self.0.own
    }

    fn nodes(&self) -> Vec<String> {
        self.0.names.all()
    }

    fn present(&self) -> Vec<String> {
        let nodes = self.0.names.remaining();
        let expected = lock(&self.0.expected);
        let is_expected = |place: &Place| expected.as_ref().is_some_and(|expected| expected.contains(place));
        let is_there = |(place, name): &(Place, String)| !name.is_empty() && !is_expected(place);
        nodes.into_iter().enumerate().filter(is_there).map(|(_, name)| name).collect()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.operations()?.all_gather(operation, nodes, data, None).await
    }

    async fn all_gather_traced(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
        span: TraceContext,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.operations()?.all_gather(operation, nodes, data, Some(span)).await
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        let unknown = || ExchangeError::Unreachable { node: node.to_owned() };
        let place = self.place(node).ok_or_else(unknown)?;
        self.ask(&self.0.own, place, What::Request(request)).await
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        // the first one counts
        let _ = self.0.responder.set(responder);
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
