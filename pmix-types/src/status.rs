//! Statuses: the outcomes of operations and the codes of events.

mod table;

use std::fmt;
use std::str::FromStr;

use crate::macros::{ParseEnumError, names_row, parse_number};

/// Outcome of an operation, or the code of an event: any integer.
///
/// The set is open: 0 is success, the Standard's own codes are negative, and positive numbers as well as those below
/// [`EXTERNAL_ERR_BASE`](Self::EXTERNAL_ERR_BASE) belong to users. A number without a constant is preserved and passed
/// on. Old and new names of a status have the same number; [`name`](Self::name) returns the newer one.
///
/// ```
/// use pmix_types::{Status, StatusKind};
///
/// let status = Status::from_raw(-46);
/// assert_eq!(status, Status::ERR_NOT_FOUND);
/// assert_eq!(status.kind(), Some(StatusKind::Error));
/// assert_eq!(status.to_string(), "ERR_NOT_FOUND");
/// assert_eq!(Status::from_raw(-4711).to_string(), "-4711");
/// assert_eq!("PMIX_EXISTS".parse(), Ok(Status::ERR_EXISTS));
/// ```
///
/// # Standard
/// `pmix_status_t`; rule GEN-03.
#[doc(alias = "pmix_status_t")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "an operation may have failed"]
pub struct Status(i32);

/// Code of an event. The Standard draws event codes and return codes from one set of numbers, and some are both.
pub type EventCode = Status;

/// The use of a status in the Standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a status is of one of these kinds")]
pub enum StatusKind {
    /// The operation succeeded, or is already being carried out.
    Success,
    /// The operation failed.
    Error,
    /// Something happened: the code of an event.
    Event,
    /// The result of an event handler.
    HandlerResult,
    /// The first or last number of a range; never sent.
    Boundary,
}

/// One constant of the Standard's table.
struct Row {
    status: Status,
    name: &'static str,
    c_name: &'static str,
    kind: StatusKind,
    meaning: &'static str,
}

impl Status {
    /// The status with this number; every number is allowed.
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The number that stands for this status on the wire and in the C headers.
    #[must_use]
    pub const fn to_raw(self) -> i32 {
        self.0
    }

