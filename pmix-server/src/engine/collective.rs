//! Operations of many: who is expected, who has entered, and the one verdict for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::{Failure, Fence, Modex, ProcData, PutEntry, Reply};
use pmix_types::{DataType, Directives, Info, Key, Nspace, ProcId, RankSet, Status, keys};

use super::assemblies::{Absent, Assemblies, Terms};
use super::assembly::{Assembled, Entered};
use super::ids::{Counter, ReplyTo};
use super::registry::{Job, Viewer};
use super::signature::{Operation, Signature};
use super::timers::{Timer, deadline};
use super::{Answer, Asked, ConnId, Engine, Out, UpcallId, UpcallPurpose, UpcallRequest};
use crate::blob;
use crate::host::{ConnectRequest, DisconnectRequest, FenceRequest};

/// Rounds of one set of participants that can be open at a time.
const MAX_ROUNDS: usize = 1024;
/// Processes named in a failure; the message names all of them as ranges.
const MAX_NAMED: usize = 64;

/// Removed from the Standard, still accepted and passed on (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

#[derive(Debug, Default)]
pub(super) struct Collectives {
    queues: BTreeMap<Signature, Vec<Round>>,
    /// To which queue a round belongs.
    rounds: BTreeMap<u64, Signature>,
    next: Counter,
    /// Who is connected.
    pub(super) assemblies: Assemblies,
}

/// Entry of a process into a collective.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) procs: Vec<ProcId>,
    pub(super) directives: Directives,
}

/// What a collective has come to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Fenced(Arc<Modex>),
    Connected(Arc<Assembled>),
    Disconnected,
}

/// One operation from its first entry to the last answer.
#[derive(Debug)]
struct Round {
    id: u64,
    entered: BTreeMap<Nspace, RankSet>,
    waiting: Vec<ReplyTo>,
    directives: Directives,
    collect: bool,
    /// What a connect or disconnect is to be like.
    terms: Terms,
    /// Nobody is awaited here any more; who comes later means the next round.
    complete: bool,
    deadline: Option<Instant>,
    verdict: Option<Result<Outcome, Failure>>,
    host: HostSide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostSide {
    NotAsked,
    Asked(UpcallId),
    /// It has answered, or need not be asked.
    Done,
}

/// The part of a collective's participants that is on this node.
#[derive(Debug, Default)]
struct LocalPart {
    /// Ranks known by number.
    ranks: BTreeMap<Nspace, RankSet>,
    /// Namespaces of which only the number of local processes is known (FEN-10).
    counts: BTreeMap<Nspace, u64>,
    /// A namespace is not registered yet (FEN-11).
    unregistered: bool,
    /// A rank that was named may still be registered (FEN-10).
    unknown: bool,
    /// Participants on other nodes.
    remote: bool,
    /// Members of a connected group that are not waited for.
    absent: Absent,
}

impl Round {
    fn has(&self, proc: &ProcId) -> bool {
        self.entered.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
    }

    /// Whether it goes on without those who have ended (CON-12). Who has ended is not connected any more, whatever the
    /// others do.
    const fn is_lenient(&self, operation: &Operation) -> bool {
        self.terms.optional || matches!(operation, Operation::Disconnect(_))
    }

    fn entered(&self, nspace: &str) -> u64 {
        self.entered.get(nspace).map_or(0, RankSet::len)
    }
}

impl Collectives {
    /// Entered and not answered yet.
    pub(super) fn waiting(&self) -> usize {
        self.queues.values().flatten().map(|round| round.waiting.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.rounds.is_empty()
    }

    /// The answer has nowhere to go any more; what was contributed stays (FEN-14).
    pub(super) fn forget(&mut self, conn: ConnId) {
        for round in self.queues.values_mut().flatten() {
            round.waiting.retain(|to| to.conn != conn);
        }
    }

    fn of_nspace(&self, nspace: &Nspace) -> Vec<Signature> {
        self.queues.keys().filter(|signature| signature.procs.contains_key(nspace)).cloned().collect()
    }
}

impl Engine {
    pub(super) fn on_fence(&mut self, asked: &Asked, fence: Fence, out: &mut Out) {
        let procs = fence.procs.unwrap_or_else(|| vec![ProcId::wildcard(asked.by.proc.nspace.clone())]);
        self.on_enter(asked, Entry { operation: Operation::Fence, procs, directives: fence.directives }, out);
    }

    /// A process enters: goes as far as that allows.
    pub(super) fn on_enter(&mut self, asked: &Asked, entry: Entry, out: &mut Out) {
        match self.enter(asked, entry, out) {
            Ok(signature) => self.drive(&signature, out),
            Err(failure) => self.reply(asked.to, Err(failure), out),
        }
    }

