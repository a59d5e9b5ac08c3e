//! What a collective is known by: what is done, and by whom.

use std::collections::BTreeMap;

use pmix_types::message::Failure;
use pmix_types::{Memory, Nspace, ProcId, Rank, RankSet, Status};

use super::assemblies::Assemblies;
use super::upcall::Upcall;

/// What processes do together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Fence,
    /// With the id that lets the same processes connect several times at once (CON-04).
    Connect(Option<String>),
    Disconnect(Option<String>),
    /// Of the group with this id, in whatever way its members are named (GRP-01).
    Construct(Nspace),
    Destruct(Nspace),
}

impl Operation {
    /// For messages.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::Construct(_) => "group construct",
            Self::Destruct(_) => "group destruct",
        }
    }

    /// The entry of the host that carries it to other nodes.
    pub(super) const fn upcall(&self) -> Upcall {
        match self {
            Self::Fence => Upcall::Fence,
            Self::Connect(_) => Upcall::Connect,
            Self::Disconnect(_) => Upcall::Disconnect,
            Self::Construct(_) | Self::Destruct(_) => Upcall::Group,
        }
    }

    /// Whether the host has a say in it although all participants are on this node: who is connected is one
    /// application for it (CON-01).
    pub(super) const fn is_hosts(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Disconnect(_))
    }

    pub(super) const fn is_fence(&self) -> bool {
        matches!(self, Self::Fence)
    }

    /// The group that is made or ended.
    pub(super) const fn group(&self) -> Option<&Nspace> {
        match self {
            Self::Construct(group) | Self::Destruct(group) => Some(group),
            _ => None,
        }
    }
}

/// Participants by namespace.
pub(super) type Members = BTreeMap<Nspace, Named>;

/// What identifies a collective: its operation, and its participants as they were named, without order and repeats
/// (FEN-03, FEN-04, CON-04).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Signature {
    pub(super) operation: Operation,
    /// The participants by their own namespaces.
    pub(super) procs: Members,
    /// As they were named, if some were by the namespace of a connected group (CON-07); else empty.
    pub(super) groups: Members,
}

/// How processes of one namespace were named. "All" never equals a full list of ranks (FEN-03).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) all: bool,
    pub(super) ranks: RankSet,
}

impl Named {
    pub(super) fn contains(&self, rank: Rank) -> bool {
        self.all || self.ranks.contains(rank)
    }

    fn join(&mut self, other: &Self) {
        self.all |= other.all;
        self.ranks = &self.ranks | &other.ranks;
    }
}

impl Signature {
    pub(super) fn new(
        operation: Operation,
        caller: &ProcId,
        procs: Vec<ProcId>,
        groups: &Assemblies,
    ) -> Result<Self, Failure> {
        let name = operation.name();
        let signature = Self::of(operation, procs, groups)?;
        if !contains(&signature.procs, caller) {
            let message = format!("{caller} is not among the participants of its {name}");
            return Err(Failure::new(Status::ERR_NOT_A_MEMBER, message));
        }
        Ok(signature)
    }

    /// The same of somebody else's operation.
    pub(super) fn of(operation: Operation, procs: Vec<ProcId>, groups: &Assemblies) -> Result<Self, Failure> {
        let name = operation.name();
        let bad = |message: String| Err(Failure::new(Status::ERR_BAD_PARAM, message));
        if procs.is_empty() {
            return bad(format!("a {name} needs participants"));
        }
        let (mut as_named, mut members, mut by_group) = (Members::new(), Members::new(), false);
        for proc in procs {
            if proc.nspace.is_empty() {
                return bad(format!("participant {proc} has no namespace"));
            }
            if proc.rank != Rank::WILDCARD && !proc.rank.is_valid() {
                return bad(format!("{} cannot take part in a {name}: name ranks or WILDCARD", proc.rank));
            }
            match groups.members(&proc) {
                Some(meant) => {
                    by_group = true;
                    for (nspace, part) in meant? {
                        members.entry(nspace).or_default().join(&part);
                    }
                }
                None => name_in(&mut members, &proc),
            }
            name_in(&mut as_named, &proc);
        }
        // a connect is of the processes, whatever they were connected as before
        let groups = if by_group && operation.is_fence() { as_named } else { Members::new() };
        Ok(Self { operation, procs: members, groups })
    }

    /// What it takes.
    pub(super) fn memory(&self) -> usize {
        let name = match &self.operation {
            Operation::Connect(name) | Operation::Disconnect(name) => name.heap(),
            Operation::Construct(group) | Operation::Destruct(group) => group.heap(),
            Operation::Fence => 0,
        };
        size_of::<Self>() + name + memory_of(&self.procs) + memory_of(&self.groups)
    }

    /// The participants as they were named.
    pub(super) fn procs(&self) -> Vec<ProcId> {
        named_procs(if self.groups.is_empty() { &self.procs } else { &self.groups })
    }
}

/// What a list of members takes.
pub(super) fn memory_of(members: &Members) -> usize {
    members.iter().map(|(nspace, part)| size_of::<Named>() + nspace.memory() + part.ranks.heap()).sum()
}

pub(super) fn name_in(members: &mut Members, proc: &ProcId) {
    let part = members.entry(proc.nspace.clone()).or_default();
    if proc.rank.is_wildcard() {
        part.all = true;
    } else {
        part.ranks.insert(proc.rank);
    }
}

pub(super) fn contains(members: &Members, proc: &ProcId) -> bool {
    members.get(&proc.nspace).is_some_and(|part| part.contains(proc.rank))
}

/// The members one by one, a wildcard for all of a namespace.
pub(super) fn named_procs(members: &Members) -> Vec<ProcId> {
    let mut procs = Vec::new();
    for (nspace, part) in members {
        procs.extend(part.ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)));
        procs.extend(part.all.then(|| ProcId::wildcard(nspace.clone())));
    }
    procs
}
