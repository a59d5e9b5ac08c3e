//! Gets that wait for their data, and what a look at the data that is here gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::job::{Requester, Target, target_of};
use pmix_types::message::{Failure, Get, GetReply, Modex, ProcData};
use pmix_types::why::Wait;
use pmix_types::{Directives, KeyName, ProcId, Rank, Scope, Status, keys};

use crate::Asked;
use crate::context::Context;
use crate::ids::{Counter, ReplyTo};
use crate::jobs::psets::Psets;
use crate::jobs::{Job, PutData, Viewer};
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

/// What a look at the put data of a process gives.
pub(super) enum Look {
    Found(GetReply),
    /// It exists, but not for this requester (GET-06).
    OutOfScope,
    NotThere,
}

impl Look {
    pub(super) fn at(get: &PendingGet, cx: &Context) -> Self {
        // a namespace may be another user's when it becomes known
        let job = cx.jobs.get(&get.target.nspace).filter(|_| is_visible(get, cx));
        let Some(job) = job else { return Self::NotThere };
        if get.target.rank == Rank::UNDEF {
            // whoever has posted it: the key is unique in the namespace (GET-21)
            let Some(key) = &get.key else { return Self::NotThere };
            let found = job.put.iter().find_map(|(rank, put)| {
                let value = put.find(key, job.viewer_of(*rank), get.scope)?;
                Some(GetReply::value(value.clone()))
            });
            return found.map_or(Self::NotThere, Self::Found);
        }
        let viewer = job.viewer_of(get.target.rank);
        let Some(put) = job.put.get(&get.target.rank) else { return Self::NotThere };
        let mut reply = GetReply::default();
        if let Some(key) = &get.key {
            match put.find(key, viewer, get.scope) {
                Some(value) => reply.value = Some(value.clone()),
                None if put.hides(key, viewer) => return Self::OutOfScope,
                None => return Self::NotThere,
            }
        }
        // all else that the requester may see comes along, so that its next gets stay in the process
        reply.modex = Arc::new(modex_of(&get.target, put, viewer));
        reply.job = (get.asker.nspace != get.target.nspace).then(|| job.data.clone());
        Self::Found(reply)
    }
}

/// Whether the requester may see its target.
pub(super) fn is_visible(get: &PendingGet, cx: &Context) -> bool {
    cx.may_see(&get.asker, get.uid, &get.target.nspace)
}

/// Job-level and other reserved data: it exists from the start, so nobody waits for it (GET-30).
pub(super) fn job_level(
    get: &PendingGet,
    job: &Job,
    psets: &Psets,
    cx: &Context,
) -> Result<GetReply, Failure> {
    let PendingGet { asker, target, .. } = get;
    let is_own = asker.nspace == target.nspace;
    let mut reply = GetReply::default();
    // the requester keeps what it did not have, or wants anew (GET-08, GET-33)
    reply.job = (!is_own || get.key.is_none() || get.refresh).then(|| job.data.clone());
    if let Some(key) = &get.key {
        let requester = Requester::new(is_own.then_some(asker.rank), &cx.config.hostname);
        let realm = target_of(key, target.rank, &get.directives, &requester)?;
        reply.value = job.data.lookup(key, &realm);
        if let (None, Target::Session(Some(id))) = (&reply.value, realm) {
            reply.value = cx.of_session(asker, get.uid, id, key);
        }
        if *key == *keys::PSET_NAMES.name() {
            reply.value = psets.names_with(reply.value.as_ref(), target);
        }
        if reply.value.is_none() {
            return Err(not_found("the host did not provide it"));
        }
    }
    Ok(reply)
}

/// All that a process has put and a viewer may see.
pub(super) fn modex_of(proc: &ProcId, put: &PutData, viewer: Viewer) -> Modex {
    Modex::new(vec![ProcData::new(proc.clone(), put.visible(viewer))])
}

/// The requester names key and process itself when it reports the failure.
pub(super) fn not_found(why: &str) -> Failure {
    Failure::new(Status::ERR_NOT_FOUND, format!("not found: {why}"))
}

pub(super) fn outside_scope(get: &PendingGet) -> Failure {
    let message = format!(
        "{} of {} was put in a scope that does not include the requester",
        key_text(get.key.as_ref()),
        get.target
    );
    Failure::new(Status::ERR_EXISTS_OUTSIDE_SCOPE, message)
}
