//! The asking side: gets of processes here. A get is processed in the same steps wherever the value is: it looks at the data
//! here, then it waits, and the host fetches data that is on another node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pmix_types::job::{Requester, Target, target_of};
use pmix_types::message::{Failure, Get, GetReply, Modex, ProcData, Reply};
use pmix_types::why::Wait;
use pmix_types::{
    Directives, Info, KeyName, KeyNameError, Nspace, Pid, ProcId, QualifiedValue, Rank, Scope, Status,
    Supported, Uid, Value, keys,
};

use super::{Data, no_modex};
use crate::context::{Context, Owner};
use crate::ids::{Counter, ReplyTo};
use crate::jobs::psets::Psets;
use crate::jobs::{Job, PutData, Viewer};
use crate::participants::Members;
use crate::timers::{Timer, deadline};
use crate::upcall::{DirectModexRequest, Upcall};
use crate::users::not_own;
use crate::{Answer, Asked, UpcallId, UpcallRequest};

impl Data {
    pub(crate) fn on_get(&mut self, asked: Asked, get: Get, psets: &Psets, cx: &mut Context) {
        cx.stats.gets += 1;
        let to = asked.to;
        match PendingGet::new(asked, get) {
            Ok(get) => self.serve(get, psets, cx),
            Err(failure) => cx.reply(to, Err(failure)),
        }
    }

    fn serve(&mut self, get: PendingGet, psets: &Psets, cx: &mut Context) {
        let to = get.to;
        if let Some(result) = self.answer(get, psets, cx).transpose() {
            cx.reply(to, result.map(Reply::Get));
        }
    }

    /// The answer, or `None` if it will come later; in the order of GET-20.
    fn answer(
        &mut self,
        get: PendingGet,
        psets: &Psets,
        cx: &mut Context,
    ) -> Result<Option<GetReply>, Failure> {
        let (mut fetch_anew, mut stop) = (false, get.immediate);
        if is_last_level(&get, cx) {
            get.directives.deny_beyond(Supported::GET.attributes)?;
        }
        if let Some(job) = cx.jobs.get(&get.target.nspace) {
            if !is_visible(&get, cx) {
                return Err(not_own(get.uid, &get.target.nspace));
            }
            if get.is_job_level() {
                return job_level(&get, job, psets, cx).map(Some);
            }
            // a refresh of data from another node must not be answered from the cache (GET-08)
            let rank = get.target.rank;
            let can_fetch = rank.is_valid() && !job.is_local(rank) && fetches(cx);
            fetch_anew = get.refresh && can_fetch;
            stop |= get.refresh && !can_fetch;
        }
        if !fetch_anew {
            match Look::at(&get, cx) {
                Look::Found(reply) => return Ok(Some(reply)),
                Look::OutOfScope => return Err(outside_scope(&get)),
                Look::NotThere if stop => {
                    return Err(not_found("not available yet, and the request asked not to wait"));
                }
                Look::NotThere => {}
            }
        }
        self.hold(get, cx).map(|()| None)
    }

    /// Keeps a get until it can be answered.
    fn hold(&mut self, mut get: PendingGet, cx: &mut Context) -> Result<(), Failure> {
        let rank = get.target.rank;
        match cx.jobs.get(&get.target.nspace) {
            // first all data of the job, whichever key is asked for (GET-32)
            None => get.fetch = Some(FetchKey::of_job(&get.target.nspace)),
            Some(job) if rank == Rank::UNDEF || job.is_local(rank) => {
                if let Some(reason) = job.end_of(rank) {
                    return Err(not_found(reason).with_procs(vec![get.target.clone()]));
                }
            }
            Some(job) if !job.may_have(rank) => return Err(not_found("the job has no such rank")),
            // a refresh takes what there is, and waits neither for the key nor for a commit (GET-08)
            Some(_) if get.refresh => {
                get.directives.push(Info::new(&keys::IMMEDIATE, true));
                let refresh = self.fetches.refreshes.next();
                get.fetch = Some(FetchKey { of: get.target.clone(), key: None, refresh: Some(refresh) });
            }
            Some(_) => {
                get.fetch = Some(FetchKey { of: get.target.clone(), key: get.key.clone(), refresh: None });
            }
        }
        if get.fetch.is_some() && !fetches(cx) {
            return Err(not_found("it is on another node, and the host has no direct modex"));
        }
        let (until, fetch, directives) = (get.deadline, get.fetch.clone(), get.directives.clone());
        let number = self.gets.insert(get);
        cx.timers.set(until, Timer::Get(number));
        if let Some(key) = fetch {
            self.fetches.join(key, number, directives, cx);
        }
        Ok(())
    }

