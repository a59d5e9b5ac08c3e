//! Operations of many: who is expected, who has entered, and the one verdict for all.

mod members;
mod outcome;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::{Failure, Fence, GroupReply, Modex};
use pmix_types::{DataType, Directives, Info, Key, Memory, Nspace, ProcId, RankSet, Status, keys};

use super::absence::Absence;
use super::assemblies::{Assemblies, SetId, Terms};
use super::assembly::{Assembled, Entered, set_id};
use super::group::Constructing;
use super::groups::Groups;
use super::ids::{Counter, ReplyTo};
use super::signature::{Members, Operation, Signature};
use super::timers::{Timer, deadline};
use super::{Asked, ConnId, Engine, UpcallId};
use members::LocalPart;
use outcome::timeout_failure;
use shares::Shares;

/// Rounds of one set of participants that can be open at a time.
const MAX_ROUNDS: usize = 1024;

/// Removed from the Standard, still accepted and passed on (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

#[derive(Debug, Default)]
pub(super) struct Collectives {
    queues: BTreeMap<Signature, Vec<Round>>,
    /// To which queue a round belongs.
    rounds: BTreeMap<u64, Signature>,
    next: Counter,
    /// What each process has opened and brought. A round may stay long after it has failed, until those have come who
    /// mean it.
    shares: Shares,
    /// Who is connected.
    pub(super) assemblies: Assemblies,
    pub(super) groups: Groups,
    /// Operations that other nodes wait for.
    pub(super) absences: Vec<Absence>,
}

/// Entry of a process into a collective.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) procs: Vec<ProcId>,
    pub(super) directives: Directives,
    /// The group is made by invitation.
    pub(super) invited: Option<Invited>,
}

/// How a process has come to enter the construct of a group by invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invited {
    /// It has invited the others.
    pub(super) leads: bool,
    /// Some who were invited have not accepted.
    pub(super) partial: bool,
    /// Until when it waits, the time for the answers included.
    pub(super) until: Option<Instant>,
}

impl Entry {
    pub(super) const fn new(operation: Operation, procs: Vec<ProcId>, directives: Directives) -> Self {
        Self { operation, procs, directives, invited: None }
    }
}

/// What a collective has come to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Fenced(Arc<Modex>),
    Connected(Arc<Assembled>),
    Constructed(Arc<GroupReply>),
    /// A connection or a group is no more.
    Ended,
}

