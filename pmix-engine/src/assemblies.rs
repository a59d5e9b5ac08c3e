//! Who is connected with whom: the sets of processes, their names, and who of them is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmix_types::message::Failure;
use pmix_types::{DirectiveError, Directives, Memory, Nspace, ProcId, Rank, RankSet, Status, keys};

use super::groups::GroupTerms;
use super::signature::{Members, Named, Operation, Signature, contains, memory_of};

/// Connected sets that a server knows at a time.
pub(super) const MAX_ASSEMBLIES: usize = 4096;
/// What the name and the list of members of one of them may take.
const MAX_ASSEMBLY: usize = 256 << 10;

/// All connected sets that have members on this node.
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    all: BTreeMap<SetId, Assembly>,
    by_nspace: BTreeMap<Nspace, SetId>,
}

/// What a connection is known by (CON-04).
pub(super) type SetId = (Option<String>, Members);

/// A connected set.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    pub(super) nspace: Option<Nspace>,
    pub(super) numbering: Arc<Numbering>,
    pub(super) terms: Terms,
    /// Local members that have ended while they were connected.
    ended: BTreeMap<Nspace, RankSet>,
    /// Local members that have left it (CON-14).
    left: BTreeMap<Nspace, RankSet>,
}

/// What the participants on this node have asked for; what one of them asks for holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// Who has ended is not waited for (CON-12).
    pub(super) optional: bool,
    /// Nothing is connected, data is exchanged (CON-09).
    pub(super) exchange_only: bool,
    /// Each who comes or goes is told of (CON-10).
    pub(super) notify_each: bool,
    /// Those who have not come are asked to (CON-11).
    pub(super) notify_requested: bool,
    /// Members may end while they are connected (CON-13).
    pub(super) early_term: bool,
    /// What a group is to be like.
    pub(super) group: GroupTerms,
}

/// Members that a collective need not wait for, or cannot.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// It goes on without them.
    pub(super) excused: BTreeMap<Nspace, RankSet>,
    /// They have ended, which is a failure for the others.
    pub(super) ended: BTreeMap<Nspace, RankSet>,
}

/// Ranks in the namespace of an assembly, as runs of neighbours: a job of any size takes little room.
#[derive(Debug, Default)]
pub(super) struct Numbering(Vec<Run>);

#[derive(Debug)]
struct Run {
    nspace: Nspace,
    /// Rank of the first in its own namespace.
    own: u32,
    /// Rank of the first in the assembly.
    rank: u32,
    len: u32,
}

impl Terms {
    pub(super) fn take(directives: &mut Directives) -> Result<Self, DirectiveError> {
        Ok(Self {
            optional: directives.take_flag(&keys::CONNECT_OPTIONAL)?,
            exchange_only: directives.take_flag(&keys::CONNECT_XCHG_ONLY)?,
            notify_each: directives.take_flag(&keys::CONNECT_NOTIFY_EACH)?,
            notify_requested: directives.take_flag(&keys::CONNECT_NOTIFY_REQ)?,
            early_term: directives.take_flag(&keys::CONNECT_EARLY_TERM_ALLOWED)?,
            group: GroupTerms::default(),
        })
    }

    pub(super) const fn join(&mut self, other: Self) {
        self.optional |= other.optional;
        self.exchange_only |= other.exchange_only;
        self.notify_each |= other.notify_each;
        self.notify_requested |= other.notify_requested;
        self.early_term |= other.early_term;
        self.group.join(other.group);
    }
}

impl Numbering {
    /// # Errors
    /// If the host gave a rank that is none, or one twice.
    pub(super) fn new(mut ranks: Vec<(ProcId, Rank)>) -> Result<Self, Failure> {
        ranks.sort_by_key(|(_, rank)| rank.to_raw());
        let mut runs: Vec<Run> = Vec::new();
        for (proc, rank) in ranks {
            let (own, rank) = (proc.rank.to_raw(), rank.to_raw());
            if !proc.rank.is_valid() || !Rank::from_raw(rank).is_valid() {
                return Err(Failure::new(Status::ERROR, format!("the host made {proc} rank {rank}")));
            }
            match runs.last_mut() {
                Some(run) if rank < run.rank + run.len => {
                    let message = format!("the host gave rank {rank} to two of those who connect");
                    return Err(Failure::new(Status::ERROR, message));
                }
                Some(run)
                    if run.nspace == proc.nspace
                        && own.checked_sub(run.own) == Some(run.len)
                        && rank - run.rank == run.len =>
                {
                    run.len += 1;
                }
                _ => runs.push(Run { nspace: proc.nspace, own, rank, len: 1 }),
            }
        }
        Ok(Self(runs))
    }

    pub(super) fn rank_of(&self, proc: &ProcId) -> Option<Rank> {
        self.0.iter().filter(|run| run.nspace == proc.nspace).find_map(|run| {
            let offset = proc.rank.to_raw().checked_sub(run.own).filter(|offset| *offset < run.len)?;
            Some(Rank::from_raw(run.rank + offset))
        })
    }

