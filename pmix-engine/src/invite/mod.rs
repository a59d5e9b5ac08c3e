//! Groups by invitation (GRP-03): who is invited, who has answered, and what becomes of the group.
//!
//! Servers tell each other by the events that processes hear too: `GROUP_INVITED`, the answers, and then either
//! `GROUP_MEMBERSHIP_UPDATE` with the final members, who enter a construct of their own, or the reason why not.
//! [`EVENT_AFFECTED_PROC`](pmix_types::keys::EVENT_AFFECTED_PROC) names the process it is about: the leader, or the one
//! that answers. The C library sends its invitations without that key, and counts the answers itself.

mod events;
mod invited;
mod leader;
mod succession;
mod table;

pub(crate) use table::{Below, Invites};
