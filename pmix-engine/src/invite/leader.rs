//! The side of a leader: it invites, counts the answers, and enters the construct with the processes that have
//! accepted.

use std::collections::BTreeSet;

use pmix_types::message::{Failure, GroupInvite};
use pmix_types::{DataArray, Info, Memory, Nspace, ProcId, Status, keys};

use super::table::{Below, Invitation, Invites, Told};
use crate::collective::Entry;
use crate::context::Context;
use crate::group::{Invited, MAX_GROUPS_OF_PROC, about, one_by_one, terms_of};
use crate::participants::members_of;
use crate::timers::{Timer, deadline};
use crate::upcall::Upcall;
use crate::users::not_own;
use crate::{Asked, not_supported};

/// Bytes that the list of invited processes may take: it is kept for each of them.
const MAX_INVITED: usize = 4 << 20;

impl Invites {
    pub(crate) fn on_invite(
        &mut self,
        asked: Asked,
        invite: GroupInvite,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let (id, to) = (invite.group.clone(), asked.to);
        match self.new_invitation(asked, invite, below, cx) {
            Err(failure) => cx.reply(to, Err(failure)),
            Ok(invitation) => {
                let Invitation { number, deadline, .. } = invitation;
                cx.timers.set(deadline, Timer::Invitation(number));
                let leader = invitation.asked.by.proc.clone();
                let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(invitation.order.clone()));
                let terms: Vec<_> = terms_of(&invitation.directives).collect();
                let invited = invitation.open.clone();
                let mut event = about(Status::GROUP_INVITED, &id, &leader, cx).with_info(members);
                // answers go to the source of the event
                event.source = leader;
                event.info.extend(terms);
                self.open(id, invitation, below);
                self.tell(&invited, event, below, cx);
            }
        }
    }

    fn new_invitation(
        &mut self,
        asked: Asked,
        invite: GroupInvite,
        below: &Below<'_>,
        cx: &Context,
    ) -> Result<Invitation, Failure> {
        let GroupInvite { group: id, procs, mut directives, .. } = invite;
        let leader = &asked.by.proc;
        if cx.client(leader).is_none() {
            let message = format!("{leader} cannot lead a group: it is not a process of a job on this node");
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        below.collectives.check_new_group(&id, leader, &below.lower, cx)?;
        if below.collectives.is_group(&id, below.lower.groups) {
            return Err(Failure::new(
                Status::ERR_EXISTS,
                "other processes are constructing a group with this id",
            ));
        }
        if self.of_leader(leader) >= MAX_GROUPS_OF_PROC {
            let message =
                format!("{leader} is already inviting to {MAX_GROUPS_OF_PROC} groups, which is the limit");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut order = one_by_one(&procs, cx);
        if let Some(nobody) = order.iter().find(|proc| proc.nspace.is_empty() || !proc.rank.is_valid()) {
            let message = format!("{nobody} cannot be invited: no such process is known here");
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if let Some(other) = order.iter().find(|proc| !cx.may_see(leader, asked.by.uid, &proc.nspace)) {
            return Err(not_own(asked.by.uid, &other.nspace));
        }
        if order.memory() > MAX_INVITED {
            let message =
                format!("the list of members takes {} bytes, the limit is {MAX_INVITED}", order.memory());
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        if !order.contains(leader) {
            order.insert(0, leader.clone());
        }
        let open = members_of(order.iter().filter(|proc| *proc != leader));
        if open.is_empty() {
            return Err(Failure::new(
                Status::ERR_BAD_PARAM,
                "the invitation names no process other than the leader",
            ));
        }
        let is_here = |proc: &ProcId| cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank));
        if !order.iter().all(is_here) && !cx.config.capabilities.has(Upcall::NotifyEvent) {
            return Err(not_supported("inviting processes on other nodes"));
        }
        let deadline = deadline(asked.at, &mut directives)?;
        let number = self.next.next();
        Ok(Invitation { number, asked, directives, deadline, order, open, lost: BTreeSet::new() })
    }

    /// The server of the leader counts the answers (GRP-03).
    pub(super) fn on_answered(&mut self, told: &Told<'_>, below: &mut Below<'_>, cx: &mut Context) {
        let Told { id, about: who, event } = *told;
        let accepts = event.code == Status::GROUP_INVITE_ACCEPTED;
        let leader = told.list(&keys::EVENT_CUSTOM_RANGE).and_then(|range| range.into_iter().next());
        let Some(leader) = leader.filter(|leader| cx.client(leader).is_some()) else { return };
        let invitation = self.sent.get_mut(id).filter(|held| held.asked.by.proc == leader);
        let is_awaited =
            |held: &Invitation| *who != leader && held.order.contains(who) && !held.lost.contains(who);
        let Some(invitation) = invitation.filter(|held| is_awaited(held)) else {
            // the acceptance comes too late, and its process waits for the group
            if accepts && !self.received.contains_key(&(id.clone(), leader.clone())) {
                let event = about(Status::GROUP_CONSTRUCT_ABORT, id, &leader, cx);
                self.tell(&members_of([who]), event, below, cx);
            }
            return;
        };
        if let Some(open) = invitation.open.get_mut(&who.nspace) {
            open.ranks.remove(who.rank);
            if open.ranks.is_empty() {
                invitation.open.remove(&who.nspace);
            }
        }
        if !accepts {
            invitation.lost.insert(who.clone());
            if !invitation.directives.flag(&keys::GROUP_OPTIONAL).unwrap_or_default() {
                let what = if event.code == Status::GROUP_INVITE_DECLINED { "declined" } else { "ended" };
                let message = format!("group {id}: {who} has {what}");
                let failure = Failure::new(Status::GROUP_CONSTRUCT_ABORT, message);
                return self.fail(id, failure.with_procs(vec![who.clone()]), below, cx);
            }
        }
        if invitation.open.is_empty() {
            self.make(id, below, cx);
        }
    }

    /// All have answered: those who have accepted enter a construct with the leader.
    pub(super) fn make(&mut self, id: &Nspace, below: &mut Below<'_>, cx: &mut Context) {
        let Some(invitation) = self.close(id, below) else { return };
        let Invitation { number, asked, directives, deadline, order, lost, .. } = invitation;
        cx.timers.clear(deadline, Timer::Invitation(number));
        let leader = &asked.by.proc;
        let members: Vec<_> = order.into_iter().filter(|proc| !lost.contains(proc)).collect();
        let others = members_of(members.iter().filter(|proc| *proc != leader));
        let mut event = about(Status::GROUP_MEMBERSHIP_UPDATE, id, leader, cx)
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.clone())));
        event.info.extend(terms_of(&directives));
        self.tell(&others, event, below, cx);
        let invited = Invited { leads: true, partial: !lost.is_empty() };
        let entry = Entry::invited(id.clone(), members, directives, (invited, deadline));
        below.collectives.enter(&asked, entry, &mut below.lower, cx);
    }

    /// The group is not made: the leader learns why, and the others that it is not.
    pub(super) fn fail(&mut self, id: &Nspace, failure: Failure, below: &mut Below<'_>, cx: &mut Context) {
        self.end(id, (Status::GROUP_CONSTRUCT_ABORT, failure), below, cx);
    }

    pub(super) fn end(
        &mut self,
        id: &Nspace,
        (code, failure): (Status, Failure),
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let Some(invitation) = self.close(id, below) else { return };
        let Invitation { number, asked, deadline, order, lost, .. } = invitation;
        cx.timers.clear(deadline, Timer::Invitation(number));
        cx.reply(asked.to, Err(failure));
        let leader = asked.by.proc;
        let others = members_of(order.iter().filter(|proc| **proc != leader && !lost.contains(*proc)));
        let event = about(code, id, &leader, cx);
        self.tell(&others, event, below, cx);
    }
}
