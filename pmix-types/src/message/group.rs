use std::sync::Arc;

use super::Modex;
use crate::ProcId;
use crate::job::JobData;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! group_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::control_operations! { [$($then)*] $($before)*
            /// Entry into the construction of a group (GRP-01).
            GroupConstruct group_construct -> Arc<GroupReply> {
                "group construct", memory: NAMING, by: engine,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The members, the caller included, in the order of their ranks in the group (GRP-04); never empty.
                    procs: Vec<ProcId>,
                },
                directives: "`GROUP_OPTIONAL`, `TIMEOUT` and the like; may be empty.",
                names: own,
                functions: ["PMIx_Group_construct", "PMIx_Group_construct_nb"],
                native: { GROUP_CONSTRUCT = 24, c: "PMIX_GROUP_CONSTRUCT_CMD", since: [4, 0, 0], message: [group, procs, directives] },
                upcalls: {
                    /// Constructs or destructs a group together with the servers of the nodes in the request (GRP-01); the answer to a
                    /// destruct is empty. As in [`connect`](Self::connect), nodes may be missing in a construct. Called for a construct if
                    /// members are on other nodes or a context id is requested (GRP-11), and for the destruct of a group that this host has
                    /// constructed. The id of a group of another user than the server's and root is followed by `@` and that user's number,
                    /// because users have ids of their own; processes of that user neither say it nor see it, except in messages of errors.
                    ///
                    /// `GROUP_ASSIGN_CONTEXT_ID` among the directives requests a number that no other group has (GRP-05).
                    /// `LOCAL_COLLECTIVE_STATUS` reports that the local part has failed, and `EVENT_AFFECTED_PROCS` names the
                    /// processes responsible, as in a fence.
                    Group group(GroupRequest) -> Grouped {
                        "groups", c: ["group" "pmix_server_grp_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: [
                            "PMIx_Group_construct", "PMIx_Group_construct_nb",
                            "PMIx_Group_destruct", "PMIx_Group_destruct_nb",
                        ],
                    }
                    /// Determines the members of a group by bootstrap (GRP-02), over all nodes. The caller is a process, not the
                    /// server: a leader, or a member added by leaders. Called once per calling process. The answer to leaders is due
                    /// when all leaders have called, as many as they declare; that to an added member, when it has called too. The
                    /// servers then construct the group, as by [`group`](Self::group) with the members in this order.
                    ///
                    /// Members are the leaders and the processes they add, each once. Leaders that declare different numbers fail
                    /// with `ERR_BAD_PARAM`. Processes of different users never form a group. Directives of one leader
                    /// (`GROUP_OPTIONAL`, `GROUP_NOTIFY_TERMINATION`, `GROUP_FT_COLLECTIVE`, `GROUP_ASSIGN_CONTEXT_ID`) apply to all.
                    ///
                    /// An addition to the Standard, in which [`group`](Self::group) has to do this too.
                    Bootstrap bootstrap(BootstrapRequest) -> Bootstrapped {
                        "groups made by bootstrap", c: [],
                        attributes: own, directives: directives, passed_up: no,
                        serves: [],
                    }
                },
            }
            /// An invitation to a group, which the caller leads (GRP-03); answered once all have answered and the group is complete.
            GroupInvite group_invite -> Arc<GroupReply> {
                "group invite", memory: PLAIN, by: engine,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The invited processes. The caller is a member too: the first, unless it is among them.
                    procs: Vec<ProcId>,
                },
                directives: "`TIMEOUT` and the like; may be empty.",
                functions: ["PMIx_Group_invite", "PMIx_Group_invite_nb"],
            }
            /// The answer to an invitation (GRP-03); answered when the group is complete, or at once with nothing if it is declined.
            GroupJoin group_join -> Option<Arc<GroupReply>> {
                "group join", memory: PLAIN, by: engine,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                    /// The process that sent the invitation.
                    leader: ProcId,
                    /// Whether the caller accepts.
                    answer: GroupOpt,
                },
                directives: "May be empty.",
                functions: ["PMIx_Group_join", "PMIx_Group_join_nb"],
            }
            /// Entry into the destruction of a group (GRP-09).
            GroupDestruct group_destruct -> () {
                "group destruct", memory: NAMING, by: engine,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                },
                directives: "`TIMEOUT` and the like; may be empty.",
                functions: ["PMIx_Group_destruct", "PMIx_Group_destruct_nb"],
                native: { GROUP_DESTRUCT = 28, c: "PMIX_GROUP_DESTRUCT_CMD", since: [4, 0, 0] },
            }
            /// The caller alone leaves a group (GRP-10); answered once the notification of the others is on its way.
            GroupLeave group_leave -> () {
                "group leave", memory: PLAIN, by: engine,
                fields: {
                    /// The group's id; never empty.
                    group: Nspace,
                },
                directives: "May be empty.",
                functions: ["PMIx_Group_leave", "PMIx_Group_leave_nb"],
                native: { GROUP_LEAVE = 27, c: "PMIX_GROUP_LEAVE_CMD", since: [4, 0, 0], message: [group, directives] },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! group_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::manage_replies! { [$($then)*] $($before)*
            /// The group is complete; all its members receive the same reply.
            Group group(Arc<GroupReply>),
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
