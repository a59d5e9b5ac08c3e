//! Processes by namespace: participants of collectives, and members of connected sets and groups.

use std::collections::BTreeMap;

use pmix_types::why::ProcSet;
use pmix_types::{Memory, Nspace, ProcId, Rank, RankSet};

/// Processes as they were named.
pub(crate) type Members = BTreeMap<Nspace, Named>;

/// Processes by their ranks.
pub(crate) type Ranks = BTreeMap<Nspace, RankSet>;

/// How processes of one namespace were named. "All" never equals a full list of ranks (FEN-03).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) all: bool,
    pub(crate) ranks: RankSet,
}

impl Named {
    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.all || self.ranks.contains(rank)
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.all |= other.all;
        self.ranks = &self.ranks | &other.ranks;
    }
}

/// The bytes that a list of members takes.
pub(crate) fn memory_of(members: &Members) -> usize {
    members.iter().map(|(nspace, part)| size_of::<Named>() + nspace.memory() + part.ranks.heap()).sum()
}

pub(crate) fn name_in(members: &mut Members, proc: &ProcId) {
    let part = members.entry(proc.nspace.clone()).or_default();
    if proc.rank.is_wildcard() {
        part.all = true;
    } else {
        part.ranks.insert(proc.rank);
    }
}

pub(crate) fn members_of<'a>(procs: impl IntoIterator<Item = &'a ProcId>) -> Members {
    let mut members = Members::new();
    procs.into_iter().for_each(|proc| name_in(&mut members, proc));
    members
}

pub(crate) fn contains(members: &Members, proc: &ProcId) -> bool {
    members.get(&proc.nspace).is_some_and(|part| part.contains(proc.rank))
}

/// The members one by one, a wildcard for all of a namespace.
pub(crate) fn named_procs(members: &Members) -> Vec<ProcId> {
    let mut procs = Vec::new();
    for (nspace, part) in members {
        procs.extend(part.ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)));
        procs.extend(part.all.then(|| ProcId::wildcard(nspace.clone())));
    }
    procs
}

pub(crate) fn is_in(ranks: &Ranks, proc: &ProcId) -> bool {
    ranks.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
}

/// The processes one by one.
pub(crate) fn procs_of(ranks: &Ranks) -> impl Iterator<Item = ProcId> {
    ranks.iter().flat_map(|(nspace, ranks)| ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)))
}

pub(crate) fn proc_set(ranks: &Ranks) -> ProcSet {
    let mut procs = ProcSet::new();
    ranks.iter().for_each(|(nspace, ranks)| procs.add(nspace, ranks));
    procs
}

pub(crate) fn add(all: &mut Ranks, more: &Ranks) {
    for (nspace, ranks) in more {
        let held = all.entry(nspace.clone()).or_default();
        *held = &*held | ranks;
    }
}
