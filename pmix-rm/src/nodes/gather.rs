//! Operations of several nodes, up a tree of those that take part and down again, without I/O.
//!
//! Each node gives its data once. A node passes on what it and those below it give, when it has all of it, and the root decides
//! how the operation ends: with the data of all, or because a node abandons it. The outcome goes down once to each node, with
//! what that node has not passed on itself. Much data may come in pieces, before the message that ends it.
//!
//! The tree has no other nodes, so a lost node that passed messages on was a member, and the operation fails. Each node knows
//! that as soon as it hears of the loss. Only a node that had passed everything on may be wrong, because the root may have had all
//! data before: it asks the nearest ancestor that is not lost, by the same part without data. For such questions, nodes keep
//! outcomes for a while.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::outcomes::{Early, Outcomes};
pub(crate) use super::tree::Place;
use super::tree::Tree;

/// Bytes that a node holds for an operation; one that brings more is given up.
pub(crate) const MAX_GATHERED: usize = 1 << 30;
/// Bytes that a node gives to an operation, and of any other message between nodes.
pub(crate) const MAX_GIVEN: usize = 192 << 20;

/// Operations under way of which a node takes pieces.
const MAX_OPEN: usize = 1024;

/// How an operation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The data of all that take part, in ascending order; for a node below, of those that it has not passed on.
    Complete(Vec<(Place, Bytes)>),
    GivenUp(GivenUp),
    /// This node is lost.
    Lost(Place),
}

/// A node has ended an operation, which has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    pub(crate) by: Place,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its caller waits no longer.
    Left,
    /// The nodes give more than it holds, or it gives more than can be passed on.
    TooMuch,
    /// It names other members than another node does.
    Differs,
    /// It does not understand what another node says.
    Unreadable,
    /// It no longer keeps the result.
    Forgotten,
}

/// What a node, and those below it, give to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operation: String,
    /// All that take part, in ascending order.
    pub(crate) members: Arc<[Place]>,
    pub(crate) data: Vec<(Place, Bytes)>,
    pub(crate) given_up: Option<GivenUp>,
}

/// What is to be done after an input, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send this to the parent.
    Up { to: Place, part: Part },
    /// Send this to a child.
    Down { to: Place, operation: String, members: Arc<[Place]>, outcome: Outcome },
    /// Tell the caller here.
    Ready { operation: String, outcome: Outcome },
}

/// The end of one node in all operations.
#[derive(Debug)]
pub(crate) struct Gathering {
    me: Place,
    degree: usize,
    operations: HashMap<String, Operation>,
    /// Those that have ended before the caller here has come.
    early: Early,
    outcomes: Outcomes,
    lost: BTreeSet<Place>,
}

#[derive(Debug)]
struct Operation {
    members: Arc<[Place]>,
    /// Those of this node and below that have not come.
    awaited: BTreeSet<Place>,
    /// What has come, and who has passed it on to this node.
    held: BTreeMap<Place, (Place, Bytes)>,
    bytes: usize,
    given_up: Option<GivenUp>,
    /// Nodes that have passed on something.
    givers: BTreeSet<Place>,
    /// The caller here waits.
    is_waiting: bool,
    said: Option<SentUp>,
}

/// What the parent has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentUp {
    to: Place,
    is_complete: bool,
    is_given_up: bool,
}

impl Operation {
    /// Holds what a node gives, without its data if that is too much; false then.
    fn hold(&mut self, from: Place, node: Place, data: Bytes) -> bool {
        // each comes once; what comes again was there
        let std::collections::btree_map::Entry::Vacant(slot) = self.held.entry(node) else { return true };
        self.bytes = self.bytes.saturating_add(data.len());
        let is_enough = self.bytes <= MAX_GATHERED;
        slot.insert((from, if is_enough { data } else { Bytes::new() }));
        is_enough
    }
}

impl Gathering {
    /// The end of a node, in trees of this degree.
    pub(crate) fn new(me: Place, degree: usize) -> Self {
        Self {
            me,
            degree: degree.max(1),
            operations: HashMap::new(),
            early: Early::default(),
            outcomes: Outcomes::default(),
            lost: BTreeSet::new(),
        }
    }

    /// The caller here gives its data to an operation in which this node takes part. It enters each operation once.
    pub(crate) fn enter(&mut self, operation: &str, members: &Arc<[Place]>, data: Bytes) -> Vec<Act> {
        let early = self.early.remove(operation);
        if let Some(outcome) = early.or_else(|| self.failed_by_loss(operation, members)) {
            return vec![Act::Ready { operation: operation.to_owned(), outcome }];
        }
        let me = self.me;
        let entry = self.entry(operation, members);
        entry.is_waiting = true;
        let differs = (entry.members != *members).then_some(GivenUp { by: me, why: Why::Differs });
        let too_much = (data.len() > MAX_GIVEN).then_some(GivenUp { by: me, why: Why::TooMuch });
        let data = if too_much.is_some() { Bytes::new() } else { data };
        self.add(operation, me, vec![(me, data)], differs.or(too_much))
    }

