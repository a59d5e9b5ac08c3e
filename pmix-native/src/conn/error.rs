use pmix_types::{NspaceError, Status};
use thiserror::Error;

use crate::UnknownDialect;
use crate::codec::CodecError;

/// An error of the handshake. The connection is unusable after it.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The first bytes are not a connect message.
    #[error("the connection does not start with a connect message")]
    Header,
    /// The connect message is too long.
    #[error("connect message of {0} bytes exceeds the limit of {max}", max = super::Connect::MAX_PAYLOAD)]
    TooLong(u32),
    /// The connect message ends too early.
    #[error("connect message ends before its {0}")]
    End(&'static str),
    /// A text is not UTF-8.
    #[error("{0} is not UTF-8")]
    Utf8(&'static str),
    /// The kind of process is unknown.
    #[error("unknown process flag {0}")]
    Flag(u8),
    /// A namespace is invalid.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// The dialect is not supported.
    #[error(transparent)]
    Dialect(#[from] UnknownDialect),
    /// The type of buffer is neither 1 nor 2.
    #[error("unknown buffer type {0}")]
    BufferType(u8),
    /// The infos of a tool cannot be encoded.
    #[error("infos: {0}")]
    Infos(#[from] CodecError),
    /// The server refused the connection.
    #[error("the server refused the connection: {0}")]
    Refused(Status),
}

pmix_types::message_first!(ConnectError);
pmix_types::statuses! {
    ConnectError,
    "that of its cause, the one with which the server [refused](Self::Refused) the connection, otherwise \
     `ERR_HANDSHAKE_FAILED`",
    |this| match this {
        Self::Nspace(error) => error.status(),
        Self::Dialect(error) => error.status(),
        Self::Infos(error) => error.status(),
        Self::Refused(status) => *status,
        _ => Status::ERR_HANDSHAKE_FAILED,
    };
}
