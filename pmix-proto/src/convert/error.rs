use std::fmt;

use pmix_types::{KeyNameError, NspaceError, Status, escaped};
use thiserror::Error;

/// What a peer sent is not what it must be: where, and why.
///
/// # Examples
/// ```
/// use pmix_proto::v1;
/// use pmix_types::message::Fence;
///
/// let good = v1::Proc { nspace: "job-1".into(), rank: 0 };
/// let bad = v1::Proc { nspace: "".into(), rank: 1 };
/// let fence = v1::Fence { has_procs: true, procs: vec![good, bad], directives: vec![] };
/// let error = Fence::try_from(fence).unwrap_err();
/// assert_eq!(error.to_string(), "procs[1].nspace: a namespace needs at least one character");
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{}{}", Place(path), escaped(&reason.to_string()))]
pub struct ConvertError {
    path: String,
    #[source]
    reason: Reason,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// It has to be present, or it holds a case that this version of the protocol does not know.
    #[error("missing, or of a kind this version does not know")]
    Missing,
    /// A number that its type does not hold.
    #[error("{value} is not within {min} to {max}")]
    OutOfRange {
        /// The number.
        value: i64,
        /// Smallest number allowed.
        min: i64,
        /// Largest number allowed.
        max: i64,
    },
    /// Text that is no namespace.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// Text that is no key.
    #[error(transparent)]
    Key(#[from] KeyNameError),
    /// Values within values within values.
    #[error("values nest more than {limit} deep")]
    TooDeep {
        /// Deepest nesting allowed.
        limit: usize,
    },
    /// More bytes than the receiver is willing to hold.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// More bodies under way in parts at the same time than the receiver is willing to hold.
    #[error("more than {limit} bodies under way in parts")]
    TooManyOpen {
        /// Largest number allowed.
        limit: usize,
    },
    /// A whole body under an id of which a body in parts is not complete.
    #[error("another body of this id is still under way in parts")]
    Interrupted,
    /// Columns of a table whose lengths differ, or a row that points outside of a dictionary.
    #[error("columns of a table do not fit each other")]
    UnevenColumns,
    /// A node or process map, or a job, that contradicts itself.
    #[error("{0}")]
    Invalid(String),
    /// Bytes that are no such message.
    #[error("cannot be decoded: {0}")]
    Malformed(String),
}

impl ConvertError {
    /// An error of the field itself; callers add where it is with [`At`].
    pub(crate) fn new(reason: impl Into<Reason>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    /// Where it is, such as `fence.procs[3].nspace`; empty for the message as a whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there.
    pub const fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The Standard's status for the failure to be answered: `ERR_OUT_OF_RESOURCE` if a limit was exceeded,
    /// otherwise `ERR_BAD_PARAM`.
    pub const fn status(&self) -> Status {
        match self.reason {
            Reason::TooLarge { .. } | Reason::TooManyOpen { .. } => Status::ERR_OUT_OF_RESOURCE,
            _ => Status::ERR_BAD_PARAM,
        }
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

/// Adds to an error the place it happened at, from the inside out.
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

/// The path with a colon, or nothing.
struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

pmix_types::message_first!(ConvertError);
