//! Invitations that have not ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::Failure;
use pmix_types::why::Wait;
use pmix_types::{DataArray, Directives, Event, Key, Nspace, ProcId, Status};

use crate::Asked;
use crate::collective::{Collectives, Lower};
use crate::context::Context;
use crate::ids::Counter;
use crate::participants::{Members, named_procs};
use crate::timers::Timer;
use crate::users::Voice;

#[derive(Debug, Default)]
pub(crate) struct Invites {
    /// Those of leaders on this node, by the id of the group.
    pub(super) sent: BTreeMap<Nspace, Invitation>,
    /// Those to processes on this node.
    pub(super) received: BTreeMap<(Nspace, ProcId), Received>,
    pub(super) next: Counter,
}

/// What invitations are built on.
#[derive(Debug)]
pub(crate) struct Below<'a> {
    pub(crate) collectives: &'a mut Collectives,
    pub(crate) lower: Lower<'a>,
}

/// An event about a group that is being made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) id: &'a Nspace,
    /// The process it is about: the leader, or the one that answers.
    pub(super) about: &'a ProcId,
    pub(super) event: &'a Event,
    /// Whose word it is.
    pub(super) voice: &'a Voice,
}

impl Told<'_> {
    /// Whether it concerns processes of a namespace: groups of different users may have the same id.
    pub(super) fn is_heard_in(&self, nspace: &Nspace, cx: &Context) -> bool {
        cx.is_heard_in(self.voice, nspace)
    }
}

/// An invitation that a leader on this node has sent.
#[derive(Debug)]
pub(super) struct Invitation {
    pub(super) number: u64,
    pub(super) asked: Asked,
    pub(super) directives: Directives,
    pub(super) deadline: Option<Instant>,
    /// The leader and all who were invited, in the order of their ranks.
    pub(super) order: Vec<ProcId>,
    /// Those who have not answered.
    pub(super) open: Members,
    /// Those who will not be members.
    pub(super) lost: BTreeSet<ProcId>,
    pub(super) means: Means,
}

/// How a leader or a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// By its request, which is answered with the group.
    Request,
    /// By an event, as libraries in C do: when the group is made, the event is answered as any other.
    Event,
    /// The leader's library counts the answers, and sends an event when there are enough; nothing is to be answered until
    /// then.
    Library,
}

/// An invitation that a process on this node has received.
#[derive(Debug)]
pub(super) struct Received {
    /// In the order in which they came.
    pub(super) number: u64,
    /// The one that gets the answer.
    pub(super) leader: ProcId,
    /// Previous leaders, which have ended.
    pub(super) former: BTreeSet<ProcId>,
    /// All who were invited, with the leader.
    pub(super) members: Arc<[ProcId]>,
    /// What the group is to be like.
    pub(super) terms: Directives,
    /// The request by which the process has accepted, if it has.
    pub(super) join: Option<Join>,
    /// The leader has ended: until then another process may take its place; with the number of the timer.
    pub(super) orphaned: Option<(u64, Instant)>,
}

#[derive(Debug)]
pub(super) struct Join {
    pub(super) number: u64,
    pub(super) asked: Asked,
    pub(super) directives: Directives,
    pub(super) deadline: Option<Instant>,
    pub(super) means: Means,
}

impl Invites {
    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.sent.len() + self.received.values().filter(|received| received.join.is_some()).count()
    }

    /// Invitations that are not answered by all, and processes that have accepted one.
    pub(crate) fn waits<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        let sent = self.sent.iter().map(|(id, sent)| {
            let mut wait = cx.wait(sent.number, "group invite", Some(sent.asked.at));
            wait.about = Some(id.to_string());
            wait.left = cx.left(sent.deadline);
            wait.expected = sent.order.iter().collect();
            wait.missing = named_procs(&sent.open).iter().collect();
            wait.excused = sent.lost.iter().collect();
            wait.arrived = wait.expected.clone();
            wait.arrived.remove_all(&wait.missing);
            wait.arrived.remove_all(&wait.excused);
            wait
        });
        let joins = self.received.iter().filter_map(|((id, proc), received)| {
            let join = received.join.as_ref()?;
            let mut wait = cx.wait(join.number, "group join", Some(join.asked.at));
            wait.about = Some(id.to_string());
            wait.left = cx.left(join.deadline);
            wait.expected.insert(proc);
            wait.arrived.insert(proc);
            wait.missing.insert(&received.leader);
            Some(wait)
        });
        sent.chain(joins)
    }

    /// Keeps an invitation that is sent. Until it has ended no other group can have its id.
    pub(super) fn open(&mut self, id: Nspace, invitation: Invitation, below: &mut Below<'_>) {
        below.lower.groups.reserve(id.clone());
        self.sent.insert(id, invitation);
    }

    pub(super) fn close(&mut self, id: &Nspace, below: &mut Below<'_>) -> Option<Invitation> {
        below.lower.groups.release(id);
        self.sent.remove(id)
    }

    pub(super) fn of_leader(&self, leader: &ProcId) -> usize {
        self.sent.values().filter(|invitation| invitation.asked.by.proc == *leader).count()
    }

    pub(super) fn of_invited(&self, proc: &ProcId) -> usize {
        self.received.keys().filter(|(_, other)| other == proc).count()
    }

    /// Takes some of the invitations that were received, and stops their timers.
    pub(super) fn take(
        &mut self,
        which: impl Fn(&(Nspace, ProcId), &Received, &Context) -> bool,
        cx: &mut Context,
    ) -> Vec<((Nspace, ProcId), Received)> {
        let keys: Vec<_> = self
            .received
            .iter()
            .filter(|(key, received)| which(key, received, cx))
            .map(|(key, _)| key.clone())
            .collect();
        let taken: Vec<_> = keys.into_iter().filter_map(|key| self.received.remove_entry(&key)).collect();
        taken.iter().for_each(|(_, received)| received.clear_timers(cx));
        taken
    }

    #[cfg(test)]
    pub(crate) fn has(&self, id: &Nspace) -> bool {
        self.sent.contains_key(id)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }
}

impl Told<'_> {
    /// The processes that it names under a key.
    pub(super) fn list(&self, key: &Key<DataArray>) -> Option<Vec<ProcId>> {
        match self.event.info.get(key) {
            Ok(Some(DataArray::Proc(procs))) => Some(procs),
            _ => None,
        }
    }
}

impl Received {
    pub(super) fn clear_timers(&self, cx: &mut Context) {
        if let Some(join) = &self.join {
            cx.timers.clear(join.deadline, Timer::Invitation(join.number));
        }
        if let Some((number, until)) = self.orphaned {
            cx.timers.clear(Some(until), Timer::Invitation(number));
        }
    }
}

pub(super) fn given_up(code: Status, id: &Nspace, by: &ProcId) -> Failure {
    let why = if code == Status::GROUP_LEADER_FAILED { "its leader has ended" } else { "it was given up" };
    Failure::new(code, format!("group {id} is not made: {why}")).with_procs(vec![by.clone()])
}
