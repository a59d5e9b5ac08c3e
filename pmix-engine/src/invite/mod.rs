//! Groups by invitation (GRP-03): who is asked, who has answered, and what becomes of it.
//!
//! Servers tell each other by the events that processes hear too: `GROUP_INVITED`, the answers, and then either
//! `GROUP_MEMBERSHIP_UPDATE` with the final members, who enter a construct of their own, or the reason why not.
//! [`EVENT_AFFECTED_PROC`](keys::EVENT_AFFECTED_PROC) names whom it is of: the leader, or who answers. The C library tells
//! of its invitations without that key, and counts the answers itself.

mod succession;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, GroupInvite, GroupJoin, Reply};
use pmix_types::{DataArray, Directives, Event, GroupOpt, Info, Key, Memory, Nspace, ProcId, Status, keys};

use super::assembly::Notice;
use super::collective::{Entry, Invited};
use super::groups::MAX_GROUPS_OF_PROC;
use super::ids::Counter;
use super::signature::{Members, Operation, name_in};
use super::timers::{Timer, deadline};
use super::upcall::Upcall;
use super::users::{Voice, not_own};
use super::{Asked, Engine};

/// How long those who have accepted wait for another leader when theirs has ended.
const SUCCESSION: Duration = Duration::from_secs(5);

/// What the list of those who are invited together may take: it is kept for each of them.
const MAX_INVITED: usize = 4 << 20;

/// What a leader asks for holds on all nodes, and for who takes its place.
const TERMS: [&Key<bool>; 3] =
    [&keys::GROUP_OPTIONAL, &keys::GROUP_NOTIFY_TERMINATION, &keys::GROUP_ASSIGN_CONTEXT_ID];

/// All invitations that are not answered in full.
#[derive(Debug, Default)]
pub(super) struct Invites {
    /// Of leaders on this node, by the group's id.
    sent: BTreeMap<Nspace, Invitation>,
    /// To processes on this node.
    received: BTreeMap<(Nspace, ProcId), Received>,
    next: Counter,
}

/// What a leader waits for.
#[derive(Debug)]
struct Invitation {
    number: u64,
    asked: Asked,
    directives: Directives,
    deadline: Option<Instant>,
    /// The leader and all who were invited, in the order of their ranks.
    order: Vec<ProcId>,
    /// Who has not answered.
    open: Members,
    /// Who will not be a member.
    lost: BTreeSet<ProcId>,
}

/// An invitation that a process has got.
#[derive(Debug)]
struct Received {
    /// Who gets the answer.
    leader: ProcId,
    /// Leaders before, who have ended.
    former: BTreeSet<ProcId>,
    /// Who were to be members.
    members: Arc<[ProcId]>,
    /// What the group is to be like.
    terms: Directives,
    /// It has been accepted.
    join: Option<Join>,
    /// The leader has ended: until then another one may take its place, by this timer.
    orphaned: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Join {
    number: u64,
    asked: Asked,
    directives: Directives,
    deadline: Option<Instant>,
}

impl Invites {
    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.sent.len() + self.received.values().filter(|received| received.join.is_some()).count()
    }

    pub(super) fn has(&self, id: &Nspace) -> bool {
        self.sent.contains_key(id)
    }

    fn of_leader(&self, leader: &ProcId) -> usize {
        self.sent.values().filter(|invitation| invitation.asked.by.proc == *leader).count()
    }

    /// Takes some of what was received.
    fn take(
        &mut self,
        which: impl Fn(&(Nspace, ProcId), &Received) -> bool,
    ) -> BTreeMap<(Nspace, ProcId), Received> {
        let all = std::mem::take(&mut self.received).into_iter();
        let (taken, kept) = all.partition(|(key, received)| which(key, received));
        self.received = kept;
        taken
    }

    fn of_invited(&self, proc: &ProcId) -> usize {
        self.received.keys().filter(|(_, other)| other == proc).count()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }
}

