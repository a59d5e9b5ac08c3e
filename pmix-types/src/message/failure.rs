use std::fmt;
use std::time::Duration;

use crate::{KeyName, KeyNameError, NspaceError, ProcId, Status, ValueError, escaped};

/// How much later than its limit a request with participants on several nodes may fail: the server first asks the other nodes which
/// participants are missing and what they are doing, and waits no longer than this for their answers. A process waits longer than this
/// before it gives up on a silent server, so that it gets the server's own answer where there is one.
pub const LATENESS: Duration = Duration::from_secs(2);

/// Why a request failed: the status, a message for people, and the processes responsible.
///
/// # Examples
/// ```
/// use pmix_types::message::Failure;
/// use pmix_types::{ProcId, Status};
///
/// let dead = ProcId::new("job-1".parse()?, "3".parse()?);
/// let failure = Failure::new(Status::ERR_PROC_TERM_WO_SYNC, "rank 3 has ended").with_procs(vec![dead]);
/// assert_eq!(failure.to_string(), "rank 3 has ended (ERR_PROC_TERM_WO_SYNC)");
/// assert!(failure.status().is_peer_death());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The Standard's status.
    pub status: Status,
    /// What failed and what to do, in one line without a final full stop; may be empty.
    pub message: String,
    /// Processes responsible for the failure, such as the dead or missing participants; may be empty.
    pub procs: Vec<ProcId>,
}

impl Failure {
    /// A failure with its explanation.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), procs: Vec::new() }
    }

    /// Sets the processes responsible for the failure.
    #[must_use]
    pub fn with_procs(mut self, procs: Vec<ProcId>) -> Self {
        self.procs = procs;
        self
    }
}

impl Failure {
    /// The value of a key has another type than was asked for.
    pub(super) fn mistyped(key: &KeyName, error: ValueError) -> Self {
        Self::new(error.status(), format!("{key}: {error}"))
    }
}

impl From<NspaceError> for Failure {
    fn from(error: NspaceError) -> Self {
        Self::new(Status::ERR_BAD_PARAM, error.to_string())
    }
}

impl From<KeyNameError> for Failure {
    fn from(error: KeyNameError) -> Self {
        Self::new(Status::ERR_BAD_PARAM, error.to_string())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::new(status, "")
    }
}

impl From<crate::DirectiveError> for Failure {
    fn from(error: crate::DirectiveError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

/// Message and status. The message is [`escaped`], as it may come from others.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            self.status.fmt(f)
        } else {
            write!(f, "{} ({})", escaped(&self.message), self.status)
        }
    }
}

impl std::error::Error for Failure {}

crate::message_first!(Failure);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_in_one_line_without_control_characters() {
        let failure = Failure::new(Status::ERR_NOT_FOUND, "no \u{1b}[2J\nforged");
        assert_eq!(failure.to_string(), r"no \u{1b}[2J\nforged (ERR_NOT_FOUND)");
        assert_eq!(Failure::from(Status::ERR_NOT_FOUND).to_string(), "ERR_NOT_FOUND");
    }
}
