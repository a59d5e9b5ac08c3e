//! Processes whose clones all take part in a round (IDN-07c); otherwise a round counts ranks, whichever of its clones enters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pmix_types::ProcId;

use crate::context::Context;
use crate::ids::ConnId;
use crate::participants::Ranks;

/// The processes of which a clone has asked for all, with the connections of those that have entered.
#[derive(Debug, Default)]
pub(super) struct Clones(BTreeMap<ProcId, BTreeSet<ConnId>>);

impl Clones {
    /// A clone enters; with `all`, the round waits for the others.
    pub(super) fn enter(&mut self, proc: &ProcId, conn: ConnId, all: bool) {
        if all || self.0.contains_key(proc) {
            self.0.entry(proc.clone()).or_default().insert(conn);
        }
    }

    /// Whether this clone is waited for although another one has entered.
    pub(super) fn has_room_for(&self, proc: &ProcId, conn: ConnId) -> bool {
        self.0.get(proc).is_some_and(|entered| !entered.contains(&conn))
    }

    /// Those of the processes of which all have entered that are to.
    pub(super) fn complete<'a>(&self, entered: &'a Ranks, cx: &Context) -> Cow<'a, Ranks> {
        let mut complete = Cow::Borrowed(entered);
        for (proc, conns) in &self.0 {
            let awaited = |conn: &ConnId| !conns.contains(conn) && cx.caller(*conn).is_some();
            if cx.client(proc).is_some_and(|client| client.conns.iter().any(awaited))
                && let Some(ranks) = complete.to_mut().get_mut(&proc.nspace)
            {
                ranks.remove(proc.rank);
            }
        }
        complete
    }
}
