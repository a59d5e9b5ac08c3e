//! The node of each rank as regular pieces, and how to find them.

use std::ops::RangeInclusive;

use crate::rank::Rank;

use super::MapError;
use super::proc_map::{GroupView, ProcMap};

/// How many pieces a placement may be made of. Even the largest jobs have fewer ranks than this; only a map
/// that is compressed much better than its pieces comes near it.
pub(super) const MAX_PIECES: usize = 1 << 24;

/// Consecutive ranks, `chunk` by `chunk` on one node after the other: `node`, `node + step`, ... `period`
/// nodes, and then from `node` again. A piece that has not come round has as many chunks as its period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) first: u32,
    pub(super) count: u32,
    chunk: u32,
    node: u32,
    step: i32,
    period: u32,
}

impl Piece {
    /// One rank for each of `nodes` nodes in turn, until `ranks`, which are at least one, are used up.
    pub(super) fn dealt_out(nodes: u32, ranks: u32) -> Self {
        if nodes == 1 {
            return Self::on_node(0, ranks, 0);
        }
        Self { first: 0, count: ranks, chunk: 1, node: 0, step: 1, period: nodes.min(ranks) }
    }

    /// Ranks on one node.
    fn on_node(first: u32, count: u32, node: u32) -> Self {
        Self { first, count, chunk: count, node, step: 1, period: 1 }
    }

    /// Equal chunks on `nodes` nodes that follow each other, upwards or downwards.
    fn over_nodes(first: u32, chunk: u32, nodes: u32, node: u32, step: i32) -> Self {
        Self { first, count: chunk * nodes, chunk, node, step, period: nodes }
    }

    pub(super) fn last(&self) -> u32 {
        self.first + (self.count - 1)
    }

    pub(super) fn node_of(&self, rank: u32) -> Option<u32> {
        (self.first..=self.last())
            .contains(&rank)
            .then(|| self.node_at((rank - self.first) / self.chunk % self.period))
    }

    /// The nodes of the ranks from `first` to `last`, all of which are in this piece.
    pub(super) fn nodes_of(
        &self,
        first: u32,
        last: u32,
    ) -> impl Iterator<Item = RangeInclusive<u32>> + use<> {
        let (start, end) = ((first - self.first) / self.chunk, (last - self.first) / self.chunk);
        let (low, high) = (start % self.period, end % self.period);
        let turns = match () {
            () if end - start + 1 >= self.period => [Some((0, self.period - 1)), None],
            () if low <= high => [Some((low, high)), None],
            () => [Some((0, high)), Some((low, self.period - 1))],
        };
        let piece = self.clone();
        turns.into_iter().flatten().flat_map(move |(low, high)| piece.nodes_between(low, high))
    }

    fn nodes_between(&self, low: u32, high: u32) -> impl Iterator<Item = RangeInclusive<u32>> + use<> {
        let (a, b) = (self.node_at(low), self.node_at(high));
        let neighbours = self.step.unsigned_abs() == 1;
        let together = neighbours.then(|| a.min(b)..=a.max(b));
        let piece = self.clone();
        let apart =
            (!neighbours).then(|| (low..=high).map(move |turn| piece.node_at(turn)).map(|node| node..=node));
        together.into_iter().chain(apart.into_iter().flatten())
    }

    /// The node of chunk number `turn` below the period.
    fn node_at(&self, turn: u32) -> u32 {
        (i64::from(self.node) + i64::from(self.step) * i64::from(turn)) as u32
    }

    fn chunks(&self) -> u32 {
        self.count / self.chunk
    }

    /// Takes in the piece that follows in rank order if the pattern goes on. Both are made of whole chunks.
    fn absorb(&mut self, next: &Self) -> bool {
        if self.last() + 1 != next.first {
            return false;
        }
        let (chunks, added) = (self.chunks(), next.chunks());
        if chunks == 1 && added == 1 && self.node == next.node {
            *self = Self::on_node(self.first, self.count + next.count, self.node);
            return true;
        }
        if self.chunk != next.chunk {
            return false;
        }
        let step = i64::from(next.node) - i64::from(self.node);
        let step = if chunks == 1 { i32::try_from(step).unwrap_or(self.step) } else { self.step };
        if added > 1 && next.step != step {
            return false;
        }
        let turn = chunks % self.period;
        let next_came_round = added > next.period;
        let onwards = i64::from(self.node) + i64::from(step) * i64::from(chunks) == i64::from(next.node);
        if chunks == self.period && onwards && !next_came_round {
            // still on the first round
            self.step = step;
            self.period = chunks + added;
        } else if turn + added <= self.period && self.node_at(turn) == next.node && !next_came_round
            || turn == 0 && next.period == self.period && next.node == self.node && chunks > 1
        {
            // on a later round
        } else {
            return false;
        }
        self.count += next.count;
        true
    }
}

