//! The side of a leader: it invites, counts the answers, and enters the construct with the processes that have
//! accepted.

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::message::{Failure, GroupInvite, Reply};
use pmix_types::{DataArray, Directives, Event, Info, Memory, Nspace, ProcId, Status, keys};

use super::table::{Below, Invitation, Invites, Means, Told};
use crate::collective::{Entry, check_invited};
use crate::context::Context;
use crate::group::{Invited, MAX_GROUPS_OF_PROC, about, group_of, one_by_one, terms_of};
use crate::participants::{Members, members_of, named_procs};
use crate::timers::{Timer, deadline};
use crate::upcall::Upcall;
use crate::users::not_own;
use crate::{Asked, not_supported};

/// Bytes that the list of invited processes may take: it is kept for each of them.
const MAX_INVITED: usize = 4 << 20;

/// What the server itself writes into an invitation.
const OF_INVITATION: [&str; 4] = [
    keys::GROUP_ID.name(),
    keys::GROUP_MEMBERSHIP.name(),
    keys::EVENT_AFFECTED_PROC.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
];

/// An invitation that can be sent.
struct Plan {
    number: u64,
    directives: Directives,
    deadline: Option<Instant>,
    order: Vec<ProcId>,
    open: Members,
}

impl Plan {
    fn of(self, asked: Asked, means: Means) -> Invitation {
        let Self { number, directives, deadline, order, open } = self;
        Invitation { number, asked, directives, deadline, order, open, lost: BTreeSet::new(), means }
    }
}

impl Invites {
    pub(crate) fn on_invite(
        &mut self,
        asked: Asked,
        invite: GroupInvite,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let id = invite.group.clone();
        match self.plan(&asked, invite, below, cx) {
            Err(failure) => cx.reply(asked.to, Err(failure)),
            Ok(plan) => {
                cx.timers.set(plan.deadline, Timer::Invitation(plan.number));
                let terms = terms_of(&plan.directives).collect();
                self.send_out(id, plan.of(asked, Means::Request), terms, below, cx);
            }
        }
    }

    /// An event by which a library in C invites: the group then is made as any other, except that the library says when.
    /// Gives the request back if the server can make no group of it; it is an event like any other then.
    pub(super) fn on_invite_by_event(
        &mut self,
        asked: Asked,
        event: &Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) -> Option<Asked> {
        let id = group_of(event);
        let Some(id) = id else { return Some(asked) };
        let invite = GroupInvite::new(id.clone(), event.custom_range());
        let Ok(plan) = self.plan(&asked, invite, below, cx) else { return Some(asked) };
        let is_own = |info: &&Info| !OF_INVITATION.contains(&info.key.as_str());
        let more = event.info.iter().filter(is_own).cloned().collect();
        cx.reply(asked.to, Ok(Reply::Done));
        self.send_out(id, plan.of(asked, Means::Library), more, below, cx);
        None
    }

    /// The library of a leader announces the group. Gives the request back if it leads none of this id.
    pub(super) fn on_announced(
        &mut self,
        asked: Asked,
        event: &Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) -> Option<Asked> {
        let id = group_of(event);
        let is_led =
            |held: &&mut Invitation| held.means == Means::Library && held.asked.by.proc == asked.by.proc;
        let led = id.and_then(|id| self.sent.get_mut(&id).filter(is_led).map(|held| (id, held)));
        let Some((id, invitation)) = led else { return Some(asked) };
        invitation.asked = asked;
        // it goes on without those who have not answered
        invitation.lost.extend(named_procs(&std::mem::take(&mut invitation.open)));
        self.make(&id, below, cx);
        None
    }

