//! What a collective comes to: here, or by the host's word.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_types::message::{Failure, Modex, ProcData, PutEntry, Reply};
use pmix_types::{DataArray, Info, Nspace, ProcId, RankSet, Status, keys};

use super::super::group::{Contribution, Finished};
use super::super::registry::Viewer;
use super::super::signature::{Operation, Signature};
use super::super::upcall::{ConnectRequest, Disconnect, FenceRequest, Grouped};
use super::super::{Answer, ConnId, Engine, UpcallId, UpcallPurpose, UpcallRequest};
use super::{HostSide, Outcome, Round};

/// Processes named in a failure; the message names all of them as ranges.
const MAX_NAMED: usize = 64;

impl Engine {
    /// What one participant is told.
    pub(super) fn reply_of(&self, outcome: Outcome, conn: ConnId) -> Reply {
        match outcome {
            Outcome::Fenced(modex) => Reply::Fence(modex.into()),
            Outcome::Connected(assembled) => {
                let caller = self.cx.conns.get(&conn).map(|held| &held.proc);
                caller.map_or(Reply::Done, |caller| Reply::Connect(assembled.reply_to(caller)))
            }
            Outcome::Constructed(reply) => Reply::Group(reply),
            Outcome::Ended => Reply::Done,
        }
    }

    pub(super) fn ask_host(&mut self, signature: &Signature, round: &Round, others_remain: bool) -> UpcallId {
        let data = match &round.verdict {
            None if round.collect => {
                self.cx.config.codec.modex_blob(&self.collected(round, Viewer::OtherNode))
            }
            _ => bytes::Bytes::new(),
        };
        let mut directives = round.directives.clone();
        if let Some(Err(failure)) = &round.verdict {
            // the local part has failed: the other servers must hear of it (FEN-13)
            let status = match failure.status {
                Status::ERR_PROC_TERM_WO_SYNC if others_remain || self.any_alive(&round.entered) => {
                    Status::ERR_PARTIAL_SUCCESS
                }
                Status::ERR_PROC_TERM_WO_SYNC => Status::ERR_LOST_CONNECTION,
                status => status,
            };
            directives.push(Info::new(&keys::LOCAL_COLLECTIVE_STATUS, status));
            if !failure.procs.is_empty() {
                let procs = DataArray::Proc(failure.procs.clone());
                directives.push(Info::new(&keys::EVENT_AFFECTED_PROCS, procs));
            }
        }
        let (procs, nodes) = (signature.procs(), self.nodes_of(signature));
        let request = match &signature.operation {
            Operation::Fence => {
                UpcallRequest::Fence(FenceRequest::new(procs, nodes, data).with_directives(directives))
            }
            Operation::Connect(_) => {
                let jobs = self.local_jobs(signature);
                UpcallRequest::Connect(ConnectRequest::new(procs, nodes, jobs).with_directives(directives))
            }
            Operation::Disconnect(_) => {
                UpcallRequest::Disconnect(Disconnect::new(procs).with_directives(directives))
            }
            Operation::Construct(group) => {
                let (_, departed) = self.missing(&round.entered, &self.local_part(signature));
                let own = Contribution { absent: departed, data, jobs: self.local_jobs(signature) };
                let request = self.construct_request(group, &round.group, own);
                UpcallRequest::Group(request.with_directives(directives))
            }
            Operation::Destruct(group) => {
                UpcallRequest::Group(self.destruct_request(group).with_directives(directives))
            }
        };
        self.cx.upcall(UpcallPurpose::Collective(round.id), self.cx.self_caller(), request)
    }

    /// What the participants that have entered have committed.
    pub(super) fn collected(&self, round: &Round, viewer: Viewer) -> Modex {
        let mut procs = Vec::new();
        for (nspace, ranks) in &round.entered {
            let Some(job) = self.cx.jobs.get(nspace) else { continue };
            for rank in ranks.iter() {
                let Some(put) = job.put.get(&rank) else { continue };
                let entries: Vec<_> = (put.visible(viewer))
                    .map(|(key, scope, value)| PutEntry { scope, key: key.clone(), value: value.clone() })
                    .collect();
                if !entries.is_empty() {
                    procs.push(ProcData { proc: ProcId::new(nspace.clone(), rank), entries });
                }
            }
        }
        Modex { procs }
    }

    /// What an operation comes to that no other node takes part in.
    pub(super) fn local_outcome(&mut self, signature: &Signature, round: &Round) -> Result<Outcome, Failure> {
        Ok(match signature.operation {
            Operation::Fence => self.fenced(round, Vec::new()),
            Operation::Connect(_) => {
                self.connected(signature, round.terms, &round.entered, Default::default())?
            }
            Operation::Disconnect(_) => self.disconnected(signature),
            Operation::Construct(ref group) => {
                let made = self.finished(signature, round, Vec::new());
                self.constructed(group, made, Grouped::default())?
            }
            Operation::Destruct(ref group) => self.destructed(group),
        })
    }

