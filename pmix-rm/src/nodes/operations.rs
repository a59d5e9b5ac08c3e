//! The operations of several nodes: what `gather.rs` decides, said to other nodes.
//!
//! A node says a part to the one above it as a request, whose answer is the outcome. So a request that is made again, because its
//! answer was lost on the way, needs nothing of its own; and one whose node is lost ends with that node. An outcome that nobody has asked for
//! is a request, too. Much data comes in pieces, each in a request of its own before the last one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_host::ExchangeError;
use pmix_proto::nodes::{self, step::Content};
use pmix_types::trace::{TARGET, TraceContext};
use prost::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::gather::{Act, Gathering, GivenUp, MAX_GATHERED, MAX_GIVEN, Outcome, Part, Place, Why};
use super::lock;
use super::names::Names;
use super::net::begin;

/// How long data of operations is kept, at least, for nodes that ask again; twice as long at most.
const KEPT: Duration = Duration::from_secs(20);
/// How long to wait before a request is made again that has failed although its node is not lost.
const AGAIN: Duration = Duration::from_secs(1);

/// Bytes of data in a step: that of further nodes comes in another one.
const PIECE: usize = 4 << 20;

/// The way to other nodes.
#[async_trait]
pub(super) trait Reach: Send + Sync {
    /// Asks a node, and returns its answer. The node may hear the request more than once.
    ///
    /// # Errors
    /// The node is lost, or has too much to do.
    async fn step(&self, to: Place, step: Bytes) -> Result<Bytes, ExchangeError>;
}

/// What nodes give.
type Data = [(Place, Bytes)];

/// An operation, and a node that waits for its outcome.
type Asker = (String, Place);

/// The end of one node in all operations. All clones are the same end.
#[derive(Clone)]
pub(super) struct Operations(Arc<OperationsInner>);

struct OperationsInner {
    me: Place,
    names: Names,
    gathering: Mutex<Gathering>,
    /// Callers here of operations that have not ended.
    callers: Mutex<HashMap<String, Caller>>,
    /// Nodes that wait for the outcome of an operation.
    askers: Mutex<HashMap<Asker, Vec<oneshot::Sender<Bytes>>>>,
    reach: Arc<dyn Reach>,
}

/// A caller of an operation here.
struct Caller {
    outcome: oneshot::Sender<Outcome>,
    /// Its span, if it is traced.
    trace: Option<TraceContext>,
}

