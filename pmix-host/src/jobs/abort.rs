//! Aborts that processes request.

use std::collections::BTreeSet;

use pmix_server::host::{Abort, HostError, HostResult, UpcallContext};
use pmix_types::{Nspace, Rank, Status};

use super::control::Control;
use super::start::Jobs;

impl Jobs {
    pub(crate) async fn abort(&self, cx: &UpcallContext, req: &Abort) -> HostResult<()> {
        let caller = &cx.caller.nspace;
        if req.procs.iter().any(|proc| !proc.rank.is_wildcard()) {
            let message = "single processes cannot be aborted here: abort a whole namespace (rank WILDCARD)";
            return Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        // each once, however often it is named
        let targets: BTreeSet<&Nspace> = if req.procs.is_empty() {
            BTreeSet::from([caller])
        } else {
            req.procs.iter().map(|proc| &proc.nspace).collect()
        };
        let table = &self.cluster.table;
        if let Some(unknown) = targets.iter().find(|nspace| !table.contains(nspace)) {
            let message =
                format!("{unknown} was not started by this resource manager, so it cannot be aborted");
            return Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        for nspace in targets {
            let (by, message) = (cx.caller.clone(), req.message.clone());
            // looked at before the caller is answered and ends: who dies after that may have died of the abort
            let dead = self.dead_unseen(nspace).await;
            table.tell(nspace, Control::Abort { by, status: req.status, message, dead });
        }
        Ok(())
    }

    /// Processes that have ended as far as the launcher knows, whether that has been reported or not.
    async fn dead_unseen(&self, nspace: &Nspace) -> Vec<Rank> {
        let procs: Vec<_> = self.cluster.table.rows(nspace).into_iter().map(|row| row.proc).collect();
        let ended = self.cluster.launcher.which_ended(&procs).await;
        ended.into_iter().map(|proc| proc.rank).collect()
    }
}
