use pmix_types::{DataType, KeyNameError, NspaceError, Status};
use thiserror::Error;

use crate::Dialect;

/// An error of decoding or encoding, with its position.
///
/// The connection remains usable: messages are framed, so only this one is lost.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("at byte {offset}: {problem}")]
#[non_exhaustive]
pub struct CodecError {
    /// Position of the error in the message, or in the buffer inside it, in bytes; when encoding, the number of bytes written
    /// before.
    pub offset: usize,
    /// The error.
    pub problem: Problem,
}

/// The kinds of errors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The message is too short.
    #[error("{needed} bytes needed, {left} left")]
    End {
        /// Bytes needed, at least.
        needed: u64,
        /// Bytes left.
        left: usize,
    },
    /// The type is not the expected one.
    #[error("expected {expected}, found {found}")]
    Mismatch {
        /// The expected type.
        expected: DataType,
        /// The type found.
        found: DataType,
    },
    /// The layout of this type is unknown, so nothing after it can be decoded.
    #[error("unknown data type {0}")]
    UnknownType(DataType),
    /// The dialect does not support this type.
    #[error("dialect {dialect} does not support {data_type}")]
    NotInDialect {
        /// Type of the value.
        data_type: DataType,
        /// The connection's dialect.
        dialect: Dialect,
    },
    /// A count is negative, or not the expected one.
    #[error("invalid count {0}")]
    Count(i64),
    /// A number does not fit its type.
    #[error("number out of range for {0}")]
    Range(DataType),
    /// A text is not UTF-8, and it is not the string of a single value.
    #[error("text is not UTF-8")]
    Utf8,
    /// A text does not end with NUL, or its length is negative.
    #[error("text without a NUL terminator")]
    Unterminated,
    /// A text is not a floating point number.
    #[error("text is not a floating point number")]
    Float,
    /// A text is not a valid namespace.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// A text is not a valid key.
    #[error(transparent)]
    Key(#[from] KeyNameError),
    /// Values are nested deeper than [`Limits::depth`](super::Limits::depth).
    #[error("values are nested too deep")]
    Depth,
    /// Compressed contents are corrupt.
    #[error("compressed contents are corrupt")]
    Compressed,
    /// Compressed contents expand to more than [`Limits::expanded`](super::Limits::expanded).
    #[error("compressed contents exceed the limit of {0} bytes")]
    Expansion(usize),
    /// Values would take more memory than [`Limits::memory`](super::Limits::memory).
    #[error("values take too much memory")]
    Memory,
    /// The form of an encoded map is unknown.
    #[error("unknown form of an encoded map")]
    Regex,
    /// The command is not valid here.
    #[error("command {0} is not valid here")]
    Command(u8),
    /// The message cannot carry this.
    #[error("{0}")]
    Unsuited(&'static str),
}

impl Problem {
    pub(crate) const fn at(self, offset: usize) -> CodecError {
        CodecError { offset, problem: self }
    }
}

pmix_types::message_first!(CodecError);
pmix_types::statuses! {
    CodecError, "that of its [problem](Self::problem), with which to reply to a request", |this| this.problem.status();
    Problem,
    "`ERR_UNPACK_FAILURE` or a more specific one",
    |this| match this {
        Self::End { .. } => Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
        Self::Mismatch { .. } => Status::ERR_PACK_MISMATCH,
        Self::UnknownType(_) => Status::ERR_UNKNOWN_DATA_TYPE,
        Self::NotInDialect { .. } => Status::ERR_NOT_SUPPORTED,
        Self::Memory | Self::Expansion(_) => Status::ERR_OUT_OF_RESOURCE,
        Self::Unsuited(_) => Status::ERR_PACK_FAILURE,
        Self::Nspace(_) | Self::Key(_) | Self::Utf8 | Self::Command(_) => Status::ERR_BAD_PARAM,
        _ => Status::ERR_UNPACK_FAILURE,
    };
}
