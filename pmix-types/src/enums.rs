//! Open tables of small numbers: scopes, ranges, states, directives.
//!
//! Each is a newtype with a constant per number of the Standard. A number without constant is kept, printed as
//! `UNKNOWN(number)`, and passed on unchanged, because hosts and later Standards may add their own.

use crate::macros::open_enum;

pub use crate::macros::ParseEnumError;

open_enum! {
    /// Which processes may see a value that was put.
    ///
    /// ```
    /// use pmix_types::Scope;
    ///
    /// assert_eq!("PMIX_GLOBAL".parse(), Ok(Scope::GLOBAL));
    /// assert_eq!(Scope::GLOBAL.to_string(), "GLOBAL");
    /// assert_eq!(Scope::from_raw(77).to_string(), "UNKNOWN(77)");
    /// ```
    #[doc(alias = "pmix_scope_t")]
    #[derive(Default)]
    pub struct Scope(u8) {
        /// No scope.
        UNDEF = 0 => "PMIX_SCOPE_UNDEF",
        /// Only processes on the same node may see it.
        LOCAL = 1 => "PMIX_LOCAL",
        /// Only processes on other nodes may see it.
        REMOTE = 2 => "PMIX_REMOTE",
        /// Every process may see it.
        GLOBAL = 3 => "PMIX_GLOBAL",
        /// Only the process that put it may see it.
        INTERNAL = 4 => "PMIX_INTERNAL",
        /// Remove the key from the local scope (implementation only).
        DEL_LOCAL = 5 => "PMIX_DEL_LOCAL",
        /// Remove the key from the remote scope (implementation only).
        DEL_REMOTE = 6 => "PMIX_DEL_REMOTE",
        /// Remove the key from both scopes (implementation only).
        DEL_GLOBAL = 7 => "PMIX_DEL_GLOBAL",
        /// Remove the key from the internal store (implementation only).
        DEL_INTERNAL = 8 => "PMIX_DEL_INTERNAL",
    }
}

open_enum! {
    /// Which processes may see published data or receive an event.
    #[doc(alias = "pmix_data_range_t")]
    #[derive(Default)]
    pub struct DataRange(u8) {
        /// No range.
        UNDEF = 0 => "PMIX_RANGE_UNDEF",
        /// The host environment only.
        RM = 1 => "PMIX_RANGE_RM",
        /// Processes on the same node.
        LOCAL = 2 => "PMIX_RANGE_LOCAL",
        /// Processes of the same namespace.
        NAMESPACE = 3 => "PMIX_RANGE_NAMESPACE",
        /// Processes of the same session.
        SESSION = 4 => "PMIX_RANGE_SESSION",
        /// All processes.
        GLOBAL = 5 => "PMIX_RANGE_GLOBAL",
        /// Processes listed with the request.
        CUSTOM = 6 => "PMIX_RANGE_CUSTOM",
        /// The process itself.
        PROC_LOCAL = 7 => "PMIX_RANGE_PROC_LOCAL",
        /// Range not set.
        INVALID = 255 => "PMIX_RANGE_INVALID",
    }
}

open_enum! {
    /// How long published data is kept.
    #[doc(alias = "pmix_persistence_t")]
    pub struct Persistence(u8) {
        /// Until unpublished.
        INDEF = 0 => "PMIX_PERSIST_INDEF",
        /// Until read once.
        FIRST_READ = 1 => "PMIX_PERSIST_FIRST_READ",
        /// Until the publisher ends.
        PROC = 2 => "PMIX_PERSIST_PROC",
        /// Until the publisher's app ends.
        APP = 3 => "PMIX_PERSIST_APP",
        /// Until the session ends.
        SESSION = 4 => "PMIX_PERSIST_SESSION",
        /// Persistence not set.
        INVALID = 255 => "PMIX_PERSIST_INVALID",
    }
}

