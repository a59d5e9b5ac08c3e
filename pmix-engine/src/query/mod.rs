//! Queries: what only the library knows, then the host's word, then what the server knows itself.
//!
//! Each key of each query has its own outcome. What the host leaves open is completed here, so that one key that
//! nobody can answer, or that is asked in the wrong way, does not fail the others (QRY-03).

mod catalogue;
mod memory;
mod own;
mod qualifiers;
mod table;

use pmix_types::message::{Failure, QueryReply, Reply};
use pmix_types::{Directives, Info, KeyName, ProcId, Query, Status, Value, keys};

use super::connect::push_identity;
use super::ids::ReplyTo;
use super::upcall::{QueryRequest, QueryResults, Upcall};
use super::{Answer, Asked, Caller, Command, Engine, UpcallPurpose, UpcallRequest};
pub(super) use catalogue::qualifiers_of_queries;
use memory::Measured;

/// Queries on their way to an answer.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) to: ReplyTo,
    asker: Caller,
    asked: Vec<Question>,
}

/// A query with the outcome of each of its keys, in their order.
#[derive(Debug)]
struct Question {
    query: Query,
    outcomes: Vec<Outcome>,
}

#[derive(Debug)]
enum Outcome {
    /// Nobody has been asked, or nobody knew; the server has not looked yet.
    Open,
    Found(Value),
    Failed(Failure),
    /// No question of its own: says what the keys after it are (ATT-05).
    Heading,
}

impl Question {
    fn new(query: Query) -> Self {
        let outcomes = query.keys.iter().map(|_| Outcome::Open).collect();
        Self { query, outcomes }
    }

    /// What the host has to be asked of this: nothing that is to stay on this node (QRY-09).
    fn for_host(&self) -> Option<Query> {
        if says(&self.query.qualifiers, keys::QUERY_LOCAL_ONLY.name()) {
            return None;
        }
        let open = self.open().cloned().collect::<Vec<_>>();
        if open.is_empty() {
            return None;
        }
        let mut query = Query::dynamic(open);
        query.qualifiers = self.query.qualifiers.clone();
        Some(query)
    }

    fn open(&self) -> impl Iterator<Item = &KeyName> {
        let is_open = |(_, outcome): &(_, &Outcome)| matches!(outcome, Outcome::Open);
        self.query.keys.iter().zip(&self.outcomes).filter(is_open).map(|(key, _)| key)
    }

    /// Settles the keys that are open.
    fn settle(&mut self, mut with: impl FnMut(&KeyName, &Query) -> Outcome) {
        for (key, outcome) in self.query.keys.iter().zip(&mut self.outcomes) {
            if matches!(outcome, Outcome::Open) {
                *outcome = with(key, &self.query);
            }
        }
    }

    /// Takes over what the host has found, if it belongs to this query.
    fn take(&mut self, infos: &[Info]) {
        self.settle(|key, _| match infos.iter().find(|info| info.key == *key) {
            Some(info) => Outcome::Found(info.value.clone()),
            None => Outcome::Open,
        });
    }

    fn found(&self) -> Vec<Info> {
        let pair = |(key, outcome): (&KeyName, &Outcome)| match outcome {
            Outcome::Found(value) => Some(Info::dynamic(key.clone(), value.clone())),
            _ => None,
        };
        self.query.keys.iter().zip(&self.outcomes).filter_map(pair).collect()
    }
}

impl Engine {
    pub(super) fn on_query(&mut self, asked: Asked, queries: Vec<Query>) {
        let Asked { by, to, .. } = asked;
        if let Err(failure) = check(&queries) {
            return self.cx.reply(to, Err(failure));
        }
        let asked = queries.into_iter().map(Question::new).collect();
        let mut questions = Questions { to, asker: by.clone(), asked };
        for question in &mut questions.asked {
            if catalogue::deny_strange(&question.query.qualifiers).is_ok() {
                question.settle(|key, query| self.library_answer(key, query));
            }
        }
        self.query_host(by, questions);
    }

    fn query_host(&mut self, by: Caller, questions: Questions) {
        let for_host: Vec<_> = questions.asked.iter().filter_map(Question::for_host).collect();
        if for_host.is_empty() || !self.cx.config.capabilities.has(Upcall::Query) {
            return self.measure(questions);
        }
        let mut directives = Directives::new();
        push_identity(&mut directives, (by.uid, by.gid));
        let request = QueryRequest::new(for_host).with_directives(directives);
        self.cx.upcall(UpcallPurpose::Query(questions), by, UpcallRequest::Query(request));
    }

    pub(super) fn on_query_answer(&mut self, mut questions: Questions, result: Result<Answer, Failure>) {
        match result {
            Ok(Answer::Query(found)) => questions.take(&found),
            // the server may know
            Err(failure) if [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND].contains(&failure.status) => {}
            Ok(other) => questions
                .fail_host(&Failure::new(Status::ERROR, format!("the host answered a query with {other:?}"))),
            Err(failure) => questions.fail_host(&failure),
        }
        self.measure(questions);
    }

    /// Has the memory of processes measured, if that is asked and the host has not said.
    fn measure(&mut self, questions: Questions) {
        let subjects = self.measured_procs(&questions);
        let Some(subjects) = subjects else { return self.complete(questions, &Measured::default()) };
        let pids = subjects.iter().map(|(_, pid)| *pid).collect();
        let id = self.cx.number_upcall(UpcallPurpose::Measure { questions, subjects });
        self.cx.out.push(Command::Measure { id, pids });
    }

