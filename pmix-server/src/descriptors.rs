//! How many files this process may open.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit before it was first raised.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the number of descriptors that this process may have as far as it may itself.
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

/// The number of files that this process could open (`RLIMIT_NOFILE`, soft) before a server in it raised that; `None` if
/// none has. Whoever starts programs here is to give them this limit again: some of them use `select`, or close all files
/// that there may be.
///
/// # Examples
/// ```
/// assert_eq!(pmix_server::inherited_file_limit(), None, "no server was started here");
/// ```
pub fn inherited_file_limit() -> Option<u64> {
    INHERITED.get().copied()
}
