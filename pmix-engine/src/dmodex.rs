//! Direct modex, both ways: data fetched from other nodes, and data that other nodes fetch from this one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, KeyName, Nspace, ProcId, Rank, Status, keys};

use super::kv::{modex_of, not_found};
use super::registry::Viewer;
use super::upcall::DirectModexRequest;
use super::{Answer, CallId, CallValue, Command, Engine, UpcallId, UpcallPurpose, UpcallRequest};

/// Requests of other nodes that wait here at a time: a host may wait for ever for what will never be put.
pub(super) const MAX_HELD: usize = 1 << 14;

/// What is fetched: a process's data for the sake of one key, or for all it has put.
pub(super) type FetchKey = (ProcId, Option<KeyName>);

#[derive(Debug, Default)]
pub(super) struct Dmodex {
    /// Upcalls under way with the gets that share them (GET-25).
    fetches: BTreeMap<FetchKey, Fetch>,
    /// Requests of the host that cannot be answered yet (DMX-02).
    held: Vec<Held>,
}

#[derive(Debug)]
struct Fetch {
    upcall: UpcallId,
    waiters: BTreeSet<u64>,
}

#[derive(Debug)]
struct Held {
    call: CallId,
    proc: ProcId,
    key: Option<KeyName>,
}

impl Dmodex {
    pub(super) fn is_empty(&self) -> bool {
        self.fetches.is_empty() && self.held.is_empty()
    }

    pub(super) fn forget(&mut self, call: CallId) {
        self.held.retain(|held| held.call != call);
    }

    pub(super) const fn held(&self) -> usize {
        self.held.len()
    }
}

impl Engine {
    /// Adds a get to the fetch it needs, and starts that if it is the first.
    pub(super) fn join_fetch(&mut self, key: FetchKey, waiter: u64, mut directives: Directives) {
        if let Some(fetch) = self.dmodex.fetches.get_mut(&key) {
            fetch.waiters.insert(waiter);
            return;
        }
        // the server keeps the time itself (GEN-12)
        directives.remove(&keys::TIMEOUT);
        if let (true, Some(wanted)) = (key.0.rank.is_valid(), &key.1) {
            directives.push(Info::new(&keys::REQUIRED_KEY, wanted.to_string()));
        }
        let request = DirectModexRequest::new(key.0.clone()).with_directives(directives);
        let caller = self.cx.self_caller();
        let upcall =
            self.cx.upcall(UpcallPurpose::Fetch(key.clone()), caller, UpcallRequest::DirectModex(request));
        self.dmodex.fetches.insert(key, Fetch { upcall, waiters: BTreeSet::from([waiter]) });
    }

    /// A get needs its fetch no longer; the last one ends it.
    pub(super) fn leave_fetch(&mut self, key: &FetchKey, waiter: u64) {
        let Some(fetch) = self.dmodex.fetches.get_mut(key) else { return };
        fetch.waiters.remove(&waiter);
        if fetch.waiters.is_empty() {
            let upcall = fetch.upcall;
            self.dmodex.fetches.remove(key);
            self.cancel_upcall(upcall);
        }
    }

    /// The host has fetched, or says why not.
    pub(super) fn on_fetched(&mut self, key: &FetchKey, result: Result<Answer, Failure>) {
        let Some(fetch) = self.dmodex.fetches.remove(key) else { return };
        let outcome = match result {
            Ok(Answer::Blob(blob)) => self.file_fetched(&key.0, blob),
            Ok(other) => {
                Err(Failure::new(Status::ERROR, format!("the host answered a direct modex with {other:?}")))
            }
            Err(failure) => Err(failure),
        };
        // who is left has not found what it wants in there
        for number in fetch.waiters {
            let failure = match &outcome {
                Ok(()) => not_found("its server has sent everything, and that key is not among it"),
                Err(failure) => failure.clone(),
            };
            self.answer_waiter(number, Err(failure));
        }
    }

    fn file_fetched(&mut self, target: &ProcId, blob: Bytes) -> Result<(), Failure> {
        if target.rank == Rank::WILDCARD {
            // everything about a namespace this server did not know (GET-32)
            let data = self.cx.config.codec.read_job(blob)?;
            if *data.nspace() != target.nspace {
                let message = format!("asked for job {}, the host sent {}", target.nspace, data.nspace());
                return Err(Failure::new(Status::ERROR, message));
            }
            self.adopt_job(data);
            return Ok(());
        }
        for data in self.cx.config.codec.read_modex(blob)?.procs {
            let is_local =
                self.cx.jobs.get(&data.proc.nspace).is_some_and(|job| job.is_local(data.proc.rank));
            if !is_local {
                self.file_remote(&data);
            }
        }
        Ok(())
    }

