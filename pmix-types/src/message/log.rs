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
