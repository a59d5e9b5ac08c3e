//! What identifies a collective: the operation and its participants.

use pmix_types::message::Failure;
use pmix_types::{Memory, Nspace, ProcId, Rank, Status};

use crate::connected::{ConnectedSets, SetId};
use crate::participants::{Members, contains, memory_of, name_in, named_procs};
use crate::upcall::Upcall;

/// What processes do together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Fence,
    /// With the id that lets the same processes connect several times at once (CON-04).
    Connect(Option<String>),
    Disconnect(Option<String>),
    /// Of the group with this id, however its members are named (GRP-01).
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

    /// The id by which processes name it, if they do.
    pub(super) fn about(&self) -> Option<String> {
        match self {
            Self::Fence => None,
            Self::Connect(id) | Self::Disconnect(id) => id.clone(),
            Self::Construct(group) | Self::Destruct(group) => Some(group.to_string()),
        }
    }

    /// The upcall by which the host carries it to other nodes.
    pub(super) const fn upcall(&self) -> Upcall {
        match self {
            Self::Fence => Upcall::Fence,
            Self::Connect(_) => Upcall::Connect,
            Self::Disconnect(_) => Upcall::Disconnect,
            Self::Construct(_) | Self::Destruct(_) => Upcall::Group,
        }
    }

    /// Whether the host takes part even if all participants are on this node: it treats connected processes as one
    /// application (CON-01).
    pub(super) const fn is_hosts(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Disconnect(_))
    }

    pub(super) const fn is_fence(&self) -> bool {
        matches!(self, Self::Fence)
    }

    /// The group that is constructed or destructed.
    pub(super) const fn group(&self) -> Option<&Nspace> {
        match self {
            Self::Construct(group) | Self::Destruct(group) => Some(group),
            _ => None,
        }
    }
}

/// What identifies a collective: its operation, and its participants as they were named, without order and repeats
/// (FEN-03, FEN-04, CON-04).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Signature {
    pub(super) operation: Operation,
    /// The participants by their own namespaces.
    pub(super) procs: Members,
    /// As they were named, if some were by the namespace of a connected set (CON-07); else empty.
    pub(super) sets: Members,
}

impl Signature {
    pub(super) fn new(
        operation: Operation,
        caller: &ProcId,
        procs: Vec<ProcId>,
        sets: &ConnectedSets,
    ) -> Result<Self, Failure> {
        let name = operation.name();
        let signature = Self::of(operation, procs, sets)?;
        if !contains(&signature.procs, caller) {
            let message = format!("{caller} is not among the participants of its {name}");
            return Err(Failure::new(Status::ERR_NOT_A_MEMBER, message));
        }
        Ok(signature)
    }

    /// The same for an operation of processes on another node.
    pub(super) fn of(
        operation: Operation,
        procs: Vec<ProcId>,
        sets: &ConnectedSets,
    ) -> Result<Self, Failure> {
        let name = operation.name();
        let bad = |message: String| Err(Failure::new(Status::ERR_BAD_PARAM, message));
        if procs.is_empty() {
            return bad(format!("a {name} needs participants"));
        }
        let (mut as_named, mut members, mut by_set) = (Members::new(), Members::new(), false);
        for proc in procs {
            if proc.nspace.is_empty() {
                return bad(format!("participant {proc} has no namespace"));
            }
            if proc.rank != Rank::WILDCARD && !proc.rank.is_valid() {
                return bad(format!("{} cannot take part in a {name}: name ranks or WILDCARD", proc.rank));
            }
            match sets.members(&proc) {
                Some(meant) => {
                    by_set = true;
                    for (nspace, part) in meant? {
                        members.entry(nspace).or_default().join(&part);
                    }
                }
                None => name_in(&mut members, &proc),
            }
            name_in(&mut as_named, &proc);
        }
        // a connect is identified by its processes, whatever set they were named by
        let sets = if by_set && operation.is_fence() { as_named } else { Members::new() };
        Ok(Self { operation, procs: members, sets })
    }

    /// The set that a connect or disconnect is about.
    pub(super) fn set_id(&self) -> Option<SetId> {
        match &self.operation {
            Operation::Connect(id) | Operation::Disconnect(id) => Some((id.clone(), self.procs.clone())),
            Operation::Fence | Operation::Construct(_) | Operation::Destruct(_) => None,
        }
    }

    /// The bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        let name = match &self.operation {
            Operation::Connect(name) | Operation::Disconnect(name) => name.heap(),
            Operation::Construct(group) | Operation::Destruct(group) => group.heap(),
            Operation::Fence => 0,
        };
        size_of::<Self>() + name + memory_of(&self.procs) + memory_of(&self.sets)
    }

    /// The participants as they were named.
    pub(super) fn procs(&self) -> Vec<ProcId> {
        named_procs(if self.sets.is_empty() { &self.procs } else { &self.sets })
    }
}
