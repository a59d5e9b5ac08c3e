//! The nodes of a session.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::tree::Place;

/// The names of all nodes by their places: the head comes first, and nodes that are added come last. A place is never another
/// node's: a node that comes back has a new one. The name is empty at a place whose node never came. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Names(Arc<RwLock<NameTable>>);

#[derive(Debug, Default)]
struct NameTable {
    all: Vec<Arc<str>>,
    /// The last place of each.
    places: HashMap<Arc<str>, Place>,
    /// Those of nodes that are lost, have left or were not let in.
    gone: BTreeSet<Place>,
}

impl Names {
    pub(super) fn new(all: Vec<String>) -> Self {
        let names = Self(Arc::default());
        for name in all {
            names.add(&name);
        }
        names
    }

    /// Adds a node; returns its place.
    pub(super) fn add(&self, name: &str) -> Place {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (place, name) = (inner.all.len(), Arc::<str>::from(name));
        inner.all.push(name.clone());
        inner.places.insert(name, place);
        place
    }

    /// The node that is at this place: another one was to have it, and has never come.
    pub(super) fn correct(&self, place: Place, name: &str) {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let name = Arc::<str>::from(name);
        inner.gone.remove(&place);
        if let Some(own) = inner.all.get_mut(place).filter(|own| **own != name) {
            let other = std::mem::replace(own, name.clone());
            match inner.all.iter().rposition(|name| *name == other) {
                Some(last) => inner.places.insert(other, last),
                None => inner.places.remove(&other),
            };
            let last = inner.places.entry(name).or_insert(place);
            *last = place.max(*last);
        }
    }

    fn inner(&self) -> RwLockReadGuard<'_, NameTable> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.inner().all.iter().map(|name| name.as_ref().to_owned()).collect()
    }

    /// The node at this place is gone, and does not come back to its place; false if it was gone before.
    pub(super) fn leave(&self, place: Place) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).gone.insert(place)
    }

    /// The names of all places; those of nodes that are gone are empty.
    pub(super) fn remaining(&self) -> Vec<String> {
        let inner = self.inner();
        let name = |(place, name): (Place, &Arc<str>)| match inner.gone.contains(&place) {
            true => String::new(),
            false => name.as_ref().to_owned(),
        };
        inner.all.iter().enumerate().map(name).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.inner().all.len()
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.inner().places.get(name).copied()
    }

    pub(super) fn name(&self, place: Place) -> Arc<str> {
        self.inner().all.get(place).cloned().unwrap_or_else(|| "".into())
    }

    /// The place that a message means, if there is a node.
    pub(super) fn place_in(&self, number: u32) -> Option<Place> {
        usize::try_from(number).ok().filter(|place| *place < self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_back_has_a_new_place_and_the_old_one_keeps_its_name() {
        let names = Names::new(["h", "a", "b"].map(str::to_owned).into());
        assert_eq!((names.add("a"), names.add("c")), (3, 4));
        assert_eq!([names.place("h"), names.place("a"), names.place("d")], [Some(0), Some(3), None]);
        assert_eq!([names.name(1), names.name(3), names.name(5)], ["a".into(), "a".into(), "".into()]);
        assert_eq!((names.place_in(4), names.place_in(5)), (Some(4), None));
    }

    #[test]
    fn nodes_that_are_gone_keep_their_places_and_do_not_remain() {
        let names = Names::new(["h", "a", "b"].map(str::to_owned).into());
        assert!(names.leave(1) && !names.leave(1));
        assert_eq!(
            (names.remaining(), names.all()),
            (["h", "", "b"].map(str::to_owned).into(), ["h", "a", "b"].map(str::to_owned).into())
        );
        assert_eq!((names.add("a"), names.place("b")), (3, Some(2)));
        assert_eq!(names.remaining(), ["h", "", "b", "a"]);
    }

    #[test]
    fn a_node_that_another_was_to_be_takes_its_place_and_not_its_name() {
        let names = Names::new(["h", "a", "x"].map(str::to_owned).into());
        names.correct(2, "y");
        assert_eq!([names.place("x"), names.place("y")], [None, Some(2)]);
        // one that has a later place keeps it
        names.add("a");
        names.correct(1, "y");
        assert!(names.leave(2));
        names.correct(2, "a");
        assert_eq!(names.remaining()[2], "a");
        assert_eq!([names.place("a"), names.place("y")], [Some(3), Some(1)]);
    }
}
