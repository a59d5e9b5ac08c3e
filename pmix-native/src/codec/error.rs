use pmix_types::{DataType, KeyNameError, NspaceError, Status};
use thiserror::Error;

use crate::Dialect;

/// Why bytes do not decode or a value does not encode, and where.
///
/// The connection can go on after it: messages are framed, so only this one is lost.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("at byte {offset}: {problem}")]
#[non_exhaustive]
pub struct CodecError {
    /// Byte of the message, or of the buffer inside it, from which on it is not understood; when writing, the
    /// number of bytes written before.
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with bytes or a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The message is shorter than what it should hold.
    #[error("{needed} bytes needed, {left} left")]
    End {
        /// Bytes asked for; at least so many.
        needed: u64,
        /// Bytes there are.
        left: usize,
    },
    /// Another type stands where this one is due.
    #[error("{expected} expected, {found} found")]
    Mismatch {
        /// The type that is due.
        expected: DataType,
        /// The type that stands there.
        found: DataType,
    },
    /// The layout of values of this type is not known, so nothing behind can be read.
    #[error("unknown data type {0}")]
    UnknownType(DataType),
    /// Peers of this dialect cannot read values of this type.
    #[error("{data_type} does not exist in dialect {dialect}")]
    NotInDialect {
        /// Type of the value.
        data_type: DataType,
        /// The connection's dialect.
        dialect: Dialect,
    },
    /// A count is negative, or not the one that is due.
    #[error("count {0} does not fit here")]
    Count(i64),
    /// A number does not fit its type.
    #[error("number does not fit {0}")]
    Range(DataType),
    /// A text is no UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// A text does not end with NUL, or its length is negative.
    #[error("text without its NUL")]
    Unterminated,
    /// A floating point number is no number.
    #[error("text is no floating point number")]
    Float,
    /// A text names no namespace.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// A text names no key.
    #[error(transparent)]
    Key(#[from] KeyNameError),
    /// Values within values, deeper than [`Limits::depth`](super::Limits::depth).
    #[error("values are nested too deep")]
    Depth,
    /// Compressed content is broken.
    #[error("compressed content is broken")]
    Compressed,
    /// Compressed content expands to more than [`Limits::expanded`](super::Limits::expanded).
    #[error("compressed content is larger than {0} bytes")]
    Expansion(usize),
    /// Values would take more than [`Limits::memory`](super::Limits::memory).
    #[error("values take too much memory")]
    Memory,
    /// An encoded map has no known form.
    #[error("encoded map of unknown form")]
    Regex,
    /// A command that cannot stand here.
    #[error("command {0} does not fit here")]
    Command(u8),
    /// What was to be encoded has no place in this message.
    #[error("{0}")]
    Unsuited(&'static str),
}

impl Problem {
    pub(crate) const fn at(self, offset: usize) -> CodecError {
        CodecError { offset, problem: self }
    }
}

impl CodecError {
    /// The status with which a request that has this fault is answered.
    pub const fn status(&self) -> Status {
        match self.problem {
            Problem::End { .. } => Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            Problem::Mismatch { .. } => Status::ERR_PACK_MISMATCH,
            Problem::UnknownType(_) => Status::ERR_UNKNOWN_DATA_TYPE,
            Problem::NotInDialect { .. } => Status::ERR_NOT_SUPPORTED,
            Problem::Memory | Problem::Expansion(_) => Status::ERR_OUT_OF_RESOURCE,
            Problem::Unsuited(_) => Status::ERR_PACK_FAILURE,
            Problem::Nspace(_) | Problem::Key(_) | Problem::Command(_) => Status::ERR_BAD_PARAM,
            _ => Status::ERR_UNPACK_FAILURE,
        }
    }
}

pmix_types::message_first!(CodecError);
