use std::sync::Arc;

use crate::job::JobData;
use crate::{Directives, Nspace, ProcId, Rank};

directed_requests! {
    /// Entry into a connect.
    Connect {
        /// `CONNECT_ID`, `TIMEOUT` and the like; may be empty.
        directives,
        /// The participants, including the caller; never empty (CON-03).
        procs: Vec<ProcId>,
    }
}

/// The answer to a connect.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectReply {
    /// Job-level data of the other participating namespaces (CON-08).
    pub jobs: Vec<Arc<JobData>>,
    /// Namespace of the connected set, if the host made one (CON-06).
    pub nspace: Option<Nspace>,
    /// Rank of the caller in that namespace.
    pub rank: Option<Rank>,
}

/// Entry into a disconnect, or the request of the caller alone to leave a connected set (CON-14).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Disconnect {
    /// The participants, as named in the connect; empty if the set is named by its namespace.
    pub procs: Vec<ProcId>,
    /// Namespace of the connected set that the caller alone leaves.
    pub nspace: Option<Nspace>,
    /// `CONNECT_ID`, `TIMEOUT` and the like; may be empty.
    pub directives: Directives,
}

impl Disconnect {
    /// Entry into the disconnect of all processes of the set.
    pub const fn new(procs: Vec<ProcId>) -> Self {
        Self { procs, nspace: None, directives: Directives::new() }
    }

    /// The caller alone leaves a connected set.
    pub const fn leave(nspace: Nspace) -> Self {
        Self { procs: Vec::new(), nspace: Some(nspace), directives: Directives::new() }
    }

    /// Sets the directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}
