//! Which processes are on a node, and which nodes a namespace has: the host is asked first, then the server answers
//! from its own data.

use std::collections::BTreeMap;

use pmix_types::job::{JobData, resolve_nodes, resolve_peers};
use pmix_types::message::{Failure, Reply, ResolvePeers};
use pmix_types::{DataArray, Directives, Info, KeyName, Nspace, Query, Status, Value, keys};

use crate::context::{Context, Owner};
use crate::ids::ReplyTo;
use crate::upcall::{QueryRequest, QueryResults, Upcall};
use crate::users::push_identity;
use crate::{Answer, Asked, Caller, ConnId, UpcallId, UpcallRequest};

/// What is to be resolved; no namespace stands for all.
#[derive(Debug)]
enum Resolve {
    Peers { node: String, nspace: Option<Nspace> },
    Nodes(Option<Nspace>),
}

/// What the host has been asked to resolve, for whom.
#[derive(Debug)]
struct Resolving {
    to: ReplyTo,
    by: Caller,
    what: Resolve,
}

/// Requests that wait for the host.
#[derive(Debug, Default)]
pub(crate) struct Resolutions(BTreeMap<UpcallId, Resolving>);

impl Resolve {
    /// The question as hosts know it (RES-04).
    fn query(&self) -> Query {
        let (query, nspace) = match self {
            Self::Peers { node, nspace } => {
                (Query::new(&keys::QUERY_RESOLVE_PEERS).qualifier(&keys::HOSTNAME, node.as_str()), nspace)
            }
            Self::Nodes(nspace) => (Query::new(&keys::QUERY_RESOLVE_NODE), nspace),
        };
        match nspace {
            Some(nspace) => query.qualifier(&keys::NSPACE.text(), nspace.as_str()),
            None => query,
        }
    }

    /// The host's answer. None at all means that it found nothing.
    fn read(&self, found: &QueryResults) -> Result<Reply, Failure> {
        let value = match self {
            Self::Peers { .. } => value_of(&keys::QUERY_RESOLVE_PEERS.key_name(), &found.results),
            Self::Nodes(_) => value_of(&keys::QUERY_RESOLVE_NODE.key_name(), &found.results),
        };
        match (self, value) {
            (Self::Peers { .. }, None | Some(Value::Undef)) => Ok(Reply::Procs(Vec::new())),
            (Self::Peers { .. }, Some(Value::Proc(proc))) => Ok(Reply::Procs(vec![proc.clone()])),
            (Self::Peers { .. }, Some(Value::DataArray(array))) => match &**array {
                DataArray::Proc(procs) => Ok(Reply::Procs(procs.clone())),
                array if array.is_empty() => Ok(Reply::Procs(Vec::new())),
                _ => Err(unreadable("processes")),
            },
            (Self::Nodes(_), None | Some(Value::Undef | Value::NullString)) => Ok(Reply::Nodes(Vec::new())),
            (Self::Nodes(_), Some(Value::String(list))) => Ok(Reply::Nodes(
                list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            )),
            (Self::Peers { .. }, Some(_)) => Err(unreadable("processes")),
            (Self::Nodes(_), Some(_)) => Err(unreadable("nodes")),
        }
    }
}

impl Resolutions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A connection is gone: nobody waits for its answers.
    pub(crate) fn conn_gone(&mut self, conn: ConnId) {
        self.0.retain(|_, resolving| resolving.to.conn != conn);
    }

    pub(crate) fn on_peers(&mut self, asked: Asked, request: ResolvePeers, cx: &mut Context) {
        let node = request.node.unwrap_or_else(|| cx.config.hostname.clone());
        self.resolve(asked, Resolve::Peers { node, nspace: request.nspace }, cx);
    }

    pub(crate) fn on_nodes(&mut self, asked: Asked, nspace: Option<Nspace>, cx: &mut Context) {
        self.resolve(asked, Resolve::Nodes(nspace), cx);
    }

    fn resolve(&mut self, asked: Asked, what: Resolve, cx: &mut Context) {
        let Asked { by, to, .. } = asked;
        if !cx.config.capabilities.has(Upcall::Query) {
            let result = own_answer(&by, &what, cx);
            return cx.reply(to, result);
        }
        let mut directives = Directives::new();
        push_identity(&mut directives, by.uid, by.gid);
        let request = QueryRequest::new(vec![what.query()]).with_directives(directives);
        let id = cx.upcall(Owner::Resolve(to), by.clone(), UpcallRequest::Query(request));
        self.0.insert(id, Resolving { to, by, what });
    }

    /// The host has answered.
    pub(crate) fn on_answer(&mut self, upcall: UpcallId, result: Result<Answer, Failure>, cx: &mut Context) {
        let Some(Resolving { to, by, what }) = self.0.remove(&upcall) else { return };
        let result = match result {
            Ok(Answer::Query(found)) => what.read(&found),
            Ok(other) => {
                Err(Failure::new(Status::ERROR, format!("the host answered a query with {other:?}")))
            }
            // only this says that the host does not know the question (RES-05)
            Err(failure) if failure.status == Status::ERR_NOT_SUPPORTED => own_answer(&by, &what, cx),
            Err(failure) => Err(failure),
        };
        cx.reply(to, result);
    }
}

/// What the server knows itself.
fn own_answer(by: &Caller, what: &Resolve, cx: &Context) -> Result<Reply, Failure> {
    match what {
        Resolve::Peers { node, nspace } => {
            resolve_peers(jobs_of(by, nspace.as_ref(), cx)?, node).map(Reply::Procs)
        }
        Resolve::Nodes(nspace) => Ok(Reply::Nodes(resolve_nodes(jobs_of(by, nspace.as_ref(), cx)?))),
    }
}

/// The job of a namespace (RES-06), or all jobs that the caller may see, ordered by name (RES-11).
fn jobs_of<'a>(
    by: &'a Caller,
    nspace: Option<&Nspace>,
    cx: &'a Context,
) -> Result<Vec<&'a JobData>, Failure> {
    match nspace {
        None => Ok(cx.visible_jobs(by).map(|job| &*job.data).collect()),
        Some(nspace) => Ok(vec![&*cx.visible_job(by, nspace)?.data]),
    }
}

/// The value of a key among the results of one query, in the Standard's form or bare.
fn value_of<'a>(key: &KeyName, results: &'a [Info]) -> Option<&'a Value> {
    let inside = |info: &'a Info| info.value.as_infos().filter(|_| info.is(&keys::QUERY_RESULTS));
    let all = results.iter().flat_map(|info| inside(info).unwrap_or_else(|| std::slice::from_ref(info)));
    all.into_iter().find(|info| info.key == *key).map(|info| &info.value)
}

fn unreadable(what: &str) -> Failure {
    Failure::new(Status::ERROR, format!("the host's answer is not a list of {what}"))
}
