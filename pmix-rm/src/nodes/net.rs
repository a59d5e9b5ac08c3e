//! The exchange between the head and its nodes, at either end, over the connections of nodes with their head, which passes on
//! what they send each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use pmix_host::{Exchange, ExchangeError, Responder};
use pmix_proto::nodes::{self, Frame, frame::Content};
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;

use super::gather::{Act, Gathering, MAX_GATHERED, Outcome, Part, Place};
use super::link::{Link, Unsent};
use super::{lock, version};

/// Requests of one node that this one has not answered; further ones fail.
const MAX_ASKED: usize = 16_384;

/// One end of the exchange. All clones are the same end.
#[derive(Clone)]
pub(super) struct Net(Arc<Inner>);

struct Inner {
    me: Place,
    /// The names of all nodes by their places: the head comes first.
    names: Vec<String>,
    gathering: Mutex<Gathering>,
    /// Callers here of operations that are not complete.
    callers: Mutex<HashMap<String, oneshot::Sender<Outcome>>>,
    asked: Mutex<Asked>,
    /// How many requests of each node are being answered.
    answering: Mutex<BTreeMap<Place, usize>>,
    responder: OnceLock<Arc<dyn Responder>>,
    links: Mutex<BTreeMap<Place, Connected>>,
    /// Nodes that have not connected with this one yet; `None` if none may any more.
    expected: Mutex<Option<BTreeSet<Place>>>,
    losses: mpsc::UnboundedSender<Loss>,
}

/// A node that this one is connected with.
#[derive(Clone)]
struct Connected {
    link: Link,
    /// The minor version that both speak.
    version: u32,
}

/// What a node is answered, or why it is not.
pub(super) type Answered = Result<Bytes, ExchangeError>;