impl Operations {
    /// The end of the node `me` among these, in trees of this degree.
    pub(super) fn new(me: Place, names: Names, degree: usize, reach: Arc<dyn Reach>) -> Self {
        let inner = Arc::new(OperationsInner {
            me,
            names,
            gathering: Mutex::new(Gathering::new(me, degree)),
            callers: Mutex::default(),
            askers: Mutex::default(),
            reach,
        });
        tokio::spawn(age(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// What [`pmix_host::Exchange::all_gather`] does.
    pub(super) async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
        trace: Option<TraceContext>,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        let place = |name: &String| self.0.names.place(name);
        let unknown = |name: &String| ExchangeError::Unreachable { node: name.clone() };
        let places = nodes.iter().map(|name| place(name).ok_or_else(|| unknown(name)));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let mut members = places.clone();
        members.sort_unstable();
        members.dedup();
        if members.binary_search(&self.0.me).is_err() {
            let why = format!("node {} does not take part in {operation}", self.name(self.0.me));
            return Err(ExchangeError::Other(why));
        }
        let members = members.into();
        let (caller, outcome) = oneshot::channel();
        lock(&self.0.callers).insert(operation.to_owned(), Caller { outcome: caller, trace });
        let _entered = Entered { operations: self, operation };
        let acts = lock(&self.0.gathering).enter(operation, &members, data);
        self.carry(acts);
        match outcome.await {
            Ok(Outcome::Complete(data)) => {
                let data: BTreeMap<Place, Bytes> = data.into_iter().collect();
                Ok(places.iter().filter_map(|place| data.get(place).cloned()).collect())
            }
            Ok(Outcome::GivenUp(given_up)) => Err(self.no_result(given_up)),
            Ok(Outcome::Lost(place)) => {
                Err(ExchangeError::Unreachable { node: self.name(place).to_string() })
            }
            Err(_) => Err(ExchangeError::Other(format!("{operation} was entered twice at a time"))),
        }
    }

    fn no_result(&self, GivenUp { by, why }: GivenUp) -> ExchangeError {
        let node = self.name(by);
        ExchangeError::Other(match why {
            Why::Left => return ExchangeError::Abandoned { node: node.to_string() },
            Why::TooMuch => format!(
                "too much data for one operation at node {node}: at most {} MiB from one node, and {} MiB from all",
                MAX_GIVEN >> 20,
                MAX_GATHERED >> 20
            ),
            Why::Differs => format!("node {node} names other nodes as participants than another node does"),
            Why::Unreadable => {
                format!("node {node} cannot understand how another node says that it has ended")
            }
            Why::Forgotten => format!("it has ended, but node {node} no longer has the result"),
        })
    }

    /// Handles a request of another node, and returns the answer.
    ///
    /// # Errors
    /// It makes no sense.
    pub(super) async fn hear(&self, from: Place, step: Bytes) -> Result<Bytes, &'static str> {
        let step = nodes::Step::decode(step).map_err(|_| "it cannot be read")?;
        match step.content.ok_or("it is empty")? {
            Content::Part(part) => {
                let has_more = part.more;
                let above = part.traceparent.parse().ok();
                let part = self.part_in(part).ok_or("a node of it is unknown")?;
                if !lock(&self.0.gathering).is_sound(from, &part) {
                    return Err("a node speaks for others");
                }
                let _span =
                    above.map_or_else(Span::none, |above| self.span_of(&above, &part.operation, from));
                if has_more {
                    if !lock(&self.0.gathering).has_room_for(&part.operation) {
                        return Err("too many operations are under way");
                    }
                    let mut acts = lock(&self.0.gathering).take(from, part);
                    // it asks with its last piece
                    acts.retain(|act| !matches!(act, Act::Down { to, .. } if *to == from));
                    self.carry(acts);
                    return Ok(Bytes::new());
                }
                let (asker, outcome) = oneshot::channel();
                lock(&self.0.askers).entry((part.operation.clone(), from)).or_default().push(asker);
                if lock(&self.0.gathering).is_lost(from) {
                    // what has come through the head, too late
                    self.forget_askers(from);
                    return Err("its node is lost");
                }
                let acts = lock(&self.0.gathering).take(from, part);
                self.carry(acts);
                outcome.await.map_err(|_| "its node is lost")
            }
            Content::Outcome(outcome) => {
                self.take_outcome(from, outcome).ok_or("a node of it is unknown")?;
                Ok(Bytes::new())
            }
        }
    }

    /// The span of a part that has come, until it is answered.
    fn span_of(&self, above: &TraceContext, operation: &str, from: Place) -> Span {
        let (own, node) = (self.name(self.0.me), self.name(from));
        let below = above.child("heard");
        tracing::trace_span!(
            target: TARGET, parent: None, "part of a fence heard",
            traceparent = %below.context, parent_id = %below.parent_id(), kind = "server",
            pmix.node = &*own, pmix.from = &*node, pmix.operation = operation,
        )
    }

    /// The head has declared a node lost.
    pub(super) fn lose(&self, node: Place) {
        let acts = lock(&self.0.gathering).lose(node);
        self.forget_askers(node);
        self.carry(acts);
    }

    fn forget_askers(&self, node: Place) {
        lock(&self.0.askers).retain(|(_, from), _| *from != node);
    }

    /// The head is gone: so is the session.
    pub(super) fn end(&self, head: Place) {
        for (_, caller) in lock(&self.0.callers).drain() {
            let _ = caller.outcome.send(Outcome::Lost(head));
        }
    }

    fn name(&self, place: Place) -> Arc<str> {
        self.0.names.name(place)
    }

    /// A node that does not read keeps nobody else waiting.
    fn carry(&self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Ready { operation, outcome } => {
                    if let Some(caller) = lock(&self.0.callers).remove(&operation) {
                        let _ = caller.outcome.send(outcome);
                    }
                }
                Act::Up { to, part } => {
                    let operations = self.clone();
                    begin(async move { operations.pass_on_traced(to, part).await });
                }
                Act::Down { to, operation, members, outcome } => {
                    let operations = self.clone();
                    begin(async move { operations.tell(to, &operation, &members, outcome).await });
                }
            }
        }
    }

    /// Passes a part on to the node above, and takes the outcome: a span, if the operation is traced.
    async fn pass_on_traced(&self, to: Place, part: Part) {
        let trace = lock(&self.0.callers).get(&part.operation).and_then(|caller| caller.trace);
        let Some(above) = trace else { return self.pass_on(to, part, String::new()).await };
        let (own, node) = (self.name(self.0.me), self.name(to));
        let below = above.child(&format!("part to {node}"));
        let span = tracing::trace_span!(
            target: TARGET, parent: None, "part of a fence",
            traceparent = %below.context, parent_id = %below.parent_id(), kind = "client",
            pmix.node = &*own, pmix.to = &*node, pmix.operation = part.operation,
        );
        self.pass_on(to, part, below.context.to_string()).instrument(span).await;
    }

    async fn pass_on(&self, to: Place, part: Part, traceparent: String) {
        let operation = part.operation.clone();
        loop {
            match self.pass_on_once(to, &part, &traceparent).await {
                Ok(answer) => {
                    let outcome = nodes::Outcome::decode(answer).ok();
                    if outcome.and_then(|outcome| self.take_outcome(to, outcome)).is_none() {
                        let node = self.name(to);
                        tracing::warn!(
                            node = &*node,
                            operation,
                            "the outcome of an operation makes no sense"
                        );
                        let acts = lock(&self.0.gathering).fail(&operation);
                        self.carry(acts);
                    }
                    return;
                }
                Err(error) => {
                    tracing::debug!(node = &*self.name(to), operation, %error, "a part of an operation was not passed on");
                    tokio::time::sleep_until(Instant::now() + AGAIN).await;
                }
            }
            if !lock(&self.0.gathering).waits_for(&operation, to) {
                return;
            }
        }
    }

    async fn pass_on_once(&self, to: Place, part: &Part, traceparent: &str) -> Result<Bytes, ExchangeError> {
        let (last, pieces) = pieces(&part.data);
        for piece in pieces {
            let form = nodes::Part { more: true, ..part_form(part, piece) };
            self.0.reach.step(to, step(Content::Part(form))).await?;
        }
        let form = nodes::Part { traceparent: traceparent.to_owned(), ..part_form(part, last) };
        self.0.reach.step(to, step(Content::Part(form))).await
    }

    /// Tells a node an outcome, whether it has asked for it or not.
    async fn tell(&self, to: Place, operation: &str, members: &[Place], outcome: Outcome) {
        use nodes::outcome::Result;
        let asked = lock(&self.0.askers).remove(&(operation.to_owned(), to));
        let form = |result| nodes::Outcome {
            operation: operation.to_owned(),
            nodes: members.iter().copied().map(number).collect(),
            result: Some(result),
        };
        let last = match &outcome {
            Outcome::Complete(data) => {
                let (last, pieces) = pieces(data);
                for piece in pieces {
                    let some = nodes::AllData { data: data_form(piece), more: true };
                    self.insist(to, &step(Content::Outcome(form(Result::Data(some))))).await;
                }
                Result::Data(nodes::AllData { data: data_form(last), more: false })
            }
            Outcome::GivenUp(given_up) => Result::GivenUp(given_up_form(*given_up)),
            Outcome::Lost(place) => Result::Lost(number(*place)),
        };
        let Some(askers) = asked else {
            return self.insist(to, &step(Content::Outcome(form(last)))).await;
        };
        let answer = Bytes::from(form(last).encode_to_vec());
        // one whose connection has ended asks again
        askers.into_iter().for_each(|asker| drop(asker.send(answer.clone())));
    }

    /// Tells a node something until it has heard it or is lost.
    async fn insist(&self, to: Place, step: &Bytes) {
        while let Err(error) = self.0.reach.step(to, step.clone()).await {
            tracing::debug!(node = &*self.name(to), %error, "the outcome of an operation was not told");
            tokio::time::sleep_until(Instant::now() + AGAIN).await;
            if lock(&self.0.gathering).is_lost(to) {
                return;
            }
        }
    }

    fn take_outcome(&self, from: Place, form: nodes::Outcome) -> Option<()> {
        use nodes::outcome::Result;
        let members = self.places_in(&form.nodes)?;
        let outcome = match form.result? {
            Result::Data(all) if all.more => {
                let data = self.data_in(all.data)?;
                lock(&self.0.gathering).foretell(from, &form.operation, &members, data);
                return Some(());
            }
            Result::Data(all) => Outcome::Complete(self.data_in(all.data)?),
            Result::GivenUp(given_up) => Outcome::GivenUp(self.given_up_in(&given_up)?),
            Result::Lost(node) => Outcome::Lost(self.0.names.place_in(node)?),
        };
        let acts = lock(&self.0.gathering).outcome(from, &form.operation, &members, outcome);
        self.carry(acts);
        Some(())
    }

    fn part_in(&self, form: nodes::Part) -> Option<Part> {
        let nodes::Part { operation, nodes, data, given_up, .. } = form;
        let (members, data) = (self.places_in(&nodes)?, self.data_in(data)?);
        let given_up = match given_up {
            Some(given_up) => Some(self.given_up_in(&given_up)?),
            None => None,
        };
        Some(Part { operation, members, data, given_up })
    }

    /// Places in ascending order, at least one.
    fn places_in(&self, nodes: &[u32]) -> Option<Arc<[Place]>> {
        let places: Option<Arc<[Place]>> = nodes.iter().map(|node| self.0.names.place_in(*node)).collect();
        places.filter(|places| !places.is_empty() && places.is_sorted_by(|one, next| one < next))
    }

    fn data_in(&self, data: Vec<nodes::NodeData>) -> Option<Vec<(Place, Bytes)>> {
        let read = |nodes::NodeData { node, data }| Some((self.0.names.place_in(node)?, data));
        data.into_iter().map(read).collect()
    }

    fn given_up_in(&self, form: &nodes::GivenUp) -> Option<GivenUp> {
        use nodes::given_up::Why as Form;
        let why = match form.why() {
            Form::Left => Why::Left,
            Form::TooMuch => Why::TooMuch,
            Form::Differs => Why::Differs,
            Form::Forgotten => Why::Forgotten,
            Form::Unreadable => Why::Unreadable,
        };
        Some(GivenUp { by: self.0.names.place_in(form.node)?, why })
    }
}

