//! The task in which a process's handlers run, so that none of them can hold up the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use pmix_types::{DataRange, Event, Info, ProcId, Status, keys};
use tokio::sync::mpsc;

use super::handler::{Handler, HandlerCall, HandlerOutcome, HandlerResult};

/// Events that may wait for the handlers to come to an end with an earlier one.
const CAPACITY: usize = 512;

/// Tells the server of an event, ready when it has answered. Failures are nobody's concern: a group that is complete or
/// given up by now does not need to hear of it.
pub(crate) type Tell = Box<dyn Fn(Event) -> BoxFuture<'static, ()> + Send + Sync>;

/// Runs the chains, one event after the other. Dropped, it comes to an end with what it was given.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    runs: mpsc::UnboundedSender<Run>,
    /// How many wait: what keeps the channel bounded.
    waiting: Arc<AtomicUsize>,
}

/// An event and its handlers in the order of the chain.
#[derive(Debug)]
struct Run {
    event: Event,
    handlers: Vec<Arc<Handler>>,
}

impl Runner {
    /// Starts on the runtime of the caller.
    pub(crate) fn start(tell: Tell) -> Self {
        let (runs, received) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(run(received, waiting.clone(), tell));
        Self { runs, waiting }
    }

    /// Whether the runtime on which it was started has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.runs.is_closed()
    }

    /// Hands an event to handlers; if too many wait already they are told that they have missed one.
    pub(crate) fn hand(&self, event: &Event, handlers: Vec<Arc<Handler>>) {
        if self.waiting.load(Ordering::Acquire) >= CAPACITY {
            handlers.iter().for_each(|handler| handler.miss(1));
        } else {
            self.hand_surely(event, handlers);
        }
    }

    /// Hands over an event that is the last one.
    pub(crate) fn hand_surely(&self, event: &Event, handlers: Vec<Arc<Handler>>) {
        if handlers.is_empty() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if let Err(mpsc::error::SendError(run)) = self.runs.send(Run { event: event.clone(), handlers }) {
            // its runtime has ended
            run.handlers.iter().for_each(|handler| handler.miss(1));
        }
    }
}

async fn run(mut runs: mpsc::UnboundedReceiver<Run>, waiting: Arc<AtomicUsize>, tell: Tell) {
    while let Some(Run { event, handlers }) = runs.recv().await {
        waiting.fetch_sub(1, Ordering::AcqRel);
        if let Some(notice) = run_chain(event, &handlers).await {
            tell(notice).await;
        }
    }
}

/// Each handler sees the results of those before it (EVT-07), until one ends the chain (EVT-06). Returns the event that
/// the server must be told of, if there is one.
async fn run_chain(event: Event, handlers: &[Arc<Handler>]) -> Option<Event> {
    let (mut earlier, mut notice) = (Vec::new(), None);
    // one that was deregistered meanwhile is not called any more (EVT-15)
    for handler in handlers.iter().filter(|handler| !handler.is_retired()) {
        let call = HandlerCall { event: event.clone(), earlier: earlier.clone() };
        let outcome = handler.run(call).await;
        notice = notice.or_else(|| notice_of(&event, &outcome));
        if outcome.status == Status::EVENT_ACTION_COMPLETE {
            break;
        }
        let name = handler.name.clone();
        earlier.push(HandlerResult { name, status: outcome.status, results: outcome.results });
    }
    notice
}

/// A handler can give up a group that is being made, and take the lead of one whose leader has ended (GRP-07).
fn notice_of(event: &Event, outcome: &HandlerOutcome) -> Option<Event> {
    if event.code == Status::GROUP_CONSTRUCT_ABORT {
        // that group is given up already: of this id there can only be another one
        return None;
    }
    let id = event.info.get(&keys::GROUP_ID).ok()??;
    let leads = || outcome.results.flag(&keys::GROUP_LEADER).unwrap_or_default();
    let code = if outcome.status == Status::GROUP_CONSTRUCT_ABORT {
        Status::GROUP_CONSTRUCT_ABORT
    } else if event.code == Status::GROUP_LEADER_FAILED && leads() {
        Status::GROUP_LEADER_SELECTED
    } else {
        return None;
    };
    // the source is for the server to fill in; where it knows of no such group any more nobody is to hear of it
    let notice = Event::new(code, ProcId::none()).with_range(DataRange::CUSTOM);
    Some(notice.with_info(Info::new(&keys::GROUP_ID, id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grp_07_what_a_handler_says_of_a_group_is_for_the_server_alone() {
        let of_group = |code| Event::new(code, ProcId::none()).with_info(Info::new(&keys::GROUP_ID, "g"));
        let gives_up = HandlerOutcome::new(Status::GROUP_CONSTRUCT_ABORT);
        let notice = notice_of(&of_group(Status::GROUP_MEMBER_FAILED), &gives_up).unwrap();
        assert_eq!((notice.code, notice.range), (Status::GROUP_CONSTRUCT_ABORT, DataRange::CUSTOM));
        assert_eq!(notice.custom_range(), []);
        assert_eq!(notice_of(&of_group(Status::GROUP_CONSTRUCT_ABORT), &gives_up), None, "it is given up");
        assert_eq!(notice_of(&Event::new(Status::GROUP_MEMBER_FAILED, ProcId::none()), &gives_up), None);

        let leads = HandlerOutcome::from(()).with_result(&keys::GROUP_LEADER, true);
        let notice = notice_of(&of_group(Status::GROUP_LEADER_FAILED), &leads).unwrap();
        assert_eq!(notice.code, Status::GROUP_LEADER_SELECTED);
        assert_eq!(notice_of(&of_group(Status::GROUP_MEMBER_FAILED), &leads), None);
    }
}