/// The pieces of a map whose nodes have ascending ranks, sorted by rank.
pub(super) fn by_rank(map: &ProcMap) -> Result<Box<[Piece]>, MapError> {
    let mut found = Vec::new();
    for group in map.groups() {
        collect(&group, &mut found)?;
    }
    found.sort_unstable_by_key(|piece| piece.first);
    let mut pieces: Vec<Piece> = Vec::new();
    for piece in found {
        let Some(before) = pieces.last_mut() else {
            pieces.push(piece);
            continue;
        };
        if let Some(second) = before.node_of(piece.first) {
            let rank = Rank::from_raw(piece.first);
            return Err(MapError::RankOnTwoNodes {
                rank,
                first: second.min(piece.node),
                second: second.max(piece.node),
            });
        }
        if !before.absorb(&piece) {
            pieces.push(piece);
        }
    }
    Ok(pieces.into())
}

fn collect(group: &GroupView<'_>, found: &mut Vec<Piece>) -> Result<(), MapError> {
    if let (0, 2.., Some(run)) = (group.shift, group.nodes, group.runs.first()) {
        let (rank, first) = (Rank::from_raw(run.first), group.first_node);
        return Err(MapError::RankOnTwoNodes { rank, first, second: first + 1 });
    }
    for run in group.runs {
        let (step, nodes) = (run.step.unsigned_abs(), group.nodes);
        let alternate = group.shift.unsigned_abs() == 1 && nodes <= step;
        let together = group.shift.unsigned_abs() == u64::from(run.count);
        // where the lowest rank is, and how to go on from there
        let (lowest, node, onwards) = if group.shift < 0 {
            let node = group.first_node + nodes - 1;
            (run.shifted(group.distance(node)), node, -1)
        } else {
            (*run, group.first_node, 1)
        };
        let separate = if run.is_unit() { nodes } else { nodes.saturating_mul(run.count) };
        match () {
            () if run.is_unit() && nodes == 1 => found.push(Piece::on_node(run.first, run.count, node)),
            () if run.is_unit() && together => {
                found.push(Piece::over_nodes(lowest.first, run.count, nodes, node, onwards));
            }
            () if !run.is_unit() && alternate && nodes == step => {
                let round = Piece::over_nodes(lowest.first, 1, nodes, node, onwards);
                found.push(Piece { count: nodes * run.count, ..round });
            }
            () if !run.is_unit() && alternate => {
                reserve(found, run.count)?;
                found.extend(lowest.ranks().map(|first| Piece::over_nodes(first, 1, nodes, node, onwards)));
            }
            () => {
                reserve(found, separate)?;
                for node in group.first_node..group.first_node + nodes {
                    let run = run.shifted(group.distance(node));
                    if run.is_unit() {
                        found.push(Piece::on_node(run.first, run.count, node));
                    } else {
                        found.extend(run.ranks().map(|rank| Piece::on_node(rank, 1, node)));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Makes room, unless it would be for more than a map can honestly need.
fn reserve(found: &mut Vec<Piece>, more: u32) -> Result<(), MapError> {
    if found.len() + more as usize > MAX_PIECES {
        return Err(MapError::TooScattered { limit: MAX_PIECES });
    }
    found.reserve(more as usize);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_node_is_a_round_of_its_own() {
        let one = Piece::on_node(3, 4, 2);
        assert_eq!((one.first, one.last(), one.period), (3, 6, 1));
        assert!((3..=6).all(|rank| one.node_of(rank) == Some(2)));
    }

    fn table(piece: &Piece) -> Vec<Option<u32>> {
        (piece.first..=piece.last()).map(|rank| piece.node_of(rank)).collect()
    }

    /// Pieces as they come from groups of nodes: one chunk, one round, or whole rounds.
    fn piece() -> impl Strategy<Value = Piece> {
        (1..3_u32, 0..3_u32, 1..4_u32, any::<bool>(), 1..3_u32).prop_map(
            |(chunk, node, nodes, up, rounds)| match nodes {
                1 => Piece::on_node(0, chunk, node),
                _ => {
                    let (node, step) = if up { (node, 1) } else { (node + nodes - 1, -1) };
                    let round = Piece::over_nodes(0, chunk, nodes, node, step);
                    Piece { count: round.count * rounds, ..round }
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn pieces_join_only_if_no_rank_moves(pieces in vec(piece(), 1..8)) {
            let mut joined: Option<Piece> = None;
            for mut next in pieces {
                let Some(before) = &mut joined else {
                    joined = Some(next);
                    continue;
                };
                next.first = before.last() + 1;
                let expected = [table(before), table(&next)].concat();
                if before.absorb(&next) {
                    prop_assert_eq!(table(before), expected, "{:?}", next);
                }
            }
        }
    }
}
