//! Circles of a graph: the sets of nodes that all reach each other.

use std::collections::{BTreeMap, BTreeSet};

pub(super) type Graph<N> = BTreeMap<N, BTreeSet<N>>;

/// All circles of two or more nodes, each in order, the largest first.
pub(super) fn circles<N: Ord + Clone>(graph: &Graph<N>) -> Vec<Vec<N>> {
    let reach: BTreeMap<_, _> = graph.keys().map(|node| (node, reached(graph, node))).collect();
    let mut found = BTreeSet::new();
    for (node, from_here) in &reach {
        let circle: Vec<N> = from_here
            .iter()
            .filter(|other| reach[**other].contains(*node))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// What can be reached from a node, itself only if there is a way back.
fn reached<'a, N: Ord>(graph: &'a Graph<N>, from: &N) -> BTreeSet<&'a N> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<_> = graph[from].iter().collect();
    while let Some(node) = next.pop() {
        if reached.insert(node) {
            next.extend(&graph[node]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u8, &[u8])]) -> Graph<u8> {
        edges.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect()
    }

    #[test]
    fn nodes_that_reach_each_other_are_a_circle() {
        let two = graph(&[(1, &[2]), (2, &[3, 4]), (3, &[1]), (4, &[5]), (5, &[4]), (6, &[1])]);
        assert_eq!(circles(&two), [vec![1, 2, 3], vec![4, 5]]);
    }

    #[test]
    fn a_chain_and_a_node_that_names_itself_are_none() {
        assert!(circles(&graph(&[(1, &[1, 2]), (2, &[3]), (3, &[])])).is_empty());
    }
}
