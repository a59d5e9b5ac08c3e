//! Put data: commits, the gets that wait for them, and direct modex both ways. A get is processed in the same steps
//! wherever the value is: it looks at the data here, then it waits, and the host fetches data that is on another node.

mod dmodex;
mod pending;

use std::collections::BTreeMap;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Get, GetReply, PutEntry, Reply};
use pmix_types::why::Wait;
use pmix_types::{Directives, Memory, Nspace, ProcId, Rank, RankSet, Scope, Status, Supported};

use crate::context::Context;
use crate::jobs::psets::Psets;
use crate::jobs::{Job, registration, unknown_nspace};
use crate::participants::{Members, Ranks, is_in};
use crate::timers::Timer;
use crate::upcall::Upcall;
use crate::users::not_own;
use crate::{Answer, Asked, CallId, ConnId, UpcallId};
use dmodex::{Fetches, HeldRequests};
use pending::{Look, PendingGet, PendingGets, is_visible, job_level, key_text, not_found, outside_scope};

#[cfg(test)]
pub(crate) use dmodex::MAX_HELD;

#[derive(Debug, Default)]
pub(crate) struct Data {
    gets: PendingGets,
    fetches: Fetches,
    held: HeldRequests,
}

impl Data {
    /// Gets that wait.
    pub(crate) fn pending(&self) -> usize {
        self.gets.len()
    }

    /// Requests of other nodes that wait.
    pub(crate) const fn held(&self) -> usize {
        self.held.len()
    }

