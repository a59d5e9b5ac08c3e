//! The ranks that processes have in a connected set or group.

use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, RankSet, Status};

/// Ranks in the namespace of a connected set or group, as runs of neighbours: a job of any size takes little room.
#[derive(Debug, Default)]
pub(crate) struct Numbering(Vec<Run>);

#[derive(Debug)]
struct Run {
    nspace: Nspace,
    /// Rank of the first in its own namespace.
    own: u32,
    /// Rank of the first in the set or group.
    rank: u32,
    len: u32,
}

impl Numbering {
    /// # Errors
    /// If the host gave an invalid rank, or one rank twice.
    pub(crate) fn new(mut ranks: Vec<(ProcId, Rank)>) -> Result<Self, Failure> {
        ranks.sort_by_key(|(_, rank)| rank.to_raw());
        let mut runs: Vec<Run> = Vec::new();
        for (proc, rank) in ranks {
            let (own, rank) = (proc.rank.to_raw(), rank.to_raw());
            if !proc.rank.is_valid() || !Rank::from_raw(rank).is_valid() {
                return Err(Failure::new(Status::ERROR, format!("the host made {proc} rank {rank}")));
            }
            match runs.last_mut() {
                Some(run) if rank < run.rank + run.len => {
                    let message = format!("the host gave rank {rank} to two processes of a connected set");
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

    pub(crate) fn rank_of(&self, proc: &ProcId) -> Option<Rank> {
        self.0.iter().filter(|run| run.nspace == proc.nspace).find_map(|run| {
            let offset = proc.rank.to_raw().checked_sub(run.own).filter(|offset| *offset < run.len)?;
            Some(Rank::from_raw(run.rank + offset))
        })
    }

    /// All processes, in the order of their ranks in the set or group.
    pub(crate) fn procs(&self) -> impl Iterator<Item = ProcId> {
        let of_run = |run: &Run| {
            let nspace = run.nspace.clone();
            (run.own..run.own + run.len).map(move |own| ProcId::new(nspace.clone(), Rank::from_raw(own)))
        };
        self.0.iter().flat_map(of_run)
    }

    pub(crate) fn has_nspace(&self, nspace: &Nspace) -> bool {
        self.0.iter().any(|run| run.nspace == *nspace)
    }

    /// Those of them that are among some ranks, which are given by namespace.
    pub(crate) fn among(&self, set: impl Fn(&Nspace) -> RankSet) -> impl Iterator<Item = ProcId> {
        self.0.iter().flat_map(move |run| {
            let last = run.own + (run.len - 1);
            let of_run = RankSet::from_range(run.own..=last).unwrap_or_default();
            let found: Vec<_> = (&of_run & &set(&run.nspace)).iter().collect();
            found.into_iter().map(|rank| ProcId::new(run.nspace.clone(), rank))
        })
    }

    pub(crate) fn proc_of(&self, rank: Rank) -> Option<ProcId> {
        let after = self.0.partition_point(|run| run.rank <= rank.to_raw());
        let run = self.0.get(after.checked_sub(1)?)?;
        let offset = rank.to_raw().checked_sub(run.rank).filter(|offset| *offset < run.len)?;
        Some(ProcId::new(run.nspace.clone(), Rank::from_raw(run.own + offset)))
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
