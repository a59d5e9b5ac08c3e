//! When the leader of a group that is being made ends, another process may take its place (GRP-07).

use std::sync::Arc;
use std::time::Duration;

use pmix_types::{DataArray, Event, Info, Nspace, ProcId, Status, keys};

use super::table::{Below, Invitation, Invites, Join, Means, Received, Told};
use crate::context::Context;
use crate::group::{about, add_terms, group_of, terms_of};
use crate::participants::{members_of, name_in};
use crate::timers::Timer;
use crate::users::Voice;

/// How long processes that have accepted wait for another leader when theirs has ended.
const SUCCESSION: Duration = Duration::from_secs(5);

impl Invites {
    /// The leader has ended: those whom it has invited wait for another one for a while.
    pub(super) fn on_leader_failed(&mut self, id: &Nspace, leader: &ProcId, voice: &Voice, cx: &mut Context) {
        let Some(until) = cx.now.and_then(|now| now.checked_add(SUCCESSION)) else { return };
        for ((group, proc), received) in &mut self.received {
            if group == id
                && received.leader == *leader
                && received.orphaned.is_none()
                && cx.is_heard_in(voice, &proc.nspace)
            {
                let number = self.next.next();
                received.orphaned = Some((number, until));
                cx.timers.set(Some(until), Timer::Invitation(number));
            }
        }
    }

    /// A member takes the place of a leader that has ended; `None` for a group that is not known.
    pub(super) fn on_claim(&mut self, event: &Event, below: &mut Below<'_>, cx: &mut Context) -> Option<()> {
        let id = group_of(event)?;
        let by = &event.source;
        let key = (id.clone(), by.clone());
        let can = |held: &Received| held.orphaned.is_some() && held.join.is_some();
        if self.sent.contains_key(&id) || !self.received.get(&key).is_some_and(can) {
            // an event that comes too late is not delivered
            let is_known =
                self.received.contains_key(&key) || below.collectives.is_group(&id, below.lower.groups);
            return self.lead_construct(&id, by, below, cx).or_else(|| is_known.then_some(()));
        }
        let received = self.received.remove(&key)?;
        received.clear_timers(cx);
        let Received { leader: former, former: mut lost, members, terms, join, .. } = received;
        let Join { number, asked, mut directives, deadline, means } = join?;
        add_terms(&mut directives, &terms);
        lost.insert(former.clone());
        let open = members_of(members.iter().filter(|proc| *proc != by && !lost.contains(*proc)));
        let event = about(Status::GROUP_LEADER_SELECTED, &id, by, cx)
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.to_vec())))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(vec![former])));
        let (mut all, order) = (open.clone(), members.to_vec());
        name_in(&mut all, by);
        cx.timers.set(deadline, Timer::Invitation(number));
        let nobody_else = open.is_empty();
        let invitation = Invitation { number, asked, directives, deadline, order, open, lost, means };
        self.open(id.clone(), invitation, below);
        self.tell(&all, event, below, cx);
        if nobody_else {
            self.make(&id, below, cx);
        }
        Some(())
    }

    /// There is a new leader: invited processes of this node answer it. Of two new leaders the one with the lower id counts.
    pub(super) fn on_leader_selected(&mut self, told: &Told<'_>, below: &mut Below<'_>, cx: &mut Context) {
        let Told { id, about: leader, .. } = *told;
        let list = |key| told.list(key).unwrap_or_default();
        let (members, former) = (list(&keys::GROUP_MEMBERSHIP), list(&keys::EVENT_AFFECTED_PROCS));
        if let Some(other) = self.sent.get(id).map(|held| held.asked.by.proc.clone())
            && other != *leader
            && told.is_heard_in(&other.nspace, cx)
        {
            if other < *leader {
                return;
            }
            self.step_back(id, other, below);
        }
        for proc in members.iter().filter(|proc| *proc != leader && !former.contains(proc)) {
            let is_here = cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank));
            if !is_here || !told.is_heard_in(&proc.nspace, cx) {
                continue;
            }
            let key = (id.clone(), proc.clone());
            let code = match self.received.get_mut(&key) {
                // the process has declined, or ended
                None => Status::GROUP_INVITE_DECLINED,
                Some(held) if former.contains(&held.leader) => {
                    let before = std::mem::replace(&mut held.leader, leader.clone());
                    held.former.insert(before);
                    if let Some((number, until)) = held.orphaned.take() {
                        cx.timers.clear(Some(until), Timer::Invitation(number));
                    }
                    Status::GROUP_INVITE_ACCEPTED
                }
                Some(held) if !held.former.is_empty() && *leader < held.leader => {
                    held.leader.clone_from(leader);
                    Status::GROUP_INVITE_ACCEPTED
                }
                Some(_) => continue,
            };
            let is_open = self.received.get(&key).is_some_and(|held| held.join.is_none());
            if !is_open {
                let event = about(code, id, proc, cx);
                self.tell_leader(leader, event, below, cx);
            }
        }
    }

    /// A process with a lower id leads: the leader until now becomes one that has accepted.
    fn step_back(&mut self, id: &Nspace, before: ProcId, below: &mut Below<'_>) {
        let Some(invitation) = self.close(id, below) else { return };
        let Invitation { number, asked, directives, deadline, order, lost, means, .. } = invitation;
        if means == Means::Library {
            // it has asked for nothing yet
            return;
        }
        let received = Received {
            number,
            leader: before.clone(),
            former: lost,
            members: Arc::from(order),
            terms: terms_of(&directives).collect::<Vec<_>>().into(),
            join: Some(Join { number, asked, directives, deadline, means }),
            orphaned: None,
        };
        self.received.insert((id.clone(), before), received);
    }

    /// A member leads a construct that has lost its leader, or never had one.
    fn lead_construct(
        &mut self,
        id: &Nspace,
        by: &ProcId,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) -> Option<()> {
        let members = below.collectives.lead_construct(id, by)?;
        let event = about(Status::GROUP_LEADER_SELECTED, id, by, cx);
        self.tell(&members, event, below, cx);
        Some(())
    }

    /// The leader of constructs under way has ended: their other members hear of it.
    pub(crate) fn end_in_constructs(&mut self, proc: &ProcId, below: &mut Below<'_>, cx: &mut Context) {
        for (id, members) in below.collectives.unlead(proc) {
            let event = about(Status::GROUP_LEADER_FAILED, &id, proc, cx);
            self.tell_except(&members, Some(proc), event, below, cx);
        }
    }
}