    /// What has come of a construct on this node and, as far as its host says, on others.
    fn finished<'a>(&self, signature: &Signature, round: &'a Round, remote: Vec<ProcData>) -> Finished<'a> {
        let mut modex = self.collected(round, Viewer::SameNode);
        modex.procs.extend(remote);
        let (_, absent) = self.missing(&round.entered, &self.local_part(signature));
        Finished { group: &round.group, terms: round.terms, modex, absent }
    }

    pub(super) fn fenced(&mut self, round: &Round, remote: Vec<ProcData>) -> Outcome {
        self.cx.stats.fences += 1;
        let mut modex =
            if round.collect { self.collected(round, Viewer::SameNode) } else { Modex::default() };
        modex.procs.extend(remote);
        Outcome::Fenced(Arc::new(modex))
    }

    /// The host has carried the operation out, or says why not.
    pub(crate) fn on_collective_answer(&mut self, id: u64, result: Result<Answer, Failure>) {
        let Some(signature) = self.collectives.rounds.get(&id).cloned() else { return };
        let Some(queue) = self.collectives.queues.get_mut(&signature) else { return };
        let Some(position) = queue.iter().position(|round| round.id == id) else { return };
        let mut round = queue.remove(position);
        round.host = HostSide::Done;
        let outcome = self.host_outcome(&signature, &round, result);
        round.verdict.get_or_insert(outcome);
        self.collectives.queues.entry(signature.clone()).or_default().insert(position, round);
        self.drive(&signature);
    }

    pub(super) fn host_outcome(
        &mut self,
        signature: &Signature,
        round: &Round,
        result: Result<Answer, Failure>,
    ) -> Result<Outcome, Failure> {
        match (&signature.operation, result?) {
            (Operation::Fence, Answer::Blob(blob)) => {
                let remote = self.file_fenced(blob)?;
                Ok(self.fenced(round, remote))
            }
            (Operation::Connect(_), Answer::Connected(connected)) => {
                self.adopt_jobs(&connected.data)?;
                self.connected(signature, round.terms, &round.entered, connected)
            }
            (Operation::Disconnect(_), Answer::Done) => Ok(self.disconnected(signature)),
            (Operation::Construct(group), Answer::Grouped(mut grouped)) => {
                self.adopt_jobs(&grouped.jobs)?;
                let remote = self.file_fenced(std::mem::take(&mut grouped.data))?;
                let made = self.finished(signature, round, remote);
                self.constructed(group, made, grouped)
            }
            (Operation::Destruct(group), Answer::Grouped(_)) => Ok(self.destructed(group)),
            (operation, other) => {
                let message = format!("the host answered a {} with {other:?}", operation.name());
                Err(Failure::new(Status::ERROR, message))
            }
        }
    }

    /// Files what other nodes have sent; returns it.
    pub(super) fn file_fenced(&mut self, blob: bytes::Bytes) -> Result<Vec<ProcData>, Failure> {
        let modex = self.cx.config.codec.read_modex(blob)?;
        let mut remote = Vec::new();
        for data in modex.procs {
            // this node's own part comes back with the rest
            if self.cx.jobs.get(&data.proc.nspace).is_some_and(|job| job.is_local(data.proc.rank)) {
                continue;
            }
            self.file_remote(&data);
            remote.push(data);
        }
        Ok(remote)
    }

    /// Names the participants that cannot enter any more, with what is known of their end.
    pub(crate) fn departed_failure(
        &self,
        operation: &Operation,
        departed: &BTreeMap<Nspace, RankSet>,
    ) -> Failure {
        let procs = named(departed);
        let why =
            procs.first().and_then(|proc| self.cx.client(proc)).and_then(|client| client.departed.as_deref());
        let message = format!(
            "{} on {} will not enter the {}: {}",
            listed(departed),
            self.cx.config.hostname,
            operation.name(),
            why.unwrap_or("it has ended")
        );
        Failure::new(Status::ERR_PROC_TERM_WO_SYNC, message).with_procs(procs)
    }
}

pub(super) fn timeout_failure(
    operation: &Operation,
    awaited: &BTreeMap<Nspace, RankSet>,
    remote: bool,
    hostname: &str,
) -> Failure {
    let operation = operation.name();
    let message = match (awaited.is_empty(), remote) {
        (false, _) => format!("{operation} timed out waiting for {} on {hostname}", listed(awaited)),
        (true, true) => format!("{operation} timed out waiting for other nodes"),
        (true, false) => format!("{operation} timed out waiting for processes that are not registered yet"),
    };
    Failure::new(Status::ERR_TIMEOUT, message).with_procs(named(awaited))
}

fn listed(ranks: &BTreeMap<Nspace, RankSet>) -> String {
    ranks.iter().map(|(nspace, ranks)| format!("{nspace}:{ranks}")).collect::<Vec<_>>().join(" and ")
}

fn named(ranks: &BTreeMap<Nspace, RankSet>) -> Vec<ProcId> {
    let procs =
        ranks.iter().flat_map(|(nspace, ranks)| ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)));
    procs.take(MAX_NAMED).collect()
}
