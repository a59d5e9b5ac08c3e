use crate::Info;

directed_requests! {
    /// Data to be logged.
    Log {
        /// How to write it; may be empty.
        directives,
        /// Channels and messages, in order (LOG-01).
        data: Vec<Info>,
    }
}
