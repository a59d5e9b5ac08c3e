//! Put data: commits, and the gets that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::job::{Caller as JobCaller, target_of};
use pmix_types::message::{Failure, Get, GetReply, Modex, ProcData, PutEntry, Reply};
use pmix_types::{Directives, KeyName, Memory, Nspace, ProcId, Rank, Scope, Status, Supported, keys};

use super::dmodex::FetchKey;
use super::ids::{Counter, ReplyTo};
use super::registry::{Job, PutData, Viewer, unknown_nspace};
use super::timers::{Timer, deadline};
use super::upcall::Upcall;
use super::users::not_own;
use super::{Asked, ConnId, Engine};

/// A get, until it is answered.
#[derive(Debug)]
pub(super) struct Waiter {
    to: ReplyTo,
    asker: ProcId,
    /// Its user.
    uid: u32,
    target: ProcId,
    key: Option<KeyName>,
    directives: Directives,
    scope: Option<Scope>,
    immediate: bool,
    refresh: bool,
    deadline: Option<Instant>,
    /// The fetch from another node that it shares with others (GET-25).
    fetch: Option<FetchKey>,
}

/// Waiting gets, found by number, target and connection.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: BTreeMap<u64, Waiter>,
    by_target: BTreeMap<ProcId, BTreeSet<u64>>,
    next: Counter,
}

