use std::sync::Arc;

use crate::job::JobData;
use crate::{Directives, Pid, ProcId};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! greeting_operations {
    ($then:ident $($before:tt)*) => {
        $then! { $($before)*
            /// Finalizes the connection, which may close after the answer (INI-07).
            Finalize finalize -> () {
                "finalize", memory: PLAIN,
                fields: {},
                directives: "`TIMEOUT` and the like; may be empty.",
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
