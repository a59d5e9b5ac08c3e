//! Direct modex: data of one process, from the server of its node.

use bytes::Bytes;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, ProcId, Status, keys};

use super::peer::{Ask, Told, unreadable};
use super::{Exchange, Launcher, StandardHost};
use crate::host::{DirectModexRequest, HostError, HostResult, UpcallContext};

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    /// Asks the server of the process, or all of them if nobody here knows its namespace.
    pub(super) async fn fetch_data(
        &self,
        cx: &UpcallContext,
        mut req: DirectModexRequest,
    ) -> HostResult<Bytes> {
        let handle = self.handle()?;
        let key: Option<String> = req.directives.take(&keys::REQUIRED_KEY)?;
        req.directives.deny_unprocessed()?;
        let nodes = match handle.job_data(&req.proc.nspace).await {
            Ok(job) => job.hostname_of(req.proc.rank).into_iter().collect(),
            // a namespace this server does not know: some other may
            Err(_) => self.0.exchange.nodes(),
        };
        let mut last = Failure::new(Status::ERR_NOT_FOUND, format!("no server knows {}", req.proc));
        let ask = Ask::DirectModex { proc: req.proc, key };
        for node in nodes.iter().filter(|node| *node != self.0.exchange.node()) {
            match self.ask(cx, node, &ask).await {
                Ok(Told::Blob(blob)) => return Ok(blob),
                Ok(Told::Reply(_)) => last = unreadable("answer"),
                Err(failure) => last = failure,
            }
        }
        Err(HostError::new(last.status, last.message))
    }

    /// Gives data of processes on this node to the host of another.
    pub(super) async fn give_data(&self, proc: &ProcId, key: Option<String>) -> Result<Bytes, Failure> {
        let handle = self.handle().map_err(|error| Failure::new(error.status(), error.to_string()))?;
        // only who knows a namespace may speak for it; waiting is for processes
        if proc.rank.is_wildcard() && handle.job_data(&proc.nspace).await.is_err() {
            return Err(Failure::new(Status::ERR_NOT_FOUND, format!("{} is not known here", proc.nspace)));
        }
        let directives =
            key.map(|key| Info::new(&keys::REQUIRED_KEY, key)).into_iter().collect::<Directives>();
        handle.dmodex_request(proc, directives).await
    }
}
