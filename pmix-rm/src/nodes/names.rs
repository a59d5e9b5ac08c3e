//! The nodes of a session.

use std::collections::HashMap;
use std::sync::Arc;

use super::tree::Place;

/// The names of all nodes by their places: the head comes first. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Names(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: Vec<String>,
    places: HashMap<String, Place>,
}

impl Names {
    pub(super) fn new(all: Vec<String>) -> Self {
        // of two nodes of a name the first counts
        let places = all.iter().enumerate().rev().map(|(place, name)| (name.clone(), place)).collect();
        Self(Arc::new(Inner { all, places }))
    }

    pub(super) fn all(&self) -> &[String] {
        &self.0.all
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.0.places.get(name).copied()
    }

    pub(super) fn name(&self, place: Place) -> &str {
        self.0.all.get(place).map_or("", String::as_str)
    }

    /// The place that a message means, if there is a node.
    pub(super) fn place_in(&self, number: u32) -> Option<Place> {
        usize::try_from(number).ok().filter(|place| *place < self.0.all.len())
    }
}
