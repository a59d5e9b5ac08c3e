//! Processes that wait for a debugger: they have said that they are ready for it, and have not been released.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::why::{WAITS_FOR_DEBUGGER, Wait};

use crate::ConnId;
use crate::connections::{Conn, Kind};
use crate::context::Context;

#[derive(Debug, Default)]
pub(super) struct Unreleased(BTreeMap<ConnId, State>);

#[derive(Debug)]
enum State {
    /// It waits since then.
    Waits(Option<Instant>),
    /// It was released before it has said that it is ready.
    ReleasedEarly,
}

impl Unreleased {
    /// A process says that it is ready. What tools say of debuggers is about others.
    pub(super) fn ready(&mut self, conn: ConnId, cx: &Context) {
        if !cx.conns.get(&conn).is_some_and(|held| held.kind == Kind::Client) {
            return;
        }
        match self.0.get(&conn) {
            Some(State::Waits(_)) => {}
            Some(State::ReleasedEarly) => drop(self.0.remove(&conn)),
            None => drop(self.0.insert(conn, State::Waits(cx.now))),
        }
    }

    /// A process is told of a release.
    pub(super) fn release(&mut self, conn: ConnId) {
        if self.0.remove(&conn).is_none() {
            self.0.insert(conn, State::ReleasedEarly);
        }
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.0.remove(&conn);
    }

    pub(super) fn waits<'a>(
        &'a self,
        cx: &'a Context,
        would_hear: impl Fn(&Conn) -> bool + 'a,
    ) -> impl Iterator<Item = Wait> + 'a {
        self.0.iter().filter_map(move |(conn, state)| {
            let State::Waits(since) = state else { return None };
            let held = cx.conns.get(conn).filter(|held| would_hear(held))?;
            let proc = &held.proc;
            let mut wait = cx.wait(conn.0, WAITS_FOR_DEBUGGER, *since);
            wait.expected.insert(proc);
            wait.arrived.insert(proc);
            Some(wait)
        })
    }
}
