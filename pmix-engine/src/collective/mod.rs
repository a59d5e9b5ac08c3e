//! Collectives: which processes are expected, which have entered, and the one result for all participants.
//!
//! One machine runs the rounds of fences, connects, disconnects, and of the construction and destruction of groups. It
//! is built on [`crate::connected`] and [`crate::group`], which know for which processes a round does not wait, and
//! what its end changes. [`crate::invite`] is built on this machine: whoever has accepted an invitation enters a
//! construct.

mod absence;
mod clones;
mod entry;
mod filing;
mod grouping;
mod groups;
mod lower;
mod members;
mod others;
mod outcome;
mod rounds;
mod shares;
mod timeouts;
mod waits;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Reply, Request};
use pmix_types::trace::TraceContext;
use pmix_types::{DataType, Directives, Info, Key, Memory, Nspace, ProcId, Status, keys};

#[cfg(test)]
pub(crate) use absence::MAX_ABSENCES;
pub(crate) use entry::{Entry, Operation};
pub(crate) use filing::{Filing, HostOutcome};
pub(crate) use lower::Lower;
#[cfg(test)]
pub(crate) use others::{MAX_FETCHES, MAX_SENT};

use absence::Absences;
use entry::Signature;
use members::{LocalPart, any_alive, are_awaited, is_for_host};
use others::Sent;
use outcome::{ask_host, conclude, departed_failure, local_outcome, reply_of};
use rounds::{HostSide, Round, Rounds, Terms};
use shares::Sharer;

use crate::connected::{Entered, SetTerms};
use crate::connections::Kind;
use crate::context::Context;
use crate::group::{GroupTerms, Invited, spelled_out};
use crate::ids::{CallId, ConnId};
use crate::jobs::known_local;
use crate::participants::{is_in, procs_of};
use crate::timers::{Timer, deadline};
use crate::{Asked, not_supported};

/// Rounds of one set of participants that can be open at a time.
const MAX_ROUNDS: usize = 1024;

/// Removed from the Standard, still accepted and passed on (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

#[derive(Debug, Default)]
pub(crate) struct Collectives {
    rounds: Rounds,
    sent: Sent,
    /// Operations that other nodes wait for.
    absences: Absences,
}

/// An entry that has been checked.
#[derive(Debug)]
struct Checked {
    signature: Signature,
    terms: Terms,
    directives: Directives,
    collect: bool,
    has: u64,
    trace: Option<TraceContext>,
    /// All clones of the caller enter.
    all_clones: bool,
    until: Option<Instant>,
    /// Of the construction of a group: the members as the caller has ordered them.
    order: Option<Vec<ProcId>>,
    invited: Option<Invited>,
    leaders: Vec<ProcId>,
    /// Why the construct of a group fails as soon as the caller enters it: it cannot be a member, and the others, who know
    /// that it has accepted, would wait for it.
    refused: Option<Failure>,
}

impl Collectives {
    /// Entered and not answered yet.
    pub(crate) fn waiting(&self) -> usize {
        self.rounds.waiting()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.absences.is_empty()
    }

    /// A process enters a collective, which then advances as far as it can.
    pub(crate) fn enter(&mut self, asked: &Asked, entry: Entry, lower: &mut Lower<'_>, cx: &mut Context) {
        let entered = self.check(asked, entry, lower, cx).and_then(|mut checked| {
            let refused = checked.refused.take();
            let (signature, place) = self.join(asked, checked, lower, cx)?;
            Ok((signature, place, refused))
        });
        match entered {
            // most entries change nothing, and rounds and sets need not be compared to see that
            Ok((signature, place, None)) if self.only_awaits(&signature, place, lower, cx) => {}
            Ok((signature, _, None)) => self.drive(&signature, lower, cx),
            Ok((signature, _, Some(failure))) => self.fail(&signature, &failure, lower, cx),
            Err(failure) => cx.reply(asked.to, Err(failure)),
        }
    }