    pub(super) fn on_measured(
        &mut self,
        questions: Questions,
        subjects: Vec<(ProcId, i32)>,
        result: Result<Answer, Failure>,
    ) {
        let bytes = match result {
            Ok(Answer::Memory(bytes)) => bytes,
            _ => Vec::new(),
        };
        let measured = Measured::new(&self.cx.config.server, subjects, bytes);
        self.complete(questions, &measured);
    }

    /// Answers what is still open from what is known here, and replies.
    fn complete(&mut self, mut questions: Questions, measured: &Measured) {
        for question in &mut questions.asked {
            let local_only = says(&question.query.qualifiers, keys::QUERY_LOCAL_ONLY.name());
            let strange = catalogue::deny_strange(&question.query.qualifiers);
            question.settle(|key, query| {
                let answer = strange
                    .clone()
                    .and_then(|()| self.own_answer(key, &query.qualifiers, &questions.asker, measured));
                match answer {
                    Ok(Some(value)) => Outcome::Found(value),
                    Ok(None) => Outcome::Failed(self.unknown(key, local_only)),
                    Err(failure) => Outcome::Failed(failure),
                }
            });
        }
        let result = questions.result();
        self.cx.reply(questions.to, result.map(Reply::Query));
    }

    /// Why nothing is known of a key: it is the host's, and there is no host to ask, or it was not found (QRY-03).
    fn unknown(&self, key: &KeyName, local_only: bool) -> Failure {
        if local_only || self.cx.config.capabilities.has(Upcall::Query) || catalogue::is_own(key) {
            return Failure::new(Status::ERR_NOT_FOUND, format!("nothing is known here of {key}"));
        }
        Failure::new(
            Status::ERR_NOT_SUPPORTED,
            format!("{key} is not known here, and the host answers no queries"),
        )
    }
}

impl Questions {
    /// Results come in the order of the queries, each with the qualifiers of its query; a query without any results
    /// leaves no gap. Hosts may leave out the qualifiers, and even the frame around the results of a query.
    fn take(&mut self, found: &QueryResults) {
        let mut next = 0;
        for info in &found.results {
            let Some(infos) = info.value.as_infos().filter(|_| info.is(&keys::QUERY_RESULTS)) else {
                let sent = self.asked.iter_mut().filter(|question| question.for_host().is_some());
                sent.for_each(|question| question.take(std::slice::from_ref(info)));
                continue;
            };
            if let Some(at) = self.place_of(infos, next) {
                self.asked[at].take(infos);
                next = at + 1;
            }
        }
    }

    /// The first query from `next` on that these can be the results of.
    fn place_of(&self, infos: &[Info], next: usize) -> Option<usize> {
        let given = infos.iter().find(|info| info.is(&keys::QUERY_QUALIFIERS));
        let given = given.map(|info| info.value.as_infos().unwrap_or_default());
        let sent = |question: &Question| {
            let query = question.for_host()?;
            let answered = infos.iter().any(|info| query.keys.contains(&info.key));
            answered.then_some(query)
        };
        let has = |query: &Query| given.unwrap_or_default() == query.qualifiers.as_slice();
        let place = |fits: &dyn Fn(&Query) -> bool| {
            let later = self.asked.iter().enumerate().skip(next);
            later
                .into_iter()
                .find(|(_, question)| sent(question).is_some_and(|query| fits(&query)))
                .map(|(at, _)| at)
        };
        place(&has).or_else(|| if given.is_none() { place(&|_| true) } else { None })
    }

    /// The host has refused: what it was asked is not to be had, not even from here.
    fn fail_host(&mut self, failure: &Failure) {
        for question in &mut self.asked {
            if question.for_host().is_some() {
                question.settle(|_, _| Outcome::Failed(failure.clone()));
            }
        }
    }

    /// One `QUERY_RESULTS` for each query with a result (QRY-02); the status of QRY-03.
    fn result(&self) -> Result<QueryReply, Failure> {
        let results: Vec<_> = (self.asked.iter())
            .map(|question| (question, question.found()))
            .filter(|(_, found)| !found.is_empty())
            .map(|(question, found)| question.query.results(found))
            .collect();
        let failures: Vec<_> = (self.asked.iter().flat_map(|question| &question.outcomes))
            .filter_map(|outcome| match outcome {
                Outcome::Failed(failure) => Some(failure),
                _ => None,
            })
            .collect();
        match failures.split_first() {
            None => Ok(QueryReply::new(Status::SUCCESS, results)),
            Some(_) if !results.is_empty() => Ok(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, results)),
            // one reason for all is worth more than that nothing was found
            Some((first, others)) if others.iter().all(|other| other.status == first.status) => {
                Err((*first).clone())
            }
            Some(_) => {
                Err(Failure::new(Status::ERR_NOT_FOUND, "nothing is known here of what the queries ask"))
            }
        }
    }
}

/// Whether a qualifier that is a flag is there and not false, whatever its type.
fn says(qualifiers: &Directives, key: &str) -> bool {
    qualifiers.get_value(key).is_some_and(|value| !matches!(value, Value::Bool(false)))
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
        if given.contains(&keys::RANK) && !given.contains(&keys::NSPACE) {
            return bad("a query is qualified by RANK without NSPACE: a process needs both");
        }
    }
    Ok(())
}
