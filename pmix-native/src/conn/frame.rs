use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::Status;
use thiserror::Error;

/// Tags with a meaning.
pub mod tag {
    /// An event that a server pushes.
    pub const EVENT: u32 = 0;
    /// A heartbeat of a client, without payload or reply.
    pub const HEARTBEAT: u32 = 1;
    /// Forwarded output and input.
    pub const IOF: u32 = 2;
    /// The first request of a client; each further one takes the next tag. A reply has the tag of its request.
    pub const FIRST_REQUEST: u32 = 101;
}

/// A message with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The index assigned to the client on connection; 0 from a server. It is not checked.
    pub index: u32,
    /// Its kind, or the request that it belongs to; see [`tag`].
    pub tag: u32,
    /// The message. Empty only for a heartbeat: clients treat an empty reply as the end of the connection.
    pub payload: Bytes,
}

/// An error of framing, after which frames cannot be told apart; or a frame that cannot be sent.
#[derive(Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The payload is larger than allowed.
    #[error("message of {length} bytes exceeds the limit of {max}")]
    TooLarge {
        /// Bytes of the payload.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The connection failed; not returned by this crate.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pmix_types::statuses! {
    FrameError,
    "`ERR_OUT_OF_RESOURCE` for a message that is too large, `ERR_COMM_FAILURE` for a connection that failed",
    |this| match this {
        Self::TooLarge { .. } => Status::ERR_OUT_OF_RESOURCE,
        Self::Io(_) => Status::ERR_COMM_FAILURE,
    };
}

/// Decodes and encodes frames.
///
/// Memory for a message is not reserved before its bytes arrive, whatever its length field says. With the `tokio` feature,
/// this is a decoder and encoder of `tokio_util::codec`.
///
/// # Examples
/// ```
/// use bytes::BytesMut;
/// use pmix_native::conn::{Frame, Framing, tag};
///
/// let framing = Framing::default();
/// let frame = Frame { index: 1, tag: tag::FIRST_REQUEST, payload: vec![2, 0].into() };
/// let mut wire = BytesMut::new();
/// framing.encode(&frame, &mut wire)?;
/// assert_eq!(wire[..], [0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0]);
/// assert_eq!(framing.decode(&mut wire)?, Some(frame));
/// # Ok::<(), pmix_native::conn::FrameError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    max_payload: usize,
}

impl Framing {
    /// Bytes before each payload.
    pub const HEADER: usize = 16;
    /// Default limit of a payload: 256 MiB. Payloads of several megabytes are common.
    pub const MAX_PAYLOAD: usize = 256 << 20;

    /// Framing with this limit of a payload, in bytes.
    pub const fn new(max_payload: usize) -> Self {
        Self { max_payload }
    }

    /// Payload length of the frame at the front of the buffer; `None` if its header is incomplete.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`]; the connection is unusable then.
    pub fn announced(&self, arrived: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(mut header) = arrived.get(8..Self::HEADER) else { return Ok(None) };
        self.checked(usize::try_from(header.get_u32()).unwrap_or(usize::MAX)).map(Some)
    }

    /// Decodes a frame from the front of the buffer; `None` if it is incomplete.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`]; the connection is unusable then.
    pub fn decode(&self, arrived: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.announced(arrived)? else { return Ok(None) };
        if arrived.len() - Self::HEADER < length {
            return Ok(None);
        }
        let mut header = arrived.split_to(Self::HEADER);
        let (index, tag) = (header.get_u32(), header.get_u32());
        Ok(Some(Frame { index, tag, payload: arrived.split_to(length).freeze() }))
    }

    /// Encodes a frame at the end of the buffer.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`]; nothing is appended then.
    pub fn encode(&self, frame: &Frame, sent: &mut BytesMut) -> Result<(), FrameError> {
        let length = self.checked(frame.payload.len())?;
        let too_large = |_| FrameError::TooLarge { length, max: u32::MAX as usize };
        let length = u32::try_from(length).map_err(too_large)?;
        sent.reserve(Self::HEADER + frame.payload.len());
        sent.put_u32(frame.index);
        sent.put_u32(frame.tag);
        sent.put_u32(length);
        sent.put_u32(0);
        sent.put_slice(&frame.payload);
        Ok(())
    }

    const fn checked(&self, length: usize) -> Result<usize, FrameError> {
        if length > self.max_payload {
            return Err(FrameError::TooLarge { length, max: self.max_payload });
        }
        Ok(length)
    }
}

impl Default for Framing {
    fn default() -> Self {
        Self::new(Self::MAX_PAYLOAD)
    }
}

#[cfg(feature = "tokio")]
impl tokio_util::codec::Decoder for Framing {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, arrived: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        Self::decode(self, arrived)
    }
}

#[cfg(feature = "tokio")]
impl tokio_util::codec::Encoder<Frame> for Framing {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, sent: &mut BytesMut) -> Result<(), FrameError> {
        Self::encode(self, &frame, sent)
    }
}

pmix_types::message_first!(FrameError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_large_length_is_refused_before_anything_is_set_aside() {
        let framing = Framing::new(100);
        let mut arrived = BytesMut::from(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0][..]);
        assert!(matches!(framing.decode(&mut arrived), Err(FrameError::TooLarge { length: 101, max: 100 })));
        arrived[11] = 100;
        let before = arrived.capacity();
        assert!(framing.decode(&mut arrived).unwrap().is_none());
        assert_eq!(arrived.capacity(), before);
        assert_eq!(framing.announced(&arrived).unwrap(), Some(100));
        assert_eq!(framing.announced(&arrived[..15]).unwrap(), None);
        let large = Frame { index: 0, tag: 0, payload: vec![0; 101].into() };
        assert!(framing.encode(&large, &mut BytesMut::new()).is_err());
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_arrive(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..6),
            step in 1usize..40,
        ) {
            let framing = Framing::default();
            let frames: Vec<_> = (0u32..)
                .zip(payloads)
                .map(|(tag, payload)| Frame { index: tag ^ 7, tag, payload: payload.into() })
                .collect();
            let mut wire = BytesMut::new();
            for frame in &frames {
                framing.encode(frame, &mut wire).unwrap();
            }
            let (mut arrived, mut read) = (BytesMut::new(), Vec::new());
            for chunk in wire.chunks(step) {
                arrived.put_slice(chunk);
                while let Some(frame) = framing.decode(&mut arrived).unwrap() {
                    read.push(frame);
                }
            }
            prop_assert!(arrived.is_empty());
            prop_assert_eq!(read, frames);
        }
    }
}
