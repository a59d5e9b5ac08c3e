use crate::codec::{Limits, Reader, Writer};
use crate::{Encoding, Version};

/// All that decides how messages of a connection read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)]
pub struct Context {
    /// Dialect and kind of buffer.
    pub encoding: Encoding,
    /// Release of the client's library, whichever side one is on: a few messages differ by it.
    pub client: Version,
    /// Bounds on what messages may make of themselves.
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
