//! What the engine should think, told in the simplest way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_types::message::{Collected, Fenced, GetReply, Modex, Reply};
use pmix_types::{ProcId, Rank, Scope, Status, Value};

use super::super::harness::{Outcome, proc};

pub(super) const JOB: &str = "job";

/// A value that tells who put it and for whom.
pub(super) fn tagged(rank: u32, scope: Scope, key: &str, number: u64) -> Value {
    format!("{rank}/{}/{key}/{number}", scope.to_raw()).into()
}

fn tag(value: &Value) -> (u32, Scope) {
    let mut parts = value.as_str().expect("a tagged value").split('/');
    let rank = parts.next().unwrap().parse().unwrap();
    (rank, Scope::from_raw(parts.next().unwrap().parse().unwrap()))
}

#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) rank: u32,
    pub(super) key: String,
    pub(super) scope: Scope,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) struct Get {
    pub(super) rank: Rank,
    pub(super) key: String,
    /// It says at once what there is.
    pub(super) hasty: bool,
    pub(super) deadline: Option<Instant>,
}

/// One fence of one set of participants.
#[derive(Debug, Default)]
pub(super) struct Round {
    entered: BTreeSet<u32>,
    /// No local participant is awaited any more.
    complete: bool,
    deadline: Option<Instant>,
    /// A participant was gone before it entered, and before the host was called.
    broken: bool,
    verdict: Option<String>,
    pub(super) asked: bool,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) now: Instant,
    pub(super) local: u32,
    pub(super) size: u32,
    pub(super) puts: Vec<Put>,
    /// Local processes that take part in nothing any more.
    pub(super) gone: BTreeSet<u32>,
    pub(super) rounds: BTreeMap<Vec<ProcId>, Vec<Round>>,
    /// The namespace is being deregistered: everything may end.
    pub(super) ending: bool,
}

impl Model {
    pub(super) fn is_local(&self, rank: u32) -> bool {
        rank < self.local
    }

    /// Local participants of a set.
    fn expected(&self, set: &[ProcId]) -> BTreeSet<u32> {
        (0..self.local).filter(|rank| set.iter().any(|member| member.matches(&proc(JOB, *rank)))).collect()
    }

    pub(super) fn is_remote(&self, set: &[ProcId]) -> bool {
        (self.local..self.size).any(|rank| set.iter().any(|member| member.matches(&proc(JOB, rank))))
    }

    /// A process calls a fence: which round it is in.
    pub(super) fn enter(&mut self, set: &[ProcId], rank: u32, deadline: Option<Instant>) -> usize {
        let rounds = self.rounds.entry(set.to_vec()).or_default();
        let open = rounds.iter().position(|round| !round.complete && !round.entered.contains(&rank));
        let index = open.unwrap_or_else(|| {
            rounds.push(Round::default());
            rounds.len() - 1
        });
        let round = &mut rounds[index];
        round.entered.insert(rank);
        if round.verdict.is_none() {
            round.deadline = [round.deadline, deadline].into_iter().flatten().min();
        }
        index
    }

    /// Notes which rounds nobody is awaited in any more, and which cannot succeed.
    pub(super) fn review_rounds(&mut self) {
        let expected: Vec<_> = self.rounds.keys().map(|set| self.expected(set)).collect();
        for (rounds, expected) in self.rounds.values_mut().zip(expected) {
            for round in rounds {
                let missing = &expected - &round.entered;
                round.broken |= !round.asked && !missing.is_disjoint(&self.gone);
                round.complete |= missing.is_subset(&self.gone);
            }
        }
    }

    fn missing(&self, set: &[ProcId], round: &Round) -> BTreeSet<u32> {
        &self.expected(set) - &round.entered
    }

    fn is_late(&self, deadline: Option<Instant>) -> bool {
        deadline.is_some_and(|at| at <= self.now)
    }

    /// The host is called for a fence (invariant 3).
    pub(super) fn fence_is_handed_over(&mut self, set: &[ProcId], status: Option<Status>) {
        let rounds = self.rounds.get(set).expect("a fence that somebody called");
        let index = rounds.iter().position(|round| !round.asked).expect("no more calls than fences");
        let round = &rounds[index];
        assert!(self.is_remote(set), "the host is called for a local fence of {set:?}");
        match status {
            None => {
                assert!(self.missing(set, round).is_empty(), "{set:?} {round:?} is not complete");
                assert_eq!(round.verdict, None);
            }
            Some(_) => assert!(round.verdict.is_some() || round.broken || self.is_late(round.deadline)),
        }
        self.rounds.get_mut(set).unwrap()[index].asked = true;
    }

    /// A participant of a fence gets its verdict (invariant 2).
    pub(super) fn fence_is_answered(&mut self, set: &[ProcId], index: usize, outcome: &Outcome) {
        if let Ok(Reply::Fence(Fenced { collected: Collected::Held(modex), .. })) = outcome {
            self.check_modex(modex);
        }
        let round = &self.rounds[set][index];
        let verdict = format!("{outcome:?}");
        if let Some(earlier) = &round.verdict {
            assert_eq!(verdict, *earlier, "two verdicts in one fence of {set:?}");
            return;
        }
        match outcome.as_ref().map_err(|failure| failure.status) {
            Ok(Reply::Fence(_)) => {
                assert!(self.missing(set, round).is_empty(), "{set:?} {round:?} ended early")
            }
            Err(Status::ERR_PROC_TERM_WO_SYNC) => assert!(round.broken),
            Err(Status::ERR_TIMEOUT) => assert!(self.is_late(round.deadline)),
            Err(Status::ERR_INVALID_NAMESPACE) => assert!(self.ending),
            Err(Status::ERR_NOT_SUPPORTED | Status::ERR_UNREACH) => assert!(self.is_remote(set)),
            other => panic!("{other:?}"),
        }
        self.rounds.get_mut(set).unwrap()[index].verdict = Some(verdict);
    }

