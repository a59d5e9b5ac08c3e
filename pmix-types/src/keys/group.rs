// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::DataArray;

super::keys! {
    /// Name of the group, chosen by the user.
    #[doc(alias = "PMIX_GROUP_ID")]
    GROUP_ID: String = "pmix.grp.id", STRING, None, "4.0";
    /// Caller is a leader; in a handler result, claims leadership.
    #[doc(alias = "PMIX_GROUP_LEADER")]
    GROUP_LEADER: bool = "pmix.grp.ldr", BOOL, None, "4.0";
    /// Members that never join do not make the construct fail.
    #[doc(alias = "PMIX_GROUP_OPTIONAL")]
    GROUP_OPTIONAL: bool = "pmix.grp.opt", BOOL, None, "4.0";
    /// Tell members when one ends without leaving.
    #[doc(alias = "PMIX_GROUP_NOTIFY_TERMINATION")]
    GROUP_NOTIFY_TERMINATION: bool = "pmix.grp.notterm", BOOL, None, "4.0";
    /// Adjust tracking for ended processes on the fly.
    #[doc(alias = "PMIX_GROUP_FT_COLLECTIVE")]
    GROUP_FT_COLLECTIVE: bool = "pmix.grp.ftcoll", BOOL, None, "4.0";
    /// Members of the group.
    #[doc(alias = "PMIX_GROUP_MEMBERSHIP")]
    GROUP_MEMBERSHIP: DataArray = "pmix.grp.mbrs", DATA_ARRAY, None, "4.0";
    /// Ask the host for a unique numeric id.
    #[doc(alias = "PMIX_GROUP_ASSIGN_CONTEXT_ID")]
    GROUP_ASSIGN_CONTEXT_ID: bool = "pmix.grp.actxid", BOOL, None, "4.0";
    /// Numeric id of the group, assigned by the host.
    #[doc(alias = "PMIX_GROUP_CONTEXT_ID")]
    GROUP_CONTEXT_ID: u64 = "pmix.grp.ctxid", SIZE, None, "4.0";
    /// All members are on one node.
    #[doc(alias = "PMIX_GROUP_LOCAL_ONLY")]
    GROUP_LOCAL_ONLY: bool = "pmix.grp.lcl", BOOL, None, "4.0";
    /// Endpoint data of the members.
    #[doc(alias = "PMIX_GROUP_ENDPT_DATA")]
    GROUP_ENDPT_DATA: DataArray = "pmix.grp.endpt", DATA_ARRAY, None, "4.0";
    /// Member's own context id.
    #[doc(alias = "PMIX_GROUP_LOCAL_CID")]
    GROUP_LOCAL_CID: u64 = "pmix.grp.lclid", SIZE, None, "6.0-dev";
    /// Further members not in the procs array.
    #[doc(alias = "PMIX_GROUP_ADD_MEMBERS")]
    GROUP_ADD_MEMBERS: DataArray = "pmix.grp.add", DATA_ARRAY, None, "6.0-dev";
    /// Number of leaders of a bootstrap construct.
    #[doc(alias = "PMIX_GROUP_BOOTSTRAP")]
    GROUP_BOOTSTRAP: u64 = "pmix.grp.btstrp", SIZE, None, "6.0-dev";
    /// Job-level data of the participants.
    #[doc(alias = "PMIX_GROUP_JOB_INFO")]
    GROUP_JOB_INFO: Bytes = "pmix.grp.jinfo", BYTE_OBJECT, None, "6.0-dev";
    /// Data one member shares with all.
    #[doc(alias = "PMIX_GROUP_INFO")]
    GROUP_INFO: DataArray = "pmix.grp.info", DATA_ARRAY, None, "impl 4.2.0";
    /// Data that the members share with all, as one array.
    #[doc(alias = "PMIX_GROUP_INFO_ARRAY")]
    GROUP_INFO_ARRAY: DataArray = "pmix.grp.infoarray", DATA_ARRAY, None, "impl 6.0.0";
    /// Wanted order of the final membership.
    #[doc(alias = "PMIX_GROUP_FINAL_MEMBERSHIP_ORDER")]
    GROUP_FINAL_MEMBERSHIP_ORDER: DataArray = "pmix.grp.finord", DATA_ARRAY, None, "impl 6.1.0";
}