    fn enter(&mut self, asked: &Asked, entry: Entry, out: &mut Out) -> Result<Signature, Failure> {
        let caller = &asked.by.proc;
        let Entry { operation, procs, mut directives } = entry;
        let signature = Signature::new(operation, caller, procs, &self.collectives.assemblies)?;
        let terms =
            if signature.operation.is_hosts() { Terms::take(&mut directives)? } else { Terms::default() };
        self.check_assembly(&signature, caller, terms)?;
        let until = deadline(asked.at, &mut directives)?;
        let mut collect = false;
        if !signature.operation.is_hosts() {
            collect = directives.take_flag(&keys::COLLECT_DATA)?;
            directives.take_flag(&keys::COLLECT_GENERATED_JOB_INFO)?;
        }
        // the server keeps the time itself, so the host must not (GEN-12)
        directives.remove(&keys::TIMEOUT);
        let local = self.local_part(&signature);
        if !self.is_for_host(&signature, &local) && !local.unknown && !local.unregistered {
            // nobody is above this server for this operation
            if directives.flag(&COLLECTIVE_ALGO_REQD)? {
                return Err(Failure::new(
                    Status::ERR_NOT_SUPPORTED,
                    "the required collective algorithm is not known here",
                ));
            }
            directives.deny_unprocessed()?;
        }

        let queue = self.collectives.queues.entry(signature.clone()).or_default();
        if signature.operation.is_hosts()
            && queue.iter().any(|round| round.verdict.is_none() && round.has(caller))
        {
            let name = signature.operation.name();
            let message = format!("{caller} is in a {name} of these processes already");
            return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
        }
        // a process that is in a round already means the next one (FEN-04)
        let position = match queue.iter().position(|round| !round.complete && !round.has(caller)) {
            Some(position) => position,
            None if queue.len() >= MAX_ROUNDS => {
                let message = format!(
                    "{MAX_ROUNDS} operations of these participants are not complete yet: {}",
                    signature.operation.name()
                );
                return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
            }
            None => {
                let id = self.collectives.next.next();
                self.collectives.rounds.insert(id, signature.clone());
                queue.push(Round {
                    id,
                    entered: BTreeMap::new(),
                    waiting: Vec::new(),
                    directives: Directives::new(),
                    collect: false,
                    terms: Terms::default(),
                    complete: false,
                    deadline: None,
                    verdict: None,
                    host: HostSide::NotAsked,
                });
                queue.len() - 1
            }
        };
        let round = &mut queue[position];
        round.entered.entry(caller.nspace.clone()).or_default().insert(caller.rank);
        round.waiting.push(asked.to);
        // data moves for all if anyone asks for it, so that all get the same (FEN-08)
        round.collect |= collect;
        let asks_others = terms.notify_requested && !round.terms.notify_requested;
        round.terms.join(terms);
        for info in directives {
            if round.directives.get_value(&info.key).is_none() {
                round.directives.push(info);
            }
        }
        if let Some(until) = until
            && round.verdict.is_none()
            && round.deadline.is_none_or(|held| until < held)
        {
            self.timers.clear(round.deadline, Timer::Round(round.id));
            round.deadline = Some(until);
            self.timers.set(Some(until), Timer::Round(round.id));
        }
        if signature.operation.is_hosts() {
            let entered = Entered { terms: round.terms, already: round.entered.clone(), asks_others };
            self.tell_of_entry(&signature, caller, &entered, out);
        }
        Ok(signature)
    }

    /// Whether the host carries the operation out, or has a say in it.
    fn is_for_host(&self, signature: &Signature, local: &LocalPart) -> bool {
        (local.remote || signature.operation.is_hosts())
            && self.config.capabilities.has(signature.operation.upcall())
    }

