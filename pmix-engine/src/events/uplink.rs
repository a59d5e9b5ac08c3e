use std::collections::{BTreeMap, VecDeque};

use pmix_types::message::Reply;
use pmix_types::{DataRange, Event, ProcId, Status, keys};

use crate::context::{Context, Owner};
use crate::ids::ReplyTo;
use crate::upcall::Upcall;
use crate::{Asked, Caller, ConnId, UpcallRequest};

/// Events of one process that are accepted (EVT-17) while the host is busy with an earlier one. A process that notifies
/// more has to wait.
const MAX_ACCEPTED: usize = 64;

/// Events on their way to the host (EVT-19), one at a time for each process to keep their order.
///
/// The host's answer does not matter: the event is accepted, and local processes have received it.
#[derive(Debug, Default)]
pub(super) struct Uplink(BTreeMap<ProcId, VecDeque<WaitingEvent>>);

/// An event that waits behind the one that the host is busy with.
#[derive(Debug)]
struct WaitingEvent {
    caller: Caller,
    event: Event,
    /// Who waits until it is accepted.
    to: Option<ReplyTo>,
}

impl Uplink {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes an event of a process to the host, if it reaches beyond this node, and answers the process.
    pub(super) fn pass_up(&mut self, asked: Asked, event: Event, cx: &mut Context) {
        let Asked { by: caller, to, .. } = asked;
        if !reaches_further(&event, cx) {
            return cx.reply(to, Ok(Reply::Done));
        }
        let Some(waiting) = self.0.get_mut(&event.source) else {
            self.0.insert(event.source.clone(), VecDeque::new());
            cx.reply(to, Ok(Reply::Done));
            return hand_up(caller, event, cx);
        };
        let is_accepted = waiting.len() < MAX_ACCEPTED;
        waiting.push_back(WaitingEvent { caller, event, to: (!is_accepted).then_some(to) });
        if is_accepted {
            cx.reply(to, Ok(Reply::Done));
        }
    }

    pub(super) fn on_handed_up(&mut self, source: &ProcId, cx: &mut Context) {
        let Some(waiting) = self.0.get_mut(source) else { return };
        let Some(next) = waiting.pop_front() else {
            self.0.remove(source);
            return;
        };
        let accepted = waiting.get_mut(MAX_ACCEPTED - 1).and_then(|waiting| waiting.to.take());
        hand_up(next.caller, next.event, cx);
        if let Some(to) = accepted {
            cx.reply(to, Ok(Reply::Done));
        }
    }

    /// Drops events of this connection that were not accepted yet.
    pub(super) fn forget(&mut self, conn: ConnId) {
        for waiting in self.0.values_mut() {
            waiting.retain(|waiting| waiting.to.is_none_or(|to| to.conn != conn));
        }
    }
}

/// Passes an event to the host that the server has created on behalf of a process.
pub(super) fn pass_alarm_up(caller: Caller, event: Event, cx: &mut Context) {
    if reaches_further(&event, cx) {
        cx.upcall(Owner::Notice, caller, UpcallRequest::NotifyEvent(event));
    }
}

fn hand_up(caller: Caller, event: Event, cx: &mut Context) {
    let owner = Owner::EventUp(event.source.clone());
    cx.upcall(owner, caller, UpcallRequest::NotifyEvent(event));
}

fn reaches_further(event: &Event, cx: &Context) -> bool {
    let may_go = cx.config.capabilities.has(Upcall::NotifyEvent)
        && !event.info.flag(&keys::EVENT_STAYS_LOCAL).unwrap_or(false);
    may_go
        && match event.range {
            DataRange::RM | DataRange::NAMESPACE | DataRange::SESSION | DataRange::GLOBAL => true,
            // whoever watches over the job that is released may be on another node
            DataRange::CUSTOM if event.code == Status::DEBUGGER_RELEASE => true,
            DataRange::CUSTOM => event.custom_range().iter().any(|proc| !cx.is_here(proc)),
            _ => false,
        }
}
