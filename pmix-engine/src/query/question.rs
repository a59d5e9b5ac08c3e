use std::collections::BTreeSet;

use pmix_types::message::{Failure, QueryReply};
use pmix_types::{
    DataArray, Directives, Info, KeyName, Memory, ProcId, ProcInfo, Query, Status, Uid, Value, keys,
};

use crate::ids::ReplyTo;
use crate::names::Meant;
use crate::upcall::{Answer, QueryResults};
use crate::{Caller, Config};

/// Queries of one request that are being answered.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) to: ReplyTo,
    pub(super) asker: Caller,
    pub(super) asked: Vec<Question>,
}

/// A query with the outcome of each of its keys, in their order.
#[derive(Debug)]
pub(super) struct Question {
    /// As it is meant: by the namespaces of jobs.
    pub(super) query: Query,
    /// The qualifiers as they were given, if they name a connected set, and the processes that these mean.
    named: Option<(Directives, Vec<ProcId>)>,
    outcomes: Vec<KeyOutcome>,
}

/// What has come of a key of a query.
#[derive(Debug)]
pub(super) enum KeyOutcome {
    /// Not answered so far, but the server may still know.
    Open,
    Found(Value),
    Failed(Failure),
    /// Not a question by itself: says what the keys after it are (ATT-05).
    Heading,
}

impl Question {
    pub(super) fn new(mut query: Query, meant: Option<Meant>) -> Self {
        // answered once, however often it is asked for
        let mut seen = BTreeSet::new();
        query.keys.retain(|key| seen.insert(key.clone()));
        let outcomes = query.keys.iter().map(|_| KeyOutcome::Open).collect();
        let named = meant
            .map(|Meant { qualifiers, procs }| (std::mem::replace(&mut query.qualifiers, qualifiers), procs));
        Self { query, named, outcomes }
    }

    /// A query of which no key is answered.
    pub(super) fn refused(query: Query, failure: &Failure) -> Self {
        let mut question = Self::new(query, None);
        question.settle(|_, _| KeyOutcome::Failed(failure.clone()));
        question
    }

    /// The results of the query as it was given.
    fn results(&self, found: Vec<Info>) -> Info {
        let Some((given, procs)) = &self.named else { return self.query.results(found) };
        let mut query = Query::dynamic(self.query.keys.clone());
        query.qualifiers = given.clone();
        let only_named = |info: Info| match info.value.as_array().and_then(DataArray::as_proc_infos) {
            Some(rows) => {
                let is_named = |row: &&ProcInfo| procs.iter().any(|named| named.matches(&row.proc));
                let rows = rows.iter().filter(is_named).cloned().collect();
                Info::dynamic(info.key, DataArray::ProcInfo(rows))
            }
            None => info,
        };
        query.results(found.into_iter().map(only_named).collect())
    }

