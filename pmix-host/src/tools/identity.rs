//! The identities of tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pmix_server::host::{HostError, HostResult, ToolConnected};
use pmix_types::{Nspace, ProcId, Rank, Status, Uid};

use crate::internode::Site;
use crate::user::{is_trusted, take_identity};

/// Gives tools their identities.
pub(crate) struct Identities {
    site: Arc<Site>,
    count: AtomicU32,
}

impl Identities {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site, count: AtomicU32::new(0) }
    }

    /// The identity that a tool proposes, or a new one. Other users propose none, because whoever has the name of a job
    /// passes for one of its processes. The one exception is the name under which the commands of a user publish: it contains the uid
    /// that the kernel reports, and no job has such a name.
    pub(crate) fn assign(&self, uid: Uid, mut req: ToolConnected) -> HostResult<ProcId> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        if let Some(proposed) = req.requested_identity {
            if !is_trusted(uid) && proposed != ProcId::new(Nspace::publisher(uid), Rank::from_raw(0)) {
                let message = format!("a tool of uid {uid} cannot be {proposed}: let the server name it");
                return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message));
            }
            return Ok(proposed);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let nspace = Nspace::new(format!("{}.tool.{number}", self.site.server()?.proc_id().nspace));
        let nspace = nspace.map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        Ok(ProcId::new(nspace, Rank::from_raw(0)))
    }
}
