//! Process groups: their members, how they are made, named, left and ended. [`crate::invite`] makes them by invitation.

mod construct;
mod groups;
mod notices;
mod terms;

pub(crate) use construct::{Constructing, Contribution, Finished, Invited, one_by_one, spelled_out};
pub(crate) use groups::{Group, Groups, MAX_GROUPS, MAX_GROUPS_OF_PROC, MAX_GROUPS_OF_USER, not_complete};
pub(crate) use notices::{about, group_of};
pub(crate) use terms::{GroupTerms, add_terms, terms_of};
