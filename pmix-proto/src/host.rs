//! Messages between the hosts of several nodes, as bytes. The generated code is generic, so each crate that uses it would
//! compile it again; these functions are compiled once.

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
/// [`DecodeError`] if the bytes are not such a message.
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
/// [`DecodeError`] if the bytes are not such a message.
pub fn decode_reply(bytes: Bytes) -> Result<HostReply, DecodeError> {
    HostReply::decode(bytes)
}

/// Encodes a node's part of an operation across nodes.
pub fn encode_part(part: &HostPart) -> Bytes {
    part.encode_to_vec().into()
}

/// Decodes such a part.
///
/// # Errors
/// [`DecodeError`] if the bytes are not such a message.
pub fn decode_part(bytes: Bytes) -> Result<HostPart, DecodeError> {
    HostPart::decode(bytes)
}
