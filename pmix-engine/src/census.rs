//! What an engine holds.

use super::{Engine, UpcallId};

/// How much state an engine holds. Tests compare the numbers with those that should be left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Connections that have sent their greeting, also those that the host has not admitted yet.
    pub connections: usize,
    /// Namespaces that the host has registered; those known from other servers do not count.
    pub nspaces: usize,
    /// Sets of processes that are connected (`PMIx_Connect`).
    pub connected_sets: usize,
    /// Upcalls under way, in order.
    pub upcalls: Vec<UpcallId>,
    /// Pending gets.
    pub gets: usize,
    /// Processes that wait in collectives.
    pub participants: usize,
    /// Whether nothing is under way: no request, upcall, collective, fetch, monitor or timer.
    pub is_idle: bool,
    /// Whether a process has subscribed to events or output, or input is in transit.
    pub has_subscribers: bool,
}

impl Engine {
    /// Counts what is held now.
    pub fn census(&self) -> Census {
        let is_idle = self.cx.upcalls.is_empty()
            && self.cx.timers.first().is_none()
            && self.stats().waiting == 0
            && self.collectives.is_empty()
            && self.data.is_empty()
            && self.monitors.is_empty()
            && self.queries.is_empty()
            && self.resolutions.is_empty()
            && self.forwards.is_empty();
        Census {
            connections: self.cx.conns.len(),
            nspaces: self.cx.jobs.values().filter(|job| job.registered).count(),
            connected_sets: self.connected.len(),
            upcalls: self.cx.upcalls.keys().copied().collect(),
            gets: self.data.pending(),
            participants: self.collectives.waiting(),
            is_idle,
            has_subscribers: !self.events.is_empty() || !self.iof.is_empty(),
        }
    }
}
