//! Process groups: their members, how they are made, named, left and ended. [`crate::invite`] makes them by invitation.

mod construct;
mod groups;
mod names;
mod notices;

pub(crate) use construct::{Constructing, Contribution, Finished, Invited, one_by_one, spelled_out};
pub(crate) use groups::{Group, GroupTerms, Groups, MAX_GROUPS, MAX_GROUPS_OF_PROC};
pub(crate) use names::not_complete;
pub(crate) use notices::about;
