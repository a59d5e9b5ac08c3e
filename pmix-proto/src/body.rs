//! What the two sides say, and its way into messages.

use bytes::Bytes;
use pmix_types::message::{Failure, GetReply, Hello, Push, Reply, Request, Welcome};
use prost::Message;

use crate::{ConvertError, convert, v1};

/// Largest encoded body in bytes that travels whole; larger ones travel in parts of this size.
pub const PART_BYTES: usize = 1 << 20;

/// What a process says to its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "each is handled once and not stored")]
pub enum ClientBody {
    /// Who it is, once, before all else.
    Hello {
        /// The greeting itself.
        hello: Hello,
        /// Oldest version of the protocol it speaks.
        oldest: u32,
        /// Newest version of the protocol it speaks.
        newest: u32,
        /// Name and release of its library; may be empty.
        implementation: String,
        /// Optional abilities; version 1 has none, and unknown ones are ignored.
        features: Vec<String>,
    },
    /// A request.
    Request(Request),
}

/// What a server says to a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerBody {
    /// The process is connected.
    Welcome {
        /// The greeting itself.
        welcome: Welcome,
        /// Version of the protocol that both speak from now on.
        version: u32,
        /// Name and release of the server; may be empty.
        implementation: String,
        /// Optional abilities that both have.
        features: Vec<String>,
    },
    /// The answer to a request.
    Reply(Reply),
    /// A request, or the Hello, failed.
    Failure(Failure),
    /// Something unasked.
    Push(Push),
}

/// The messages that carry a Hello, under id 0, with the versions this crate speaks.
pub fn encode_hello(hello: &Hello) -> impl Iterator<Item = v1::ClientMessage> + Send + use<> {
    client_messages(0, hello.into())
}

/// The messages that carry a request: one, or several if it is larger than [`PART_BYTES`].
///
/// They are to be sent in this order; messages of other ids may come between them. `id` must not be 0, nor that of a
/// request still unanswered.
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

/// Decodes what a process says.
///
/// # Errors
/// [`ConvertError`] for anything that is not as it must be.
pub fn decode_client(body: v1::ClientBody) -> Result<ClientBody, ConvertError> {
    body.try_into()
}

/// Decodes what a server says.
///
/// # Errors
/// [`ConvertError`] for anything that is not as it must be.
pub fn decode_server(body: v1::ServerBody) -> Result<ServerBody, ConvertError> {
    body.try_into()
}

/// What a server says, encoded once for any number of receivers. Cheap to clone.
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
    /// A reply. For a Get with job data that is encoded already, see [`get_reply`](Self::get_reply).
    pub fn reply(reply: &Reply) -> Self {
        Self(Pieces::of(reply.into()))
    }

    /// The reply to a Get with `job` in place of the reply's own job data, which is not encoded.
    pub fn get_reply(reply: &GetReply, job: Option<Bytes>) -> Self {
        Self(Pieces::of(convert::get_reply(reply, job)))
    }

    /// The answer to a Hello: the version both speak, and `job` in place of the greeting's own job data, which is
    /// not encoded.
    pub fn welcome(welcome: &Welcome, version: u32, job: Option<Bytes>) -> Self {
        Self(Pieces::of(convert::welcome(welcome, version, job)))
    }

    /// A failed request or Hello.
    pub fn failure(failure: &Failure) -> Self {
        Self(Pieces::of(failure.into()))
    }

    /// Something unasked; its id is 0.
    pub fn push(push: &Push) -> Self {
        Self(Pieces::of(push.into()))
    }

    /// Its encoded size in bytes, without what each message adds.
    pub fn size(&self) -> usize {
        match &self.0 {
            Pieces::Whole(body) => body.encoded_len(),
            Pieces::Parts(data) => data.len(),
            Pieces::Sent => 0,
        }
    }

    /// The messages that carry it under an id, to be sent in this order: one, or several that share the encoded
    /// bytes if it is larger than [`PART_BYTES`].
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

/// The pieces of a body that are still to be sent.
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
