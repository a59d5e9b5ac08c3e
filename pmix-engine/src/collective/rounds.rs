//! The table of all collectives that are under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::{Failure, GroupReply, Modex};
use pmix_types::{Directives, Nspace, ProcId};

use super::shares::Shares;
use super::signature::{Operation, Signature};
use crate::connected::{self, Introduction, SetId};
use crate::group::{Constructing, GroupTerms};
use crate::ids::{ConnId, Counter, ReplyTo, UpcallId};
use crate::participants::{Members, Ranks, is_in};

/// Rounds by their participants and the order in which they have begun.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    queues: BTreeMap<Signature, Vec<Round>>,
    /// To which queue a round belongs.
    signatures: BTreeMap<u64, Signature>,
    next: Counter,
    /// What each process has opened and brought. A round may stay long after it has failed, until those have come who
    /// mean it.
    pub(super) shares: Shares,
}

/// One operation from its first entry to the last answer.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) id: u64,
    pub(super) entered: Ranks,
    pub(super) waiting: Vec<ReplyTo>,
    pub(super) directives: Directives,
    pub(super) collect: bool,
    pub(super) terms: Terms,
    /// Of the construction of a group.
    pub(super) group: Constructing,
    /// Nobody is awaited here any more; who comes later means the next round.
    pub(super) complete: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) verdict: Option<Result<Outcome, Failure>>,
    pub(super) host: HostSide,
    /// What processes have brought; the first has opened it.
    pub(super) brought: Vec<(ProcId, usize)>,
}

/// What the participants on this node have asked for; what one of them asks for holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// Who has ended is not waited for (CON-12, GRP-06).
    pub(super) optional: bool,
    /// What a connect or a disconnect is to be like.
    pub(super) set: connected::Terms,
    /// What a group is to be like.
    pub(super) group: GroupTerms,
}

/// What a collective has come to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Fenced(Arc<Modex>),
    Connected(Arc<Introduction>),
    Constructed(Arc<GroupReply>),
    /// A connected set or a group is no more.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostSide {
    NotAsked,
    Asked(UpcallId),
    /// It has answered, or need not be asked.
    Done,
}

impl Terms {
    pub(super) const fn join(&mut self, other: Self) {
        self.optional |= other.optional;
        self.set.join(other.set);
        self.group.join(other.group);
    }
}

