// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, ProcId, Value};

super::keys! {
    /// The app consists of debugger daemons.
    #[doc(alias = "PMIX_DEBUGGER_DAEMONS")]
    DEBUGGER_DAEMONS: bool = "pmix.debugger", BOOL, None, "2.0";
    /// App is launched alongside but as its own separate job.
    #[doc(alias = "PMIX_COSPAWN_APP")]
    COSPAWN_APP: bool = "pmix.cospawn", BOOL, None, "2.0";
    /// Stop ranks at their first instruction.
    #[doc(alias = "PMIX_DEBUG_STOP_ON_EXEC")]
    DEBUG_STOP_ON_EXEC: Value = "pmix.dbg.exec", UNDEF, None, "2.0";
    /// Stop ranks inside init until released; a launcher stops inside tool init.
    #[doc(alias = "PMIX_DEBUG_STOP_IN_INIT")]
    DEBUG_STOP_IN_INIT: Value = "pmix.dbg.init", UNDEF, None, "2.0";
    /// Stop ranks at a point chosen by the application.
    #[doc(alias = "PMIX_DEBUG_STOP_IN_APP")]
    DEBUG_STOP_IN_APP: Value = "pmix.dbg.notify", UNDEF, None, "5.0";
    /// Label of the point at which processes wait.
    #[doc(alias = "PMIX_BREAKPOINT")]
    BREAKPOINT: String = "pmix.brkpnt", STRING, None, "5.0";
    /// Processes to debug; wildcard rank for all.
    #[doc(alias = "PMIX_DEBUG_TARGET")]
    DEBUG_TARGET: ProcId = "pmix.dbg.tgt", PROC, None, "4.0";
    /// Debugger daemons per application process.
    #[doc(alias = "PMIX_DEBUG_DAEMONS_PER_PROC")]
    DEBUG_DAEMONS_PER_PROC: u16 = "pmix.dbg.dpproc", UINT16, None, "4.0";
    /// Debugger daemons per node of the target job.
    #[doc(alias = "PMIX_DEBUG_DAEMONS_PER_NODE")]
    DEBUG_DAEMONS_PER_NODE: u16 = "pmix.dbg.dpnd", UINT16, None, "4.0";
    /// Place the new job next to these processes.
    #[doc(alias = "PMIX_COLOCATE_PROCS")]
    COLOCATE_PROCS: DataArray = "pmix.colproc", DATA_ARRAY, None, "impl 4.2.0";
    /// How many to place per listed process.
    #[doc(alias = "PMIX_COLOCATE_NPERPROC")]
    COLOCATE_NPERPROC: u16 = "pmix.colnum.proc", UINT16, None, "impl 4.2.0";
    /// How many to place per node of listed processes.
    #[doc(alias = "PMIX_COLOCATE_NPERNODE")]
    COLOCATE_NPERNODE: u16 = "pmix.colnum.node", UINT16, None, "impl 4.2.0";
    /// Job-level directives for the debugger.
    #[doc(alias = "PMIX_DEBUG_JOB_DIRECTIVES")]
    DEBUG_JOB_DIRECTIVES: DataArray = "pmix.dbg.jdirs", DATA_ARRAY, None, "3.0", deprecated "deprecated (headers)";
    /// App-level directives for the debugger.
    #[doc(alias = "PMIX_DEBUG_APP_DIRECTIVES")]
    DEBUG_APP_DIRECTIVES: DataArray = "pmix.dbg.adirs", DATA_ARRAY, None, "3.0", deprecated "deprecated (headers)";
    /// Old name of DEBUG_STOP_IN_APP (same string).
    #[doc(alias = "PMIX_DEBUG_WAIT_FOR_NOTIFY")]
    DEBUG_WAIT_FOR_NOTIFY: bool = "pmix.dbg.notify", BOOL, None, "2.0", deprecated "deprecated 5.0";
}