/// Requests from here that are not answered.
#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, (Place, oneshot::Sender<Answered>)>,
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
        let (losses, lost) = mpsc::unbounded_channel();
        // all nodes are children of the head
        let gathering = Gathering::new(me, names.len(), usize::MAX);
        let expected = if me == 0 { (1..names.len()).collect() } else { BTreeSet::from([0]) };
        let inner = Inner {
            me,
            expected: Mutex::new(Some(expected)),
            names,
            gathering: Mutex::new(gathering),
            callers: Mutex::default(),
            asked: Mutex::default(),
            answering: Mutex::default(),
            responder: OnceLock::new(),
            links: Mutex::default(),
            losses,
        };
        (Self(Arc::new(inner)), lost)
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.0.names.iter().position(|known| known == name)
    }

    /// That of this node.
    pub(super) fn me(&self) -> Place {
        self.0.me
    }

    pub(super) fn name(&self, place: Place) -> &str {
        self.0.names.get(place).map_or("", String::as_str)
    }

    /// Takes the connection to a node, unless there has been one, or the session is over.
    pub(super) fn connect(&self, place: Place, link: Link, version: u32) -> bool {
        let mut links = lock(&self.0.links);
        let is_expected = lock(&self.0.expected).as_mut().is_some_and(|expected| expected.remove(&place));
        if is_expected {
            links.insert(place, Connected { link, version });
        }
        is_expected
    }

    /// Lets no other node connect: the session is over.
    pub(super) fn close(&self) {
        *lock(&self.0.expected) = None;
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
        let through = |to: Place| self.0.me != 0 || to == place;
        let mut asked = lock(&self.0.asked);
        let gone: Vec<_> =
            asked.waiting.iter().filter(|(_, (to, _))| through(*to)).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some((_, answer)) = asked.waiting.remove(&id) {
                let _ = answer.send(Err(self.unreachable(place)));
            }
        }
        drop(asked);
        if self.0.me == 0 {
            let acts = lock(&self.0.gathering).lose(place);
            self.carry(acts);
            self.tell_lost(place, reason);
        } else {
            for (_, caller) in lock(&self.0.callers).drain() {
                let _ = caller.send(Outcome::Lost(place));
            }
        }
        let loss = Loss { node: self.name(place).to_owned(), reason: reason.to_owned() };
        let _ = self.0.losses.send(loss);
    }

    /// Tells all others that a node is lost. At the end of the session all of them are, one after the other.
    fn tell_lost(&self, place: Place, reason: &str) {
        if lock(&self.0.expected).is_none() {
            return;
        }
        let links = lock(&self.0.links);
        let others = links.iter().filter(|(_, other)| other.version >= version::DIRECT);
        let others: Vec<_> = others.map(|(other, _)| *other).collect();
        drop(links);
        for other in others {
            let lost = nodes::Lost { node: self.name(place).to_owned(), reason: reason.to_owned() };
            let net = self.clone();
            begin(async move {
                net.send(other, Content::Lost(lost)).await;
            });
        }
    }

    /// Sends a frame towards a node; false if it cannot be reached.
    pub(super) async fn send(&self, to: Place, content: Content) -> bool {
        let next = if self.0.me == 0 { to } else { 0 };
        let Some(Connected { link, .. }) = lock(&self.0.links).get(&next).cloned() else { return false };
        match link.send(Frame { content: Some(content) }).await {
            Ok(()) => true,
            Err(Unsent::Closed) => false,
            Err(Unsent::Full) => {
                self.lose(next, &format!("it has read nothing for {} s", link.patience().as_secs_f64()));
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
            Content::Answer(nodes::Answer { id, result }) => {
                let Some(answer) = self.asked_of(from, id) else { return };
                let _ = answer.send(self.answer_in(from, result));
            }
            Content::Part(part) => {
                let Some(part) = self.part_in(from, part) else {
                    tracing::warn!(node = self.name(from), "a part of an operation makes no sense");
                    return;
                };
                let acts = lock(&self.0.gathering).take(part);
                self.carry(acts);
            }
            Content::Outcome(outcome) if from == 0 => {
                let Some((operation, nodes, outcome)) = self.outcome_in(outcome) else {
                    tracing::warn!("the outcome of an operation makes no sense");
                    return;
                };
                let acts = lock(&self.0.gathering).outcome(&operation, &nodes, outcome);
                self.carry(acts);
            }
            _ => tracing::warn!(node = self.name(from), "a node has sent what it must not send"),
        }
    }

    async fn take_ask(&self, from: Place, ask: nodes::Ask) {
        // nobody but the head asks for another
        let asker = if self.0.me == 0 { self.name(from).to_owned() } else { ask.from.clone() };
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
        let nodes::Ask { id, to, request, .. } = ask;
        let Some(turn) = Turn::take(self, from) else {
            let why = format!("node {to} has {MAX_ASKED} requests of node {asker} that are not answered");
            return Err(nodes::Answer { id, result: Some(nodes::answer::Result::Failed(why)) });
        };
        let net = self.clone();
        Ok(async move {
            let answered = match net.place(&to) {
                Some(place) => net.ask(&asker, place, request).await,
                None => Err(ExchangeError::Unreachable { node: to }),
            };
            let result = Some(match answered.and_then(|reply| net.small_enough(reply, &asker)) {
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
    async fn ask(&self, from: &str, to: Place, request: Bytes) -> Answered {
        if to == self.0.me {
            let responder = self.0.responder.get().ok_or_else(|| self.unreachable(to))?;
            return Ok(responder.respond(from, request).await);
        }
        let request = self.small_enough(request, self.name(to))?;
        let (answer, answered) = oneshot::channel();
        let id = self.next_id();
        lock(&self.0.asked).waiting.insert(id, (to, answer));
        let _waiting = Waiting { net: self, id };
        let ask = nodes::Ask { id, from: from.to_owned(), to: self.name(to).to_owned(), request };
        if !self.send(to, Content::Ask(ask)).await {
            return Err(self.unreachable(to));
        }
        answered.await.unwrap_or_else(|_| Err(self.unreachable(to)))
    }

    /// Who waits for this answer of a node. The head hears each node itself, and no other one answers in its place.
    fn asked_of(&self, from: Place, id: u64) -> Option<oneshot::Sender<Answered>> {
        let waiting = &mut lock(&self.0.asked).waiting;
        if self.0.me == 0 && waiting.get(&id).is_some_and(|(to, _)| *to != from) {
            tracing::warn!(node = self.name(from), "a node has answered what another one was asked");
            return None;
        }
        waiting.remove(&id).map(|(_, answer)| answer)
    }

    /// A number for a request from here.
    pub(super) fn next_id(&self) -> u64 {
        let mut asked = lock(&self.0.asked);
        asked.last += 1;
        asked.last
    }

    pub(super) fn unreachable(&self, place: Place) -> ExchangeError {
        ExchangeError::Unreachable { node: self.name(place).to_owned() }
    }

    /// What a message to a node has room for.
    pub(super) fn small_enough(&self, bytes: Bytes, to: &str) -> Answered {
        let size = bytes.len();
        if size <= MAX_GATHERED {
            return Ok(bytes);
        }
        let me = self.name(self.0.me);
        Err(ExchangeError::Other(format!(
            "a message of {size} bytes from node {me} to node {to} is too large: at most {MAX_GATHERED} are sent"
        )))
    }

    /// A node that does not read keeps nobody else waiting. What goes to one node keeps its order.
    fn carry(&self, acts: Vec<Act>) {
        for act in acts {
            let net = self.clone();
            begin(async move { net.carry_out(act).await });
        }
    }

    async fn carry_out(&self, act: Act) {
        match act {
            Act::Up(part) => {
                self.send(0, Content::Part(self.part_form(part))).await;
            }
            Act::Down { to, operation, nodes, outcome } => {
                let form = self.outcome_form(operation, &nodes, outcome);
                self.send(to, Content::Outcome(form)).await;
            }
            Act::Ready { operation, outcome } => {
                if let Some(caller) = lock(&self.0.callers).remove(&operation) {
                    let _ = caller.send(outcome);
                }
            }
        }
    }

    fn places(&self, names: &[String]) -> Result<Vec<Place>, String> {
        names.iter().map(|name| self.place(name).ok_or_else(|| name.clone())).collect()
    }

    fn names_of(&self, places: &[Place]) -> Vec<String> {
        places.iter().map(|place| self.name(*place).to_owned()).collect()
    }

    fn part_form(&self, part: Part) -> nodes::Part {
        let Part { operation, nodes, data, given_up } = part;
        let index = |place: Place| nodes.iter().position(|node| *node == place).unwrap_or_default();
        let data = data.into_iter().map(|(place, data)| nodes::NodeData {
            node: u32::try_from(index(place)).unwrap_or(u32::MAX),
            data,
        });
        nodes::Part {
            operation,
            data: data.collect(),
            given_up: given_up.map(|place| self.name(place).to_owned()),
            nodes: self.names_of(&nodes),
        }
    }

    /// The part of a node, which speaks for nobody else.
    fn part_in(&self, from: Place, form: nodes::Part) -> Option<Part> {
        let nodes = self.places(&form.nodes).ok()?;
        let read = |data: nodes::NodeData| {
            let place = *nodes.get(usize::try_from(data.node).ok()?)?;
            (place == from).then_some((place, data.data))
        };
        let data = form.data.into_iter().map(read).collect::<Option<_>>()?;
        let given_up = form.given_up.map(|name| self.place(&name).filter(|place| *place == from));
        let given_up = match given_up {
            Some(None) => return None,
            Some(place) => place,
            None => None,
        };
        nodes.contains(&from).then_some(Part { operation: form.operation, nodes, data, given_up })
    }

    fn outcome_form(&self, operation: String, nodes: &[Place], outcome: Outcome) -> nodes::Outcome {
        use nodes::outcome::Result;
        let result = match outcome {
            Outcome::Complete(data) => Result::Data(nodes::AllData { data }),
            Outcome::GivenUp(place) => Result::GivenUp(self.name(place).to_owned()),
            Outcome::Lost(place) => Result::Lost(self.name(place).to_owned()),
        };
        nodes::Outcome { operation, nodes: self.names_of(nodes), result: Some(result) }
    }

    fn outcome_in(&self, form: nodes::Outcome) -> Option<(String, Vec<Place>, Outcome)> {
        use nodes::outcome::Result;
        let nodes = self.places(&form.nodes).ok()?;
        let outcome = match form.result? {
            Result::Data(all) if all.data.len() == nodes.len() => Outcome::Complete(all.data),
            Result::Data(_) => return None,
            Result::GivenUp(name) => Outcome::GivenUp(self.place(&name)?),
            Result::Lost(name) => Outcome::Lost(self.place(&name)?),
        };
        Some((form.operation, nodes, outcome))
    }
}

/// Does what can be done at once, in the order in which frames come, and the rest beside what comes next.
fn begin(work: impl Future<Output = ()> + Send + 'static) {
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

/// A request that is not answered yet; forgotten when nobody waits for the answer.
struct Waiting<'a> {
    net: &'a Net,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.net.0.asked).waiting.remove(&self.id);
    }
}

/// A caller here that has entered an operation; it gives the operation up unless it has heard how it ended.
struct Entered<'a> {
    net: &'a Net,
    operation: &'a str,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if lock(&self.net.0.callers).remove(self.operation).is_some() {
            let acts = lock(&self.net.0.gathering).give_up(self.operation);
            self.net.carry(acts);
        }
    }
}

#[async_trait]
impl Exchange for Net {
    fn node(&self) -> &str {
        self.name(self.0.me)
    }

    fn nodes(&self) -> Vec<String> {
        self.0.names.clone()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        let places = self.places(nodes).map_err(|node| ExchangeError::Unreachable { node })?;
        if self.0.me != 0 && !lock(&self.0.links).contains_key(&0) {
            return Err(ExchangeError::Unreachable { node: self.name(0).to_owned() });
        }
        let (caller, outcome) = oneshot::channel();
        lock(&self.0.callers).insert(operation.to_owned(), caller);
        let _entered = Entered { net: self, operation };
        let acts = lock(&self.0.gathering).enter(operation, &places, data);
        self.carry(acts);
        match outcome.await {
            Ok(Outcome::Complete(data)) => Ok(data),
            Ok(Outcome::GivenUp(place)) => {
                Err(ExchangeError::Abandoned { node: self.name(place).to_owned() })
            }
            Ok(Outcome::Lost(place)) => Err(ExchangeError::Unreachable { node: self.name(place).to_owned() }),
            Err(_) => Err(ExchangeError::Other(format!("{operation} was entered twice at a time"))),
        }
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        let unknown = || ExchangeError::Unreachable { node: node.to_owned() };
        let place = self.place(node).ok_or_else(unknown)?;
        self.ask(self.name(self.0.me), place, request).await
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        // the first one counts
        let _ = self.0.responder.set(responder);
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