    /// Gets of processes here, and requests of other nodes for data of processes here.
    pub(crate) fn waits<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        let gets = self.gets.iter().map(|(number, get)| get.wait(number, cx));
        gets.chain(self.held.waits(cx))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gets.len() == 0 && self.fetches.is_empty() && self.held.len() == 0
    }

    pub(crate) fn on_commit(&mut self, asked: &Asked, entries: Vec<PutEntry>, cx: &mut Context) {
        let proc = &asked.by.proc;
        let result = commit(proc, entries, cx);
        let committed = result.is_ok();
        cx.reply(asked.to, result.map(|()| Reply::Done));
        if committed {
            self.recheck(proc, cx);
            self.held.recheck(|held| held == proc, cx);
        }
    }

    /// Files what servers of other nodes have sent of their processes; this node's own part may come back with it.
    pub(crate) fn file_remote(
        &mut self,
        blob: Bytes,
        members: &Members,
        cx: &mut Context,
    ) -> Result<Filed, Failure> {
        let mut filed = Filed::default();
        let mut known = BTreeMap::<Nspace, RankSet>::new();
        for mut changes in cx.config.codec.read_changes(blob)? {
            let mut told = BTreeMap::<ProcId, Vec<PutEntry>>::new();
            for data in std::mem::take(&mut changes.procs) {
                told.entry(data.proc).or_default().extend(data.entries);
            }
            for (proc, entries) in told {
                let Some(job) = cx.jobs.get_mut(&proc.nspace).filter(|job| !job.is_local(proc.rank)) else {
                    continue;
                };
                let put = match changes.since {
                    0 => Some(job.put.entry(proc.rank).or_default()),
                    _ => job.put.get_mut(&proc.rank),
                };
                let is_whole = put.is_some_and(|put| put.take(&changes, entries, &mut cx.changes));
                filed.add(&proc, is_whole);
                self.recheck(&proc, cx);
            }
            for (nspace, ranks) in &changes.others {
                let Some(job) = cx.jobs.get_mut(nspace) else { continue };
                // a peer may name any number of ranks
                let known =
                    known.entry(nspace.clone()).or_insert_with(|| job.known_ranks(members.get(nspace)));
                for rank in (ranks & &*known).iter() {
                    if job.is_local(rank) {
                        continue;
                    }
                    let put = job.put.get_mut(&rank);
                    // of whom nothing is here nothing is outdated
                    let is_whole =
                        put.map_or(changes.since == 0, |put| put.take(&changes, Vec::new(), &mut cx.changes));
                    filed.add(&ProcId::new(nspace.clone(), rank), is_whole);
                }
            }
        }
        Ok(filed)
    }

    /// Stores the job data that another server has sent.
    pub(crate) fn adopt_job(&mut self, job: JobData, psets: &Psets, cx: &mut Context) {
        let nspace = job.nspace().clone();
        registration::adopt(job, cx);
        self.on_nspace_known(&nspace, psets, cx);
    }

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
            None => get.fetch = Some((ProcId::wildcard(get.target.nspace.clone()), None)),
            Some(job) if rank == Rank::UNDEF || job.is_local(rank) => {
                if let Some(reason) = job.end_of(rank) {
                    return Err(not_found(reason).with_procs(vec![get.target.clone()]));
                }
            }
            Some(job) if !job.may_have(rank) => return Err(not_found("the job has no such rank")),
            // a refresh takes what there is, and does not wait for the key (GET-08)
            Some(_) if get.refresh => get.fetch = Some((get.target.clone(), None)),
            Some(_) => get.fetch = Some((get.target.clone(), get.key.clone())),
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
    fn end(&mut self, number: u64, result: Result<GetReply, Failure>, cx: &mut Context) {
        let Some(get) = self.remove(number, cx) else { return };
        cx.reply(get.to, result.map(Reply::Get));
    }

    fn remove(&mut self, number: u64, cx: &mut Context) -> Option<PendingGet> {
        let get = self.gets.remove(number)?;
        cx.timers.clear(get.deadline, Timer::Get(number));
        if let Some(key) = &get.fetch {
            self.fetches.leave(key, number, cx);
        }
        Some(get)
    }

    /// Looks again for gets of data of a process.
    fn recheck(&mut self, proc: &ProcId, cx: &mut Context) {
        let mut numbers = self.gets.on(proc);
        numbers.extend(self.gets.on(&proc.with_rank(Rank::UNDEF)));
        for number in numbers {
            let Some(get) = self.gets.get(number) else { continue };
            match Look::at(get, cx) {
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
        let job = (ProcId::wildcard(nspace.clone()), None);
        for number in self.gets.where_(|get| get.fetch.as_ref() == Some(&job)) {
            let Some(get) = self.remove(number, cx) else { continue };
            self.serve(PendingGet { fetch: None, ..get }, psets, cx);
        }
    }

    /// A namespace or a process of it was registered: requests of other nodes may be answered now.
    pub(crate) fn resume_requests_of(&mut self, nspace: &Nspace, cx: &mut Context) {
        self.held.recheck(|held| held.nspace == *nspace, cx);
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
            Ok(Answer::Blob(blob)) => self.file_fetched(&key.0, blob, psets, cx),
            Ok(other) => Err(no_modex(&other)),
            Err(failure) => Err(failure),
        };
        // those that are left have not found their key in there
        for number in gets {
            let failure = match &outcome {
                Ok(()) => not_found("its server has no value of that key"),
                Err(failure) => failure.clone(),
            };
            self.end(number, Err(failure), cx);
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

    /// What a round still needed of a process on another node has come, or cannot be fetched.
    pub(crate) fn file_lacking(
        &mut self,
        proc: &ProcId,
        result: Result<Answer, Failure>,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        // it is on this node by now, and what it puts comes from itself
        if cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank)) {
            return Ok(());
        }
        let filed = match result {
            Ok(Answer::Blob(blob)) => self.file_remote(blob, &Members::new(), cx)?,
            Ok(answer) => return Err(no_modex(&answer)),
            // it has ended, with all that it has put
            Err(failure) if failure.status == Status::ERR_NOT_FOUND => {
                if let Some(job) = cx.jobs.get_mut(&proc.nspace) {
                    job.put.remove(&proc.rank);
                }
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        if is_in(&filed.told, proc) && !is_in(&filed.lacking, proc) {
            return Ok(());
        }
        let message = format!("the host did not send all that {proc} has put");
        Err(Failure::new(Status::ERROR, message))
    }

    /// Another node asks for the data of a process here.
    pub(crate) fn on_request(
        &mut self,
        call: CallId,
        proc: ProcId,
        directives: &Directives,
        cx: &mut Context,
    ) {
        self.held.on_request(call, proc, directives, cx);
    }

    /// The host does not wait for the answer to such a request any more.
    pub(crate) fn forget_request(&mut self, call: CallId) {
        self.held.forget(call);
    }

    // what is gone

    pub(crate) fn conn_gone(&mut self, conn: ConnId, cx: &mut Context) {
        for number in self.gets.where_(|get| get.to.conn == conn) {
            self.remove(number, cx);
        }
    }

    pub(crate) fn proc_gone(&mut self, proc: &ProcId, cx: &mut Context) {
        let reason = cx.client(proc).and_then(|client| client.departed.clone()).unwrap_or_default();
        for number in self.gets.on(proc) {
            let failure = not_found(&reason).with_procs(vec![proc.clone()]);
            self.end(number, Err(failure), cx);
        }
        self.held.recheck(|held| held == proc, cx);
    }

    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace, why: &str, cx: &mut Context) {
        let failure = Failure::new(Status::ERR_NOT_FOUND, why);
        for number in self.gets.where_(|get| get.target.nspace == *nspace) {
            self.end(number, Err(failure.clone()), cx);
        }
        self.held.fail_of(nspace, &failure, cx);
    }
}

/// Processes on other nodes of which data has come.
#[derive(Debug, Default)]
pub(crate) struct Filed {
    /// All of them.
    pub(crate) told: Ranks,
    /// Those whose changes build on data that is not here, and were left out.
    pub(crate) lacking: Ranks,
}

impl Filed {
    fn add(&mut self, proc: &ProcId, is_whole: bool) {
        self.told.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        if !is_whole {
            self.lacking.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
    }
}

fn no_modex(answer: &Answer) -> Failure {
    Failure::new(Status::ERROR, format!("the host answered a direct modex with {answer:?}"))
}

/// Files all entries or none.
fn commit(proc: &ProcId, entries: Vec<PutEntry>, cx: &mut Context) -> Result<(), Failure> {
    for entry in &entries {
        if entry.key.is_reserved() {
            let message =
                format!("commit: key {} is reserved, choose one that does not start with pmix", entry.key);
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope) {
            let message =
                format!("commit: key {} has scope {}, which is not supported", entry.key, entry.scope);
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
    }
    let Some(job) = cx.jobs.get_mut(&proc.nspace) else { return Err(unknown_nspace(&proc.nspace)) };
    let put = job.put.entry(proc.rank).or_default();
    let limit = cx.config.put_limit;
    let bytes = put.bytes_with(&entries, limit);
    if bytes > limit {
        let message =
            format!("commit: {proc} would hold {bytes} bytes of keys and values, the limit is {limit}");
        return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
    }
    cx.stats.commits += 1;
    cx.stats.bytes_committed += entries.iter().map(PutEntry::memory).sum::<usize>() as u64;
    for entry in entries {
        put.put(entry, &mut cx.changes);
    }
    Ok(())
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
