//! Who sends a request: processes with the user and group that the kernel reports.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_server::UpcallContext;
use pmix_server::host::HostResult;
use pmix_types::{Directives, Gid, ProcId, Uid, keys};

/// A process with its user and group, as reported by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The process.
    pub proc: ProcId,
    /// Its user.
    pub uid: Uid,
    /// Its group; `None` if unknown, so that it belongs to no group.
    pub gid: Option<Gid>,
}

impl User {
    /// A process of this user and group.
    pub const fn new(proc: ProcId, uid: Uid, gid: Option<Gid>) -> Self {
        Self { proc, uid, gid }
    }

    /// The caller of an upcall.
    pub fn of(cx: &UpcallContext) -> Self {
        Self { proc: cx.caller.clone(), uid: cx.uid, gid: cx.gid }
    }
}

/// Whether a user may do everything: the server's own, and root.
pub(crate) fn is_trusted(uid: Uid) -> bool {
    uid == own_uid() || uid.is_root()
}

/// The user that the server runs as.
pub(crate) fn own_uid() -> Uid {
    Uid::new(rustix::process::geteuid().as_raw())
}

/// The user and the group that the server runs as.
pub(crate) fn own_user() -> (Uid, Gid) {
    (own_uid(), Gid::new(rustix::process::getegid().as_raw()))
}

/// A user who is neither that of this process nor root.
#[cfg(test)]
pub(crate) fn another_uid() -> Uid {
    Uid::new(own_uid().as_raw() + 1)
}

/// Takes the identity that comes with a request: the one that counts is that of the context.
pub(crate) fn take_identity(directives: &mut Directives) -> HostResult<()> {
    directives.take(&keys::USERID)?;
    directives.take(&keys::GRPID)?;
    Ok(())
}

/// Locks a table. A panic elsewhere leaves these tables whole: each lock holds one change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
