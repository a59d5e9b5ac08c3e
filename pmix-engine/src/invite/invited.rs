//! The side of invited processes: they accept or decline, and enter the construct when its members are known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::{Failure, GroupJoin, Reply};
use pmix_types::{Directives, Event, GroupOpt, Nspace, ProcId, Status, keys};

use super::table::{Below, Invites, Join, Means, Received, Told};
use crate::Asked;
use crate::collective::{Entry, check_invited};
use crate::context::Context;
use crate::group::{Invited, MAX_GROUPS_OF_PROC, about, add_terms, terms_of};
use crate::timers::{Timer, deadline};

/// An answer to an invitation that is open.
struct InvitationAnswer {
    /// The group, and who answers.
    key: (Nspace, ProcId),
    leader: ProcId,
    answer: GroupOpt,
    directives: Directives,
    deadline: Option<Instant>,
    means: Means,
}

impl Invites {
    pub(crate) fn on_join(&mut self, asked: Asked, join: GroupJoin, below: &mut Below<'_>, cx: &mut Context) {
        let GroupJoin { group: id, leader, answer, mut directives, .. } = join;
        let key = (id, asked.by.proc.clone());
        let checked = self.check_join(&key, &leader, answer).and_then(|held| match answer {
            GroupOpt::ACCEPT => {
                // the others would wait for one who cannot enter (GEN-05)
                let mut directives = directives.clone();
                add_terms(&mut directives, &held.terms);
                check_invited(&key.0, &held.members, &asked, directives, &below.lower, cx)
            }
            _ => Ok(()),
        });
        let deadline = match checked.and_then(|()| deadline(asked.at, &mut directives)) {
            Ok(deadline) => deadline,
            Err(failure) => return cx.reply(asked.to, Err(failure)),
        };
        let answer = InvitationAnswer { key, leader, answer, directives, deadline, means: Means::Request };
        self.answer(asked, answer, below, cx);
    }

    /// An event by which a library in C answers an invitation. It names the leader and seldom the group, so that it answers
    /// the oldest invitation that is open. Gives the request back if there is none.
    pub(super) fn on_answer_by_event(
        &mut self,
        asked: Asked,
        event: &Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) -> Option<Asked> {
        let (leaders, id) = (event.custom_range(), event.info.get(&keys::GROUP_ID).ok().flatten());
        let is_meant = |(group, proc): &(Nspace, ProcId), held: &Received| {
            let is_leader = |proc: &ProcId| held.leader == *proc || held.former.contains(proc);
            *proc == event.source
                && held.join.is_none()
                && id.as_ref().is_none_or(|id| group == id.as_str())
                && (leaders.is_empty() || leaders.iter().any(is_leader))
        };
        let open = self.received.iter().filter(|(key, held)| is_meant(key, held));
        let Some((key, held)) = open.min_by_key(|(_, held)| held.number) else { return Some(asked) };
        let (key, leader) = (key.clone(), held.leader.clone());
        let accepts = event.code == Status::GROUP_INVITE_ACCEPTED;
        let answer = if accepts { GroupOpt::ACCEPT } else { GroupOpt::DECLINE };
        let (directives, deadline, means) = (Directives::new(), None, Means::Event);
        self.answer(asked, InvitationAnswer { key, leader, answer, directives, deadline, means }, below, cx);
        None
    }

    /// Tells the leader, and keeps who accepts until the group is made.
    fn answer(&mut self, asked: Asked, answer: InvitationAnswer, below: &mut Below<'_>, cx: &mut Context) {
        let InvitationAnswer { key, leader, answer, directives, deadline, means } = answer;
        let ((id, proc), to) = (key.clone(), asked.to);
        if answer == GroupOpt::DECLINE {
            let received = self.received.remove(&key);
            let leader = received.map_or(leader, |received| {
                received.clear_timers(cx);
                received.leader
            });
            cx.reply(to, Ok(Reply::Done));
            let event = about(Status::GROUP_INVITE_DECLINED, &id, &proc, cx);
            return self.tell_leader(&leader, event, below, cx);
        }
        // the one that it names may have ended
        let leader = self.received.get(&key).map_or(leader, |received| received.leader.clone());
        // others may have got the id since the invitation came
        if let Err(failure) = self.check_invitation(&key, &leader, below, cx) {
            if let Some(received) = self.received.remove(&key) {
                received.clear_timers(cx);
            }
            cx.reply(to, Err(failure));
            let event = about(Status::GROUP_INVITE_FAILED, &id, &proc, cx);
            return self.tell_leader(&leader, event, below, cx);
        }
        let number = self.next.next();
        cx.timers.set(deadline, Timer::Invitation(number));
        if let Some(received) = self.received.get_mut(&key) {
            received.join = Some(Join { number, asked, directives, deadline, means });
        }
        let event = about(Status::GROUP_INVITE_ACCEPTED, &id, &proc, cx);
        self.tell_leader(&leader, event, below, cx);
    }