    fn send_out(
        &mut self,
        id: Nspace,
        invitation: Invitation,
        more: Vec<Info>,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let leader = invitation.asked.by.proc.clone();
        let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(invitation.order.clone()));
        let invited = invitation.open.clone();
        let mut event = about(Status::GROUP_INVITED, &id, &leader, cx).with_info(members);
        // answers go to the source of the event
        event.source = leader;
        event.info.extend(more);
        self.open(id, invitation, below);
        self.tell(&invited, event, below, cx);
    }

    /// Whether the process may invite these, and to what.
    fn plan(
        &mut self,
        asked: &Asked,
        invite: GroupInvite,
        below: &Below<'_>,
        cx: &Context,
    ) -> Result<Plan, Failure> {
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
        // who may not answer the leader cannot be a member
        let nspaces: BTreeSet<_> = order.iter().map(|proc| &proc.nspace).collect();
        let strange = |nspace: &&Nspace| {
            let owner = cx.jobs.get(*nspace)?.owner()?;
            let may_answer = cx.may_see(&ProcId::wildcard((*nspace).clone()), owner, &leader.nspace);
            (!may_answer).then_some(owner)
        };
        if let Some(owner) = nspaces.iter().find_map(strange) {
            return Err(not_own(owner, &leader.nspace));
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
        check_invited(&id, &order, asked, directives.clone(), &below.lower, cx)?;
        let deadline = deadline(asked.at, &mut directives)?;
        let number = self.next.next();
        Ok(Plan { number, directives, deadline, order, open })
    }

    /// The server of the leader counts the answers (GRP-03).
    pub(super) fn on_answered(&mut self, told: &Told<'_>, below: &mut Below<'_>, cx: &mut Context) {
        let Told { id, about: who, event, .. } = *told;
        let accepts = event.code == Status::GROUP_INVITE_ACCEPTED;
        let leader = told.list(&keys::EVENT_CUSTOM_RANGE).and_then(|range| range.into_iter().next());
        // also for one that is not registered any more: who answers it late must not wait
        let is_of_node = |proc: &ProcId| cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank));
        let is_meant = |leader: &ProcId| is_of_node(leader) && told.is_heard_in(&leader.nspace, cx);
        let Some(leader) = leader.filter(is_meant) else { return };
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
            if invitation.means == Means::Library {
                // its library has heard it, too
                return;
            }
            if !invitation.directives.flag(&keys::GROUP_OPTIONAL).unwrap_or_default() {
                let what = if event.code == Status::GROUP_INVITE_DECLINED { "declined" } else { "ended" };
                let message = format!("group {id}: {who} has {what}");
                let failure = Failure::new(Status::GROUP_CONSTRUCT_ABORT, message);
                return self.fail(id, failure.with_procs(vec![who.clone()]), below, cx);
            }
        }
        if invitation.open.is_empty() && invitation.means != Means::Library {
            self.make(id, below, cx);
        }
    }

    /// All have answered: those who have accepted enter a construct with the leader.
    pub(super) fn make(&mut self, id: &Nspace, below: &mut Below<'_>, cx: &mut Context) {
        let Some(invitation) = self.close(id, below) else { return };
        let Invitation { number, asked, directives, deadline, order, lost, means, .. } = invitation;
        cx.timers.clear(deadline, Timer::Invitation(number));
        let leader = &asked.by.proc;
        let members: Vec<_> = order.into_iter().filter(|proc| !lost.contains(proc)).collect();
        let others = members_of(members.iter().filter(|proc| *proc != leader));
        let mut event = about(Status::GROUP_MEMBERSHIP_UPDATE, id, leader, cx)
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.clone())));
        event.info.extend(terms_of(&directives));
        self.tell(&others, event, below, cx);
        let (by_event, announced) = (means != Means::Request, means == Means::Library);
        let invited = Invited { leads: true, partial: !lost.is_empty(), by_event, announced };
        let entry = Entry::invited(id.clone(), members, directives, invited, deadline);
        below.collectives.enter(&asked, entry, &mut below.lower, cx);
    }

    /// The group is not made: the leader learns why, and the others that it is not.
    pub(super) fn fail(&mut self, id: &Nspace, failure: Failure, below: &mut Below<'_>, cx: &mut Context) {
        self.end(id, Status::GROUP_CONSTRUCT_ABORT, failure, below, cx);
    }

    pub(super) fn end(
        &mut self,
        id: &Nspace,
        code: Status,
        failure: Failure,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let Some(invitation) = self.close(id, below) else { return };
        let Invitation { number, asked, deadline, order, lost, means, .. } = invitation;
        cx.timers.clear(deadline, Timer::Invitation(number));
        if means != Means::Library {
            cx.reply(asked.to, Err(failure));
        }
        let leader = asked.by.proc;
        let others = members_of(order.iter().filter(|proc| **proc != leader && !lost.contains(*proc)));
        let event = about(code, id, &leader, cx);
        self.tell(&others, event, below, cx);
    }
}