    /// Finds out which operation is meant, whether the caller may enter it, and what it asks for.
    fn check(
        &self,
        asked: &Asked,
        entry: Entry,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<Checked, Failure> {
        let caller = &asked.by.proc;
        let Entry { operation, procs, mut directives, has, trace, invited, until, leaders } = entry;
        let order = matches!(operation, Operation::Construct(_)).then(|| procs.clone());
        let mut signature = Signature::new(operation, &asked.by, procs, lower.sets, cx)?;
        let (mut terms, mut refused) = (Terms::default(), None);
        match &signature.operation {
            Operation::Fence => {}
            Operation::Connect(_) | Operation::Disconnect(_) => {
                terms.set = SetTerms::take(&mut directives)?;
                terms.optional = terms.set.optional;
            }
            Operation::Construct(id) => {
                terms.group = GroupTerms::take(&mut directives)?;
                terms.optional = terms.group.is_lenient();
                signature.procs = spelled_out(&signature.procs, cx);
                match self.rounds.construct_of(&signature, asked, lower, cx) {
                    Ok(begun) => signature = begun.cloned().unwrap_or(signature),
                    Err(failure) if invited.is_some() => refused = Some(not_made(id, caller, &failure)),
                    Err(failure) => return Err(failure),
                }
            }
            Operation::Destruct(id) => {
                let group = self.rounds.group_of(id, caller, lower.groups)?;
                (signature, terms) = self.rounds.destruct_operation(signature, group);
            }
        }
        cx.check_partners(asked, signature.procs.keys())?;
        self.check_set(&signature, caller, terms, lower, cx)?;
        let until = deadline(asked.at, &mut directives)?.or(until);
        // the members of a group get each other's data (GRP-05)
        let mut collect = order.is_some();
        if signature.operation.is_fence() {
            collect = directives.take_flag(&keys::COLLECT_DATA)?;
            directives.take_flag(&keys::COLLECT_GENERATED_JOB_INFO)?;
        }
        // groups have no such directive
        let has_clones = order.is_none() && !matches!(signature.operation, Operation::Destruct(_));
        let all_clones = has_clones && directives.take_flag(&keys::ALL_CLONES_PARTICIPATE)?;
        // the server keeps the time itself, so the host must not (GEN-12)
        directives.remove(&keys::TIMEOUT);
        if terms.group.local_only || !directives.is_empty() {
            let local = LocalPart::of(&signature, lower.sets, lower.groups, cx);
            check_with(&local, terms, &directives, cx)?;
        }
        Ok(Checked {
            signature,
            terms,
            directives,
            collect,
            has,
            trace,
            all_clones,
            until,
            order,
            invited,
            leaders,
            refused,
        })
    }

    /// Only connected processes can disconnect, and a process that is disconnecting cannot connect again before that has
    /// ended (CON-14, CON-15).
    fn check_set(
        &self,
        signature: &Signature,
        caller: &ProcId,
        terms: Terms,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        let Some(id) = signature.set_id() else { return Ok(()) };
        match &signature.operation {
            Operation::Disconnect(_) => lower.sets.check_disconnect(&id, caller),
            _ if terms.set.exchange_only => Ok(()),
            _ => {
                let operation = Operation::Disconnect(id.0.clone());
                if self.rounds.awaits(&Signature { operation, ..signature.clone() }, caller) {
                    let message =
                        format!("connect: {caller} is in a disconnect of these processes: await its end");
                    return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
                }
                lower.sets.check_room(&id)?;
                let Some(jobs) = cx.jobs_of_sharer(cx.user_of(caller)) else { return Ok(()) };
                lower.sets.check_share(&id, &jobs, self.rounds.connects_in(&jobs, &id, lower.sets))
            }
        }
    }

    /// Enters the first round that the caller can still join, or opens a new one. Returns its place among those of these
    /// participants.
    fn join(
        &mut self,
        asked: &Asked,
        checked: Checked,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) -> Result<(Signature, usize), Failure> {
        let caller = &asked.by.proc;
        let Checked { signature, terms, directives, collect, has, trace, all_clones, .. } = checked;
        let Checked { until, order, invited, leaders, .. } = checked;
        let queue = self.rounds.queue(&signature);
        // a process that is in a round already means the next one (FEN-04)
        let open = queue.iter().position(|round| round.is_open_to(caller, asked.to.conn));
        let is_clone =
            open.is_some_and(|place| queue.get(place).is_some_and(|round| is_in(&round.entered, caller)));
        if !signature.operation.is_fence() && !is_clone && self.rounds.awaits(&signature, caller) {
            let name = signature.operation.name();
            let message = format!("{caller} is in a {name} of these processes already");
            return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
        }
        if open.is_none() && queue.len() >= MAX_ROUNDS {
            let message = format!(
                "{MAX_ROUNDS} operations of these participants are not complete yet: {}",
                signature.operation.name()
            );
            return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
        }
        let place = open.unwrap_or(queue.len());
        // a directive counts as the first participant has given it
        let known = queue.get(place).into_iter().flat_map(|round| &round.directives);
        let mut known: BTreeSet<_> = known.map(|info| info.key.clone()).collect();
        let directives: Vec<_> =
            directives.into_iter().filter(|info| known.insert(info.key.clone())).collect();
        let named = order.as_ref().map_or(0, Vec::heap);
        let opening = if open.is_none() { size_of::<Round>() + 2 * signature.memory() } else { 0 };
        let bytes = directives.iter().map(Info::memory).sum::<usize>() + named + opening;
        let sharer = match cx.client(caller) {
            Some(_) => Sharer::Proc(caller.clone()),
            None => Sharer::ToolsOf(asked.by.uid),
        };
        self.rounds.shares.check(&sharer, bytes, open.is_none())?;
        if bytes > 0 {
            self.rounds.shares.add(&sharer, bytes, open.is_none());
        }
        let round = self.rounds.at(&signature, place, asked.at);
        round.brought.extend((bytes > 0).then_some((sharer, bytes)));
        round.entered.entry(caller.nspace.clone()).or_default().insert(caller.rank);
        round.clones.enter(caller, asked.to.conn, all_clones);
        round.waiting.push(asked.to);
        if let Some(conn) = cx.conns.get_mut(&asked.to.conn) {
            conn.tally.enter(asked.at);
        }
        round.by_event.extend(invited.filter(|invited| invited.by_event).map(|_| asked.to));
        // if one participant asks for data, all get it, so that all get the same (FEN-08)
        round.collect |= collect;
        round.trace = trace.or(round.trace);
        round.had = Some(round.had.map_or(has, |had| had.min(has)));
        let asks_others = terms.set.notify_requested && !round.terms.set.notify_requested;
        round.terms.join(terms);
        if let Some(order) = order {
            round.group.enter(caller, order, terms.group, invited);
            leaders.iter().for_each(|leader| round.group.lead(leader));
        }
        round.directives.extend(directives);
        if let Some(until) = until
            && round.verdict.is_none()
            && round.deadline.is_none_or(|held| until < held)
        {
            cx.timers.clear(round.deadline, Timer::Round(round.id));
            round.deadline = Some(until);
            cx.timers.set(Some(until), Timer::Round(round.id));
        }
        if let Some(id) = signature.set_id().filter(|_| !is_clone) {
            let connects = matches!(signature.operation, Operation::Connect(_));
            let (terms, already) = (round.terms.set, &round.entered);
            let entered = Entered { connects, terms, already, asks_others };
            lower.sets.tell_of_entry(&id, caller, &entered, lower.events, cx);
        }
        Ok((signature, place))
    }

    /// Whether a round is undecided, known here alone, and awaits participants of this node for sure.
    fn only_awaits(&self, signature: &Signature, place: usize, lower: &Lower<'_>, cx: &Context) -> bool {
        self.rounds.queue(signature).get(place).is_some_and(|round| {
            round.is_here_alone() && !round.complete && are_awaited(signature, &round.entered, lower, cx)
        })
    }

    /// Continues all collectives of a namespace, after something has changed for its processes.
    pub(crate) fn drive_of(&mut self, nspace: &Nspace, lower: &mut Lower<'_>, cx: &mut Context) {
        for signature in self.rounds.of_nspace(nspace) {
            self.drive(&signature, lower, cx);
        }
        let concerns = |signature: &Signature| signature.procs.contains_key(nspace);
        self.absences.recheck(concerns, &self.rounds, lower, cx);
    }

    /// Does all that can be done now for the rounds of one signature.
    fn drive(&mut self, signature: &Signature, lower: &mut Lower<'_>, cx: &mut Context) {
        let local = LocalPart::of(signature, lower.sets, lower.groups, cx);
        let mut host_is_free = true;
        let has_ended = self.rounds.retain(signature, |round| {
            let is_done = round.advance(&local, host_is_free, &self.sent, lower, cx);
            // the host gets one operation of these participants at a time, in order (FEN-04)
            host_is_free &= round.host == HostSide::Done;
            !is_done
        });
        if has_ended {
            // all members may have ended while the host was at it
            match (&signature.operation, signature.set_id()) {
                (Operation::Connect(_), Some(id)) if !self.rounds.is_open(signature) => {
                    lower.sets.drop_if_abandoned(&id, known_local(&cx.jobs));
                }
                (Operation::Construct(id), _) => {
                    lower.groups.drop_if_abandoned(id, known_local(&cx.jobs));
                }
                _ => {}
            }
            self.absences.end(signature, cx);
        }
    }

    /// Forgets connected sets and groups that have no member left on this node.
    pub(crate) fn drop_abandoned(&self, lower: &mut Lower<'_>, cx: &Context) {
        let connecting = self.rounds.connecting();
        lower.sets.drop_abandoned(known_local(&cx.jobs), &connecting);
        lower.groups.drop_abandoned(known_local(&cx.jobs));
    }

    /// What the host carries out for a round, if the round still exists.
    pub(crate) fn signature(&self, round: u64) -> Option<&Signature> {
        self.rounds.signature(round)
    }

    /// The host has carried the operation out, or reports why it could not.
    pub(crate) fn on_host_outcome(
        &mut self,
        id: u64,
        result: Result<HostOutcome, Failure>,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let is_group = match &result {
            Ok(HostOutcome::Connected(connected)) => {
                connected.nspace.as_ref().is_some_and(|nspace| self.is_group(nspace, lower.groups))
            }
            _ => false,
        };
        let Some((signature, round)) = self.rounds.by_id(id) else { return };
        let signature = signature.clone();
        let local = LocalPart::of(&signature, lower.sets, lower.groups, cx);
        round.host = HostSide::Done;
        if let (Ok(HostOutcome::Fenced(_)), Some(generation)) = (&result, round.sent) {
            self.sent.note(&signature, generation);
        }
        let outcome = result.and_then(|host| conclude(&local, round, host, is_group, lower, cx));
        round.verdict.get_or_insert(outcome);
        self.drive(&signature, lower, cx);
    }

    /// Fails the rounds of these participants that the host does not know of.
    fn fail(&mut self, signature: &Signature, failure: &Failure, lower: &mut Lower<'_>, cx: &mut Context) {
        for round in self.rounds.here_alone(signature) {
            round.verdict = Some(Err(failure.clone()));
        }
        self.drive(signature, lower, cx);
    }

    /// A connection is gone, and with it the participants that awaited an answer on it.
    pub(crate) fn conn_gone(&mut self, conn: ConnId) {
        self.rounds.forget(conn);
    }

    /// A tool is gone and does not come again: those of its fences end that nobody who is still here has entered, unless they have failed
    /// and a process of a job is to hear of that.
    pub(crate) fn tool_gone(&mut self, tool: &ProcId, cx: &mut Context) {
        let entered = self.rounds.of_nspace(&tool.nspace);
        if entered.is_empty() {
            return;
        }
        let failure = &Failure::new(Status::ERR_LOST_CONNECTION, format!("{tool} has left"));
        let tools = cx.conns.values().filter(|held| held.kind == Kind::Tool);
        let tools: BTreeSet<ProcId> = tools.map(|held| held.proc.clone()).collect();
        for signature in entered {
            if !signature.operation.is_fence() {
                continue;
            }
            let is_for_jobs = signature.procs.keys().any(|nspace| cx.jobs.contains_key(nspace));
            let has_ended = self.rounds.retain(&signature, |round| {
                let is_kept = matches!(round.host, HostSide::Asked(_))
                    || is_for_jobs && round.verdict.is_some()
                    || any_alive(&round.entered, cx)
                    || procs_of(&round.entered).any(|proc| tools.contains(&proc));
                if !is_kept {
                    round.cancel(cx);
                    round.verdict.get_or_insert_with(|| Err(failure.clone()));
                    round.settle(&signature.operation, cx);
                }
                is_kept
            });
            if has_ended {
                self.absences.end(&signature, cx);
            }
        }
    }

    /// A namespace is gone: collectives of its processes fail.
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace, why: &str, cx: &mut Context) {
        let failure = &Failure::new(Status::ERR_INVALID_NAMESPACE, why);
        for signature in self.rounds.of_nspace(nspace) {
            self.rounds.retain(&signature, |round| {
                round.cancel(cx);
                round.verdict.get_or_insert_with(|| Err(failure.clone()));
                round.settle(&signature.operation, cx);
                false
            });
        }
        self.sent.forget(nspace);
        self.absences.fail_of(nspace, failure, cx);
    }

