use crate::codec::{Limits, Reader, Writer};
use crate::{Encoding, Version};

/// The settings that determine how messages of a connection are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Dialect and kind of buffer.
    pub encoding: Encoding,
    /// Release of the client's library, on either side: a few messages depend on it.
    pub client: Version,
    /// Limits for decoding.
    pub limits: Limits,
}

impl Context {
    /// A context with the default limits.
    pub fn new(encoding: Encoding, client: Version) -> Self {
        Self { encoding, client, limits: Limits::default() }
    }

    /// A reader of a payload.
    pub const fn reader<'a>(&self, payload: &'a [u8]) -> Reader<'a> {
        Reader::new(self.encoding, self.limits, payload)
    }

    /// A writer of a payload.
    pub fn writer(&self) -> Writer {
        Writer::new(self.encoding)
    }
}
