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
    /// Job-level data of the other namespaces that took part (CON-08).
    pub jobs: Vec<Arc<JobData>>,
    /// Namespace of the connected set, if the host made one (CON-06).
    pub nspace: Option<Nspace>,
    /// Rank of the caller in it.
    pub rank: Option<Rank>,
}

/// The end of a connection: of all of it, or for the caller alone (CON-14).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Disconnect {
    /// Who takes part, as named when they connected; empty if the group is named by its namespace.
    pub procs: Vec<ProcId>,
    /// Namespace of the group that the caller alone leaves.
    pub nspace: Option<Nspace>,
    /// `CONNECT_ID`, `TIMEOUT` and the like; may be empty.
    pub directives: Directives,
}

impl Disconnect {
    /// Entry into the disconnect of all who have connected.
    pub const fn new(procs: Vec<ProcId>) -> Self {
        Self { procs, nspace: None, directives: Directives::new() }
    }

    /// The caller leaves a group.
    pub const fn leave(nspace: Nspace) -> Self {
        Self { procs: Vec::new(), nspace: Some(nspace), directives: Directives::new() }
    }

    /// The same with directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}