/// One operation from its first entry to the last answer.
#[derive(Debug)]
struct Round {
    id: u64,
    entered: BTreeMap<Nspace, RankSet>,
    waiting: Vec<ReplyTo>,
    directives: Directives,
    collect: bool,
    /// What a connect, a disconnect or a group is to be like.
    terms: Terms,
    /// Of the construction of a group.
    group: Constructing,
    /// Nobody is awaited here any more; who comes later means the next round.
    complete: bool,
    deadline: Option<Instant>,
    verdict: Option<Result<Outcome, Failure>>,
    host: HostSide,
    /// What processes have brought; the first has opened it.
    brought: Vec<(ProcId, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostSide {
    NotAsked,
    Asked(UpcallId),
    /// It has answered, or need not be asked.
    Done,
}

impl Round {
    fn new(id: u64) -> Self {
        Self {
            id,
            entered: BTreeMap::new(),
            waiting: Vec::new(),
            directives: Directives::new(),
            collect: false,
            terms: Terms::default(),
            group: Constructing::default(),
            complete: false,
            deadline: None,
            verdict: None,
            host: HostSide::NotAsked,
            brought: Vec::new(),
        }
    }

    /// It is not decided, and nobody else has been asked for a decision.
    fn is_here_alone(&self) -> bool {
        self.verdict.is_none() && self.host == HostSide::NotAsked
    }

    fn has(&self, proc: &ProcId) -> bool {
        self.entered.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
    }

    /// Whether it goes on without those who have ended (CON-12, GRP-06). Who has ended is not connected any more,
    /// whatever the others do.
    const fn is_lenient(&self, operation: &Operation) -> bool {
        self.terms.optional || matches!(operation, Operation::Disconnect(_))
    }
}

impl Collectives {
    /// Entered and not answered yet.
    pub(super) fn waiting(&self) -> usize {
        self.queues.values().flatten().map(|round| round.waiting.len()).sum()
    }

    /// Whether a process is in such an operation that is not decided yet.
    pub(super) fn awaits(&self, signature: &Signature, proc: &ProcId) -> bool {
        let mut rounds = self.queues.get(signature).into_iter().flatten();
        rounds.any(|round| round.verdict.is_none() && round.has(proc))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.rounds.is_empty() && self.absences.is_empty() && self.shares.is_empty()
    }

    /// A round is no more.
    fn close(&mut self, round: &Round) {
        self.rounds.remove(&round.id);
        self.shares.remove(&round.brought);
    }

    /// The answer has nowhere to go any more; what was contributed stays (FEN-14).
    pub(super) fn forget(&mut self, conn: ConnId) {
        for round in self.queues.values_mut().flatten() {
            round.waiting.retain(|to| to.conn != conn);
        }
    }

    /// Operations like this that have begun and not ended, whoever takes part.
    pub(super) fn like(&self, operation: Operation) -> impl Iterator<Item = &Signature> {
        let (procs, groups) = (BTreeMap::new(), BTreeMap::new());
        let first = Signature { operation: operation.clone(), procs, groups };
        let later = self.queues.range(first..).map(|(signature, _)| signature);
        later.take_while(move |signature| signature.operation == operation)
    }

    /// Whether it is not decided yet what becomes of one of the operations of these participants.
    pub(super) fn is_open(&self, signature: &Signature) -> bool {
        self.queues.get(signature).is_some_and(|queue| queue.iter().any(|round| round.verdict.is_none()))
    }

    /// Whether it is not decided yet what becomes of one of these operations, and the host does not know of it.
    pub(super) fn is_asked_of_nobody(&self, signature: &Signature) -> bool {
        self.queues.get(signature).is_some_and(|queue| queue.iter().any(Round::is_here_alone))
    }

    /// The construct of these members that may still be changed.
    pub(super) fn constructing(&mut self, signature: &Signature) -> Option<&mut Constructing> {
        let mut rounds = self.queues.get_mut(signature)?.iter_mut();
        rounds.find(|round| round.is_here_alone()).map(|round| &mut round.group)
    }

    /// Takes the lead of groups that are being made from a process: their ids and who is to be a member.
    pub(super) fn unlead(&mut self, proc: &ProcId) -> Vec<(Nspace, Members)> {
        let mut led = Vec::new();
        for (signature, queue) in &mut self.queues {
            let Operation::Construct(id) = &signature.operation else { continue };
            let open = queue.iter_mut().filter(|round| round.is_here_alone());
            if open.map(|round| round.group.unlead(proc)).fold(false, |any, led| any | led) {
                led.push((id.clone(), signature.procs.clone()));
            }
        }
        led
    }

    /// Constructions of groups that have begun and not ended, and in how many of them the process waits.
    pub(super) fn constructions(&self, proc: &ProcId) -> (usize, usize) {
        let all = self
            .queues
            .iter()
            .filter(|(signature, _)| matches!(signature.operation, Operation::Construct(_)));
        all.fold((0, 0), |(all, own), (_, queue)| {
            (all + 1, own + usize::from(queue.iter().any(|round| round.has(proc))))
        })
    }

    /// Sets of which it is not decided yet whether they are connected, or connected again.
    pub(super) fn connecting(&self) -> BTreeSet<SetId> {
        let connects =
            self.queues.keys().filter(|signature| matches!(signature.operation, Operation::Connect(_)));
        connects.filter(|signature| self.is_open(signature)).filter_map(set_id).collect()
    }

    /// Whether an operation of these participants has begun and not ended.
    pub(super) fn is_under_way(&self, signature: &Signature) -> bool {
        self.queues.contains_key(signature)
    }

    fn of_nspace(&self, nspace: &Nspace) -> Vec<Signature> {
        self.queues.keys().filter(|signature| signature.procs.contains_key(nspace)).cloned().collect()
    }
}

impl Engine {
    pub(super) fn on_fence(&mut self, asked: &Asked, fence: Fence) {
        let procs = fence.procs.unwrap_or_else(|| vec![ProcId::wildcard(asked.by.proc.nspace.clone())]);
        self.on_enter(asked, Entry::new(Operation::Fence, procs, fence.directives));
    }

    /// A process enters: goes as far as that allows.
    pub(super) fn on_enter(&mut self, asked: &Asked, entry: Entry) {
        match self.enter(asked, entry) {
            Ok(signature) => self.drive(&signature),
            Err(failure) => self.cx.reply(asked.to, Err(failure)),
        }
    }

    fn enter(&mut self, asked: &Asked, entry: Entry) -> Result<Signature, Failure> {
        let caller = &asked.by.proc;
        let Entry { operation, procs, mut directives, invited } = entry;
        let order = matches!(operation, Operation::Construct(_)).then(|| procs.clone());
        let signature = Signature::new(operation, caller, procs, &self.collectives.assemblies)?;
        let (signature, terms) = if signature.operation.group().is_some() {
            self.group_operation(signature, caller, &mut directives)?
        } else if signature.operation.is_hosts() {
            (signature, Terms::take(&mut directives)?)
        } else {
            (signature, Terms::default())
        };
        self.cx.check_partners(asked, signature.procs.keys())?;
        self.check_assembly(&signature, caller, terms)?;
        let until =
            deadline(asked.at, &mut directives)?.or_else(|| invited.and_then(|invited| invited.until));
        // the members of a group get each other's data (GRP-05)
        let mut collect = order.is_some();
        if signature.operation.is_fence() {
            collect = directives.take_flag(&keys::COLLECT_DATA)?;
            directives.take_flag(&keys::COLLECT_GENERATED_JOB_INFO)?;
        }
        // the server keeps the time itself, so the host must not (GEN-12)
        directives.remove(&keys::TIMEOUT);
        let local = self.local_part(&signature);
        if terms.group.local_only && local.remote {
            let message = "a group of processes of this node alone cannot have members on others";
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if !self.is_for_host(&signature, &local, terms) && !local.unknown && !local.unregistered {
            // nobody is above this server for this operation
            if directives.flag(&COLLECTIVE_ALGO_REQD)? {
                return Err(Failure::new(
                    Status::ERR_NOT_SUPPORTED,
                    "the required collective algorithm is not known here",
                ));
            }
            directives.deny_unprocessed()?;
        }

        if !signature.operation.is_fence() && self.collectives.awaits(&signature, caller) {
            let name = signature.operation.name();
            let message = format!("{caller} is in a {name} of these processes already");
            return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
        }
        // a process that is in a round already means the next one (FEN-04)
        let queue = self.collectives.queues.get(&signature).map_or(&[][..], Vec::as_slice);
        let open = queue.iter().position(|round| !round.complete && !round.has(caller));
        if open.is_none() && queue.len() >= MAX_ROUNDS {
            let message = format!(
                "{MAX_ROUNDS} operations of these participants are not complete yet: {}",
                signature.operation.name()
            );
            return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
        }
        let position = open.unwrap_or(queue.len());
        // of each directive the first counts
        let known =
            open.and_then(|position| queue.get(position)).into_iter().flat_map(|round| &round.directives);
        let mut known: BTreeSet<_> = known.map(|info| info.key.clone()).collect();
        let directives: Vec<_> =
            directives.into_iter().filter(|info| known.insert(info.key.clone())).collect();
        let named = order.as_ref().map_or(0, Vec::heap);
        let opening = if open.is_none() { size_of::<Round>() + 2 * signature.memory() } else { 0 };
        let bytes = directives.iter().map(Info::memory).sum::<usize>() + named + opening;
        self.collectives.shares.check(caller, bytes, open.is_none())?;
        if open.is_none() {
            let id = self.collectives.next.next();
            self.collectives.rounds.insert(id, signature.clone());
            self.collectives.queues.entry(signature.clone()).or_default().push(Round::new(id));
        }
        if bytes > 0 {
            self.collectives.shares.add(caller, bytes, open.is_none());
        }
        let queue = self.collectives.queues.entry(signature.clone()).or_default();
        let round = &mut queue[position];
        round.brought.extend((bytes > 0).then(|| (caller.clone(), bytes)));
        round.entered.entry(caller.nspace.clone()).or_default().insert(caller.rank);
        round.waiting.push(asked.to);
        // data moves for all if anyone asks for it, so that all get the same (FEN-08)
        round.collect |= collect;
        let asks_others = terms.notify_requested && !round.terms.notify_requested;
        round.terms.join(terms);
        if let Some(order) = order {
            round.group.enter(caller, order, terms.group, invited);
        }
        round.directives.extend(directives);
        if let Some(until) = until
            && round.verdict.is_none()
            && round.deadline.is_none_or(|held| until < held)
        {
            self.cx.timers.clear(round.deadline, Timer::Round(round.id));
            round.deadline = Some(until);
            self.cx.timers.set(Some(until), Timer::Round(round.id));
        }
        if signature.operation.is_hosts() {
            let entered = Entered { terms: round.terms, already: round.entered.clone(), asks_others };
            self.tell_of_entry(&signature, caller, &entered);
        }
        Ok(signature)
    }

    pub(super) fn drive_collectives_of(&mut self, nspace: &Nspace) {
        for signature in self.collectives.of_nspace(nspace) {
            self.drive(&signature);
        }
        self.recheck_absences(|signature| signature.procs.contains_key(nspace));
    }

    /// Does all that can be done now for the operations of one signature.
    fn drive(&mut self, signature: &Signature) {
        let Some(mut queue) = self.collectives.queues.remove(signature) else { return };
        let local = self.local_part(signature);
        let (mut host_is_free, rounds) = (true, queue.len());
        queue.retain_mut(|round| {
            let asks = self.is_for_host(signature, &local, round.terms);
            // other nodes must hear of it even if it has failed
            let host = asks && local.remote;
            let (awaited, departed) = self.missing(&round.entered, &local);
            if round.verdict.is_none() && round.terms.group.tells_of_absent() {
                self.tell_of_absent(signature, &mut round.group, &departed);
            }
            let all_in = awaited.is_empty() && !self.awaits_unnamed(&round.entered, &local);
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
                round.host = HostSide::Asked(self.ask_host(signature, round, !awaited.is_empty()));
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
            self.settle(round);
            let done = round.verdict.is_some() && round.host == HostSide::Done && round.complete;
            let done = done || awaited.is_empty() && self.is_hopeless(signature, round, &local);
            if done {
                self.collectives.close(round);
            }
            !done
        });
        let has_ended = queue.len() < rounds;
        if !queue.is_empty() {
            self.collectives.queues.insert(signature.clone(), queue);
        }
        if has_ended {
            // all of its members may have ended while it was connecting
            if matches!(signature.operation, Operation::Connect(_)) {
                self.drop_abandoned();
            }
            self.end_absences(signature);
        }
    }

    /// Whether a fence has failed of which only processes of unregistered namespaces are awaited.
    ///
    /// It is not kept for them, as they may never come: if they do, they begin the next fence. Other servers must
    /// still hear of a death, though, as soon as all namespaces are known (FEN-13).
    fn is_hopeless(&self, signature: &Signature, round: &Round, local: &LocalPart) -> bool {
        let Some(Err(failure)) = &round.verdict else { return false };
        let goes_up = self.cx.config.capabilities.has(signature.operation.upcall());
        let is_told = match round.host {
            HostSide::Asked(_) => false,
            HostSide::Done => true,
            HostSide::NotAsked if failure.status == Status::ERR_PROC_TERM_WO_SYNC => !goes_up,
            HostSide::NotAsked => !goes_up || !local.remote,
        };
        local.unregistered && is_told && !self.awaits_counted(&round.entered, local)
    }

    /// Gives the verdict to all who wait for it.
    fn settle(&mut self, round: &mut Round) {
        let Some(verdict) = &round.verdict else { return };
        if let Some(at) = round.deadline.take() {
            self.cx.timers.clear(Some(at), Timer::Round(round.id));
        }
        for to in round.waiting.drain(..) {
            let result = verdict.clone().map(|outcome| self.reply_of(outcome, to.conn));
            self.cx.reply(to, result);
        }
    }

    pub(super) fn on_round_timeout(&mut self, id: u64) {
        let Some(signature) = self.collectives.rounds.get(&id).cloned() else { return };
        let local = self.local_part(&signature);
        let Some(mut queue) = self.collectives.queues.remove(&signature) else { return };
        if let Some(round) = queue.iter_mut().find(|round| round.id == id && round.verdict.is_none()) {
            let (awaited, _) = self.missing(&round.entered, &local);
            round.deadline = None;
            round.verdict = Some(Err(timeout_failure(
                &signature.operation,
                &awaited,
                local.remote,
                &self.cx.config.hostname,
            )));
            if let HostSide::Asked(upcall) = round.host {
                self.cancel_upcall(upcall);
                round.host = HostSide::Done;
            }
        }
        self.collectives.queues.insert(signature.clone(), queue);
        self.drive(&signature);
    }

    /// Ends operations of these participants that nobody else has been asked for.
    pub(super) fn fail_rounds(&mut self, signature: &Signature, failure: &Failure) {
        let rounds = self.collectives.queues.get_mut(signature).into_iter().flatten();
        for round in rounds.filter(|round| round.is_here_alone()) {
            round.verdict = Some(Err(failure.clone()));
        }
        self.drive(signature);
    }

    pub(super) fn fail_collectives_of(&mut self, nspace: &Nspace, failure: &Failure) {
        for signature in self.collectives.of_nspace(nspace) {
            for mut round in self.collectives.queues.remove(&signature).into_iter().flatten() {
                if let HostSide::Asked(upcall) = round.host {
                    self.cancel_upcall(upcall);
                }
                round.verdict.get_or_insert_with(|| Err(failure.clone()));
                self.settle(&mut round);
                self.collectives.close(&round);
            }
        }
        self.fail_absences_of(nspace, failure);
    }
}