open_enum! {
    /// State of a process, as known to the host.
    ///
    /// Ranges of numbers have a meaning: see [`is_alive`](Self::is_alive), [`is_terminated`](Self::is_terminated) and
    /// [`is_abnormal`](Self::is_abnormal).
    #[doc(alias = "pmix_proc_state_t")]
    #[derive(Default)]
    pub struct ProcState(u8) {
        /// Not known.
        UNDEF = 0 => "PMIX_PROC_STATE_UNDEF",
        /// Ready for launch.
        PREPPED = 1 => "PMIX_PROC_STATE_PREPPED",
        /// Being launched.
        LAUNCH_UNDERWAY = 2 => "PMIX_PROC_STATE_LAUNCH_UNDERWAY",
        /// Ready for restart.
        RESTART = 3 => "PMIX_PROC_STATE_RESTART",
        /// Marked to be ended.
        TERMINATE = 4 => "PMIX_PROC_STATE_TERMINATE",
        /// Started on its node.
        RUNNING = 5 => "PMIX_PROC_STATE_RUNNING",
        /// Connected to its server.
        CONNECTED = 6 => "PMIX_PROC_STATE_CONNECTED",
        /// Border: smaller values are alive.
        UNTERMINATED = 15 => "PMIX_PROC_STATE_UNTERMINATED",
        /// Ended.
        TERMINATED = 20 => "PMIX_PROC_STATE_TERMINATED",
        /// Border: larger values ended abnormally.
        ERROR = 50 => "PMIX_PROC_STATE_ERROR",
        /// Killed on command.
        KILLED_BY_CMD = 51 => "PMIX_PROC_STATE_KILLED_BY_CMD",
        /// Aborted.
        ABORTED = 52 => "PMIX_PROC_STATE_ABORTED",
        /// Did not start.
        FAILED_TO_START = 53 => "PMIX_PROC_STATE_FAILED_TO_START",
        /// Ended by a signal.
        ABORTED_BY_SIG = 54 => "PMIX_PROC_STATE_ABORTED_BY_SIG",
        /// Ended without finalize.
        TERM_WO_SYNC = 55 => "PMIX_PROC_STATE_TERM_WO_SYNC",
        /// Communication broke.
        COMM_FAILED = 56 => "PMIX_PROC_STATE_COMM_FAILED",
        /// Passed a sensor limit.
        SENSOR_BOUND_EXCEEDED = 57 => "PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED",
        /// Called abort.
        CALLED_ABORT = 58 => "PMIX_PROC_STATE_CALLED_ABORT",
        /// Heartbeat missing.
        HEARTBEAT_FAILED = 59 => "PMIX_PROC_STATE_HEARTBEAT_FAILED",
        /// Failed, waits for resources.
        MIGRATING = 60 => "PMIX_PROC_STATE_MIGRATING",
        /// Failed for good.
        CANNOT_RESTART = 61 => "PMIX_PROC_STATE_CANNOT_RESTART",
        /// Exited non-zero.
        TERM_NON_ZERO = 62 => "PMIX_PROC_STATE_TERM_NON_ZERO",
        /// Launch not possible.
        FAILED_TO_LAUNCH = 63 => "PMIX_PROC_STATE_FAILED_TO_LAUNCH",
    }
}

impl ProcState {
    /// Whether the process has not ended: below [`UNTERMINATED`](Self::UNTERMINATED). An unknown state
    /// ([`UNDEF`](Self::UNDEF)) counts as alive.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        self.0 < Self::UNTERMINATED.0
    }

    /// Whether the process has ended, for whatever reason: [`TERMINATED`](Self::TERMINATED) or above.
    #[must_use]
    pub const fn is_terminated(self) -> bool {
        self.0 >= Self::TERMINATED.0
    }

    /// Whether the process has ended abnormally: above [`ERROR`](Self::ERROR).
    #[must_use]
    pub const fn is_abnormal(self) -> bool {
        self.0 > Self::ERROR.0
    }
}

