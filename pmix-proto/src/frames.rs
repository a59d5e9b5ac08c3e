//! The framed wire: the messages of the gRPC wire, each behind its length, for processes on the server's own node.
//!
//! It is spoken on the same Unix socket as gRPC. A process that finds it announced begins with [`PREFACE`], whose first byte
//! no HTTP/2 connection begins with, and sends its messages; the server's messages come the same way, without a preface.
//! Hello, Welcome and all that follows are those of the service `Session`.

use std::io;
use std::marker::PhantomData;

use bytes::{Buf, BytesMut};
use prost::Message;
use tokio_util::codec::{Decoder, Encoder};

/// What a process sends first. Its first byte tells the two wires apart: HTTP/2 begins with `P`.
pub const PREFACE: [u8; 8] = *b"\0pmix-1\n";

/// Bytes of the length before each message: a 32-bit number, the lowest byte first.
const LENGTH: usize = 4;

/// Messages of type `In`, and any messages in the other direction, each behind its length.
#[derive(Debug)]
pub struct Frames<In> {
    limit: usize,
    incoming: PhantomData<fn() -> In>,
}

impl<In> Frames<In> {
    /// Accepts messages of up to `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, incoming: PhantomData }
    }

    /// Accepts messages of up to `limit` bytes from now on.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }
}

impl<In: Message + Default> Decoder for Frames<In> {
    type Item = In;
    type Error = io::Error;

    fn decode(&mut self, arrived: &mut BytesMut) -> io::Result<Option<In>> {
        let bad = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
        let Some(length) = arrived.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.limit {
            return Err(bad(format!("a message of {length} bytes, the limit is {}", self.limit)));
        }
        let end = LENGTH + length;
        if arrived.len() < end {
            arrived.reserve(end - arrived.len());
            return Ok(None);
        }
        arrived.advance(LENGTH);
        let message = arrived.split_to(length).freeze();
        In::decode(message).map(Some).map_err(|error| bad(error.to_string()))
    }
}

impl<In, Out: Message> Encoder<Out> for Frames<In> {
    type Error = io::Error;

    fn encode(&mut self, message: Out, sent: &mut BytesMut) -> io::Result<()> {
        let too_large = || io::Error::new(io::ErrorKind::InvalidInput, "the message has more than 4 GiB");
        let length = u32::try_from(message.encoded_len()).map_err(|_| too_large())?;
        sent.reserve(LENGTH + length as usize);
        sent.extend_from_slice(&length.to_le_bytes());
        // there is room for it
        message.encode(sent).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::v1::{ClientMessage, Part, client_message::Content};

    const LIMIT: usize = 1000;

    fn message(id: u64, data: Vec<u8>) -> ClientMessage {
        ClientMessage {
            id,
            content: Some(Content::Part(Part { data: data.into(), last: id.is_multiple_of(2) })),
        }
    }

    fn frames() -> Frames<ClientMessage> {
        Frames::new(LIMIT)
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_and_in_order_however_they_are_cut(
            messages in vec((any::<u64>(), vec(any::<u8>(), 0..200)), 0..20),
            cuts in vec(1..300_usize, 1..20),
        ) {
            let messages: Vec<_> = messages.into_iter().map(|(id, data)| message(id, data)).collect();
            let mut sent = BytesMut::new();
            for message in &messages {
                frames().encode(message.clone(), &mut sent).unwrap();
            }
            let (mut arrived, mut found, mut codec) = (BytesMut::new(), Vec::new(), frames());
            for cut in cuts.into_iter().cycle() {
                while let Some(message) = codec.decode(&mut arrived).unwrap() {
                    found.push(message);
                }
                if sent.is_empty() {
                    break;
                }
                arrived.extend_from_slice(&sent.split_to(cut.min(sent.len())));
            }
            prop_assert_eq!(found, messages);
            prop_assert!(arrived.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_the_limit(bytes in vec(any::<u8>(), 0..400)) {
            let (mut arrived, mut codec) = (BytesMut::from(&bytes[..]), frames());
            while let Ok(Some(_)) = codec.decode(&mut arrived) {}
            prop_assert!(arrived.capacity() <= bytes.len().max(64) + 2 * (LIMIT + LENGTH));
        }
    }

    #[test]
    fn messages_above_the_limit_are_refused_by_their_length_alone() {
        let mut codec = frames();
        let head = |length: usize| BytesMut::from(&(length as u32).to_le_bytes()[..]);
        assert_eq!(codec.decode(&mut head(LIMIT)).unwrap(), None);
        let error = codec.decode(&mut head(LIMIT + 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "a message of 1001 bytes, the limit is 1000");
        codec.set_limit(LIMIT + 1);
        assert_eq!(codec.decode(&mut head(LIMIT + 1)).unwrap(), None);
        assert!(codec.decode(&mut head(u32::MAX as usize)).is_err());
    }

    #[test]
    fn the_preface_begins_no_http_2_connection() {
        assert_ne!(PREFACE[0], b"PRI * HTTP/2.0"[0]);
    }
}
