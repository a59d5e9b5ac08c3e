//! Queries that the host answers from what it knows about its jobs.

use std::sync::Arc;

use futures::future::try_join_all;
use pmix_server::host::{HostError, HostResult, QueryRequest, QueryResults};
use pmix_types::message::{QueryReply, Reply};
use pmix_types::{
    DataArray, Directives, Info, JOB_END, Key, KeyName, Memory, Nspace, Query, Status, Value, keys,
};

use super::groups::Groups;
use super::nodes::SessionNodes;
use super::why::Why;
use crate::Launcher;
use crate::allocations::{AllocationName, Allocations};
use crate::attributes::{QUERY, SPAWN};
use crate::internode::{MAX_QUERIES, Site, Turns};
use crate::jobs::{JobEntry, JobTable};
use crate::user::{User, is_trusted, take_identity};

/// Queries of one request that are answered at a time.
const AT_A_TIME: usize = 64;
/// Bytes that the answer to one request may take.
const MAX_ANSWER: usize = 256 << 20;

/// Answers queries.
pub(crate) struct Queries {
    jobs: Arc<JobTable>,
    allocations: Arc<Allocations>,
    nodes: SessionNodes,
    why: Why,
    groups: Groups,
    /// How many requests of each user are answered at a time.
    pub(crate) turns: Turns,
}

impl Queries {
    pub(crate) fn new(
        launcher: Arc<dyn Launcher>,
        jobs: Arc<JobTable>,
        site: Arc<Site>,
        allocations: Arc<Allocations>,
    ) -> Self {
        let nodes = SessionNodes::new(launcher, jobs.clone(), allocations.clone());
        let why = Why::new(jobs.clone(), site.clone());
        let groups = Groups::new(jobs.clone(), site);
        Self { jobs, allocations, nodes, why, groups, turns: Turns::new(MAX_QUERIES) }
    }

