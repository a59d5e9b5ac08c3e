//! The table of collectives under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::message::{Failure, Fenced, GroupReply};
use pmix_types::trace::TraceContext;
use pmix_types::{Directives, Nspace, ProcId};

use super::clones::Clones;
use super::entry::{Operation, Signature};
use super::others::Lacking;
use super::shares::{Sharer, Shares};
use super::timeouts::Inquiry;
use crate::connected::{ConnectedSets, Introduction, SetId, SetTerms};
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
    /// What each process has opened and contributed. A failed round may stay for long: until all participants that it was
    /// meant for have entered it.
    pub(super) shares: Shares,
}

/// One operation from its first entry to the last answer.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) id: u64,
    /// When its first participant entered.
    pub(super) since: Instant,
    pub(super) entered: Ranks,
    pub(super) clones: Clones,
    pub(super) waiting: Vec<ReplyTo>,
    /// Those of them that have entered by an event, which is answered without what came of it.
    pub(super) by_event: Vec<ReplyTo>,
    pub(super) directives: Directives,
    pub(super) collect: bool,
    /// The generation up to which all who have entered have what was collected before.
    pub(super) had: Option<u64>,
    /// The span of the participant that has entered last, of those that are traced: the host is asked because of it.
    pub(super) trace: Option<TraceContext>,
    pub(super) terms: Terms,
    /// Of the construction of a group.
    pub(super) group: Constructing,
    /// All participants of this node have entered; a process that comes later enters the next round.
    pub(super) complete: bool,
    /// When its time is over, or then that of its inquiry.
    pub(super) deadline: Option<Instant>,
    /// Its time is over, and other nodes are asked who is missing there.
    pub(super) inquiry: Option<Inquiry>,
    pub(super) verdict: Option<Result<Outcome, Failure>>,
    /// It is in the statistics.
    pub(super) is_counted: bool,
    pub(super) host: HostSide,
    /// Up to which generation the host was given what those who have entered have put.
    pub(super) sent: Option<u64>,
    /// What the host's answer builds on and is not here.
    pub(super) lacking: Option<Lacking>,
    /// How many bytes processes have contributed; the first of them has opened the round.
    pub(super) brought: Vec<(Sharer, usize)>,
}

/// What the participants on this node have asked for; what one of them asks for holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// Processes that have ended are not waited for (CON-12, GRP-06).
    pub(super) optional: bool,
    /// What a connect or a disconnect is to be like.
    pub(super) set: SetTerms,
    /// What a group is to be like.
    pub(super) group: GroupTerms,
}

/// What a collective has come to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Fenced(Fenced),
    Connected(Arc<Introduction>),
    Constructed(Arc<GroupReply>),
    /// A connected set or a group has ended.
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
    fn new(id: u64, since: Instant) -> Self {
        Self {
            id,
            since,
            entered: Ranks::new(),
            clones: Clones::default(),
            waiting: Vec::new(),
            by_event: Vec::new(),
            directives: Directives::new(),
            collect: false,
            had: None,
            trace: None,
            terms: Terms::default(),
            group: Constructing::default(),
            complete: false,
            deadline: None,
            inquiry: None,
            verdict: None,
            is_counted: false,
            host: HostSide::NotAsked,
            sent: None,
            lacking: None,
            brought: Vec::new(),
        }
    }

    /// Whether a process can still enter it: of one that is in it already, a clone that is waited for.
    pub(super) fn is_open_to(&self, proc: &ProcId, conn: ConnId) -> bool {
        !self.complete && (!is_in(&self.entered, proc) || self.clones.has_room_for(proc, conn))
    }

    /// It is not decided, and the host does not know of it.
    pub(super) fn is_here_alone(&self) -> bool {
        self.verdict.is_none() && self.host == HostSide::NotAsked
    }

    /// It is decided, and nothing is expected from the host.
    pub(super) fn is_over(&self) -> bool {
        self.verdict.is_some() && self.host == HostSide::Done
    }

    /// Whether it goes on without processes that have ended (CON-12, GRP-06). These are not connected any more, whatever
    /// the others do.
    pub(super) const fn is_lenient(&self, operation: &Operation) -> bool {
        self.terms.optional || matches!(operation, Operation::Disconnect(_))
    }
}

impl Rounds {
    /// Participants that have entered and are not answered yet.
    pub(super) fn waiting(&self) -> usize {
        self.queues.values().flatten().map(|round| round.waiting.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.signatures.is_empty() && self.shares.is_empty()
    }

    /// All rounds.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Signature, &Round)> {
        self.queues.iter().flat_map(|(signature, queue)| queue.iter().map(move |round| (signature, round)))
    }

