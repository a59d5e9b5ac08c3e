use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pmix_types::message::Failure;
use pmix_types::{Event, EventFilter};

use super::chain::Chain;
use super::error::{EventError, EventQueue};
use super::handler::Handler;
use super::placement::Placement;
use super::runner::{Runner, Tell};
use crate::sync::lock;

/// The events of one registration, and who hears them.
#[derive(Clone, Debug)]
pub(crate) struct Interest {
    pub(crate) filter: EventFilter,
    pub(crate) listener: Listener,
}

/// Where the events of a registration go.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    Stream(Arc<EventQueue>),
    Handler(Arc<Handler>),
}

/// The streams and handlers of a process by registration.
#[derive(Debug, Default)]
pub(crate) struct Router(Mutex<Routes>);

/// Where the events of each registration go.
#[derive(Debug, Default)]
struct Routes {
    interests: BTreeMap<u64, Interest>,
    /// All handlers that have a place, also those whose registration is under way.
    chain: Chain,
    last_handler: u64,
    /// Started with the first handler.
    runner: Option<Runner>,
}

impl Router {
    pub(crate) fn add(&self, registration: u64, interest: Interest) {
        lock(&self.0).interests.insert(registration, interest);
    }

    pub(crate) fn remove(&self, registration: u64) {
        let removed = lock(&self.0).interests.remove(&registration);
        // not under the lock: a closure that is dropped may hold anything
        if let Some(Interest { listener: Listener::Handler(handler), .. }) = removed {
            handler.retire();
        }
    }

    /// Gives a handler for this number of codes its place in the chain and its number. What handlers have to say to the
    /// server goes through `tell`, that of the first handler for all. They run on the runtime of the first one, or, once that has
    /// ended, of the next that comes.
    pub(crate) fn seat(
        &self,
        codes: usize,
        placement: &Placement,
        tell: impl FnOnce() -> Tell,
    ) -> Result<u64, Failure> {
        let mut state = lock(&self.0);
        // first, because it panics without a runtime, and the place would stay taken
        if state.runner.as_ref().is_none_or(Runner::has_ended) {
            state.runner = Some(Runner::start(tell()));
        }
        state.last_handler += 1;
        let id = state.last_handler;
        state.chain.insert(id, codes, placement)?;
        Ok(id)
    }

    /// Frees the place of a handler (EVT-03).
    pub(crate) fn unseat(&self, handler: u64) {
        lock(&self.0).chain.remove(handler);
    }

    /// Hands an event to the registrations that the server found it to match.
    pub(crate) fn deliver(&self, registrations: &[u64], event: &Event) {
        let state = lock(&self.0);
        let interests = registrations.iter().filter_map(|registration| state.interests.get(registration));
        let handlers = state.hand_to_streams(interests, event);
        if let Some(runner) = &state.runner {
            runner.hand(event, handlers);
        }
    }

    /// Hands on an event that never leaves the process (EVT-11).
    pub(crate) fn deliver_local(&self, event: &Event) {
        let state = lock(&self.0);
        let interests = state.interests.values().filter(|interest| interest.wants(event));
        let handlers = state.hand_to_streams(interests, event);
        if let Some(runner) = &state.runner {
            runner.hand(event, handlers);
        }
    }

    /// Tells everybody that events were lost; nobody knows whose they were.
    pub(crate) fn lag(&self, missed: u64) {
        for interest in lock(&self.0).interests.values() {
            match &interest.listener {
                Listener::Stream(queue) => queue.miss(missed),
                Listener::Handler(handler) => handler.miss(missed),
            }
        }
    }

    /// Ends all registrations because the connection is lost, which is an event itself (EVT-21).
    pub(crate) fn lose(&self, event: &Event) {
        let (interests, runner) = {
            let mut state = lock(&self.0);
            let heard = state.interests.values().filter(|interest| interest.wants(event));
            let handlers = state.in_order(heard);
            if let Some(runner) = &state.runner {
                runner.hand_surely(event, handlers);
            }
            (std::mem::take(&mut state.interests), state.runner.take())
        };
        // handlers come to an end with what they were given
        drop(runner);
        for interest in interests.into_values() {
            let event = interest.wants(event).then(|| Ok(event.clone()));
            if let Listener::Stream(queue) = interest.listener {
                queue.end(event.into_iter().chain([Err(EventError::Disconnected)]));
            }
        }
    }

    /// Ends all registrations after a finalize.
    pub(crate) fn end(&self) {
        let (interests, runner) = {
            let mut state = lock(&self.0);
            (std::mem::take(&mut state.interests), state.runner.take())
        };
        drop(runner);
        for interest in interests.into_values() {
            match interest.listener {
                Listener::Stream(queue) => queue.end([]),
                Listener::Handler(handler) => handler.retire(),
            }
        }
    }
}

impl Routes {
    /// Hands an event to the streams; returns the handlers as the chain orders them.
    fn hand_to_streams<'a>(
        &self,
        interests: impl Iterator<Item = &'a Interest>,
        event: &Event,
    ) -> Vec<Arc<Handler>> {
        let streams = |interest: &&Interest| {
            if let Listener::Stream(queue) = &interest.listener {
                queue.push(event.clone());
            }
        };
        self.in_order(interests.inspect(streams))
    }

    fn in_order<'a>(&self, interests: impl Iterator<Item = &'a Interest>) -> Vec<Arc<Handler>> {
        let mut handlers: Vec<Arc<Handler>> = interests
            .filter_map(|interest| match &interest.listener {
                Listener::Handler(handler) => Some(Arc::clone(handler)),
                Listener::Stream(_) => None,
            })
            .collect();
        handlers.sort_by_cached_key(|handler| self.chain.position(handler.id));
        handlers
    }
}

impl Interest {
    /// Whether an event that arises in this process is wanted: whoever is its source is near enough.
    fn wants(&self, event: &Event) -> bool {
        self.filter.accepts(event, &event.source, |_| true)
    }
}