    /// A fence that is still open must have a reason for it.
    pub(super) fn fence_may_wait(&self, set: &[ProcId], index: usize, host_is_busy: bool) {
        let round = &self.rounds[set][index];
        assert!(!self.is_late(round.deadline), "{set:?} {round:?} is overdue");
        assert_eq!(round.verdict, None, "{set:?} {round:?} has ended for others");
        assert!(!round.broken, "{set:?} {round:?} waits for the dead {:?}", self.gone);
        if round.asked {
            return;
        }
        let awaits = !self.missing(set, round).is_empty();
        assert!(awaits || (self.is_remote(set) && host_is_busy), "{set:?} {round:?} waits for nobody");
    }

    /// What a process on this node sees of a local one, and whether there is more under the key.
    fn look(&self, rank: u32, key: &str) -> (Option<&Value>, bool) {
        let all = || self.puts.iter().filter(move |put| put.rank == rank && put.key == key);
        (all().rfind(|put| put.scope != Scope::REMOTE).map(|put| &put.value), all().next().is_some())
    }

    pub(super) fn get_is_answered(&self, get: &Get, outcome: &Outcome) {
        let rank = get.rank.to_raw();
        let known = if self.is_local(rank) { self.look(rank, &get.key) } else { (None, false) };
        let status = match outcome {
            Ok(Reply::Get(GetReply { value, modex, .. })) => {
                self.check_modex(modex);
                let value = value.as_ref().expect("a value");
                self.check_scope(value);
                if self.is_local(rank) {
                    assert_eq!(Some(value), known.0, "{get:?}");
                } else if get.rank != Rank::UNDEF {
                    assert_eq!(tag(value).0, rank, "{get:?}");
                }
                return;
            }
            Ok(other) => panic!("{get:?} gave {other:?}"),
            Err(failure) => failure.status,
        };
        if self.ending {
            assert_eq!(status, Status::ERR_NOT_FOUND);
            return;
        }
        assert_eq!(known.0, None, "{get:?} failed with {status}");
        match status {
            Status::ERR_TIMEOUT => assert!(self.is_late(get.deadline), "{get:?} timed out early"),
            Status::ERR_EXISTS_OUTSIDE_SCOPE => assert!(known.1, "{get:?}"),
            Status::ERR_NOT_FOUND if self.is_local(rank) => {
                assert!(!known.1 && (get.hasty || self.gone.contains(&rank)), "{get:?} gave up");
            }
            Status::ERR_NOT_FOUND if get.rank == Rank::UNDEF => assert!(get.hasty, "{get:?} gave up"),
            Status::ERR_NOT_FOUND | Status::ERR_UNREACH => {}
            other => panic!("{get:?} failed with {other}"),
        }
    }

    pub(super) fn get_may_wait(&self, get: &Get) {
        let rank = get.rank.to_raw();
        assert!(!self.is_late(get.deadline), "{get:?} is overdue");
        if self.is_local(rank) {
            assert!(!get.hasty, "{get:?} waits");
            assert_eq!(self.look(rank, &get.key), (None, false), "{get:?} waits for what is there");
            assert!(!self.gone.contains(&rank), "{get:?} waits for the dead");
        } else if get.rank == Rank::UNDEF {
            assert!(!get.hasty, "{get:?} waits");
            assert!((0..self.local).all(|rank| self.look(rank, &get.key).0.is_none()), "{get:?} waits");
        }
    }

    /// Another node's wish for data of a local process may wait.
    pub(super) fn host_may_wait(&self, rank: u32, key: Option<&str>) {
        assert!(self.is_local(rank) && !self.gone.contains(&rank), "the host waits for {rank}");
        let there = self.puts.iter().any(|put| put.rank == rank && key.is_none_or(|key| put.key == key));
        assert!(!there, "the host waits for what is there");
    }

    /// A process of this node sees a value (invariant 4).
    fn check_scope(&self, value: &Value) {
        let (owner, scope) = tag(value);
        let hidden = if self.is_local(owner) { Scope::REMOTE } else { Scope::LOCAL };
        assert!(scope != hidden, "{value} was shown outside its scope");
    }

    fn check_modex(&self, modex: &Modex) {
        for data in &modex.procs {
            for entry in &data.entries {
                assert_eq!(tag(&entry.value), (data.proc.rank.to_raw(), entry.scope));
                self.check_scope(&entry.value);
            }
        }
    }

    /// What leaves this node is its own and not for it alone (invariant 4).
    pub(super) fn check_outgoing(&self, modex: &Modex) {
        for data in &modex.procs {
            for entry in &data.entries {
                let (owner, scope) = tag(&entry.value);
                assert_eq!((owner, scope), (data.proc.rank.to_raw(), entry.scope));
                assert!(self.is_local(owner) && scope != Scope::LOCAL, "{} leaves its node", entry.value);
            }
        }
    }
}
