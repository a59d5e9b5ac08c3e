//! What changes invitations: events about groups, timeouts, and ends of processes.

use pmix_types::message::{Failure, Reply};
use pmix_types::{Event, Nspace, ProcId, Status, keys};

use super::table::{Below, Invites, Received, Told, given_up};
use crate::Asked;
use crate::context::Context;
use crate::group::{about, group_of};
use crate::notice::Notice;
use crate::participants::{Members, members_of, named_procs};
use crate::users::Voice;

impl Invites {
    /// Takes note of an event about a group, of another server or of this one.
    pub(crate) fn on_group_event(
        &mut self,
        event: &Event,
        voice: &Voice,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let Some(id) = group_of(event) else { return };
        let Ok(Some(about)) = event.info.get(&keys::EVENT_AFFECTED_PROC) else { return };
        let told = &Told { id: &id, about: &about, event, voice };
        match event.code {
            Status::GROUP_LEFT if event.source == about => below.lower.groups.leave(&id, &about),
            Status::GROUP_INVITED if event.source == about => self.on_invited(told, below, cx),
            // all others come from servers: no process can speak for another one
            _ if event.source == about => {}
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED => {
                self.on_answered(told, below, cx);
            }
            Status::GROUP_MEMBERSHIP_UPDATE => self.on_final_members(told, below, cx),
            Status::GROUP_CONSTRUCT_ABORT => {
                let failure = given_up(event.code, &id, &about);
                // one who has accepted too late is told alone: the others go on
                let named = told.list(&keys::EVENT_CUSTOM_RANGE);
                let is_named = |proc: &ProcId| named.as_ref().is_none_or(|named| named.contains(proc));
                let is_for =
                    |proc: &ProcId, cx: &Context| is_named(proc) && told.is_heard_in(&proc.nspace, cx);
                self.end_joins(&id, &about, &failure, is_for, cx);
                let members = below.collectives.undecided_construct(&id, &about);
                if members.is_some_and(|members| named_procs(&members).iter().any(|proc| is_for(proc, cx))) {
                    below.collectives.abort_construct(&id, &about, &failure, &mut below.lower, cx);
                }
            }
            Status::GROUP_LEADER_FAILED => self.on_leader_failed(&id, &about, voice, cx),
            Status::GROUP_LEADER_SELECTED => self.on_leader_selected(told, below, cx),
            _ => {}
        }
    }

    /// An event of a process that may be about a group that is being made. Gives the request back if it is not: the event
    /// is delivered as any other then.
    pub(crate) fn on_notify(
        &mut self,
        asked: Asked,
        event: &Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) -> Option<Asked> {
        let is_known = match event.code {
            Status::GROUP_CONSTRUCT_ABORT => self.on_abort(event, below, cx),
            Status::GROUP_LEADER_SELECTED => self.on_claim(event, below, cx),
            _ => None,
        };
        if is_known.is_some() {
            cx.reply(asked.to, Ok(Reply::Done));
            return None;
        }
        if speaks_for_another(event) {
            let message =
                format!("{}: a process can send this event of a group only about itself", event.code);
            cx.reply(asked.to, Err(Failure::new(Status::ERR_NO_PERMISSIONS, message)));
            return None;
        }
        match event.code {
            Status::GROUP_INVITED => self.on_invite_by_event(asked, event, below, cx),
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED => {
                self.on_answer_by_event(asked, event, below, cx)
            }
            Status::GROUP_CONSTRUCT_COMPLETE => self.on_announced(asked, event, below, cx),
            _ => Some(asked),
        }
    }

    /// A member gives up a group that is being made (GRP-07); `None` for a group that is not known.
    fn on_abort(&mut self, event: &Event, below: &mut Below<'_>, cx: &mut Context) -> Option<()> {
        let id = group_of(event)?;
        let by = &event.source;
        let leads = self.sent.get(&id).is_some_and(|held| held.asked.by.proc == *by);
        let failure = given_up(Status::GROUP_CONSTRUCT_ABORT, &id, by);
        if leads {
            self.fail(&id, failure, below, cx);
            return Some(());
        }
        if let Some(received) = self.received.remove(&(id.clone(), by.clone())) {
            received.clear_timers(cx);
            if let Some(join) = received.join {
                cx.reply(join.asked.to, Err(failure));
            }
            let event = about(Status::GROUP_INVITE_DECLINED, &id, by, cx);
            self.tell_leader(&received.leader, event, below, cx);
            return Some(());
        }
        // if the host of this node has been asked already, a node whose host has not makes it fail for all
        let Some(members) = below.collectives.undecided_construct(&id, by) else {
            // an event that comes too late is not delivered
            return below.collectives.is_group(&id, below.lower.groups).then_some(());
        };
        below.collectives.abort_construct(&id, by, &failure, &mut below.lower, cx);
        let event = about(Status::GROUP_CONSTRUCT_ABORT, &id, by, cx);
        self.tell_except(&members, Some(by), event, below, cx);
        Some(())
    }

