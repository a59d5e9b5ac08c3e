//! The table of replies.

use std::sync::Arc;

use bytes::Bytes;

use super::{ConnectReply, Fenced, GetReply, GroupReply, SpawnReply};
use crate::{Info, Pdata, ProcId, Status};

/// Calls a macro with the rows of the table: one for each form of a reply.
///
/// ```text
/// /// What the reply says.
/// Name name(Type) { fields with documentation and type },
/// ```
///
/// Without fields, the type is declared elsewhere, and each wire has a function for it.
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_reply {
    ($then:ident) => {
        $crate::data_replies! { [$then] }
    };
}

/// The type of a reply, if the row has its fields.
macro_rules! reply_type {
    ($(#[$doc:meta])* $type:ty) => {};
    ($(#[$doc:meta])* $type:ident { $($(#[$field_doc:meta])* $field:ident: $field_type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $type {
            $($(#[$field_doc])* pub $field: $field_type,)*
        }

        impl $type {
            /// A reply with these fields.
            pub const fn new($($field: $field_type),*) -> Self {
                Self { $($field),* }
            }
        }
    };
}

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident $snake:ident($($type:tt)+) $({ $($fields:tt)* })?,)+) => {
        $(reply_type! { $(#[$doc])* $($type)+ $({ $($fields)* })? })+

        /// The server's answer to a request that did not fail.
        #[derive(Clone, Debug)]
        #[allow(clippy::exhaustive_enums, reason = "a wire that leaves a reply out must not compile")]
        pub enum Reply {
            /// The request was carried out; there is nothing to return.
            Done,
            $($(#[$doc])* $name($($type)+),)+
        }

        impl From<()> for Reply {
            fn from((): ()) -> Self {
                Self::Done
            }
        }

        impl TryFrom<Reply> for () {
            type Error = Reply;

            fn try_from(reply: Reply) -> Result<Self, Reply> {
                if matches!(reply, Reply::Done) { Ok(()) } else { Err(reply) }
            }
        }

        $(
            impl From<$($type)+> for Reply {
                fn from(reply: $($type)+) -> Self {
                    Self::$name(reply)
                }
            }

            impl TryFrom<Reply> for $($type)+ {
                type Error = Reply;

                fn try_from(reply: Reply) -> Result<Self, Reply> {
                    match reply {
                        Reply::$name(reply) => Ok(reply),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

for_each_reply!(declare);

/// Replies that may be empty.
macro_rules! optional {
    ($($name:ident($reply:ty),)+) => {$(
        impl From<Option<$reply>> for Reply {
            fn from(reply: Option<$reply>) -> Self {
                reply.map_or(Self::Done, Self::$name)
            }
        }

        impl TryFrom<Reply> for Option<$reply> {
            type Error = Reply;

            fn try_from(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::Done => Ok(None),
                    Reply::$name(reply) => Ok(Some(reply)),
                    other => Err(other),
                }
            }
        }
    )+};
}

optional! {
    Fence(Fenced),
    Group(Arc<GroupReply>),
}
