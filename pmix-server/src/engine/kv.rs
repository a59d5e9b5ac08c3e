//! Put data: commits, and the gets that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::job::{Caller as JobCaller, target_of};
use pmix_types::message::{Failure, Get, GetReply, Modex, ProcData, PutEntry, Reply};
use pmix_types::{KeyName, Nspace, ProcId, Rank, Scope, Status, Value, keys};

use super::dmodex::FetchKey;
use super::ids::Counter;
use super::registry::{PutData, Viewer, unknown_nspace};
use super::timers::{Timer, deadline};
use super::{ConnId, Engine, Out, RequestId};
use crate::host::Upcall;

/// A get that cannot be answered yet.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) conn: ConnId,
    pub(super) id: RequestId,
    pub(super) asker: ProcId,
    pub(super) target: ProcId,
    pub(super) key: Option<KeyName>,
    pub(super) scope: Option<Scope>,
    pub(super) deadline: Option<Instant>,
    /// The fetch from another node that it shares with others (GET-25).
    pub(super) fetch: Option<FetchKey>,
}

/// Waiting gets, found by number, target and connection.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: BTreeMap<u64, Waiter>,
    by_target: BTreeMap<ProcId, BTreeSet<u64>>,
    next: Counter,
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
    pub(super) fn on_commit(
        &mut self,
        conn: ConnId,
        id: RequestId,
        proc: &ProcId,
        entries: Vec<PutEntry>,
        out: &mut Out,
    ) {
        let result = self.commit(proc, entries);
        let committed = result.is_ok();
        self.reply(conn, id, result.map(|()| Reply::Done), out);
        if committed {
            self.recheck_waiters_on(proc, out);
            self.recheck_dmodex_on(proc, out);
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
        let Some(job) = self.jobs.get_mut(&proc.nspace) else { return Err(unknown_nspace(&proc.nspace)) };
        self.stats.commits += 1;
        let put = job.put.entry(proc.rank).or_default();
        for PutEntry { scope, key, value } in entries {
            self.stats.bytes_committed += value_bytes(&value);
            put.put(scope, key, value);
        }
        Ok(())
    }

    /// Files data that came from another node.
    pub(super) fn file_remote(&mut self, data: &ProcData, out: &mut Out) {
        let Some(job) = self.jobs.get_mut(&data.proc.nspace) else { return };
        let put = job.put.entry(data.proc.rank).or_default();
        for entry in &data.entries {
            put.put(entry.scope, entry.key.clone(), entry.value.clone());
        }
        self.recheck_waiters_on(&data.proc, out);
    }

    pub(super) fn on_get(
        &mut self,
        now: Instant,
        conn: ConnId,
        id: RequestId,
        asker: ProcId,
        get: Get,
        out: &mut Out,
    ) {
        self.stats.gets += 1;
        match self.answer_get(now, conn, id, asker, get, out) {
            Ok(Some(found)) => self.reply(conn, id, Ok(Reply::Get(found)), out),
            Ok(None) => {}
            Err(failure) => self.reply(conn, id, Err(failure), out),
        }
    }

    /// The answer, or `None` if it will come later.
    fn answer_get(
        &mut self,
        now: Instant,
        conn: ConnId,
        id: RequestId,
        asker: ProcId,
        mut get: Get,
        out: &mut Out,
    ) -> Result<Option<GetReply>, Failure> {
        if get.proc.nspace.is_empty() {
            get.proc.nspace = asker.nspace.clone();
        }
        let directives = &mut get.directives;
        let until = deadline(now, directives)?;
        let immediate = directives.take_flag(&keys::IMMEDIATE)?;
        let refresh = directives.take_flag(&keys::GET_REFRESH_CACHE)?;
        let scope = directives.take(&keys::DATA_SCOPE)?;
        let is_job_level =
            get.proc.rank == Rank::WILDCARD || get.key.as_ref().is_some_and(KeyName::is_reserved);
        if !self.jobs.contains_key(&get.proc.nspace) {
            if immediate || !self.config.capabilities.has(Upcall::DirectModex) {
                let mut failure = unknown_nspace(&get.proc.nspace);
                failure.status = Status::ERR_NOT_FOUND;
                return Err(failure);
            }
        } else if is_job_level {
            return self.job_level(&asker, &get).map(Some);
        }
        let waiter = Waiter {
            conn,
            id,
            asker,
            target: if is_job_level { ProcId::wildcard(get.proc.nspace) } else { get.proc },
            key: get.key,
            scope,
            deadline: until,
            fetch: None,
        };
        // a refresh of data from another node must not be answered from the cache (GET-08)
        let is_remote = waiter.target.rank.is_valid()
            && self.jobs.get(&waiter.target.nspace).is_none_or(|job| !job.is_local(waiter.target.rank));
        if !(refresh && is_remote) {
            match self.look(&waiter) {
                Look::Found(reply) => return Ok(Some(reply)),
                Look::OutOfScope => return Err(outside_scope(&waiter)),
                Look::NotThere => {}
            }
        }
        if immediate && !refresh {
            return Err(not_found(&waiter, "its server does not have it, and the get was immediate"));
        }
        self.hold(waiter, get.directives, out).map(|()| None)
    }

    /// Job-level and other reserved data: it exists from the start, so nobody waits for it (GET-30).
    fn job_level(&self, asker: &ProcId, get: &Get) -> Result<GetReply, Failure> {
        let job = self.job_or_failure(&get.proc.nspace)?;
        let is_own = asker.nspace == get.proc.nspace;
        let mut reply = GetReply::default();
        // the asker keeps what it did not have, or wants anew (GET-08, GET-33)
        reply.job = (!is_own || get.key.is_none() || get.directives.contains(&keys::GET_REFRESH_CACHE))
            .then(|| job.data.clone());
        if let Some(key) = &get.key {
            let caller = JobCaller { rank: is_own.then_some(asker.rank), hostname: &self.config.hostname };
            let target = target_of(key, get.proc.rank, &get.directives, &caller)?;
            reply.value = job.data.lookup(key, &target);
            if reply.value.is_none() {
                let message = format!("{}: the host gave no {key}", get.proc);
                return Err(Failure::new(Status::ERR_NOT_FOUND, message));
            }
        }
        Ok(reply)
    }

    pub(super) fn look(&self, waiter: &Waiter) -> Look {
        let Some(job) = self.jobs.get(&waiter.target.nspace) else { return Look::NotThere };
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
                None if put.contains(key) => return Look::OutOfScope,
                None => return Look::NotThere,
            }
        }
        // all else that the asker may see comes along, so that its next gets stay in the process
        reply.modex = Arc::new(modex_of(&waiter.target, put, viewer));
        reply.job = (waiter.asker.nspace != waiter.target.nspace).then(|| job.data.clone());
        Look::Found(reply)
    }

    /// Keeps a get until it can be answered.
    fn hold(
        &mut self,
        mut waiter: Waiter,
        directives: pmix_types::Directives,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let job = self.jobs.get(&waiter.target.nspace);
        let rank = waiter.target.rank;
        let is_here = job.is_some_and(|job| rank == Rank::UNDEF || job.is_local(rank));
        if is_here {
            let departed =
                job.and_then(|job| job.clients.get(&rank)).and_then(|client| client.departed.as_deref());
            if let Some(reason) = departed {
                return Err(not_found(&waiter, reason).with_procs(vec![waiter.target.clone()]));
            }
        } else {
            if job.is_some_and(|job| rank != Rank::WILDCARD && !job.may_have(rank)) {
                return Err(not_found(&waiter, "the job has no such rank"));
            }
            if !self.config.capabilities.has(Upcall::DirectModex) {
                return Err(not_found(&waiter, "it is on another node, and the host has no direct modex"));
            }
            waiter.fetch = Some((waiter.target.clone(), waiter.key.clone()));
        }
        let (until, fetch) = (waiter.deadline, waiter.fetch.clone());
        let number = self.waiters.insert(waiter);
        self.timers.set(until, Timer::Waiter(number));
        if let Some(key) = fetch {
            self.join_fetch(key, number, directives, out);
        }
        Ok(())
    }

    /// Ends a wait with its outcome.
    pub(super) fn answer_waiter(&mut self, number: u64, result: Result<GetReply, Failure>, out: &mut Out) {
        let Some(waiter) = self.drop_waiter(number, out) else { return };
        self.reply(waiter.conn, waiter.id, result.map(Reply::Get), out);
    }

    fn drop_waiter(&mut self, number: u64, out: &mut Out) -> Option<Waiter> {
        let waiter = self.waiters.remove(number)?;
        self.timers.clear(waiter.deadline, Timer::Waiter(number));
        if let Some(key) = &waiter.fetch {
            self.leave_fetch(key, number, out);
        }
        Some(waiter)
    }

    pub(super) fn forget_waiters_of(&mut self, conn: ConnId, out: &mut Out) {
        for number in self.waiters.where_(|waiter| waiter.conn == conn) {
            self.drop_waiter(number, out);
        }
    }

    /// Looks again for those who wait for data of a process.
    pub(super) fn recheck_waiters_on(&mut self, proc: &ProcId, out: &mut Out) {
        let mut numbers = self.waiters.on(proc);
        numbers.extend(self.waiters.on(&proc.with_rank(Rank::UNDEF)));
        for number in numbers {
            let Some(waiter) = self.waiters.get(number) else { continue };
            match self.look(waiter) {
                Look::Found(reply) => self.answer_waiter(number, Ok(reply), out),
                Look::OutOfScope => {
                    let failure = outside_scope(waiter);
                    self.answer_waiter(number, Err(failure), out);
                }
                Look::NotThere => {}
            }
        }
    }

    /// A namespace became known: who waits for its job data can be answered.
    pub(super) fn recheck_waiters_of_nspace(&mut self, nspace: &Nspace, out: &mut Out) {
        for number in self.waiters.on(&ProcId::wildcard(nspace.clone())) {
            let Some(waiter) = self.waiters.get(number) else { continue };
            let get = Get::new(waiter.target.clone(), waiter.key.clone());
            let result = self.job_level(&waiter.asker, &get);
            self.answer_waiter(number, result, out);
        }
    }

    pub(super) fn on_departed_in_gets(&mut self, proc: &ProcId, out: &mut Out) {
        let reason = self.client(proc).and_then(|client| client.departed.clone()).unwrap_or_default();
        for number in self.waiters.on(proc) {
            let Some(waiter) = self.waiters.get(number) else { continue };
            let failure = not_found(waiter, &reason).with_procs(vec![proc.clone()]);
            self.answer_waiter(number, Err(failure), out);
        }
    }

    pub(super) fn fail_waiters_of_nspace(&mut self, nspace: &Nspace, failure: &Failure, out: &mut Out) {
        for number in self.waiters.where_(|waiter| waiter.target.nspace == *nspace) {
            self.answer_waiter(number, Err(failure.clone()), out);
        }
    }

    pub(super) fn on_waiter_timeout(&mut self, number: u64, out: &mut Out) {
        let Some(waiter) = self.waiters.get(number) else { return };
        let message = format!("{} did not put {} in time", waiter.target, key_text(waiter.key.as_ref()));
        let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(vec![waiter.target.clone()]);
        self.answer_waiter(number, Err(failure), out);
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

pub(super) fn not_found(waiter: &Waiter, why: &str) -> Failure {
    let message = format!("{} of {} was not found: {why}", key_text(waiter.key.as_ref()), waiter.target);
    Failure::new(Status::ERR_NOT_FOUND, message)
}

pub(super) fn outside_scope(waiter: &Waiter) -> Failure {
    let message = format!(
        "{} of {} was put in a scope that leaves the asker out",
        key_text(waiter.key.as_ref()),
        waiter.target
    );
    Failure::new(Status::ERR_EXISTS_OUTSIDE_SCOPE, message)
}

fn value_bytes(value: &Value) -> u64 {
    let size = match value {
        Value::String(text) => text.len(),
        other => other.as_bytes().map_or(size_of::<u64>(), bytes::Bytes::len),
    };
    size as u64
}
