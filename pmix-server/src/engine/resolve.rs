//! Who is on a node, and which nodes a namespace has: the host's word first, then what the server knows itself.

use pmix_types::job::{JobData, resolve_nodes, resolve_peers};
use pmix_types::message::{Failure, Reply, ResolvePeers};
use pmix_types::{DataArray, Directives, Info, KeyName, Nspace, Query, Status, Value, keys};

use super::connect::push_identity;
use super::ids::ReplyTo;
use super::upcall::{QueryRequest, QueryResults, Upcall};
use super::{Answer, Asked, Caller, Engine, Out, UpcallPurpose, UpcallRequest};

/// What is to be resolved; no namespace stands for all.
#[derive(Debug)]
pub(super) enum Resolve {
    Peers { node: String, nspace: Option<Nspace> },
    Nodes(Option<Nspace>),
}

/// What the host has been asked to resolve, for whom.
#[derive(Debug)]
pub(super) struct Resolving {
    pub(super) to: ReplyTo,
    by: Caller,
    what: Resolve,
}

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

impl Engine {
    pub(super) fn on_resolve_peers(&mut self, asked: Asked, ask: ResolvePeers, out: &mut Out) {
        let node = ask.node.unwrap_or_else(|| self.config.hostname.clone());
        self.resolve(asked, Resolve::Peers { node, nspace: ask.nspace }, out);
    }

    pub(super) fn on_resolve_nodes(&mut self, asked: Asked, nspace: Option<Nspace>, out: &mut Out) {
        self.resolve(asked, Resolve::Nodes(nspace), out);
    }

    fn resolve(&mut self, asked: Asked, what: Resolve, out: &mut Out) {
        let Asked { by, to, .. } = asked;
        if !self.config.capabilities.has(Upcall::Query) {
            let result = self.own_resolve(&by, &what);
            return self.reply(to, result, out);
        }
        let mut directives = Directives::new();
        push_identity(&mut directives, (by.uid, by.gid));
        let request = QueryRequest::new(vec![what.query()]).with_directives(directives);
        let purpose = UpcallPurpose::Resolve(Resolving { to, by: by.clone(), what });
        self.upcall(purpose, by, UpcallRequest::Query(request), out);
    }

    pub(super) fn on_resolve_answer(
        &mut self,
        Resolving { to, by, what }: Resolving,
        result: Result<Answer, Failure>,
        out: &mut Out,
    ) {
        let result = match result {
            Ok(Answer::Query(found)) => what.read(&found),
            Ok(other) => {
                Err(Failure::new(Status::ERROR, format!("the host answered a query with {other:?}")))
            }
            // only this says that the host does not know the question (RES-05)
            Err(failure) if failure.status == Status::ERR_NOT_SUPPORTED => self.own_resolve(&by, &what),
            Err(failure) => Err(failure),
        };
        self.reply(to, result, out);
    }

    fn own_resolve(&self, by: &Caller, what: &Resolve) -> Result<Reply, Failure> {
        match what {
            Resolve::Peers { node, nspace } => {
                resolve_peers(self.jobs_of(by, nspace.as_ref())?, node).map(Reply::Procs)
            }
            Resolve::Nodes(nspace) => Ok(Reply::Nodes(resolve_nodes(self.jobs_of(by, nspace.as_ref())?))),
        }
    }

    /// The job of a namespace (RES-06), or all that the caller may see in the order of their names (RES-11).
    fn jobs_of<'a>(&'a self, by: &'a Caller, nspace: Option<&Nspace>) -> Result<Vec<&'a JobData>, Failure> {
        match nspace {
            None => Ok(self.visible_jobs(by).map(|job| &*job.data).collect()),
            Some(nspace) => Ok(vec![&*self.visible_job(by, nspace)?.data]),
        }
    }
}

/// The value of a key among the results of one query, in the Standard's form or bare.
fn value_of<'a>(key: &KeyName, results: &'a [Info]) -> Option<&'a Value> {
    let inside = |info: &'a Info| info.value.as_infos().filter(|_| info.is(&keys::QUERY_RESULTS));
    let all = results.iter().flat_map(|info| inside(info).unwrap_or_else(|| std::slice::from_ref(info)));
    all.into_iter().find(|info| info.key == *key).map(|info| &info.value)
}

fn unreadable(what: &str) -> Failure {
    Failure::new(Status::ERROR, format!("the host's answer is no list of {what}"))
}
