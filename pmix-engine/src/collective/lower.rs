//! What the round machine is built on.

use crate::connected::ConnectedSets;
use crate::events::Events;
use crate::group::Groups;

/// What a round looks at, and changes when it ends.
#[derive(Debug)]
pub(crate) struct Lower<'a> {
    pub(crate) sets: &'a mut ConnectedSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) events: &'a mut Events,
}
