//! Direct modex: fetches the data of one process from the server of its node.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use pmix_server::host::{DirectModexRequest, HostError, HostResult, UpcallContext};
use pmix_types::job::JobData;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, ProcId, Rank, Status, keys};

use crate::internode::{PeerReply, PeerRequest, Site};

/// Fetches data of processes on other nodes, and gives that of processes here.
pub(crate) struct DirectModex(Arc<Site>);

impl DirectModex {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self(site)
    }

    /// Asks the server of the process, or all of them if nobody here knows which that is: those that do not know its
    /// namespace wait until they do (DMX-05), unless the request is not to wait, so all are asked at the same time.
    pub(crate) async fn fetch(&self, cx: &UpcallContext, mut req: DirectModexRequest) -> HostResult<Bytes> {
        let server = self.0.server()?;
        let key: Option<String> = req.directives.take(&keys::REQUIRED_KEY)?;
        let immediate = req.directives.take_flag(&keys::IMMEDIATE)?;
        req.directives.deny_unprocessed()?;
        let job = server.job_data(&req.proc.nspace).await.ok();
        let nodes = nodes_to_ask(job.as_deref(), req.proc.rank, self.0.nodes());
        let mut reason = Failure::new(Status::ERR_NOT_FOUND, format!("no server knows {}", req.proc));
        let request = PeerRequest::DirectModex { proc: req.proc, key, immediate };
        let others = nodes.iter().filter(|node| *node != self.0.node());
        let mut answers: FuturesUnordered<_> = others.map(|node| self.0.ask(cx, node, &request)).collect();
        while let Some(answer) = answers.next().await {
            match answer.and_then(PeerReply::into_blob) {
                Ok(blob) => return Ok(blob),
                Err(failure) => reason = reason_of(reason, failure),
            }
        }
        Err(HostError::new(reason.status, reason.message))
    }

    /// Sends data of processes on this node to the host of another node.
    pub(crate) async fn give(
        &self,
        proc: &ProcId,
        key: Option<String>,
        immediate: bool,
    ) -> Result<Bytes, Failure> {
        let server = self.0.server().map_err(|error| Failure::new(error.status(), error.to_string()))?;
        // only a server that knows a namespace may answer for it; waiting is for processes
        if proc.rank.is_wildcard() && server.job_data(&proc.nspace).await.is_err() {
            return Err(Failure::new(Status::ERR_NOT_FOUND, format!("{} is not known here", proc.nspace)));
        }
        let mut directives =
            key.map(|key| Info::new(&keys::REQUIRED_KEY, key)).into_iter().collect::<Directives>();
        if immediate {
            directives.push(Info::new(&keys::IMMEDIATE, true));
        }
        server.dmodex_request(proc, directives).await
    }
}

/// Why nobody has answered. A node that does not have the process tells nothing of one that was not reached.
fn reason_of(earlier: Failure, later: Failure) -> Failure {
    if earlier.status == Status::ERR_NOT_FOUND { later } else { earlier }
}

/// Where a process may be, out of all nodes, by what is known here of its job.
fn nodes_to_ask(job: Option<&JobData>, rank: Rank, all: Vec<String>) -> Vec<String> {
    if let Some(node) = job.and_then(|job| job.hostname_of(rank)) {
        return vec![node];
    }
    let is_beyond = |job: &JobData| job.size().is_some_and(|size| rank.to_raw() >= size);
    match job {
        Some(job) if job.proc_map().is_some() || is_beyond(job) => Vec::new(),
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Nspace;
    use pmix_types::job::JobSpec;

    use super::*;

    #[test]
    fn dmx_05_a_process_is_not_found_only_if_all_nodes_say_so() {
        let [unknown, unreachable] =
            [Status::ERR_NOT_FOUND, Status::ERR_UNREACH].map(|status| Failure::new(status, ""));
        assert_eq!(reason_of(unknown.clone(), unknown.clone()), unknown);
        assert_eq!(reason_of(unknown.clone(), unreachable.clone()), unreachable);
        assert_eq!(reason_of(unreachable.clone(), unknown), unreachable);
    }

    #[test]
    fn dmx_01_nodes_are_asked_as_far_as_a_job_does_not_tell_the_place() {
        let nspace = Nspace::new("job").unwrap();
        let job = |spec: JobSpec| {
            let mut job = JobData::new(nspace.clone());
            job.register(&spec.into_infos(), "n0").unwrap();
            job
        };
        let nodes = |job: Option<&JobData>, rank| {
            nodes_to_ask(job, Rank::from_raw(rank), ["n0", "n1", "n2"].map(Into::into).into())
        };
        assert_eq!(nodes(None, 7), ["n0", "n1", "n2"]);
        let mapped = JobSpec::new(nspace.clone()).node_map(["n0", "n1"]).unwrap().proc_map("0;1").unwrap();
        let mapped = job(mapped);
        assert_eq!(nodes(Some(&mapped), 1), ["n1"]);
        assert_eq!(nodes(Some(&mapped), 2), [""; 0], "the map tells all there are");
        let counted = job(JobSpec::new(nspace.clone()).info(&keys::JOB_SIZE, 2_u32));
        assert_eq!(nodes(Some(&counted), 1), ["n0", "n1", "n2"]);
        assert_eq!(nodes(Some(&counted), 2), [""; 0], "it is none of two");
    }
}
