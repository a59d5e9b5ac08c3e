use std::sync::Arc;

use crate::job::JobData;
use crate::{Nspace, Rank};

use super::Disconnect;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! connect_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::group_operations! { [$($then)*] $($before)*
            /// Entry into a connect.
            Connect connect -> ConnectReply {
                "connect", memory: NAMING, by: engine,
                fields: {
                    /// The participants, including the caller; never empty (CON-03).
                    procs: Vec<ProcId>,
                },
                directives: "`CONNECT_ID`, `TIMEOUT` and the like; may be empty.",
                names: own,
                native: { CONNECT = 10, c: "PMIX_CONNECTNB_CMD", message: [procs, directives] },
                upcalls: {
                    /// Connects processes with the other servers (CON-02). The nodes in the request lack those of a namespace that is not
                    /// known here: ask the other servers for it, as in [`direct_modex`](Self::direct_modex).
                    Connect connect(ConnectRequest) -> Connected {
                        "connect", c: ["connect" "pmix_server_connect_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Connect", "PMIx_Connect_nb"],
                    }
                },
            }
            /// Entry into a disconnect, or the request of the caller alone to leave a connected set (CON-14).
            Disconnect disconnect -> () {
                "disconnect", memory: NAMING, by: engine,
                fields: {
                    /// The participants, as named in the connect; empty if the set is named by its namespace.
                    procs: Vec<ProcId>,
                },
                more: {
                    /// Namespace of the connected set that the caller alone leaves.
                    nspace: Option<Nspace> = None,
                },
                directives: "`CONNECT_ID`, `TIMEOUT` and the like; may be empty.",
                names: own,
                about: own,
                native: { DISCONNECT = 11, c: "PMIX_DISCONNECTNB_CMD", message: [procs, directives] },
                upcalls: {
                    /// Disconnects processes with the other servers, those on the nodes in the request (CON-14). If the request has the
                    /// namespace of a connected set, one process leaves it without waiting for the others.
                    Disconnect disconnect(DisconnectRequest) -> () {
                        "disconnect", c: ["disconnect" "pmix_server_disconnect_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Disconnect", "PMIx_Disconnect_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! connect_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::group_replies! { [$($then)*] $($before)*
            /// The processes are connected.
            Connect connect(ConnectReply),
        }
    };
}

/// The answer to a connect.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectReply {
    /// Job-level data of the other participating namespaces (CON-08).
    pub jobs: Vec<Arc<JobData>>,
    /// Namespace of the connected set, if the host made one (CON-06).
    pub nspace: Option<Nspace>,
    /// Rank of the caller in that namespace.
    pub rank: Option<Rank>,
}

impl Disconnect {
    /// The caller alone leaves a connected set.
    pub fn leave(nspace: Nspace) -> Self {
        let mut leave = Self::new(Vec::new());
        leave.nspace = Some(nspace);
        leave
    }
}
