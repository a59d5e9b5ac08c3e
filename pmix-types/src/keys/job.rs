// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::Rank;

super::keys! {
    /// Top temporary directory of the session.
    #[doc(alias = "PMIX_TMPDIR")]
    TMPDIR: String = "pmix.tmpdir", STRING, Session, "1.0";
    /// Job's temporary directory, below TMPDIR.
    #[doc(alias = "PMIX_NSDIR")]
    NSDIR: String = "pmix.nsdir", STRING, Job, "1.1";
    /// The resource manager removes those directories itself.
    #[doc(alias = "PMIX_TDIR_RMCLEAN")]
    TDIR_RMCLEAN: bool = "pmix.tdir.rmclean", BOOL, Session, "2.0";
    /// Name of the cluster; used to build "cluster:nspace" identifiers.
    #[doc(alias = "PMIX_CLUSTER_ID")]
    CLUSTER_ID: String = "pmix.clid", STRING, Session, "3.0";
    /// Job identifier given by the scheduler.
    #[doc(alias = "PMIX_JOBID")]
    JOBID: String = "pmix.jobid", STRING, Job, "1.0";
    /// Global rank of the job's rank 0.
    #[doc(alias = "PMIX_NPROC_OFFSET")]
    NPROC_OFFSET: Rank = "pmix.offset", PROC_RANK, Job, "1.0";
    /// Lowest rank of the job on the node.
    #[doc(alias = "PMIX_LOCALLDR")]
    LOCALLDR: Rank = "pmix.lldr", PROC_RANK, Job, "1.0";
    /// Lowest job rank of the app.
    #[doc(alias = "PMIX_APPLDR")]
    APPLDR: Rank = "pmix.aldr", PROC_RANK, App, "1.0";
    /// Nodes now hosting processes of the realm, comma list (job realm by default).
    #[doc(alias = "PMIX_NODE_LIST")]
    NODE_LIST: String = "pmix.nlist", STRING, Job, "1.0";
    /// All nodes assigned to the realm, used or not (job realm by default).
    #[doc(alias = "PMIX_ALLOCATED_NODELIST")]
    ALLOCATED_NODELIST: String = "pmix.alist", STRING, Job, "2.0";
    /// Full domain names are kept in host names.
    #[doc(alias = "PMIX_HOSTNAME_KEEP_FQDN")]
    HOSTNAME_KEEP_FQDN: bool = "pmix.fqdn", BOOL, Session, "4.0";
    /// Comma list of the namespace's ranks on the node; the value Resolve_peers looks for.
    #[doc(alias = "PMIX_LOCAL_PEERS")]
    LOCAL_PEERS: String = "pmix.lpeers", STRING, Job, "1.0";
    /// Cpusets of the local peers, same order as LOCAL_PEERS (colon list in headers, string array in newest
    /// standard).
    #[doc(alias = "PMIX_LOCAL_CPUSETS")]
    LOCAL_CPUSETS: String = "pmix.lcpus", STRING, Job, "1.0";
    /// Slots in the session (same as MAX_PROCS at session level).
    #[doc(alias = "PMIX_UNIV_SIZE")]
    UNIV_SIZE: u32 = "pmix.univ.size", UINT32, Session, "1.0";
    /// Number of processes in the job.
    #[doc(alias = "PMIX_JOB_SIZE")]
    JOB_SIZE: u32 = "pmix.job.size", UINT32, Job, "1.0";
    /// Number of apps in the job.
    #[doc(alias = "PMIX_JOB_NUM_APPS")]
    JOB_NUM_APPS: u32 = "pmix.job.napps", UINT32, Job, "2.0";
    /// Number of processes in the app, whatever their state.
    #[doc(alias = "PMIX_APP_SIZE")]
    APP_SIZE: u32 = "pmix.app.size", UINT32, App, "2.0";
    /// Processes of the job (or app) on the caller's node.
    #[doc(alias = "PMIX_LOCAL_SIZE")]
    LOCAL_SIZE: u32 = "pmix.local.size", UINT32, Job, "1.0";
    /// Most processes that may run at once in the realm (job by default; session/app/node with qualifier).
    #[doc(alias = "PMIX_MAX_PROCS")]
    MAX_PROCS: u32 = "pmix.max.size", UINT32, Job, "1.0";
    /// Slots of the realm; equivalent of MAX_PROCS.
    #[doc(alias = "PMIX_NUM_SLOTS")]
    NUM_SLOTS: u32 = "pmix.num.slots", UINT32, Job, "2.1";
    /// Nodes now hosting processes of the realm (job by default).
    #[doc(alias = "PMIX_NUM_NODES")]
    NUM_NODES: u32 = "pmix.num.nodes", UINT32, Job, "2.0";
    /// Nodes assigned to the realm, used or not (job by default).
    #[doc(alias = "PMIX_NUM_ALLOCATED_NODES")]
    NUM_ALLOCATED_NODES: u32 = "pmix.num.anodes", UINT32, Job, "4.0";
    /// Encoded node list of the realm; order fixes the order of PROC_MAP.
    #[doc(alias = "PMIX_NODE_MAP")]
    NODE_MAP: String = "pmix.nmap", STRING, Job, "1.0";
    /// Plain comma node list of the realm.
    #[doc(alias = "PMIX_NODE_MAP_RAW")]
    NODE_MAP_RAW: String = "pmix.nmap.raw", STRING, Job, "4.0";
    /// Encoded ranks per node, in NODE_MAP order.
    #[doc(alias = "PMIX_PROC_MAP")]
    PROC_MAP: String = "pmix.pmap", STRING, Job, "1.0";
    /// Plain ranks per node: nodes split by ';', ranks by ','.
    #[doc(alias = "PMIX_PROC_MAP_RAW")]
    PROC_MAP_RAW: String = "pmix.pmap.raw", STRING, Job, "4.0";
    /// Process map in the ANL notation of PMI-1/2.
    #[doc(alias = "PMIX_ANL_MAP")]
    ANL_MAP: String = "pmix.anlmap", STRING, Job, "1.1";
    /// Name of the mapping pattern of the app.
    #[doc(alias = "PMIX_APP_MAP_TYPE")]
    APP_MAP_TYPE: String = "pmix.apmap.type", STRING, App, "2.0";
    /// Encoded result of mapping the app.
    #[doc(alias = "PMIX_APP_MAP_REGEX")]
    APP_MAP_REGEX: String = "pmix.apmap.regex", STRING, App, "2.0";
    /// Command line of the job; spawned: app argvs joined by ':'.
    #[doc(alias = "PMIX_CMD_LINE")]
    CMD_LINE: String = "pmix.cmd.line", STRING, Job, "4.0";
    /// Argv of the app joined into one string.
    #[doc(alias = "PMIX_APP_ARGV")]
    APP_ARGV: String = "pmix.app.argv", STRING, App, "4.0";
    /// Name of the resource manager.
    #[doc(alias = "PMIX_RM_NAME")]
    RM_NAME: String = "pmix.rm.name", STRING, Session, "2.0";
    /// Version of the resource manager.
    #[doc(alias = "PMIX_RM_VERSION")]
    RM_VERSION: String = "pmix.rm.version", STRING, Session, "2.0";
}
