//! Which jobs a process may see, by its user.

use std::collections::BTreeSet;

use pmix_types::job::Target;
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Uid, Value, keys};

use super::context::Context;
use super::users::{Voice, not_own};
use super::{Asked, Caller};
use crate::jobs::{Job, unknown_nspace};

impl Job {
    /// The user who owns the job according to its data and its processes; `None` if that is unknown or ambiguous.
    pub(super) fn owner(&self) -> Option<Uid> {
        let stated = self.data.lookup(keys::USERID.name(), &Target::Job).and_then(|value| value.get().ok());
        let mut users = stated.into_iter().chain(self.clients.values().map(|client| client.uid));
        let first = users.next()?;
        users.all(|uid| uid == first).then_some(first)
    }

    /// Whether its owner could be known, even if it is ambiguous.
    fn has_user(&self) -> bool {
        !self.clients.is_empty() || self.owner().is_some()
    }
}

impl Context {
    /// Whether a process may see a namespace. One with an unknown owner is hidden from other users.
    pub(super) fn may_see(&self, by: &ProcId, uid: Uid, nspace: &Nspace) -> bool {
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

    /// A value of another session than that of the job in question, from a job of that session that the caller may see
    /// (GET-41).
    pub(super) fn of_session(&self, by: &ProcId, uid: Uid, id: u32, key: &str) -> Option<Value> {
        let of_it = self.jobs.values().filter(|job| job.data.session_id() == Some(id));
        let mut visible = of_it.filter(|job| self.may_see(by, uid, job.data.nspace()));
        visible.find_map(|job| job.data.lookup(key, &Target::Session(Some(id))))
    }

    /// Refuses an operation with processes that are known to belong to another user.
    pub(super) fn check_partners<'a>(
        &self,
        asked: &Asked,
        nspaces: impl IntoIterator<Item = &'a Nspace>,
    ) -> Result<(), Failure> {
        let Caller { proc, uid, .. } = &asked.by;
        let is_others = |nspace: &&Nspace| self.is_of_another(proc, *uid, nspace);
        nspaces.into_iter().find(is_others).map_or(Ok(()), |nspace| Err(not_own(*uid, nspace)))
    }

    /// Whether a namespace is known to belong to another user. This may become known only while an operation is waiting for it.
    pub(super) fn is_of_another(&self, by: &ProcId, uid: Uid, nspace: &Nspace) -> bool {
        match self.jobs.get(nspace) {
            Some(job) => job.has_user() && !self.may_see(by, uid, nspace),
            // tools are in no job
            None => !self.config.trusts(uid) && self.tools_of(nspace).any(|tool| tool.peer.uid != uid),
        }
    }

    /// The voice of a process.
    pub(super) fn voice_of(&self, uid: Uid, proc: &ProcId) -> Voice {
        if self.config.trusts(uid) { Voice::Trusted } else { Voice::Of { uid, nspace: proc.nspace.clone() } }
    }

    /// The voice for events that the server sends on behalf of a process, or about it. If its user is unknown, the server's own.
    pub(super) fn voice_for(&self, proc: &ProcId) -> Voice {
        self.user_of(proc).map_or(Voice::Trusted, |uid| self.voice_of(uid, proc))
    }

    /// The jobs of a user who may have only a share of what the server has for all together; `None` for one who sees everything, or is
    /// not known.
    pub(super) fn jobs_of_sharer(&self, uid: Option<Uid>) -> Option<BTreeSet<&Nspace>> {
        let uid = uid.filter(|uid| !self.config.trusts(*uid))?;
        Some(self.jobs.iter().filter(|(_, job)| job.owner() == Some(uid)).map(|(nspace, _)| nspace).collect())
    }

    /// The user of a process, as far as it is known.
    pub(super) fn user_of(&self, proc: &ProcId) -> Option<Uid> {
        let of_conn = || self.conns.values().find(|held| held.proc == *proc).map(|held| held.peer.uid);
        let of_job = || self.jobs.get(&proc.nspace).and_then(Job::owner);
        self.client(proc).map(|client| client.uid).or_else(of_conn).or_else(of_job)
    }

    /// Whether processes of a namespace may receive it.
    pub(super) fn is_heard_in(&self, voice: &Voice, nspace: &Nspace) -> bool {
        match voice {
            Voice::Trusted => true,
            Voice::Of { uid, nspace: own } => self.may_see(&ProcId::wildcard(own.clone()), *uid, nspace),
        }
    }
}
