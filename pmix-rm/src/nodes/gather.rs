//! Operations of several nodes, up a tree of nodes and down again, without I/O.
//!
//! Each node that takes part gives its data once. A node passes on what it and those below it give, in one message when it
//! has all of it, and the root decides how the operation ends: with the data of all, or because a node abandons it or
//! is lost. The outcome goes down once to each node that takes part, or has such nodes below it. A node that is to take part
//! and comes later than the outcome still says that it has come: so each node knows when it may forget the operation.
//!
//! Nodes are numbers: the root is 0, and the parent of `n` is `(n - 1) / degree`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

/// Bytes that a node holds for an operation; one that brings more is given up.
pub(crate) const MAX_GATHERED: usize = 192 << 20;

/// A node, by its place in the tree.
pub(crate) type Place = usize;

/// How an operation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The data of all, in the order in which the participants are named.
    Complete(Vec<Bytes>),
    /// This node has abandoned it.
    GivenUp(Place),
    /// This node is lost.
    Lost(Place),
}

/// What a node, and those below it, give to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operation: String,
    /// All that take part, in the order of the result.
    pub(crate) nodes: Vec<Place>,
    pub(crate) data: Vec<(Place, Bytes)>,
    /// It has been abandoned by this node.
    pub(crate) given_up: Option<Place>,
}

/// What is to be done after an input, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send this to the parent.
    Up(Part),
    /// Send this to a child.
    Down { to: Place, operation: String, nodes: Vec<Place>, outcome: Outcome },
    /// Tell the caller here.
    Ready { operation: String, outcome: Outcome },
}

/// The end of one node in all operations.
#[derive(Debug)]
pub(crate) struct Gathering {
    me: Place,
    degree: usize,
    count: usize,
    operations: HashMap<String, Operation>,
    lost: BTreeSet<Place>,
}

#[derive(Debug)]
struct Operation {
    nodes: Vec<Place>,
    /// Those of this node and below that take part and have not come.
    awaited: BTreeSet<Place>,
    /// What has come and was not passed on.
    held: BTreeMap<Place, Bytes>,
    /// Their bytes, those that were passed on included.
    bytes: usize,
    given_up: Option<Place>,
    outcome: Option<Outcome>,
    /// The caller here waits.
    is_waiting: bool,
    /// The parent has been told of all of them.
    is_passed_on: bool,
}

impl Gathering {
    /// The end of node `me` of `count`, in a tree of this degree.
    pub(crate) fn new(me: Place, count: usize, degree: usize) -> Self {
        Self { me, degree: degree.max(1), count, operations: HashMap::new(), lost: BTreeSet::new() }
    }

    /// The caller here gives its data to an operation in which this node takes part.
    pub(crate) fn enter(&mut self, operation: &str, nodes: &[Place], data: Bytes) -> Vec<Act> {
        let me = self.me;
        let entry = self.entry(operation, nodes);
        entry.is_waiting = true;
        let part = Part {
            operation: operation.to_owned(),
            nodes: nodes.to_vec(),
            data: vec![(me, data)],
            given_up: None,
        };
        self.take(part)
    }

    /// The caller here, who has entered, waits no longer.
    pub(crate) fn give_up(&mut self, operation: &str) -> Vec<Act> {
        let Some(entry) = self.operations.get_mut(operation).filter(|entry| entry.is_waiting) else {
            return Vec::new();
        };
        entry.is_waiting = false;
        if entry.outcome.is_some() {
            return Vec::new();
        }
        let (nodes, me) = (entry.nodes.clone(), self.me);
        self.take(Part { operation: operation.to_owned(), nodes, data: Vec::new(), given_up: Some(me) })
    }

    /// Takes what a child, or this node itself, gives.
    pub(crate) fn take(&mut self, part: Part) -> Vec<Act> {
        let Part { operation, nodes, mut data, mut given_up } = part;
        data.retain(|(node, _)| !self.lost.contains(node));
        if data.is_empty() && !self.operations.contains_key(&operation) {
            // given up by one whose data has come before: it is over
            return Vec::new();
        }
        let me = self.me;
        let lost = nodes.iter().copied().find(|node| self.lost.contains(node));
        let entry = self.entry(&operation, &nodes);
        for (node, data) in data {
            // each comes once; what comes again was there
            if entry.awaited.remove(&node) {
                entry.bytes = entry.bytes.saturating_add(data.len());
                if entry.bytes > MAX_GATHERED {
                    given_up = Some(me);
                }
                // after the outcome it only says that it has come
                let is_wanted = entry.outcome.is_none() && entry.bytes <= MAX_GATHERED;
                entry.held.insert(node, if is_wanted { data } else { Bytes::new() });
            }
        }
        let is_news = given_up.is_some() && entry.given_up.is_none() && entry.outcome.is_none();
        if is_news {
            entry.given_up = given_up;
        }
        let mut acts = Vec::new();
        let is_complete = entry.awaited.is_empty();
        if me == 0 {
            let decided = match (entry.given_up, lost) {
                (Some(node), _) => Some(Outcome::GivenUp(node)),
                (None, Some(node)) => Some(Outcome::Lost(node)),
                (None, None) if is_complete => {
                    let data = entry.nodes.iter().map(|node| entry.held.remove(node).unwrap_or_default());
                    Some(Outcome::Complete(data.collect()))
                }
                _ => None,
            };
            let outcome = entry.outcome.clone().or(decided);
            if let Some(outcome) = outcome {
                acts.extend(self.end(&operation, outcome));
            }
        } else if is_news || (is_complete && !entry.is_passed_on) {
            entry.is_passed_on = is_complete;
            let data = std::mem::take(&mut entry.held).into_iter().collect();
            let given_up = entry.given_up.filter(|_| is_news);
            acts.push(Act::Up(Part { operation: operation.clone(), nodes, data, given_up }));
            if let Some(outcome) = self.operations.get(&operation).and_then(|entry| entry.outcome.clone()) {
                acts.extend(self.end(&operation, outcome));
            }
        } else if let Some(outcome) = entry.outcome.clone() {
            acts.extend(self.end(&operation, outcome));
        }
        acts
    }

