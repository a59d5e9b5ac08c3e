//! The gate in front of all upcalls: which user's processes may request what of this host.
//!
//! The server's own user and root may request everything. Processes of other users, which a server with `other_users`
//! lets in, may request what the table below allows, and nothing else. Their tools are let in if the host serves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmix_types::{ProcId, Status, Uid};

use crate::jobs::JobTable;
use crate::user::{User, is_trusted, own_uid};

use pmix_server::host::{HostError, HostResult, Upcall};

/// What a process of another user needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// No more than to be let in: what there is to be checked is checked elsewhere.
    Nothing,
    /// That the jobs it names belong to its user; its own, if it names none.
    OwnJobs,
    /// A host that serves other users.
    Service,
    /// Permissions that it does not have: only the server's user and root may do this.
    ServersUser,
}

const fn needs(upcall: Upcall) -> Needs {
    match upcall {
        // the server knows these processes, and tells of them by itself
        Upcall::ClientConnected | Upcall::ClientFinalized | Upcall::ClientLost => Needs::Nothing,
        // the server is the caller, for processes that it has seen to be of one user (`pmix_engine`, users.rs)
        Upcall::Fence | Upcall::Connect | Upcall::Disconnect | Upcall::Group | Upcall::DirectModex => {
            Needs::Nothing
        }
        // processes of a user make groups among themselves (`bootstrap.rs`)
        Upcall::Bootstrap => Needs::Nothing,
        // what is published belongs to a user, and is found by those whom it is meant for (`store`)
        Upcall::Publish | Upcall::Lookup | Upcall::Unpublish => Needs::Nothing,
        // runs as the requesting user, or not at all (`spawn.rs`)
        Upcall::Spawn => Needs::Nothing,
        // becomes output of the caller, or goes to the syslog, which takes lines from everybody, with its uid before it
        Upcall::Log => Needs::Nothing,
        // the servers tell only processes of its user (`pmix_engine`, users.rs)
        Upcall::NotifyEvent => Needs::Nothing,
        // answered from what there is of its user's jobs (`query.rs`)
        Upcall::Query => Needs::Nothing,
        // an allocation belongs to the user who requests it, and hinders other allocations only
        Upcall::Allocate => Needs::Nothing,
        // a credential names its own user, and whoever holds one shows it
        Upcall::GetCredential | Upcall::ValidateCredential => Needs::Nothing,
        Upcall::Abort | Upcall::JobControl | Upcall::IofPull | Upcall::PushStdin => Needs::OwnJobs,
        // a tool belongs to no job: what it requests afterwards is checked like the requests of processes
        Upcall::ToolConnected => Needs::Service,
        // whatever comes to be served without a line here
        _ => Needs::ServersUser,
    }
}

/// Decides for which users a request is carried out.
pub(crate) struct Gate {
    jobs: Arc<JobTable>,
    serves_others: AtomicBool,
}

impl Gate {
    pub(crate) fn new(jobs: Arc<JobTable>) -> Self {
        Self { jobs, serves_others: AtomicBool::new(false) }
    }

    /// Serves other users from now on.
    pub(crate) fn serve_others(&self) {
        self.serves_others.store(true, Ordering::Relaxed);
    }

    /// Whether other users may bring tools, and have jobs that this host starts for another one.
    pub(crate) fn serves_others(&self) -> bool {
        self.serves_others.load(Ordering::Relaxed)
    }

    /// Lets a request of a process pass, which names these, or refuses it with `ERR_NO_PERMISSIONS`.
    pub(crate) fn admit(&self, upcall: Upcall, by: &User, named: &[ProcId]) -> HostResult<()> {
        match needs(upcall) {
            _ if is_trusted(by.uid) => Ok(()),
            Needs::Nothing => Ok(()),
            Needs::Service if self.serves_others() => Ok(()),
            Needs::Service | Needs::ServersUser => {
                let (what, own, uid) = (upcall.name(), own_uid(), by.uid);
                Err(refusal(format!(
                    "{what} is allowed for uid {own}, which owns this server, not for uid {uid}"
                )))
            }
            Needs::OwnJobs => {
                let own = [ProcId::wildcard(by.proc.nspace.clone())];
                let named = if named.is_empty() { &own } else { named };
                named.iter().try_for_each(|proc| self.check_owner(by, proc))
            }
        }
    }

    /// A job that is not known may be another's the next moment, and is refused alike; but for the caller's own, which
    /// others may have started.
    fn check_owner(&self, by: &User, proc: &ProcId) -> HostResult<()> {
        let owner = self.jobs.entries().get(&proc.nspace).map(|job| job.owner);
        match owner {
            Some(owner) if owner == by.uid => Ok(()),
            None if proc.nspace == by.proc.nspace => Ok(()),
            _ => Err(not_own(by.uid, proc)),
        }
    }
}

/// Refuses access to a process of another user, and reveals nothing else about it.
pub(crate) fn not_own(uid: Uid, proc: &ProcId) -> HostError {
    refusal(format!("{proc} does not belong to uid {uid}"))
}

fn refusal(message: String) -> HostError {
    HostError::new(Status::ERR_NO_PERMISSIONS, message)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