open_enum! {
    /// State of a job, as known to the host.
    ///
    /// The borders are those of [`ProcState`].
    #[doc(alias = "pmix_job_state_t")]
    #[derive(Default)]
    pub struct JobState(u8) {
        /// Not known.
        UNDEF = 0 => "PMIX_JOB_STATE_UNDEF",
        /// Waits for resources.
        AWAITING_ALLOC = 1 => "PMIX_JOB_STATE_AWAITING_ALLOC",
        /// Ready for launch (old name of value 1).
        PREPPED = 1 => "PMIX_JOB_STATE_PREPPED",
        /// Being launched.
        LAUNCH_UNDERWAY = 2 => "PMIX_JOB_STATE_LAUNCH_UNDERWAY",
        /// All processes run.
        RUNNING = 3 => "PMIX_JOB_STATE_RUNNING",
        /// All processes are suspended.
        SUSPENDED = 4 => "PMIX_JOB_STATE_SUSPENDED",
        /// All processes connected to their server.
        CONNECTED = 5 => "PMIX_JOB_STATE_CONNECTED",
        /// Border: smaller values are alive.
        UNTERMINATED = 15 => "PMIX_JOB_STATE_UNTERMINATED",
        /// All processes ended.
        TERMINATED = 20 => "PMIX_JOB_STATE_TERMINATED",
        /// Border: larger values ended abnormally.
        TERMINATED_WITH_ERROR = 50 => "PMIX_JOB_STATE_TERMINATED_WITH_ERROR",
    }
}

impl JobState {
    /// Whether the job has not ended: below [`UNTERMINATED`](Self::UNTERMINATED). An unknown state
    /// ([`UNDEF`](Self::UNDEF)) counts as alive.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        self.0 < Self::UNTERMINATED.0
    }

    /// Whether the job has ended, for whatever reason: [`TERMINATED`](Self::TERMINATED) or above.
    #[must_use]
    pub const fn is_terminated(self) -> bool {
        self.0 >= Self::TERMINATED.0
    }

    /// Whether the job has ended abnormally: above [`TERMINATED_WITH_ERROR`](Self::TERMINATED_WITH_ERROR).
    ///
    /// [`TERMINATED_WITH_ERROR`](Self::TERMINATED_WITH_ERROR) itself, being the border, does not count as abnormal.
    #[must_use]
    pub const fn is_abnormal(self) -> bool {
        self.0 > Self::TERMINATED_WITH_ERROR.0
    }
}

open_enum! {
    /// The operation of an allocation request. Numbers above [`EXTERNAL`](Self::EXTERNAL) belong to implementers.
    #[doc(alias = "pmix_alloc_directive_t")]
    pub struct AllocDirective(u8) {
        /// A new, separate allocation.
        NEW = 1 => "PMIX_ALLOC_NEW",
        /// More time or resources for the existing one.
        EXTEND = 2 => "PMIX_ALLOC_EXTEND",
        /// Give back part or all, for good or as a loan.
        RELEASE = 3 => "PMIX_ALLOC_RELEASE",
        /// Take lent resources back.
        REAQUIRE = 4 => "PMIX_ALLOC_REAQUIRE",
        /// Cancel a request (implementation only).
        REQ_CANCEL = 5 => "PMIX_ALLOC_REQ_CANCEL",
        /// Border: larger values belong to implementers.
        EXTERNAL = 128 => "PMIX_ALLOC_EXTERNAL",
    }
}

open_enum! {
    /// What happens to an allocation when the job that requested it ends.
    #[doc(alias = "pmix_alloc_inheritance_t")]
    pub struct AllocInheritance(u8) {
        /// Without inheritance.
        NONE = 1 => "PMIX_ALLOC_INHERIT_NONE",
        /// Stays while child namespaces live.
        CHILD = 2 => "PMIX_ALLOC_INHERIT_CHILD",
        /// Becomes unreserved when the owner ends.
        DEFAULT = 3 => "PMIX_ALLOC_INHERIT_DEFAULT",
        /// Becomes unreserved when the last child ends.
        CHILD_DEFAULT = 4 => "PMIX_ALLOC_INHERIT_CHILD_DEFAULT",
    }
}

