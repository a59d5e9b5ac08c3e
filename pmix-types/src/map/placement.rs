//! Which rank runs on which node.

use std::ops::RangeInclusive;

use range_set_blaze::RangeSetBlaze;

use crate::rank::Rank;
use crate::rank_set::RankSet;

use super::pieces::{self, MAX_PIECES, Piece};
use super::proc_builder::ProcMapBuilder;
use super::proc_map::ProcMap;
use super::run::RankRun;
use super::{MapError, NodeSet};

/// The placement of a job's ranks on its nodes, which can be searched by rank and by node.
///
/// It is made from a [`ProcMap`] that has each rank on one node only; duplicates on the same node count once. Nodes are
/// identified by their index in the [`NodeMap`](super::NodeMap). Memory and search time depend on the number of regular
/// pieces of the layout: a million ranks in blocks or in round-robin order are one piece.
///
/// # Examples
/// ```
/// use pmix_types::Rank;
/// use pmix_types::map::{Placement, ProcMap};
///
/// let placement = Placement::new(&ProcMap::parse(b"0-3;4,6;5,7")?)?;
/// let rank = Rank::new(6)?;
/// assert_eq!(placement.node_of(rank), Some(1));
/// assert_eq!(placement.local_rank(rank), Some(1));
/// assert_eq!(placement.ranks_on(2).to_list_string(), "5,7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Standard
/// Source of the derived values `NODEID`, `LOCAL_RANK`, `LOCAL_PEERS`, `LOCAL_SIZE`, `LOCALLDR` and
/// `JOB_SIZE`.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The ranks of each node: runs that ascend, one after the other.
    by_node: ProcMap,
    /// For each run, how many ranks its node has in the runs before.
    lower: Box<[u32]>,
    /// The node of each rank: pieces sorted by rank.
    by_rank: Box<[Piece]>,
    ranks: u32,
}

impl Placement {
    /// Makes the placement of a process map.
    ///
    /// # Errors
    /// [`MapError::RankOnTwoNodes`]; [`MapError::TooScattered`] if the map expands to too many pieces.
    pub fn new(map: &ProcMap) -> Result<Self, MapError> {
        let by_node = ascending(map)?;
        let by_rank = pieces::by_rank(&by_node)?;
        Ok(Self::from_parts(by_node, by_rank))
    }

    /// `per_node` consecutive ranks on each of `nodes` nodes.
    ///
    /// # Errors
    /// [`MapError::NoNodes`], [`MapError::TooManyNodes`], [`MapError::TooManyRanks`].
    pub fn block(nodes: u32, per_node: u32) -> Result<Self, MapError> {
        Self::new(&ProcMap::block(nodes, per_node)?)
    }

    /// Ranks `0` to `ranks - 1` on `nodes` nodes in round-robin order.
    ///
    /// # Errors
    /// [`MapError::NoNodes`], [`MapError::TooManyNodes`], [`MapError::TooManyRanks`].
    pub fn cyclic(nodes: u32, ranks: u32) -> Result<Self, MapError> {
        let by_node = ProcMap::cyclic(nodes, ranks)?;
        let by_rank = (ranks > 0).then(|| Piece::dealt_out(nodes, ranks));
        Ok(Self::from_parts(by_node, by_rank.into_iter().collect()))
    }

