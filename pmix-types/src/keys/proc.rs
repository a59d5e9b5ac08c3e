// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{Cpuset, DataArray, Nspace, Pid, ProcId, Rank};

super::keys! {
    /// Names of all process sets a process belongs to.
    #[doc(alias = "PMIX_PSET_NAMES")]
    PSET_NAMES: DataArray = "pmix.pset.nms", DATA_ARRAY, Proc, "4.0";
    /// How often the process has been restarted; 0 for the first instance.
    #[doc(alias = "PMIX_REINCARNATION")]
    REINCARNATION: u32 = "pmix.reinc", UINT32, Proc, "4.0";
    /// Text form of the launch-time binding, prefixed by the generating library and a colon.
    #[doc(alias = "PMIX_CPUSET")]
    CPUSET: String = "pmix.cpuset", STRING, Proc, "1.0";
    /// Launch-time binding as a cpuset object.
    #[doc(alias = "PMIX_CPUSET_BITMAP")]
    CPUSET_BITMAP: Cpuset = "pmix.bitmap", PROC_CPUSET, Proc, "4.0";
    /// Security credential given to the process; a connecting tool also sends it.
    #[doc(alias = "PMIX_CREDENTIAL")]
    CREDENTIAL: String = "pmix.cred", STRING, Proc, "1.0";
    /// True if the process came from PMIx_Spawn; absence (not found) means false.
    #[doc(alias = "PMIX_SPAWNED")]
    SPAWNED: bool = "pmix.spawned", BOOL, Proc, "1.0";
    /// More processes of the job on the node than slots.
    #[doc(alias = "PMIX_NODE_OVERSUBSCRIBED")]
    NODE_OVERSUBSCRIBED: bool = "pmix.ndosub", BOOL, Node, "5.0";
    /// Process's temporary directory, below NSDIR.
    #[doc(alias = "PMIX_PROCDIR")]
    PROCDIR: String = "pmix.pdir", STRING, Proc, "1.1";
    /// Identifier of a process; as a Get key returns the caller's own id; as a qualifier selects the process.
    #[doc(alias = "PMIX_PROCID")]
    PROCID: ProcId = "pmix.procid", PROC, Proc, "2.0";
    /// Namespace; as a Get key (NULL proc) the caller's own; as a qualifier selects the job.
    #[doc(alias = "PMIX_NSPACE")]
    NSPACE: Nspace = "pmix.nspace", STRING, Proc, "2.0";
    /// Number of the app within the job the process belongs to; also selects an app as qualifier.
    #[doc(alias = "PMIX_APPNUM")]
    APPNUM: u32 = "pmix.appnum", UINT32, Proc, "1.0";
    /// Process's rank in the job, from 0; also a qualifier.
    #[doc(alias = "PMIX_RANK")]
    RANK: Rank = "pmix.rank", PROC_RANK, Proc, "1.0";
    /// Rank across every job of the session; only ever grows.
    #[doc(alias = "PMIX_GLOBAL_RANK")]
    GLOBAL_RANK: Rank = "pmix.grank", PROC_RANK, Proc, "1.0";
    /// Rank inside the app.
    #[doc(alias = "PMIX_APP_RANK")]
    APP_RANK: Rank = "pmix.apprank", PROC_RANK, Proc, "1.0";
    /// Index among the same job's processes on the node.
    #[doc(alias = "PMIX_LOCAL_RANK")]
    LOCAL_RANK: u16 = "pmix.lrank", UINT16, Proc, "1.0";
    /// Index among all jobs' processes on the node, frozen at start.
    #[doc(alias = "PMIX_NODE_RANK")]
    NODE_RANK: u16 = "pmix.nrank", UINT16, Proc, "1.0";
    /// Index among the same job's processes on the same package; needs binding inside one package.
    #[doc(alias = "PMIX_PACKAGE_RANK")]
    PACKAGE_RANK: u16 = "pmix.pkgrank", UINT16, Proc, "4.0";
    /// Operating system pid.
    #[doc(alias = "PMIX_PROC_PID")]
    PROC_PID: Pid = "pmix.ppid", PID, Proc, "2.0";
    /// Session identifier; also selects a session as qualifier.
    #[doc(alias = "PMIX_SESSION_ID")]
    SESSION_ID: u32 = "pmix.session.id", UINT32, Proc, "2.0";
    /// Name of the node; also selects a node as qualifier.
    #[doc(alias = "PMIX_HOSTNAME")]
    HOSTNAME: String = "pmix.hname", STRING, Node, "1.0";
    /// Other names of the node, comma list.
    #[doc(alias = "PMIX_HOSTNAME_ALIASES")]
    HOSTNAME_ALIASES: String = "pmix.alias", STRING, Node, "4.0";
    /// Index of the node in the session's node array; interchangeable with HOSTNAME.
    #[doc(alias = "PMIX_NODEID")]
    NODEID: u32 = "pmix.nodeid", UINT32, Node, "1.1";
    /// All processes on the node, of any namespace.
    #[doc(alias = "PMIX_LOCAL_PROCS")]
    LOCAL_PROCS: DataArray = "pmix.lprocs", DATA_ARRAY, Node, "2.0";
    /// Process that called Spawn to create this one; only for spawned processes.
    #[doc(alias = "PMIX_PARENT_ID")]
    PARENT_ID: ProcId = "pmix.parent", PROC, Proc, "2.0";
    /// Exit code of a finished process.
    #[doc(alias = "PMIX_EXIT_CODE")]
    EXIT_CODE: i32 = "pmix.exit.code", INT, Proc, "3.0";
    /// Processes of all jobs on the node.
    #[doc(alias = "PMIX_NODE_SIZE")]
    NODE_SIZE: u32 = "pmix.node.size", UINT32, Node, "1.0";
    /// Total physical memory of the node.
    #[doc(alias = "PMIX_AVAIL_PHYS_MEMORY")]
    AVAIL_PHYS_MEMORY: u64 = "pmix.pmem", UINT64, Node, "2.0";
    /// Text of the process's location, only for local processes; input to relative locality.
    #[doc(alias = "PMIX_LOCALITY_STRING")]
    LOCALITY_STRING: String = "pmix.locstr", STRING, Proc, "2.0";
    /// Groups a process belongs to.
    #[doc(alias = "PMIX_GROUP_NAMES")]
    GROUP_NAMES: DataArray = "pmix.pgrp.nm", DATA_ARRAY, Proc, "4.0";
}
