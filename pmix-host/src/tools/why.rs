//! Why jobs wait: what the servers of all nodes know of it, and what the kernels there say of processes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use pmix_server::host::HostResult;
use pmix_types::message::{Failure, QueryReply, Reply, Request};
use pmix_types::why::{LOOKS, ProcLook, WAITS, Wait};
use pmix_types::{Directives, Info, Key, Nspace, ProcId, Query, Rank, Status, Value, ValueType, keys};

use crate::internode::{PeerReply, PeerRequest, Site};
use crate::jobs::JobTable;
use crate::user::{User, is_trusted};

/// How long another node is waited for: whoever asks why something hangs must not hang.
const PATIENCE: Duration = Duration::from_millis(500);

/// Number of processes that one query may name; the server, which has the same limit, says so.
const MAX_NAMED: usize = 1024;

/// What the extra wait is called that names a node which has not answered.
const UNANSWERED: &str = "query of waits";

/// Knows why jobs wait.
pub(super) struct Why {
    jobs: Arc<JobTable>,
    site: Arc<Site>,
}

impl Why {
    pub(super) fn new(jobs: Arc<JobTable>, site: Arc<Site>) -> Self {
        Self { jobs, site }
    }

    /// The answer to a key of ours; `None` for any other, and for what the server is to answer or refuse.
    pub(super) async fn answer(
        &self,
        requester: &User,
        key: &str,
        qualifiers: &Directives,
    ) -> HostResult<Option<Value>> {
        if key == WAITS.name() {
            self.waits(requester, qualifiers).await
        } else if key == LOOKS.name() {
            self.looks(requester, qualifiers).await
        } else {
            Ok(None)
        }
    }

    /// What waits on all nodes. A node that does not answer is named by a wait of its own, with the error.
    async fn waits(&self, requester: &User, qualifiers: &Directives) -> HostResult<Option<Value>> {
        let named = namespaces(qualifiers);
        for nspace in &named {
            if !self.may_see(requester, nspace) || self.site.job(nspace).await.is_none() {
                return Ok(None);
            }
        }
        let mut query = Query::new(&WAITS);
        query.qualifiers =
            named.iter().map(|nspace| Info::new(&keys::NSPACE.text(), nspace.as_str())).collect();
        let own = self.site.server()?.waits(&named);
        let (own, others) = tokio::join!(own, self.ask_others(requester, &query));
        let (mut nodes, mut unanswered) = (vec![own], Vec::new());
        for (node, answer) in others {
            match answer {
                Ok(value) => nodes.push(Wait::read_all(&value)),
                Err(failure) => {
                    let mut wait = Wait::new(0, UNANSWERED, node, Duration::ZERO);
                    wait.error = Some((failure.status, failure.message));
                    unanswered.push(wait);
                }
            }
        }
        let mut waits = Wait::merged(nodes);
        waits.retain(|wait| wait.nspaces().all(|nspace| self.may_see(requester, nspace)));
        waits.sort_by_key(|wait| Reverse(wait.waited));
        waits.extend(unanswered);
        Ok(Some(Wait::write_all(&waits)))
    }

    /// What the kernels say of the processes that are named, on all nodes that answer.
    async fn looks(&self, requester: &User, qualifiers: &Directives) -> HostResult<Option<Value>> {
        let Some(mut named) = processes(qualifiers) else { return Ok(None) };
        named.retain(|proc| self.may_see(requester, &proc.nspace));
        let nspaces: BTreeSet<_> = named.iter().map(|proc| proc.nspace.clone()).collect();
        for nspace in nspaces {
            if self.site.job(&nspace).await.is_none() {
                named.retain(|proc| proc.nspace != nspace);
            }
        }
        if named.is_empty() {
            return Ok(None);
        }
        let mut query = Query::new(&LOOKS);
        query.qualifiers = named.iter().map(|proc| Info::new(&keys::PROCID, proc.clone())).collect();
        let own = self.site.server()?.looks(&named);
        let (mut looks, others) = tokio::join!(own, self.ask_others(requester, &query));
        for (node, answer) in others {
            match answer {
                Ok(value) => looks.extend(ProcLook::read_all(&value)),
                Err(error) => tracing::warn!(node, %error, "a node does not say what its processes do"),
            }
        }
        looks.sort_by(|a, b| a.proc.cmp(&b.proc));
        Ok(Some(ProcLook::write_all(&looks)))
    }

