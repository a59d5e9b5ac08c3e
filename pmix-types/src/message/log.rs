/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! log_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::manage_operations! { [$($then)*] $($before)*
            /// Data to be logged; answered once it is handed over.
            Log log -> () {
                "log", memory: PLAIN, by: forwards,
                fields: {
                    /// Channels and messages, in order (LOG-01).
                    data: Vec<Info>,
                },
                directives: "Directives for writing it, such as `LOG_ONCE`; may be empty.",
                native: { LOG = 16, c: "PMIX_LOG_CMD" },
                upcalls: {
                    /// Logs data: the key of each info names a channel, such as `LOG_STDERR` (LOG-01). All channels are tried, in this order;
                    /// with `LOG_ONCE`, only until one has taken its message (LOG-02). Must not log through PMIx on the same node again
                    /// (HST-08).
                    ///
                    /// # Errors
                    /// `ERR_PARTIAL_SUCCESS` if some channels failed or are unknown, another status if all of them or a required one did,
                    /// `ERR_NOT_SUPPORTED` for an unknown channel or directive that is required (LOG-04, LOG-05).
                    Log log(Log) -> () {
                        "log", c: ["log" "pmix_server_log_fn_t", "log2" "pmix_server_log2_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: no,
                        serves: ["PMIx_Log", "PMIx_Log_nb"],
                    }
                },
            }
        }
    };
}

/// Whether all channels have accepted the messages to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the Standard has no other success")]
pub enum Logged {
    /// All channels; with `LOG_ONCE`, one.
    Fully,
    /// Some channels have failed, but no required one (LOG-05).
    Partially,
}