open_enum! {
    /// What to do with a named block of resources. Numbers above [`EXTERNAL`](Self::EXTERNAL) belong to
    /// implementers.
    #[doc(alias = "pmix_resource_block_directive_t")]
    pub struct ResourceBlockDirective(u8) {
        /// Define a block.
        DEFINE = 1 => "PMIX_RESOURCE_BLOCK_DEFINE",
        /// Add resources.
        EXTEND = 2 => "PMIX_RESOURCE_BLOCK_EXTEND",
        /// Take resources out.
        REMOVE = 3 => "PMIX_RESOURCE_BLOCK_REMOVE",
        /// Delete the block.
        DELETE = 4 => "PMIX_RESOURCE_BLOCK_DELETE",
        /// Border: larger values belong to implementers.
        EXTERNAL = 128 => "PMIX_RESOURCE_BLOCK_EXTERNAL",
    }
}

open_enum! {
    /// State of a fabric link.
    #[doc(alias = "pmix_link_state_t")]
    #[derive(Default)]
    pub struct LinkState(u8) {
        /// Unknown.
        UNKNOWN = 0 => "PMIX_LINK_STATE_UNKNOWN",
        /// Inactive.
        DOWN = 1 => "PMIX_LINK_DOWN",
        /// Active.
        UP = 2 => "PMIX_LINK_UP",
    }
}

open_enum! {
    /// Which view of the fabric a coordinate belongs to.
    #[doc(alias = "pmix_coord_view_t")]
    #[derive(Default)]
    pub struct CoordView(u8) {
        /// No view.
        UNDEF = 0 => "PMIX_COORD_VIEW_UNDEF",
        /// Logical view (default).
        LOGICAL = 1 => "PMIX_COORD_LOGICAL_VIEW",
        /// Wiring view.
        PHYSICAL = 2 => "PMIX_COORD_PHYSICAL_VIEW",
    }
}

open_enum! {
    /// Answer to the invitation to a group.
    #[doc(alias = "pmix_group_opt_t")]
    pub struct GroupOpt(u8) {
        /// Decline the invitation.
        DECLINE = 0 => "PMIX_GROUP_DECLINE",
        /// Accept the invitation.
        ACCEPT = 1 => "PMIX_GROUP_ACCEPT",
    }
}

open_enum! {
    /// An operation of the host on a group.
    #[doc(alias = "pmix_group_operation_t")]
    pub struct GroupOperation(u8) {
        /// Host: construct the group.
        CONSTRUCT = 0 => "PMIX_GROUP_CONSTRUCT",
        /// Host: destruct the group.
        DESTRUCT = 1 => "PMIX_GROUP_DESTRUCT",
        /// No operation (implementation only).
        NONE = 2 => "PMIX_GROUP_NONE",
        /// Cancel (implementation only).
        CANCEL = 3 => "PMIX_GROUP_CANCEL",
    }
}

open_enum! {
    /// An operation of the host on a fabric.
    #[doc(alias = "pmix_fabric_operation_t")]
    pub struct FabricOperation(u8) {
        /// Host: provide information on a fabric.
        REQUEST_INFO = 0 => "PMIX_FABRIC_REQUEST_INFO",
        /// Host: update information on a fabric.
        UPDATE_INFO = 1 => "PMIX_FABRIC_UPDATE_INFO",
    }
}

open_enum! {
    /// Whose binding is requested.
    #[doc(alias = "pmix_bind_envelope_t")]
    #[derive(Default)]
    pub struct BindEnvelope(u8) {
        /// Binding of all threads of the process.
        PROCESS = 0 => "PMIX_CPUBIND_PROCESS",
        /// Binding of the calling thread.
        THREAD = 1 => "PMIX_CPUBIND_THREAD",
    }
}