    /// Ends a wait with its outcome.
    pub(super) fn end(&mut self, number: u64, result: Result<GetReply, Failure>, cx: &mut Context) {
        let Some(get) = self.remove(number, cx) else { return };
        cx.reply(get.to, result.map(Reply::Get));
    }

    pub(super) fn remove(&mut self, number: u64, cx: &mut Context) -> Option<PendingGet> {
        let get = self.gets.remove(number)?;
        cx.timers.clear(get.deadline, Timer::Get(number));
        if let Some(key) = &get.fetch {
            self.fetches.leave(key, number, cx);
        }
        Some(get)
    }

    /// Looks again for gets of data of a process.
    pub(super) fn recheck(&mut self, proc: &ProcId, cx: &mut Context) {
        let mut numbers = self.gets.on(proc);
        numbers.extend(self.gets.on(&proc.with_rank(Rank::UNDEF)));
        let mut modex = None;
        for number in numbers {
            let Some(get) = self.gets.get(number) else { continue };
            // what has come for others may be older than a refresh
            if get.refresh && get.fetch.is_some() {
                continue;
            }
            match Look::again(get, proc.rank, &mut modex, cx) {
                Look::Found(reply) => self.end(number, Ok(reply), cx),
                Look::OutOfScope => {
                    let failure = outside_scope(get);
                    self.end(number, Err(failure), cx);
                }
                Look::NotThere => {}
            }
        }
    }

    /// A namespace became known: gets that waited for it continue.
    pub(crate) fn on_nspace_known(&mut self, nspace: &Nspace, psets: &Psets, cx: &mut Context) {
        let job = FetchKey::of_job(nspace);
        for number in self.gets.where_(|get| get.fetch.as_ref() == Some(&job)) {
            let Some(get) = self.remove(number, cx) else { continue };
            self.serve(PendingGet { fetch: None, ..get }, psets, cx);
        }
    }

    pub(crate) fn on_timeout(&mut self, number: u64, cx: &mut Context) {
        let Some(get) = self.gets.get(number) else { return };
        let message =
            format!("timed out waiting for {} to commit {}", get.target, key_text(get.key.as_ref()));
        let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(vec![get.target.clone()]);
        self.end(number, Err(failure), cx);
    }

    /// The host has fetched data, or reports why it could not.
    pub(crate) fn on_fetched(
        &mut self,
        upcall: UpcallId,
        result: Result<Answer, Failure>,
        psets: &Psets,
        cx: &mut Context,
    ) {
        let Some((key, gets)) = self.fetches.take(upcall) else { return };
        let outcome = match result {
            Ok(Answer::Blob(blob)) => self.file_fetched(&key.of, blob, psets, cx),
            Ok(other) => Err(no_modex(&other)),
            Err(failure) => Err(failure),
        };
        // those that are left have not found their key in there, or have waited for this answer alone
        for number in gets {
            let Some(get) = self.gets.get(number) else { continue };
            let result = match &outcome {
                Ok(()) => match Look::at(get, cx) {
                    Look::Found(reply) => Ok(reply),
                    Look::OutOfScope => Err(outside_scope(get)),
                    Look::NotThere => Err(not_found("its server has no value of that key")),
                },
                Err(failure) => Err(failure.clone()),
            };
            self.end(number, result, cx);
        }
    }

