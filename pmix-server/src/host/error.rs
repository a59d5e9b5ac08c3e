use std::fmt;

use pmix_types::message::Failure;
use pmix_types::{DirectiveError, ProcId, Status, escaped};

/// What a host answers when an upcall fails.
pub type HostResult<T> = Result<T, HostError>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failed upcall. The requesting process receives the status, the message and the processes responsible for the failure;
/// the cause goes to the server's log.
///
/// # Examples
/// ```
/// use pmix_server::{HostError, types::Status};
/// let error = HostError::new(Status::ERR_NOT_FOUND, "no job of that name");
/// assert_eq!(error.status(), Status::ERR_NOT_FOUND);
/// ```
pub struct HostError {
    status: Status,
    message: String,
    procs: Vec<ProcId>,
    source: Option<Source>,
}

impl HostError {
    /// A failure with a message for the requesting process.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), procs: Vec::new(), source: None }
    }

    /// The host does not support `what` (GEN-11).
    pub fn not_supported(what: &str) -> Self {
        Self::new(Status::ERR_NOT_SUPPORTED, format!("the host does not support {what}"))
    }

    /// Names the processes responsible for the failure, such as the dead participants of a fence. The requesting process
    /// receives them.
    #[must_use]
    pub fn with_procs(mut self, procs: impl Into<Vec<ProcId>>) -> Self {
        self.procs = procs.into();
        self
    }

    /// Adds a cause, which goes to the log only.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The Standard's status.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The message for the requesting process; may be empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Processes responsible for the failure; may be empty.
    pub fn procs(&self) -> &[ProcId] {
        &self.procs
    }
}

/// The message with control characters escaped, since a host may repeat text from a process.
impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() { self.status.fmt(f) } else { escaped(&self.message).fmt(f) }
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

impl From<Status> for HostError {
    fn from(status: Status) -> Self {
        Self::new(status, "")
    }
}

impl From<DirectiveError> for HostError {
    fn from(error: DirectiveError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

/// Passes on the failure of another node's host.
impl From<Failure> for HostError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.status, failure.message).with_procs(failure.procs)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::new(error.status, error.message).with_procs(error.procs)
    }
}

pmix_types::message_first!(HostError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_repeats_of_others_is_shown_in_one_line() {
        let error = HostError::new(Status::ERR_NOT_FOUND, "no \u{1b}[2J\nforged");
        assert_eq!(error.to_string(), r"no \u{1b}[2J\nforged");
    }
}
