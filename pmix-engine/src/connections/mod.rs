//! Connections: the processes at their other ends, and how they are let in.

pub(crate) mod admission;

use std::collections::BTreeSet;

use pmix_types::{Info, ProcId, keys};

use crate::Caller;
use crate::PeerCred;
use crate::context::Context;
use crate::jobs::Client;
use crate::tally::Tally;
use crate::users::Listener;
pub(crate) use admission::{on_client_admitted, on_hello, on_own, on_tool_admitted};

impl Conn {
    fn new(proc: ProcId, peer: PeerCred, kind: Kind, stage: ConnStage) -> Self {
        Self {
            proc,
            peer,
            kind,
            stage,
            reattaches: false,
            registrations: BTreeSet::new(),
            kept_given: 0,
            model: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Whether both are of one tool, which has attached again (TOL-12): the same process of the same user.
    fn is_of_tool(&self, other: &Self) -> bool {
        let is_one = |held: &Self| held.kind == Kind::Tool && held.reattaches && held.peer.pid.is_some();
        is_one(self) && is_one(other) && (self.peer.uid, self.peer.pid) == (other.peer.uid, other.peer.pid)
    }

    /// On whose behalf it asks. The object is a client's own (CLI-04): a tool gets none, whatever name it goes by.
    pub(crate) fn caller(&self, client: Option<&Client>) -> Caller {
        let client = client.filter(|_| self.kind == Kind::Client);
        let object = client.and_then(|client| client.object.clone());
        let gid = self.peer.gid.or_else(|| client.map(|client| client.gid));
        Caller { proc: self.proc.clone(), uid: self.peer.uid, gid, object, trace: None }
    }

    /// As a receiver of events.
    pub(crate) fn listener(&self) -> Listener<'_> {
        let (is_tool, is_server) = (self.kind != Kind::Client, self.kind == Kind::Server);
        Listener { proc: &self.proc, uid: self.peer.uid, is_tool, is_server }
    }
}

/// A connection that has sent its greeting.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) proc: ProcId,
    pub(crate) peer: PeerCred,
    pub(crate) kind: Kind,
    pub(crate) stage: ConnStage,
    /// Whether its library opens one more connection each time that the tool attaches.
    reattaches: bool,
    /// Event registrations it owns.
    pub(crate) registrations: BTreeSet<u64>,
    /// Bytes of events that were kept and that it has been given.
    pub(crate) kept_given: usize,
    /// What it says of its programming model, until it is let in.
    model: Vec<Info>,
    pub(crate) tally: Tally,
}

/// How many clients and tools are connected; the server's own host is neither.
pub(crate) fn present(cx: &Context) -> (u64, u64) {
    let connected = cx.conns.values().filter(|held| held.stage == ConnStage::Connected);
    connected.fold((0, 0), |(clients, tools), held| match held.kind {
        Kind::Client => (clients + 1, tools),
        Kind::Tool => (clients, tools + 1),
        Kind::Server => (clients, tools),
    })
}

/// What a process may say of its programming model when it connects.
const MODEL: [&str; 8] = [
    keys::PROGRAMMING_MODEL.name(),
    keys::MODEL_LIBRARY_NAME.name(),
    keys::MODEL_LIBRARY_VERSION.name(),
    keys::THREADING_MODEL.name(),
    keys::MODEL_NUM_THREADS.name(),
    keys::MODEL_NUM_CPUS.name(),
    keys::MODEL_CPU_TYPE.name(),
    keys::MODEL_AFFINITY_POLICY.name(),
];

pub(crate) fn is_of_model(key: &str) -> bool {
    MODEL.contains(&key)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Client,
    Tool,
    /// The server's own host.
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnStage {
    /// The host is deciding whether to let it in.
    Asked,
    Connected,
    /// The host is being told that it finalizes.
    Finalizing,
    Finalized,
}
