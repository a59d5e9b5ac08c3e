// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::{DataArray, Rank, Status, Value};

super::keys! {
    /// Placeholder key meaning "no attribute".
    #[doc(alias = "PMIX_ATTR_UNDEF")]
    ATTR_UNDEF: Value = "pmix.undef", UNDEF, None, "1.0";
    /// Library starts no progress thread; the host drives it by calling PMIx_Progress.
    #[doc(alias = "PMIX_EXTERNAL_PROGRESS")]
    EXTERNAL_PROGRESS: bool = "pmix.evext", BOOL, None, "4.0";
    /// Server agrees to accept tool connections (rendezvous files are created).
    #[doc(alias = "PMIX_SERVER_TOOL_SUPPORT")]
    SERVER_TOOL_SUPPORT: bool = "pmix.srvr.tool", BOOL, None, "2.0";
    /// Listen beyond loopback so tools on other nodes can connect.
    #[doc(alias = "PMIX_SERVER_REMOTE_CONNECTIONS")]
    SERVER_REMOTE_CONNECTIONS: bool = "pmix.srvr.remote", BOOL, None, "2.0";
    /// This is the node's one system-level server (untagged rendezvous point in the system tmpdir).
    #[doc(alias = "PMIX_SERVER_SYSTEM_SUPPORT")]
    SERVER_SYSTEM_SUPPORT: bool = "pmix.srvr.sys", BOOL, None, "2.0";
    /// This is the session-level server on the node.
    #[doc(alias = "PMIX_SERVER_SESSION_SUPPORT")]
    SERVER_SESSION_SUPPORT: bool = "pmix.srvr.sess", BOOL, None, "4.0";
    /// Directory for this server's own rendezvous and contact files.
    #[doc(alias = "PMIX_SERVER_TMPDIR")]
    SERVER_TMPDIR: String = "pmix.srvr.tmpdir", STRING, None, "1.2";
    /// Directory where a system-level server puts its rendezvous point.
    #[doc(alias = "PMIX_SYSTEM_TMPDIR")]
    SYSTEM_TMPDIR: String = "pmix.sys.tmpdir", STRING, None, "2.0";
    /// Server publishes its hardware topology to local clients.
    #[doc(alias = "PMIX_SERVER_SHARE_TOPOLOGY")]
    SERVER_SHARE_TOPOLOGY: bool = "pmix.srvr.share", BOOL, None, "4.0";
    /// Server performs internal activity monitoring itself.
    #[doc(alias = "PMIX_SERVER_ENABLE_MONITORING")]
    SERVER_ENABLE_MONITORING: bool = "pmix.srv.monitor", BOOL, None, "2.0";
    /// Namespace name of the server; also a tool's selector for the server to attach to, and a job-level
    /// value at registration.
    #[doc(alias = "PMIX_SERVER_NSPACE")]
    SERVER_NSPACE: String = "pmix.srv.nspace", STRING, None, "2.0";
    /// Rank of the server within its namespace; also a job-level value at registration.
    #[doc(alias = "PMIX_SERVER_RANK")]
    SERVER_RANK: Rank = "pmix.srv.rank", PROC_RANK, None, "2.0";
    /// Server sits on a node that can reach outside services (email, global syslog).
    #[doc(alias = "PMIX_SERVER_GATEWAY")]
    SERVER_GATEWAY: bool = "pmix.srv.gway", BOOL, None, "3.0";
    /// Server is embedded in the scheduler; enables scheduler-only features.
    #[doc(alias = "PMIX_SERVER_SCHEDULER")]
    SERVER_SCHEDULER: bool = "pmix.srv.sched", BOOL, None, "4.0";
    /// All nodes of the session have identical hardware.
    #[doc(alias = "PMIX_HOMOGENEOUS_SYSTEM")]
    HOMOGENEOUS_SYSTEM: bool = "pmix.homo", BOOL, None, "4.0";
    /// "nspace.rank" text of the singleton for which this server was started.
    #[doc(alias = "PMIX_SINGLETON")]
    SINGLETON: String = "pmix.singleton", STRING, None, "5.0";
    /// Programming model in use, for example MPI.
    #[doc(alias = "PMIX_PROGRAMMING_MODEL")]
    PROGRAMMING_MODEL: String = "pmix.pgm.model", STRING, None, "2.0";
    /// Which implementation of the model, for example MPICH.
    #[doc(alias = "PMIX_MODEL_LIBRARY_NAME")]
    MODEL_LIBRARY_NAME: String = "pmix.mdl.name", STRING, None, "2.0";
    /// Version text of that implementation.
    #[doc(alias = "PMIX_MODEL_LIBRARY_VERSION")]
    MODEL_LIBRARY_VERSION: String = "pmix.mld.vrs", STRING, None, "2.0";
    /// Thread package in use.
    #[doc(alias = "PMIX_THREADING_MODEL")]
    THREADING_MODEL: String = "pmix.threads", STRING, None, "2.0";
    /// Threads the model is running.
    #[doc(alias = "PMIX_MODEL_NUM_THREADS")]
    MODEL_NUM_THREADS: u64 = "pmix.mdl.nthrds", UINT64, None, "3.0";
    /// Cpus the model is using.
    #[doc(alias = "PMIX_MODEL_NUM_CPUS")]
    MODEL_NUM_CPUS: u64 = "pmix.mdl.ncpu", UINT64, None, "3.0";
    /// Unit those cpus are counted in (hwthread, core, ...).
    #[doc(alias = "PMIX_MODEL_CPU_TYPE")]
    MODEL_CPU_TYPE: String = "pmix.mdl.cputype", STRING, None, "3.0";
    /// Label of the current application phase.
    #[doc(alias = "PMIX_MODEL_PHASE_NAME")]
    MODEL_PHASE_NAME: String = "pmix.mdl.phase", STRING, None, "3.0";
    /// Kind of the current application phase.
    #[doc(alias = "PMIX_MODEL_PHASE_TYPE")]
    MODEL_PHASE_TYPE: String = "pmix.mdl.ptype", STRING, None, "3.0";
    /// Thread placement policy: master, close or spread.
    #[doc(alias = "PMIX_MODEL_AFFINITY_POLICY")]
    MODEL_AFFINITY_POLICY: String = "pmix.mdl.tap", STRING, None, "3.0";
    /// Topology object of the local node.
    #[doc(alias = "PMIX_TOPOLOGY2")]
    TOPOLOGY2: Value = "pmix.topo2", TOPO, None, "4.0";
    /// Run a fence as part of finalize.
    #[doc(alias = "PMIX_EMBED_BARRIER")]
    EMBED_BARRIER: bool = "pmix.embed.barrier", BOOL, None, "2.0";
    /// Register the namespace only; no job data to store.
    #[doc(alias = "PMIX_REGISTER_NODATA")]
    REGISTER_NODATA: bool = "pmix.reg.nodata", BOOL, None, "2.0";
    /// Dmodex: do not answer before this key is available (or timeout).
    #[doc(alias = "PMIX_REQUIRED_KEY")]
    REQUIRED_KEY: String = "pmix.req.key", STRING, None, "4.0";
    /// Server tells host how the local part of a collective went; absent means success.
    #[doc(alias = "PMIX_LOCAL_COLLECTIVE_STATUS")]
    LOCAL_COLLECTIVE_STATUS: Status = "pmix.loc.col.st", STATUS, None, "5.0";
    /// Collect environment variables.
    #[doc(alias = "PMIX_SETUP_APP_ENVARS")]
    SETUP_APP_ENVARS: bool = "pmix.setup.env", BOOL, None, "3.0";
    /// Collect everything except environment variables.
    #[doc(alias = "PMIX_SETUP_APP_NONENVARS")]
    SETUP_APP_NONENVARS: bool = "pmix.setup.nenv", BOOL, None, "3.0";
    /// Collect environment variables and everything else.
    #[doc(alias = "PMIX_SETUP_APP_ALL")]
    SETUP_APP_ALL: bool = "pmix.setup.all", BOOL, None, "3.0";
    /// Largest accepted value.
    #[doc(alias = "PMIX_MAX_VALUE")]
    MAX_VALUE: Value = "pmix.descr.maxval", UNDEF, None, "4.0";
    /// Smallest accepted value.
    #[doc(alias = "PMIX_MIN_VALUE")]
    MIN_VALUE: Value = "pmix.descr.minval", UNDEF, None, "4.0";
    /// Accepted values.
    #[doc(alias = "PMIX_ENUM_VALUE")]
    ENUM_VALUE: String = "pmix.descr.enum", STRING, None, "4.0";
    /// Drain the progress thread's queue before stopping it.
    #[doc(alias = "PMIX_PROGRESS_THREAD_FLUSH")]
    PROGRESS_THREAD_FLUSH: bool = "pmix.evflush", BOOL, None, "impl 6.1.0";
    /// Which progress thread to stop; empty selects all of them.
    #[doc(alias = "PMIX_PROGRESS_THREAD_NAME")]
    PROGRESS_THREAD_NAME: String = "pmix.pthrdnm", STRING, None, "impl 6.1.0";
    /// Event loop handle for side jobs such as signal capture (C-only concept).
    #[doc(alias = "PMIX_EXTERNAL_AUX_EVENT_BASE")]
    EXTERNAL_AUX_EVENT_BASE: Value = "pmix.evaux", POINTER, None, "impl 5.0.0";
    /// Tools run by other user ids may connect; rendezvous files become world-readable; host still decides.
    #[doc(alias = "PMIX_SERVER_ALLOW_FOREIGN_TOOLS")]
    SERVER_ALLOW_FOREIGN_TOOLS: bool = "pmix.srvr.ftools", BOOL, None, "impl 6.1.0";
    /// Accept connections from forked copies of a client.
    #[doc(alias = "PMIX_ALLOW_CLIENT_CLONES")]
    ALLOW_CLIENT_CLONES: bool = "pmix.allow.clones", BOOL, None, "impl 6.1.0";
    /// Server is embedded in the system controller.
    #[doc(alias = "PMIX_SERVER_SYS_CONTROLLER")]
    SERVER_SYS_CONTROLLER: bool = "pmix.srv.ctrlr", BOOL, None, "impl 6.0.0";
    /// CPU ranges the progress thread is to be pinned to.
    #[doc(alias = "PMIX_BIND_PROGRESS_THREAD")]
    BIND_PROGRESS_THREAD: String = "pmix.bind.pt", STRING, None, "impl 4.2.0";
    /// Fail init if that pinning cannot be done.
    #[doc(alias = "PMIX_BIND_REQUIRED")]
    BIND_REQUIRED: bool = "pmix.bind.reqd", BOOL, None, "impl 4.2.0";
    /// Index of a topology in a store.
    #[doc(alias = "PMIX_TOPOLOGY_INDEX")]
    TOPOLOGY_INDEX: i32 = "pmix.topo.index", INT, None, "impl 5.0.0";
    /// The passed process array is sorted.
    #[doc(alias = "PMIX_SORTED_PROC_ARRAY")]
    SORTED_PROC_ARRAY: bool = "pmix.sorted.parr", BOOL, None, "impl 5.0.0";
    /// Local processes that took part in the collective.
    #[doc(alias = "PMIX_LOCAL_PARTICIPANTS")]
    LOCAL_PARTICIPANTS: DataArray = "pmix.lcl.part", DATA_ARRAY, None, "impl head";
    /// External event loop (C-only).
    #[doc(alias = "PMIX_EVENT_BASE")]
    EVENT_BASE: Value = "pmix.evbase", POINTER, None, "2.0", deprecated "deprecated (headers)";
    /// Data store components.
    #[doc(alias = "PMIX_GDS_MODULE")]
    GDS_MODULE: String = "pmix.gds.mod", STRING, None, "2.0", deprecated "deprecated (headers)";
    /// Buffer format component of a namespace.
    #[doc(alias = "PMIX_BFROPS_MODULE")]
    BFROPS_MODULE: String = "pmix.bfrops.mod", STRING, None, "impl 4.2.0", deprecated "deprecated (headers)";
    /// Blob for the network components of other nodes.
    #[doc(alias = "PMIX_PNET_SETUP_APP")]
    PNET_SETUP_APP: Bytes = "pmix.pnet.setapp", BYTE_OBJECT, None, "impl 4.2.0", deprecated "deprecated (headers)";
}