    fn file_fetched(
        &mut self,
        target: &ProcId,
        blob: Bytes,
        psets: &Psets,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        if target.rank == Rank::WILDCARD {
            // everything about a namespace this server did not know (GET-32)
            let job = cx.config.codec.read_job(blob)?;
            if *job.nspace() != target.nspace {
                let message = format!(
                    "the host sent the data of job {} instead of job {}",
                    job.nspace(),
                    target.nspace
                );
                return Err(Failure::new(Status::ERROR, message));
            }
            self.adopt_job(job, psets, cx);
            return Ok(());
        }
        self.file_remote(blob, &Members::new(), cx)?;
        Ok(())
    }
}

/// Whether no other level can carry out what this server cannot (GEN-05).
fn is_last_level(get: &PendingGet, cx: &Context) -> bool {
    let rank = get.target.rank;
    let stays = |job: &Job| get.is_job_level() || rank == Rank::UNDEF || job.is_local(rank);
    get.immediate || !fetches(cx) || cx.jobs.get(&get.target.nspace).is_some_and(stays)
}

fn fetches(cx: &Context) -> bool {
    cx.config.capabilities.has(Upcall::DirectModex)
}

/// What is fetched: a process's data for the sake of one key, or for all it has put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FetchKey {
    of: ProcId,
    key: Option<KeyName>,
    /// The number of the refresh that it is for: what was asked before that may be older (GET-08).
    refresh: Option<u64>,
}

impl FetchKey {
    /// All about a job.
    fn of_job(nspace: &Nspace) -> Self {
        Self { of: ProcId::wildcard(nspace.clone()), key: None, refresh: None }
    }
}

/// A get, until it is answered.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) to: ReplyTo,
    /// When it was requested.
    since: Instant,
    asker: ProcId,
    /// Its user.
    uid: Uid,
    pub(super) target: ProcId,
    key: Option<KeyName>,
    directives: Directives,
    scope: Option<Scope>,
    immediate: bool,
    refresh: bool,
    deadline: Option<Instant>,
    /// The fetch from another node that it shares with others (GET-25).
    fetch: Option<FetchKey>,
}

/// Pending gets, by number and by target.
#[derive(Debug, Default)]
pub(super) struct PendingGets {
    all: BTreeMap<u64, PendingGet>,
    by_target: BTreeMap<ProcId, BTreeSet<u64>>,
    next: Counter,
}

impl PendingGet {
    fn new(asked: Asked, get: Get) -> Result<Self, Failure> {
        let Asked { at, by, to, .. } = asked;
        let Get { proc: mut target, mut key, mut directives, .. } = get;
        let qualifiers = directives.take_each(Info::is_qualifier);
        if let Some(key) = &mut key {
            *key = QualifiedValue::name_of(key, &qualifiers).map_err(|error| too_long(&error))?;
        }
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

    fn is_job_level(&self) -> bool {
        let of_host = |key: &KeyName| key.is_reserved() || self.names_realm();
        self.target.rank == Rank::WILDCARD || self.key.as_ref().is_some_and(of_host)
    }

    /// Whether it is about a session, a job, an application or a node, of which only hosts say anything.
    fn names_realm(&self) -> bool {
        let realms = [&keys::SESSION_INFO, &keys::JOB_INFO, &keys::APP_INFO, &keys::NODE_INFO];
        realms.into_iter().any(|realm| self.directives.flag(realm).unwrap_or_default())
    }
}

impl PendingGets {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn get(&self, number: u64) -> Option<&PendingGet> {
        self.all.get(&number)
    }

    fn insert(&mut self, get: PendingGet) -> u64 {
        let number = self.next.next();
        self.by_target.entry(get.target.clone()).or_default().insert(number);
        self.all.insert(number, get);
        number
    }

