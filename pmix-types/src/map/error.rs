//! What can be wrong with a map.

use crate::rank::Rank;

use super::MAX_NODES;

/// A map that cannot be read, built or used. Positions count bytes from the start of the input, tag included;
/// for a map built from a list they count as if the list had been written out in plain form.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Text with bytes that are not UTF-8.
    #[error("byte {at} is not UTF-8; binary maps start with `blob:` and a NUL byte")]
    NotUtf8 {
        /// Position of the first bad byte.
        at: usize,
    },
    /// A node without a name.
    #[error("empty node name at byte {at}; leave out the extra comma")]
    EmptyName {
        /// Where the name should be.
        at: usize,
    },
    /// A node name with a character that separates items of lists.
    #[error("the node name at byte {at} contains {found:?}; names can contain neither commas nor NUL")]
    NameCharacter {
        /// Position of the character.
        at: usize,
        /// The character.
        found: char,
    },
    /// Text with a syntax error.
    #[error("expected {what} at byte {at}")]
    Expected {
        /// Where it should be.
        at: usize,
        /// What should be there.
        what: &'static str,
    },
    /// A number that is too great.
    #[error("number at byte {at} is too great; {limit}")]
    NumberTooGreat {
        /// Where the number starts.
        at: usize,
        /// The greatest possible number, or what to write instead.
        limit: &'static str,
    },
    /// A wildcard or another special value where a process is needed.
    #[error("{rank} on node {node} does not name a process; list the ranks that run there")]
    InvalidRank {
        /// The value.
        rank: Rank,
        /// Index of the node.
        node: usize,
    },
    /// A range of ranks or names whose end comes before its start.
    #[error("range {first}-{last} at byte {at} runs backwards; list its members one by one")]
    Backwards {
        /// Where the range starts.
        at: usize,
        /// The start of the range.
        first: u64,
        /// Its end.
        last: u64,
    },
    /// More than [`MAX_NODES`] nodes.
    #[error("more than {MAX_NODES} nodes at byte {at}")]
    TooManyNodes {
        /// Position of the first node above the limit.
        at: usize,
    },
    /// A process map without nodes, which text cannot express.
    #[error("a process map needs an entry for each node, and there is none; leave out the map")]
    NoNodes,
    /// A binary map that is damaged or was made by another implementation.
    #[error("the binary map is invalid at byte {at}: {problem}; have the sender use the `raw:` form")]
    Blob {
        /// Position of the problem.
        at: usize,
        /// What it is.
        problem: &'static str,
    },
    /// A process map that does not fit the node map.
    #[error(
        "process map has {entries} entries for {nodes} nodes; each node needs one entry, in the same order"
    )]
    NodeCount {
        /// Nodes in the node map.
        nodes: usize,
        /// Entries in the process map.
        entries: usize,
    },
    /// A process cannot run on two nodes.
    #[error("rank {rank} is on node {first} and on node {second}; take one of them out of the process map")]
    RankOnTwoNodes {
        /// The rank.
        rank: Rank,
        /// Index of one node.
        first: u32,
        /// Index of the other node.
        second: u32,
    },
    /// More ranks than there are valid numbers.
    #[error("more ranks than a namespace can have")]
    TooManyRanks,
    /// A compressed map that expands to more separate pieces than the limit.
    #[error("ranks are scattered over the nodes in more than {limit} pieces")]
    TooScattered {
        /// The greatest number of pieces.
        limit: usize,
    },
}

crate::message_first!(MapError);
