use std::sync::Arc;

use crate::job::JobData;
use crate::{App, Nspace};

directed_requests! {
    /// A request to start a job.
    Spawn {
        /// Directives for the whole job; may be empty.
        directives,
        /// Its applications; never empty.
        apps: Vec<App>,
    }
}

/// The answer to a spawn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpawnReply {
    /// Namespace of the new job.
    pub nspace: Nspace,
    /// Its job-level data (SPN-04); `None` if the server does not know it.
    pub job: Option<Arc<JobData>>,
}

impl SpawnReply {
    /// A reply without job-level data.
    pub const fn new(nspace: Nspace) -> Self {
        Self { nspace, job: None }
    }
}
