//! What becomes of a group that is being made when its leader ends: another process may take its place (GRP-07).

use std::sync::Arc;

use pmix_types::{DataArray, Event, Info, Nspace, ProcId, Status, keys};

use super::super::Engine;
use super::super::assembly::Notice;
use super::super::signature::{Members, name_in};
use super::super::timers::Timer;
use super::{Invitation, Invites, Join, Received, SUCCESSION, add_terms, terms_of};

impl Engine {
    /// Those who were invited have to do without their leader, and wait for another for a while.
    pub(super) fn on_leader_failed(&mut self, id: &Nspace, leader: &ProcId) {
        let Some(until) = self.cx.now.and_then(|now| now.checked_add(SUCCESSION)) else { return };
        let Invites { received, next, .. } = &mut self.invites;
        for ((group, _), received) in received {
            if group == id && received.leader == *leader && received.orphaned.is_none() {
                let number = next.next();
                received.orphaned = Some((number, until));
                self.cx.timers.set(Some(until), Timer::Invitation(number));
            }
        }
    }

    /// A member takes the place of a leader that has ended; `None` for a group that is not known.
    pub(crate) fn on_claim(&mut self, event: &Event) -> Option<()> {
        let id = Nspace::new(event.info.get(&keys::GROUP_ID).ok()??).ok()?;
        let by = &event.source;
        let key = (id.clone(), by.clone());
        let can = |held: &Received| held.orphaned.is_some() && held.join.is_some();
        if self.invites.sent.contains_key(&id) || !self.invites.received.get(&key).is_some_and(can) {
            // what comes too late is not for others to hear
            let is_known = self.invites.received.contains_key(&key) || self.is_group(&id);
            return self.lead_construct(&id, by).or_else(|| is_known.then_some(()));
        }
        let received = self.invites.received.remove(&key)?;
        self.clear_timers(&received);
        let Received { leader: former, former: mut lost, members, terms, join, .. } = received;
        let Join { number, asked, mut directives, deadline } = join?;
        add_terms(&mut directives, &terms);
        lost.insert(former.clone());
        let mut open = Members::new();
        let is_open = |proc: &&ProcId| *proc != by && !lost.contains(*proc);
        members.iter().filter(is_open).for_each(|proc| name_in(&mut open, proc));
        let event = self
            .of_group(Status::GROUP_LEADER_SELECTED, &id, by)
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.to_vec())))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(vec![former])));
        let (mut all, order) = (open.clone(), members.to_vec());
        name_in(&mut all, by);
        self.cx.timers.set(deadline, Timer::Invitation(number));
        let nobody_else = open.is_empty();
        let invitation = Invitation { number, asked, directives, deadline, order, open, lost };
        self.invites.sent.insert(id.clone(), invitation);
        self.tell_those(&all, event);
        if nobody_else {
            self.make_of_invited(&id);
        }
        Some(())
    }

    /// Others have a new leader: those of this node answer it anew. Of two the lower one leads.
    pub(super) fn on_leader_selected(&mut self, id: &Nspace, event: &Event, leader: &ProcId) {
        let list = |key| match event.info.get(key) {
            Ok(Some(DataArray::Proc(procs))) => procs,
            _ => Vec::new(),
        };
        let (members, former) = (list(&keys::GROUP_MEMBERSHIP), list(&keys::EVENT_AFFECTED_PROCS));
        if let Some(other) = self.invites.sent.get(id).map(|held| held.asked.by.proc.clone())
            && other != *leader
        {
            if other < *leader {
                return;
            }
            self.step_back(id, other);
        }
        for proc in members.iter().filter(|proc| *proc != leader && !former.contains(proc)) {
            if !self.cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank)) {
                continue;
            }
            let key = (id.clone(), proc.clone());
            let code = match self.invites.received.get_mut(&key) {
                // it has declined, or ended
                None => Status::GROUP_INVITE_DECLINED,
                Some(held) if former.contains(&held.leader) => {
                    let before = std::mem::replace(&mut held.leader, leader.clone());
                    held.former.insert(before);
                    if let Some((number, until)) = held.orphaned.take() {
                        self.cx.timers.clear(Some(until), Timer::Invitation(number));
                    }
                    Status::GROUP_INVITE_ACCEPTED
                }
                Some(held) if !held.former.is_empty() && *leader < held.leader => {
                    held.leader.clone_from(leader);
                    Status::GROUP_INVITE_ACCEPTED
                }
                Some(_) => continue,
            };
            let is_open = self.invites.received.get(&key).is_some_and(|held| held.join.is_none());
            if !is_open {
                self.tell_leader(leader, self.of_group(code, id, proc));
            }
        }
    }

    /// Somebody lower leads: who has led until now is one who has accepted.
    fn step_back(&mut self, id: &Nspace, before: ProcId) {
        let Some(invitation) = self.invites.sent.remove(id) else { return };
        let Invitation { number, asked, directives, deadline, order, lost, .. } = invitation;
        let received = Received {
            leader: before.clone(),
            former: lost,
            members: Arc::from(order),
            terms: terms_of(&directives).collect::<Vec<_>>().into(),
            join: Some(Join { number, asked, directives, deadline }),
            orphaned: None,
        };
        self.invites.received.insert((id.clone(), before), received);
    }

    /// The same in a construct that has lost its leader, or never had one.
    fn lead_construct(&mut self, id: &Nspace, by: &ProcId) -> Option<()> {
        let signature = self.open_construct(id, by)?.clone();
        self.collectives.constructing(&signature)?.lead(by);
        let event = self.of_group(Status::GROUP_LEADER_SELECTED, id, by);
        self.tell_those(&signature.procs, event);
        Some(())
    }

    /// Leaders of constructs that are under way have ended: all others hear of it.
    pub(crate) fn end_in_constructs(&mut self, proc: &ProcId) {
        for (id, procs) in self.collectives.unlead(proc) {
            let event = self.of_group(Status::GROUP_LEADER_FAILED, &id, proc);
            self.tell(&procs, |other| other == proc, Notice { event, beyond: true });
        }
    }
}
