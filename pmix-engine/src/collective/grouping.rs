//! Which construct or destruct a process means when it gives the id of a group.

use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Status};

use super::entry::{Operation, Signature};
use super::lower::Lower;
use super::rounds::{Rounds, Terms};
use crate::Asked;
use crate::connected::ConnectedSets;
use crate::context::Context;
use crate::group::{
    Group, Groups, MAX_GROUPS, MAX_GROUPS_OF_PROC, MAX_GROUPS_OF_USER, not_complete, spelled_out,
};
use crate::participants::{Members, contains, members_of};

impl Rounds {
    /// Whether a group of this id exists, is being made, or has open invitations.
    pub(super) fn is_group(&self, id: &Nspace, groups: &Groups) -> bool {
        groups.get(id).is_some()
            || self.like(Operation::Construct(id.clone())).next().is_some()
            || groups.is_reserved(id)
    }

    /// The complete group that the process is a member of (GRP-08).
    pub(super) fn group_of<'a>(
        &self,
        id: &Nspace,
        proc: &ProcId,
        groups: &'a Groups,
    ) -> Result<&'a Group, Failure> {
        match groups.get(id) {
            Some(group) if group.has(proc) => Ok(group),
            Some(_) => {
                Err(Failure::new(Status::ERR_NOT_A_MEMBER, format!("{proc} is not a member of group {id}")))
            }
            None if self.is_group(id, groups) => Err(not_complete(id)),
            None => Err(Failure::new(Status::ERR_NOT_FOUND, format!("there is no group {id}"))),
        }
    }

    /// What identifies the destruct of a group, and its terms.
    pub(super) fn destruct_operation(&self, signature: Signature, group: &Group) -> (Signature, Terms) {
        let mut terms = Terms { optional: group.terms.outlives_members(), ..Terms::default() };
        terms.group.by_host = group.terms.by_host;
        // members may have left since the first of the others has called
        let begun = self.like(signature.operation.clone()).find(|held| self.is_open(held));
        (begun.cloned().unwrap_or(signature), terms)
    }

    /// The construct of the same members, if one is under way. One of other members excludes it.
    fn begun_construct(
        &self,
        signature: &Signature,
        caller: &ProcId,
        cx: &Context,
    ) -> Result<Option<&Signature>, Failure> {
        let mut other = None;
        for held in self.like(signature.operation.clone()) {
            if are_same(&spelled_out(&held.procs, cx), &signature.procs) {
                return Ok(Some(held));
            }
            if other.is_none() && self.is_open(held) {
                other = Some(held);
            }
        }
        let Some(other) = other else { return Ok(None) };
        Err(if contains(&other.procs, caller) {
            let message = "the members of a group must all name the same processes, in any order";
            Failure::new(Status::ERR_BAD_PARAM, message)
        } else {
            others_construct()
        })
    }

    /// The construct that a process enters, as it was begun, unless it may not enter it.
    pub(super) fn construct_of(
        &self,
        signature: &Signature,
        asked: &Asked,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<Option<&Signature>, Failure> {
        let caller = &asked.by.proc;
        let begun = self.begun_construct(signature, caller, cx)?;
        if let Some(id) = signature.operation.group()
            && begun.is_none_or(|begun| self.begins_anew(begun, caller, asked.to.conn))
        {
            self.check_new_group(id, caller, lower, cx)?;
        }
        Ok(begun)
    }

    /// Whether a process could enter a construct of this id that is to come.
    pub(super) fn check_coming_group(
        &self,
        id: &Nspace,
        proc: &ProcId,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        self.check_new_group(id, proc, lower, cx)?;
        let mut others = self.like(Operation::Construct(id.clone()));
        if others.any(|held| self.is_open(held)) { Err(others_construct()) } else { Ok(()) }
    }

    /// What identifies an operation that another node waits for.
    pub(super) fn signature_of(
        &self,
        operation: Operation,
        procs: Vec<ProcId>,
        sets: &ConnectedSets,
        cx: &Context,
    ) -> Result<Signature, Failure> {
        if operation.group().is_none() {
            return Signature::of(operation, procs, sets);
        }
        let procs = spelled_out(&members_of(&procs), cx);
        let is_it = |held: &&Signature| {
            matches!(held.operation, Operation::Destruct(_))
                || are_same(&spelled_out(&held.procs, cx), &procs)
        };
        let begun = self.like(operation.clone()).find(is_it).cloned();
        Ok(begun.unwrap_or(Signature { operation, procs, sets: Members::new() }))
    }

    /// An id must differ from the namespaces of jobs, tools, connected sets and this server, and from the ids of other groups
    /// (GRP-11). Nor does it begin with a dot after the namespace of this server, whose host names tools and connected sets so, or after
    /// that of a job of another user, whose children are named so. Where a child of a job of the same user would get the name of a group,
    /// the host takes the next name.
    pub(super) fn check_new_group(
        &self,
        id: &Nspace,
        caller: &ProcId,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        let exists = |what: &str| {
            let message = format!("a group cannot have the id {id}, {what}");
            Err(Failure::new(Status::ERR_EXISTS, message))
        };
        if lower.groups.get(id).is_some() {
            return exists("which another one has: destruct that first");
        }
        if lower.groups.is_reserved(id) {
            return exists("to which others are being invited");
        }
        let uid = cx.user_of(caller);
        let name = uid.map_or(id.as_str(), |uid| cx.config.group_for_user(uid, id));
        let is_taken = |nspace: &Nspace| nspace == name || nspace == id;
        if lower.sets.id_of(name).is_some() || cx.nspaces().any(is_taken) {
            return exists("which is a namespace: choose another id");
        }
        let is_anothers = |nspace: &Nspace| {
            *nspace == cx.config.server.nspace || uid.is_some_and(|uid| !cx.may_see(caller, uid, nspace))
        };
        if cx.nspaces().any(|nspace| belongs_to(name, nspace) && is_anothers(nspace)) {
            return exists(
                "which begins with the namespace of the server, or of a job of another user: choose another id",
            );
        }
        self.check_room_for_group(caller, lower.groups, cx)
    }

    /// Whether a process, its user and this server may have another group.
    pub(super) fn check_room_for_group(
        &self,
        caller: &ProcId,
        groups: &Groups,
        cx: &Context,
    ) -> Result<(), Failure> {
        let (all, own) = self.constructions(caller);
        let full = |limit: usize, whose: &str| {
            let message = format!("{whose} {limit} groups already, which is the limit");
            Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
        };
        if groups.len() + all >= MAX_GROUPS {
            return full(MAX_GROUPS, "this server has");
        }
        if let Some(jobs) = cx.jobs_of_sharer(cx.user_of(caller))
            && groups.count_in(&jobs) + self.constructions_in(&jobs) >= MAX_GROUPS_OF_USER
        {
            return full(MAX_GROUPS_OF_USER, &format!("the user of {caller} has"));
        }
        if groups.count_of(caller) + own >= MAX_GROUPS_OF_PROC {
            return full(MAX_GROUPS_OF_PROC, &format!("{caller} is in"));
        }
        Ok(())
    }

    /// The construct of this id that the process takes part in, if it is not decided yet.
    pub(super) fn undecided_construct(&self, id: &Nspace, by: &ProcId) -> Option<&Signature> {
        let mut all = self.like(Operation::Construct(id.clone()));
        all.find(|held| contains(&held.procs, by) && self.is_open(held))
    }

    /// The same, if the host does not know of it yet.
    pub(super) fn open_construct(&self, id: &Nspace, by: &ProcId) -> Option<&Signature> {
        let mut all = self.like(Operation::Construct(id.clone()));
        all.find(|held| contains(&held.procs, by) && self.is_here_alone(held))
    }
}

fn others_construct() -> Failure {
    Failure::new(Status::ERR_EXISTS, "other processes are constructing a group with this id")
}

/// Whether a name is one that hosts give to what belongs to a namespace.
fn belongs_to(name: &str, nspace: &Nspace) -> bool {
    name.strip_prefix(nspace.as_str()).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether these can be the same processes. If the size of a namespace is not known, all of it may be just the ranks that
/// are named.
fn are_same(some: &Members, others: &Members) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|((nspace, named), (other, others))| {
            nspace == other && (named == others || named.all || others.all)
        })
}
