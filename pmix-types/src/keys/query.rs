// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, ProcId, ProcState, Status};

super::keys! {
    /// MB used by the manager daemon on the node.
    #[doc(alias = "PMIX_DAEMON_MEMORY")]
    DAEMON_MEMORY: f32 = "pmix.dmn.mem", FLOAT, None, "2.0";
    /// Mean MB used by clients on the node.
    #[doc(alias = "PMIX_CLIENT_AVG_MEMORY")]
    CLIENT_AVG_MEMORY: f32 = "pmix.cl.mem.avg", FLOAT, None, "2.0";
    /// Last reported state of the process.
    #[doc(alias = "PMIX_PROC_STATE_STATUS")]
    PROC_STATE_STATUS: ProcState = "pmix.proc.state", PROC_STATE, None, "2.0";
    /// Keys the query function understands, comma list; no qualifiers.
    #[doc(alias = "PMIX_QUERY_SUPPORTED_KEYS")]
    QUERY_SUPPORTED_KEYS: String = "pmix.qry.keys", STRING, None, "4.0";
    /// Active namespaces, comma list; no qualifiers.
    #[doc(alias = "PMIX_QUERY_NAMESPACES")]
    QUERY_NAMESPACES: String = "pmix.qry.ns", STRING, None, "2.0";
    /// Per active namespace an array with its name and command line; optional NSPACE.
    #[doc(alias = "PMIX_QUERY_NAMESPACE_INFO")]
    QUERY_NAMESPACE_INFO: DataArray = "pmix.qry.nsinfo", DATA_ARRAY, None, "4.0";
    /// Status of a running job; needs NSPACE.
    #[doc(alias = "PMIX_QUERY_JOB_STATUS")]
    QUERY_JOB_STATUS: Status = "pmix.qry.jst", STATUS, None, "2.0";
    /// Scheduler queues, comma list; no qualifiers.
    #[doc(alias = "PMIX_QUERY_QUEUE_LIST")]
    QUERY_QUEUE_LIST: String = "pmix.qry.qlst", STRING, None, "2.0";
    /// Status of queues (array in headers, text in the standard); optional ALLOC_QUEUE.
    #[doc(alias = "PMIX_QUERY_QUEUE_STATUS")]
    QUERY_QUEUE_STATUS: DataArray = "pmix.qry.qst", DATA_ARRAY, None, "2.0";
    /// Array of proc_info, one per process of the job in rank order; needs NSPACE.
    #[doc(alias = "PMIX_QUERY_PROC_TABLE")]
    QUERY_PROC_TABLE: DataArray = "pmix.qry.ptable", DATA_ARRAY, None, "2.0";
    /// Array of proc_info for the job's processes on one node; needs NSPACE, optional HOSTNAME.
    #[doc(alias = "PMIX_QUERY_LOCAL_PROC_TABLE")]
    QUERY_LOCAL_PROC_TABLE: DataArray = "pmix.qry.lptable", DATA_ARRAY, None, "2.0";
    /// What the tool is allowed to do; no qualifiers.
    #[doc(alias = "PMIX_QUERY_AUTHORIZATIONS")]
    QUERY_AUTHORIZATIONS: DataArray = "pmix.qry.auths", DATA_ARRAY, None, "2.0";
    /// Supported spawn attributes, comma list; no qualifiers.
    #[doc(alias = "PMIX_QUERY_SPAWN_SUPPORT")]
    QUERY_SPAWN_SUPPORT: String = "pmix.qry.spawn", STRING, None, "2.0";
    /// Supported debug attributes, comma list; no qualifiers.
    #[doc(alias = "PMIX_QUERY_DEBUG_SUPPORT")]
    QUERY_DEBUG_SUPPORT: String = "pmix.qry.debug", STRING, None, "2.0";
    /// Memory use of processes; optional NSPACE+RANK or PROCID.
    #[doc(alias = "PMIX_QUERY_MEMORY_USAGE")]
    QUERY_MEMORY_USAGE: DataArray = "pmix.qry.mem", DATA_ARRAY, None, "2.0";
    /// Status text of an allocation request; needs the request id.
    #[doc(alias = "PMIX_QUERY_ALLOC_STATUS")]
    QUERY_ALLOC_STATUS: String = "pmix.query.alloc", STRING, None, "2.0";
    /// Seconds left in the allocation; optional NSPACE.
    #[doc(alias = "PMIX_TIME_REMAINING")]
    TIME_REMAINING: u32 = "pmix.time.remaining", UINT32, None, "2.0";
    /// Number of process sets in the range (session by default).
    #[doc(alias = "PMIX_QUERY_NUM_PSETS")]
    QUERY_NUM_PSETS: u64 = "pmix.qry.psetnum", SIZE, None, "4.0";
    /// Names of process sets (array in the standard, comma list in headers).
    #[doc(alias = "PMIX_QUERY_PSET_NAMES")]
    QUERY_PSET_NAMES: String = "pmix.qry.psets", STRING, None, "4.0";
    /// Members of a process set; needs PSET_NAME.
    #[doc(alias = "PMIX_QUERY_PSET_MEMBERSHIP")]
    QUERY_PSET_MEMBERSHIP: DataArray = "pmix.qry.pmems", DATA_ARRAY, None, "4.0";
    /// Number of groups in the range (session by default).
    #[doc(alias = "PMIX_QUERY_NUM_GROUPS")]
    QUERY_NUM_GROUPS: u64 = "pmix.qry.pgrpnum", SIZE, None, "4.0";
    /// Names of groups in the range.
    #[doc(alias = "PMIX_QUERY_GROUP_NAMES")]
    QUERY_GROUP_NAMES: DataArray = "pmix.qry.pgrp", DATA_ARRAY, None, "4.0";
    /// Members of a group; needs GROUP_ID.
    #[doc(alias = "PMIX_QUERY_GROUP_MEMBERSHIP")]
    QUERY_GROUP_MEMBERSHIP: DataArray = "pmix.qry.pgrpmems", DATA_ARRAY, None, "4.0";
    /// First key of a query; following keys are API names whose supported attributes are wanted; level
    /// qualifiers.
    #[doc(alias = "PMIX_QUERY_ATTRIBUTE_SUPPORT")]
    QUERY_ATTRIBUTE_SUPPORT: DataArray = "pmix.qry.attrs", DATA_ARRAY, None, "4.0";
    /// Client APIs supported.
    #[doc(alias = "PMIX_CLIENT_FUNCTIONS")]
    CLIENT_FUNCTIONS: String = "pmix.client.fns", STRING, None, "4.0";
    /// Server APIs supported.
    #[doc(alias = "PMIX_SERVER_FUNCTIONS")]
    SERVER_FUNCTIONS: String = "pmix.srvr.fns", STRING, None, "4.0";
    /// Tool APIs supported.
    #[doc(alias = "PMIX_TOOL_FUNCTIONS")]
    TOOL_FUNCTIONS: String = "pmix.tool.fns", STRING, None, "4.0";
    /// APIs the host supports.
    #[doc(alias = "PMIX_HOST_FUNCTIONS")]
    HOST_FUNCTIONS: String = "pmix.host.fns", STRING, None, "4.0";
    /// Array of SERVER_INFO_ARRAY entries for reachable servers on this node.
    #[doc(alias = "PMIX_QUERY_AVAIL_SERVERS")]
    QUERY_AVAIL_SERVERS: DataArray = "pmix.qry.asrvrs", DATA_ARRAY, None, "4.0";
    /// Qualifiers of the query that produced a result; first element of QUERY_RESULTS.
    #[doc(alias = "PMIX_QUERY_QUALIFIERS")]
    QUERY_QUALIFIERS: DataArray = "pmix.qry.quals", DATA_ARRAY, None, "4.0";
    /// Results of one query: optional QUERY_QUALIFIERS, then key/value pairs.
    #[doc(alias = "PMIX_QUERY_RESULTS")]
    QUERY_RESULTS: DataArray = "pmix.qry.res", DATA_ARRAY, None, "4.0";
    /// Resource use of one process or (wildcard) of all of a job.
    #[doc(alias = "PMIX_QUERY_PROC_RESOURCE_USAGE")]
    QUERY_PROC_RESOURCE_USAGE: ProcId = "pmix.qry.pres", PROC, None, "6.0-dev";
    /// Resource use of one node or of all nodes of a job.
    #[doc(alias = "PMIX_QUERY_NODE_RESOURCE_USAGE")]
    QUERY_NODE_RESOURCE_USAGE: String = "pmix.qry.nres", STRING, None, "6.0-dev";
    /// Bypass the local cache and refresh it with the answer.
    #[doc(alias = "PMIX_QUERY_REFRESH_CACHE")]
    QUERY_REFRESH_CACHE: bool = "pmix.qry.rfsh", BOOL, None, "2.1";
    /// Only local information.
    #[doc(alias = "PMIX_QUERY_LOCAL_ONLY")]
    QUERY_LOCAL_ONLY: bool = "pmix.qry.local", BOOL, None, "2.0";
    /// Averages only.
    #[doc(alias = "PMIX_QUERY_REPORT_AVG")]
    QUERY_REPORT_AVG: bool = "pmix.qry.avg", BOOL, None, "2.0";
    /// Minimum and maximum.
    #[doc(alias = "PMIX_QUERY_REPORT_MINMAX")]
    QUERY_REPORT_MINMAX: bool = "pmix.qry.minmax", BOOL, None, "2.0";
    /// Include the attributes supported by the client library.
    #[doc(alias = "PMIX_CLIENT_ATTRIBUTES")]
    CLIENT_ATTRIBUTES: String = "pmix.client.attrs", STRING, None, "4.0";
    /// Include the attributes supported by the server library.
    #[doc(alias = "PMIX_SERVER_ATTRIBUTES")]
    SERVER_ATTRIBUTES: String = "pmix.srvr.attrs", STRING, None, "4.0";
    /// Include the attributes supported by the host.
    #[doc(alias = "PMIX_HOST_ATTRIBUTES")]
    HOST_ATTRIBUTES: String = "pmix.host.attrs", STRING, None, "4.0";
    /// Include the attributes supported by the tool library.
    #[doc(alias = "PMIX_TOOL_ATTRIBUTES")]
    TOOL_ATTRIBUTES: String = "pmix.tool.attrs", STRING, None, "4.0";
    /// Return the qualifiers the key accepts in place of an answer.
    #[doc(alias = "PMIX_QUERY_SUPPORTED_QUALIFIERS")]
    QUERY_SUPPORTED_QUALIFIERS: bool = "pmix.qry.supqual", BOOL, None, "4.0";
    /// Stable ABI versions, "MAJOR.MINOR" comma list; allowed before init.
    #[doc(alias = "PMIX_QUERY_STABLE_ABI_VERSION")]
    QUERY_STABLE_ABI_VERSION: String = "pmix.qry.stabiver", STRING, None, "5.0";
    /// Provisional ABI versions; allowed before init.
    #[doc(alias = "PMIX_QUERY_PROVISIONAL_ABI_VERSION")]
    QUERY_PROVISIONAL_ABI_VERSION: String = "pmix.qry.prabiver", STRING, None, "5.0";
    /// Array of NODE_INFO entries describing the nodes the server knows.
    #[doc(alias = "PMIX_QUERY_ALLOCATION")]
    QUERY_ALLOCATION: DataArray = "pmix.query.allc", DATA_ARRAY, None, "impl 5.0.0";
    /// Array of ALLOC_ID entries known to the server.
    #[doc(alias = "PMIX_QUERY_ALLOC_IDS")]
    QUERY_ALLOC_IDS: DataArray = "pmix.query.alloc.ids", DATA_ARRAY, None, "impl head";
    /// Properties of one allocation; needs ALLOC_ID, optional ALLOC_PROPERTY.
    #[doc(alias = "PMIX_QUERY_ALLOC_PROPERTIES")]
    QUERY_ALLOC_PROPERTIES: DataArray = "pmix.query.alloc.prop", DATA_ARRAY, None, "impl head";
    /// Smallest allocatable unit of the system.
    #[doc(alias = "PMIX_QUERY_MIN_ALLOC_UNIT")]
    QUERY_MIN_ALLOC_UNIT: DataArray = "pmix.qry.minau", DATA_ARRAY, None, "impl 6.0.0";
    /// Names of defined resource blocks.
    #[doc(alias = "PMIX_QUERY_RES_BLOCKS")]
    QUERY_RES_BLOCKS: DataArray = "pmix.qry.resblks", DATA_ARRAY, None, "impl 6.0.0";
    /// Content of a named resource block.
    #[doc(alias = "PMIX_QUERY_RES_BLOCK_DEF")]
    QUERY_RES_BLOCK_DEF: DataArray = "pmix.qry.resdef", DATA_ARRAY, None, "impl 6.0.0";
    /// Devices of the local topology, filter by DEVICE_TYPE.
    #[doc(alias = "PMIX_QUERY_DEVICES")]
    QUERY_DEVICES: DataArray = "pmix.qry.dev", DATA_ARRAY, None, "impl 6.0.0";
    /// Free slots of the session right now; optional SESSION_ID.
    #[doc(alias = "PMIX_QUERY_AVAILABLE_SLOTS")]
    QUERY_AVAILABLE_SLOTS: u32 = "pmix.qry.aslots", UINT32, None, "impl 6.0.0";
    /// Host answers Resolve_peers: array of proc; NSPACE and HOSTNAME qualifiers.
    #[doc(alias = "PMIX_QUERY_RESOLVE_PEERS")]
    QUERY_RESOLVE_PEERS: DataArray = "pmix.qry.peers", DATA_ARRAY, None, "impl 6.0.0";
    /// Host answers Resolve_nodes: comma list of nodes; NSPACE qualifier.
    #[doc(alias = "PMIX_QUERY_RESOLVE_NODE")]
    QUERY_RESOLVE_NODE: String = "pmix.qry.node", STRING, None, "impl 6.0.0";
    /// Name of the resource block asked about.
    #[doc(alias = "PMIX_RESOURCE_BLOCK_NAME")]
    RESOURCE_BLOCK_NAME: String = "pmix.resblkname", STRING, None, "impl 6.0.0";
    /// Library version as a number.
    #[doc(alias = "PMIX_VERSION_NUMERIC")]
    VERSION_NUMERIC: u32 = "pmix.vers.num", UINT32, None, "impl 6.0.0";
}
