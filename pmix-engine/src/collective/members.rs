//! Which participants of a collective are on this node, which of them are awaited, and which can no longer enter.

use std::collections::BTreeMap;

use pmix_types::{Nspace, RankSet};

use super::entry::{Operation, Signature};
use super::lower::Lower;
use super::rounds::Terms;
use crate::connected::{Absent, ConnectedSets};
use crate::context::Context;
use crate::group::Groups;
use crate::jobs::Job;
use crate::participants::{Ranks, add};

/// The part of a collective's participants that is on this node.
#[derive(Debug)]
pub(super) struct LocalPart<'a> {
    /// The collective.
    pub(super) signature: &'a Signature,
    /// Ranks known by number.
    ranks: Ranks,
    /// Namespaces of which only the number of local processes is known (FEN-10).
    counts: BTreeMap<Nspace, u64>,
    /// A namespace is not registered yet (FEN-11).
    pub(super) unregistered: bool,
    /// A rank that was named may still be registered (FEN-10).
    pub(super) unknown: bool,
    /// Participants on other nodes.
    pub(super) remote: bool,
    /// Members of a connected set or group that are not waited for.
    absent: Absent,
}

/// Participants of this node that have not entered.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Participants that may still enter.
    pub(super) awaited: Ranks,
    /// Participants that cannot enter because they have ended.
    pub(super) departed: Ranks,
}

/// Whether the host carries the operation out, or must agree to it.
pub(super) fn is_for_host(local: &LocalPart<'_>, terms: Terms, cx: &Context) -> bool {
    let operation = &local.signature.operation;
    (local.remote || operation.is_hosts() || terms.group.by_host)
        && cx.config.capabilities.has(operation.upcall())
}

/// Whether participants of this node are awaited for sure: none has left or ended, and fewer have entered than are known.
/// Looks at numbers only, so `false` says nothing.
pub(super) fn are_awaited(signature: &Signature, entered: &Ranks, lower: &Lower<'_>, cx: &Context) -> bool {
    let absent = absent(signature, lower.sets, lower.groups, cx);
    let is_whole =
        absent.excused.is_empty() && absent.ended.is_empty() && signature.operation.group().is_none();
    let jobs = signature.procs.iter().map(|(nspace, named)| (nspace, named, cx.jobs.get(nspace)));
    let (mut is_alive, mut awaited) = (true, false);
    for (nspace, named, job) in jobs {
        is_alive &= job.is_some_and(|job| job.departed.is_empty());
        awaited |= named.all
            && job.is_some_and(|job| entered.get(nspace).map_or(0, RankSet::len) < job.least_local());
    }
    is_whole && is_alive && awaited
}

impl<'a> LocalPart<'a> {
    /// The participants on this node, as far as they are known now.
    pub(super) fn of(signature: &'a Signature, sets: &ConnectedSets, groups: &Groups, cx: &Context) -> Self {
        let mut part = Self {
            signature,
            ranks: Ranks::new(),
            counts: BTreeMap::new(),
            unregistered: false,
            unknown: false,
            remote: false,
            absent: absent(signature, sets, groups, cx),
        };
        for (nspace, named) in &signature.procs {
            let job = cx.jobs.get(nspace);
            let Some(job) = job.filter(|job| job.registered) else {
                // clients may be registered before their namespace is
                let local = job.map(Job::known_local).unwrap_or_default();
                // tools are in no job: those that are here are all
                let tools: RankSet = cx.tools_of(nspace).map(|tool| tool.proc.rank).collect();
                let are_tools = !tools.is_empty() && (named.all || named.ranks.is_subset(&tools));
                if signature.operation.is_fence() && are_tools {
                    part.ranks.insert(nspace.clone(), if named.all { tools } else { named.ranks.clone() });
                    continue;
                }
                // known from other servers as a job of other nodes only; those who connect need not be known before
                let is_far =
                    job.is_some_and(|job| job.data.placement().is_some()) || !signature.operation.is_fence();
                let is_elsewhere =
                    is_far && local.is_empty() && cx.config.capabilities.has(signature.operation.upcall());
                part.remote |= is_elsewhere;
                part.unregistered |= !is_elsewhere;
                let here = if named.all { local } else { &named.ranks & &local };
                part.ranks.insert(nspace.clone(), here);
                continue;
            };
            let local = job.known_local();
            if named.all {
                match (&job.local_ranks, job.local_count()) {
                    (None, Some(count)) if count != local.len() => {
                        part.counts.insert(nspace.clone(), count);
                    }
                    _ => {}
                }
                let here = part.counts.get(nspace).copied().unwrap_or_else(|| local.len());
                part.remote |= match job.data.size() {
                    Some(size) => u64::from(size) > here,
                    None => cx.config.capabilities.has(signature.operation.upcall()),
                };
                part.ranks.insert(nspace.clone(), local);
            } else {
                let here = &named.ranks & &local;
                let elsewhere = here.len() < named.ranks.len();
                part.unknown |= elsewhere && job.awaits_clients();
                part.remote |= elsewhere;
                part.ranks.insert(nspace.clone(), here);
            }
        }
        part
    }