    /// The caller here, who has entered, waits no longer.
    pub(crate) fn give_up(&mut self, operation: &str) -> Vec<Act> {
        let me = self.me;
        match self.operations.get_mut(operation) {
            Some(entry) if entry.is_waiting => entry.is_waiting = false,
            _ => return Vec::new(),
        }
        self.add(operation, me, Vec::new(), Some(GivenUp { by: me, why: Why::Left }))
    }

    /// Takes what a child gives, perhaps again, and perhaps not all at once.
    pub(crate) fn take(&mut self, from: Place, part: Part) -> Vec<Act> {
        let Part { operation, members, data, given_up } = part;
        let ended = self.outcomes.get(&operation, self.me).or_else(|| self.early.get(&operation));
        if let Some(outcome) = ended.or_else(|| self.failed_by_loss(&operation, &members)) {
            return vec![Act::Down { to: from, operation, members, outcome }];
        }
        let entry = self.entry(&operation, &members);
        entry.givers.insert(from);
        let differs = (entry.members != members).then_some(GivenUp { by: from, why: Why::Differs });
        self.add(&operation, from, data, given_up.or(differs))
    }

    /// A node above tells some of the data of an operation, and will tell the rest with its outcome.
    pub(crate) fn foretell(
        &mut self,
        from: Place,
        operation: &str,
        members: &Arc<[Place]>,
        data: Vec<(Place, Bytes)>,
    ) {
        let may_tell = self.tree(members).may_tell(from, self.me);
        if let Some(entry) = self.operations.get_mut(operation)
            && may_tell
            && entry.members == *members
        {
            for (node, data) in data {
                entry.hold(from, node, data);
            }
        }
    }

    /// A node above tells how an operation has ended. One that is not above, as far as is known here, may know of losses that
    /// are not known here: it is asked once they are.
    pub(crate) fn outcome(
        &mut self,
        from: Place,
        operation: &str,
        members: &Arc<[Place]>,
        outcome: Outcome,
    ) -> Vec<Act> {
        let is_known = self.outcomes.get(operation, self.me).is_some()
            || self.failed_by_loss(operation, members).is_some();
        let may_tell = self.tree(members).may_tell(from, self.me);
        if is_known || !may_tell {
            return Vec::new();
        }
        let me = self.me;
        let entry = self.entry(operation, members);
        let outcome = match outcome {
            Outcome::Complete(data) => {
                let own = entry.held.iter().map(|(node, (_, data))| (*node, data.clone()));
                let all: BTreeMap<Place, Bytes> = own.chain(data).collect();
                let is_too_much = entry.bytes > MAX_GATHERED;
                // a node that tells less than all does not know how it has ended
                if is_too_much {
                    Outcome::GivenUp(GivenUp { by: me, why: Why::TooMuch })
                } else if all.keys().eq(entry.members.iter()) && entry.held.contains_key(&me) {
                    Outcome::Complete(all.into_iter().collect())
                } else {
                    Outcome::GivenUp(GivenUp { by: me, why: Why::Unreadable })
                }
            }
            failed => failed,
        };
        self.end(operation, outcome)
    }

    /// How an operation has ended cannot be understood here.
    pub(crate) fn fail(&mut self, operation: &str) -> Vec<Act> {
        self.end(operation, Outcome::GivenUp(GivenUp { by: self.me, why: Why::Unreadable }))
    }

    /// A node is lost: the head has said so.
    pub(crate) fn lose(&mut self, node: Place) -> Vec<Act> {
        if !self.lost.insert(node) {
            return Vec::new();
        }
        let concerned = self.operations.iter().filter(|(_, entry)| entry.members.contains(&node));
        let concerned: Vec<_> = concerned.map(|(name, _)| name.clone()).collect();
        let mut acts = Vec::new();
        for operation in concerned {
            let Some(entry) = self.operations.get(&operation) else { continue };
            let has_parent = self.tree(&entry.members).parent(self.me).is_some();
            if has_parent && entry.said.is_some_and(|said| said.is_complete) {
                acts.extend(self.settle(&operation));
            } else {
                acts.extend(self.end(&operation, Outcome::Lost(node)));
            }
        }
        acts
    }

    /// Time has passed: forgets the data of operations that had ended when this was called before.
    pub(crate) fn age(&mut self) {
        self.outcomes.age();
    }

    /// Whether the node that gives a part speaks for itself and those below it.
    pub(crate) fn is_sound(&self, from: Place, part: &Part) -> bool {
        let tree = self.tree(&part.members);
        let nodes = part.data.iter().map(|(node, _)| *node).chain(part.given_up.map(|given_up| given_up.by));
        tree.is_of(self.me) && tree.is_of(from) && nodes.into_iter().all(|node| tree.speaks_for(from, node))
    }

