//! The bodies that both sides send, and their encoding as messages.

use bytes::Bytes;
use pmix_types::message::{Failure, GetReply, Hello, Push, Reply, Request, Welcome};
use prost::Message;

use crate::{ConvertError, convert, v1};

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