    /// Participants on this node, as far as is known now.
    fn local_part(&self, signature: &Signature) -> LocalPart {
        let mut part = LocalPart::default();
        for (nspace, named) in &signature.procs {
            let job = self.jobs.get(nspace);
            let Some(job) = job.filter(|job| job.registered) else {
                // clients may be registered before their namespace is
                let local = job.map(Job::known_local).unwrap_or_default();
                // a job of other nodes only, as their servers say; who connects need not be known here before
                let is_far =
                    job.is_some_and(|job| job.data.placement().is_some()) || signature.operation.is_hosts();
                let is_elsewhere =
                    is_far && local.is_empty() && self.config.capabilities.has(signature.operation.upcall());
                part.remote |= is_elsewhere;
                part.unregistered |= !is_elsewhere;
                let here = if named.all { local } else { &named.ranks & &local };
                part.ranks.insert(nspace.clone(), here);
                continue;
            };
            let local = job.known_local();
            if named.all {
                match (&job.local_ranks, job.local_count()) {
                    (None, Some(count)) if count != local.len() => {
                        part.counts.insert(nspace.clone(), count);
                    }
                    _ => {}
                }
                let here = part.counts.get(nspace).copied().unwrap_or_else(|| local.len());
                part.remote |= match job.data.size() {
                    Some(size) => u64::from(size) > here,
                    None => self.config.capabilities.has(signature.operation.upcall()),
                };
                part.ranks.insert(nspace.clone(), local);
            } else {
                let here = &named.ranks & &local;
                let elsewhere = here.len() < named.ranks.len();
                part.unknown |= elsewhere && job.awaits_clients();
                part.remote |= elsewhere;
                part.ranks.insert(nspace.clone(), here);
            }
        }
        part.absent = self.collectives.assemblies.absent(signature);
        part
    }

    /// Expected here and not entered: those who may still come, and those who cannot any more.
    fn missing(
        &self,
        round: &Round,
        local: &LocalPart,
    ) -> (BTreeMap<Nspace, RankSet>, BTreeMap<Nspace, RankSet>) {
        let (mut awaited, mut departed) = (BTreeMap::new(), BTreeMap::new());
        for (nspace, expected) in &local.ranks {
            let mut absent = match round.entered.get(nspace) {
                Some(entered) => expected - entered,
                None => expected.clone(),
            };
            if let Some(excused) = local.absent.excused.get(nspace) {
                absent = &absent - excused;
            }
            let gone = &absent & &self.departed_of(nspace, local);
            let alive = &absent - &gone;
            if !alive.is_empty() {
                awaited.insert(nspace.clone(), alive);
            }
            if !gone.is_empty() {
                departed.insert(nspace.clone(), gone);
            }
        }
        (awaited, departed)
    }

    /// Whether somebody is awaited whose rank is not even known.
    fn awaits_unnamed(&self, round: &Round, local: &LocalPart) -> bool {
        local.unregistered || local.unknown || self.awaits_counted(round, local)
    }

    /// Whether fewer have entered than the host has announced (FEN-10).
    fn awaits_counted(&self, round: &Round, local: &LocalPart) -> bool {
        local.counts.iter().any(|(nspace, count)| {
            let mut gone = self.departed_of(nspace, local);
            if let Some(excused) = local.absent.excused.get(nspace) {
                gone = &gone | excused;
            }
            if let Some(entered) = round.entered.get(nspace) {
                gone = &gone - entered;
            }
            round.entered(nspace) + gone.len() < *count
        })
    }

    /// Local processes that will not enter any more.
    fn departed_of(&self, nspace: &Nspace, local: &LocalPart) -> RankSet {
        let departed = self.jobs.get(nspace).map(|job| job.departed.clone()).unwrap_or_default();
        match local.absent.ended.get(nspace) {
            Some(ended) => &departed | ended,
            None => departed,
        }
    }

    pub(super) fn drive_collectives_of(&mut self, nspace: &Nspace, out: &mut Out) {
        for signature in self.collectives.of_nspace(nspace) {
            self.drive(&signature, out);
        }
    }

    /// Does all that can be done now for the operations of one signature.
    fn drive(&mut self, signature: &Signature, out: &mut Out) {
        let Some(mut queue) = self.collectives.queues.remove(signature) else { return };
        let local = self.local_part(signature);
        let asks = self.is_for_host(signature, &local);
        // other nodes must hear of it even if it has failed
        let host = asks && local.remote;
        let mut host_is_free = true;
        queue.retain_mut(|round| {
            let (awaited, departed) = self.missing(round, &local);
            let all_in = awaited.is_empty() && !self.awaits_unnamed(round, &local);
            round.complete |= all_in;
            if round.verdict.is_none() && round.host == HostSide::NotAsked {
                round.verdict = if !departed.is_empty() && !round.is_lenient(&signature.operation) {
                    Some(Err(self.departed_failure(&signature.operation, &departed)))
                } else if round.complete && !local.remote && !asks {
                    Some(self.local_outcome(signature, round))
                } else if round.complete && !asks {
                    let what = format!("a {} over several nodes", signature.operation.name());
                    Some(Err(super::not_supported(&what)))
                } else {
                    None
                };
            }
            let has_to_ask = if round.verdict.is_some() { host } else { asks && round.complete };
            if has_to_ask && host_is_free && round.host == HostSide::NotAsked {
                round.host = HostSide::Asked(self.ask_host(signature, round, !awaited.is_empty(), out));
            } else if !host
                && !local.unknown
                && !local.unregistered
                && round.host == HostSide::NotAsked
                && round.verdict.is_some()
            {
                round.host = HostSide::Done;
            }
            // the host has one operation of these participants at a time, in their order (FEN-04)
            host_is_free &= round.host == HostSide::Done;
            self.settle(round, out);
            let done = round.verdict.is_some() && round.host == HostSide::Done && round.complete;
            let done = done || awaited.is_empty() && self.is_hopeless(signature, round, &local);
            if done {
                self.collectives.rounds.remove(&round.id);
            }
            !done
        });
        if !queue.is_empty() {
            self.collectives.queues.insert(signature.clone(), queue);
        }
    }

