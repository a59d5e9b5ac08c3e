//! Groups of all nodes: each server knows those that have members on its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use pmix_server::host::HostResult;
use pmix_types::message::QueryReply;
use pmix_types::{DataArray, Directives, Info, ProcId, Query, Status, Value, keys};

use super::elsewhere::{ask_others, found, may_see};
use crate::internode::Site;
use crate::jobs::JobTable;
use crate::user::{User, is_trusted};

/// Knows the groups.
pub(super) struct Groups {
    jobs: Arc<JobTable>,
    site: Arc<Site>,
}

impl Groups {
    pub(super) fn new(jobs: Arc<JobTable>, site: Arc<Site>) -> Self {
        Self { jobs, site }
    }

    /// The answer to a query about groups; `None` for another key, and for a group that nobody knows.
    pub(super) async fn answer(
        &self,
        requester: &User,
        key: &str,
        qualifiers: &Directives,
    ) -> HostResult<Option<Value>> {
        if key == keys::QUERY_GROUP_MEMBERSHIP.name() {
            // the server refuses a query that names no group
            let Some(id) = group_in(qualifiers) else { return Ok(None) };
            return self.membership(requester, &id).await;
        }
        let is_number = key == keys::QUERY_NUM_GROUPS.name();
        if !is_number && key != keys::QUERY_GROUP_NAMES.name() {
            return Ok(None);
        }
        let names = self.names(requester).await?;
        Ok(Some(if is_number { Value::Size(names.len() as u64) } else { DataArray::String(names).into() }))
    }

    async fn names(&self, requester: &User) -> HostResult<Vec<String>> {
        let query = Query::new(&keys::QUERY_GROUP_NAMES);
        let (own, others) =
            tokio::join!(self.names_here(requester), ask_others(&self.site, requester, &query));
        let mut names: BTreeSet<_> = own?.into_iter().collect();
        for (node, answer) in others {
            match answer {
                Ok(value) => names.extend(texts(&value)),
                Err(error) => tracing::warn!(node, %error, "a node does not say which groups it knows"),
            }
        }
        Ok(names.into_iter().collect())
    }

    async fn membership(&self, requester: &User, id: &str) -> HostResult<Option<Value>> {
        if let Some(members) = self.members_here(requester, id).await? {
            return Ok(Some(members));
        }
        let query = Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, id);
        let others = ask_others(&self.site, requester, &query).await;
        Ok(others.into_iter().find_map(|(_, answer)| answer.ok()))
    }

    /// What this node says to the host of another one; an array without members for a group that it does not know.
    pub(super) async fn answer_peer(&self, requester: &User, query: &Query) -> HostResult<Vec<Info>> {
        let mut answers = Vec::new();
        for key in &query.keys {
            let value = if *key == *keys::QUERY_GROUP_NAMES.name() {
                DataArray::String(self.names_here(requester).await?).into()
            } else if *key == *keys::QUERY_GROUP_MEMBERSHIP.name()
                && let Some(id) = group_in(&query.qualifiers)
                && let Some(members) = self.members_here(requester, &id).await?
            {
                members
            } else {
                continue;
            };
            answers.push(Info::dynamic(key.clone(), value));
        }
        Ok(answers)
    }

    async fn names_here(&self, requester: &User) -> HostResult<Vec<String>> {
        let all = self.ask_server(Query::new(&keys::QUERY_GROUP_NAMES)).await?;
        let mut names = all.as_ref().map(texts).unwrap_or_default();
        if !is_trusted(requester.uid) {
            let mut shown = Vec::new();
            for name in names {
                shown.extend(self.members_here(requester, &name).await?.map(|_| name));
            }
            names = shown;
        }
        Ok(names)
    }

    /// Who may see one of the members may see the group.
    async fn members_here(&self, requester: &User, id: &str) -> HostResult<Option<Value>> {
        let query = Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, id);
        let members = self.ask_server(query).await?;
        let is_shown = |proc: &ProcId| may_see(&self.jobs, requester, &proc.nspace);
        Ok(members.filter(|members| procs(members).iter().any(is_shown)))
    }

    /// The answer of the server of this node to a query of one key.
    async fn ask_server(&self, query: Query) -> HostResult<Option<Value>> {
        let query = query.qualifier(&keys::QUERY_LOCAL_ONLY, true);
        match self.site.server()?.client().query([query.clone()]).await {
            Ok(QueryReply { results, .. }) => Ok(found(&query, &results)),
            Err(failure) if failure.status == Status::ERR_NOT_FOUND => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn group_in(qualifiers: &Directives) -> Option<String> {
    qualifiers.iter().find(|info| info.is(&keys::GROUP_ID)).and_then(|info| info.get().ok())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().and_then(|array| array.as_strings()).unwrap_or_default().to_vec()
}

fn procs(value: &Value) -> &[ProcId] {
    value.as_array().and_then(|array| array.as_procs()).unwrap_or_default()
}