impl Waiter {
    fn new(asked: Asked, get: Get) -> Result<Self, Failure> {
        let Asked { at, by, to, .. } = asked;
        let Get { proc: mut target, key, mut directives, .. } = get;
        if target.nspace.is_empty() {
            target.nspace = by.proc.nspace.clone();
        }
        let is_one = target.rank.is_valid() || (target.rank == Rank::UNDEF && key.is_some());
        if !is_one && target.rank != Rank::WILDCARD {
            let message = format!("get of {} from {target}: name a process or a key", key_text(key.as_ref()));
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        Ok(Self {
            to,
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

    fn is_job_level(&self) -> bool {
        self.target.rank == Rank::WILDCARD || self.key.as_ref().is_some_and(KeyName::is_reserved)
    }
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Waiter> {
        self.all.get(&number)
    }

    fn insert(&mut self, waiter: Waiter) -> u64 {
        let number = self.next.next();
        self.by_target.entry(waiter.target.clone()).or_default().insert(number);
        self.all.insert(number, waiter);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.all.remove(&number)?;
        if let Some(numbers) = self.by_target.get_mut(&waiter.target) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_target.remove(&waiter.target);
            }
        }
        Some(waiter)
    }

    fn on(&self, target: &ProcId) -> Vec<u64> {
        self.by_target.get(target).into_iter().flatten().copied().collect()
    }

    fn where_(&self, matches: impl Fn(&Waiter) -> bool) -> Vec<u64> {
        self.all.iter().filter(|(_, waiter)| matches(waiter)).map(|(number, _)| *number).collect()
    }
}

/// What a look at the put data of a process gives.
pub(super) enum Look {
    Found(GetReply),
    /// There, but not for this asker (GET-06).
    OutOfScope,
    NotThere,
}

impl Engine {
    pub(super) fn on_commit(&mut self, asked: &Asked, entries: Vec<PutEntry>) {
        let proc = &asked.by.proc;
        let result = self.commit(proc, entries);
        let committed = result.is_ok();
        self.cx.reply(asked.to, result.map(|()| Reply::Done));
        if committed {
            self.recheck_waiters_on(proc);
            self.recheck_dmodex_on(proc);
        }
    }

    /// Files all entries or none.
    fn commit(&mut self, proc: &ProcId, entries: Vec<PutEntry>) -> Result<(), Failure> {
        for entry in &entries {
            if entry.key.is_reserved() {
                let message = format!(
                    "commit: key {} is reserved, choose one that does not start with pmix",
                    entry.key
                );
                return Err(Failure::new(Status::ERR_BAD_PARAM, message));
            }
            if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope) {
                let message =
                    format!("commit: key {} has scope {}, which is not supported", entry.key, entry.scope);
                return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
            }
        }
        let Some(job) = self.cx.jobs.get_mut(&proc.nspace) else { return Err(unknown_nspace(&proc.nspace)) };
        let put = job.put.entry(proc.rank).or_default();
        let limit = self.cx.config.put_limit;
        let bytes = put.bytes_with(&entries, limit);
        if bytes > limit {
            let message =
                format!("commit: {proc} would hold {bytes} bytes of keys and values, the limit is {limit}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        self.cx.stats.commits += 1;
        self.cx.stats.bytes_committed += entries.iter().map(PutEntry::memory).sum::<usize>() as u64;
        for PutEntry { scope, key, value } in entries {
            put.put(scope, key, value);
        }
        Ok(())
    }

    /// Files data that came from another node.
    pub(super) fn file_remote(&mut self, data: &ProcData) {
        let Some(job) = self.cx.jobs.get_mut(&data.proc.nspace) else { return };
        let put = job.put.entry(data.proc.rank).or_default();
        for entry in &data.entries {
            put.put(entry.scope, entry.key.clone(), entry.value.clone());
        }
        self.recheck_waiters_on(&data.proc);
    }

    pub(super) fn on_get(&mut self, asked: Asked, mut get: Get) {
        self.cx.stats.gets += 1;
        // a process may be named by its rank among those who have connected (CON-07)
        get.proc = self.collectives.assemblies.member(&get.proc).unwrap_or(get.proc);
        let to = asked.to;
        match Waiter::new(asked, get) {
            Ok(waiter) => self.serve(waiter),
            Err(failure) => self.cx.reply(to, Err(failure)),
        }
    }

    fn serve(&mut self, waiter: Waiter) {
        let to = waiter.to;
        if let Some(result) = self.answer_get(waiter).transpose() {
            self.cx.reply(to, result.map(Reply::Get));
        }
    }

    /// The answer, or `None` if it will come later; in the order of GET-20.
    fn answer_get(&mut self, waiter: Waiter) -> Result<Option<GetReply>, Failure> {
        let (mut fetch_anew, mut stop) = (false, waiter.immediate);
        if self.is_last_level(&waiter) {
            waiter.directives.deny_beyond(Supported::GET.attributes)?;
        }
        if let Some(job) = self.cx.jobs.get(&waiter.target.nspace) {
            if !self.is_visible(&waiter) {
                return Err(not_own(waiter.uid, &waiter.target.nspace));
            }
            if waiter.is_job_level() {
                return self.job_level(&waiter, job).map(Some);
            }
            // a refresh of data from another node must not be answered from the cache (GET-08)
            let rank = waiter.target.rank;
            let can_fetch = rank.is_valid() && !job.is_local(rank) && self.fetches();
            fetch_anew = waiter.refresh && can_fetch;
            stop |= waiter.refresh && !can_fetch;
        }
        if !fetch_anew {
            match self.look(&waiter) {
                Look::Found(reply) => return Ok(Some(reply)),
                Look::OutOfScope => return Err(outside_scope(&waiter)),
                Look::NotThere if stop => {
                    return Err(not_found("not available yet, and the request asked not to wait"));
                }
                Look::NotThere => {}
            }
        }
        self.hold(waiter).map(|()| None)
    }

    /// Whether the asker may see its target.
    fn is_visible(&self, waiter: &Waiter) -> bool {
        self.cx.may_see(&waiter.asker, waiter.uid, &waiter.target.nspace)
    }

    /// Whether no other level can carry out what this server cannot (GEN-05).
    fn is_last_level(&self, waiter: &Waiter) -> bool {
        let rank = waiter.target.rank;
        let stays = |job: &Job| waiter.is_job_level() || rank == Rank::UNDEF || job.is_local(rank);
        waiter.immediate || !self.fetches() || self.cx.jobs.get(&waiter.target.nspace).is_some_and(stays)
    }

    fn fetches(&self) -> bool {
        self.cx.config.capabilities.has(Upcall::DirectModex)
    }

    /// Job-level and other reserved data: it exists from the start, so nobody waits for it (GET-30).
    fn job_level(&self, waiter: &Waiter, job: &Job) -> Result<GetReply, Failure> {
        let Waiter { asker, target, .. } = waiter;
        let is_own = asker.nspace == target.nspace;
        let mut reply = GetReply::default();
        // the asker keeps what it did not have, or wants anew (GET-08, GET-33)
        reply.job = (!is_own || waiter.key.is_none() || waiter.refresh).then(|| job.data.clone());
        if let Some(key) = &waiter.key {
            let caller = JobCaller { rank: is_own.then_some(asker.rank), hostname: &self.cx.config.hostname };
            let realm = target_of(key, target.rank, &waiter.directives, &caller)?;
            reply.value = job.data.lookup(key, &realm);
            if *key == *keys::PSET_NAMES.name() {
                reply.value = self.pset_names(reply.value.as_ref(), target);
            }
            if reply.value.is_none() {
                return Err(not_found("the host did not give it"));
            }
        }
        Ok(reply)
    }

    pub(super) fn look(&self, waiter: &Waiter) -> Look {
        // a namespace may be another user's when it becomes known
        let job = self.cx.jobs.get(&waiter.target.nspace).filter(|_| self.is_visible(waiter));
        let Some(job) = job else { return Look::NotThere };
        if waiter.target.rank == Rank::UNDEF {
            // whoever has posted it: the key is unique in the namespace (GET-21)
            let Some(key) = &waiter.key else { return Look::NotThere };
            let found = job.put.iter().find_map(|(rank, put)| {
                let value = put.find(key, job.viewer_of(*rank), waiter.scope)?;
                Some(GetReply::value(value.clone()))
            });
            return found.map_or(Look::NotThere, Look::Found);
        }
        let viewer = job.viewer_of(waiter.target.rank);
        let Some(put) = job.put.get(&waiter.target.rank) else { return Look::NotThere };
        let mut reply = GetReply::default();
        if let Some(key) = &waiter.key {
            match put.find(key, viewer, waiter.scope) {
                Some(value) => reply.value = Some(value.clone()),
                None if put.hides(key, viewer) => return Look::OutOfScope,
                None => return Look::NotThere,
            }
        }
        // all else that the asker may see comes along, so that its next gets stay in the process
        reply.modex = Arc::new(modex_of(&waiter.target, put, viewer));
        reply.job = (waiter.asker.nspace != waiter.target.nspace).then(|| job.data.clone());
        Look::Found(reply)
    }

    /// Keeps a get until it can be answered.
    fn hold(&mut self, mut waiter: Waiter) -> Result<(), Failure> {
        let rank = waiter.target.rank;
        match self.cx.jobs.get(&waiter.target.nspace) {
            // all about the job first, whatever is wanted of it (GET-32)
            None => waiter.fetch = Some((ProcId::wildcard(waiter.target.nspace.clone()), None)),
            Some(job) if rank == Rank::UNDEF || job.is_local(rank) => {
                if let Some(reason) = job.end_of(rank) {
                    return Err(not_found(reason).with_procs(vec![waiter.target.clone()]));
                }
            }
            Some(job) if !job.may_have(rank) => return Err(not_found("the job has no such rank")),
            // a refresh wants what there is, and does not wait for the key (GET-08)
            Some(_) if waiter.refresh => waiter.fetch = Some((waiter.target.clone(), None)),
            Some(_) => waiter.fetch = Some((waiter.target.clone(), waiter.key.clone())),
        }
        if waiter.fetch.is_some() && !self.fetches() {
            return Err(not_found("it is on another node, and the host has no direct modex"));
        }
        let (until, fetch, directives) = (waiter.deadline, waiter.fetch.clone(), waiter.directives.clone());
        let number = self.waiters.insert(waiter);
        self.cx.timers.set(until, Timer::Waiter(number));
        if let Some(key) = fetch {
            self.join_fetch(key, number, directives);
        }
        Ok(())
    }

    /// Ends a wait with its outcome.
    pub(super) fn answer_waiter(&mut self, number: u64, result: Result<GetReply, Failure>) {
        let Some(waiter) = self.drop_waiter(number) else { return };
        self.cx.reply(waiter.to, result.map(Reply::Get));
    }

    fn drop_waiter(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(number)?;
        self.cx.timers.clear(waiter.deadline, Timer::Waiter(number));
        if let Some(key) = &waiter.fetch {
            self.leave_fetch(key, number);
        }
        Some(waiter)
    }

    pub(super) fn forget_waiters_of(&mut self, conn: ConnId) {
        for number in self.waiters.where_(|waiter| waiter.to.conn == conn) {
            self.drop_waiter(number);
        }
    }

    /// Looks again for those who wait for data of a process.
    pub(super) fn recheck_waiters_on(&mut self, proc: &ProcId) {
        let mut numbers = self.waiters.on(proc);
        numbers.extend(self.waiters.on(&proc.with_rank(Rank::UNDEF)));
        for number in numbers {
            let Some(waiter) = self.waiters.get(number) else { continue };
            match self.look(waiter) {
                Look::Found(reply) => self.answer_waiter(number, Ok(reply)),
                Look::OutOfScope => {
                    let failure = outside_scope(waiter);
                    self.answer_waiter(number, Err(failure));
                }
                Look::NotThere => {}
            }
        }
    }

    /// A namespace became known: gets that waited for that go on.
    pub(super) fn recheck_waiters_of_nspace(&mut self, nspace: &Nspace) {
        let job = (ProcId::wildcard(nspace.clone()), None);
        for number in self.waiters.where_(|waiter| waiter.fetch.as_ref() == Some(&job)) {
            let Some(waiter) = self.drop_waiter(number) else { continue };
            self.serve(Waiter { fetch: None, ..waiter });
        }
    }

    pub(super) fn on_departed_in_gets(&mut self, proc: &ProcId) {
        let reason = self.cx.client(proc).and_then(|client| client.departed.clone()).unwrap_or_default();
        for number in self.waiters.on(proc) {
            let failure = not_found(&reason).with_procs(vec![proc.clone()]);
            self.answer_waiter(number, Err(failure));
        }
    }

    pub(super) fn fail_waiters_of_nspace(&mut self, nspace: &Nspace, failure: &Failure) {
        for number in self.waiters.where_(|waiter| waiter.target.nspace == *nspace) {
            self.answer_waiter(number, Err(failure.clone()));
        }
    }

    pub(super) fn on_waiter_timeout(&mut self, number: u64) {
        let Some(waiter) = self.waiters.get(number) else { return };
        let message =
            format!("timed out waiting for {} to commit {}", waiter.target, key_text(waiter.key.as_ref()));
        let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(vec![waiter.target.clone()]);
        self.answer_waiter(number, Err(failure));
    }
}

/// All that a process has put and a viewer may see.
pub(super) fn modex_of(proc: &ProcId, put: &PutData, viewer: Viewer) -> Modex {
    let entries: Vec<_> = (put.visible(viewer))
        .map(|(key, scope, value)| PutEntry { scope, key: key.clone(), value: value.clone() })
        .collect();
    Modex { procs: vec![ProcData { proc: proc.clone(), entries }] }
}

fn key_text(key: Option<&KeyName>) -> &str {
    key.map_or("anything", KeyName::as_str)
}

/// The process that asks names key and process itself when it reports the failure.
pub(super) fn not_found(why: &str) -> Failure {
    Failure::new(Status::ERR_NOT_FOUND, format!("not found: {why}"))
}

pub(super) fn outside_scope(waiter: &Waiter) -> Failure {
    let message = format!(
        "{} of {} was put in a scope that leaves the asker out",
        key_text(waiter.key.as_ref()),
        waiter.target
    );
    Failure::new(Status::ERR_EXISTS_OUTSIDE_SCOPE, message)
}