    /// Index of the node that `rank` is on.
    ///
    /// # Standard
    /// Value of `NODEID`, unless the host numbers its nodes differently.
    #[doc(alias = "PMIX_NODEID")]
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        let rank = rank.to_raw();
        let at = self.by_rank.partition_point(|piece| piece.first <= rank).checked_sub(1)?;
        self.by_rank[at].node_of(rank)
    }

    /// The ranks on one node; none if there is no such node.
    pub fn ranks_on(&self, node: u32) -> RankSet {
        let Some((group, distance)) = self.by_node.node(node) else {
            return RankSet::new();
        };
        let ranges = group.runs.iter().map(|run| run.shifted(distance)).flat_map(|run| {
            let together = run.is_unit().then(|| run.first..=run.last());
            let apart = if run.is_unit() { None } else { Some(run.ranks().map(|rank| rank..=rank)) };
            together.into_iter().chain(apart.into_iter().flatten())
        });
        RankSet::from_valid_ranges(ranges)
    }

    /// How many lower ranks are on the same node.
    ///
    /// # Standard
    /// Value of `LOCAL_RANK`.
    #[doc(alias = "PMIX_LOCAL_RANK")]
    pub fn local_rank(&self, rank: Rank) -> Option<u32> {
        let (group, distance) = self.by_node.node(self.node_of(rank)?)?;
        // where the rank would be on the first node of the group
        let rank = u32::try_from(i64::from(rank.to_raw()) - distance).ok()?;
        let at = group.runs.partition_point(|run| run.first <= rank).checked_sub(1)?;
        let run = &group.runs[at];
        Some(self.lower[group.first_run + at] + (rank - run.first) / run.step.unsigned_abs())
    }

    /// Number of ranks on one node; 0 if there is no such node.
    ///
    /// # Standard
    /// Value of `LOCAL_SIZE`.
    #[doc(alias = "PMIX_LOCAL_SIZE")]
    pub fn count_on(&self, node: u32) -> u32 {
        let last = self.by_node.node(node).and_then(|(group, _)| {
            let at = group.runs.len().checked_sub(1)?;
            Some(self.lower[group.first_run + at] + group.runs[at].count)
        });
        last.unwrap_or(0)
    }

    /// Number of nodes, including those without ranks.
    pub fn node_count(&self) -> u32 {
        self.by_node.node_count()
    }

    /// Number of ranks on all nodes.
    ///
    /// # Standard
    /// Value of `JOB_SIZE`.
    #[doc(alias = "PMIX_JOB_SIZE")]
    pub fn rank_count(&self) -> u32 {
        self.ranks
    }

    /// True if `rank` is on some node.
    pub fn contains(&self, rank: Rank) -> bool {
        self.node_of(rank).is_some()
    }

    /// All ranks of the job.
    pub fn all_ranks(&self) -> RankSet {
        RankSet::from_valid_ranges(self.by_rank.iter().map(|piece| piece.first..=piece.last()))
    }

    /// The nodes that have at least one of `ranks`. Ranks that are on no node are ignored.
    pub fn nodes_of(&self, ranks: &RankSet) -> NodeSet {
        ranks.ranges().flat_map(|range| self.nodes_of_range(range)).collect()
    }

    /// Number of pieces that the placement consists of, as seen by rank.
    pub fn run_count(&self) -> usize {
        self.by_rank.len()
    }

    /// Approximate size of the memory that the placement holds on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.by_node.heap_bytes() + size_of_val(&*self.lower) + size_of_val(&*self.by_rank)
    }

    fn nodes_of_range(&self, range: RangeInclusive<u32>) -> impl Iterator<Item = RangeInclusive<u32>> + '_ {
        let (first, last) = range.into_inner();
        let start = self.by_rank.partition_point(|piece| piece.last() < first);
        let pieces = self.by_rank[start..].iter().take_while(move |piece| piece.first <= last);
        pieces.flat_map(move |piece| piece.nodes_of(first.max(piece.first), last.min(piece.last())))
    }

    /// Puts together two sides that say the same.
    fn from_parts(by_node: ProcMap, by_rank: Box<[Piece]>) -> Self {
        let mut lower = Vec::with_capacity(by_node.runs.len());
        for group in by_node.groups() {
            lower.extend(group.runs.iter().scan(0, |total, run| {
                let before = *total;
                *total += run.count;
                Some(before)
            }));
        }
        let ranks = by_rank.iter().map(|piece| piece.count).sum();
        Self { by_node, lower: lower.into(), by_rank, ranks }
    }
}

/// Equal placements put the same ranks on the same nodes.
impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        self.by_node == other.by_node
    }
}

impl Eq for Placement {}

/// The map with the ranks of each node sorted and without repeats, as runs none of which starts before the
/// one before has ended.
fn ascending(map: &ProcMap) -> Result<ProcMap, MapError> {
    let mut builder = ProcMapBuilder::default();
    let mut unfolded = 0;
    for group in map.groups() {
        let mut runs: Vec<RankRun> = group.runs.iter().map(RankRun::ascending).collect();
        runs.sort_unstable_by_key(|run| run.first);
        if runs.is_sorted_by(|run, next| run.last() < next.first) {
            runs.into_iter().for_each(|run| builder.push_run(run));
        } else {
            unfolded += runs.iter().filter(|run| !run.is_unit()).map(|run| run.count as usize).sum::<usize>();
            if unfolded > MAX_PIECES {
                return Err(MapError::TooScattered { limit: MAX_PIECES });
            }
            for range in merged(&runs).ranges() {
                builder.push_range(*range.start(), *range.end());
            }
        }
        builder.end_nodes(group.nodes, group.shift, group.first_node as usize)?;
    }
    builder.finish()
}

fn merged(runs: &[RankRun]) -> RangeSetBlaze<u32> {
    let (together, apart): (Vec<RankRun>, Vec<RankRun>) = runs.iter().partition(|run| run.is_unit());
    let ranges = together.iter().map(|run| run.first..=run.last());
    let ranks = apart.iter().flat_map(RankRun::ranks).map(|rank| rank..=rank);
    ranges.chain(ranks).collect()
}