    /// Whether this process can give this answer to an invitation of this leader.
    fn check_join(
        &self,
        key: &(Nspace, ProcId),
        leader: &ProcId,
        answer: GroupOpt,
    ) -> Result<&Received, Failure> {
        let (id, proc) = key;
        let invited = self.received.get(key);
        let invited = invited.filter(|held| held.leader == *leader || held.former.contains(leader));
        let (status, message) = match (invited, answer) {
            (None, _) => {
                let message = format!(
                    "{leader} has not invited {proc} to group {id}, or no longer waits for an answer"
                );
                (Status::ERR_NOT_FOUND, message)
            }
            (Some(received), _) if received.join.is_some() => {
                (Status::ERR_INVALID_OPERATION, format!("{proc} has already accepted this invitation"))
            }
            (Some(received), GroupOpt::ACCEPT | GroupOpt::DECLINE) => return Ok(received),
            _ => (Status::ERR_BAD_PARAM, "accept the invitation, or decline it".to_owned()),
        };
        Err(Failure::new(status, message))
    }

    /// Whether a process of this node can become a member of the group to which a leader invites it.
    fn check_invitation(
        &self,
        (id, proc): &(Nspace, ProcId),
        leader: &ProcId,
        below: &Below<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        let Below { collectives, lower } = below;
        let is_led_here = self.sent.get(id).is_some_and(|held| held.asked.by.proc == *leader);
        // it may have ended on the leader's node already, and will do so here before this one enters
        let is_its_own = lower.groups.get(id).is_some_and(|group| group.has(proc))
            || collectives.is_constructing(id, proc);
        if is_led_here || is_its_own {
            return collectives.check_room_for_group(proc, lower.groups, cx);
        }
        collectives.check_coming_group(id, proc, lower, cx)
    }

    pub(super) fn on_invited(&mut self, told: &Told<'_>, below: &mut Below<'_>, cx: &mut Context) {
        let Told { id, event, .. } = *told;
        let Some(members) = told.list(&keys::GROUP_MEMBERSHIP) else { return };
        let (leader, members) = (&event.source, Arc::<[ProcId]>::from(members));
        for proc in members.iter().filter(|proc| *proc != leader) {
            if !told.is_heard_in(&proc.nspace, cx) {
                continue;
            }
            let Some(job) = cx.jobs.get(&proc.nspace).filter(|job| job.serves(proc.rank)) else {
                continue;
            };
            let key = (id.clone(), proc.clone());
            let is_taken = self.received.contains_key(&key)
                || self.of_invited(proc) >= MAX_GROUPS_OF_PROC
                || self.check_invitation(&key, leader, below, cx).is_err();
            if is_taken || job.departed.contains(proc.rank) {
                let event = about(Status::GROUP_INVITE_FAILED, id, proc, cx);
                self.tell_leader(leader, event, below, cx);
            } else {
                let received = Received {
                    number: self.next.next(),
                    leader: leader.clone(),
                    former: BTreeSet::new(),
                    members: members.clone(),
                    terms: terms_of(&event.info).collect::<Vec<_>>().into(),
                    join: None,
                    orphaned: None,
                };
                self.received.insert(key, received);
            }
        }
    }

    /// The members are known: those on this node enter the construct.
    pub(super) fn on_final_members(&mut self, told: &Told<'_>, below: &mut Below<'_>, cx: &mut Context) {
        let Told { id, about: leader, event, .. } = *told;
        let Some(members) = told.list(&keys::GROUP_MEMBERSHIP) else { return };
        let is_it = |(group, proc): &(Nspace, ProcId), held: &Received, cx: &Context| {
            group == id && held.leader == *leader && told.is_heard_in(&proc.nspace, cx)
        };
        for ((_, proc), received) in self.take(is_it, cx) {
            let Some(Join { asked, mut directives, deadline, means, .. }) = received.join else { continue };
            if !members.contains(&proc) {
                let message = format!("group {id} is made without {proc}");
                cx.reply(asked.to, Err(Failure::new(Status::ERR_NOT_A_MEMBER, message)));
                continue;
            }
            add_terms(&mut directives, &event.info);
            let partial = members.len() < received.members.len();
            let by_event = means != Means::Request;
            let invited = Invited { leads: false, partial, by_event, announced: false };
            let entry = Entry::invited(id.clone(), members.clone(), directives, invited, deadline);
            below.collectives.enter(&asked, entry, &mut below.lower, cx);
        }
    }

    /// Fails the joins of those who have accepted: the group is not made. Those whose leader has ended are left out: they wait for a
    /// new one.
    pub(super) fn end_joins(
        &mut self,
        id: &Nspace,
        leader: &ProcId,
        failure: &Failure,
        is_for: impl Fn(&ProcId, &Context) -> bool,
        cx: &mut Context,
    ) {
        let is_it = |(group, proc): &(Nspace, ProcId), held: &Received, cx: &Context| {
            group == id && held.leader == *leader && held.orphaned.is_none() && is_for(proc, cx)
        };
        for (_, received) in self.take(is_it, cx) {
            if let Some(join) = received.join {
                cx.reply(join.asked.to, Err(failure.clone()));
            }
        }
    }
}