    /// The parent tells how an operation has ended.
    pub(crate) fn outcome(&mut self, operation: &str, nodes: &[Place], outcome: Outcome) -> Vec<Act> {
        self.entry(operation, nodes);
        self.end(operation, outcome)
    }

    /// A node is lost, and with it all below it.
    pub(crate) fn lose(&mut self, node: Place) -> Vec<Act> {
        let (degree, count) = (self.degree, self.count);
        let lost: Vec<_> = (0..count).filter(|other| is_below(degree, *other, node)).collect();
        self.lost.extend(lost.iter().copied());
        let concerned =
            self.operations.iter().filter(|(_, entry)| entry.nodes.iter().any(|node| lost.contains(node)));
        let concerned: Vec<_> = concerned.map(|(name, entry)| (name.clone(), entry.nodes.clone())).collect();
        let mut acts = Vec::new();
        for (operation, nodes) in concerned {
            if let Some(entry) = self.operations.get_mut(&operation) {
                entry.awaited.retain(|node| !lost.contains(node));
                entry.held.retain(|node, _| !lost.contains(node));
            }
            let is_mine = |node: &Place| is_below(degree, *node, self.me) && !self.lost.contains(node);
            if self.me != 0 && !nodes.iter().any(is_mine) {
                // nobody here or below waits for it
                self.operations.remove(&operation);
                continue;
            }
            acts.extend(self.take(Part { operation, nodes, data: Vec::new(), given_up: None }));
        }
        acts
    }

    /// How many operations it has not forgotten.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.operations.len()
    }

    fn entry(&mut self, operation: &str, nodes: &[Place]) -> &mut Operation {
        let (degree, me, lost) = (self.degree, self.me, &self.lost);
        self.operations.entry(operation.to_owned()).or_insert_with(|| {
            let below =
                nodes.iter().copied().filter(|node| is_below(degree, *node, me) && !lost.contains(node));
            Operation {
                nodes: nodes.to_vec(),
                awaited: below.collect(),
                held: BTreeMap::new(),
                bytes: 0,
                given_up: None,
                outcome: None,
                is_waiting: false,
                is_passed_on: false,
            }
        })
    }

    /// Tells the caller here and the children, each once, and forgets the operation once all have come.
    fn end(&mut self, operation: &str, outcome: Outcome) -> Vec<Act> {
        let (me, degree, count) = (self.me, self.degree, self.count);
        let Some(entry) = self.operations.get_mut(operation) else { return Vec::new() };
        let mut acts = Vec::new();
        if entry.outcome.is_none() {
            entry.outcome = Some(outcome.clone());
            entry.held.values_mut().for_each(Bytes::clear);
            for child in children(degree, count, me).filter(|child| !self.lost.contains(child)) {
                let hears = |node: &Place| is_below(degree, *node, child) && !self.lost.contains(node);
                if entry.nodes.iter().any(hears) {
                    let (nodes, outcome) = (entry.nodes.clone(), outcome.clone());
                    acts.push(Act::Down { to: child, operation: operation.to_owned(), nodes, outcome });
                }
            }
        }
        if std::mem::take(&mut entry.is_waiting) {
            acts.push(Act::Ready { operation: operation.to_owned(), outcome });
        }
        if entry.awaited.is_empty() {
            self.operations.remove(operation);
        }
        acts
    }
}

fn children(degree: usize, count: usize, node: Place) -> impl Iterator<Item = Place> {
    let first = node.saturating_mul(degree).saturating_add(1).min(count);
    first..first.saturating_add(degree).min(count)
}

/// Whether a node is another one or below it.
fn is_below(degree: usize, mut node: Place, other: Place) -> bool {
    while node > other {
        node = (node - 1) / degree;
    }
    node == other
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