    /// The host asks whether processes on this node can still enter an operation that another node waits for.
    pub(crate) fn on_absence(
        &mut self,
        call: CallId,
        request: Request,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        self.absences.on_call(call, request, &self.rounds, lower, cx);
    }

    pub(crate) fn forget_absence(&mut self, call: CallId) {
        self.absences.forget(call);
    }
}

/// A process that has accepted its invitation cannot be a member.
fn not_made(id: &Nspace, proc: &ProcId, why: &Failure) -> Failure {
    let message = format!("group {id} is not made, as {proc} cannot be a member: {}", why.message);
    Failure::new(Status::GROUP_CONSTRUCT_ABORT, message).with_procs(vec![proc.clone()])
}

/// Checks whether the directives would let a process enter the construct of a group to which it invites others or is invited.
pub(crate) fn check_invited(
    id: &Nspace,
    members: &[ProcId],
    asked: &Asked,
    mut directives: Directives,
    lower: &Lower<'_>,
    cx: &Context,
) -> Result<(), Failure> {
    let terms = Terms { group: GroupTerms::take(&mut directives)?, ..Terms::default() };
    directives.remove(&keys::TIMEOUT);
    if !terms.group.local_only && directives.is_empty() {
        return Ok(());
    }
    let operation = Operation::Construct(id.clone());
    let mut signature = Signature::new(operation, &asked.by, members.to_vec(), lower.sets, cx)?;
    signature.procs = spelled_out(&signature.procs, cx);
    let local = LocalPart::of(&signature, lower.sets, lower.groups, cx);
    check_with(&local, terms, &directives, cx)
}