    /// All processes, by their ranks in the assembly.
    pub(super) fn procs(&self) -> impl Iterator<Item = ProcId> {
        let of_run = |run: &Run| {
            let nspace = run.nspace.clone();
            (run.own..run.own + run.len).map(move |own| ProcId::new(nspace.clone(), Rank::from_raw(own)))
        };
        self.0.iter().flat_map(of_run)
    }

    pub(super) fn has_nspace(&self, nspace: &Nspace) -> bool {
        self.0.iter().any(|run| run.nspace == *nspace)
    }

    /// Those of them that are in a set, which is given by namespace.
    pub(super) fn among(&self, set: impl Fn(&Nspace) -> RankSet) -> impl Iterator<Item = ProcId> {
        self.0.iter().flat_map(move |run| {
            let last = run.own + (run.len - 1);
            let of_run = RankSet::from_range(run.own..=last).unwrap_or_default();
            let found: Vec<_> = (&of_run & &set(&run.nspace)).iter().collect();
            found.into_iter().map(|rank| ProcId::new(run.nspace.clone(), rank))
        })
    }

    pub(super) fn proc_of(&self, rank: Rank) -> Option<ProcId> {
        let after = self.0.partition_point(|run| run.rank <= rank.to_raw());
        let run = self.0.get(after.checked_sub(1)?)?;
        let offset = rank.to_raw().checked_sub(run.rank).filter(|offset| *offset < run.len)?;
        Some(ProcId::new(run.nspace.clone(), Rank::from_raw(run.own + offset)))
    }
}

impl Assembly {
    pub(super) fn new(nspace: Option<Nspace>, numbering: Arc<Numbering>, terms: Terms) -> Self {
        Self { nspace, numbering, terms, ..Self::default() }
    }

    fn has_lost(&self, proc: &ProcId) -> bool {
        let among = |set: &BTreeMap<Nspace, RankSet>| {
            set.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
        };
        among(&self.ended) || among(&self.left)
    }
}

impl Assemblies {
    /// The members that a name of a connected group means; `None` if it names no group.
    pub(super) fn members(&self, name: &ProcId) -> Option<Result<Members, Failure>> {
        let id = self.by_nspace.get(&name.nspace)?;
        if name.rank.is_wildcard() {
            return Some(Ok(id.1.clone()));
        }
        let member = self.all.get(id).and_then(|assembly| assembly.numbering.proc_of(name.rank));
        Some(match member {
            Some(member) => {
                let ranks = RankSet::from_iter([member.rank]);
                Ok(Members::from([(member.nspace, Named { all: false, ranks })]))
            }
            None => Err(Failure::new(Status::ERR_BAD_PARAM, format!("{name} has not connected"))),
        })
    }

    /// The process that is meant by a rank of a connected group.
    pub(super) fn member(&self, name: &ProcId) -> Option<ProcId> {
        self.all.get(self.by_nspace.get(&name.nspace)?)?.numbering.proc_of(name.rank)
    }

    pub(super) fn id_of(&self, nspace: &str) -> Option<&SetId> {
        self.by_nspace.get(nspace)
    }

    /// The set, if it is connected and the process still one of it.
    pub(super) fn of_member(&self, id: &SetId, proc: &ProcId) -> Option<&Assembly> {
        self.all.get(id).filter(|assembly| contains(&id.1, proc) && !assembly.has_lost(proc))
    }

    /// The set, if it is connected, whoever of it is left.
    pub(super) fn get(&self, id: &SetId) -> Option<&Assembly> {
        self.all.get(id)
    }

