use std::collections::{BTreeMap, VecDeque};

use pmix_types::message::Reply;
use pmix_types::{DataRange, Event, ProcId, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::Upcall;
use super::super::{Asked, Caller, ConnId, Engine, UpcallPurpose, UpcallRequest};

/// Events of one process that are taken (EVT-17) while the host is busy with an earlier one. Who tells of more has
/// to wait.
const MAX_TAKEN: usize = 64;

/// Events on their way to the host (EVT-19): one at a time of each process, so that their order is kept.
///
/// What the host answers matters to nobody: the event is taken, and local processes have heard of it.
#[derive(Debug, Default)]
pub(crate) struct Uplink(BTreeMap<ProcId, VecDeque<Waiting>>);

/// An event behind the one that the host is busy with.
#[derive(Debug)]
struct Waiting {
    caller: Caller,
    event: Event,
    /// Who waits until it is taken.
    to: Option<ReplyTo>,
}

impl Uplink {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Engine {
    /// Hands an event of a process to the host, if it reaches further than this node, and answers the process.
    pub(super) fn pass_event_up(&mut self, asked: Asked, event: Event) {
        let Asked { by: caller, to, .. } = asked;
        if !self.reaches_further(&event) {
            return self.cx.reply(to, Ok(Reply::Done));
        }
        let Some(waiting) = self.events.uplink.0.get_mut(&event.source) else {
            self.events.uplink.0.insert(event.source.clone(), VecDeque::new());
            self.cx.reply(to, Ok(Reply::Done));
            return self.hand_up(caller, event);
        };
        let is_taken = waiting.len() < MAX_TAKEN;
        waiting.push_back(Waiting { caller, event, to: (!is_taken).then_some(to) });
        if is_taken {
            self.cx.reply(to, Ok(Reply::Done));
        }
    }

    /// The same with an event that the server has made for a process.
    pub(crate) fn pass_alarm_up(&mut self, caller: Caller, event: Event) {
        if self.reaches_further(&event) {
            self.cx.upcall(UpcallPurpose::Notice, caller, UpcallRequest::NotifyEvent(event));
        }
    }

    /// The host is done with an event, whatever it made of it.
    pub(crate) fn on_event_handed_up(&mut self, source: &ProcId) {
        let Some(waiting) = self.events.uplink.0.get_mut(source) else { return };
        let Some(next) = waiting.pop_front() else {
            self.events.uplink.0.remove(source);
            return;
        };
        let taken = waiting.get_mut(MAX_TAKEN - 1).and_then(|waiting| waiting.to.take());
        self.hand_up(next.caller, next.event);
        if let Some(to) = taken {
            self.cx.reply(to, Ok(Reply::Done));
        }
    }

    /// What was not taken before its process left is not told.
    pub(crate) fn forget_untaken_events(&mut self, conn: ConnId) {
        for waiting in self.events.uplink.0.values_mut() {
            waiting.retain(|waiting| waiting.to.is_none_or(|to| to.conn != conn));
        }
    }

    fn hand_up(&mut self, caller: Caller, event: Event) {
        let purpose = UpcallPurpose::EventUp(event.source.clone());
        self.cx.upcall(purpose, caller, UpcallRequest::NotifyEvent(event));
    }

    fn reaches_further(&self, event: &Event) -> bool {
        let may_go = self.cx.config.capabilities.has(Upcall::NotifyEvent)
            && !event.info.flag(&keys::EVENT_STAYS_LOCAL).unwrap_or(false);
        may_go
            && match event.range {
                DataRange::RM | DataRange::NAMESPACE | DataRange::SESSION | DataRange::GLOBAL => true,
                DataRange::CUSTOM => event.custom_range().iter().any(|proc| !self.is_here(proc)),
                _ => false,
            }
    }
}
