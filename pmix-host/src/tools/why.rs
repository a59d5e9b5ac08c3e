//! What processes do: why jobs wait, as the servers of all nodes know it, and what the kernels there say of processes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pmix_server::host::HostResult;
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::why::{LOOKS, ProcLook, WAITS, Wait};
use pmix_types::{Directives, Info, ProcId, Query, Value, keys};

use super::counts::{self, COUNTS};
use super::elsewhere::{ask_nodes, may_see, named_and_visible, namespaces, nodes_of, of_procs, processes};
use crate::internode::Site;
use crate::jobs::JobTable;
use crate::user::User;

/// What the extra wait is called that names a node which has not answered.
const UNANSWERED: &str = "query of waits";

/// Knows what processes do.
pub(super) struct Why {
    pub(super) jobs: Arc<JobTable>,
    pub(super) site: Arc<Site>,
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
        } else if key == USAGE.name() {
            self.usage(requester, qualifiers).await
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
        let named = named_and_visible(&self.jobs, &self.site, requester, qualifiers).await;
        let Some(named) = named else { return Ok(None) };
        let own = self.site.server()?.looks(&named);
        let mut looks = of_procs(&self.site, requester, &LOOKS, &named, own, ProcLook::read_all).await;
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
            } else if *key == *USAGE.name() {
                ProcUsage::write_all(&server.usage(&processes(&query.qualifiers).unwrap_or_default()).await)
            } else if *key == *COUNTS.name() {
                counts::write(server.stats().await)
            } else {
                continue;
            };
            answers.push(Info::dynamic(key.clone(), value));
        }
        Ok(answers)
    }
}
