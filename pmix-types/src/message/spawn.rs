use std::sync::Arc;

use crate::Nspace;
use crate::job::JobData;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! spawn_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::connect_operations! { [$($then)*] $($before)*
            /// A request to start a job; answered once all its processes have started.
            Spawn spawn -> SpawnReply {
                "spawn", memory: SPAWN, by: forwards,
                fields: {
                    /// Its applications; never empty.
                    apps: Vec<App>,
                },
                directives: "Directives for the whole job; may be empty.",
                native: { SPAWN = 9, c: "PMIX_SPAWNNB_CMD", message: [directives, apps] },
                upcalls: {
                    /// Starts all processes of a job or none (HST-04). Returns the namespace of the job once all processes have started.
                    Spawn spawn(Spawn) -> Nspace {
                        "spawn", c: ["spawn" "pmix_server_spawn_fn_t"],
                        attributes: SPAWN, directives: directives, passed_up: no,
                        serves: ["PMIx_Spawn", "PMIx_Spawn_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! spawn_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::connect_replies! { [$($then)*] $($before)*
            /// The new job.
            Spawn spawn(SpawnReply),
        }
    };
}

/// The answer to a spawn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpawnReply {
    /// Namespace of the new job.
    pub nspace: Nspace,
    /// Its job-level data (SPN-04); `None` if the server does not know it.
    pub job: Option<Arc<JobData>>,
}

impl SpawnReply {
    /// A reply without job-level data.
    pub const fn new(nspace: Nspace) -> Self {
        Self { nspace, job: None }
    }
}
