//! The stacks of many processes, merged where they begin alike.

use std::collections::{BTreeMap, BTreeSet};

use pmix_tool::{Rank, types::RankSet};
use serde::{Serialize, Serializer};

use super::frame::{Frame, Source};

/// By what frames with the same callers are told apart. Of functions of the program that have called another, also by the line:
/// ranks that wait in two different barriers are not together. Where the innermost function is, or a library, changes while one
/// looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    function: String,
    line: Option<Source>,
}

#[derive(Debug, Default)]
struct Branch {
    sources: BTreeSet<Source>,
    ranks: RankSet,
    threads: u64,
    children: BTreeMap<Key, Self>,
}

/// A function, in which these ranks are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Node {
    pub(super) function: String,
    /// Lines that are being executed, as far as they are known.
    #[serde(serialize_with = "as_texts")]
    pub(super) sources: Vec<Source>,
    #[serde(serialize_with = "as_text")]
    pub(super) ranks: RankSet,
    pub(super) count: u64,
    /// Stacks; more than ranks if all threads were looked at.
    pub(super) threads: u64,
    /// Functions that it has called: those of most threads first.
    pub(super) children: Vec<Self>,
}

/// Merges stacks, whose outermost frames come first. The result does not depend on their order.
pub(super) fn merge<'a>(stacks: impl IntoIterator<Item = (Rank, &'a [Frame])>) -> Vec<Node> {
    let mut root = Branch::default();
    for (rank, frames) in stacks {
        let mut branch = &mut root;
        let library = frames.iter().position(|frame| frame.library_call().is_some()).unwrap_or(frames.len());
        for (index, frame) in frames.iter().enumerate() {
            let is_call_site = frame.is_program && index < library && index + 1 < frames.len();
            let line = frame.source.clone().filter(|_| is_call_site);
            branch = branch.children.entry(Key { function: frame.function.clone(), line }).or_default();
            branch.sources.extend(frame.source.clone());
            branch.ranks.insert(rank);
            branch.threads += 1;
        }
    }
    nodes(root)
}

fn nodes(branch: Branch) -> Vec<Node> {
    let node = |(key, branch): (Key, Branch)| Node {
        function: key.function,
        sources: branch.sources.iter().cloned().collect(),
        ranks: branch.ranks.clone(),
        count: branch.ranks.len(),
        threads: branch.threads,
        children: nodes(branch),
    };
    let mut nodes: Vec<_> = branch.children.into_iter().map(node).collect();
    // stable: those that are alike stay in the order of their names
    nodes.sort_by_key(|node| (std::cmp::Reverse((node.count, node.threads)), node.ranks.first()));
    nodes
}

fn as_text<S: Serializer>(ranks: &RankSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(ranks)
}

fn as_texts<S: Serializer>(sources: &[Source], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sources.iter().map(ToString::to_string))
}