    /// The host wants the data of a local process for another node (DMX-02).
    pub(super) fn on_dmodex_request(&mut self, call: CallId, proc: ProcId, directives: &Directives) {
        let key = match directives.get(&keys::REQUIRED_KEY) {
            Ok(key) => key,
            Err(error) => return self.cx.out.push(Command::Return { id: call, result: Err(error.into()) }),
        };
        let key = key.and_then(|key| KeyName::new(key).ok());
        let held = Held { call, proc, key };
        match self.dmodex_answer(&held) {
            Some(result) => {
                self.cx.out.push(Command::Return { id: call, result: result.map(CallValue::Blob) })
            }
            None if self.dmodex.held.len() >= MAX_HELD => {
                let message = format!("{MAX_HELD} requests for data that is not there wait here already");
                let failure = Failure::new(Status::ERR_RESOURCE_BUSY, message);
                self.cx.out.push(Command::Return { id: call, result: Err(failure) });
            }
            None => self.dmodex.held.push(held),
        }
    }

    /// The answer, or `None` if it must wait.
    fn dmodex_answer(&self, held: &Held) -> Option<Result<Bytes, Failure>> {
        let Held { proc, key, .. } = held;
        let job = self.cx.jobs.get(&proc.nspace).filter(|job| job.registered)?;
        if proc.rank == Rank::WILDCARD {
            return Some(Ok(self.cx.config.codec.encode_job(&job.data)));
        }
        let fail =
            |status, message: String| Some(Err(Failure::new(status, message).with_procs(vec![proc.clone()])));
        if !job.is_local(proc.rank) && job.end_of(proc.rank).is_none() {
            if job.awaits_clients() {
                return None;
            }
            return fail(
                Status::ERR_NOT_FOUND,
                format!("{proc} is not a process of {}", self.cx.config.hostname),
            );
        }
        if let Some(put) = job.put.get(&proc.rank) {
            match key {
                Some(key) if put.find(key, Viewer::OtherNode, None).is_none() => {
                    if put.hides(key, Viewer::OtherNode) {
                        let message =
                            format!("{key} of {proc} was put in a scope that leaves other nodes out");
                        return fail(Status::ERR_EXISTS_OUTSIDE_SCOPE, message);
                    }
                }
                _ => {
                    return Some(Ok(self.cx.config.codec.modex_blob(&modex_of(
                        proc,
                        put,
                        Viewer::OtherNode,
                    ))));
                }
            }
        }
        let end = job.end_of(proc.rank)?;
        fail(Status::ERR_NOT_FOUND, format!("{proc} has ended without putting what is wanted: {end}"))
    }

    fn recheck_dmodex(&mut self, concerns: impl Fn(&ProcId) -> bool) {
        let held = std::mem::take(&mut self.dmodex.held);
        for request in held {
            match concerns(&request.proc).then(|| self.dmodex_answer(&request)).flatten() {
                Some(result) => {
                    self.cx
                        .out
                        .push(Command::Return { id: request.call, result: result.map(CallValue::Blob) });
                }
                None => self.dmodex.held.push(request),
            }
        }
    }

    pub(super) fn recheck_dmodex_on(&mut self, proc: &ProcId) {
        self.recheck_dmodex(|held| held == proc);
    }

    pub(super) fn on_departed_in_dmodex(&mut self, proc: &ProcId) {
        self.recheck_dmodex_on(proc);
    }

    pub(super) fn resume_dmodex_of(&mut self, nspace: &Nspace) {
        self.recheck_dmodex(|held| held.nspace == *nspace);
    }

    pub(super) fn fail_dmodex_of(&mut self, nspace: &Nspace, failure: &Failure) {
        let (gone, kept) =
            std::mem::take(&mut self.dmodex.held).into_iter().partition(|held| held.proc.nspace == *nspace);
        self.dmodex.held = kept;
        for held in Vec::<Held>::into_iter(gone) {
            self.cx.out.push(Command::Return { id: held.call, result: Err(failure.clone()) });
        }
    }
}
