use crate::Status;

directed_requests! {
    /// An event registration.
    #[derive(Default)]
    RegisterEvents {
        /// Filters and the like; may be empty.
        directives,
        /// Codes; empty for all (a default handler).
        codes: Vec<Status>,
    }
}
