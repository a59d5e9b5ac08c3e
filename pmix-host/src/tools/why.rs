//! Why jobs wait: what the servers of all nodes know of it, and what the kernels there say of processes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pmix_server::host::HostResult;
use pmix_types::why::{LOOKS, ProcLook, WAITS, Wait};
use pmix_types::{Directives, Info, Key, Nspace, ProcId, Query, Rank, Value, ValueType, keys};

use super::elsewhere::{ask_nodes, may_see, nodes_of};
use crate::internode::Site;
use crate::jobs::JobTable;
use crate::user::User;

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
            if !may_see(&self.jobs, requester, nspace) || self.site.job(nspace).await.is_none() {
                return Ok(None);
            }
        }
        let mut query = Query::new(&WAITS);
        query.qualifiers =
            named.iter().map(|nspace| Info::new(&keys::NSPACE.text(), nspace.as_str())).collect();
        let procs: Vec<_> = named.iter().cloned().map(ProcId::wildcard).collect();
        let mut asked = match procs.is_empty() {
            true => self.site.others().into_iter().collect(),
            false => nodes_of(&self.site, &procs).await,
        };
        let own = self.site.server()?.waits(&named);
        let others = ask_nodes(&self.site, asked.clone(), requester, &query);
        let (own, mut others) = tokio::join!(own, others);
        let (mut nodes, mut unanswered) = (vec![own], Vec::new());
        loop {
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
            // those who wait for, or with, processes of other jobs are known where these are
            let nspaces = nodes.iter().flatten().flat_map(Wait::nspaces).filter(|name| !named.contains(name));
            let procs: BTreeSet<_> = nspaces.cloned().map(ProcId::wildcard).collect();
            let more = nodes_of(&self.site, &procs).await;
            let more: Vec<String> = more.difference(&asked).cloned().collect();
            if more.is_empty() {
                break;
            }
            asked.extend(more.iter().cloned());
            others = ask_nodes(&self.site, more, requester, &query).await;
        }
        let mut waits = Wait::merged(nodes);
        waits.retain(|wait| wait.nspaces().all(|nspace| may_see(&self.jobs, requester, nspace)));
        waits.sort_by_key(|wait| Reverse(wait.waited));
        waits.extend(unanswered);
        Ok(Some(Wait::write_all(&waits)))
    }

    /// What the kernels say of the processes that are named, on all nodes that answer.
    async fn looks(&self, requester: &User, qualifiers: &Directives) -> HostResult<Option<Value>> {
        let Some(mut named) = processes(qualifiers) else { return Ok(None) };
        named.retain(|proc| may_see(&self.jobs, requester, &proc.nspace));
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
        let nodes = nodes_of(&self.site, &named).await;
        let own = self.site.server()?.looks(&named);
        let (mut looks, others) = tokio::join!(own, ask_nodes(&self.site, nodes, requester, &query));
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
    pub(super) async fn answer_peer(&self, query: &Query) -> HostResult<Vec<Info>> {
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
        Ok(answers)
    }
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
