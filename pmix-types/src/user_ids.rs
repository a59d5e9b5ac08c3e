use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Declares a newtype around a number by which the system knows a user or a group.
macro_rules! system_id {
    ($(#[$meta:meta])* pub struct $Type:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $Type(u32);

        impl $Type {
            /// The id with this number; every number is allowed.
            pub const fn new(raw: u32) -> Self {
                Self(raw)
            }

            /// The number, for system calls and wires.
            pub const fn as_raw(self) -> u32 {
                self.0
            }
        }

        impl From<u32> for $Type {
            fn from(raw: u32) -> Self {
                Self(raw)
            }
        }

        impl From<$Type> for u32 {
            fn from(id: $Type) -> Self {
                id.0
            }
        }

        /// The bare number.
        impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// The bare number, as in log lines.
        impl fmt::Debug for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $Type {
            type Err = ParseIntError;

            /// Decimal digits; names of users and groups are not looked up.
            fn from_str(text: &str) -> Result<Self, ParseIntError> {
                text.parse().map(Self)
            }
        }
    };
}

system_id! {
    /// Number of a user of the system, as the kernel knows it.
    ///
    /// A user id is not an integer: it has no arithmetic, and is never mistaken for the id of a group ([`Gid`]).
    /// It is displayed as the bare number.
    ///
    /// # Standard
    /// `uid_t`; the value of `PMIX_USERID`.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{Directives, Uid, keys};
    ///
    /// let uid: Uid = "1000".parse()?;
    /// assert_eq!((uid, uid.to_string().as_str()), (Uid::new(1000), "1000"));
    /// assert!(Uid::ROOT.is_root() && !uid.is_root());
    /// let directives = Directives::new().with(keys::USERID, uid);
    /// assert_eq!(directives.get(keys::USERID)?, Some(uid));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "uid_t")]
    pub struct Uid
}

impl Uid {
    /// The user who may do everything.
    pub const ROOT: Self = Self(0);
    /// The user who stands for all that a namespace of users does not have, unless the system is set to another one.
    #[doc(alias = "overflowuid")]
    pub const NOBODY: Self = Self(65534);

    /// Whether this is [`Uid::ROOT`].
    pub const fn is_root(self) -> bool {
        self.0 == Self::ROOT.0
    }
}

system_id! {
    /// Number of a group of users of the system, as the kernel knows it; a [`Uid`] is the number of a user.
    ///
    /// It is displayed as the bare number.
    ///
    /// # Standard
    /// `gid_t`; the value of `PMIX_GRPID`.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{Directives, Gid, keys};
    ///
    /// let gid: Gid = "100".parse()?;
    /// assert_eq!((gid, gid.to_string().as_str()), (Gid::new(100), "100"));
    /// assert!(Gid::ROOT.is_root() && !gid.is_root());
    /// let directives = Directives::new().with(keys::GRPID, gid);
    /// assert_eq!(directives.get(keys::GRPID)?, Some(gid));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "gid_t")]
    pub struct Gid
}

impl Gid {
    /// The group of root.
    pub const ROOT: Self = Self(0);
    /// The group that stands for all that a namespace of users does not have, unless the system is set to another one.
    #[doc(alias = "nogroup", alias = "overflowgid")]
    pub const NOBODY: Self = Self(65534);

    /// Whether this is [`Gid::ROOT`].
    pub const fn is_root(self) -> bool {
        self.0 == Self::ROOT.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Value, ValueType};

    /// Messages, log lines and files have the number and nothing else.
    #[test]
    fn ids_are_written_and_read_as_numbers() {
        let (uid, gid) = (Uid::new(1000), Gid::from(u32::MAX));
        assert_eq!(format!("{uid} {uid:?} {uid:>6} {gid} {gid:?}"), "1000 1000   1000 4294967295 4294967295");
        assert_eq!("1000".parse(), Ok(uid));
        assert_eq!("alice".parse::<Uid>(), "alice".parse::<u32>().map(Uid::new));
        assert_eq!("-1".parse::<Gid>(), "-1".parse::<u32>().map(Gid::new));
        assert_eq!((u32::from(uid), gid.as_raw()), (1000, u32::MAX));
    }

    #[test]
    fn values_hold_ids_as_the_numbers_that_they_are() {
        let uid = Uid::new(1000);
        assert_eq!(Value::from(uid), Value::Uint32(1000));
        assert_eq!(uid.into_value(DataType::UINT32), Value::Uint32(1000));
        assert_eq!(Gid::new(7).into_value(DataType::UINT64), Value::Uint64(7));
        assert_eq!(Value::Int64(7).get(), Ok(Gid::new(7)));
        assert_eq!(Value::from(-1).get::<Uid>().map(Uid::as_raw), Value::from(-1).get::<u32>());
        assert_eq!(Value::from("root").get::<Uid>().map(Uid::as_raw), Value::from("root").get::<u32>());
    }
}
