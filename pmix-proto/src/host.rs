//! Messages between the hosts of several nodes, as bytes. Generated code is generic, and would be compiled again with each crate
//! that uses it; these functions are compiled once.

use bytes::Bytes;
use prost::{DecodeError, Message};

use crate::v1::{HostPart, HostReply, HostRequest};

/// Encodes a request.
pub fn encode_request(request: &HostRequest) -> Bytes {
    request.encode_to_vec().into()
}

/// Decodes a request.
///
/// # Errors
/// If the bytes are no such message.
pub fn decode_request(bytes: Bytes) -> Result<HostRequest, DecodeError> {
    HostRequest::decode(bytes)
}

/// Encodes the reply to a request.
pub fn encode_reply(reply: &HostReply) -> Bytes {
    reply.encode_to_vec().into()
}

/// Decodes a reply.
///
/// # Errors
/// If the bytes are no such message.
pub fn decode_reply(bytes: Bytes) -> Result<HostReply, DecodeError> {
    HostReply::decode(bytes)
}

/// Encodes the part of a node in an operation of several nodes.
pub fn encode_part(part: &HostPart) -> Bytes {
    part.encode_to_vec().into()
}

/// Decodes such a part.
///
/// # Errors
/// If the bytes are no such message.
pub fn decode_part(bytes: Bytes) -> Result<HostPart, DecodeError> {
    HostPart::decode(bytes)
}
