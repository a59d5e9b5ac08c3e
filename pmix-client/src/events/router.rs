use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pmix_types::{Event, Status, keys};

use super::{EventError, Queue};
use crate::sync::lock;

/// What one stream wants to hear of.
#[derive(Clone, Debug)]
pub(crate) struct Interest {
    /// Codes; empty for all.
    pub(crate) codes: Vec<Status>,
    pub(crate) queue: Arc<Queue>,
}

/// The streams of a process by registration.
#[derive(Debug, Default)]
pub(crate) struct Router(Mutex<BTreeMap<u64, Interest>>);

impl Router {
    pub(crate) fn add(&self, registration: u64, interest: Interest) {
        lock(&self.0).insert(registration, interest);
    }

    pub(crate) fn remove(&self, registration: u64) {
        lock(&self.0).remove(&registration);
    }

    /// Hands an event to the registrations that the server found it to match.
    pub(crate) fn deliver(&self, registrations: &[u64], event: &Event) {
        let streams = lock(&self.0);
        for interest in registrations.iter().filter_map(|registration| streams.get(registration)) {
            interest.queue.push(event.clone());
        }
    }

    /// Hands on an event that never leaves the process (EVT-11).
    pub(crate) fn deliver_local(&self, event: &Event) {
        for interest in lock(&self.0).values().filter(|interest| interest.wants(event)) {
            interest.queue.push(event.clone());
        }
    }

    /// Tells every stream that events were lost; nobody knows whose they were.
    pub(crate) fn lag(&self, missed: u64) {
        for interest in lock(&self.0).values() {
            interest.queue.miss(missed);
        }
    }

    /// Ends all streams because the connection is lost, which is an event itself (EVT-21).
    pub(crate) fn lose(&self, event: &Event) {
        for interest in std::mem::take(&mut *lock(&self.0)).into_values() {
            let event = interest.wants(event).then(|| Ok(event.clone()));
            interest.queue.end(event.into_iter().chain([Err(EventError::Disconnected)]));
        }
    }

    /// Ends all streams in peace.
    pub(crate) fn end(&self) {
        for interest in std::mem::take(&mut *lock(&self.0)).into_values() {
            interest.queue.end([]);
        }
    }
}

impl Interest {
    /// Whether the codes fit; streams for all codes do not hear of `EVENT_NON_DEFAULT` ones (EVT-10).
    fn wants(&self, event: &Event) -> bool {
        if self.codes.is_empty() {
            !event.info.flag(&keys::EVENT_NON_DEFAULT).unwrap_or(false)
        } else {
            self.codes.contains(&event.code)
        }
    }
}
