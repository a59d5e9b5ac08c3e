//! What waits here: the operations that are not complete, as `pmix why` tells them.

use std::cmp::Reverse;

use pmix_types::why::Wait;

use super::bootstrap::Bootstraps;
use super::collective::Collectives;
use super::connected::ConnectedSets;
use super::context::{Context, Owner};
use super::control::Forwards;
use super::data::Data;
use super::events::Events;
use super::group::Groups;
use super::invite::Invites;
use super::query::Waiting;
use super::upcall::Upcall;

/// The nouns in which operations wait.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    pub(crate) collectives: &'a Collectives,
    pub(crate) connected: &'a ConnectedSets,
    pub(crate) groups: &'a Groups,
    pub(crate) data: &'a Data,
    pub(crate) invites: &'a Invites,
    pub(crate) bootstraps: &'a Bootstraps,
    pub(crate) forwards: &'a Forwards,
    pub(crate) events: &'a Events,
}

impl Waiting for Waits<'_> {
    /// Those that have waited longest first.
    fn all(&self, cx: &Context) -> Vec<Wait> {
        let mut waits: Vec<_> = (self.collectives.waits(self.connected, self.groups, cx))
            .chain(self.data.waits(cx))
            .chain(self.invites.waits(cx))
            .chain(self.bootstraps.waits(cx))
            .chain(self.upcalls(cx))
            .chain(self.events.waits(cx))
            .collect();
        waits.sort_by_key(|wait| Reverse(wait.waited));
        waits
    }
}

impl Waits<'_> {
    /// What the host is asked for, but for what belongs to a wait of another kind. Queries are left out, as whoever reads
    /// this waits in one.
    fn upcalls<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        cx.upcalls.iter().filter_map(|(id, held)| {
            let (upcall, caller) = held.host.as_ref()?;
            if let Owner::Collective(_)
            | Owner::Lacking(_)
            | Owner::Bootstrap
            | Owner::Fetch
            | Owner::Query(_) = held.owner
            {
                return None;
            }
            let mut wait = cx.wait(id.0, words(*upcall), held.since);
            wait.about = self.forwards.about(*id);
            wait.left = cx.left(self.forwards.deadline(*id));
            wait.expected.insert(caller);
            wait.arrived.insert(caller);
            wait.at_host = true;
            Some(wait)
        })
    }
}

/// The name of an entry in words: `client connected`.
fn words(upcall: Upcall) -> String {
    upcall.name().replace('_', " ")
}