impl Round {
    fn new(id: u64) -> Self {
        Self {
            id,
            entered: Ranks::new(),
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
    pub(super) fn is_here_alone(&self) -> bool {
        self.verdict.is_none() && self.host == HostSide::NotAsked
    }

    /// It is decided, and the host need not be awaited.
    pub(super) fn is_over(&self) -> bool {
        self.verdict.is_some() && self.host == HostSide::Done
    }

    /// Whether it goes on without those who have ended (CON-12, GRP-06). Who has ended is not connected any more,
    /// whatever the others do.
    pub(super) const fn is_lenient(&self, operation: &Operation) -> bool {
        self.terms.optional || matches!(operation, Operation::Disconnect(_))
    }
}

impl Rounds {
    /// Entered and not answered yet.
    pub(super) fn waiting(&self) -> usize {
        self.queues.values().flatten().map(|round| round.waiting.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.signatures.is_empty() && self.shares.is_empty()
    }

    /// The rounds of these participants, the earliest first.
    pub(super) fn queue(&self, signature: &Signature) -> &[Round] {
        self.queues.get(signature).map_or(&[], Vec::as_slice)
    }

    /// A round of these participants by its place in the queue; the next place is that of a new one.
    pub(super) fn at(&mut self, signature: &Signature, place: usize) -> &mut Round {
        let queue = self.queues.entry(signature.clone()).or_default();
        if place >= queue.len() {
            let id = self.next.next();
            self.signatures.insert(id, signature.clone());
            queue.push(Round::new(id));
        }
        let last = queue.len() - 1;
        &mut queue[place.min(last)]
    }

    pub(super) fn signature(&self, id: u64) -> Option<&Signature> {
        self.signatures.get(&id)
    }

    /// A round by its number.
    pub(super) fn by_id(&mut self, id: u64) -> Option<(&Signature, &mut Round)> {
        let signature = self.signatures.get(&id)?;
        let round = self.queues.get_mut(signature)?.iter_mut().find(|round| round.id == id)?;
        Some((signature, round))
    }

    /// Rounds of these participants that may still be changed.
    pub(super) fn here_alone(&mut self, signature: &Signature) -> impl Iterator<Item = &mut Round> {
        let rounds = self.queues.get_mut(signature).into_iter().flatten();
        rounds.filter(|round| round.is_here_alone())
    }

    /// Works on the rounds of these participants, in their order, and drops those that are not to be kept; whether there
    /// were any.
    pub(super) fn retain(&mut self, signature: &Signature, mut keep: impl FnMut(&mut Round) -> bool) -> bool {
        let Some(queue) = self.queues.get_mut(signature) else { return false };
        let before = queue.len();
        queue.retain_mut(|round| {
            let is_kept = keep(round);
            if !is_kept {
                self.signatures.remove(&round.id);
                self.shares.remove(&round.brought);
            }
            is_kept
        });
        let has_ended = queue.len() < before;
        if queue.is_empty() {
            self.queues.remove(signature);
        }
        has_ended
    }

    /// The answer has nowhere to go any more; what was contributed stays (FEN-14).
    pub(super) fn forget(&mut self, conn: ConnId) {
        for round in self.queues.values_mut().flatten() {
            round.waiting.retain(|to| to.conn != conn);
        }
    }

    /// Whether a process is in such an operation that is not decided yet.
    pub(super) fn awaits(&self, signature: &Signature, proc: &ProcId) -> bool {
        self.queue(signature).iter().any(|round| round.verdict.is_none() && is_in(&round.entered, proc))
    }

    /// Operations like this that have begun and not ended, whoever takes part.
    pub(super) fn like(&self, operation: Operation) -> impl Iterator<Item = &Signature> {
        let (procs, sets) = (Members::new(), Members::new());
        let first = Signature { operation: operation.clone(), procs, sets };
        let later = self.queues.range(first..).map(|(signature, _)| signature);
        later.take_while(move |signature| signature.operation == operation)
    }

    /// Whether it is not decided yet what becomes of one of the operations of these participants.
    pub(super) fn is_open(&self, signature: &Signature) -> bool {
        self.queue(signature).iter().any(|round| round.verdict.is_none())
    }

    /// Whether it is not decided yet what becomes of one of these operations, and the host does not know of it.
    pub(super) fn is_here_alone(&self, signature: &Signature) -> bool {
        self.queue(signature).iter().any(Round::is_here_alone)
    }

    /// Whether an operation of these participants has begun and not ended.
    pub(super) fn is_under_way(&self, signature: &Signature) -> bool {
        self.queues.contains_key(signature)
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
        let is_construct = |signature: &Signature| matches!(signature.operation, Operation::Construct(_));
        let all = self.queues.iter().filter(|(signature, _)| is_construct(signature));
        all.fold((0, 0), |(all, own), (_, queue)| {
            (all + 1, own + usize::from(queue.iter().any(|round| is_in(&round.entered, proc))))
        })
    }

    /// Sets of which it is not decided yet whether they are connected, or connected again.
    pub(super) fn connecting(&self) -> BTreeSet<SetId> {
        let is_connect = |signature: &&Signature| matches!(signature.operation, Operation::Connect(_));
        let connects = self.queues.keys().filter(is_connect);
        connects.filter(|signature| self.is_open(signature)).filter_map(Signature::set_id).collect()
    }

    pub(super) fn of_nspace(&self, nspace: &Nspace) -> Vec<Signature> {
        self.queues.keys().filter(|signature| signature.procs.contains_key(nspace)).cloned().collect()
    }
}
