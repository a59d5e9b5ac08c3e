//! Who makes groups by bootstrap (GRP-02), as one node keeps it for all: no I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pmix_server::host::Bootstrapped;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, Memory, ProcId, Status, Uid};
use tokio::sync::oneshot;

/// Groups of a user whose members are known and have not all called; if there are more, the oldest are forgotten.
const MAX_KNOWN: usize = 1024;
/// Bytes that their lists of members may take.
const MAX_KNOWN_BYTES: usize = 16 << 20;

/// A group of a user's processes. Those of other users are others, even with the same id.
pub(super) type GroupOf = (Uid, String);

/// Where an answer goes: a node, and its number for the request.
pub(super) type Place = (String, u64);

/// What a process learns.
pub(super) type Found = Result<Bootstrapped, Failure>;

/// All groups that are being made.
#[derive(Debug, Default)]
pub(super) struct Callers {
    waiting: BTreeMap<GroupOf, Vec<Call>>,
    /// Groups whose leaders have all called, by user.
    known: BTreeMap<Uid, VecDeque<Known>>,
}

/// A process that has called and waits.
#[derive(Debug)]
struct Call {
    place: Place,
    proc: ProcId,
    /// `None` for one that leaders add.
    leads: Option<Leads>,
    answer: oneshot::Sender<Found>,
}

/// What a leader says.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads {
    pub(super) leaders: u64,
    pub(super) added: Vec<ProcId>,
    pub(super) directives: Directives,
}

/// A group whose members are known, for those who have not called.
#[derive(Debug)]
struct Known {
    id: String,
    found: Bootstrapped,
    /// Members that have not called.
    absent: BTreeSet<ProcId>,
}

impl Callers {
    /// A process calls. It gets its answer when the members are known, which may be at once.
    pub(super) fn call(
        &mut self,
        group: &GroupOf,
        place: Place,
        proc: ProcId,
        leads: Option<Leads>,
    ) -> oneshot::Receiver<Found> {
        let (answer, receiver) = oneshot::channel();
        if let Some(calls) = self.waiting.get_mut(group) {
            // it calls again, and nobody waits for what it has called before
            calls.retain(|call| call.proc != proc);
        }
        match self.at_once(group, &proc, leads.as_ref()) {
            Some(found) => drop(answer.send(found)),
            None => {
                let calls = self.waiting.entry(group.clone()).or_default();
                calls.push(Call { place, proc, leads, answer });
                self.settle(group);
            }
        }
        self.waiting.retain(|_, calls| !calls.is_empty());
        receiver
    }

    /// Nobody waits for this answer any more: what the process has said does not count.
    pub(super) fn leave(&mut self, place: &Place) {
        self.waiting.retain(|_, calls| {
            calls.retain(|call| call.place != *place);
            !calls.is_empty()
        });
    }

    /// What a process learns without waiting.
    fn at_once(&mut self, (uid, id): &GroupOf, proc: &ProcId, leads: Option<&Leads>) -> Option<Found> {
        let all = self.known.get_mut(uid)?;
        let waits_for = |known: &Known| known.id == *id && known.absent.contains(proc);
        let found = match (leads, all.iter().position(waits_for)) {
            (_, None) => None,
            (Some(_), Some(place)) => {
                let known = &all[place];
                let message = format!(
                    "group {id}: {proc} leads it, but {} leaders have called, as many as they said they are",
                    known.found.leaders.len()
                );
                Some(Err(Failure::new(Status::ERR_BAD_PARAM, message)))
            }
            (None, Some(place)) => {
                let known = &mut all[place];
                known.absent.remove(proc);
                Some(Ok(known.found.clone()))
            }
        };
        // who has been told of a group and leads one of that id makes another one
        let begins = leads.is_some() && found.is_none();
        all.retain(|known| {
            let is_past = begins && known.id == *id && known.found.members.contains(proc);
            !known.absent.is_empty() && !is_past
        });
        if all.is_empty() {
            self.known.remove(uid);
        }
        found
    }

    /// Answers those who can be answered now.
    fn settle(&mut self, group: &GroupOf) {
        let Some(calls) = self.waiting.get_mut(group) else { return };
        let numbers: BTreeSet<_> =
            calls.iter().filter_map(|call| Some(call.leads.as_ref()?.leaders)).collect();
        let Some(leaders) = numbers.first().copied() else { return };
        if numbers.len() > 1 {
            let named: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            let message = format!(
                "group {}: its leaders give different numbers of leaders: {}",
                group.1,
                named.join(" and ")
            );
            for call in calls.extract_if(.., |call| call.leads.is_some()) {
                let _ = call.answer.send(Err(Failure::new(Status::ERR_BAD_PARAM, &*message)));
            }
            return;
        }
        let have_called = calls.iter().filter(|call| call.leads.is_some()).count() as u64;
        if have_called < leaders {
            return;
        }
        let found = found(calls.iter().filter_map(|call| Some((&call.proc, call.leads.as_ref()?))));
        let mut absent: BTreeSet<_> = found.members.iter().cloned().collect();
        for call in calls.extract_if(.., |call| absent.remove(&call.proc)) {
            let _ = call.answer.send(Ok(found.clone()));
        }
        if !absent.is_empty() {
            self.keep(group, Known { id: group.1.clone(), found, absent });
        }
    }

    /// Keeps the members for those who have not called, and forgets the oldest groups if there are too many.
    fn keep(&mut self, (uid, _): &GroupOf, known: Known) {
        let all = self.known.entry(*uid).or_default();
        all.push_back(known);
        let bytes = |all: &VecDeque<Known>| all.iter().map(Known::memory).sum::<usize>();
        while all.len() > MAX_KNOWN || (all.len() > 1 && bytes(all) > MAX_KNOWN_BYTES) {
            all.pop_front();
        }
    }
}

impl Known {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.id.heap() + 2 * self.found.members.heap()
    }
}

/// The leaders by namespace and rank, then those whom they add, in the order in which they name them.
fn found<'a>(calls: impl Iterator<Item = (&'a ProcId, &'a Leads)>) -> Bootstrapped {
    let calls: BTreeMap<_, _> = calls.collect();
    let leaders: Vec<_> = calls.keys().map(|proc| (*proc).clone()).collect();
    let mut met: BTreeSet<_> = leaders.iter().cloned().collect();
    let mut members = leaders.clone();
    let mut directives = Directives::new();
    for said in calls.values() {
        members.extend(said.added.iter().filter(|proc| met.insert((*proc).clone())).cloned());
        let news: Vec<Info> = said
            .directives
            .iter()
            .filter(|info| directives.get_value(&info.key).is_none())
            .cloned()
            .collect();
        directives.extend(news);
    }
    let mut found = Bootstrapped::new(leaders, members);
    found.directives = directives;
    found
}

#[cfg(test)]
#[path = "callers_tests.rs"]
mod tests;