    pub(crate) fn on_timeout(&mut self, number: u64, below: &mut Below<'_>, cx: &mut Context) {
        let sent = self.sent.iter().find(|(_, held)| held.number == number);
        if let Some((id, invitation)) = sent {
            let missing = named_procs(&invitation.open);
            let message = format!("group {id}: not all invited processes have answered");
            let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(missing);
            let id = id.clone();
            return self.fail(&id, failure, below, cx);
        }
        let is_orphan = |received: &Received| received.orphaned.is_some_and(|(timer, _)| timer == number);
        let is_join = |received: &Received| received.join.as_ref().is_some_and(|join| join.number == number);
        let found = self.received.iter().find(|(_, received)| is_orphan(received) || is_join(received));
        let Some(key) = found.map(|(key, _)| key.clone()) else { return };
        let Some(received) = self.received.remove(&key) else { return };
        received.clear_timers(cx);
        let (id, proc) = key;
        if is_orphan(&received) {
            // no other process has become the leader in time
            if let Some(join) = received.join {
                let failure = given_up(Status::GROUP_LEADER_FAILED, &id, &received.leader);
                cx.reply(join.asked.to, Err(failure));
            }
            return;
        }
        if let Some(join) = received.join {
            let message = format!("group {id}: it was not complete in time");
            cx.reply(join.asked.to, Err(Failure::new(Status::ERR_TIMEOUT, message)));
        }
        let event = about(Status::GROUP_INVITE_DECLINED, &id, &proc, cx);
        self.tell_leader(&received.leader, event, below, cx);
    }

    /// A process has ended or finalized: it no longer leads or joins a group.
    pub(crate) fn proc_gone(&mut self, proc: &ProcId, below: &mut Below<'_>, cx: &mut Context) {
        self.end_in_constructs(proc, below, cx);
        self.end_those(|other| other == proc, below, cx);
    }

    /// The same with all processes of a namespace.
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace, below: &mut Below<'_>, cx: &mut Context) {
        self.end_those(|proc| proc.nspace == *nspace, below, cx);
        // its node may have forgotten the leader before it hears of an answer
        let led = self.received.iter().filter(|(_, held)| held.leader.nspace == *nspace);
        let led: Vec<_> = led.map(|((id, _), held)| (id.clone(), held.leader.clone())).collect();
        led.iter().for_each(|(id, leader)| self.on_leader_failed(id, leader, &Voice::Trusted, cx));
    }

    /// Processes have ended: the processes that they have invited, or that have invited them, are notified.
    fn end_those(&mut self, is_it: impl Fn(&ProcId) -> bool, below: &mut Below<'_>, cx: &mut Context) {
        let led = self.sent.iter().filter(|(_, held)| is_it(&held.asked.by.proc));
        for id in led.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let message = format!("group {id}: its leader has ended");
            let failure = Failure::new(Status::GROUP_LEADER_FAILED, message);
            self.end(&id, Status::GROUP_LEADER_FAILED, failure, below, cx);
        }
        for ((id, proc), received) in self.take(|(_, proc), _, _| is_it(proc), cx) {
            if let Some(join) = received.join {
                let message = format!("group {id}: {proc} has ended or finalized");
                cx.reply(join.asked.to, Err(Failure::new(Status::ERR_LOST_CONNECTION, message)));
            }
            let event = about(Status::GROUP_INVITE_FAILED, &id, &proc, cx);
            self.tell_leader(&received.leader, event, below, cx);
        }
    }

    pub(super) fn tell_leader(
        &mut self,
        leader: &ProcId,
        event: Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        self.tell(&members_of([leader]), event, below, cx);
    }

    pub(super) fn tell(&mut self, those: &Members, event: Event, below: &mut Below<'_>, cx: &mut Context) {
        self.tell_except(those, None, event, below, cx);
    }

    /// Gives an event to these processes. It takes effect on this node before other nodes hear of it.
    pub(super) fn tell_except(
        &mut self,
        those: &Members,
        except: Option<&ProcId>,
        event: Event,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        // the events of this module are about the process that acts
        let about = event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten();
        let voice = about.map_or(Voice::Trusted, |about| cx.voice_for(&about));
        let notice = Notice::everywhere(event, voice.clone());
        if let Some(event) = notice.tell_here(those, |proc| except == Some(proc), below.lower.events, cx) {
            self.on_group_event(&event, &voice, below, cx);
        }
        notice.tell_others(those, cx);
    }
}

/// Whether an event of a process would be taken for one of its server about another process.
fn speaks_for_another(event: &Event) -> bool {
    let is_of_servers = matches!(
        event.code,
        Status::GROUP_LEFT
            | Status::GROUP_INVITED
            | Status::GROUP_INVITE_ACCEPTED
            | Status::GROUP_INVITE_DECLINED
            | Status::GROUP_INVITE_FAILED
            | Status::GROUP_MEMBERSHIP_UPDATE
            | Status::GROUP_CONSTRUCT_ABORT
            | Status::GROUP_CONSTRUCT_COMPLETE
            | Status::GROUP_LEADER_FAILED
            | Status::GROUP_LEADER_SELECTED
    );
    let about = event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten();
    is_of_servers
        && event.info.get_value(keys::GROUP_ID.name()).is_some()
        && about.is_some_and(|about| about != event.source)
}
