//! Users: what a process may see of the jobs of others, and who hears what it says.
//!
//! One user is one trust domain. The server's own user and root see everything and are heard by all; a process of
//! another user sees its own namespace and the jobs of its user, and is heard there.

use pmix_types::job::Target;
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Status, keys};

use super::context::Context;
use super::registry::{Job, unknown_nspace};
use super::{Asked, Caller, Config};

/// On whose word something is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// That of the server, its host, its user or root: everybody may hear it.
    Trusted,
    /// That of a process of another user.
    Of { uid: u32, nspace: Nspace },
}

/// Somebody who listens.
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
    /// Whether it is for somebody to hear. Tools of those who see everything hear all, their jobs do not: what they do must
    /// not depend on what another user says.
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
    /// The user whose job it is, by what is said of it and of its processes; `None` if that is nothing, or of several.
    pub(super) fn owner(&self) -> Option<u32> {
        let stated = self.data.lookup(keys::USERID.name(), &Target::Job).and_then(|value| value.get().ok());
        let mut users = stated.into_iter().chain(self.clients.values().map(|client| client.uid));
        let first = users.next()?;
        users.all(|uid| uid == first).then_some(first)
    }
}

impl Context {
    /// Whether a process may see a namespace, which nobody may whose owner is not known.
    pub(super) fn may_see(&self, by: &ProcId, uid: u32, nspace: &Nspace) -> bool {
        self.config.trusts(uid)
            || by.nspace == *nspace
            || self.jobs.get(nspace).is_some_and(|job| job.owner() == Some(uid))
    }

    /// A job that the caller may see; of others it is told what it is told of those that there are not.
    pub(super) fn visible_job(&self, by: &Caller, nspace: &str) -> Result<&Job, Failure> {
        let job = self.jobs.get(nspace).filter(|job| self.may_see(&by.proc, by.uid, job.data.nspace()));
        job.ok_or_else(|| unknown_nspace(nspace))
    }

    /// All jobs that the caller may see, in the order of their names.
    pub(super) fn visible_jobs<'a>(&'a self, by: &'a Caller) -> impl Iterator<Item = &'a Job> {
        self.jobs.values().filter(|job| self.may_see(&by.proc, by.uid, job.data.nspace()))
    }

    /// Refuses an operation with processes that are known to be another user's.
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

    /// That of a process.
    pub(super) fn voice_of(&self, uid: u32, proc: &ProcId) -> Voice {
        if self.config.trusts(uid) { Voice::Trusted } else { Voice::Of { uid, nspace: proc.nspace.clone() } }
    }

    /// Whether processes of a namespace hear it.
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

/// Says that a namespace is not for this user, and nothing else of it.
pub(super) fn not_own(uid: u32, nspace: &Nspace) -> Failure {
    Failure::new(Status::ERR_NO_PERMISSIONS, format!("job {nspace} does not belong to uid {uid}"))
}
