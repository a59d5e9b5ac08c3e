//! What enters a process into a collective: the request, and what identifies the collective that it means.

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::message::{Connect, Disconnect, Failure, Fence, GroupConstruct};
use pmix_types::trace::TraceContext;
use pmix_types::{Directives, Memory, Nspace, ProcId, Rank, Status, keys};

use crate::connected::{ConnectedSets, SetId};
use crate::context::Context;
use crate::group::Invited;
use crate::participants::{Members, contains, memory_of, name_in, named_procs};
use crate::upcall::Upcall;
use crate::users::not_own;
use crate::{Caller, CollectiveStats, ServerStats};

/// The entry of a process into a collective.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) operation: Operation,
    pub(super) procs: Vec<ProcId>,
    pub(super) directives: Directives,
    /// The generation up to which the process has what fences of these participants have collected.
    pub(super) has: u64,
    /// The span of the process, if the fence is traced.
    pub(super) trace: Option<TraceContext>,
    /// The group is made by invitation.
    pub(super) invited: Option<Invited>,
    /// Until when it waits, the time before it entered included; of a request that names no time.
    pub(super) until: Option<Instant>,
    /// Those who lead the construct, if they are known.
    pub(super) leaders: Vec<ProcId>,
}

impl Entry {
    const fn new(operation: Operation, procs: Vec<ProcId>, directives: Directives) -> Self {
        Self {
            operation,
            procs,
            directives,
            has: 0,
            trace: None,
            invited: None,
            until: None,
            leaders: Vec::new(),
        }
    }

    pub(crate) fn fence(fence: Fence, caller: &ProcId) -> Self {
        let procs = fence.procs.unwrap_or_else(|| vec![ProcId::wildcard(caller.nspace.clone())]);
        Self { has: fence.since, trace: fence.trace, ..Self::new(Operation::Fence, procs, fence.directives) }
    }

    pub(crate) fn connect(connect: Connect) -> Result<Self, Failure> {
        let Connect { procs, mut directives, .. } = connect;
        let operation = Operation::Connect(directives.take(&keys::CONNECT_ID)?);
        Ok(Self::new(operation, procs, directives))
    }

    pub(crate) fn disconnect(disconnect: Disconnect, sets: &ConnectedSets) -> Result<Self, Failure> {
        let Disconnect { mut procs, mut directives, .. } = disconnect;
        let mut operation = Operation::Disconnect(directives.take(&keys::CONNECT_ID)?);
        // a whole set by its namespace
        if let [one] = &*procs
            && one.rank.is_wildcard()
            && let Some((id, members)) = sets.id_of(&one.nspace).cloned()
        {
            (operation, procs) = (Operation::Disconnect(id), named_procs(&members));
        }
        Ok(Self::new(operation, procs, directives))
    }

    pub(crate) fn construct(construct: GroupConstruct) -> Result<Self, Failure> {
        let GroupConstruct { group, procs, directives, .. } = construct;
        if group.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "a group needs an id"));
        }
        Ok(Self::new(Operation::Construct(group), procs, directives))
    }

    /// The construct of a group for which all answers to the invitation have come.
    pub(crate) fn invited(
        group: Nspace,
        members: Vec<ProcId>,
        directives: Directives,
        invited: Invited,
        until: Option<Instant>,
    ) -> Self {
        let entry = Self::new(Operation::Construct(group), members, directives);
        Self { invited: Some(invited), until, ..entry }
    }

    /// The construct of a group whose leaders have all called (GRP-02).
    pub(crate) fn bootstrapped(
        group: Nspace,
        members: Vec<ProcId>,
        directives: Directives,
        leaders: Vec<ProcId>,
        until: Option<Instant>,
    ) -> Self {
        let entry = Self::new(Operation::Construct(group), members, directives);
        Self { until, leaders, ..entry }
    }

    pub(super) const fn destruct(group: Nspace, members: Vec<ProcId>, directives: Directives) -> Self {
        Self::new(Operation::Destruct(group), members, directives)
    }
}

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

    /// Where it is counted.
    pub(super) const fn stats<'a>(&self, stats: &'a mut ServerStats) -> &'a mut CollectiveStats {
        match self {
            Self::Fence => &mut stats.fence,
            Self::Connect(_) => &mut stats.connect,
            Self::Disconnect(_) => &mut stats.disconnect,
            Self::Construct(_) => &mut stats.group_construct,
            Self::Destruct(_) => &mut stats.group_destruct,
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
pub(crate) struct Signature {
    pub(super) operation: Operation,
    /// The participants by their own namespaces.
    pub(super) procs: Members,
    /// As they were named, if some were by the namespace of a connected set (CON-07); else empty.
    pub(super) sets: Members,
}

impl Signature {
    pub(super) fn new(
        operation: Operation,
        by: &Caller,
        procs: Vec<ProcId>,
        sets: &ConnectedSets,
        cx: &Context,
    ) -> Result<Self, Failure> {
        let name = operation.name();
        if let Some(strange) = procs.iter().find(|proc| sets.is_strange(&proc.nspace, by, cx)) {
            return Err(not_own(by.uid, &strange.nspace));
        }
        let signature = Self::of(operation, procs, sets)?;
        if !contains(&signature.procs, &by.proc) {
            let message = format!("{} is not among the participants of its {name}", by.proc);
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

    /// Whether processes of one of these jobs take part.
    pub(super) fn is_of(&self, jobs: &BTreeSet<&Nspace>) -> bool {
        self.procs.keys().any(|nspace| jobs.contains(nspace))
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
