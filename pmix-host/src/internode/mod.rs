//! What the hosts of different nodes send each other: one versioned format for everything, encoded in `message.rs` alone.

mod message;
mod operation;
mod site;

pub(crate) use self::message::{
    ConnectPart, GroupPart, Part, PeerReply, PeerRequest, decode_part, decode_request, encode_part,
    encode_reply, unreadable,
};
#[cfg(test)]
pub(crate) use self::message::{decode_reply, encode_request};
pub(crate) use self::operation::{Awaited, Kind, Operation, Participants, spelled};
pub(crate) use self::site::Site;