    /// The rounds of these participants, the earliest first.
    pub(super) fn queue(&self, signature: &Signature) -> &[Round] {
        self.queues.get(signature).map_or(&[], Vec::as_slice)
    }

    /// The round of these participants at a place in their queue; the place after the last one opens a new round.
    pub(super) fn at(&mut self, signature: &Signature, place: usize, now: Instant) -> &mut Round {
        let queue = self.queues.entry(signature.clone()).or_default();
        if place >= queue.len() {
            let id = self.next.next();
            self.signatures.insert(id, signature.clone());
            queue.push(Round::new(id, now));
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

    /// Works on the rounds of these participants in order, and drops those that `keep` rejects. Returns whether it has
    /// dropped any.
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

    /// A connection is gone: it gets no answers, but what was contributed stays (FEN-14).
    pub(super) fn forget(&mut self, conn: ConnId) {
        for round in self.queues.values_mut().flatten() {
            round.waiting.retain(|to| to.conn != conn);
        }
    }

    /// Whether a process is in a round of these participants that is not decided yet.
    pub(super) fn awaits(&self, signature: &Signature, proc: &ProcId) -> bool {
        self.queue(signature).iter().any(|round| round.verdict.is_none() && is_in(&round.entered, proc))
    }

    /// All rounds of an operation that are under way, with any participants.
    pub(super) fn like(&self, operation: Operation) -> impl Iterator<Item = &Signature> {
        let (procs, sets) = (Members::new(), Members::new());
        let first = Signature { operation: operation.clone(), procs, sets };
        let later = self.queues.range(first..).map(|(signature, _)| signature);
        later.take_while(move |signature| signature.operation == operation)
    }

    /// Whether a round of these participants is not decided yet.
    pub(super) fn is_open(&self, signature: &Signature) -> bool {
        self.queue(signature).iter().any(|round| round.verdict.is_none())
    }

    /// Whether a process would begin a round of these participants that has nothing to do with those under way: they are all
    /// decided, and it has entered them or they are complete.
    pub(super) fn begins_anew(&self, signature: &Signature, proc: &ProcId, conn: ConnId) -> bool {
        let is_its = |round: &Round| round.verdict.is_none() || round.is_open_to(proc, conn);
        !self.queue(signature).iter().any(is_its)
    }

    /// Whether a round of these participants is not decided yet and not known to the host.
    pub(super) fn is_here_alone(&self, signature: &Signature) -> bool {
        self.queue(signature).iter().any(Round::is_here_alone)
    }

    /// Whether a round of these participants is under way.
    pub(super) fn is_under_way(&self, signature: &Signature) -> bool {
        self.queues.contains_key(signature)
    }

    /// A process leads no construct any more. Returns the groups that it has led, with their members.
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

    /// The number of group constructions under way, and of those that the process takes part in.
    pub(super) fn constructions(&self, proc: &ProcId) -> (usize, usize) {
        let is_construct = |signature: &Signature| matches!(signature.operation, Operation::Construct(_));
        let all = self.queues.iter().filter(|(signature, _)| is_construct(signature));
        all.fold((0, 0), |(all, own), (_, queue)| {
            (all + 1, own + usize::from(queue.iter().any(|round| is_in(&round.entered, proc))))
        })
    }

    /// The number of group constructions of these jobs under way.
    pub(super) fn constructions_in(&self, jobs: &BTreeSet<&Nspace>) -> usize {
        let is_construct = |signature: &&Signature| matches!(signature.operation, Operation::Construct(_));
        self.queues.keys().filter(is_construct).filter(|signature| signature.is_of(jobs)).count()
    }

    /// The number of sets of these jobs, other than this one, that are being connected and are not yet.
    pub(super) fn connects_in(&self, jobs: &BTreeSet<&Nspace>, but: &SetId, sets: &ConnectedSets) -> usize {
        let is_connect = |signature: &&Signature| matches!(signature.operation, Operation::Connect(_));
        let connects = self.queues.keys().filter(is_connect).filter(|signature| signature.is_of(jobs));
        connects.filter_map(Signature::set_id).filter(|id| id != but && !sets.is_known(id)).count()
    }

    /// Sets that are connecting, for the first time or again.
    pub(super) fn connecting(&self) -> BTreeSet<SetId> {
        let is_connect = |signature: &&Signature| matches!(signature.operation, Operation::Connect(_));
        let connects = self.queues.keys().filter(is_connect);
        connects.filter(|signature| self.is_open(signature)).filter_map(Signature::set_id).collect()
    }

    pub(super) fn of_nspace(&self, nspace: &Nspace) -> Vec<Signature> {
        self.queues.keys().filter(|signature| signature.procs.contains_key(nspace)).cloned().collect()
    }
}
