//! The ranks on each of a job's nodes.

use std::fmt;

use crate::rank::Rank;

use super::proc_builder::ProcMapBuilder;
use super::run::RankRun;
use super::{Cursor, Framed, MapError, MapForm, NodeMap, blob, proc_text, tagged};

/// The ranks that run on each node of a [`NodeMap`], in its order.
///
/// Regular layouts take little memory whatever their size: neighbouring nodes with equal numbers of consecutive ranks,
/// or of ranks in round-robin order, take the memory of one node. Order and duplicates within a node are preserved.
/// There is always at least one node, but a node may have no ranks. Two maps are equal if they list the same ranks.
///
/// # Examples
/// ```
/// use pmix_types::map::{MapForm, ProcMap};
///
/// let map = ProcMap::parse(b"0-3;4-7;8,10")?;
/// assert_eq!(map.node_count(), 3);
/// assert_eq!(map.rank_count(), 10);
/// assert!(map.ranks_on(2).map(|rank| rank.to_raw()).eq([8, 10]));
/// assert_eq!(map.encode(MapForm::Pmix), b"pmix:pmix[0-3*2+4;8,10]\0");
/// # Ok::<(), pmix_types::map::MapError>(())
/// ```
///
/// # Standard
/// Value of `PROC_MAP`; `parse` and `encode` do the work of `generate_ppn` and its inverse.
#[doc(alias = "PMIx_generate_ppn")]
#[doc(alias = "PMIX_PROC_MAP")]
#[derive(Clone)]
pub struct ProcMap {
    pub(super) groups: Box<[Group]>,
    pub(super) runs: Box<[RankRun]>,
    pub(super) nodes: u32,
}

/// Neighbouring nodes with the same ranks but for a shift. Node and runs end where the next group starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) first_node: u32,
    pub(super) first_run: u32,
    /// By how much the ranks of a node are above those of the node before.
    pub(super) shift: i64,
}

/// A [`Group`] with all that belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupView<'a> {
    pub(super) first_node: u32,
    pub(super) nodes: u32,
    pub(super) shift: i64,
    pub(super) first_run: usize,
    /// The ranks of the first node.
    pub(super) runs: &'a [RankRun],
}

impl GroupView<'_> {
    /// How far the ranks of `node`, one of the group, are above those of the first.
    pub(super) fn distance(&self, node: u32) -> i64 {
        self.shift * i64::from(node - self.first_node)
    }
}

impl ProcMap {
    /// Compresses one list of ranks for each node.
    ///
    /// # Errors
    /// [`MapError::InvalidRank`] for wildcards and other special values, [`MapError::NoNodes`],
    /// [`MapError::TooManyNodes`].
    pub fn from_nodes<I>(nodes: I) -> Result<Self, MapError>
    where
        I: IntoIterator,
        I::Item: IntoIterator<Item = Rank>,
    {
        let mut builder = ProcMapBuilder::default();
        for (node, ranks) in nodes.into_iter().enumerate() {
            for rank in ranks {
                if !rank.is_valid() {
                    return Err(MapError::InvalidRank { rank, node });
                }
                builder.push_rank(rank.to_raw());
            }
            builder.end_node(node)?;
        }
        builder.finish()
    }

    /// The layout with `per_node` consecutive ranks on each of `nodes` nodes.
    ///
    /// # Errors
    /// [`MapError::NoNodes`], [`MapError::TooManyNodes`], [`MapError::TooManyRanks`].
    pub fn block(nodes: u32, per_node: u32) -> Result<Self, MapError> {
        let mut builder = ProcMapBuilder::default();
        if nodes > 0 {
            if per_node > 0 {
                builder.push_run(RankRun::new(0, 1, per_node).ok_or(MapError::TooManyRanks)?);
            }
            builder.end_nodes(nodes, per_node.into(), 0).map_err(layout_error)?;
        }
        builder.finish()
    }

    /// The layout of ranks `0` to `ranks - 1` on `nodes` nodes in round-robin order.
    ///
    /// # Errors
    /// [`MapError::NoNodes`], [`MapError::TooManyNodes`], [`MapError::TooManyRanks`].
    pub fn cyclic(nodes: u32, ranks: u32) -> Result<Self, MapError> {
        let mut builder = ProcMapBuilder::default();
        let step = i32::try_from(nodes).map_err(|_| MapError::TooManyNodes { at: 0 })?;
        let (rounds, extra) = (ranks.checked_div(nodes).unwrap_or(0), ranks.checked_rem(nodes).unwrap_or(0));
        for (first, group, count) in [(0, extra, rounds.saturating_add(1)), (extra, nodes - extra, rounds)] {
            if group == 0 {
                continue;
            }
            if count > 0 {
                builder.push_run(RankRun::new(first, step, count).ok_or(MapError::TooManyRanks)?);
            }
            builder.end_nodes(group, 1, 0).map_err(layout_error)?;
        }
        builder.finish()
    }

