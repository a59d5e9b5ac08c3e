use std::fmt;

use pmix_types::{KeyNameError, NspaceError, Status, escaped};
use thiserror::Error;

/// A malformed message: the position and the reason.
///
/// # Examples
/// ```
/// use pmix_proto::v1;
/// use pmix_types::message::Fence;
///
/// let good = v1::Proc { nspace: "job-1".into(), rank: 0 };
/// let bad = v1::Proc { nspace: "".into(), rank: 1 };
/// let fence = v1::Fence { procs: Some(v1::Procs { procs: vec![good, bad] }), ..v1::Fence::default() };
/// let error = Fence::try_from(fence).unwrap_err();
/// assert_eq!(error.to_string(), "procs[1].nspace: a namespace needs at least one character");
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{}{}", PathPrefix(path), escaped(&reason.to_string()))]
pub struct ConvertError {
    path: String,
    #[source]
    reason: Reason,
}

/// The error of a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A required field is missing, or of a kind unknown to this version of the protocol.
    #[error("missing, or of a kind unknown to this version")]
    Missing,
    /// A number is out of range for its type.
    #[error("{value} is not between {min} and {max}")]
    OutOfRange {
        /// The number.
        value: i64,
        /// Smallest number allowed.
        min: i64,
        /// Largest number allowed.
        max: i64,
    },
    /// A text is not a valid namespace.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// A text is not a valid key.
    #[error(transparent)]
    Key(#[from] KeyNameError),
    /// Values are nested too deep.
    #[error("values are nested more than {limit} deep")]
    TooDeep {
        /// Deepest nesting allowed.
        limit: usize,
    },
    /// The receiver's limit is exceeded.
    #[error("{what} exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The object that is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many bodies are incomplete at the same time.
    #[error("more than {limit} incomplete bodies")]
    TooManyOpen {
        /// Largest number allowed.
        limit: usize,
    },
    /// A complete body has the id of an incomplete one.
    #[error("another body of this id is still incomplete")]
    Interrupted,
    /// Columns of a table differ in length, or a row refers to a missing entry of a dictionary.
    #[error("inconsistent columns of a table")]
    UnevenColumns,
    /// A node map, process map or job is inconsistent.
    #[error("{0}")]
    Invalid(String),
    /// The bytes are not such a message.
    #[error("cannot be decoded: {0}")]
    Malformed(String),
}

impl ConvertError {
    /// An error of the field itself; callers add its position with [`At`].
    pub(crate) fn new(reason: impl Into<Reason>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    /// The position, such as `fence.procs[3].nspace`; empty for the message as a whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The reason.
    pub const fn reason(&self) -> &Reason {
        &self.reason
    }

    fn below(mut self, outer: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{joint}{}", self.path);
        self
    }
}

impl From<prost::DecodeError> for ConvertError {
    fn from(error: prost::DecodeError) -> Self {
        Self::new(Reason::Malformed(error.to_string()))
    }
}

impl From<ConvertError> for pmix_types::message::Failure {
    fn from(error: ConvertError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

/// Adds positions to an error, from the inside out.
pub(crate) trait At {
    /// In this field.
    fn at(self, field: &str) -> Self;
    /// In this element of a repeated field.
    fn at_index(self, index: usize) -> Self;
}

impl<T> At for Result<T, ConvertError> {
    fn at(self, field: &str) -> Self {
        self.map_err(|error| error.below(field))
    }

    fn at_index(self, index: usize) -> Self {
        self.map_err(|error| error.below(&format!("[{index}]")))
    }
}

/// The path followed by a colon, or nothing.
struct PathPrefix<'a>(&'a str);

impl fmt::Display for PathPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

pmix_types::message_first!(ConvertError);
pmix_types::statuses! {
    ConvertError, "that of its [reason](Self::reason), with which to reply to a request", |this| this.reason.status();
    Reason,
    "`ERR_OUT_OF_RESOURCE` if a limit was exceeded, otherwise `ERR_BAD_PARAM`",
    |this| match this {
        Self::TooLarge { .. } | Self::TooManyOpen { .. } => Status::ERR_OUT_OF_RESOURCE,
        _ => Status::ERR_BAD_PARAM,
    };
}