    /// Whether a fence has failed of which only processes of unregistered namespaces are awaited.
    ///
    /// It is not kept for them, as they may never come: if they do, they begin the next fence. Other servers must
    /// still hear of a death, though, as soon as all namespaces are known (FEN-13).
    fn is_hopeless(&self, signature: &Signature, round: &Round, local: &LocalPart) -> bool {
        let Some(Err(failure)) = &round.verdict else { return false };
        let goes_up = self.config.capabilities.has(signature.operation.upcall());
        let is_told = match round.host {
            HostSide::Asked(_) => false,
            HostSide::Done => true,
            HostSide::NotAsked if failure.status == Status::ERR_PROC_TERM_WO_SYNC => !goes_up,
            HostSide::NotAsked => !goes_up || !local.remote,
        };
        local.unregistered && is_told && !self.awaits_counted(round, local)
    }

    /// Gives the verdict to all who wait for it.
    fn settle(&mut self, round: &mut Round, out: &mut Out) {
        let Some(verdict) = &round.verdict else { return };
        if let Some(at) = round.deadline.take() {
            self.timers.clear(Some(at), Timer::Round(round.id));
        }
        for to in round.waiting.drain(..) {
            let result = verdict.clone().map(|outcome| self.reply_of(outcome, to.conn));
            self.reply(to, result, out);
        }
    }

    /// What one participant is told.
    fn reply_of(&self, outcome: Outcome, conn: ConnId) -> Reply {
        match outcome {
            Outcome::Fenced(modex) => Reply::Fence(modex),
            Outcome::Connected(assembled) => {
                let caller = self.conns.get(&conn).map(|held| &held.proc);
                caller.map_or(Reply::Done, |caller| Reply::Connect(assembled.reply_to(caller)))
            }
            Outcome::Disconnected => Reply::Done,
        }
    }

    fn ask_host(
        &mut self,
        signature: &Signature,
        round: &Round,
        others_remain: bool,
        out: &mut Out,
    ) -> UpcallId {
        let data = match &round.verdict {
            None if round.collect => blob::encode_modex(&self.collected(round, Viewer::OtherNode)),
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
                UpcallRequest::Disconnect(DisconnectRequest::new(procs, None).with_directives(directives))
            }
        };
        self.upcall(UpcallPurpose::Collective(round.id), self.self_caller(), request, out)
    }

    fn any_alive(&self, procs: &BTreeMap<Nspace, RankSet>) -> bool {
        procs
            .iter()
            .any(|(nspace, ranks)| self.jobs.get(nspace).is_some_and(|job| !ranks.is_subset(&job.departed)))
    }

    fn nodes_of(&self, signature: &Signature) -> Vec<String> {
        let mut nodes = std::collections::BTreeSet::from([self.config.hostname.clone()]);
        for (nspace, named) in &signature.procs {
            let Some(data) = self.jobs.get(nspace).map(|job| &job.data) else { continue };
            let (Some(map), Some(placement)) = (data.node_map(), data.placement()) else { continue };
            let ranks = if named.all { placement.all_ranks() } else { named.ranks.clone() };
            nodes.extend(placement.nodes_of(&ranks).iter().filter_map(|node| map.get(node as usize)));
        }
        nodes.into_iter().collect()
    }

