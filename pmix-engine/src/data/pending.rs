//! Gets that wait for their data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_types::message::{Failure, Get};
use pmix_types::why::Wait;
use pmix_types::{Directives, KeyName, ProcId, Rank, Scope, Status, keys};

use crate::Asked;
use crate::context::Context;
use crate::ids::{Counter, ReplyTo};
use crate::timers::deadline;

/// What is fetched: a process's data for the sake of one key, or for all it has put.
pub(crate) type FetchKey = (ProcId, Option<KeyName>);

/// A get, until it is answered.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) to: ReplyTo,
    /// When it was requested.
    pub(super) since: Instant,
    pub(super) asker: ProcId,
    /// Its user.
    pub(super) uid: u32,
    pub(super) target: ProcId,
    pub(super) key: Option<KeyName>,
    pub(super) directives: Directives,
    pub(super) scope: Option<Scope>,
    pub(super) immediate: bool,
    pub(super) refresh: bool,
    pub(super) deadline: Option<Instant>,
    /// The fetch from another node that it shares with others (GET-25).
    pub(super) fetch: Option<FetchKey>,
}

/// Pending gets, by number and by target.
#[derive(Debug, Default)]
pub(super) struct PendingGets {
    all: BTreeMap<u64, PendingGet>,
    by_target: BTreeMap<ProcId, BTreeSet<u64>>,
    next: Counter,
}

impl PendingGet {
    pub(super) fn new(asked: Asked, get: Get) -> Result<Self, Failure> {
        let Asked { at, by, to, .. } = asked;
        let Get { proc: mut target, key, mut directives, .. } = get;
        if target.nspace.is_empty() {
            target.nspace = by.proc.nspace.clone();
        }
        let is_one = target.rank.is_valid() || (target.rank == Rank::UNDEF && key.is_some());
        if !is_one && target.rank != Rank::WILDCARD {
            let message =
                format!("get of {} from {target}: name a single process or a key", key_text(key.as_ref()));
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        Ok(Self {
            to,
            since: at,
            asker: by.proc,
            uid: by.uid,
            target,
            key,
            deadline: deadline(at, &mut directives)?,
            immediate: directives.take_flag(&keys::IMMEDIATE)?,
            refresh: directives.take_flag(&keys::GET_REFRESH_CACHE)?,
            scope: directives.take(&keys::DATA_SCOPE)?,
            directives,
            fetch: None,
        })
    }

    pub(super) fn wait(&self, number: u64, cx: &Context) -> Wait {
        let mut wait = cx.wait(number, "get", Some(self.since));
        wait.about = self.key.as_ref().map(KeyName::to_string);
        wait.left = cx.left(self.deadline);
        wait.expected.insert(&self.asker);
        wait.arrived.insert(&self.asker);
        wait.missing.insert(&self.target);
        wait.at_host = self.fetch.is_some();
        wait
    }

    pub(super) fn is_job_level(&self) -> bool {
        self.target.rank == Rank::WILDCARD || self.key.as_ref().is_some_and(KeyName::is_reserved)
    }
}

impl PendingGets {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: u64) -> Option<&PendingGet> {
        self.all.get(&number)
    }

    pub(super) fn insert(&mut self, get: PendingGet) -> u64 {
        let number = self.next.next();
        self.by_target.entry(get.target.clone()).or_default().insert(number);
        self.all.insert(number, get);
        number
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<PendingGet> {
        let get = self.all.remove(&number)?;
        if let Some(numbers) = self.by_target.get_mut(&get.target) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_target.remove(&get.target);
            }
        }
        Some(get)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &PendingGet)> {
        self.all.iter().map(|(number, get)| (*number, get))
    }

    /// Those that ask for data of a process.
    pub(super) fn on(&self, target: &ProcId) -> Vec<u64> {
        self.by_target.get(target).into_iter().flatten().copied().collect()
    }

    pub(super) fn where_(&self, matches: impl Fn(&PendingGet) -> bool) -> Vec<u64> {
        self.all.iter().filter(|(_, get)| matches(get)).map(|(number, _)| *number).collect()
    }
}

pub(super) fn key_text(key: Option<&KeyName>) -> &str {
    key.map_or("anything", KeyName::as_str)
}
