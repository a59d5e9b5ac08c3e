//! The answering side: requests of other nodes for data of processes here, which wait until it is put.

use std::time::Instant;

use bytes::Bytes;
use pmix_types::message::{Changes, Failure, ProcData, PutEntry};
use pmix_types::why::Wait;
use pmix_types::{DirectiveError, Directives, KeyName, Nspace, ProcId, Rank, Status, keys};

use crate::context::Context;
use crate::jobs::Viewer;
use crate::{CallId, CallValue, Command};

/// Requests of other nodes that may wait here at a time: a host may wait for ever for data that is never put.
pub(crate) const MAX_HELD: usize = 1 << 14;

/// Requests of the host that cannot be answered yet (DMX-02).
#[derive(Debug, Default)]
pub(super) struct HeldRequests(Vec<HeldRequest>);

#[derive(Debug)]
struct HeldRequest {
    call: CallId,
    since: Option<Instant>,
    proc: ProcId,
    key: Option<KeyName>,
}

impl HeldRequests {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The host asks for the data of a local process for another node (DMX-02).
    pub(super) fn on_request(
        &mut self,
        call: CallId,
        proc: ProcId,
        directives: &Directives,
        cx: &mut Context,
    ) {
        let read = || Ok((directives.get(&keys::REQUIRED_KEY)?, directives.flag(&keys::IMMEDIATE)?));
        let (key, immediate): (Option<String>, _) = match read() {
            Ok(read) => read,
            Err(error) => return returns(call, Err(DirectiveError::into(error)), cx),
        };
        let key = key.and_then(|key| KeyName::new(key).ok());
        let held = HeldRequest { call, since: cx.now, proc, key };
        match held.answer(cx) {
            Some(result) => returns(call, result, cx),
            None if immediate => returns(call, held.answer_at_once(cx), cx),
            None if self.0.len() >= MAX_HELD => {
                let message = format!(
                    "{MAX_HELD} requests already wait here for data that does not exist yet, which is the limit"
                );
                returns(call, Err(Failure::new(Status::ERR_RESOURCE_BUSY, message)), cx);
            }
            None => self.0.push(held),
        }
    }

    pub(super) fn waits<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        self.0.iter().map(|held| {
            let mut wait = cx.wait(held.call.0, "get of another node", held.since);
            wait.about = held.key.as_ref().map(KeyName::to_string);
            wait.missing.insert(&held.proc);
            wait
        })
    }

    /// Answers those that can be answered now.
    pub(super) fn recheck(&mut self, concerns: impl Fn(&ProcId) -> bool, cx: &mut Context) {
        for request in std::mem::take(&mut self.0) {
            match concerns(&request.proc).then(|| request.answer(cx)).flatten() {
                Some(result) => returns(request.call, result, cx),
                None => self.0.push(request),
            }
        }
    }

    /// A namespace is gone: nobody answers for it any more.
    pub(super) fn fail_of(&mut self, nspace: &Nspace, failure: &Failure, cx: &mut Context) {
        for held in self.0.extract_if(.., |held| held.proc.nspace == *nspace) {
            returns(held.call, Err(failure.clone()), cx);
        }
    }

    /// The host does not wait any more.
    pub(super) fn forget(&mut self, call: CallId) {
        self.0.retain(|held| held.call != call);
    }
}

impl HeldRequest {
    /// The answer, or `None` if it must wait.
    fn answer(&self, cx: &Context) -> Option<Result<Bytes, Failure>> {
        let Self { proc, key, .. } = self;
        let job = cx.jobs.get(&proc.nspace).filter(|job| job.registered)?;
        if proc.rank == Rank::WILDCARD {
            return Some(Ok(cx.config.codec.encode_job(&job.data)));
        }
        let fail =
            |status, message: String| Some(Err(Failure::new(status, message).with_procs(vec![proc.clone()])));
        if !job.is_local(proc.rank) && job.end_of(proc.rank).is_none() {
            if job.awaits_clients() {
                return None;
            }
            let message = format!("{proc} is not a process of {}", cx.config.hostname);
            return fail(Status::ERR_NOT_FOUND, message);
        }
        if let Some(put) = job.put.get(proc.rank) {
            match key {
                Some(key) if put.find(key, Viewer::OtherNode, None).is_none() => {
                    if put.hides(key, Viewer::OtherNode) {
                        let message =
                            format!("{key} of {proc} was put in a scope that does not include other nodes");
                        return fail(Status::ERR_EXISTS_OUTSIDE_SCOPE, message);
                    }
                }
                _ => return Some(Ok(self.all(put.visible(Viewer::OtherNode), cx))),
            }
        }
        let end = job.end_of(proc.rank)?;
        fail(Status::ERR_NOT_FOUND, format!("{proc} has ended without putting the requested data: {end}"))
    }

    /// The answer in place of waiting: who is here and has put nothing has all of that here.
    fn answer_at_once(&self, cx: &Context) -> Result<Bytes, Failure> {
        let Self { proc, key, .. } = self;
        let is_served = cx.jobs.get(&proc.nspace).is_some_and(|job| job.serves(proc.rank));
        let missing = match (is_served, key) {
            (true, None) => return Ok(self.all(Vec::new(), cx)),
            (true, Some(key)) => format!("{proc} has not put {key}"),
            (false, _) => format!("{proc} is not registered on {}", cx.config.hostname),
        };
        Err(Failure::new(Status::ERR_NOT_FOUND, missing).with_procs(vec![proc.clone()]))
    }

    /// All that the process has put.
    fn all(&self, entries: Vec<PutEntry>, cx: &Context) -> Bytes {
        let mut changes = Changes::new(cx.config.incarnation, 0, cx.changes.last());
        changes.procs.push(ProcData::new(self.proc.clone(), entries));
        cx.config.codec.encode_changes(&[changes])
    }
}

fn returns(call: CallId, result: Result<Bytes, Failure>, cx: &mut Context) {
    cx.out.push(Command::Return { id: call, result: result.map(CallValue::Blob) });
}
