//! What the hosts of different nodes send each other: one versioned format for everything, encoded in
//! `message.rs`, and the orders of a head and the news of its nodes in `order.rs`.

mod held;
mod message;
mod operation;
mod order;
mod site;
mod turns;

pub(crate) use self::held::{HeldJob, HeldProc, HeldPull};
#[cfg(test)]
pub(crate) use self::message::encode_request;
pub(crate) use self::message::{
    ConnectPart, GroupPart, Part, PeerReply, PeerRequest, decode_part, decode_reply, decode_request,
    encode_part, encode_reply, unreadable,
};
pub(crate) use self::operation::{Awaited, Kind, Operation, Participants, spelled};
pub(crate) use self::order::{News, Order, ProcToLaunch, Told};
pub(crate) use self::site::Site;
pub(crate) use self::turns::{MAX_ACTS, MAX_QUERIES, Turns};