    /// Parses any of the [encoded forms](super#encoded-forms), or the plain form without a tag: `;` separates nodes,
    /// `,` separates ranks, `-` makes a range. A node without ranks is empty.
    ///
    /// The memory taken is bounded by the length of the input, not by the number of ranks it stands for.
    ///
    /// # Errors
    /// [`MapError`], with the position.
    #[doc(alias = "PMIx_parse_regex2")]
    pub fn parse(bytes: &[u8]) -> Result<Self, MapError> {
        match Framed::open(bytes)? {
            Framed::Raw(text) => proc_text::parse_list(text),
            Framed::Pmix(text) => proc_text::parse_expression(text),
            Framed::Blob { bytes, at } => blob::parse_procs(bytes, at),
        }
    }

    /// Parses the plain form only.
    ///
    /// # Errors
    /// [`MapError`], with the position.
    ///
    /// # Standard
    /// Value of `PROC_MAP_RAW`.
    #[doc(alias = "PMIX_PROC_MAP_RAW")]
    pub fn from_raw(text: &str) -> Result<Self, MapError> {
        proc_text::parse_list(Cursor::new(text, 0))
    }

    /// The plain form: `;` separates nodes, `,` separates ranks, and consecutive ranks are a range.
    ///
    /// # Standard
    /// Value of `PROC_MAP_RAW`; see [`to_listed`](Self::to_listed) for readers that do not know ranges.
    pub fn to_raw(&self) -> String {
        proc_text::ranges(self)
    }

    /// The plain form with every rank by itself. Its length grows with the number of ranks.
    pub fn to_listed(&self) -> String {
        proc_text::listed(self)
    }

    /// The map in the given form, tag first. Text ends with a NUL.
    #[doc(alias = "PMIx_generate_regex2")]
    pub fn encode(&self, form: MapForm) -> Vec<u8> {
        match form {
            MapForm::Raw => tagged("raw:", &self.to_raw()),
            MapForm::Pmix => tagged("pmix:", &proc_text::expression(self)),
            MapForm::Blob => blob::procs(self),
        }
    }

    /// Number of nodes, at least one.
    pub fn node_count(&self) -> u32 {
        self.nodes
    }

    /// Number of ranks on all nodes, including duplicates; at most `u64::MAX`.
    pub fn rank_count(&self) -> u64 {
        let of_group = |group: GroupView<'_>| {
            let on_node: u64 = group.runs.iter().map(|run| u64::from(run.count)).sum();
            on_node.saturating_mul(group.nodes.into())
        };
        self.groups().map(of_group).fold(0, u64::saturating_add)
    }

    /// The ranks on one node in the order given; none if there is no such node.
    pub fn ranks_on(&self, node: u32) -> impl Iterator<Item = Rank> + '_ {
        let (runs, distance) =
            self.node(node).map_or((&[][..], 0), |(group, distance)| (group.runs, distance));
        runs.iter().flat_map(move |run| run.shifted(distance).ranks()).map(Rank::from_raw)
    }

    /// For each node in order, its ranks in the order given.
    pub fn nodes(&self) -> impl Iterator<Item = impl Iterator<Item = Rank> + '_> + '_ {
        (0..self.nodes).map(|node| self.ranks_on(node))
    }

    /// Number of pieces that the map consists of, which determines its memory and the length of an expression.
    pub fn run_count(&self) -> usize {
        self.runs.len().max(self.groups.len())
    }

    /// Approximate size of the memory that the map holds on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.groups) + size_of_val(&*self.runs)
    }

    /// Checks that this map fits `nodes`.
    ///
    /// # Errors
    /// [`MapError::NodeCount`] unless there is an entry for each node.
    pub fn check_nodes(&self, nodes: &NodeMap) -> Result<(), MapError> {
        let (entries, nodes) = (self.nodes as usize, nodes.len());
        if entries == nodes { Ok(()) } else { Err(MapError::NodeCount { nodes, entries }) }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupView<'_>> {
        (0..self.groups.len()).map(|at| self.group(at))
    }

    /// The group that `node` is in, and how far its ranks are above those of the first node there.
    pub(super) fn node(&self, node: u32) -> Option<(GroupView<'_>, i64)> {
        if node >= self.nodes {
            return None;
        }
        let group = self.group(self.groups.partition_point(|group| group.first_node <= node) - 1);
        Some((group, group.distance(node)))
    }

    fn group(&self, at: usize) -> GroupView<'_> {
        let Group { first_node, first_run, shift } = self.groups[at];
        let next = self.groups.get(at + 1);
        let end_node = next.map_or(self.nodes, |next| next.first_node);
        let end_run = next.map_or(self.runs.len(), |next| next.first_run as usize);
        let first_run = first_run as usize;
        GroupView {
            first_node,
            nodes: end_node - first_node,
            shift,
            first_run,
            runs: &self.runs[first_run..end_run],
        }
    }
}

/// Says about a whole layout what is known about one number of a text.
fn layout_error(error: MapError) -> MapError {
    match error {
        MapError::NumberTooGreat { .. } => MapError::TooManyRanks,
        other => other,
    }
}

impl PartialEq for ProcMap {
    fn eq(&self, other: &Self) -> bool {
        // the same lists may have come in other groups
        self.nodes == other.nodes
            && (self.groups == other.groups && self.runs == other.runs
                || self.rank_count() == other.rank_count()
                    && self.nodes().zip(other.nodes()).all(|(ranks, others)| ranks.eq(others)))
    }
}

impl Eq for ProcMap {}

/// Shows the compressed form.
impl fmt::Debug for ProcMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcMap({} nodes, {})", self.nodes, proc_text::expression(self))
    }
}