    /// Whether the node above is to say how an operation has ended.
    pub(crate) fn waits_for(&self, operation: &str, node: Place) -> bool {
        let said = self.operations.get(operation).and_then(|entry| entry.said);
        said.is_some_and(|said| said.to == node)
    }

    /// Whether the head has declared a node lost.
    pub(crate) fn is_lost(&self, node: Place) -> bool {
        self.lost.contains(&node)
    }

    /// How many operations it has not forgotten.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.operations.len() + self.early.len()
    }

    /// Whether it can hold data of an operation of which it may not be asked.
    pub(crate) fn has_room_for(&self, operation: &str) -> bool {
        self.operations.len() < MAX_OPEN || self.operations.contains_key(operation)
    }

    /// How an operation ends that is not under way here, if one of its members is lost.
    fn failed_by_loss(&self, operation: &str, members: &[Place]) -> Option<Outcome> {
        let lost = members.iter().find(|node| self.lost.contains(node))?;
        (!self.operations.contains_key(operation)).then_some(Outcome::Lost(*lost))
    }

    fn tree<'a>(&'a self, members: &'a [Place]) -> Tree<'a> {
        Tree { members, degree: self.degree, lost: &self.lost }
    }

    fn entry(&mut self, operation: &str, members: &Arc<[Place]>) -> &mut Operation {
        let Self { me, degree, lost, .. } = self;
        self.operations.entry(operation.to_owned()).or_insert_with(|| Operation {
            members: members.clone(),
            awaited: Tree { members, degree: *degree, lost }.below(*me),
            held: BTreeMap::new(),
            bytes: 0,
            given_up: None,
            givers: BTreeSet::new(),
            is_waiting: false,
            said: None,
        })
    }

    fn add(
        &mut self,
        operation: &str,
        from: Place,
        data: Vec<(Place, Bytes)>,
        given_up: Option<GivenUp>,
    ) -> Vec<Act> {
        let me = self.me;
        let Some(entry) = self.operations.get_mut(operation) else { return Vec::new() };
        entry.given_up = entry.given_up.or(given_up);
        for (node, data) in data {
            entry.awaited.remove(&node);
            if !entry.hold(from, node, data) {
                entry.given_up = entry.given_up.or(Some(GivenUp { by: me, why: Why::TooMuch }));
            }
        }
        self.settle(operation)
    }

    /// Tells the parent what it does not know; the root decides.
    fn settle(&mut self, operation: &str) -> Vec<Act> {
        let Some(entry) = self.operations.get(operation) else { return Vec::new() };
        let parent = self.tree(&entry.members).parent(self.me);
        let is_complete = entry.awaited.is_empty();
        let Some(to) = parent else {
            let outcome = match entry.given_up {
                Some(given_up) => Outcome::GivenUp(given_up),
                None if is_complete => {
                    let data = entry.held.iter().map(|(node, (_, data))| (*node, data.clone()));
                    Outcome::Complete(data.collect())
                }
                None => return Vec::new(),
            };
            return self.end(operation, outcome);
        };
        let said = SentUp { to, is_complete, is_given_up: entry.given_up.is_some() };
        if entry.said == Some(said) || !(said.is_complete || said.is_given_up) {
            return Vec::new();
        }
        // a new parent only has to answer: a member is lost, so nobody needs the data
        let is_news = is_complete && entry.said.is_none_or(|before| !before.is_complete);
        let data = entry.held.iter().filter(|_| is_news).map(|(node, (_, data))| (*node, data.clone()));
        let part = Part {
            operation: operation.to_owned(),
            members: entry.members.clone(),
            data: data.collect(),
            given_up: entry.given_up,
        };
        if let Some(entry) = self.operations.get_mut(operation) {
            entry.said = Some(said);
        }
        vec![Act::Up { to, part }]
    }

    /// Tells those below and the caller here, each once, and keeps the outcome for those who ask again.
    fn end(&mut self, operation: &str, outcome: Outcome) -> Vec<Act> {
        let Some(entry) = self.operations.remove(operation) else { return Vec::new() };
        let mut to = self.tree(&entry.members).children(self.me);
        to.extend(entry.givers.iter().filter(|node| !self.lost.contains(node)));
        let mut acts: Vec<_> = to
            .into_iter()
            .map(|to| {
                let given_by = |node: &Place| entry.held.get(node).is_some_and(|(from, _)| *from == to);
                let outcome = match &outcome {
                    Outcome::Complete(data) => {
                        Outcome::Complete(data.iter().filter(|(node, _)| !given_by(node)).cloned().collect())
                    }
                    failed => failed.clone(),
                };
                Act::Down { to, operation: operation.to_owned(), members: entry.members.clone(), outcome }
            })
            .collect();
        self.outcomes.keep(operation, &outcome);
        if entry.is_waiting {
            acts.push(Act::Ready { operation: operation.to_owned(), outcome });
        } else if !entry.held.contains_key(&self.me) {
            self.early.keep(operation, outcome);
        }
        acts
    }
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
