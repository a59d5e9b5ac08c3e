use super::Abort;
use crate::ProcId;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! control_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::log_operations! { [$($then)*] $($before)*
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
                native: { ABORT = 1, c: "PMIX_ABORT_CMD", message: [status, message, procs] },
                upcalls: {
                    /// Ends processes. Return `ERR_PARAM_VALUE_NOT_SUPPORTED`, without ending any process, if the host cannot end this set
                    /// (HST-05).
                    Abort abort(Abort) -> () {
                        "abort", c: ["abort" "pmix_server_abort_fn_t"],
                        attributes: NOTHING, directives: none, passed_up: yes,
                        serves: ["PMIx_Abort"],
                    }
                },
            }
            /// A request to control processes, or to have files removed when they have ended.
            JobControl job_control -> Vec<Info> {
                "job control", memory: NAMING, by: engine,
                fields: {
                    /// The processes; empty for the caller's namespace (JCT-01).
                    targets: Vec<ProcId>,
                },
                directives: "The operations to perform.",
                native: { JOB_CONTROL = 18, c: "PMIX_JOB_CONTROL_CMD", message: [targets, directives] },
                upcalls: {
                    /// Signals, pauses or ends processes (JCT-01). A target with rank `WILDCARD` means all processes of its namespace, on
                    /// all nodes. The directives name the actions: `JOB_CTRL_KILL` ends, `JOB_CTRL_TERMINATE` asks to end,
                    /// `JOB_CTRL_SIGNAL` sends a signal by its number, `JOB_CTRL_PAUSE` and `JOB_CTRL_RESUME` stop and continue (JCT-02).
                    /// The server itself registers what is to be cleaned up.
                    ///
                    /// # Errors
                    /// `ERR_NOT_FOUND` for an unknown target, `ERR_NOT_SUPPORTED` for an unknown directive that is required.
                    JobControl job_control(JobControl) -> Infos {
                        "job control", c: ["job_control" "pmix_server_job_control_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: no,
                        serves: ["PMIx_Job_control", "PMIx_Job_control_nb"],
                    }
                },
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
