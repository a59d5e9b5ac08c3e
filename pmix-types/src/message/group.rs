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
        /// Who is invited; the caller is a member, first unless it is named.
        procs: Vec<ProcId>,
    }
    /// The answer to an invitation (GRP-03).
    GroupJoin {
        /// May be empty.
        directives,
        /// The group's id; never empty.
        group: Nspace,
        /// Who has invited.
        leader: ProcId,
        /// Whether the caller comes.
        answer: GroupOpt,
    }
    /// Entry into the end of a group (GRP-09).
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

/// The answer to a construct: what each member gets to know (GRP-05).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GroupReply {
    /// The members in the order of their ranks in the group.
    pub members: Vec<ProcId>,
    /// Number of the group that no other has, if one was asked for and the host has given one.
    pub context_id: Option<u64>,
    /// Some of those who were named are not members, as they have ended before they came (GRP-06).
    pub partial: bool,
    /// What the members have put and the caller may see.
    pub modex: Arc<Modex>,
    /// Job-level data of all namespaces in the group.
    pub jobs: Vec<Arc<JobData>>,
}