    /// What the server of this node says, to the host of another one, which knows who may see it.
    pub(super) async fn answer_peer(&self, query: &Query) -> HostResult<QueryReply> {
        let server = self.site.server()?;
        let mut answers = Vec::new();
        for key in &query.keys {
            let value = if *key == *WAITS.name() {
                Wait::write_all(&server.waits(&namespaces(&query.qualifiers)).await)
            } else if *key == *LOOKS.name() {
                ProcLook::write_all(&server.looks(&processes(&query.qualifiers).unwrap_or_default()).await)
            } else {
                continue;
            };
            answers.push(Info::dynamic(key.clone(), value));
        }
        Ok(QueryReply::new(Status::SUCCESS, vec![query.results(answers)]))
    }

    /// Asks the hosts of all other nodes at a time.
    async fn ask_others(&self, caller: &User, query: &Query) -> Vec<(String, Result<Value, Failure>)> {
        let request = Request::Query(vec![query.clone()]);
        let request = &PeerRequest::Request { caller: caller.clone(), request };
        let ask = async |node: String| {
            let reply = self.site.ask_within(PATIENCE, &node, request).await;
            let answer = reply.and_then(PeerReply::into_reply).and_then(|reply| found(query, reply));
            (node, answer)
        };
        join_all(self.site.others().into_iter().map(ask)).await
    }

    /// The server's user sees all, others their own jobs.
    fn may_see(&self, requester: &User, nspace: &Nspace) -> bool {
        let is_own = || self.jobs.entries().get(nspace).is_some_and(|job| job.owner == requester.uid);
        is_trusted(requester.uid) || requester.proc.nspace == *nspace || is_own()
    }
}

/// The answer to the one key of a query.
fn found(query: &Query, reply: Reply) -> Result<Value, Failure> {
    let unreadable =
        || Failure::new(Status::ERR_UNPACK_FAILURE, "the reply of another node's host cannot be read");
    let Reply::Query(QueryReply { results, .. }) = reply else { return Err(unreadable()) };
    let infos = results.iter().filter_map(|result| result.value.as_infos()).flatten();
    let answer = infos.into_iter().find(|info| query.keys.contains(&info.key));
    answer.map(|info| info.value.clone()).ok_or_else(unreadable)
}

/// The namespaces that a query names.
fn namespaces(qualifiers: &Directives) -> Vec<Nspace> {
    values(qualifiers, &keys::NSPACE.text()).filter_map(|name: String| Nspace::new(name).ok()).collect()
}

/// The processes that a query names; `None` if they are too many.
fn processes(qualifiers: &Directives) -> Option<Vec<ProcId>> {
    let mut ranks: Vec<Rank> = values(qualifiers, &keys::RANK).collect();
    if ranks.is_empty() {
        ranks.push(Rank::WILDCARD);
    }
    let nspaces = namespaces(qualifiers);
    let mut named: Vec<ProcId> = values(qualifiers, &keys::PROCID).collect();
    if named.len() + nspaces.len() * ranks.len() > MAX_NAMED {
        return None;
    }
    let all = |nspace: Nspace| ranks.iter().map(move |rank| ProcId::new(nspace.clone(), *rank));
    named.extend(nspaces.into_iter().flat_map(all));
    Some(named)
}

/// All values of a qualifier. What cannot be read is left to the server, which refuses it.
fn values<'a, T: ValueType>(qualifiers: &'a Directives, key: &'a Key<T>) -> impl Iterator<Item = T> + 'a {
    qualifiers.iter().filter(move |info| info.is(key)).filter_map(|info| info.get().ok())
}
