//! Groups by invitation (GRP-03): who is invited, who has answered, and whether the group is constructed.
//!
//! Servers inform each other by the same events that processes receive: `GROUP_INVITED`, the answers, and then either
//! `GROUP_MEMBERSHIP_UPDATE` with the final members, which then enter a construct, or an event with the reason why
//! there is no group. [`EVENT_AFFECTED_PROC`](pmix_types::keys::EVENT_AFFECTED_PROC) names the process that an event is
//! about: the leader, or the process that answers. The C library sends its invitations without that key, and counts the
//! answers itself.

mod events;
mod invited;
mod leader;
mod succession;
mod table;

pub(crate) use table::{Below, Invites};
