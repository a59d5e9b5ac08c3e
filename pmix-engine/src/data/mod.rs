//! Put data: commits and what comes from other nodes, the gets of processes here (`get.rs`), and the requests of other nodes
//! (`held.rs`).

mod get;
mod held;

use std::collections::BTreeMap;

use bytes::Bytes;
use pmix_types::job::{JobData, Target};
use pmix_types::message::{Commit, Failure, PutEntry, Reply};
use pmix_types::why::Wait;
use pmix_types::{Directives, KeyName, Memory, Nspace, ProcId, RankSet, Scope, Status, Uid};

use crate::context::Context;
use crate::jobs::psets::Psets;
use crate::jobs::{PutData, registration, unknown_nspace};
use crate::participants::{Members, Ranks, is_in};
use crate::{Answer, Asked, CallId, Caller, ConnId};
use get::{Fetches, PendingGets, not_found};
use held::HeldRequests;

#[cfg(test)]
pub(crate) use held::MAX_HELD;

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

    pub(crate) fn commit(&mut self, asked: Asked, Commit { entries, .. }: Commit, cx: &mut Context) {
        let proc = &asked.by.proc;
        let result = commit(&asked.by, entries, cx);
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
            check_room(&told, changes.since == 0, cx)?;
            for (proc, entries) in told {
                let Some(job) = cx.jobs.get_mut(&proc.nspace).filter(|job| !job.is_local(proc.rank)) else {
                    continue;
                };
                let take = |put: &mut PutData| put.take(&changes, entries, &mut cx.changes);
                let is_whole = match changes.since {
                    0 => job.put.change(proc.rank, take),
                    _ => job.put.change_known(proc.rank, take).unwrap_or(false),
                };
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
                    let take = |put: &mut PutData| put.take(&changes, Vec::new(), &mut cx.changes);
                    // of whom nothing is here nothing is outdated
                    let is_whole = job.put.change_known(rank, take).unwrap_or(changes.since == 0);
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

    /// A namespace or a process of it was registered: requests of other nodes may be answered now.
    pub(crate) fn resume_requests_of(&mut self, nspace: &Nspace, cx: &mut Context) {
        self.held.recheck(|held| held.nspace == *nspace, cx);
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
                    job.put.remove(proc.rank);
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
fn commit(by: &Caller, mut entries: Vec<PutEntry>, cx: &mut Context) -> Result<(), Failure> {
    let proc = &by.proc;
    for entry in &entries {
        if entry.key.is_reserved() {
            let message =
                format!("commit: key {} is reserved, choose one that does not start with pmix", entry.key);
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if !entry.is_named_rightly() {
            let message = format!("commit: key {} does not match the qualifiers of its value", entry.key);
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope) {
            let message =
                format!("commit: key {} has scope {}, which is not supported", entry.key, entry.scope);
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
    }
    if let Some(job) = cx.jobs.get(&proc.nspace) {
        // a process may fill in what the host does not say of it
        let is_known = |key: &KeyName| job.data.lookup(key, &Target::Proc(proc.rank)).is_some();
        entries.retain(|entry| !entry.key.claim().is_some_and(|key| is_known(&key)));
    }
    let limit = cx.config.put_limit;
    let added = PutData::bytes_of(&entries);
    let of_user = if cx.config.trusts(by.uid) { 0 } else { bytes_of_user(by.uid, added, cx) };
    let Some(job) = cx.jobs.get_mut(&proc.nspace) else { return Err(unknown_nspace(&proc.nspace)) };
    let nothing = PutData::default();
    let put = job.put.get(proc.rank).unwrap_or(&nothing);
    let others = of_user.saturating_sub(put.bytes());
    let bytes = put.bytes_with(&entries, limit.saturating_sub(others));
    if bytes > limit {
        let message =
            format!("commit: {proc} would hold {bytes} bytes of keys and values, the limit is {limit}");
        return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
    }
    if others + bytes > limit {
        return Err(too_much_of_user(by.uid, others + bytes, limit));
    }
    cx.stats.commits += 1;
    cx.stats.bytes_committed += entries.iter().map(PutEntry::memory).sum::<usize>() as u64;
    job.put.change(proc.rank, |put| {
        for entry in entries {
            put.put(entry, &mut cx.changes);
        }
    });
    Ok(())
}

/// Bytes of put data that this server holds for a user. If even all users together stay within the limit with `added` more, the sum of
/// all users.
fn bytes_of_user(uid: Uid, added: usize, cx: &Context) -> usize {
    // the jobs of all users are added up at once, and owners looked for only if that matters
    let of_all = cx.jobs.values().map(|job| job.put.bytes()).sum::<usize>();
    if of_all + added <= cx.config.put_limit {
        return of_all;
    }
    let jobs = cx.jobs.values().filter(|job| job.put.bytes() > 0 && job.owner() == Some(uid));
    jobs.map(|job| job.put.bytes()).sum()
}

/// Refuses what other nodes have sent if it is more than their user's processes may have put. It takes the place of all that is held of
/// these processes, or of some.
fn check_room(told: &BTreeMap<ProcId, Vec<PutEntry>>, replaces: bool, cx: &Context) -> Result<(), Failure> {
    let limit = cx.config.put_limit;
    let mut users = BTreeMap::<Uid, (usize, usize)>::new();
    let mut owners = BTreeMap::<&Nspace, Option<Uid>>::new();
    for (proc, entries) in told {
        let Some(job) = cx.jobs.get(&proc.nspace) else { continue };
        let owner = owners.entry(&proc.nspace).or_insert_with(|| job.owner());
        let Some(uid) = owner.filter(|uid| !cx.config.trusts(*uid)) else { continue };
        // what is of this node has been counted
        if job.is_local(proc.rank) {
            continue;
        }
        let held = job.put.get(proc.rank);
        let (new, old) = users.entry(uid).or_default();
        *new += match held {
            Some(held) if !replaces => held.bytes_with(entries, 0),
            _ => PutData::bytes_of(entries),
        };
        *old += held.map_or(0, PutData::bytes);
    }
    for (uid, (new, old)) in users {
        let bytes = bytes_of_user(uid, new, cx).saturating_sub(old) + new;
        if bytes > limit {
            return Err(too_much_of_user(uid, bytes, limit));
        }
    }
    Ok(())
}

fn too_much_of_user(uid: Uid, bytes: usize, limit: usize) -> Failure {
    let message = format!(
        "the processes of uid {uid} would hold {bytes} bytes of keys and values at this server, the limit for a user is {limit}"
    );
    Failure::new(Status::ERR_OUT_OF_RESOURCE, message)
}
