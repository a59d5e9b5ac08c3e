//! What a server can tell its host of processes on its node: how they are, and what they use.

use pmix_engine::HostCall;
use pmix_types::ProcId;
use pmix_types::usage::ProcUsage;
use pmix_types::why::ProcLook;

use crate::handle::ServerHandle;

impl ServerHandle {
    /// Returns the kernel's view of these processes, sorted by namespace and rank. Leaves out processes that are not on
    /// this node or whose process id is unknown: it is known of processes that have connected, and of those that the
    /// host has [reported](Self::client_started). Rank `WILDCARD` stands for all processes of a namespace. Empty after
    /// the server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn looks(&self, procs: &[ProcId]) -> Vec<ProcLook> {
        self.inbox().call(HostCall::Looks(procs.to_vec())).await.unwrap_or_default()
    }

    /// Returns what these processes use, under the same conditions as [`looks`](Self::looks). The amount of output is not included,
    /// because the server does not see output.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn usage(&self, procs: &[ProcId]) -> Vec<ProcUsage> {
        self.inbox().call(HostCall::Usage(procs.to_vec())).await.unwrap_or_default()
    }
}