/// Forgets old outcomes for as long as the node is there.
async fn age(of: Weak<OperationsInner>) {
    loop {
        tokio::time::sleep_until(Instant::now() + KEPT).await;
        let Some(inner) = of.upgrade() else { return };
        lock(&inner.gathering).age();
    }
}

fn number(place: Place) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn step(content: Content) -> Bytes {
    nodes::Step { content: Some(content) }.encode_to_vec().into()
}

/// Data in pieces: the last one, which may be empty, and those before it.
fn pieces(mut data: &Data) -> (&Data, Vec<&Data>) {
    let mut pieces = Vec::new();
    loop {
        let mut bytes = 0;
        let mut fits = |(_, next): &(Place, Bytes)| {
            let is_first = bytes == 0;
            bytes += next.len();
            is_first || bytes <= PIECE
        };
        let (piece, rest) = data.split_at(data.iter().take_while(|next| fits(next)).count());
        if rest.is_empty() {
            return (piece, pieces);
        }
        pieces.push(piece);
        data = rest;
    }
}

fn data_form(data: &Data) -> Vec<nodes::NodeData> {
    data.iter().map(|(place, data)| nodes::NodeData { node: number(*place), data: data.clone() }).collect()
}

fn given_up_form(GivenUp { by, why }: GivenUp) -> nodes::GivenUp {
    use nodes::given_up::Why as Form;
    let why = match why {
        Why::Left => Form::Left,
        Why::TooMuch => Form::TooMuch,
        Why::Differs => Form::Differs,
        Why::Forgotten => Form::Forgotten,
        Why::Unreadable => Form::Unreadable,
    };
    nodes::GivenUp { node: number(by), why: why.into() }
}

