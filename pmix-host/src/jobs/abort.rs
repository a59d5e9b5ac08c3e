//! Aborts that processes request.

use std::collections::BTreeMap;

use pmix_server::host::{Abort, HostError, HostResult, UpcallContext};
use pmix_types::{Nspace, ProcId, Rank, RankSet, Status};

use super::control::Control;
use super::start::Jobs;

impl Jobs {
    pub(crate) async fn abort(&self, cx: &UpcallContext, req: &Abort) -> HostResult<()> {
        // each job once, however often it is named; its ranks, if not all
        let mut targets: BTreeMap<&Nspace, Option<RankSet>> = BTreeMap::new();
        if req.procs.is_empty() {
            targets.insert(&cx.caller.nspace, None);
        }
        for ProcId { nspace, rank } in &req.procs {
            let ranks = targets.entry(nspace).or_insert_with(|| Some(RankSet::new()));
            if rank.is_wildcard() {
                *ranks = None;
            } else if let Some(ranks) = ranks {
                ranks.insert(*rank);
            }
        }
        let table = &self.cluster.table;
        for (nspace, ranks) in &targets {
            if !table.contains(nspace) {
                let message =
                    format!("{nspace} was not started by this resource manager, so it cannot be aborted");
                return Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
            }
            let all: RankSet = table.rows(nspace).iter().map(|row| row.proc.rank).collect();
            let unknown = ranks.as_ref().map(|ranks| ranks - &all).unwrap_or_default();
            if !unknown.is_empty() {
                let message = format!("cannot abort ranks {unknown} of {nspace}: it has none of that number");
                return Err(HostError::new(Status::ERR_BAD_PARAM, message));
            }
        }
        for (nspace, ranks) in targets {
            let (by, message) = (cx.caller.clone(), req.message.clone());
            // looked at before the caller is answered and ends: who dies after that may have died of the abort
            let dead = self.dead_unseen(nspace).await;
            table.tell(nspace, Control::Abort { by, ranks, status: req.status, message, dead });
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
