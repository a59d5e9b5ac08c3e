use std::sync::Arc;

use super::Modex;
use crate::job::JobData;
use crate::{GroupOpt, Nspace, ProcId};

directed_requests! {
    /// Entry into the construction of a group (GRP-01).
    GroupConstruct {
        /// `GROUP_OPTIONAL`, `TIMEOUT` and the like; may be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
        /// The members, the caller included, in the order of their ranks in the group (GRP-04); never empty.
        procs: Vec<ProcId>,
    }
    /// An invitation to a group, which the caller leads (GRP-03).
    GroupInvite {
        /// `TIMEOUT` and the like; may be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
        /// The invited processes. The caller is a member too: the first, unless it is among them.
        procs: Vec<ProcId>,
    }
    /// The answer to an invitation (GRP-03).
    GroupJoin {
        /// May be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
        /// The process that sent the invitation.
        leader: ProcId,
        /// Whether the caller accepts.
        answer: GroupOpt,
    }
    /// Entry into the destruction of a group (GRP-09).
    GroupDestruct {
        /// `TIMEOUT` and the like; may be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
    }
    /// The caller alone leaves a group (GRP-10).
    GroupLeave {
        /// May be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
    }
}

/// The answer to a group construction, the same for each member (GRP-05).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GroupReply {
    /// The members in the order of their ranks in the group.
    pub members: Vec<ProcId>,
    /// A number that no other group has, if one was requested and the host assigned one.
    pub context_id: Option<u64>,
    /// Some of the named processes are not members, as they ended before they entered (GRP-06).
    pub partial: bool,
    /// The data that the members have put and the caller may see.
    pub modex: Arc<Modex>,
    /// Job-level data of all namespaces in the group.
    pub jobs: Vec<Arc<JobData>>,
}
