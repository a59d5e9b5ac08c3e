//! The status of errors that say that a value cannot be made from what was given.

use crate::macros::ParseEnumError;
use crate::map::MapError;
use crate::{InvalidRank, KeyNameError, NspaceError, ParseRankSetError, Status};

macro_rules! bad_param {
    ($($error:ty),+ $(,)?) => {$(
        impl $error {
            /// The Standard's status for this failure: `ERR_BAD_PARAM`.
            pub const fn status(&self) -> Status {
                Status::ERR_BAD_PARAM
            }
        }
    )+};
}

bad_param!(InvalidRank, KeyNameError, MapError, NspaceError, ParseEnumError, ParseRankSetError);
