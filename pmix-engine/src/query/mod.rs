//! Queries, answered first by the library about itself, then by the host, then by the server from what it knows.
//!
//! Each key of each query has its own outcome. The server completes what the host leaves open, so that one key that nobody
//! can answer, or that is qualified wrongly, does not make the others fail (QRY-03).

mod catalogue;
mod grouped;
mod known;
mod measured;
mod own;
mod qualifiers;
mod question;
mod table;

use std::collections::BTreeMap;

use pmix_types::message::{Failure, Reply};
use pmix_types::{Directives, KeyName, Memory, Query, Status, keys};

use super::context::{Context, Owner};
use super::names::Meant;
use super::upcall::{QueryRequest, Upcall};
use super::users::push_identity;
use super::{Answer, Asked, Command, ConnId, UpcallId, UpcallRequest};
pub(super) use catalogue::qualifiers_of_queries;
pub(super) use grouped::Grouping;
use known::Known;
pub(super) use known::{Sources, Waiting};
use measured::{Measured, to_measure};
pub(super) use measured::{measure_for, on_measured, on_usage, usage_for};
use question::{KeyOutcome, Question, Questions, says};

/// Keys that the queries of one request may have together.
const MAX_KEYS: usize = 1024;
/// Qualifiers that the keys of one request may have together: each key is answered with all of its query.
const MAX_QUALIFIERS: usize = 16_384;
/// Bytes that the answer to one request may take.
const MAX_FOUND: usize = 256 << 20;

/// Queries that wait for the host or the driver.
#[derive(Debug, Default)]
pub(super) struct Queries(BTreeMap<UpcallId, Pending>);

#[derive(Debug)]
struct Pending {
    questions: Questions,
    asked: AskedOf,
}

/// Who has been asked.
#[derive(Debug)]
enum AskedOf {
    Host,
    /// The driver, for the kernel's view of processes.
    Driver,
}

impl Queries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A connection is gone: its queries are dropped.
    pub(super) fn conn_gone(&mut self, conn: ConnId) {
        self.0.retain(|_, pending| pending.questions.to.conn != conn);
    }

    pub(super) fn on_query(
        &mut self,
        asked: Asked,
        queries: Vec<(Query, Result<Option<Meant>, Failure>)>,
        sources: Sources<'_>,
        cx: &mut Context,
    ) {
        let Asked { by, to, .. } = asked;
        let asked = queries.into_iter().map(|(query, meant)| match meant {
            Ok(meant) => Question::new(query, meant),
            Err(failure) => Question::refused(query, &failure),
        });
        let asked = asked.collect();
        let mut questions = Questions { to, asker: by, asked };
        let known = Known { cx, sources };
        for question in &mut questions.asked {
            if catalogue::deny_strange(&question.query.qualifiers).is_ok() {
                question.settle(|key, query| known.library_answer(key, query, &questions.asker));
            }
        }
        self.ask_host(questions, sources, cx);
    }

    fn ask_host(&mut self, questions: Questions, sources: Sources<'_>, cx: &mut Context) {
        let for_host: Vec<_> = questions.asked.iter().filter_map(Question::for_host).collect();
        if for_host.is_empty() || !cx.config.capabilities.has(Upcall::Query) {
            return self.measure(questions, sources, cx);
        }
        let by = questions.asker.clone();
        let mut directives = Directives::new();
        push_identity(&mut directives, by.uid, by.gid);
        let request = QueryRequest::new(for_host).with_directives(directives);
        let id = cx.upcall(Owner::Query(questions.to), by, UpcallRequest::Query(request));
        self.0.insert(id, Pending { questions, asked: AskedOf::Host });
    }

    /// The host or the driver has answered.
    pub(super) fn on_answer(
        &mut self,
        upcall: UpcallId,
        result: Result<Answer, Failure>,
        sources: Sources<'_>,
        cx: &mut Context,
    ) {
        let Some(Pending { mut questions, asked }) = self.0.remove(&upcall) else { return };
        match asked {
            AskedOf::Host => {
                questions.take_answer(result);
                self.measure(questions, sources, cx);
            }
            AskedOf::Driver => complete(questions, &Measured::new(result), sources, cx),
        }
    }

    /// Has the driver ask the kernel about processes, if a query asks for that and the host has not answered it.
    fn measure(&mut self, questions: Questions, sources: Sources<'_>, cx: &mut Context) {
        let Some((procs, is_brief)) = to_measure(&questions, cx) else {
            return complete(questions, &Measured::default(), sources, cx);
        };
        let id = cx.number_upcall(Owner::Query(questions.to));
        self.0.insert(id, Pending { questions, asked: AskedOf::Driver });
        cx.out.push(Command::Measure { id, procs, is_brief });
    }
}

