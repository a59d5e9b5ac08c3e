//! Connections: the processes at their other ends, and how they are let in.

mod admission;

use std::collections::BTreeSet;

use pmix_types::ProcId;

use crate::Caller;
use crate::PeerCred;
use crate::jobs::Client;
use crate::users::Listener;
pub(crate) use admission::{on_client_admitted, on_hello, on_tool_admitted};

impl Conn {
    /// On whose behalf it asks. The object is a client's own (CLI-04): a tool gets none, whatever name it goes by.
    pub(crate) fn caller(&self, client: Option<&Client>) -> Caller {
        let client = client.filter(|_| self.kind == Kind::Client);
        let object = client.and_then(|client| client.object.clone());
        let gid = self.peer.gid.or_else(|| client.map(|client| client.gid));
        Caller { proc: self.proc.clone(), uid: self.peer.uid, gid, object }
    }

    /// As a receiver of events.
    pub(crate) fn listener(&self) -> Listener<'_> {
        Listener { proc: &self.proc, uid: self.peer.uid, is_tool: self.kind == Kind::Tool }
    }
}

/// A connection that has sent its greeting.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) proc: ProcId,
    pub(crate) peer: PeerCred,
    pub(crate) kind: Kind,
    pub(crate) stage: ConnStage,
    /// Event registrations it owns.
    pub(crate) registrations: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Client,
    Tool,
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