    /// What the participants that have entered have committed.
    fn collected(&self, round: &Round, viewer: Viewer) -> Modex {
        let mut procs = Vec::new();
        for (nspace, ranks) in &round.entered {
            let Some(job) = self.jobs.get(nspace) else { continue };
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
    fn local_outcome(&mut self, signature: &Signature, round: &Round) -> Result<Outcome, Failure> {
        Ok(match signature.operation {
            Operation::Fence => self.fenced(round, Vec::new()),
            Operation::Connect(_) => self.connected(signature, round.terms, Default::default())?,
            Operation::Disconnect(_) => self.disconnected(signature),
        })
    }

    fn fenced(&mut self, round: &Round, remote: Vec<ProcData>) -> Outcome {
        self.stats.fences += 1;
        let mut modex =
            if round.collect { self.collected(round, Viewer::SameNode) } else { Modex::default() };
        modex.procs.extend(remote);
        Outcome::Fenced(Arc::new(modex))
    }

    /// The host has carried the operation out, or says why not.
    pub(super) fn on_collective_answer(&mut self, id: u64, result: Result<Answer, Failure>, out: &mut Out) {
        let Some(signature) = self.collectives.rounds.get(&id).cloned() else { return };
        let Some(queue) = self.collectives.queues.get_mut(&signature) else { return };
        let Some(position) = queue.iter().position(|round| round.id == id) else { return };
        let mut round = queue.remove(position);
        round.host = HostSide::Done;
        let outcome = self.host_outcome(&signature, &round, result, out);
        round.verdict.get_or_insert(outcome);
        self.collectives.queues.entry(signature.clone()).or_default().insert(position, round);
        self.drive(&signature, out);
    }

    fn host_outcome(
        &mut self,
        signature: &Signature,
        round: &Round,
        result: Result<Answer, Failure>,
        out: &mut Out,
    ) -> Result<Outcome, Failure> {
        match (&signature.operation, result?) {
            (Operation::Fence, Answer::Blob(blob)) => {
                let remote = self.file_fenced(blob, out)?;
                Ok(self.fenced(round, remote))
            }
            (Operation::Connect(_), Answer::Connected(connected)) => {
                self.adopt_jobs(&connected.data, out)?;
                self.connected(signature, round.terms, connected)
            }
            (Operation::Disconnect(_), Answer::Done) => Ok(self.disconnected(signature)),
            (operation, other) => {
                let message = format!("the host answered a {} with {other:?}", operation.name());
                Err(Failure::new(Status::ERROR, message))
            }
        }
    }

    /// Files what other nodes have sent; returns it.
    fn file_fenced(&mut self, blob: bytes::Bytes, out: &mut Out) -> Result<Vec<ProcData>, Failure> {
        let modex = blob::decode_modex(blob)?;
        let mut remote = Vec::new();
        for data in modex.procs {
            // this node's own part comes back with the rest
            if self.jobs.get(&data.proc.nspace).is_some_and(|job| job.is_local(data.proc.rank)) {
                continue;
            }
            self.file_remote(&data, out);
            remote.push(data);
        }
        Ok(remote)
    }

    pub(super) fn on_round_timeout(&mut self, id: u64, out: &mut Out) {
        let Some(signature) = self.collectives.rounds.get(&id).cloned() else { return };
        let local = self.local_part(&signature);
        let Some(mut queue) = self.collectives.queues.remove(&signature) else { return };
        if let Some(round) = queue.iter_mut().find(|round| round.id == id && round.verdict.is_none()) {
            let (awaited, _) = self.missing(round, &local);
            round.deadline = None;
            round.verdict = Some(Err(timeout_failure(
                &signature.operation,
                &awaited,
                local.remote,
                &self.config.hostname,
            )));
            if let HostSide::Asked(upcall) = round.host {
                self.cancel_upcall(upcall, out);
                round.host = HostSide::Done;
            }
        }
        self.collectives.queues.insert(signature.clone(), queue);
        self.drive(&signature, out);
    }

    pub(super) fn fail_collectives_of(&mut self, nspace: &Nspace, failure: &Failure, out: &mut Out) {
        for signature in self.collectives.of_nspace(nspace) {
            for mut round in self.collectives.queues.remove(&signature).into_iter().flatten() {
                if let HostSide::Asked(upcall) = round.host {
                    self.cancel_upcall(upcall, out);
                }
                round.verdict.get_or_insert_with(|| Err(failure.clone()));
                self.settle(&mut round, out);
                self.collectives.rounds.remove(&round.id);
            }
        }
    }

    /// Names the participants that cannot enter any more, with what is known of their end.
    fn departed_failure(&self, operation: &Operation, departed: &BTreeMap<Nspace, RankSet>) -> Failure {
        let procs = named(departed);
        let why =
            procs.first().and_then(|proc| self.client(proc)).and_then(|client| client.departed.as_deref());
        let message = format!(
            "{} on {} will not enter the {}: {}",
            listed(departed),
            self.config.hostname,
            operation.name(),
            why.unwrap_or("it has ended")
        );
        Failure::new(Status::ERR_PROC_TERM_WO_SYNC, message).with_procs(procs)
    }
}

fn timeout_failure(
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
