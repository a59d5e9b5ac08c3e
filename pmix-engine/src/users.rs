//! Users: who may receive the events of a process; `visibility.rs` decides which jobs it may see.
//!
//! Each user is a trust domain. Processes of the server's own user and of root see everything and reach everybody; those of
//! another user see their own namespace and the jobs of their user, and reach only these.

use pmix_types::message::Failure;
use pmix_types::{Directives, Info, Nspace, ProcId, Status, keys};

use super::Config;

/// On whose authority an event is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// The server, its host, its user or root: everybody may receive it.
    Trusted,
    /// A process of another user.
    Of { uid: u32, nspace: Nspace },
}

/// A receiver of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener<'a> {
    pub(super) proc: &'a ProcId,
    pub(super) uid: u32,
    /// Whether it is no process of a job.
    pub(super) is_tool: bool,
    /// Whether it is the host of this server.
    pub(super) is_server: bool,
}

impl Config {
    /// Whether a user may see everything.
    pub(super) const fn trusts(&self, uid: u32) -> bool {
        uid == self.uid || uid == 0
    }
}

impl Voice {
    /// Whether somebody may receive what it tells. Tools of users who see everything receive all of it. Their jobs do not,
    /// as they must not depend on what another user says.
    pub(super) fn is_for(&self, listener: Listener<'_>, config: &Config) -> bool {
        match self {
            Self::Trusted => true,
            Self::Of { uid, nspace } => {
                listener.uid == *uid
                    || listener.proc.nspace == *nspace
                    || listener.is_tool && config.trusts(listener.uid)
            }
        }
    }
}

/// Reports that a namespace does not belong to this user, and nothing else about it.
pub(super) fn not_own(uid: u32, nspace: &Nspace) -> Failure {
    Failure::new(Status::ERR_NO_PERMISSIONS, format!("job {nspace} does not belong to uid {uid}"))
}

/// Adds user and group of the caller, as reported by the kernel, in place of what the caller claims (GEN-13).
pub(super) fn push_identity(directives: &mut Directives, (uid, gid): (u32, Option<u32>)) {
    directives.remove(&keys::USERID);
    directives.remove(&keys::GRPID);
    directives.push(Info::new(&keys::USERID, uid));
    directives.extend(gid.map(|gid| Info::new(&keys::GRPID, gid)));
}
