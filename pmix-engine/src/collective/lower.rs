//! What the round machine stands on.

use crate::connected::ConnectedSets;
use crate::events::Events;
use crate::group::Groups;

/// The nouns that a round looks at and changes when it comes to an end.
#[derive(Debug)]
pub(crate) struct Lower<'a> {
    pub(crate) sets: &'a mut ConnectedSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) events: &'a mut Events,
}