    /// Whether there may be participants on this node that are not known yet.
    pub(super) const fn may_grow(&self) -> bool {
        self.unknown || self.unregistered
    }

    /// The participants of this node that are not among those who have entered.
    pub(super) fn missing(&self, entered: &Ranks, cx: &Context) -> Missing {
        let mut missing = Missing::default();
        for (nspace, expected) in &self.ranks {
            let mut absent = match entered.get(nspace) {
                Some(entered) => expected - entered,
                None => expected.clone(),
            };
            if let Some(excused) = self.absent.excused.get(nspace) {
                absent = &absent - excused;
            }
            let gone = &absent & &self.departed_of(nspace, cx);
            let alive = &absent - &gone;
            if !alive.is_empty() {
                missing.awaited.insert(nspace.clone(), alive);
            }
            if !gone.is_empty() {
                missing.departed.insert(nspace.clone(), gone);
            }
        }
        missing
    }

    /// Whether a participant is awaited whose rank is not known.
    pub(super) fn awaits_unnamed(&self, entered: &Ranks, cx: &Context) -> bool {
        self.may_grow() || self.awaits_counted(entered, cx)
    }

    /// Whether fewer processes have entered than the host has announced (FEN-10).
    pub(super) fn awaits_counted(&self, entered: &Ranks, cx: &Context) -> bool {
        self.counts.iter().any(|(nspace, count)| {
            let mut gone = self.departed_of(nspace, cx);
            if let Some(excused) = self.absent.excused.get(nspace) {
                gone = &gone | excused;
            }
            let entered = entered.get(nspace);
            if let Some(entered) = entered {
                gone = &gone - entered;
            }
            entered.map_or(0, RankSet::len) + gone.len() < *count
        })
    }

    /// Local processes that will not enter any more.
    fn departed_of(&self, nspace: &Nspace, cx: &Context) -> RankSet {
        let departed = cx.jobs.get(nspace).map(|job| job.departed.clone()).unwrap_or_default();
        match self.absent.ended.get(nspace) {
            Some(ended) => &departed | ended,
            None => departed,
        }
    }
}

/// Members of connected sets and groups that a collective does not wait for.
fn absent(signature: &Signature, sets: &ConnectedSets, groups: &Groups, cx: &Context) -> Absent {
    match &signature.operation {
        Operation::Fence => {
            let connected = |nspace: &Nspace| cx.jobs.get(nspace).map(Job::connected).unwrap_or_default();
            sets.absent_of_fence(&signature.procs, &signature.sets, connected)
        }
        Operation::Disconnect(_) => {
            signature.set_id().map(|id| sets.absent_of_disconnect(&id)).unwrap_or_default()
        }
        Operation::Connect(_) | Operation::Construct(_) => Absent::default(),
        Operation::Destruct(id) => {
            let mut absent = Absent::default();
            if let Some(group) = groups.get(id) {
                add(&mut absent.excused, &group.left);
            }
            absent
        }
    }
}

pub(super) fn any_alive(procs: &Ranks, cx: &Context) -> bool {
    procs.iter().any(|(nspace, ranks)| cx.jobs.get(nspace).is_some_and(|job| !ranks.is_subset(&job.departed)))
}