    /// Name of the constant without `PMIX_`; `None` for a number without one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// Name of the constant in the C headers; `None` for a number without one.
    #[must_use]
    #[doc(alias = "PMIx_Error_string")]
    pub fn c_name(self) -> Option<&'static str> {
        self.row().map(|row| row.c_name)
    }

    /// The meaning of the constant, in one line; `None` for a number without one.
    #[must_use]
    pub fn meaning(self) -> Option<&'static str> {
        self.row().map(|row| row.meaning)
    }

    /// The use of this number in the Standard; `None` for a number without a constant.
    #[must_use]
    pub fn kind(self) -> Option<StatusKind> {
        self.row().map(|row| row.kind)
    }

    /// All constants from the largest number to the smallest; an old name follows the new one.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        table::ROWS.iter().map(|row| row.status)
    }

    /// Whether a constant has this number.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Whether the operation succeeded: [`SUCCESS`](Self::SUCCESS), [`OPERATION_SUCCEEDED`](Self::OPERATION_SUCCEEDED)
    /// or [`OPERATION_IN_PROGRESS`](Self::OPERATION_IN_PROGRESS).
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::SUCCESS | Self::OPERATION_SUCCEEDED | Self::OPERATION_IN_PROGRESS)
    }

    /// Whether this status, as the outcome of an operation, is a failure: it is negative, and neither a success nor the
    /// result of an event handler.
    ///
    /// Event codes are also negative and count as failures here, because an operation may fail with one (as spawn does
    /// with `ERR_PROC_TERM_WO_SYNC`). For the code of an event, use [`kind`](Self::kind).
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 < 0 && !self.is_success() && self.kind() != Some(StatusKind::HandlerResult)
    }

    /// Whether the number is free for users: positive, or below
    /// [`EXTERNAL_ERR_BASE`](Self::EXTERNAL_ERR_BASE).
    #[must_use]
    pub const fn is_user_defined(self) -> bool {
        self.0 > 0 || self.0 < Self::EXTERNAL_ERR_BASE.0
    }

    /// Whether the requested data or process does not exist: `ERR_NOT_FOUND` or `ERR_DATA_VALUE_NOT_FOUND`. An unknown
    /// namespace is `ERR_INVALID_NAMESPACE`, which is not included.
    #[must_use]
    pub const fn is_not_found(self) -> bool {
        matches!(self, Self::ERR_NOT_FOUND | Self::ERR_DATA_VALUE_NOT_FOUND)
    }

    /// Whether a time limit has passed.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::ERR_TIMEOUT)
    }

    /// Whether neither library, server nor host supports the operation.
    #[must_use]
    pub const fn is_not_supported(self) -> bool {
        matches!(self, Self::ERR_NOT_SUPPORTED)
    }

    /// Whether the caller lacks permission.
    #[must_use]
    pub const fn is_no_permission(self) -> bool {
        matches!(self, Self::ERR_NO_PERMISSIONS)
    }

    /// Whether an argument was invalid, so that repeating the call does not help.
    #[must_use]
    pub const fn is_invalid_argument(self) -> bool {
        matches!(
            self,
            Self::ERR_BAD_PARAM
                | Self::ERR_INVALID_ARG
                | Self::ERR_INVALID_ARGS
                | Self::ERR_INVALID_NUM_ARGS
                | Self::ERR_INVALID_KEY
                | Self::ERR_INVALID_KEY_LENGTH
                | Self::ERR_INVALID_KEYVALP
                | Self::ERR_INVALID_VAL
                | Self::ERR_INVALID_VAL_LENGTH
                | Self::ERR_INVALID_LENGTH
                | Self::ERR_INVALID_SIZE
        )
    }

    /// Whether another process ended, or was aborted, before it did its part.
    #[must_use]
    pub const fn is_peer_death(self) -> bool {
        matches!(
            self,
            Self::ERR_PROC_TERM_WO_SYNC
                | Self::ERR_PROC_ABORTED
                | Self::ERR_PROC_REQUESTED_ABORT
                | Self::ERR_PROC_ABORTING
                | Self::ERR_PROC_ABORTED_BY_SIG
                | Self::ERR_PROC_KILLED_BY_CMD
        )
    }

    fn row(self) -> Option<&'static Row> {
        let first = table::ROWS.partition_point(|row| row.status > self);
        table::ROWS.get(first).filter(|row| row.status == self)
    }
}

impl fmt::Display for Status {
    /// The name, or the number; what `FromStr` reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "Status::{name}"),
            None => write!(f, "Status({})", self.0),
        }
    }
}

impl FromStr for Status {
    type Err = ParseEnumError;

    /// Reads a name (with or without `PMIX_`, old or new, in any case) or a decimal number.
    ///
    /// # Errors
    /// The text is neither, or the number does not fit into 32 bits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        table::ROWS
            .iter()
            .find(|row| names_row(text, row.name, row.c_name))
            .map(|row| row.status)
            .or_else(|| parse_number(text).map(Self))
            .ok_or_else(|| ParseEnumError::new("Status", text))
    }
}

impl From<i32> for Status {
    fn from(number: i32) -> Self {
        Self(number)
    }
}

impl From<Status> for i32 {
    fn from(status: Status) -> Self {
        status.0
    }
}

impl fmt::Display for StatusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Event => "event",
            Self::HandlerResult => "handler-result",
            Self::Boundary => "boundary",
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Turns the generated rows into constants and a slice sorted by number, largest first.
macro_rules! statuses {
    ($(
        $(#[doc = $meaning:literal])+
        #[doc(alias = $c_name:literal)]
        $NAME:ident = $number:literal, $kind:ident;
    )+) => {
        impl $crate::Status {
            $( $(#[doc = $meaning])+ #[doc(alias = $c_name)] pub const $NAME: Self = Self($number); )+
        }

        pub(super) static ROWS: &[super::Row] = &[$( super::Row {
            status: $crate::Status::$NAME,
            name: stringify!($NAME),
            c_name: $c_name,
            kind: $crate::StatusKind::$kind,
            meaning: concat!($($meaning),+).trim_ascii_start(),
        } ),+];
    };
}
use statuses;
