use std::fmt;

use pmix_types::for_each_request;

use crate::Version;

/// Number of a request. Unknown numbers are preserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "pmix_cmd_t")]
pub struct Command(u8);

macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident = $number:literal $([$major:literal, $minor:literal, $release:literal])?;)+) => {
        impl Command {
            $($(#[$meta])* pub const $name: Self = Self($number);)+

            /// Name of the constant; `None` for a number without one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// The first release of the C library whose servers know the command; `None` if all do, or if it has no name.
            pub const fn since(self) -> Option<Version> {
                match self {
                    $($(Self::$name => Some(Version::new($major, $minor, $release)),)?)+
                    _ => None,
                }
            }

            /// All commands with a name.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

/// The commands of operations, which stand in their rows, and the others.
macro_rules! all_commands {
    ($(
        $request:ident $snake:ident {
            names: $names:tt, about: $about:tt, by: $by:tt,
            native: [$({ $name:ident = $number:literal $(, c: $c:literal)? $(, since: $since:tt)? $(, message: $message:tt)? })?]
        }
        $fields:tt $rest:tt
    )+) => {
        commands! {
            $($(
                #[doc = concat!("The command of [`", stringify!($request), "`](pmix_types::message::", stringify!($request), ").")]
                $(#[doc(alias = $c)])?
                $name = $number $($since)?;
            )?)+
            /// Requests the data of the caller's job: the first request of every process.
            #[doc(alias = "PMIX_REQ_CMD")]
            REQ = 0;
            /// Joins a group; in practice an event does this.
            #[doc(alias = "PMIX_GROUP_JOIN_CMD")]
            GROUP_JOIN = 25 [4, 0, 0];
            /// Invites to a group; in practice an event does this.
            #[doc(alias = "PMIX_GROUP_INVITE_CMD")]
            GROUP_INVITE = 26 [4, 0, 0];
            /// Updates a fabric.
            #[doc(alias = "PMIX_FABRIC_UPDATE_CMD")]
            FABRIC_UPDATE = 31 [4, 0, 0];
            /// Requests distances to devices.
            #[doc(alias = "PMIX_COMPUTE_DEVICE_DISTANCES_CMD")]
            DEVICE_DISTANCES = 32 [4, 0, 0];
            /// Requests current data of a process, instead of cached data.
            #[doc(alias = "PMIX_REFRESH_CACHE")]
            REFRESH = 33 [5, 0, 0];
        }
    };
}
for_each_request!(all_commands);

impl Command {
    /// No command: that of an operation which the native wire cannot carry.
    pub const NONE: Self = Self(u8::MAX);

    /// The command with this number; every number is allowed.
    pub const fn from_raw(number: u8) -> Self {
        Self(number)
    }

    /// The number on the wire.
    pub const fn to_raw(self) -> u8 {
        self.0
    }

    /// Whether the peer expects a reply.
    pub const fn is_answered(self) -> bool {
        self.0 != Self::DEREGISTER_EVENTS.0
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "command {}", self.0),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({self})")
    }
}
