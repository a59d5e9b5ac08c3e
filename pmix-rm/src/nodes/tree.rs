//! The tree of the nodes that take part in an operation.
//!
//! In ascending order, the first is the root, and the parent of the one at index `i` is the one at `(i - 1) / degree`. The
//! children of a node that is lost belong to the nearest ancestor that is not; without one, the first node that is not lost
//! is the root.

use std::collections::BTreeSet;

/// A node, by its place among those of the session.
pub(crate) type Place = usize;

/// The tree as one node sees it, who knows of these losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    /// Those that take part, in ascending order.
    pub(super) members: &'a [Place],
    pub(super) degree: usize,
    pub(super) lost: &'a BTreeSet<Place>,
}

impl Tree<'_> {
    fn index(&self, node: Place) -> Option<usize> {
        self.members.binary_search(&node).ok()
    }

    fn at(&self, index: usize) -> Option<Place> {
        self.members.get(index).copied()
    }

    /// The ancestors of the node at an index, the nearest first, lost or not.
    fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        let above = |index: &usize| (*index > 0).then(|| (*index - 1) / self.degree);
        std::iter::successors(above(&index), move |index| above(index))
    }

    fn is_lost(&self, index: usize) -> bool {
        self.at(index).is_none_or(|node| self.lost.contains(&node))
    }

    /// The first one that is not lost: the root.
    fn root(&self) -> Option<usize> {
        (0..self.members.len()).find(|index| !self.is_lost(*index))
    }

    fn parent_index(&self, index: usize) -> Option<usize> {
        let near = self.ancestors(index).find(|index| !self.is_lost(*index));
        near.or_else(|| self.root()).filter(|parent| *parent < index)
    }

    /// The node that this one passes on to; none for the root.
    pub(super) fn parent(&self, node: Place) -> Option<Place> {
        self.parent_index(self.index(node)?).and_then(|index| self.at(index))
    }

    /// Those that pass on to this node.
    pub(super) fn children(&self, node: Place) -> BTreeSet<Place> {
        let own = self.index(node);
        let passes_on = |index: &usize| !self.is_lost(*index) && self.parent_index(*index) == own;
        let first = own.map_or(self.members.len(), |own| own + 1);
        (first..self.members.len()).filter(passes_on).filter_map(|index| self.at(index)).collect()
    }

    /// This node and those below it.
    pub(super) fn below(&self, node: Place) -> BTreeSet<Place> {
        let own = self.index(node);
        let mut is_below = vec![false; self.members.len()];
        let mut below = BTreeSet::new();
        for index in own.unwrap_or(self.members.len())..self.members.len() {
            let through = |parent: usize| is_below.get(parent).copied().unwrap_or_default();
            let belongs =
                Some(index) == own || (!self.is_lost(index) && self.parent_index(index).is_some_and(through));
            if belongs && let (Some(slot), Some(node)) = (is_below.get_mut(index), self.at(index)) {
                *slot = true;
                below.insert(node);
            }
        }
        below
    }

    /// Whether a node takes part.
    pub(super) fn is_of(&self, node: Place) -> bool {
        self.index(node).is_some()
    }

    /// Whether a node may speak for another: it is the same, or above it while nobody is lost.
    pub(super) fn speaks_for(&self, node: Place, other: Place) -> bool {
        let (Some(node), Some(other)) = (self.index(node), self.index(other)) else { return false };
        node == other || self.ancestors(other).any(|ancestor| ancestor == node)
    }

    /// Whether a node may tell another how an operation has ended.
    pub(super) fn may_tell(&self, node: Place, other: Place) -> bool {
        node != other && (self.speaks_for(node, other) || self.root() == self.index(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [Place; 7] = [2, 3, 5, 7, 11, 13, 17];

    fn tree(lost: &BTreeSet<Place>) -> Tree<'_> {
        Tree { members: &MEMBERS, degree: 2, lost }
    }

    #[test]
    fn nodes_pass_on_to_the_nearest_ancestor_that_is_not_lost() {
        let (none, one, both) = (BTreeSet::new(), BTreeSet::from([3]), BTreeSet::from([2, 3]));
        assert_eq!(
            MEMBERS.map(|node| tree(&none).parent(node)),
            [None, Some(2), Some(2), Some(3), Some(3), Some(5), Some(5)]
        );
        assert_eq!(tree(&one).parent(7), Some(2));
        assert_eq!(tree(&one).children(2), [5, 7, 11].into());
        assert_eq!(tree(&one).below(2), [2, 5, 7, 11, 13, 17].into());
        // the root is lost, too
        assert_eq!(
            MEMBERS.map(|node| tree(&both).parent(node)),
            [None, None, None, Some(5), Some(5), Some(5), Some(5)]
        );
        assert_eq!(tree(&both).below(5), [5, 7, 11, 13, 17].into());
        assert_eq!(tree(&both).children(5), [7, 11, 13, 17].into());
        assert_eq!((tree(&none).below(3), tree(&none).children(3)), ([3, 7, 11].into(), [7, 11].into()));
        assert_eq!((tree(&none).parent(4), tree(&none).below(4)), (None, BTreeSet::new()));
    }

    #[test]
    fn a_node_speaks_for_itself_and_those_below_it() {
        let none = BTreeSet::new();
        assert!(
            tree(&none).speaks_for(3, 3) && tree(&none).speaks_for(3, 11) && tree(&none).speaks_for(2, 17)
        );
        assert!(
            !tree(&none).speaks_for(3, 13) && !tree(&none).speaks_for(3, 2) && !tree(&none).speaks_for(4, 4)
        );
        assert!(tree(&none).may_tell(3, 7) && !tree(&none).may_tell(3, 13) && !tree(&none).may_tell(7, 3));
        let root = BTreeSet::from([2, 3]);
        assert!(tree(&root).may_tell(5, 7));
    }
}
