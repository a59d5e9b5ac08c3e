//! The limit of open files of this process.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit before it was first raised.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises this process's soft limit of descriptors to the hard limit.
pub(crate) fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current.filter(|_| current != maximum) else { return };
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            INHERITED.get_or_init(|| soft);
        }
        Err(error) => tracing::warn!(?current, ?maximum, %error, "cannot raise the limit of open files"),
    }
}

/// The soft limit of open files (`RLIMIT_NOFILE`) before a server in this process raised it; `None` if no server has.
/// Restore this limit in the programs that you start: some of them use `select`, or close every possible descriptor.
///
/// # Examples
/// ```
/// assert_eq!(pmix_server::inherited_file_limit(), None, "no server was started here");
/// ```
pub fn inherited_file_limit() -> Option<u64> {
    INHERITED.get().copied()
}