impl Engine {
    pub(super) fn on_group_invite(&mut self, asked: Asked, invite: GroupInvite) {
        let GroupInvite { group: id, procs, directives, .. } = invite;
        let to = asked.to;
        match self.new_invitation(&id, asked, &procs, directives) {
            Err(failure) => self.cx.reply(to, Err(failure)),
            Ok(invitation) => {
                let Invitation { number, deadline, .. } = invitation;
                self.cx.timers.set(deadline, Timer::Invitation(number));
                let leader = invitation.asked.by.proc.clone();
                let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(invitation.order.clone()));
                let terms: Vec<_> = terms_of(&invitation.directives).collect();
                let invited = invitation.open.clone();
                self.invites.sent.insert(id.clone(), invitation);
                let mut event = self.of_group(Status::GROUP_INVITED, &id, &leader).with_info(members);
                // it comes from whom to answer
                event.source = leader;
                event.info.extend(terms);
                self.tell_those(&invited, event);
            }
        }
    }

    fn new_invitation(
        &mut self,
        id: &Nspace,
        asked: Asked,
        procs: &[ProcId],
        mut directives: Directives,
    ) -> Result<Invitation, Failure> {
        let leader = &asked.by.proc;
        if self.cx.client(leader).is_none() {
            let message = format!("{leader} cannot lead a group: it is no process of a job here");
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        self.check_new_group(id, leader)?;
        if self.is_group(id) {
            return Err(Failure::new(Status::ERR_EXISTS, "others are making a group of this id"));
        }
        if self.invites.of_leader(leader) >= MAX_GROUPS_OF_PROC {
            let message = format!("{leader} has invited to {MAX_GROUPS_OF_PROC} groups already");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut order = self.one_by_one(procs);
        if let Some(nobody) = order.iter().find(|proc| proc.nspace.is_empty() || !proc.rank.is_valid()) {
            let message = format!("{nobody} cannot be invited: name processes that are known here");
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if let Some(other) = order.iter().find(|proc| !self.cx.may_see(leader, asked.by.uid, &proc.nspace)) {
            return Err(not_own(asked.by.uid, &other.nspace));
        }
        if order.memory() > MAX_INVITED {
            let message =
                format!("a list of members of {} bytes, the limit is {MAX_INVITED}", order.memory());
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        if !order.contains(leader) {
            order.insert(0, leader.clone());
        }
        let mut open = Members::new();
        order.iter().filter(|proc| *proc != leader).for_each(|proc| name_in(&mut open, proc));
        if open.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "nobody is invited"));
        }
        let is_here =
            |proc: &ProcId| self.cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank));
        if !order.iter().all(is_here) && !self.cx.config.capabilities.has(Upcall::NotifyEvent) {
            return Err(super::not_supported("an invitation of processes on other nodes"));
        }
        let deadline = deadline(asked.at, &mut directives)?;
        let number = self.invites.next.next();
        Ok(Invitation { number, asked, directives, deadline, order, open, lost: BTreeSet::new() })
    }

    pub(super) fn on_group_join(&mut self, asked: Asked, join: GroupJoin) {
        let GroupJoin { group: id, leader, answer, mut directives, .. } = join;
        let (proc, to) = (asked.by.proc.clone(), asked.to);
        let key = (id.clone(), proc.clone());
        let invited = self.invites.received.get(&key);
        let invited = invited.filter(|held| held.leader == leader || held.former.contains(&leader));
        let refused = match (invited, answer) {
            (None, _) => {
                let message = format!("{leader} has not invited {proc} to a group {id}, or waits no more");
                Some(Failure::new(Status::ERR_NOT_FOUND, message))
            }
            (Some(received), _) if received.join.is_some() => {
                let message = format!("{proc} has accepted this invitation already");
                Some(Failure::new(Status::ERR_INVALID_OPERATION, message))
            }
            (_, GroupOpt::ACCEPT | GroupOpt::DECLINE) => None,
            _ => Some(Failure::new(Status::ERR_BAD_PARAM, "accept the invitation, or decline it")),
        };
        let until = match refused {
            Some(failure) => Err(failure),
            None => deadline(asked.at, &mut directives),
        };
        let deadline = match until {
            Ok(deadline) => deadline,
            Err(failure) => return self.cx.reply(to, Err(failure)),
        };
        if answer == GroupOpt::DECLINE {
            let received = self.invites.received.remove(&key);
            let leader = received.map_or(leader, |received| {
                self.clear_timers(&received);
                received.leader
            });
            self.cx.reply(to, Ok(Reply::Done));
            return self.tell_leader(&leader, self.of_group(Status::GROUP_INVITE_DECLINED, &id, &proc));
        }
        let number = self.invites.next.next();
        self.cx.timers.set(deadline, Timer::Invitation(number));
        let mut leader = leader;
        if let Some(received) = self.invites.received.get_mut(&key) {
            received.join = Some(Join { number, asked, directives, deadline });
            leader.clone_from(&received.leader);
        }
        self.tell_leader(&leader, self.of_group(Status::GROUP_INVITE_ACCEPTED, &id, &proc));
    }

    /// Takes note of what is told of a group: by another server, or by this one.
    pub(super) fn on_group_event(&mut self, event: &Event, voice: &Voice) {
        let Ok(Some(id)) = event.info.get(&keys::GROUP_ID) else { return };
        let Ok(id) = Nspace::new(id) else { return };
        let Ok(Some(about)) = event.info.get(&keys::EVENT_AFFECTED_PROC) else { return };
        match event.code {
            Status::GROUP_LEFT if event.source == about => self.collectives.groups.leave(&id, &about),
            Status::GROUP_INVITED if event.source == about => self.on_invited(&id, event, voice),
            // the rest is for servers to say: no process can speak for another, and this one speaks for itself
            _ if event.source == about => {}
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED => {
                self.on_answered(&id, event, &about);
            }
            Status::GROUP_MEMBERSHIP_UPDATE => self.on_final_members(&id, event, &about),
            Status::GROUP_CONSTRUCT_ABORT => {
                let failure = given_up(event.code, &id, &about);
                self.end_joins(&id, &about, &failure);
                self.abort_construct(&id, &about, &failure);
            }
            Status::GROUP_LEADER_FAILED => self.on_leader_failed(&id, &about),
            Status::GROUP_LEADER_SELECTED => self.on_leader_selected(&id, event, &about),
            _ => {}
        }
    }

    fn on_invited(&mut self, id: &Nspace, event: &Event, voice: &Voice) {
        let Ok(Some(DataArray::Proc(members))) = event.info.get(&keys::GROUP_MEMBERSHIP) else { return };
        let (leader, members) = (&event.source, Arc::<[ProcId]>::from(members));
        for proc in members.iter().filter(|proc| *proc != leader) {
            if !self.cx.is_heard_in(voice, &proc.nspace) {
                continue;
            }
            let Some(job) = self.cx.jobs.get(&proc.nspace).filter(|job| job.is_local(proc.rank)) else {
                continue;
            };
            let key = (id.clone(), proc.clone());
            let is_taken = self.invites.received.contains_key(&key)
                || self.invites.of_invited(proc) >= MAX_GROUPS_OF_PROC;
            if is_taken || job.departed.contains(proc.rank) {
                self.tell_leader(leader, self.of_group(Status::GROUP_INVITE_FAILED, id, proc));
            } else {
                let received = Received {
                    leader: leader.clone(),
                    former: BTreeSet::new(),
                    members: members.clone(),
                    terms: terms_of(&event.info).collect::<Vec<_>>().into(),
                    join: None,
                    orphaned: None,
                };
                self.invites.received.insert(key, received);
            }
        }
    }

    /// The leader's server counts (GRP-03).
    fn on_answered(&mut self, id: &Nspace, event: &Event, who: &ProcId) {
        let accepts = event.code == Status::GROUP_INVITE_ACCEPTED;
        let leader = match event.info.get(&keys::EVENT_CUSTOM_RANGE) {
            Ok(Some(DataArray::Proc(range))) => range.into_iter().next(),
            _ => None,
        };
        let Some(leader) = leader.filter(|leader| self.cx.client(leader).is_some()) else { return };
        let invitation = self.invites.sent.get_mut(id).filter(|held| held.asked.by.proc == leader);
        let is_awaited =
            |held: &Invitation| *who != leader && held.order.contains(who) && !held.lost.contains(who);
        let Some(invitation) = invitation.filter(|held| is_awaited(held)) else {
            // it comes too late, and somebody waits for it
            if accepts && !self.invites.received.contains_key(&(id.clone(), leader.clone())) {
                let mut late = Members::new();
                name_in(&mut late, who);
                let event = self.of_group(Status::GROUP_CONSTRUCT_ABORT, id, &leader);
                self.tell_those(&late, event);
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
                return self.fail_invitation(id, failure.with_procs(vec![who.clone()]));
            }
        }
        if invitation.open.is_empty() {
            self.make_of_invited(id);
        }
    }

    /// All have answered: who has accepted enters a construct with the leader.
    fn make_of_invited(&mut self, id: &Nspace) {
        let Some(invitation) = self.invites.sent.remove(id) else { return };
        let Invitation { number, asked, directives, deadline, order, lost, .. } = invitation;
        self.cx.timers.clear(deadline, Timer::Invitation(number));
        let leader = asked.by.proc.clone();
        let members: Vec<_> = order.into_iter().filter(|proc| !lost.contains(proc)).collect();
        let mut others = Members::new();
        members.iter().filter(|proc| **proc != leader).for_each(|proc| name_in(&mut others, proc));
        let mut event = self
            .of_group(Status::GROUP_MEMBERSHIP_UPDATE, id, &leader)
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.clone())));
        event.info.extend(terms_of(&directives));
        self.tell_those(&others, event);
        let invited = Some(Invited { leads: true, partial: !lost.is_empty(), until: deadline });
        let operation = Operation::Construct(id.clone());
        self.on_enter(&asked, Entry { operation, procs: members, directives, invited });
    }

    /// The members are known: those on this node enter the construct.
    fn on_final_members(&mut self, id: &Nspace, event: &Event, leader: &ProcId) {
        let Ok(Some(DataArray::Proc(members))) = event.info.get(&keys::GROUP_MEMBERSHIP) else { return };
        for (proc, received) in self.take_received(id, leader) {
            let Some(Join { asked, mut directives, deadline, .. }) = received.join else { continue };
            if !members.contains(&proc) {
                let message = format!("group {id} is made without {proc}");
                self.cx.reply(asked.to, Err(Failure::new(Status::ERR_NOT_A_MEMBER, message)));
                continue;
            }
            add_terms(&mut directives, &event.info);
            let partial = members.len() < received.members.len();
            let invited = Some(Invited { leads: false, partial, until: deadline });
            let (operation, procs) = (Operation::Construct(id.clone()), members.clone());
            self.on_enter(&asked, Entry { operation, procs, directives, invited });
        }
    }

    /// Takes what this leader has asked processes of this node.
    fn take_received(&mut self, id: &Nspace, leader: &ProcId) -> Vec<(ProcId, Received)> {
        let concerns = |group: &Nspace, received: &Received| group == id && received.leader == *leader;
        let taken = self.invites.take(|(group, _), received| concerns(group, received));
        let taken: Vec<_> = taken.into_iter().map(|((_, proc), received)| (proc, received)).collect();
        taken.iter().for_each(|(_, received)| self.clear_timers(received));
        taken
    }

    fn clear_timers(&mut self, received: &Received) {
        if let Some(join) = &received.join {
            self.cx.timers.clear(join.deadline, Timer::Invitation(join.number));
        }
        if let Some((number, until)) = received.orphaned {
            self.cx.timers.clear(Some(until), Timer::Invitation(number));
        }
    }

    fn end_joins(&mut self, id: &Nspace, leader: &ProcId, failure: &Failure) {
        for (_, received) in self.take_received(id, leader) {
            if let Some(join) = received.join {
                self.cx.reply(join.asked.to, Err(failure.clone()));
            }
        }
    }

    /// Nothing comes of an invitation: the leader gets to know why, the others that it is so.
    fn fail_invitation(&mut self, id: &Nspace, failure: Failure) {
        self.drop_invitation(id, Status::GROUP_CONSTRUCT_ABORT, failure);
    }

    fn drop_invitation(&mut self, id: &Nspace, code: Status, failure: Failure) {
        let Some(invitation) = self.invites.sent.remove(id) else { return };
        let Invitation { number, asked, deadline, order, lost, .. } = invitation;
        self.cx.timers.clear(deadline, Timer::Invitation(number));
        self.cx.reply(asked.to, Err(failure));
        let leader = asked.by.proc;
        let mut others = Members::new();
        let is_other = |proc: &&ProcId| **proc != leader && !lost.contains(*proc);
        order.iter().filter(is_other).for_each(|proc| name_in(&mut others, proc));
        let event = self.of_group(code, id, &leader);
        self.tell_those(&others, event);
    }

    pub(super) fn on_invitation_timeout(&mut self, number: u64) {
        let sent = self.invites.sent.iter().find(|(_, held)| held.number == number);
        if let Some((id, invitation)) = sent {
            let missing = super::signature::named_procs(&invitation.open);
            let message = format!("group {id}: not all who were invited have answered");
            let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(missing);
            let id = id.clone();
            return self.fail_invitation(&id, failure);
        }
        let is_orphan = |received: &Received| received.orphaned.is_some_and(|(timer, _)| timer == number);
        let is_join = |received: &Received| received.join.as_ref().is_some_and(|join| join.number == number);
        let found =
            self.invites.received.iter().find(|(_, received)| is_orphan(received) || is_join(received));
        let Some(key) = found.map(|(key, _)| key.clone()) else { return };
        let Some(received) = self.invites.received.remove(&key) else { return };
        self.clear_timers(&received);
        let (id, proc) = key;
        if is_orphan(&received) {
            // nobody has taken the place of the leader
            if let Some(join) = received.join {
                let failure = given_up(Status::GROUP_LEADER_FAILED, &id, &received.leader);
                self.cx.reply(join.asked.to, Err(failure));
            }
            return;
        }
        if let Some(join) = received.join {
            let message = format!("group {id}: it was not complete in time");
            self.cx.reply(join.asked.to, Err(Failure::new(Status::ERR_TIMEOUT, message)));
        }
        self.tell_leader(&received.leader, self.of_group(Status::GROUP_INVITE_DECLINED, &id, &proc));
    }

    /// A process has ended: who was invited by it or has invited it hears of that.
    pub(super) fn end_in_invites(&mut self, is_it: impl Fn(&ProcId) -> bool) {
        let led = self.invites.sent.iter().filter(|(_, held)| is_it(&held.asked.by.proc));
        for id in led.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let failure =
                Failure::new(Status::GROUP_LEADER_FAILED, format!("group {id}: its leader has ended"));
            self.drop_invitation(&id, Status::GROUP_LEADER_FAILED, failure);
        }
        for ((id, proc), received) in self.invites.take(|(_, proc), _| is_it(proc)) {
            self.clear_timers(&received);
            if let Some(join) = received.join {
                let message = format!("group {id}: {proc} takes part in nothing any more");
                self.cx.reply(join.asked.to, Err(Failure::new(Status::ERR_LOST_CONNECTION, message)));
            }
            self.tell_leader(&received.leader, self.of_group(Status::GROUP_INVITE_FAILED, &id, &proc));
        }
    }

    /// A member gives up a group that is being made (GRP-07); `None` for a group that is not known.
    pub(super) fn on_abort_event(&mut self, event: &Event) -> Option<()> {
        let id = Nspace::new(event.info.get(&keys::GROUP_ID).ok()??).ok()?;
        let by = &event.source;
        let leads = self.invites.sent.get(&id).is_some_and(|held| held.asked.by.proc == *by);
        let key = (id.clone(), by.clone());
        let failure = given_up(Status::GROUP_CONSTRUCT_ABORT, &id, by);
        if leads {
            self.fail_invitation(&id, failure);
            return Some(());
        }
        if let Some(received) = self.invites.received.remove(&key) {
            self.clear_timers(&received);
            if let Some(join) = received.join {
                self.cx.reply(join.asked.to, Err(failure));
            }
            self.tell_leader(&received.leader, self.of_group(Status::GROUP_INVITE_DECLINED, &id, by));
            return Some(());
        }
        // where the host has been asked already, a node that has not asked its own makes it fail for all
        let Some(procs) = self.undecided_construct(&id, by).map(|signature| signature.procs.clone()) else {
            // what comes too late is not for others to hear
            return self.is_group(&id).then_some(());
        };
        self.abort_construct(&id, by, &failure);
        let event = self.of_group(Status::GROUP_CONSTRUCT_ABORT, &id, by);
        self.tell(&procs, |other| other == by, Notice { event, beyond: true });
        Some(())
    }

    fn tell_those(&mut self, those: &Members, event: Event) {
        self.tell(those, |_| false, Notice { event, beyond: true });
    }

    fn tell_leader(&mut self, leader: &ProcId, event: Event) {
        let mut only = Members::new();
        name_in(&mut only, leader);
        self.tell_those(&only, event);
    }
}

