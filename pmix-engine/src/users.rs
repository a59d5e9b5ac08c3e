//! Users: what a process may see of the jobs of other users, and who receives its events.
//!
//! Each user is a trust domain. Processes of the server's own user and of root see everything and reach everybody; those of
//! another user see their own namespace and the jobs of their user, and reach only these.

use pmix_types::job::Target;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, Nspace, ProcId, Status, keys};

use super::context::Context;
use super::registry::{Job, unknown_nspace};
use super::{Asked, Caller, Config};

/// On whose authority something is told.
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
    pub(super) is_tool: bool,
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

impl Job {
    /// The user who owns the job according to its data and its processes; `None` if that is unknown or ambiguous.
    pub(super) fn owner(&self) -> Option<u32> {
        let stated = self.data.lookup(keys::USERID.name(), &Target::Job).and_then(|value| value.get().ok());
        let mut users = stated.into_iter().chain(self.clients.values().map(|client| client.uid));
        let first = users.next()?;
        users.all(|uid| uid == first).then_some(first)
    }
}

impl Context {
    /// Whether a process may see a namespace. One with an unknown owner is hidden from other users.
    pub(super) fn may_see(&self, by: &ProcId, uid: u32, nspace: &Nspace) -> bool {
        self.config.trusts(uid)
            || by.nspace == *nspace
            || self.jobs.get(nspace).is_some_and(|job| job.owner() == Some(uid))
    }

    /// A job that the caller may see; any other fails in the same way as one that does not exist.
    pub(super) fn visible_job(&self, by: &Caller, nspace: &str) -> Result<&Job, Failure> {
        let job = self.jobs.get(nspace).filter(|job| self.may_see(&by.proc, by.uid, job.data.nspace()));
        job.ok_or_else(|| unknown_nspace(nspace))
    }

    /// All jobs that the caller may see, ordered by name.
    pub(super) fn visible_jobs<'a>(&'a self, by: &'a Caller) -> impl Iterator<Item = &'a Job> {
        self.jobs.values().filter(|job| self.may_see(&by.proc, by.uid, job.data.nspace()))
    }

    /// Refuses an operation with processes that are known to belong to another user.
    pub(super) fn check_partners<'a>(
        &self,
        asked: &Asked,
        nspaces: impl IntoIterator<Item = &'a Nspace>,
    ) -> Result<(), Failure> {
        let Caller { proc, uid, .. } = &asked.by;
        let is_others = |nspace: &&Nspace| {
            let is_known = self.jobs.get(*nspace).is_some_and(Job::says_whose_it_is);
            is_known && !self.may_see(proc, *uid, nspace)
        };
        nspaces.into_iter().find(is_others).map_or(Ok(()), |nspace| Err(not_own(*uid, nspace)))
    }

    /// The voice of a process.
    pub(super) fn voice_of(&self, uid: u32, proc: &ProcId) -> Voice {
        if self.config.trusts(uid) { Voice::Trusted } else { Voice::Of { uid, nspace: proc.nspace.clone() } }
    }

    /// Whether processes of a namespace may receive it.
    pub(super) fn is_heard_in(&self, voice: &Voice, nspace: &Nspace) -> bool {
        match voice {
            Voice::Trusted => true,
            Voice::Of { uid, nspace: own } => self.may_see(&ProcId::wildcard(own.clone()), *uid, nspace),
        }
    }
}

impl Job {
    fn says_whose_it_is(&self) -> bool {
        !self.clients.is_empty() || self.owner().is_some()
    }
}

/// Says that a namespace does not belong to this user, and nothing else about it.
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