    /// Other users learn nothing about the jobs of a user. `node` is that of the requester.
    pub(crate) async fn answer(
        &self,
        requester: &User,
        node: &str,
        mut req: QueryRequest,
    ) -> HostResult<QueryResults> {
        let _turn = self.turns.take_unless_trusted(requester.uid).await;
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        for query in &req.queries {
            query.qualifiers.deny_beyond(QUERY)?;
        }
        let (mut results, mut missing) = (Vec::new(), false);
        // other nodes are waited for by all of them together
        let (mut answered, mut bytes) = (Vec::with_capacity(req.queries.len()), 0);
        for some in req.queries.chunks(AT_A_TIME) {
            let some: Vec<_> = some.iter().map(|query| self.answer_query(requester, node, query)).collect();
            let some = try_join_all(some).await?;
            bytes += some.iter().flatten().map(Info::memory).sum::<usize>();
            if bytes > MAX_ANSWER {
                let message =
                    format!("the answer takes more than {MAX_ANSWER} bytes: ask for less at a time");
                return Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message));
            }
            answered.extend(some);
        }
        for (query, answers) in req.queries.iter().zip(answered) {
            missing |= answers.len() < query.keys.len();
            if !answers.is_empty() {
                results.push(query.results(answers));
            }
        }
        match (results.is_empty(), missing) {
            // the server may know
            (true, _) => {
                Err(HostError::not_supported("queries about anything except jobs, their processes and nodes"))
            }
            (false, true) => Ok(QueryResults::partial(results)),
            (false, false) => Ok(QueryResults::complete(results)),
        }
    }

    /// What the host of another node wants to know of this one's server.
    pub(crate) async fn answer_peer(&self, requester: &User, queries: &[Query]) -> HostResult<Reply> {
        let [query] = queries else {
            return Err(HostError::not_supported("several queries of another node's host at a time"));
        };
        let answers =
            [self.why.answer_peer(query).await?, self.groups.answer_peer(requester, query).await?].concat();
        Ok(Reply::Query(QueryReply::new(Status::SUCCESS, vec![query.results(answers)])))
    }

    async fn answer_query(&self, requester: &User, node: &str, query: &Query) -> HostResult<Vec<Info>> {
        let mut answers = Vec::new();
        for key in &query.keys {
            let own = of_spawn(key).or_else(|| self.answer_key(requester, node, key, &query.qualifiers));
            let answer = match own.or_else(|| self.of_allocation(requester, key, &query.qualifiers)) {
                None => match self.why.answer(requester, key, &query.qualifiers).await? {
                    None => self.groups.answer(requester, key, &query.qualifiers).await?,
                    answer => answer,
                },
                answer => answer,
            };
            answers.extend(answer.map(|value| Info::dynamic(key.clone(), value)));
        }
        Ok(answers)
    }

    /// What there is to know of an allocation (ALC-02): of the one that is named, or in which a job runs, by default the
    /// requester's own. `None` for other keys, and if there is no such allocation or its time has no end.
    fn of_allocation(&self, requester: &User, key: &KeyName, qualifiers: &Directives) -> Option<Value> {
        let text = |key: &Key<String>| texts(qualifiers, key).first().copied();
        if **key == *keys::QUERY_ALLOCATION.name() {
            return self.nodes.answer(requester, text(&keys::ALLOC_ID));
        }
        let named = match (text(&keys::ALLOC_ID), text(&keys::ALLOC_REQ_ID), text(&keys::NSPACE.text())) {
            (Some(id), ..) => AllocationName::Id(id),
            (_, Some(label), _) => AllocationName::Label(label),
            (.., nspace) => AllocationName::Job(nspace.unwrap_or(&requester.proc.nspace)),
        };
        if **key == *keys::TIME_REMAINING.name() {
            self.allocations.time_left(requester, &named).map(Value::from)
        } else if **key == *keys::QUERY_ALLOC_STATUS.name() {
            self.allocations.id_of(requester, &named).map(|id| format!("{id} is held").into())
        } else {
            None
        }
    }

    /// How a job of this user has ended.
    fn end_of_job(&self, requester: &User, nspace: &str) -> Option<Value> {
        let ending = self.jobs.ending(&Nspace::new(nspace).ok()?)?;
        if !is_trusted(requester.uid) && ending.owner != requester.uid {
            return None;
        }
        let status = Info::new(&keys::JOB_TERM_STATUS, ending.status);
        Some(DataArray::Info(vec![status, Info::new(&keys::EXIT_CODE, ending.exit_code)]).into())
    }

    /// `None` for what the server answers: it knows namespaces of jobs that others have started, too.
    fn answer_key(
        &self,
        requester: &User,
        node: &str,
        key: &KeyName,
        qualifiers: &Directives,
    ) -> Option<Value> {
        if **key == *JOB_END.name() {
            return self.end_of_job(requester, texts(qualifiers, &keys::NSPACE.text()).first()?);
        }
        let jobs = self.jobs.entries();
        let is_local = **key == *keys::QUERY_LOCAL_PROC_TABLE.name();
        if !is_local && **key != *keys::QUERY_PROC_TABLE.name() {
            return None;
        }
        let mut nodes = texts(qualifiers, &keys::HOSTNAME);
        if nodes.is_empty() {
            nodes.push(node);
        }
        let is_there = |name: Option<&str>| name.is_some_and(|name| nodes.contains(&name));
        let mut table = None;
        for nspace in texts(qualifiers, &keys::NSPACE.text()) {
            let is_shown = |job: &&JobEntry| is_trusted(requester.uid) || job.owner == requester.uid;
            let Some(job) = jobs.get(nspace).filter(is_shown) else { continue };
            let rows = job.table.iter().filter(|row| !is_local || is_there(row.hostname.as_deref()));
            table.get_or_insert_with(Vec::new).extend(rows.cloned());
        }
        table.map(|rows| DataArray::ProcInfo(rows).into())
    }
}

/// What a launcher or a debugger may request of a spawn: the keys, with commas between them.
fn of_spawn(key: &KeyName) -> Option<Value> {
    let is_asked: fn(&&&str) -> bool = if **key == *keys::QUERY_SPAWN_SUPPORT.name() {
        |_| true
    } else if **key == *keys::QUERY_DEBUG_SUPPORT.name() {
        |attribute| attribute.starts_with("pmix.dbg.") || ***attribute == *keys::DEBUGGER_DAEMONS.name()
    } else {
        return None;
    };
    Some(SPAWN.iter().filter(is_asked).copied().collect::<Vec<_>>().join(",").into())
}

/// The texts given under a key, without repeats: all of them are meant (QRY-06).
fn texts<'a>(qualifiers: &'a Directives, key: &Key<String>) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for text in qualifiers.iter().filter(|info| info.is(key)).filter_map(|info| info.value.as_str()) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
