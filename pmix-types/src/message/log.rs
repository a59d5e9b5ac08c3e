/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! log_operations {
    ($then:ident $($before:tt)*) => {
        $crate::manage_operations! { $then $($before)*
            /// Data to be logged; answered once it is handed over.
            Log log -> () {
                "log", memory: PLAIN,
                fields: {
                    /// Channels and messages, in order (LOG-01).
                    data: Vec<Info>,
                },
                directives: "Directives for writing it, such as `LOG_ONCE`; may be empty.",
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
