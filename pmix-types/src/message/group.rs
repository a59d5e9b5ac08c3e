use std::sync::Arc;

use super::Modex;
use crate::ProcId;
use crate::job::JobData;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! group_operations {
    ($then:ident $($before:tt)*) => {
        $crate::control_operations! { $then $($before)*
            /// Entry into the construction of a group (GRP-01).
            GroupConstruct group_construct -> Arc<GroupReply> {
                "group construct", memory: NAMING,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The members, the caller included, in the order of their ranks in the group (GRP-04); never empty.
                    procs: Vec<ProcId>,
                },
                directives: "`GROUP_OPTIONAL`, `TIMEOUT` and the like; may be empty.",
            }
            /// An invitation to a group, which the caller leads (GRP-03); answered once all have answered and the group is complete.
            GroupInvite group_invite -> Arc<GroupReply> {
                "group invite", memory: PLAIN,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The invited processes. The caller is a member too: the first, unless it is among them.
                    procs: Vec<ProcId>,
                },
                directives: "`TIMEOUT` and the like; may be empty.",
            }
            /// The answer to an invitation (GRP-03); answered when the group is complete, or at once with nothing if it is declined.
            GroupJoin group_join -> Option<Arc<GroupReply>> {
                "group join", memory: PLAIN,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The process that sent the invitation.
                    leader: ProcId,
                    /// Whether the caller accepts.
                    answer: GroupOpt,
                },
                directives: "May be empty.",
            }
            /// Entry into the destruction of a group (GRP-09).
            GroupDestruct group_destruct -> () {
                "group destruct", memory: NAMING,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                },
                directives: "`TIMEOUT` and the like; may be empty.",
            }
            /// The caller alone leaves a group (GRP-10); answered once the notification of the others is on its way.
            GroupLeave group_leave -> () {
                "group leave", memory: PLAIN,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                },
                directives: "May be empty.",
            }
        }
    };
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