/// Whether an event of a process would be taken for the word of its server about another process.
pub(super) fn speaks_for_another(event: &Event) -> bool {
    let is_of_servers = matches!(
        event.code,
        Status::GROUP_LEFT
            | Status::GROUP_INVITED
            | Status::GROUP_INVITE_ACCEPTED
            | Status::GROUP_INVITE_DECLINED
            | Status::GROUP_INVITE_FAILED
            | Status::GROUP_MEMBERSHIP_UPDATE
            | Status::GROUP_CONSTRUCT_ABORT
            | Status::GROUP_LEADER_FAILED
            | Status::GROUP_LEADER_SELECTED
    );
    let about = event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten();
    is_of_servers
        && event.info.get_value(keys::GROUP_ID.name()).is_some()
        && about.is_some_and(|about| about != event.source)
}

/// What of these holds on all nodes.
fn terms_of(directives: &Directives) -> impl Iterator<Item = Info> {
    TERMS.into_iter().filter(|key| directives.flag(key).unwrap_or_default()).map(|key| Info::new(key, true))
}

fn add_terms(directives: &mut Directives, terms: &Directives) {
    for info in terms_of(terms) {
        if directives.get_value(&info.key).is_none() {
            directives.push(info);
        }
    }
}

fn given_up(code: Status, id: &Nspace, by: &ProcId) -> Failure {
    let why = if code == Status::GROUP_LEADER_FAILED { "its leader has ended" } else { "it was given up" };
    Failure::new(code, format!("group {id} is not made: {why}")).with_procs(vec![by.clone()])
}
