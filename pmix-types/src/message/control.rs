use crate::ProcId;

/// A request to abort processes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Abort {
    /// The exit status to report.
    pub status: i32,
    /// Message for the user; may be empty.
    pub message: String,
    /// The processes to abort; empty for the caller's namespace (ABT-01).
    pub procs: Vec<ProcId>,
}

impl Abort {
    /// A request to abort the caller's namespace.
    pub fn new(status: i32, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), procs: Vec::new() }
    }

    /// Sets the processes to abort.
    #[must_use]
    pub fn with_procs(mut self, procs: Vec<ProcId>) -> Self {
        self.procs = procs;
        self
    }
}

directed_requests! {
    /// A request to control processes.
    JobControl {
        /// The operations to perform.
        directives,
        /// The processes; empty for the caller's namespace (JCT-01).
        targets: Vec<ProcId>,
    }
}