/// Checks what an entry requests against where the participants are.
fn check_with(
    local: &LocalPart<'_>,
    terms: Terms,
    directives: &Directives,
    cx: &Context,
) -> Result<(), Failure> {
    if terms.group.local_only && local.remote {
        let message = "a group of processes of this node alone cannot have members on others";
        return Err(Failure::new(Status::ERR_BAD_PARAM, message));
    }
    if !is_for_host(local, terms, cx) && !local.may_grow() {
        // no host carries this operation out: the directives must be known here
        if directives.flag(&COLLECTIVE_ALGO_REQD)? {
            let message = "the required collective algorithm is not known here";
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        directives.deny_unprocessed()?;
    }
    Ok(())
}

impl Round {
    /// Does what can be done now. Returns whether the round has ended.
    fn advance(
        &mut self,
        local: &LocalPart<'_>,
        host_is_free: bool,
        sent: &Sent,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) -> bool {
        let operation = &local.signature.operation;
        let asks = is_for_host(local, self.terms, cx);
        // the other nodes must hear of it even if it has failed
        let host = asks && local.remote;
        let entered = self.clones.complete(&self.entered, cx);
        let missing = local.missing(&entered, cx);
        if self.verdict.is_none()
            && self.terms.group.tells_of_absent()
            && let Operation::Construct(id) = operation
        {
            self.group.tell_of_absent(id, &local.signature.procs, &missing.departed, lower.events, cx);
        }
        self.complete |= missing.awaited.is_empty() && !local.awaits_unnamed(&entered, cx);
        if self.is_here_alone() {
            self.verdict = if !missing.departed.is_empty() && !self.is_lenient(operation) {
                Some(Err(departed_failure(operation, &missing.departed, cx)))
            } else if self.complete && !local.remote && !asks {
                Some(local_outcome(local, self, lower, cx))
            } else if self.complete && !asks {
                Some(Err(not_supported(&format!("a {} over several nodes", operation.name()))))
            } else {
                None
            };
        }
        let has_to_ask = if self.verdict.is_some() { host } else { asks && self.complete };
        if self.host == HostSide::NotAsked {
            if has_to_ask && host_is_free {
                let others_remain = !missing.awaited.is_empty();
                let sends = self.verdict.is_none() && self.collect;
                self.sent = sends.then(|| cx.changes.last());
                let upcall = ask_host(local, self, others_remain, sent, lower, cx);
                self.host = HostSide::Asked(upcall);
            } else if !host && !local.may_grow() && self.verdict.is_some() {
                self.host = HostSide::Done;
            }
        }
        self.settle(operation, cx);
        self.is_over() && self.complete || missing.awaited.is_empty() && self.is_hopeless(local, cx)
    }

    /// Whether a fence has failed of which only processes of unregistered namespaces are awaited.
    ///
    /// It is not kept for them, as they may never come; if they do, they begin the next fence. Other servers must still
    /// hear of a death, though, as soon as all namespaces are known (FEN-13).
    fn is_hopeless(&self, local: &LocalPart<'_>, cx: &Context) -> bool {
        let Some(Err(failure)) = &self.verdict else { return false };
        let goes_up = cx.config.capabilities.has(local.signature.operation.upcall());
        let is_told = match self.host {
            HostSide::Asked(_) => false,
            HostSide::Done => true,
            HostSide::NotAsked if failure.status == Status::ERR_PROC_TERM_WO_SYNC => !goes_up,
            HostSide::NotAsked => !goes_up || !local.remote,
        };
        local.unregistered && is_told && !local.awaits_counted(&self.entered, cx)
    }

    /// Gives the verdict to all who wait for it.
    fn settle(&mut self, operation: &Operation, cx: &mut Context) {
        let Some(verdict) = &self.verdict else { return };
        // who comes late is answered by a round that was counted
        if !std::mem::replace(&mut self.is_counted, true) {
            let took = cx.now.map_or(Duration::ZERO, |now| now.saturating_duration_since(self.since));
            operation.stats(&mut cx.stats).count(verdict.is_ok(), took);
        }
        if let Some(at) = self.deadline.take() {
            cx.timers.clear(Some(at), Timer::Round(self.id));
        }
        if let Some(inquiry) = self.inquiry.take() {
            cx.cancel_upcall(inquiry.upcall);
        }
        for to in self.waiting.drain(..) {
            let now = cx.now;
            if let Some(conn) = cx.conns.get_mut(&to.conn) {
                conn.tally.leave(now);
            }
            let outcome = verdict.clone();
            let result = if self.by_event.contains(&to) {
                outcome.map(|_| Reply::Done)
            } else {
                outcome.map(|outcome| reply_of(outcome, to.conn, cx))
            };
            cx.reply(to, result);
        }
    }
}
