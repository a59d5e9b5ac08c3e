//! Queries to the hosts of all other nodes, and who may see what they answer.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use pmix_types::message::{Failure, QueryInfo, QueryReply, Reply, Request};
use pmix_types::{
    DataArray, Directives, Info, Key, Nspace, ProcId, Query, Rank, Status, Value, ValueType, keys,
};

use crate::internode::{PeerReply, PeerRequest, Site};
use crate::jobs::JobTable;
use crate::user::{User, is_trusted};

/// Number of processes that one query may name; the server, which has the same limit, says so.
const MAX_NAMED: usize = 1024;

/// How long another node is waited for: a node that is gone holds nobody up for longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// What each node answers.
pub(super) type Answers = Vec<(String, Result<Value, Failure>)>;

/// Asks the hosts of all other nodes at a time for the one key of a query.
pub(super) async fn ask_others(site: &Site, caller: &User, query: &Query) -> Answers {
    ask_nodes(site, site.others(), caller, query).await
}

/// What is known of these processes here and on the other nodes where they are. A node that does not answer is left out, and
/// logged.
pub(super) async fn of_procs<T>(
    site: &Site,
    caller: &User,
    key: &Key<DataArray>,
    named: &[ProcId],
    own: impl Future<Output = Vec<T>>,
    read: fn(&Value) -> Vec<T>,
) -> Vec<T> {
    let mut query = Query::new(key);
    query.qualifiers = named.iter().map(|proc| Info::new(&keys::PROCID, proc.clone())).collect();
    let nodes = nodes_of(site, named).await;
    let (mut all, others) = tokio::join!(own, ask_nodes(site, nodes, caller, &query));
    for (node, answer) in others {
        match answer {
            Ok(value) => all.extend(read(&value)),
            Err(error) => tracing::debug!(node, %error, "a node does not say what its processes do"),
        }
    }
    all
}

/// The same of these nodes.
pub(super) async fn ask_nodes(
    site: &Site,
    nodes: impl IntoIterator<Item = String>,
    caller: &User,
    query: &Query,
) -> Answers {
    let request = Request::QueryInfo(QueryInfo::new(vec![query.clone()]));
    let request = &PeerRequest::Request { caller: caller.clone(), request };
    let ask = async |node: String| {
        let reply = site.ask_within(PATIENCE, &node, request).await;
        let answer = reply.and_then(PeerReply::into_reply).and_then(|reply| match reply {
            Reply::Query(QueryReply { results, .. }) => found(query, &results).ok_or_else(unreadable),
            _ => Err(unreadable()),
        });
        (node, answer)
    };
    join_all(nodes.into_iter().map(ask)).await
}

/// The other nodes on which processes are, by what their jobs say; all others if that is not known.
pub(super) async fn nodes_of<'a>(
    site: &Site,
    procs: impl IntoIterator<Item = &'a ProcId>,
) -> BTreeSet<String> {
    let others: BTreeSet<String> = site.others().into_iter().collect();
    let mut found = BTreeSet::new();
    for proc in procs {
        let job = site.job(&proc.nspace).await;
        let on = job.as_ref().and_then(|job| match proc.rank.is_valid() {
            true => job.hostname_of(proc.rank).map(|name| vec![name]),
            false => job.node_map().map(|map| map.iter().collect()),
        });
        match on {
            // a job may know a node by another name
            Some(on) if on.iter().all(|name| site.has_had(name)) => found.extend(on),
            _ => return others,
        }
    }
    found.retain(|name| others.contains(name));
    found
}

/// The answer to the one key of a query.
pub(super) fn found(query: &Query, results: &[Info]) -> Option<Value> {
    let mut infos = results.iter().filter_map(|result| result.value.as_infos()).flatten();
    infos.find(|info| query.keys.contains(&info.key)).map(|info| info.value.clone())
}

fn unreadable() -> Failure {
    Failure::new(Status::ERR_UNPACK_FAILURE, "the reply of another node's host cannot be read")
}

/// The server's user sees all, others their own jobs.
pub(super) fn may_see(jobs: &JobTable, requester: &User, nspace: &Nspace) -> bool {
    let is_own = || jobs.entries().get(nspace).is_some_and(|job| job.owner == requester.uid);
    is_trusted(requester.uid) || requester.proc.nspace == *nspace || is_own()
}

/// The processes that a query names, of jobs that run and that the requester may see; `None` if there are none, or too many.
pub(super) async fn named_and_visible(
    jobs: &JobTable,
    site: &Site,
    requester: &User,
    qualifiers: &Directives,
) -> Option<Vec<ProcId>> {
    let mut named = processes(qualifiers)?;
    named.retain(|proc| may_see(jobs, requester, &proc.nspace));
    let nspaces: BTreeSet<_> = named.iter().map(|proc| proc.nspace.clone()).collect();
    for nspace in nspaces {
        if site.job(&nspace).await.is_none() {
            named.retain(|proc| proc.nspace != nspace);
        }
    }
    (!named.is_empty()).then_some(named)
}

/// The namespaces that a query names.
pub(super) fn namespaces(qualifiers: &Directives) -> Vec<Nspace> {
    values(qualifiers, &keys::NSPACE.text()).filter_map(|name: String| Nspace::new(name).ok()).collect()
}

/// The processes that a query names; `None` if they are too many.
pub(super) fn processes(qualifiers: &Directives) -> Option<Vec<ProcId>> {
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
