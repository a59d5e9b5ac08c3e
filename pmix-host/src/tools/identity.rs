//! The identities of tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pmix_server::host::{HostError, HostResult, ToolConnected};
use pmix_types::{Nspace, ProcId, Rank, Status};

use crate::internode::Site;
use crate::user::take_identity;

/// Gives tools their identities.
pub(crate) struct Identities {
    site: Arc<Site>,
    count: AtomicU32,
}

impl Identities {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site, count: AtomicU32::new(0) }
    }

    /// The identity that a tool proposes, or a new one.
    pub(crate) fn assign(&self, mut req: ToolConnected) -> HostResult<ProcId> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        if let Some(proposed) = req.requested_identity {
            return Ok(proposed);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let nspace = Nspace::new(format!("{}.tool.{number}", self.site.server()?.proc_id().nspace));
        let nspace = nspace.map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        Ok(ProcId::new(nspace, Rank::from_raw(0)))
    }
}
