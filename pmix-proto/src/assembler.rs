//! Reassembles large bodies from their parts.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use pmix_types::message::MAX_PLAIN;
use prost::Message;

use crate::convert::{self, At};
use crate::{ClientBody, ConvertError, PART_BYTES, Reason, ServerBody, expansion, v1};

/// Limits of what one side accepts from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest gRPC message in bytes, 4 MiB by default; for the settings of the gRPC library. Must be well above
    /// [`PART_BYTES`].
    pub message_bytes: usize,
    /// Largest body in bytes, and largest sum of all incomplete bodies of a connection; 256 MiB by default.
    pub body_bytes: usize,
    /// Largest number of incomplete bodies of a connection; 64 by default.
    pub open_bodies: usize,
    /// Most bytes of memory that a decoded body of a process may take, without the contents of byte objects; 256 MiB by
    /// default. Bodies in a single message are limited by [`message_bytes`](Self::message_bytes).
    pub decoded_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 4 * PART_BYTES,
            body_bytes: 256 * PART_BYTES,
            open_bodies: 64,
            decoded_bytes: 256 * PART_BYTES,
        }
    }
}

/// How many times what it takes a body may be estimated at.
const ESTIMATE: usize = 4;
/// The most memory that the request in a body may take, if there is a limit for its kind: see [`Request::memory_limit`].
///
/// [`Request::memory_limit`]: pmix_types::message::Request::memory_limit
fn memory_of(body: &[u8]) -> usize {
    // the last field counts, and all are decoded
    let limit = |number| convert::memory_limit(number).unwrap_or(usize::MAX);
    expansion::numbers(body).map(limit).min().unwrap_or(MAX_PLAIN)
}

/// Decodes the messages of one connection in one direction, and joins bodies sent in parts.
///
/// An error concerns only the id of the message: other incomplete bodies are not affected, and further parts of the refused
/// body are skipped. So a server can answer the id with the error as a failure, and continue. Only after
/// [`Reason::TooManyOpen`], which leaves later parts without a body, must the receiver close the connection.
#[derive(Debug)]
pub struct Assembler {
    limits: Limits,
    open: HashMap<u64, Assembly>,
    /// Bytes of all incomplete bodies.
    held: usize,
}

#[derive(Debug)]
enum Assembly {
    /// The parts received so far.
    Joining(BytesMut),
    /// Refused; its remaining parts are skipped.
    Skipping,
}

impl Assembler {
    /// An assembler without incomplete bodies.
    pub fn new(limits: Limits) -> Self {
        Self { limits, open: HashMap::new(), held: 0 }
    }

    /// Accepts a message of a process. Returns the id and body that it completes, or `None` if parts are missing.
    ///
    /// # Errors
    /// [`ConvertError`] for a message that breaks the protocol or exceeds a limit, see [`Assembler`].
    pub fn accept_client(
        &mut self,
        message: v1::ClientMessage,
    ) -> Result<Option<(u64, ClientBody)>, ConvertError> {
        use v1::client_message::Content;

        let id = message.id;
        let body = match message.content {
            Some(Content::Body(body)) => self.whole(id, body)?,
            Some(Content::Part(part)) => match self.append(id, part)? {
                Some(bytes) => self.decode_client(bytes)?,
                None => return Ok(None),
            },
            None => return Err(ConvertError::new(Reason::Missing)).at("content"),
        };
        Ok(Some((id, body.try_into()?)))
    }

    /// Accepts a message of a server. Returns the id and body that it completes, or `None` if parts are missing.
    ///
    /// # Errors
    /// [`ConvertError`] for a message that breaks the protocol or exceeds a limit, see [`Assembler`].
    pub fn accept_server(
        &mut self,
        message: v1::ServerMessage,
    ) -> Result<Option<(u64, ServerBody)>, ConvertError> {
        use v1::server_message::Content;

        let id = message.id;
        let body = match message.content {
            Some(Content::Body(body)) => self.whole(id, body)?,
            Some(Content::Part(part)) => match self.append(id, part)? {
                Some(bytes) => v1::ServerBody::decode(bytes)?,
                None => return Ok(None),
            },
            None => return Err(ConvertError::new(Reason::Missing)).at("content"),
        };
        Ok(Some((id, body.try_into()?)))
    }

    fn whole<B>(&self, id: u64, body: B) -> Result<B, ConvertError> {
        if self.open.contains_key(&id) { Err(ConvertError::new(Reason::Interrupted)) } else { Ok(body) }
    }

    /// Refuses a body that would take too much memory: a small message can become gigabytes, and only data may be large.
    fn decode_client(&self, bytes: Bytes) -> Result<v1::ClientBody, ConvertError> {
        let limit = self.limits.decoded_bytes.min(memory_of(&bytes).saturating_mul(ESTIMATE));
        if expansion::exceeds("ClientBody", &bytes, limit) {
            return Err(ConvertError::new(Reason::TooLarge { what: "the structure of the body", limit }));
        }
        Ok(v1::ClientBody::decode(bytes)?)
    }

    /// Adds a part; returns the body if it completes it.
    fn append(&mut self, id: u64, v1::Part { data, last }: v1::Part) -> Result<Option<Bytes>, ConvertError> {
        let Limits { body_bytes, open_bodies, .. } = self.limits;
        let opened = match self.open.remove(&id) {
            Some(Assembly::Joining(opened)) => opened,
            Some(Assembly::Skipping) => {
                if !last {
                    self.open.insert(id, Assembly::Skipping);
                }
                return Ok(None);
            }
            None if !last && self.open.len() >= open_bodies => {
                return Err(ConvertError::new(Reason::TooManyOpen { limit: open_bodies }));
            }
            None => BytesMut::new(),
        };
        if self.held + data.len() > body_bytes {
            let what =
                if opened.len() == self.held { "the body" } else { "the sum of all incomplete bodies" };
            self.held -= opened.len();
            if !last {
                self.open.insert(id, Assembly::Skipping);
            }
            return Err(ConvertError::new(Reason::TooLarge { what, limit: body_bytes }));
        }
        if last {
            self.held -= opened.len();
            return Ok(Some(finish(opened, data)));
        }
        self.held += data.len();
        let mut joined = opened;
        joined.extend_from_slice(&data);
        self.open.insert(id, Assembly::Joining(joined));
        Ok(None)
    }
}

fn finish(mut opened: BytesMut, data: Bytes) -> Bytes {
    if opened.is_empty() {
        return data;
    }
    opened.extend_from_slice(&data);
    opened.freeze()
}

#[cfg(test)]
mod tests {
    use pmix_types::message::{Commit, Fence, Lookup, MAX_NAMING, MAX_SPAWN, Request, Spawn};

    use super::*;

    #[test]
    fn limits_of_memory_are_those_of_the_operations() {
        let limit = |request: Request| memory_of(&v1::ClientBody::from(&request).encode_to_vec());
        assert_eq!(limit(Commit::new(vec![]).into()), usize::MAX);
        assert_eq!(limit(Fence::new(None).into()), MAX_NAMING);
        assert_eq!(limit(Spawn::new(vec![]).into()), MAX_SPAWN);
        assert_eq!(limit(Lookup::new(vec![]).into()), MAX_PLAIN);
        assert_eq!((memory_of(&[]), convert::memory_limit(12345)), (MAX_PLAIN, Some(MAX_PLAIN)));
    }
}
