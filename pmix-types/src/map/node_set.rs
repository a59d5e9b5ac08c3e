//! Sets of node indexes.

use std::fmt;
use std::ops::RangeInclusive;

use range_set_blaze::RangeSetBlaze;

/// A set of nodes, each by its index in the [`NodeMap`](super::NodeMap), kept as sorted ranges.
///
/// # Examples
/// ```
/// use pmix_types::RankSet;
/// use pmix_types::map::Placement;
///
/// let nodes = Placement::block(10, 4)?.nodes_of(&"0-9,39".parse::<RankSet>()?);
/// assert_eq!(nodes.to_string(), "0-2,9");
/// assert!(nodes.contains(9) && !nodes.contains(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSet {
    nodes: RangeSetBlaze<u32>,
}

impl NodeSet {
    /// Number of nodes.
    pub fn len(&self) -> u64 {
        self.nodes.len()
    }

    /// True if there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if the node with this index is in the set.
    pub fn contains(&self, node: u32) -> bool {
        self.nodes.contains(node)
    }

    /// The indexes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter()
    }

    /// The indexes as ascending ranges; adjacent ranges are merged.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u32>> + '_ {
        self.nodes.ranges()
    }
}

impl FromIterator<RangeInclusive<u32>> for NodeSet {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u32>>>(ranges: I) -> Self {
        Self { nodes: ranges.into_iter().collect() }
    }
}

/// Ranges with a dash, comma separated: `0-3,7`.
impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(f, "{comma}{start}")?,
                (start, end) => write!(f, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}