/// Answers what is still open from what the server knows, and replies.
fn complete(mut questions: Questions, measured: &Measured, sources: Sources<'_>, cx: &mut Context) {
    let known = Known { cx, sources };
    let mut room = MAX_FOUND.saturating_sub(questions.asked.iter().map(Question::found_bytes).sum());
    for question in &mut questions.asked {
        let local_only = says(&question.query.qualifiers, keys::QUERY_LOCAL_ONLY.name());
        let strange = catalogue::deny_strange(&question.query.qualifiers);
        question.settle(|key, query| {
            let answer = strange
                .clone()
                .and_then(|()| known.own_answer(key, &query.qualifiers, &questions.asker, measured));
            match answer {
                Ok(Some(value)) => {
                    let bytes = value.memory();
                    let has_room = bytes <= room;
                    room = room.saturating_sub(bytes);
                    if has_room { KeyOutcome::Found(value) } else { KeyOutcome::Failed(too_large()) }
                }
                Ok(None) => KeyOutcome::Failed(unknown(key, local_only, known.cx)),
                Err(failure) => KeyOutcome::Failed(failure),
            }
        });
    }
    for question in &mut questions.asked {
        question.name_groups_for(questions.asker.uid, &cx.config);
    }
    let to = questions.to;
    cx.reply(to, questions.result().map(Reply::Query));
}

/// The failure of a key for whose value there is no room.
fn too_large() -> Failure {
    let message = format!("the answer takes more than {MAX_FOUND} bytes: ask for less at a time");
    Failure::new(Status::ERR_OUT_OF_RESOURCE, message)
}

/// The failure of a key that nobody knows: not found, or only the host could know and it answers no queries (QRY-03).
fn unknown(key: &KeyName, local_only: bool, cx: &Context) -> Failure {
    if local_only || cx.config.capabilities.has(Upcall::Query) || catalogue::is_own(key) {
        return Failure::new(Status::ERR_NOT_FOUND, format!("{key} is not known here"));
    }
    Failure::new(
        Status::ERR_NOT_SUPPORTED,
        format!("{key} is not known here, and the host does not serve queries"),
    )
}

/// Refuses a query that names more processes and namespaces than are looked at.
pub(super) fn check_names(query: &Query) -> Result<(), Failure> {
    qualifiers::check(&query.qualifiers)
}

/// Refuses queries that are malformed (QRY-05).
pub(crate) fn check(queries: &[Query]) -> Result<(), Failure> {
    if queries.is_empty() {
        return Err(Failure::new(Status::ERR_BAD_PARAM, "the request has no query"));
    }
    let keys = queries.iter().map(|query| query.keys.len()).sum::<usize>();
    if keys > MAX_KEYS {
        let message = format!("the request has {keys} keys, the limit is {MAX_KEYS}");
        return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
    }
    let qualifiers = queries.iter().map(|query| query.keys.len() * query.qualifiers.len()).sum::<usize>();
    if qualifiers > MAX_QUALIFIERS {
        let message =
            format!("the keys of the request have {qualifiers} qualifiers, the limit is {MAX_QUALIFIERS}");
        return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
    }
    queries.iter().try_for_each(Query::check)
}
