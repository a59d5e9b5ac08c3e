use std::sync::Arc;

use super::{ConnectReply, Credential, Fenced, GetReply, GroupReply, LookupReply, QueryReply, SpawnReply};
use crate::{Info, ProcId};

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident($reply:ty),)+) => {
        /// The server's answer to a request that did not fail.
        #[derive(Clone, Debug)]
        #[allow(clippy::exhaustive_enums, reason = "a wire that leaves a reply out must not compile")]
        pub enum Reply {
            /// The request was carried out; there is nothing to return.
            Done,
            $($(#[$doc])* $name($reply),)+
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
            impl From<$reply> for Reply {
                fn from(reply: $reply) -> Self {
                    Self::$name(reply)
                }
            }

            impl TryFrom<Reply> for $reply {
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

replies! {
    /// What a get has found.
    Get(GetReply),
    /// The fence is complete; with the data of all participants if it was collected.
    Fence(Fenced),
    /// The results, one info per query (QRY-02), and whether some keys were not found (QRY-03).
    Query(QueryReply),
    /// The registration is in force under this number.
    Registered(u64),
    /// The data found, and whether some keys were not found (PUB-12).
    Lookup(LookupReply),
    /// The new job.
    Spawn(SpawnReply),
    /// The processes are connected.
    Connect(ConnectReply),
    /// The group is complete; all its members receive the same reply.
    Group(Arc<GroupReply>),
    /// Results of the request; may be empty.
    Info(Vec<Info>),
    /// The credential.
    Credential(Credential),
    /// Processes; may be empty.
    Procs(Vec<ProcId>),
    /// Names of nodes, in order and without duplicates; may be empty.
    Nodes(Vec<String>),
}

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
