use bytes::Bytes;

use crate::{Directives, IofChannels, ProcId};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! iof_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::greeting_operations! { [$($then)*] $($before)*
            /// A subscription to the output of processes; the reply is its number.
            IofPull iof_pull -> u64 {
                "pull output", memory: PLAIN, by: iof,
                fields: {
                    /// The processes; rank `WILDCARD` for all of a namespace. Never empty.
                    procs: Vec<ProcId>,
                    /// The channels; standard input cannot be among them (IOF-02).
                    channels: IofChannels,
                },
                directives: "`IOF_COPY`, `IOF_BUFFERING_SIZE` and the like; may be empty.",
                native: { IOF_PULL = 22, c: "PMIX_IOF_PULL_CMD", since: [3, 0, 0] },
                upcalls: {
                    /// Starts or ends forwarding of output (IOF-01).
                    IofPull iof_pull(IofPullRequest) -> () {
                        "forwarding of output", c: ["iof_pull" "pmix_server_iof_fn_t"],
                        attributes: IOF_PULL, directives: none, passed_up: no,
                        serves: ["PMIx_IOF_pull"],
                    }
                },
            }
            /// Ends an output subscription, after its buffered output was sent.
            IofDeregister iof_deregister -> () {
                "deregister output", memory: PLAIN, by: iof,
                fields: {
                    /// Number of the subscription.
                    registration: u64,
                },
                functions: ["PMIx_IOF_deregister"],
                native: { IOF_DEREGISTER = 29, c: "PMIX_IOF_DEREG_CMD", since: [4, 0, 0] },
            }
            /// Input for processes; answered once it is accepted (IOF-10).
            IofPush iof_push -> () {
                "push input", memory: DATA, by: engine,
                fields: {
                    /// The receivers; rank `WILDCARD` for all of a namespace. Never empty.
                    targets: Vec<ProcId>,
                    /// The input; may be empty, with `IOF_COMPLETE` at its end.
                    data: Bytes,
                },
                directives: "`IOF_COMPLETE` and the like; may be empty.",
                about: own,
                native: { IOF_PUSH = 23, c: "PMIX_IOF_PUSH_CMD", since: [3, 0, 0], message: [targets, directives, data] },
                upcalls: {
                    /// Passes input to processes (IOF-10).
                    PushStdin push_stdin(IofPush) -> () {
                        "forwarding of input", c: ["push_stdin" "pmix_server_stdin_fn_t"],
                        attributes: IOF_PUSH, directives: directives, passed_up: no,
                        serves: ["PMIx_IOF_push"],
                    }
                },
            }
        }
    };
}

/// Output of a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// The process that wrote it; rank `WILDCARD` for a notice about the whole namespace.
    pub source: ProcId,
    /// The channel it was written to; several in a notice about a whole namespace.
    pub channels: IofChannels,
    /// A piece of the output, which may split lines and characters (IOF-09); may be empty.
    pub data: Bytes,
    /// More about it, such as `IOF_COMPLETE`; may be empty.
    pub info: Directives,
}

impl Output {
    /// Output without further information.
    pub const fn new(source: ProcId, channels: IofChannels, data: Bytes) -> Self {
        Self { source, channels, data, info: Directives::new() }
    }
}
