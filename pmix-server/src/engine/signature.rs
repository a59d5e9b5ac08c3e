//! What a collective is known by: what is done, and by whom.

use std::collections::BTreeMap;

use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, RankSet, Status};

use crate::host::Upcall;

/// What processes do together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Fence,
    /// With the id that lets the same processes connect several times at once (CON-04).
    Connect(Option<String>),
    Disconnect(Option<String>),
}

impl Operation {
    /// For messages.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
        }
    }

    /// The entry of the host that carries it to other nodes.
    pub(super) const fn upcall(&self) -> Upcall {
        match self {
            Self::Fence => Upcall::Fence,
            Self::Connect(_) => Upcall::Connect,
            Self::Disconnect(_) => Upcall::Disconnect,
        }
    }
}

/// What identifies a collective: its operation, and its participants as they were named, without order and repeats
/// (FEN-03, FEN-04, CON-04).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Signature {
    pub(super) operation: Operation,
    pub(super) procs: BTreeMap<Nspace, Named>,
}

/// How processes of one namespace were named. "All" never equals a full list of ranks (FEN-03).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) all: bool,
    pub(super) ranks: RankSet,
}

impl Signature {
    pub(super) fn new(operation: Operation, caller: &ProcId, procs: Vec<ProcId>) -> Result<Self, Failure> {
        let name = operation.name();
        let bad = |message: String| Err(Failure::new(Status::ERR_BAD_PARAM, message));
        if procs.is_empty() {
            return bad(format!("a {name} needs participants"));
        }
        let mut named = BTreeMap::<Nspace, Named>::new();
        for proc in procs {
            if proc.nspace.is_empty() {
                return bad(format!("participant {proc} has no namespace"));
            }
            let part = named.entry(proc.nspace).or_default();
            match proc.rank {
                Rank::WILDCARD => part.all = true,
                rank if rank.is_valid() => {
                    part.ranks.insert(rank);
                }
                rank => return bad(format!("{rank} cannot take part in a {name}: name ranks or WILDCARD")),
            }
        }
        if named.get(&caller.nspace).is_some_and(|part| part.all || part.ranks.contains(caller.rank)) {
            return Ok(Self { operation, procs: named });
        }
        let message = format!("{caller} is not among the participants of its {name}");
        Err(Failure::new(Status::ERR_NOT_A_MEMBER, message))
    }

    /// The participants as they were named.
    pub(super) fn procs(&self) -> Vec<ProcId> {
        let mut procs = Vec::new();
        for (nspace, part) in &self.procs {
            procs.extend(part.ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)));
            procs.extend(part.all.then(|| ProcId::wildcard(nspace.clone())));
        }
        procs
    }
}
