//! Queries: the host's word first, then what the server knows itself.

use pmix_types::message::{Failure, QueryReply, Reply};
use pmix_types::{
    DataArray, Directives, Info, Nspace, Pid, ProcId, ProcInfo, ProcState, Query, Rank, Status, Value, keys,
};

use super::connect::push_identity;
use super::ids::ReplyTo;
use super::registry::{Job, Stage, unknown_nspace};
use super::{Answer, Asked, Engine, Out, UpcallPurpose, UpcallRequest};
use crate::host::{QueryRequest, Upcall};

impl Engine {
    pub(super) fn on_query(&mut self, asked: Asked, queries: Vec<Query>, out: &mut Out) {
        if let Err(failure) = check(&queries) {
            return self.reply(asked.to, Err(failure), out);
        }
        if !self.config.capabilities.has(Upcall::Query) {
            let result = self.own_answers(&queries).map(Reply::Query);
            return self.reply(asked.to, result, out);
        }
        let mut directives = Directives::new();
        push_identity(&mut directives, (asked.by.uid, asked.by.gid));
        let request = QueryRequest::new(queries.clone()).with_directives(directives);
        self.upcall(
            UpcallPurpose::Query { to: asked.to, queries },
            asked.by,
            UpcallRequest::Query(request),
            out,
        );
    }

    pub(super) fn on_query_answer(
        &mut self,
        to: ReplyTo,
        queries: &[Query],
        result: Result<Answer, Failure>,
        out: &mut Out,
    ) {
        let result = match result {
            Ok(Answer::Query(found)) => Ok(QueryReply::new(found.status, found.results)),
            Ok(other) => {
                Err(Failure::new(Status::ERROR, format!("the host answered a query with {other:?}")))
            }
            Err(failure) if [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND].contains(&failure.status) => {
                self.own_answers(queries)
            }
            Err(failure) => Err(failure),
        };
        self.reply(to, result.map(Reply::Query), out);
    }

    /// One `QUERY_RESULTS` for each query with a result (QRY-02).
    fn own_answers(&self, queries: &[Query]) -> Result<QueryReply, Failure> {
        let (mut results, mut asked, mut found) = (Vec::new(), 0, 0);
        for query in queries {
            let mut answers = Vec::new();
            for key in &query.keys {
                asked += 1;
                if let Some(value) = self.own_answer(key, &query.qualifiers)? {
                    answers.push(Info::dynamic(key.clone(), value));
                }
            }
            found += answers.len();
            if !answers.is_empty() {
                results.push(query_results(query, answers));
            }
        }
        match found {
            0 => Err(Failure::new(Status::ERR_NOT_FOUND, "nothing is known here of what the query asks")),
            _ if found < asked => Ok(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, results)),
            _ => Ok(QueryReply::new(Status::SUCCESS, results)),
        }
    }

    fn own_answer(&self, key: &str, qualifiers: &Directives) -> Result<Option<Value>, Failure> {
        if let Some(value) = self.psets.answer(key, qualifiers)? {
            return Ok(Some(value));
        }
        if key == keys::QUERY_NAMESPACES.name() {
            let registered = self.jobs.iter().filter(|(_, job)| job.registered);
            let names: Vec<&str> = registered.map(|(nspace, _)| nspace.as_str()).collect();
            return Ok(Some(names.join(",").into()));
        }
        let is_local_table = key == keys::QUERY_LOCAL_PROC_TABLE.name();
        if is_local_table || key == keys::QUERY_PROC_TABLE.name() {
            let nspace: String = qualifiers.get(&keys::NSPACE)?.ok_or_else(|| {
                Failure::new(
                    Status::ERR_BAD_PARAM,
                    format!("{key} needs a namespace: qualify it with {}", keys::NSPACE.name()),
                )
            })?;
            let job = self.jobs.get(nspace.as_str()).ok_or_else(|| unknown_nspace(&nspace))?;
            return Ok(Some(DataArray::ProcInfo(self.proc_table(job, is_local_table)).into()));
        }
        if key == keys::JOB_SIZE.name() {
            let Some(nspace): Option<String> = qualifiers.get(&keys::NSPACE)? else { return Ok(None) };
            let size = self.jobs.get(nspace.as_str()).and_then(|job| job.data.size());
            return Ok(size.map(Value::Uint32));
        }
        Ok(None)
    }

    /// What the server knows of the processes of a job, in rank order (QRY-11).
    fn proc_table(&self, job: &Job, local_only: bool) -> Vec<ProcInfo> {
        let nspace = job.data.nspace();
        let everyone =
            if local_only { None } else { job.data.placement().map(|placement| placement.all_ranks()) };
        let mut ranks = everyone.unwrap_or_default();
        if ranks.is_empty() {
            ranks = job.local_ranks.clone().unwrap_or_default();
        }
        for rank in job.clients.keys() {
            ranks.insert(*rank);
        }
        ranks.iter().map(|rank| self.proc_row(job, nspace, rank)).collect()
    }

    fn proc_row(&self, job: &Job, nspace: &Nspace, rank: Rank) -> ProcInfo {
        let mut row = ProcInfo::new(ProcId::new(nspace.clone(), rank));
        row.hostname = job.data.hostname_of(rank);
        if let Some(client) = job.clients.get(&rank) {
            row.hostname.get_or_insert_with(|| self.config.hostname.clone());
            row.pid = Pid(client.pid);
            row.state = match client.stage {
                Stage::Registered => ProcState::PREPPED,
                Stage::Connected => ProcState::CONNECTED,
                Stage::Finalized => ProcState::RUNNING,
                Stage::Lost => ProcState::TERM_WO_SYNC,
                Stage::Ended => ProcState::TERMINATED,
            };
        }
        row
    }
}

/// The answers to one query in the form the Standard gives them (QRY-02).
pub(crate) fn query_results(query: &Query, answers: Vec<Info>) -> Info {
    let mut all = Vec::with_capacity(answers.len() + 1);
    if !query.qualifiers.is_empty() {
        let qualifiers = DataArray::Info(query.qualifiers.as_slice().to_vec());
        all.push(Info::new(&keys::QUERY_QUALIFIERS, qualifiers));
    }
    all.extend(answers);
    Info::new(&keys::QUERY_RESULTS, DataArray::Info(all))
}

/// What no query may be (QRY-05).
fn check(queries: &[Query]) -> Result<(), Failure> {
    let bad = |message: &str| Err(Failure::new(Status::ERR_BAD_PARAM, message));
    if queries.is_empty() {
        return bad("there is no query");
    }
    for query in queries {
        if query.keys.is_empty() {
            return bad("a query has no key");
        }
        let given = &query.qualifiers;
        if given.contains(&keys::PROCID) && (given.contains(&keys::NSPACE) || given.contains(&keys::RANK)) {
            return bad("a query is qualified by PROCID and by NSPACE or RANK: give one or the other");
        }
    }
    Ok(())
}
