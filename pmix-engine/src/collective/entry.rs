//! Requests that enter a process into a collective.

use std::time::Instant;

use pmix_types::message::{Connect, Disconnect, Failure, Fence, GroupConstruct};
use pmix_types::{Directives, Nspace, ProcId, Status, keys};

use super::signature::Operation;
use crate::connected::ConnectedSets;
use crate::group::Invited;
use crate::participants::named_procs;

/// The entry of a process into a collective.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) operation: Operation,
    pub(super) procs: Vec<ProcId>,
    pub(super) directives: Directives,
    /// The generation up to which the process has what fences of these participants have collected.
    pub(super) has: u64,
    /// The group is made by invitation.
    pub(super) invited: Option<Invited>,
    /// Until when it waits, the time before it entered included; of a request that names no time.
    pub(super) until: Option<Instant>,
    /// Those who lead the construct, if they are known.
    pub(super) leaders: Vec<ProcId>,
}

impl Entry {
    const fn new(operation: Operation, procs: Vec<ProcId>, directives: Directives) -> Self {
        Self { operation, procs, directives, has: 0, invited: None, until: None, leaders: Vec::new() }
    }

    pub(crate) fn fence(fence: Fence, caller: &ProcId) -> Self {
        let procs = fence.procs.unwrap_or_else(|| vec![ProcId::wildcard(caller.nspace.clone())]);
        Self { has: fence.since, ..Self::new(Operation::Fence, procs, fence.directives) }
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
        (invited, until): (Invited, Option<Instant>),
    ) -> Self {
        let entry = Self::new(Operation::Construct(group), members, directives);
        Self { invited: Some(invited), until, ..entry }
    }

    /// The construct of a group whose leaders have all called (GRP-02).
    pub(crate) fn bootstrapped(
        group: Nspace,
        members: Vec<ProcId>,
        directives: Directives,
        (leaders, until): (Vec<ProcId>, Option<Instant>),
    ) -> Self {
        let entry = Self::new(Operation::Construct(group), members, directives);
        Self { until, leaders, ..entry }
    }

    pub(super) const fn destruct(group: Nspace, members: Vec<ProcId>, directives: Directives) -> Self {
        Self::new(Operation::Destruct(group), members, directives)
    }
}
