//! The messages between nodes, each in one frame.

use bytes::Bytes;
use prost::Message;

/// Largest frame in bytes, either way.
pub(crate) const LARGEST: usize = 64 << 20;
/// Most data of all nodes in an all-gather, in bytes; leaves room for names.
pub(crate) const MOST_DATA: usize = LARGEST / 2;

/// One message. An answer has the id of its request, which the node that asks has chosen.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Frame {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(oneof = "Content", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Content {
    /// Request: take part in an all-gather that this node decides. Answered with `Parts`.
    #[prost(message, tag = "2")]
    Gather(Gather),
    /// Request for the host of this node. Answered with `Answer`.
    #[prost(bytes = "bytes", tag = "3")]
    Fetch(Bytes),
    /// Nobody waits for the answer to this request any more.
    #[prost(bool, tag = "4")]
    GiveUp(bool),
    #[prost(message, tag = "5")]
    Parts(Parts),
    #[prost(bytes = "bytes", tag = "6")]
    Answer(Bytes),
    /// Answer: this node has given the operation up.
    #[prost(string, tag = "7")]
    Abandoned(String),
    /// Answer: the reason why the request failed.
    #[prost(string, tag = "8")]
    Failed(String),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gather {
    #[prost(string, tag = "1")]
    pub(crate) operation: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) nodes: Vec<String>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) data: Bytes,
}

/// What a node gives to an all-gather.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Part {
    /// Not there if it is more than [`MOST_DATA`], so that all nodes hear of it.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) data: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Parts {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) parts: Vec<Bytes>,
}

/// Why a frame cannot be sent.
pub(crate) fn too_large(frame: &Frame) -> Option<String> {
    let length = frame.encoded_len();
    (length > LARGEST).then(|| format!("a frame of {length} bytes; {LARGEST} are the most"))
}
