//! Queries that are answered from what the host knows of its jobs.

use pmix_types::{DataArray, Info, KeyName, Nspace, Query, Status, Value, keys};

use super::host::take_identity;
use super::{Exchange, Launcher, StandardHost};
use crate::engine::query_results;
use crate::host::{HostResult, QueryRequest, QueryResults};

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    pub(super) fn answer_queries(&self, mut req: QueryRequest) -> HostResult<QueryResults> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        for query in &req.queries {
            let mut qualifiers = query.qualifiers.clone();
            qualifiers.take::<String>(&keys::NSPACE)?;
            // what is answered here is never a copy
            qualifiers.take_flag(&keys::QUERY_REFRESH_CACHE)?;
            qualifiers.deny_unprocessed()?;
        }
        let (mut results, mut missing) = (Vec::new(), false);
        for query in &req.queries {
            let answers = self.answer_query(query);
            missing |= answers.len() < query.keys.len();
            if !answers.is_empty() {
                results.push(query_results(query, answers));
            }
        }
        match (results.is_empty(), missing) {
            // the server may know
            (true, _) => Err(Status::ERR_NOT_FOUND.into()),
            (false, true) => Ok(QueryResults::partial(results)),
            (false, false) => Ok(QueryResults::complete(results)),
        }
    }

    fn answer_query(&self, query: &Query) -> Vec<Info> {
        query
            .keys
            .iter()
            .filter_map(|key| Some(Info::dynamic(key.clone(), self.answer_key(key, query)?)))
            .collect()
    }

    fn answer_key(&self, key: &KeyName, query: &Query) -> Option<Value> {
        let jobs = self.jobs();
        if **key == *keys::QUERY_NAMESPACES.name() {
            // jobs that others have started are known to the server only
            if jobs.is_empty() {
                return None;
            }
            return Some(jobs.keys().map(Nspace::as_str).collect::<Vec<_>>().join(",").into());
        }
        let is_local = **key == *keys::QUERY_LOCAL_PROC_TABLE.name();
        if !is_local && **key != *keys::QUERY_PROC_TABLE.name() {
            return None;
        }
        let nspace: String = query.qualifiers.get(&keys::NSPACE).ok()??;
        let here = self.0.exchange.node();
        let rows = jobs.get(nspace.as_str())?.table.iter();
        let rows = rows.filter(|row| !is_local || row.hostname.as_deref() == Some(here));
        Some(DataArray::ProcInfo(rows.cloned().collect()).into())
    }
}
