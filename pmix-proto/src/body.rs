//! The bodies that both sides send, and the messages that they become and come from: large bodies go in parts.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use pmix_types::message::{Failure, GetReply, Hello, MAX_PLAIN, Push, Reply, Request, Welcome};
use prost::Message;

use crate::convert::{self, At};
use crate::{ConvertError, Reason, expansion, v1};

/// Largest encoded body in bytes that is sent in one message; larger ones are sent in parts of this size.
pub const PART_BYTES: usize = 1 << 20;

/// A body of a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "each is handled once and not stored")]
pub enum ClientBody {
    /// The greeting: the first message.
    Hello {
        /// The greeting itself.
        hello: Hello,
        /// Oldest version of the protocol that it supports.
        oldest: u32,
        /// Newest version of the protocol that it supports.
        newest: u32,
        /// Name and release of its library; may be empty.
        implementation: String,
        /// Optional abilities; version 1 has none, and unknown ones are ignored.
        features: Vec<String>,
    },
    /// A request.
    Request(Request),
}

/// A body of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerBody {
    /// The process is connected.
    Welcome {
        /// The welcome itself.
        welcome: Welcome,
        /// Version of the protocol for this connection.
        version: u32,
        /// Name and release of the server; may be empty.
        implementation: String,
        /// Optional abilities that both sides have.
        features: Vec<String>,
    },
    /// The reply to a request.
    Reply(Reply),
    /// The reply to a fence whose data is in a file that came beside the message.
    FenceFile {
        /// Size of the data in bytes: more than 0.
        bytes: u64,
        /// Only what has changed after this generation is in it; 0 if everything is.
        since: u64,
        /// Up to which changes it goes.
        generation: u64,
    },
    /// The failure of a request or of the Hello.
    Failure(Failure),
    /// A push.
    Push(Push),
}

/// The messages of a Hello, with id 0 and the versions that this crate supports.
pub fn encode_hello(hello: &Hello) -> impl Iterator<Item = v1::ClientMessage> + Send + use<> {
    client_messages(0, hello.into())
}

/// The messages of a request: one, or several if it is larger than [`PART_BYTES`].
///
/// Send them in this order; messages of other ids may be sent between them. `id` must not be 0, nor the id of a pending
/// request.
pub fn encode_request(id: u64, request: &Request) -> impl Iterator<Item = v1::ClientMessage> + Send + use<> {
    client_messages(id, request.into())
}

fn client_messages(id: u64, body: v1::ClientBody) -> impl Iterator<Item = v1::ClientMessage> + Send {
    use v1::client_message::Content;

    Pieces::of(body).map(move |piece| {
        let content = match piece {
            Piece::Whole(body) => Content::Body(body),
            Piece::Part(part) => Content::Part(part),
        };
        v1::ClientMessage { id, content: Some(content) }
    })
}

/// Decodes a body of a process.
///
/// # Errors
/// [`ConvertError`] for malformed bodies.
pub fn decode_client(body: v1::ClientBody) -> Result<ClientBody, ConvertError> {
    body.try_into()
}

/// Decodes a body of a server.
///
/// # Errors
/// [`ConvertError`] for malformed bodies.
pub fn decode_server(body: v1::ServerBody) -> Result<ServerBody, ConvertError> {
    body.try_into()
}

/// A body of a server, encoded once for any number of receivers. Cheap to clone.
///
/// # Examples
/// ```
/// use pmix_proto::EncodedBody;
/// use pmix_types::message::Reply;
///
/// let done = EncodedBody::reply(&Reply::Done);
/// let to_three: Vec<_> = [4, 7, 9].into_iter().flat_map(|id| done.messages(id)).collect();
/// assert_eq!(to_three.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct EncodedBody(Pieces<v1::ServerBody>);

impl EncodedBody {
    /// Encodes a reply. For a get with encoded job data, see [`get_reply`](Self::get_reply).
    pub fn reply(reply: &Reply) -> Self {
        Self(Pieces::of(reply.into()))
    }

    /// Encodes the reply to a fence whose data is in a file of this many bytes, more than 0, that is handed over beside it:
    /// the changes after the first generation, 0 for everything, up to the second.
    pub fn fence_file(bytes: u64, changes: (u64, u64)) -> Self {
        Self(Pieces::of(convert::fence_file(bytes, changes)))
    }

    /// Encodes the reply to a get, with `job` instead of the reply's own job data.
    pub fn get_reply(reply: &GetReply, job: Option<Bytes>) -> Self {
        Self(Pieces::of(convert::get_reply(reply, job)))
    }

    /// Encodes the answer to a Hello, with the version for the connection. `job`, if given, takes the place of the
    /// welcome's own job data.
    pub fn welcome(welcome: &Welcome, version: u32, job: Option<Bytes>) -> Self {
        Self(Pieces::of(convert::welcome(welcome, version, job)))
    }

    /// Encodes the failure of a request or of the Hello.
    pub fn failure(failure: &Failure) -> Self {
        Self(Pieces::of(failure.into()))
    }

    /// Encodes a push; its id is 0.
    pub fn push(push: &Push) -> Self {
        Self(Pieces::of(push.into()))
    }

    /// Size of the encoded body in bytes, without the overhead of messages.
    pub fn size(&self) -> usize {
        match &self.0 {
            Pieces::Whole(body) => body.encoded_len(),
            Pieces::Parts(data) => data.len(),
            Pieces::Sent => 0,
        }
    }

    /// The messages of the body with this id, to be sent in this order: one, or several that share the encoded bytes if it is
    /// larger than [`PART_BYTES`].
    pub fn messages(&self, id: u64) -> impl Iterator<Item = v1::ServerMessage> + Send + use<> {
        use v1::server_message::Content;

        self.0.clone().map(move |piece| {
            let content = match piece {
                Piece::Whole(body) => Content::Body(body),
                Piece::Part(part) => Content::Part(part),
            };
            v1::ServerMessage { id, content: Some(content) }
        })
    }
}

/// The remaining parts of a body.
#[derive(Clone, Debug)]
enum Pieces<B> {
    Whole(B),
    Parts(Bytes),
    Sent,
}

enum Piece<B> {
    Whole(B),
    Part(v1::Part),
}

impl<B: Message> Pieces<B> {
    fn of(body: B) -> Self {
        if body.encoded_len() <= PART_BYTES {
            Self::Whole(body)
        } else {
            Self::Parts(body.encode_to_vec().into())
        }
    }
}

impl<B> Iterator for Pieces<B> {
    type Item = Piece<B>;

    fn next(&mut self) -> Option<Piece<B>> {
        match std::mem::replace(self, Self::Sent) {
            Self::Whole(body) => Some(Piece::Whole(body)),
            Self::Parts(mut data) => {
                let rest = data.split_off(data.len().min(PART_BYTES));
                let last = rest.is_empty();
                if !last {
                    *self = Self::Parts(rest);
                }
                Some(Piece::Part(v1::Part { data, last }))
            }
            Self::Sent => None,
        }
    }
}

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
