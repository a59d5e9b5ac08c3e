//! Codec of OpenPMIx's own wire protocol.
pub mod codec;
mod dialect;
mod version;

pub use dialect::{Dialect, Encoding, UnknownDialect};
pub use version::Version;