fn part_form(part: &Part, data: &Data) -> nodes::Part {
    nodes::Part {
        operation: part.operation.clone(),
        nodes: part.members.iter().copied().map(number).collect(),
        data: data_form(data),
        given_up: part.given_up.map(given_up_form),
        more: false,
        traceparent: String::new(),
    }
}

/// A caller here that has entered an operation; it gives the operation up unless it has heard how it ended.
struct Entered<'a> {
    operations: &'a Operations,
    operation: &'a str,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if lock(&self.operations.0.callers).remove(self.operation).is_some() {
            let acts = lock(&self.operations.0.gathering).give_up(self.operation);
            self.operations.carry(acts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_data_is_in_pieces_which_are_all_of_it_in_its_order() {
        let data = |sizes: &[usize]| -> Vec<_> {
            sizes.iter().enumerate().map(|(place, size)| (place, Bytes::from(vec![0; *size]))).collect()
        };
        for (sizes, expected) in [
            (&[][..], &[0][..]),
            (&[0, 0, 7], &[3]),
            (&[PIECE, 0, 0], &[3]),
            (&[PIECE, 1, PIECE - 1, 1], &[1, 2, 1]),
            (&[1, 3 * PIECE, 1], &[1, 1, 1]),
            (&[PIECE / 2; 5], &[2, 2, 1]),
        ] {
            let data = data(sizes);
            let (last, mut all) = pieces(&data);
            all.push(last);
            assert_eq!(all.iter().map(|piece| piece.len()).collect::<Vec<_>>(), expected, "{sizes:?}");
            assert_eq!(all.concat(), data);
        }
    }
}
