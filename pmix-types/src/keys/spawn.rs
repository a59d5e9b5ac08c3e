// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::{DataArray, Envar, ProcId, Value};

super::keys! {
    /// Processes started for the tool keep running after the tool disconnects.
    #[doc(alias = "PMIX_NOHUP")]
    NOHUP: bool = "pmix.nohup", BOOL, None, "4.0";
    /// Executable to use in place of the launcher's own backend daemon.
    #[doc(alias = "PMIX_LAUNCHER_DAEMON")]
    LAUNCHER_DAEMON: String = "pmix.lnch.dmn", STRING, None, "4.0";
    /// Executable started instead of the app; receives the app command line and execs it itself, does not
    /// call back.
    #[doc(alias = "PMIX_EXEC_AGENT")]
    EXEC_AGENT: String = "pmix.exec.agnt", STRING, None, "4.0";
    /// All directives meant for an intermediate launcher, fetched with one Get.
    #[doc(alias = "PMIX_LAUNCH_DIRECTIVES")]
    LAUNCH_DIRECTIVES: DataArray = "pmix.lnch.dirs", DATA_ARRAY, None, "4.0";
    /// Ask for the job-end event of the spawned job.
    #[doc(alias = "PMIX_NOTIFY_COMPLETION")]
    NOTIFY_COMPLETION: bool = "pmix.notecomp", BOOL, None, "1.1";
    /// No job-end event when this job ends normally.
    #[doc(alias = "PMIX_EVENT_SILENT_TERMINATION")]
    EVENT_SILENT_TERMINATION: bool = "pmix.evsilentterm", BOOL, None, "2.0";
    /// Launcher personality matching the programming model.
    #[doc(alias = "PMIX_PERSONALITY")]
    PERSONALITY: String = "pmix.pers", STRING, None, "1.2";
    /// Hosts to run on, comma list.
    #[doc(alias = "PMIX_HOST")]
    HOST: String = "pmix.host", STRING, None, "1.2";
    /// File listing hosts to run on.
    #[doc(alias = "PMIX_HOSTFILE")]
    HOSTFILE: String = "pmix.hostfile", STRING, None, "1.2";
    /// Hosts to add to the allocation.
    #[doc(alias = "PMIX_ADD_HOST")]
    ADD_HOST: String = "pmix.addhost", STRING, None, "1.2";
    /// File of hosts to add to the allocation.
    #[doc(alias = "PMIX_ADD_HOSTFILE")]
    ADD_HOSTFILE: String = "pmix.addhostfile", STRING, None, "1.2";
    /// Installation or executable prefix on the nodes.
    #[doc(alias = "PMIX_PREFIX")]
    PREFIX: String = "pmix.prefix", STRING, None, "1.2";
    /// Working directory of the processes; also an app value at registration.
    #[doc(alias = "PMIX_WDIR")]
    WDIR: String = "pmix.wdir", STRING, None, "1.2";
    /// Print the placement map.
    #[doc(alias = "PMIX_DISPLAY_MAP")]
    DISPLAY_MAP: bool = "pmix.dispmap", BOOL, None, "1.2";
    /// Processes per resource specification.
    #[doc(alias = "PMIX_PPR")]
    PPR: String = "pmix.ppr", STRING, None, "1.2";
    /// Mapping policy; retrievable at job level.
    #[doc(alias = "PMIX_MAPBY")]
    MAPBY: String = "pmix.mapby", STRING, None, "1.2";
    /// Ranking policy; retrievable at job level.
    #[doc(alias = "PMIX_RANKBY")]
    RANKBY: String = "pmix.rankby", STRING, None, "1.2";
    /// Binding policy; retrievable at job level.
    #[doc(alias = "PMIX_BINDTO")]
    BINDTO: String = "pmix.bindto", STRING, None, "1.2";
    /// Stage executables before launch.
    #[doc(alias = "PMIX_PRELOAD_BIN")]
    PRELOAD_BIN: bool = "pmix.preloadbin", BOOL, None, "1.2";
    /// Files to stage before launch.
    #[doc(alias = "PMIX_PRELOAD_FILES")]
    PRELOAD_FILES: String = "pmix.preloadfiles", STRING, None, "1.2";
    /// Process that gets forwarded stdin.
    #[doc(alias = "PMIX_STDIN_TGT")]
    STDIN_TGT: ProcId = "pmix.stdin", PROC, None, "1.2";
    /// Start in the session's working directory.
    #[doc(alias = "PMIX_SET_SESSION_CWD")]
    SET_SESSION_CWD: bool = "pmix.ssncwd", BOOL, None, "2.0";
    /// Append `"-<rank>"` to `argv[0]`.
    #[doc(alias = "PMIX_INDEX_ARGV")]
    INDEX_ARGV: bool = "pmix.indxargv", BOOL, None, "2.0";
    /// Cpus for each rank; retrievable at job level.
    #[doc(alias = "PMIX_CPUS_PER_PROC")]
    CPUS_PER_PROC: u32 = "pmix.cpuperproc", UINT32, None, "2.0";
    /// Keep the head node free.
    #[doc(alias = "PMIX_NO_PROCS_ON_HEAD")]
    NO_PROCS_ON_HEAD: bool = "pmix.nolocal", BOOL, None, "2.0";
    /// Never exceed the slots of a node.
    #[doc(alias = "PMIX_NO_OVERSUBSCRIBE")]
    NO_OVERSUBSCRIBE: bool = "pmix.noover", BOOL, None, "2.0";
    /// Report bindings.
    #[doc(alias = "PMIX_REPORT_BINDINGS")]
    REPORT_BINDINGS: bool = "pmix.repbind", BOOL, None, "2.0";
    /// Cpus the job may use; retrievable at job level.
    #[doc(alias = "PMIX_CPU_LIST")]
    CPU_LIST: String = "pmix.cpulist", STRING, None, "2.0";
    /// App can survive failures.
    #[doc(alias = "PMIX_JOB_RECOVERABLE")]
    JOB_RECOVERABLE: bool = "pmix.recover", BOOL, None, "2.0";
    /// Restart failed processes at once.
    #[doc(alias = "PMIX_JOB_CONTINUOUS")]
    JOB_CONTINUOUS: bool = "pmix.continuous", BOOL, None, "2.0";
    /// Restart limit; retrievable at job level.
    #[doc(alias = "PMIX_MAX_RESTARTS")]
    MAX_RESTARTS: u32 = "pmix.maxrestarts", UINT32, None, "2.0";
    /// The spawned job is a tool.
    #[doc(alias = "PMIX_SPAWN_TOOL")]
    SPAWN_TOOL: bool = "pmix.spwn.tool", BOOL, None, "3.0";
    /// Executable the daemon starts instead of the app; it connects back as a tool and forks the app.
    #[doc(alias = "PMIX_FORKEXEC_AGENT")]
    FORKEXEC_AGENT: String = "pmix.fe.agnt", STRING, None, "4.0";
    /// Run-time limit of the job in seconds; 0 none.
    #[doc(alias = "PMIX_JOB_TIMEOUT")]
    JOB_TIMEOUT: i32 = "pmix.job.time", INT, None, "5.0";
    /// Limit for the spawn operation itself in seconds; 0 none.
    #[doc(alias = "PMIX_SPAWN_TIMEOUT")]
    SPAWN_TIMEOUT: i32 = "pmix.sp.time", INT, None, "5.0";
    /// Add stack traces to the timeout report.
    #[doc(alias = "PMIX_TIMEOUT_STACKTRACES")]
    TIMEOUT_STACKTRACES: bool = "pmix.tim.stack", BOOL, None, "4.0";
    /// Add process states to the timeout report.
    #[doc(alias = "PMIX_TIMEOUT_REPORT_STATE")]
    TIMEOUT_REPORT_STATE: bool = "pmix.tim.state", BOOL, None, "4.0";
    /// Ask for job-start, launch-complete and job-end events.
    #[doc(alias = "PMIX_NOTIFY_JOB_EVENTS")]
    NOTIFY_JOB_EVENTS: bool = "pmix.note.jev", BOOL, None, "4.0";
    /// Ask for an event on every process end.
    #[doc(alias = "PMIX_NOTIFY_PROC_TERMINATION")]
    NOTIFY_PROC_TERMINATION: bool = "pmix.noteproc", BOOL, None, "4.0";
    /// Ask for an event on abnormal process end only.
    #[doc(alias = "PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION")]
    NOTIFY_PROC_ABNORMAL_TERMINATION: bool = "pmix.noteabproc", BOOL, None, "4.0";
    /// Requester already collected environment variables.
    #[doc(alias = "PMIX_ENVARS_HARVESTED")]
    ENVARS_HARVESTED: bool = "pmix.evar.hvstd", BOOL, None, "5.0";
    /// Log every process end.
    #[doc(alias = "PMIX_LOG_PROC_TERMINATION")]
    LOG_PROC_TERMINATION: bool = "pmix.logproc", BOOL, None, "4.0";
    /// Log abnormal process ends.
    #[doc(alias = "PMIX_LOG_PROC_ABNORMAL_TERMINATION")]
    LOG_PROC_ABNORMAL_TERMINATION: bool = "pmix.logabproc", BOOL, None, "4.0";
    /// Log job start, launch complete and job end.
    #[doc(alias = "PMIX_LOG_JOB_EVENTS")]
    LOG_JOB_EVENTS: bool = "pmix.log.jev", BOOL, None, "4.0";
    /// Log the job end.
    #[doc(alias = "PMIX_LOG_COMPLETION")]
    LOG_COMPLETION: bool = "pmix.logcomp", BOOL, None, "4.0";
    /// Set a variable, replacing any value.
    #[doc(alias = "PMIX_SET_ENVAR")]
    SET_ENVAR: Envar = "pmix.envar.set", ENVAR, None, "2.0";
    /// Set a variable only if it is not set.
    #[doc(alias = "PMIX_ADD_ENVAR")]
    ADD_ENVAR: Envar = "pmix.envar.add", ENVAR, None, "3.0";
    /// Remove a variable.
    #[doc(alias = "PMIX_UNSET_ENVAR")]
    UNSET_ENVAR: String = "pmix.envar.unset", STRING, None, "2.0";
    /// Put a value in front, with the separator; create if missing.
    #[doc(alias = "PMIX_PREPEND_ENVAR")]
    PREPEND_ENVAR: Envar = "pmix.envar.prepnd", ENVAR, None, "3.0";
    /// Put a value at the end, with the separator; create if missing.
    #[doc(alias = "PMIX_APPEND_ENVAR")]
    APPEND_ENVAR: Envar = "pmix.envar.appnd", ENVAR, None, "3.0";
    /// Make sure a value stands first; create if missing.
    #[doc(alias = "PMIX_FIRST_ENVAR")]
    FIRST_ENVAR: Envar = "pmix.envar.first", ENVAR, None, "4.0";
    /// The working directory came from the user.
    #[doc(alias = "PMIX_WDIR_USER_SPECIFIED")]
    WDIR_USER_SPECIFIED: bool = "pmix.wdir.user", BOOL, None, "impl 4.2.0";
    /// Print a very detailed placement map.
    #[doc(alias = "PMIX_DISPLAY_MAP_DETAILED")]
    DISPLAY_MAP_DETAILED: bool = "pmix.dispmapdet", BOOL, None, "impl 5.0.0";
    /// Print the allocation.
    #[doc(alias = "PMIX_DISPLAY_ALLOCATION")]
    DISPLAY_ALLOCATION: bool = "pmix.dispalloc", BOOL, None, "impl 5.0.0";
    /// Print the topology of the listed hosts.
    #[doc(alias = "PMIX_DISPLAY_TOPOLOGY")]
    DISPLAY_TOPOLOGY: String = "pmix.disptopo", STRING, None, "impl 5.0.0";
    /// Print available cpus of the listed hosts.
    #[doc(alias = "PMIX_DISPLAY_PROCESSORS")]
    DISPLAY_PROCESSORS: String = "pmix.dispcpus", STRING, None, "impl 5.0.0";
    /// Make displayed information machine friendly.
    #[doc(alias = "PMIX_DISPLAY_PARSEABLE_OUTPUT")]
    DISPLAY_PARSEABLE_OUTPUT: bool = "pmix.dispparse", BOOL, None, "impl 5.0.0";
    /// Report bindings with physical cpu numbers.
    #[doc(alias = "PMIX_REPORT_PHYSICAL_CPUS")]
    REPORT_PHYSICAL_CPUS: bool = "pmix.repphys.cpus", BOOL, None, "impl 6.1.0";
    /// Launcher-specific run-time options text.
    #[doc(alias = "PMIX_RUNTIME_OPTIONS")]
    RUNTIME_OPTIONS: String = "pmix.runopt", STRING, None, "impl 5.0.0";
    /// End the job if a process exits non-zero.
    #[doc(alias = "PMIX_ABORT_NON_ZERO_TERM")]
    ABORT_NON_ZERO_TERM: bool = "pmix.abnz", BOOL, None, "impl 5.0.0";
    /// Do everything but start the processes.
    #[doc(alias = "PMIX_DO_NOT_LAUNCH")]
    DO_NOT_LAUNCH: bool = "pmix.dnl", BOOL, None, "impl 5.0.0";
    /// Print progress during launch.
    #[doc(alias = "PMIX_SHOW_LAUNCH_PROGRESS")]
    SHOW_LAUNCH_PROGRESS: bool = "pmix.showprog", BOOL, None, "impl 5.0.0";
    /// Merge identical help messages.
    #[doc(alias = "PMIX_AGGREGATE_HELP")]
    AGGREGATE_HELP: bool = "pmix.agg.help", BOOL, None, "impl 5.0.0";
    /// Report exit of child jobs on their own.
    #[doc(alias = "PMIX_REPORT_CHILD_SEP")]
    REPORT_CHILD_SEP: bool = "pmix.rptchildsep", BOOL, None, "impl 5.0.0";
    /// Child job outlives its parent.
    #[doc(alias = "PMIX_SPAWN_CHILD_SEP")]
    SPAWN_CHILD_SEP: bool = "pmix.spchildsep", BOOL, None, "impl 6.0.0";
    /// Pass the local environment on.
    #[doc(alias = "PMIX_FWD_ENVIRONMENT")]
    FWD_ENVIRONMENT: bool = "pmix.fwdenv", BOOL, None, "impl 6.1.0";
    /// Use a pseudo terminal.
    #[doc(alias = "PMIX_SPAWN_PTY")]
    SPAWN_PTY: bool = "pmix.spawn.pty", BOOL, None, "impl 6.1.0";
    /// Terminal settings blob.
    #[doc(alias = "PMIX_PTY_TERMIO")]
    PTY_TERMIO: Bytes = "pmix.pty.termio", BYTE_OBJECT, None, "impl 6.1.0";
    /// Window size blob.
    #[doc(alias = "PMIX_PTY_WSIZE")]
    PTY_WSIZE: Bytes = "pmix.pty.wsize", BYTE_OBJECT, None, "impl 6.1.0";
    /// Allocation id (or array of ids) to map the job into.
    #[doc(alias = "PMIX_SPAWN_TARGET")]
    SPAWN_TARGET: Value = "pmix.spwn.tgt", UNDEF, None, "impl head";
    /// Turn the library's GPU support on or off.
    #[doc(alias = "PMIX_GPU_SUPPORT")]
    GPU_SUPPORT: bool = "pmix.gpu.support", BOOL, None, "impl 6.0.0";
    /// Tag output with its source; use IOF_TAG_OUTPUT.
    #[doc(alias = "PMIX_TAG_OUTPUT")]
    TAG_OUTPUT: bool = "pmix.tagout", BOOL, None, "2.0", deprecated "deprecated (headers)";
    /// Stamp output; use IOF_TIMESTAMP_OUTPUT.
    #[doc(alias = "PMIX_TIMESTAMP_OUTPUT")]
    TIMESTAMP_OUTPUT: bool = "pmix.tsout", BOOL, None, "2.0", deprecated "deprecated (headers)";
    /// Merge output streams; use IOF_MERGE_STDERR_STDOUT.
    #[doc(alias = "PMIX_MERGE_STDERR_STDOUT")]
    MERGE_STDERR_STDOUT: bool = "pmix.mergeerrout", BOOL, None, "2.0", deprecated "deprecated (headers)";
    /// Output to files; use IOF_OUTPUT_TO_FILE.
    #[doc(alias = "PMIX_OUTPUT_TO_FILE")]
    OUTPUT_TO_FILE: String = "pmix.outfile", STRING, None, "2.0", deprecated "deprecated (headers)";
    /// Output below a directory; use IOF_OUTPUT_TO_DIRECTORY.
    #[doc(alias = "PMIX_OUTPUT_TO_DIRECTORY")]
    OUTPUT_TO_DIRECTORY: String = "pmix.outdir", STRING, None, "4.0", deprecated "deprecated (headers)";
    /// Files only; use IOF_FILE_ONLY.
    #[doc(alias = "PMIX_OUTPUT_NOCOPY")]
    OUTPUT_NOCOPY: bool = "pmix.nocopy", BOOL, None, "impl 4.1.0", deprecated "deprecated (headers)";
    /// Tell the requester when the job is launched.
    #[doc(alias = "PMIX_NOTIFY_LAUNCH")]
    NOTIFY_LAUNCH: bool = "pmix.note.lnch", BOOL, None, "impl 4.0.0", deprecated "deprecated (headers)";
}
