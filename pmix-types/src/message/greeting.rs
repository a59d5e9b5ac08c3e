use std::sync::Arc;

use crate::job::JobData;
use crate::{Directives, Pid, ProcId};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! greeting_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $($then)*! { $($before)*
            /// Finalizes the connection, which may close after the answer (INI-07).
            Finalize finalize -> () {
                "finalize", memory: PLAIN, by: engine,
                fields: {},
                directives: "`TIMEOUT` and the like; may be empty.",
                native: { FINALIZE = 5, c: "PMIX_FINALIZE_CMD", message: [] },
                upcalls: {
                    /// A client has called finalize and waits for the answer (CLI-06).
                    ClientFinalized client_finalized(ClientFinalized) -> () {
                        "client finalization", c: ["client_finalized" "pmix_server_client_finalized_fn_t"],
                        attributes: own, directives: directives, passed_up: no, absent: accepted,
                        serves: ["PMIx_Finalize"],
                    }
                    /// A tool has called finalize on its last connection, and waits for the answer.
                    ///
                    /// An addition to the Standard, in which hosts learn of finalized clients only: what was to last as long as the tool ends
                    /// here, such as published data (PUB-08).
                    ToolFinalized tool_finalized(ToolFinalized) -> () {
                        "tool finalization", c: [],
                        attributes: own, directives: directives, passed_up: no, absent: accepted,
                        serves: [],
                    }
                },
            }
        }
    };
}

/// Upcalls that no operation causes: processes come, and are lost.
#[macro_export]
#[doc(hidden)]
macro_rules! presence_upcalls {
    ([$($then:tt)*] $($before:tt)*) => {
        $($then)*! { $($before)*
            /// A client has connected. `Ok` lets it in; an error closes its connection (CLI-05).
            ClientConnected client_connected(ClientConnected) -> () {
                "client connections", c: ["client_connected" "pmix_server_client_connected_fn_t", "client_connected2" "pmix_server_client_connected2_fn_t"],
                attributes: own, directives: directives, passed_up: no, absent: accepted,
                serves: ["PMIx_Init"],
            }
            /// Lets a tool in and assigns its identity, or refuses it (TOL-15). The uid of the caller in the context is as reported by
            /// the kernel; so is the gid, if there is one.
            ///
            /// When a tool linked with the C library attaches to the server again, this is called again, with the identity that the tool has
            /// as the requested one. The server refuses that to every other process, whatever the host answers (TOL-09, TOL-12).
            ToolConnected tool_connected(ToolConnected) -> ProcId {
                "tools", c: ["tool_connected" "pmix_server_tool_connection_fn_t", "tool_connected2" "pmix_server_tool_connection2_fn_t"],
                attributes: NOTHING, directives: directives, passed_up: no,
                serves: ["PMIx_tool_init", "PMIx_tool_attach_to_server"],
            }
            /// A client's last connection has ended without finalize: it is dead, or lost to PMIx. Its pending collectives have
            /// already ended for the other participants. The numbers of the contexts show the order of several losses.
            ///
            /// Nothing waits for the answer; a failure is logged. An addition to the Standard, in which hosts learn of a loss through
            /// an event.
            ClientLost client_lost(ClientLost) -> () {
                "lost clients", c: [],
                attributes: own, directives: directives, passed_up: no, absent: accepted,
                serves: [],
            }
            /// A tool's last connection has ended without finalize: it is dead, or lost to PMIx.
            ///
            /// Nothing waits for the answer; a failure is logged. An addition to the Standard, in which hosts learn of a loss through
            /// an event.
            ToolLost tool_lost(ToolLost) -> () {
                "lost tools", c: [],
                attributes: own, directives: directives, passed_up: no, absent: accepted,
                serves: [],
            }
        }
    };
}

/// The first message of a process: its identity.
///
/// The server checks it against the credentials that the kernel reports and against the registration (CLI-02, CLI-03).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hello {
    /// Identity of the process.
    pub identity: Identity,
    /// Its process id, for tables. The one reported by the kernel takes precedence.
    pub pid: Pid,
    /// Directives of its init; may be empty.
    pub directives: Directives,
}

impl Hello {
    /// A greeting without directives.
    pub const fn new(identity: Identity, pid: Pid) -> Self {
        Self { identity, pid, directives: Directives::new() }
    }
}

/// Role and name of a connecting process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// A process that was launched with this id.
    Client(ProcId),
    /// A tool, with the id that it requests, if any.
    Tool(Option<ProcId>),
}

/// The server's answer to [`Hello`]: the process is connected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Welcome {
    /// Identity of the process from now on.
    pub proc: ProcId,
    /// Identity of the server.
    pub server: ProcId,
    /// Name of the node that both are on.
    pub hostname: String,
    /// Job-level data of the process's own namespace; `None` for a tool.
    pub job: Option<Arc<JobData>>,
}

impl Welcome {
    /// The answer to a process that belongs to no job.
    pub const fn new(proc: ProcId, server: ProcId, hostname: String) -> Self {
        Self { proc, server, hostname, job: None }
    }

    /// Sets the job-level data.
    #[must_use]
    pub fn with_job(mut self, job: Arc<JobData>) -> Self {
        self.job = Some(job);
        self
    }
}
