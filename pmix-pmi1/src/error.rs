use std::fmt;

use crate::{MAX_LINE, MAX_SPAWN, Token};

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no end of a line within [`MAX_LINE`] bytes.
    #[error("a line has more than {MAX_LINE} bytes")]
    LongLine,
    /// A spawn has more than [`MAX_SPAWN`] bytes.
    #[error("a spawn has more than {MAX_SPAWN} bytes")]
    LongSpawn,
    /// A message has a line that is not UTF-8.
    #[error("cmd={command}: received a line that is not valid UTF-8")]
    NotText {
        /// The name of the message.
        command: Token,
    },
    /// A line does not begin with a command.
    #[error("a line begins with {0:?} instead of cmd=NAME")]
    NoCommand(Excerpt),
    /// A line inside a spawn is not part of one.
    #[error("unexpected line {0:?} in a spawn request")]
    NotOfSpawn(Excerpt),
    /// A message lacks something.
    #[error("cmd={command} has no {key}")]
    Missing {
        /// The name of the message.
        command: Token,
        /// The key that is missing.
        key: &'static str,
    },
    /// A message has a value that it cannot have.
    #[error("cmd={command}: {key} is not {expected}")]
    Invalid {
        /// The name of the message.
        command: Token,
        /// The key of the value.
        key: &'static str,
        /// What the value must be.
        expected: &'static str,
    },
    /// The text cannot be a value in a line.
    #[error(
        "a value must be shorter than {MAX_LINE} bytes and must not contain spaces, newlines or NUL bytes"
    )]
    NotAValue,
    /// An answer that is not known.
    #[error("cmd={0} is not known")]
    Unknown(Token),
}

impl Error {
    /// The name of the message, if the rest of it is to blame: further messages can be read. Otherwise nobody knows where the
    /// next one begins.
    pub const fn command(&self) -> Option<&Token> {
        match self {
            Self::NotText { command }
            | Self::Missing { command, .. }
            | Self::Invalid { command, .. }
            | Self::Unknown(command) => Some(command),
            _ => None,
        }
    }
}

/// The beginning of a line, for messages.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    pub(crate) fn of(line: &str) -> Self {
        Self(line.chars().take(32).collect())
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
