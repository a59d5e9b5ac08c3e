// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, ProcId, Status, Time, Value};

super::keys! {
    /// Name of the process set that was defined or deleted.
    #[doc(alias = "PMIX_PSET_NAME")]
    PSET_NAME: String = "pmix.pset.nm", STRING, None, "4.0";
    /// Members of the process set that was defined.
    #[doc(alias = "PMIX_PSET_MEMBERS")]
    PSET_MEMBERS: DataArray = "pmix.pset.mems", DATA_ARRAY, None, "4.0";
    /// Status with which the job ended.
    #[doc(alias = "PMIX_JOB_TERM_STATUS")]
    JOB_TERM_STATUS: Status = "pmix.job.term.status", STATUS, None, "2.0";
    /// Status with which the process ended.
    #[doc(alias = "PMIX_PROC_TERM_STATUS")]
    PROC_TERM_STATUS: Status = "pmix.proc.term.status", STATUS, None, "4.0";
    /// Name of the handler, for ordering references.
    #[doc(alias = "PMIX_EVENT_HDLR_NAME")]
    EVENT_HDLR_NAME: String = "pmix.evname", STRING, None, "2.0";
    /// The single handler that runs before all others.
    #[doc(alias = "PMIX_EVENT_HDLR_FIRST")]
    EVENT_HDLR_FIRST: bool = "pmix.evfirst", BOOL, None, "2.0";
    /// The single handler that runs after all others.
    #[doc(alias = "PMIX_EVENT_HDLR_LAST")]
    EVENT_HDLR_LAST: bool = "pmix.evlast", BOOL, None, "2.0";
    /// Runs first within its category.
    #[doc(alias = "PMIX_EVENT_HDLR_FIRST_IN_CATEGORY")]
    EVENT_HDLR_FIRST_IN_CATEGORY: bool = "pmix.evfirstcat", BOOL, None, "2.0";
    /// Runs last within its category.
    #[doc(alias = "PMIX_EVENT_HDLR_LAST_IN_CATEGORY")]
    EVENT_HDLR_LAST_IN_CATEGORY: bool = "pmix.evlastcat", BOOL, None, "2.0";
    /// Runs before the named handler.
    #[doc(alias = "PMIX_EVENT_HDLR_BEFORE")]
    EVENT_HDLR_BEFORE: String = "pmix.evbefore", STRING, None, "2.0";
    /// Runs after the named handler.
    #[doc(alias = "PMIX_EVENT_HDLR_AFTER")]
    EVENT_HDLR_AFTER: String = "pmix.evafter", STRING, None, "2.0";
    /// Put at the front of its category list.
    #[doc(alias = "PMIX_EVENT_HDLR_PREPEND")]
    EVENT_HDLR_PREPEND: bool = "pmix.evprepend", BOOL, None, "2.0";
    /// Put at the end of its category list.
    #[doc(alias = "PMIX_EVENT_HDLR_APPEND")]
    EVENT_HDLR_APPEND: bool = "pmix.evappend", BOOL, None, "2.0";
    /// Exact processes that make up the range of the event or registration.
    #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
    EVENT_CUSTOM_RANGE: DataArray = "pmix.evrange", DATA_ARRAY, None, "2.0";
    /// The process the event is about; as registration filter, only events about it.
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROC")]
    EVENT_AFFECTED_PROC: ProcId = "pmix.evproc", PROC, None, "2.0";
    /// The processes the event is about; as registration filter likewise.
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
    EVENT_AFFECTED_PROCS: DataArray = "pmix.evaffected", DATA_ARRAY, None, "2.0";
    /// Do not deliver to default handlers.
    #[doc(alias = "PMIX_EVENT_NON_DEFAULT")]
    EVENT_NON_DEFAULT: bool = "pmix.evnondef", BOOL, None, "2.0";
    /// Opaque object handed back to the registering process with each call.
    #[doc(alias = "PMIX_EVENT_RETURN_OBJECT")]
    EVENT_RETURN_OBJECT: Value = "pmix.evobject", POINTER, None, "2.0";
    /// Server must not keep the event for late registrants.
    #[doc(alias = "PMIX_EVENT_DO_NOT_CACHE")]
    EVENT_DO_NOT_CACHE: bool = "pmix.evnocache", BOOL, None, "2.0";
    /// Server that issued the event.
    #[doc(alias = "PMIX_EVENT_PROXY")]
    EVENT_PROXY: ProcId = "pmix.evproxy", PROC, None, "2.2";
    /// Printable text about the event.
    #[doc(alias = "PMIX_EVENT_TEXT_MESSAGE")]
    EVENT_TEXT_MESSAGE: String = "pmix.evtext", STRING, None, "2.2";
    /// When the thing reported happened.
    #[doc(alias = "PMIX_EVENT_TIMESTAMP")]
    EVENT_TIMESTAMP: Time = "pmix.evtstamp", TIME, None, "4.0";
    /// Manager intends to end the session.
    #[doc(alias = "PMIX_EVENT_TERMINATE_SESSION")]
    EVENT_TERMINATE_SESSION: bool = "pmix.evterm.sess", BOOL, None, "2.0";
    /// Manager intends to end the job.
    #[doc(alias = "PMIX_EVENT_TERMINATE_JOB")]
    EVENT_TERMINATE_JOB: bool = "pmix.evterm.job", BOOL, None, "2.0";
    /// Manager intends to end all processes on the node.
    #[doc(alias = "PMIX_EVENT_TERMINATE_NODE")]
    EVENT_TERMINATE_NODE: bool = "pmix.evterm.node", BOOL, None, "2.0";
    /// Manager intends to end just the process.
    #[doc(alias = "PMIX_EVENT_TERMINATE_PROC")]
    EVENT_TERMINATE_PROC: bool = "pmix.evterm.proc", BOOL, None, "2.0";
    /// Seconds until the manager acts.
    #[doc(alias = "PMIX_EVENT_ACTION_TIMEOUT")]
    EVENT_ACTION_TIMEOUT: i32 = "pmix.evtimeout", INT, None, "2.0";
    /// Namespace at the root of the spawn tree of the reported job.
    #[doc(alias = "PMIX_SPAWN_TREE_ROOT")]
    SPAWN_TREE_ROOT: String = "pmix.spwn.root", STRING, None, "impl head";
    /// Jobs of that tree still alive, not counting the reported one.
    #[doc(alias = "PMIX_SPAWN_TREE_ACTIVE")]
    SPAWN_TREE_ACTIVE: u32 = "pmix.spwn.actv", UINT32, None, "impl head";
    /// Remove the handler after its first call.
    #[doc(alias = "PMIX_EVENT_ONESHOT")]
    EVENT_ONESHOT: bool = "pmix.evone", BOOL, None, "impl 4.2.0";
    /// Never pass this event to the host (breaks loops).
    #[doc(alias = "PMIX_EVENT_STAYS_LOCAL")]
    EVENT_STAYS_LOCAL: bool = "pmix.evlocal", BOOL, None, "impl 6.0.0";
    /// Outcome of an allocation request.
    #[doc(alias = "PMIX_ALLOC_STATUS")]
    ALLOC_STATUS: Status = "pmix.alloc.status", STATUS, None, "impl head";
    /// Handler: no need to end the application.
    #[doc(alias = "PMIX_EVENT_NO_TERMINATION")]
    EVENT_NO_TERMINATION: bool = "pmix.evnoterm", BOOL, None, "2.0", deprecated "deprecated (headers)";
    /// Handler: end the application.
    #[doc(alias = "PMIX_EVENT_WANT_TERMINATION")]
    EVENT_WANT_TERMINATION: bool = "pmix.evterm", BOOL, None, "2.0", deprecated "deprecated (headers)";
}
