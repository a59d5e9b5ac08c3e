use super::Abort;
use crate::ProcId;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! control_operations {
    ($then:ident $($before:tt)*) => {
        $crate::log_operations! { $then $($before)*
            /// A request to abort processes; answered if the caller survives.
            Abort abort -> () {
                "abort", memory: PLAIN,
                fields: {
                    /// The exit status to report.
                    status: i32,
                    /// Message for the user; may be empty.
                    message: String,
                },
                more: {
                    /// The processes to abort; empty for the caller's namespace (ABT-01).
                    procs: Vec<ProcId> = Vec::new(),
                },
            }
            /// A request to control processes, or to have files removed when they have ended.
            JobControl job_control -> Vec<Info> {
                "job control", memory: NAMING,
                fields: {
                    /// The processes; empty for the caller's namespace (JCT-01).
                    targets: Vec<ProcId>,
                },
                directives: "The operations to perform.",
            }
        }
    };
}

impl Abort {
    /// Sets the processes to abort.
    #[must_use]
    pub fn with_procs(mut self, procs: Vec<ProcId>) -> Self {
        self.procs = procs;
        self
    }
}
