//! `status()` of errors, those of the values of this crate first.

use crate::job::{JobError, JobErrorKind};
use crate::macros::ParseEnumError;
use crate::map::MapError;
use crate::message::Failure;
use crate::{InvalidRank, KeyNameError, NspaceError, ParseRankSetError, Status};

/// The method `status()` of error types, whose documentation names the status.
///
/// For the errors of this family of crates.
#[doc(hidden)]
#[macro_export]
macro_rules! statuses {
    ($($Type:ty, $doc:literal, |$this:ident| $status:expr;)+) => {$(
        impl $Type {
            #[doc = concat!("The Standard's status for this failure: ", $doc, ".")]
            pub const fn status(&self) -> $crate::Status {
                let $this = self;
                $status
            }
        }
    )+};
}

statuses! {
    InvalidRank, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    KeyNameError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    MapError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    NspaceError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    ParseEnumError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    ParseRankSetError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    JobError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    JobErrorKind, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    Failure, "its [status](Self::status)", |this| this.status;
}
