use pmix_types::{NspaceError, Status};
use thiserror::Error;

use crate::UnknownDialect;
use crate::codec::CodecError;

/// Why a connection does not come about. Nothing can follow it on the same connection.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The first bytes are no connect message.
    #[error("connection does not start with the header of a connect message")]
    Header,
    /// The connect message is too long.
    #[error("connect message of {0} bytes; {max} are allowed", max = super::Connect::MAX_PAYLOAD)]
    TooLong(u32),
    /// The connect message ends too early.
    #[error("connect message ends before its {0}")]
    End(&'static str),
    /// A text is no UTF-8.
    #[error("{0} is not UTF-8")]
    Utf8(&'static str),
    /// Processes with this flag are not known.
    #[error("process flag {0} is unknown")]
    Flag(u8),
    /// A namespace cannot be one.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// The dialect is not spoken here.
    #[error(transparent)]
    Dialect(#[from] UnknownDialect),
    /// The kind of buffer is neither 1 nor 2.
    #[error("buffer type {0} is unknown")]
    BufferType(u8),
    /// The infos of a tool do not encode.
    #[error("infos: {0}")]
    Infos(#[from] CodecError),
    /// The server has refused.
    #[error("server refuses the connection with {0}")]
    Refused(Status),
}

pmix_types::message_first!(ConnectError);
