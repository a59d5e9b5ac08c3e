// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::{AllocInheritance, DataArray};

super::keys! {
    /// Requester's own label for the request.
    #[doc(alias = "PMIX_ALLOC_REQ_ID")]
    ALLOC_REQ_ID: String = "pmix.alloc.reqid", STRING, None, "3.2";
    /// Host's label of the allocation, usable in Spawn.
    #[doc(alias = "PMIX_ALLOC_ID")]
    ALLOC_ID: String = "pmix.alloc.id", STRING, None, "2.0";
    /// Number of nodes.
    #[doc(alias = "PMIX_ALLOC_NUM_NODES")]
    ALLOC_NUM_NODES: u64 = "pmix.alloc.nnodes", UINT64, None, "2.0";
    /// Encoded list of wanted nodes.
    #[doc(alias = "PMIX_ALLOC_NODE_LIST")]
    ALLOC_NODE_LIST: String = "pmix.alloc.nlist", STRING, None, "2.0";
    /// Number of cpus.
    #[doc(alias = "PMIX_ALLOC_NUM_CPUS")]
    ALLOC_NUM_CPUS: u64 = "pmix.alloc.ncpus", UINT64, None, "2.0";
    /// Encoded cpu count per node.
    #[doc(alias = "PMIX_ALLOC_NUM_CPU_LIST")]
    ALLOC_NUM_CPU_LIST: String = "pmix.alloc.ncpulist", STRING, None, "2.0";
    /// Encoded list of wanted cpus.
    #[doc(alias = "PMIX_ALLOC_CPU_LIST")]
    ALLOC_CPU_LIST: String = "pmix.alloc.cpulist", STRING, None, "2.0";
    /// MB of memory (per process).
    #[doc(alias = "PMIX_ALLOC_MEM_SIZE")]
    ALLOC_MEM_SIZE: f32 = "pmix.alloc.msize", FLOAT, None, "2.0";
    /// Fabric request: at least id, type and endpoints.
    #[doc(alias = "PMIX_ALLOC_FABRIC")]
    ALLOC_FABRIC: DataArray = "pmix.alloc.net", DATA_ARRAY, None, "4.0";
    /// Key under which the fabric allocation is later found.
    #[doc(alias = "PMIX_ALLOC_FABRIC_ID")]
    ALLOC_FABRIC_ID: String = "pmix.alloc.netid", STRING, None, "4.0";
    /// Mbit/s wanted.
    #[doc(alias = "PMIX_ALLOC_BANDWIDTH")]
    ALLOC_BANDWIDTH: f32 = "pmix.alloc.bw", FLOAT, None, "2.0";
    /// Requested service level.
    #[doc(alias = "PMIX_ALLOC_FABRIC_QOS")]
    ALLOC_FABRIC_QOS: String = "pmix.alloc.netqos", STRING, None, "4.0";
    /// Life time (seconds as u32 in the standard, text in newest headers).
    #[doc(alias = "PMIX_ALLOC_TIME")]
    ALLOC_TIME: String = "pmix.alloc.time", STRING, None, "2.0";
    /// Requested transport, for example tcp.
    #[doc(alias = "PMIX_ALLOC_FABRIC_TYPE")]
    ALLOC_FABRIC_TYPE: String = "pmix.alloc.nettype", STRING, None, "4.0";
    /// Fabric plane wanted.
    #[doc(alias = "PMIX_ALLOC_FABRIC_PLANE")]
    ALLOC_FABRIC_PLANE: String = "pmix.alloc.netplane", STRING, None, "4.0";
    /// Endpoints per process.
    #[doc(alias = "PMIX_ALLOC_FABRIC_ENDPTS")]
    ALLOC_FABRIC_ENDPTS: u64 = "pmix.alloc.endpts", SIZE, None, "4.0";
    /// Endpoints per node.
    #[doc(alias = "PMIX_ALLOC_FABRIC_ENDPTS_NODE")]
    ALLOC_FABRIC_ENDPTS_NODE: u64 = "pmix.alloc.endpts.nd", SIZE, None, "4.0";
    /// Fabric security key.
    #[doc(alias = "PMIX_ALLOC_FABRIC_SEC_KEY")]
    ALLOC_FABRIC_SEC_KEY: Bytes = "pmix.alloc.nsec", BYTE_OBJECT, None, "4.0";
    /// Queue of the request.
    #[doc(alias = "PMIX_ALLOC_QUEUE")]
    ALLOC_QUEUE: String = "pmix.alloc.queue", STRING, None, "4.0";
    /// Name of a property of the allocation.
    #[doc(alias = "PMIX_ALLOC_PROPERTY")]
    ALLOC_PROPERTY: String = "pmix.alloc.property", STRING, None, "impl head";
    /// Whole allocation may be given back.
    #[doc(alias = "PMIX_ALLOC_RELEASABLE")]
    ALLOC_RELEASABLE: bool = "pmix.alloc.releasable", BOOL, None, "impl head";
    /// Encoded list of nodes to leave out.
    #[doc(alias = "PMIX_ALLOC_EXCLUDE")]
    ALLOC_EXCLUDE: String = "pmix.alloc.exclude", STRING, None, "impl 5.0.0";
    /// Ask for a warning this many seconds before expiry.
    #[doc(alias = "PMIX_ALLOC_WARN_TIMEOUT")]
    ALLOC_WARN_TIMEOUT: u32 = "pmix.alloc.wtmo", UINT32, None, "impl head";
    /// Jobs of the allocation may be preempted.
    #[doc(alias = "PMIX_ALLOC_PREEMPTIBLE")]
    ALLOC_PREEMPTIBLE: bool = "pmix.alloc.preempt", BOOL, None, "impl 5.0.0";
    /// Expected time until lent resources come back.
    #[doc(alias = "PMIX_ALLOC_LEND")]
    ALLOC_LEND: String = "pmix.alloc.lend", STRING, None, "impl 5.0.0";
    /// Image the nodes must carry.
    #[doc(alias = "PMIX_ALLOC_IMAGE")]
    ALLOC_IMAGE: String = "pmix.alloc.image", STRING, None, "impl 5.0.0";
    /// Wait for all nodes before use.
    #[doc(alias = "PMIX_ALLOC_WAIT_ALL_NODES")]
    ALLOC_WAIT_ALL_NODES: bool = "pmix.alloc.waitall", BOOL, None, "impl 5.0.0";
    /// Resources are not reserved for the requester's namespace.
    #[doc(alias = "PMIX_ALLOC_SHARE")]
    ALLOC_SHARE: bool = "pmix.alloc.share", BOOL, None, "impl 5.0.0";
    /// Return after allocating, without running anything.
    #[doc(alias = "PMIX_ALLOC_NOSHELL")]
    ALLOC_NOSHELL: bool = "pmix.alloc.noshell", BOOL, None, "impl 5.0.0";
    /// Start only after these dependencies are done.
    #[doc(alias = "PMIX_ALLOC_DEPENDENCY")]
    ALLOC_DEPENDENCY: String = "pmix.alloc.depend", STRING, None, "impl 5.0.0";
    /// Earliest start time, text.
    #[doc(alias = "PMIX_ALLOC_BEGIN")]
    ALLOC_BEGIN: String = "pmix.alloc.begin", STRING, None, "impl 5.0.0";
    /// Requester does not wait for the outcome.
    #[doc(alias = "PMIX_ALLOC_NOT_WAITING")]
    ALLOC_NOT_WAITING: bool = "pmix.alloc.notwait", BOOL, None, "impl 6.0.0";
    /// Resource block to allocate.
    #[doc(alias = "PMIX_ALLOC_RES_BLOCK")]
    ALLOC_RES_BLOCK: String = "pmix.alloc.blk", STRING, None, "impl 6.0.0";
    /// Number of resource blocks to allocate.
    #[doc(alias = "PMIX_ALLOC_NUM_BLOCKS")]
    ALLOC_NUM_BLOCKS: u64 = "pmix.alloc.nblks", UINT64, None, "impl 6.0.0";
    /// Minimum allocatable unit passed between scheduler and controller.
    #[doc(alias = "PMIX_ALLOC_MAU")]
    ALLOC_MAU: DataArray = "pmix.alloc.mau", DATA_ARRAY, None, "impl 6.0.0";
    /// Allocation outlives the parent's allocation.
    #[doc(alias = "PMIX_ALLOC_CHILD_SEP")]
    ALLOC_CHILD_SEP: bool = "pmix.alloc.sep", BOOL, None, "impl 6.0.0";
    /// Memory kinds being allocated.
    #[doc(alias = "PMIX_MEM_ALLOC_KIND")]
    MEM_ALLOC_KIND: String = "pmix.alloc.mkind", STRING, None, "impl 6.0.0";
    /// Namespace for which the resources are reserved.
    #[doc(alias = "PMIX_ALLOC_TARGET")]
    ALLOC_TARGET: String = "pmix.alloc.tgt", STRING, None, "impl head";
    /// Who inherits the allocation when its owner ends.
    #[doc(alias = "PMIX_ALLOC_INHERITANCE")]
    ALLOC_INHERITANCE: AllocInheritance = "pmix.alloc.inhrt", ALLOC_INHERIT, None, "impl head";
    /// Label of the session control request.
    #[doc(alias = "PMIX_SESSION_CTRL_ID")]
    SESSION_CTRL_ID: String = "pmix.ssnctrl.id", STRING, None, "impl 5.0.0";
    /// Create the session.
    #[doc(alias = "PMIX_SESSION_INSTANTIATE")]
    SESSION_INSTANTIATE: bool = "pmix.ssn.inst", BOOL, None, "impl 6.0.0";
    /// Resources of the new session.
    #[doc(alias = "PMIX_SESSION_RESOURCES")]
    SESSION_RESOURCES: DataArray = "pmix.ssn.res", DATA_ARRAY, None, "impl 6.0.0";
    /// Job info for SESSION_APP.
    #[doc(alias = "PMIX_SESSION_JOB")]
    SESSION_JOB: DataArray = "pmix.ssn.job", DATA_ARRAY, None, "impl 6.0.0";
    /// Apps to run once the session exists.
    #[doc(alias = "PMIX_SESSION_APP")]
    SESSION_APP: DataArray = "pmix.ssn.app", DATA_ARRAY, None, "impl 5.0.0";
    /// Nodes to provision.
    #[doc(alias = "PMIX_SESSION_PROVISION_NODES")]
    SESSION_PROVISION_NODES: String = "pmix.ssn.pvnnds", STRING, None, "impl 5.0.0";
    /// Image to provision.
    #[doc(alias = "PMIX_SESSION_PROVISION_IMAGE")]
    SESSION_PROVISION_IMAGE: String = "pmix.ssn.pvnimg", STRING, None, "impl 5.0.0";
    /// Pause all jobs.
    #[doc(alias = "PMIX_SESSION_PAUSE")]
    SESSION_PAUSE: bool = "pmix.ssn.pause", BOOL, None, "impl 5.0.0";
    /// Continue all jobs.
    #[doc(alias = "PMIX_SESSION_RESUME")]
    SESSION_RESUME: bool = "pmix.ssn.resume", BOOL, None, "impl 5.0.0";
    /// End all jobs and take back the resources.
    #[doc(alias = "PMIX_SESSION_TERMINATE")]
    SESSION_TERMINATE: bool = "pmix.ssn.terminate", BOOL, None, "impl 5.0.0";
    /// Preempt the named jobs, or all.
    #[doc(alias = "PMIX_SESSION_PREEMPT")]
    SESSION_PREEMPT: bool = "pmix.ssn.preempt", BOOL, None, "impl 5.0.0";
    /// Bring preempted jobs back.
    #[doc(alias = "PMIX_SESSION_RESTORE")]
    SESSION_RESTORE: bool = "pmix.ssn.restore", BOOL, None, "impl 5.0.0";
    /// Signal every process of the session.
    #[doc(alias = "PMIX_SESSION_SIGNAL")]
    SESSION_SIGNAL: i32 = "pmix.ssn.sig", INT, None, "impl 5.0.0";
    /// Detach the session from its parent.
    #[doc(alias = "PMIX_SESSION_SEP")]
    SESSION_SEP: bool = "pmix.ssn.sep", BOOL, None, "impl 6.0.0";
    /// Extend time or resources.
    #[doc(alias = "PMIX_SESSION_EXTEND")]
    SESSION_EXTEND: bool = "pmix.ssn.xtend", BOOL, None, "impl 6.0.0";
    /// Session is over and its resources are free.
    #[doc(alias = "PMIX_SESSION_COMPLETE")]
    SESSION_COMPLETE: bool = "pmix.ssn.complete", BOOL, None, "impl 5.0.0";
}