    /// Whether there is room for another set; one that is connected already takes none (CON-15).
    pub(super) fn check_room(&self, id: &SetId) -> Result<(), Failure> {
        if self.all.contains_key(id) {
            return Ok(());
        }
        let bytes = id.0.heap() + memory_of(&id.1);
        if bytes > MAX_ASSEMBLY {
            let message =
                format!("connect: an id and participants of {bytes} bytes, the limit is {MAX_ASSEMBLY}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        if self.all.len() >= MAX_ASSEMBLIES {
            let message = format!("connect: {MAX_ASSEMBLIES} sets of processes are connected here already");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, id: SetId, assembly: Assembly) {
        if let Some(nspace) = &assembly.nspace {
            self.by_nspace.insert(nspace.clone(), id.clone());
        }
        self.all.insert(id, assembly);
    }

    pub(super) fn remove(&mut self, id: &SetId) {
        if let Some(nspace) = self.all.remove(id).and_then(|assembly| assembly.nspace) {
            self.by_nspace.remove(&nspace);
        }
    }

    /// A namespace is gone: nothing of it is connected.
    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.retain(|(_, members), _| !members.contains_key(nspace));
    }

    /// Drops the sets that have no member here any more; `here` gives the local ranks of a namespace. Those that are
    /// connecting again stay until that is done: their members are told what they are called (CON-15).
    pub(super) fn drop_abandoned(&mut self, here: impl Fn(&Nspace) -> RankSet, connecting: &BTreeSet<SetId>) {
        self.retain(|id, assembly| {
            let (_, members) = id;
            connecting.contains(id)
                || members.iter().any(|(nspace, named)| {
                    here(nspace).iter().any(|rank| {
                        named.contains(rank) && !assembly.has_lost(&ProcId::new(nspace.clone(), rank))
                    })
                })
        });
    }

    fn retain(&mut self, keep: impl Fn(&SetId, &Assembly) -> bool) {
        self.all.retain(|id, assembly| keep(id, assembly));
        self.by_nspace.retain(|_, id| self.all.contains_key(id));
    }

    /// Processes of a set have connected again: those who had left it are back (CON-15).
    pub(super) fn rejoin(&mut self, id: &SetId, procs: &BTreeMap<Nspace, RankSet>) {
        let Some(assembly) = self.all.get_mut(id) else { return };
        for (nspace, back) in procs {
            if let Some(left) = assembly.left.get_mut(nspace) {
                *left = &*left - back;
            }
        }
    }

    /// A process has left one set.
    pub(super) fn leave(&mut self, id: &SetId, proc: &ProcId) {
        if let Some(assembly) = self.all.get_mut(id) {
            assembly.left.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
    }

    /// A process has ended: the sets in which that is a failure.
    pub(super) fn end(&mut self, proc: &ProcId) -> Vec<Members> {
        let mut failed = Vec::new();
        for ((_, members), assembly) in &mut self.all {
            if contains(members, proc) && !assembly.has_lost(proc) {
                assembly.ended.entry(proc.nspace.clone()).or_default().insert(proc.rank);
                if !assembly.terms.early_term {
                    failed.push(members.clone());
                }
            }
        }
        failed
    }

    /// Who of the participants of a collective of a connected group is not waited for.
    pub(super) fn absent(&self, signature: &Signature) -> Absent {
        let mut absent = Absent::default();
        let is_meant = |id: &SetId, assembly: &Assembly| match &signature.operation {
            Operation::Disconnect(name) => (name, &signature.procs) == (&id.0, &id.1),
            Operation::Connect(_) | Operation::Construct(_) | Operation::Destruct(_) => false,
            Operation::Fence if signature.groups.is_empty() => signature.procs == id.1,
            Operation::Fence => {
                assembly.nspace.as_ref().is_some_and(|nspace| signature.groups.contains_key(nspace))
            }
        };
        for (id, assembly) in &self.all {
            if !is_meant(id, assembly) {
                continue;
            }
            let excuses =
                assembly.terms.early_term || matches!(signature.operation, Operation::Disconnect(_));
            add(&mut absent.excused, &assembly.left);
            add(if excuses { &mut absent.excused } else { &mut absent.ended }, &assembly.ended);
        }
        absent
    }

    pub(super) fn len(&self) -> usize {
        debug_assert!(self.by_nspace.len() <= self.all.len());
        self.all.len()
    }
}

pub(super) fn add(all: &mut BTreeMap<Nspace, RankSet>, more: &BTreeMap<Nspace, RankSet>) {
    for (nspace, ranks) in more {
        let held = all.entry(nspace.clone()).or_default();
        *held = &*held | ranks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn con_07_a_numbering_is_found_from_both_sides_and_stays_small() {
        let ranks = (0..1000).map(|rank| (proc("a", rank), Rank::from_raw(rank)));
        let more = [(proc("b", 7), Rank::from_raw(1000)), (proc("a", 2000), Rank::from_raw(1001))];
        let numbering = Numbering::new(more.into_iter().chain(ranks).collect()).unwrap();
        assert_eq!(numbering.0.len(), 3);
        for (own, rank) in
            [(proc("a", 0), 0), (proc("a", 999), 999), (proc("b", 7), 1000), (proc("a", 2000), 1001)]
        {
            assert_eq!(numbering.rank_of(&own), Some(Rank::from_raw(rank)));
            assert_eq!(numbering.proc_of(Rank::from_raw(rank)), Some(own));
        }
        assert_eq!(numbering.proc_of(Rank::from_raw(1002)), None);
        for stranger in [proc("a", 1000), proc("b", 6), proc("c", 0)] {
            assert_eq!(numbering.rank_of(&stranger), None);
        }
        assert_eq!(Numbering::default().proc_of(Rank::from_raw(0)), None);
    }

    #[test]
    fn a_host_that_numbers_badly_is_told() {
        let twice = vec![(proc("a", 0), Rank::from_raw(1)), (proc("b", 0), Rank::from_raw(1))];
        assert!(Numbering::new(twice).is_err());
        assert!(Numbering::new(vec![(proc("a", 0), Rank::WILDCARD)]).is_err());
        assert!(Numbering::new(vec![(ProcId::wildcard("a".parse().unwrap()), Rank::from_raw(0))]).is_err());
    }
}