    /// The part that goes to the host; `None` if there is none, or the query is for this node only (QRY-09).
    pub(super) fn for_host(&self) -> Option<Query> {
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

    pub(super) fn open(&self) -> impl Iterator<Item = &KeyName> {
        let is_open = |(_, outcome): &(_, &KeyOutcome)| matches!(outcome, KeyOutcome::Open);
        self.query.keys.iter().zip(&self.outcomes).filter(is_open).map(|(key, _)| key)
    }

    /// Settles the keys that are open.
    pub(super) fn settle(&mut self, mut with: impl FnMut(&KeyName, &Query) -> KeyOutcome) {
        for (key, outcome) in self.query.keys.iter().zip(&mut self.outcomes) {
            if matches!(outcome, KeyOutcome::Open) {
                *outcome = with(key, &self.query);
            }
        }
    }

    /// Takes over what the host has found, if it belongs to this query. Tables can be large, so they are not copied.
    fn take(&mut self, infos: &mut [Info]) {
        self.settle(|key, _| match infos.iter_mut().find(|info| info.key == *key) {
            Some(info) => KeyOutcome::Found(take_value(&mut info.value)),
            None => KeyOutcome::Open,
        });
    }

    /// Calls groups as processes of a user do.
    pub(super) fn name_groups_for(&mut self, uid: Uid, config: &Config) {
        config.name_group_for_user(uid, &mut self.query.qualifiers);
        for (key, outcome) in self.query.keys.iter().zip(&mut self.outcomes) {
            if *key == *keys::QUERY_GROUP_NAMES.name()
                && let KeyOutcome::Found(Value::DataArray(array)) = outcome
                && let Some(names) = array.as_strings()
            {
                let own = names.iter().map(|id| config.group_for_user(uid, id).to_owned()).collect();
                *outcome = KeyOutcome::Found(DataArray::String(own).into());
            }
        }
    }

    /// Bytes of what was found.
    pub(super) fn found_bytes(&self) -> usize {
        let bytes = |outcome: &KeyOutcome| match outcome {
            KeyOutcome::Found(value) => value.memory(),
            _ => 0,
        };
        self.outcomes.iter().map(bytes).sum()
    }

    /// Takes out what was found.
    fn found(&mut self) -> Vec<Info> {
        let pair = |(key, outcome): (&KeyName, &mut KeyOutcome)| match outcome {
            KeyOutcome::Found(value) => Some(Info::dynamic(key.clone(), take_value(value))),
            _ => None,
        };
        self.query.keys.iter().zip(&mut self.outcomes).filter_map(pair).collect()
    }
}

impl Questions {
    /// Takes the host's answer. If it does not support or find a key, the server may still know it.
    pub(super) fn take_answer(&mut self, result: Result<Answer, Failure>) {
        match result {
            Ok(Answer::Query(found)) => self.take(found),
            Err(failure) if [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND].contains(&failure.status) => {}
            Ok(other) => {
                self.fail_host(&Failure::new(
                    Status::ERROR,
                    format!("the host answered a query with {other:?}"),
                ));
            }
            Err(failure) => self.fail_host(&failure),
        }
    }

    /// Results come in the order of the queries, each with the qualifiers of its query; a query without any results
    /// leaves no gap. Hosts may leave out the qualifiers, and even the frame around the results of a query.
    fn take(&mut self, found: QueryResults) {
        let mut next = 0;
        for mut info in found.results {
            let is_frame = info.is(&keys::QUERY_RESULTS);
            match info.value.into_infos() {
                Ok(mut infos) if is_frame => {
                    if let Some(at) = self.place_of(&infos, next) {
                        self.asked[at].take(&mut infos);
                        next = at + 1;
                    }
                }
                unframed => {
                    info.value = unframed.map_or_else(|value| value, Value::from);
                    let sent = self.asked.iter_mut().filter(|question| question.for_host().is_some());
                    sent.for_each(|question| question.take(&mut [info.clone()]));
                }
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

    /// The host has refused: what it was asked fails, even if the server could answer it.
    fn fail_host(&mut self, failure: &Failure) {
        for question in &mut self.asked {
            if question.for_host().is_some() {
                question.settle(|_, _| KeyOutcome::Failed(failure.clone()));
            }
        }
    }

    /// One `QUERY_RESULTS` for each query with a result (QRY-02); the status of QRY-03.
    pub(super) fn result(mut self) -> Result<QueryReply, Failure> {
        let results: Vec<_> = (self.asked.iter_mut())
            .map(|question| (question.found(), question))
            .filter(|(found, _)| !found.is_empty())
            .map(|(found, question)| question.results(found))
            .collect();
        let failures: Vec<_> = (self.asked.iter().flat_map(|question| &question.outcomes))
            .filter_map(|outcome| match outcome {
                KeyOutcome::Failed(failure) => Some(failure),
                _ => None,
            })
            .collect();
        match failures.split_first() {
            None => Ok(QueryReply::new(Status::SUCCESS, results)),
            Some(_) if !results.is_empty() => Ok(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, results)),
            // a reason that all of them share says more than "not found"
            Some((first, others)) if others.iter().all(|other| other.status == first.status) => {
                Err((*first).clone())
            }
            Some(_) => Err(Failure::new(Status::ERR_NOT_FOUND, "no key of these queries is known here")),
        }
    }
}

fn take_value(value: &mut Value) -> Value {
    std::mem::replace(value, Value::Undef)
}

/// Whether a flag is given among the qualifiers and is not false; its type does not matter.
pub(super) fn says(qualifiers: &Directives, key: &str) -> bool {
    qualifiers.get_value(key).is_some_and(|value| !matches!(value, Value::Bool(false)))
}
