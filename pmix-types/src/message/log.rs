use crate::Info;

directed_requests! {
    /// Data to be logged.
    Log {
        /// Directives for writing it, such as `LOG_ONCE`; may be empty.
        directives,
        /// Channels and messages, in order (LOG-01).
        data: Vec<Info>,
    }
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