    fn remove(&mut self, number: u64) -> Option<PendingGet> {
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

fn key_text(key: Option<&KeyName>) -> &str {
    key.map_or("anything", KeyName::as_str)
}

/// What a look at the put data of a process gives.
enum Look {
    Found(GetReply),
    /// It exists, but not for this requester (GET-06).
    OutOfScope,
    NotThere,
}

impl Look {
    fn at(get: &PendingGet, cx: &Context) -> Self {
        let Some(job) = visible_job(get, cx) else { return Self::NotThere };
        if get.target.rank != Rank::UNDEF {
            return Self::of(get, job, &mut None);
        }
        // whoever has posted it: the key is unique in the namespace (GET-21)
        let found = job.put.ranks().find_map(|rank| posted_by(rank, get, job));
        found.map_or(Self::NotThere, Self::Found)
    }

    /// Looks again at a process whose data has changed. All that it has put is the same for all who wait for it.
    fn again(get: &PendingGet, changed: Rank, modex: &mut Option<Arc<Modex>>, cx: &Context) -> Self {
        let Some(job) = visible_job(get, cx) else { return Self::NotThere };
        if get.target.rank != Rank::UNDEF {
            return Self::of(get, job, modex);
        }
        posted_by(changed, get, job).map_or(Self::NotThere, Self::Found)
    }

    fn of(get: &PendingGet, job: &Job, modex: &mut Option<Arc<Modex>>) -> Self {
        let viewer = job.viewer_of(get.target.rank);
        let Some(put) = job.put.get(get.target.rank) else { return Self::NotThere };
        let mut reply = GetReply::default();
        if let Some(key) = &get.key {
            match put.find(key, viewer, get.scope) {
                Some(value) => reply.value = Some(value.clone()),
                None if put.hides(key, viewer) => return Self::OutOfScope,
                None => return Self::NotThere,
            }
        }
        // all else that the requester may see comes along, so that its next gets stay in the process
        let modex = modex.get_or_insert_with(|| Arc::new(modex_of(&get.target, put, viewer)));
        reply.modex = modex.clone();
        reply.job = (get.asker.nspace != get.target.nspace).then(|| job.data.clone());
        Self::Found(reply)
    }
}

/// The job of the target. It may be another user's when it becomes known.
fn visible_job<'a>(get: &PendingGet, cx: &'a Context) -> Option<&'a Job> {
    cx.jobs.get(&get.target.nspace).filter(|_| is_visible(get, cx))
}

/// The value of a key that anybody may have posted, if this process has.
fn posted_by(rank: Rank, get: &PendingGet, job: &Job) -> Option<GetReply> {
    let value = job.put.get(rank)?.find(get.key.as_ref()?, job.viewer_of(rank), get.scope)?;
    Some(GetReply::value(value.clone()))
}

/// Whether the requester may see its target.
fn is_visible(get: &PendingGet, cx: &Context) -> bool {
    cx.may_see(&get.asker, get.uid, &get.target.nspace)
}

/// Job-level and other reserved data: it exists from the start, so no get waits for it (GET-30).
fn job_level(get: &PendingGet, job: &Job, psets: &Psets, cx: &Context) -> Result<GetReply, Failure> {
    let PendingGet { asker, target, .. } = get;
    let is_own = asker.nspace == target.nspace;
    let mut reply = GetReply::default();
    // the requester keeps what it did not have, or wants anew (GET-08, GET-33)
    reply.job = (!is_own || get.key.is_none() || get.refresh).then(|| job.data.clone());
    if let Some(key) = &get.key {
        let requester = Requester::new(is_own.then_some(asker.rank), &cx.config.hostname);
        let realm = target_of(key, target.rank, &get.directives, &requester)?;
        reply.value = job.data.lookup(key, &realm);
        if let (None, Target::Proc(rank)) = (&reply.value, &realm)
            && *key == *keys::PROC_PID.name()
        {
            let pid = job.clients.get(rank).map(|client| client.pid);
            // of a process that has not been started, or is on another node, it is not known
            reply.value = pid.filter(|pid| *pid > 0).map(|pid| Pid(pid).into());
        }
        if let (None, Target::Session(Some(id))) = (&reply.value, realm) {
            reply.value = cx.of_session(asker, get.uid, id, key);
        }
        if reply.value.is_none() && target.rank.is_valid() && !get.names_realm() {
            reply.value = claimed_by(target.rank, key, get, job);
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

/// The value of a reserved key that a process has put of itself.
fn claimed_by(rank: Rank, key: &KeyName, get: &PendingGet, job: &Job) -> Option<Value> {
    job.put.get(rank)?.find(&key.claimed()?, job.viewer_of(rank), get.scope).cloned()
}

/// All that a process has put and a viewer may see.
fn modex_of(proc: &ProcId, put: &PutData, viewer: Viewer) -> Modex {
    Modex::new(vec![ProcData::new(proc.clone(), put.visible(viewer))])
}

fn too_long(error: &KeyNameError) -> Failure {
    Failure::new(Status::ERR_BAD_PARAM, format!("get: with its qualifiers, {error}"))
}

/// The requester names key and process itself when it reports the failure.
pub(super) fn not_found(why: &str) -> Failure {
    Failure::new(Status::ERR_NOT_FOUND, format!("not found: {why}"))
}

fn outside_scope(get: &PendingGet) -> Failure {
    let message = format!(
        "{} of {} was put in a scope that does not include the requester",
        key_text(get.key.as_ref()),
        get.target
    );
    Failure::new(Status::ERR_EXISTS_OUTSIDE_SCOPE, message)
}

/// Fetches under way, with the gets that share them (GET-25).
#[derive(Debug, Default)]
pub(super) struct Fetches {
    by_key: BTreeMap<FetchKey, Fetch>,
    by_upcall: BTreeMap<UpcallId, FetchKey>,
    refreshes: Counter,
}

#[derive(Debug)]
struct Fetch {
    upcall: UpcallId,
    gets: BTreeSet<u64>,
}

impl Fetches {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_upcall.is_empty()
    }

    /// Adds a get to the fetch it needs, and starts that if it is the first.
    fn join(&mut self, key: FetchKey, get: u64, mut directives: Directives, cx: &mut Context) {
        if let Some(fetch) = self.by_key.get_mut(&key) {
            fetch.gets.insert(get);
            return;
        }
        // the server keeps the time itself (GEN-12)
        directives.remove(&keys::TIMEOUT);
        if let (true, Some(wanted)) = (key.of.rank.is_valid(), &key.key) {
            directives.push(Info::new(&keys::REQUIRED_KEY, wanted.to_string()));
        }
        let request = DirectModexRequest::new(key.of.clone()).with_directives(directives);
        let caller = cx.self_caller();
        let upcall = cx.upcall(Owner::Fetch, caller, UpcallRequest::DirectModex(request));
        self.by_upcall.insert(upcall, key.clone());
        self.by_key.insert(key, Fetch { upcall, gets: BTreeSet::from([get]) });
    }

    /// A get needs its fetch no longer; the last one ends it.
    fn leave(&mut self, key: &FetchKey, get: u64, cx: &mut Context) {
        let Some(fetch) = self.by_key.get_mut(key) else { return };
        fetch.gets.remove(&get);
        if fetch.gets.is_empty() {
            let upcall = fetch.upcall;
            self.by_key.remove(key);
            self.by_upcall.remove(&upcall);
            cx.cancel_upcall(upcall);
        }
    }

    /// A fetch that is done, with the gets that shared it.
    fn take(&mut self, upcall: UpcallId) -> Option<(FetchKey, BTreeSet<u64>)> {
        let key = self.by_upcall.remove(&upcall)?;
        self.by_key.remove(&key).map(|fetch| (key, fetch.gets))
    }
}
