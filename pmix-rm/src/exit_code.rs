//! Exit codes of `pmixrun` that are not those of ranks.

/// The job could not be started, or `pmixrun` itself failed.
pub(crate) const NOT_STARTED: i32 = 1;
/// The job took too long, as for timeout(1).
pub(crate) const TIMED_OUT: i32 = 124;
/// The reader of the output has gone away: 128 and SIGPIPE, as a shell would report it.
pub(crate) const NO_READER: i32 = 141;
