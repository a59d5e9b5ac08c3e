// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, Time, Timeval};

super::keys! {
    /// Usage of one process; PROCID (or pid) first.
    #[doc(alias = "PMIX_PROC_RESOURCE_USAGE")]
    PROC_RESOURCE_USAGE: DataArray = "pmix.proc.res", DATA_ARRAY, None, "6.0-dev";
    /// State letter reported by the OS.
    #[doc(alias = "PMIX_PROC_OS_STATE")]
    PROC_OS_STATE: String = "pmix.proc.osstate", STRING, None, "6.0-dev";
    /// CPU time used.
    #[doc(alias = "PMIX_PROC_TIME")]
    PROC_TIME: Timeval = "pmix.proc.time", TIMEVAL, None, "6.0-dev";
    /// CPU share in percent.
    #[doc(alias = "PMIX_PROC_PERCENT_CPU")]
    PROC_PERCENT_CPU: f32 = "pmix.proc.pcpu", FLOAT, None, "6.0-dev";
    /// Priority, larger is higher.
    #[doc(alias = "PMIX_PROC_PRIORITY")]
    PROC_PRIORITY: i32 = "pmix.proc.pri", INT32, None, "6.0-dev";
    /// Number of threads.
    #[doc(alias = "PMIX_PROC_NUM_THREADS")]
    PROC_NUM_THREADS: u16 = "pmix.proc.nthr", UINT16, None, "6.0-dev";
    /// Proportional set size, MB.
    #[doc(alias = "PMIX_PROC_PSS")]
    PROC_PSS: f32 = "pmix.proc.pss", FLOAT, None, "6.0-dev";
    /// Virtual size, MB.
    #[doc(alias = "PMIX_PROC_VSIZE")]
    PROC_VSIZE: f32 = "pmix.proc.vsize", FLOAT, None, "6.0-dev";
    /// Resident size, MB.
    #[doc(alias = "PMIX_PROC_RSS")]
    PROC_RSS: f32 = "pmix.proc.rss", FLOAT, None, "6.0-dev";
    /// Peak virtual size, MB.
    #[doc(alias = "PMIX_PROC_PEAK_VSIZE")]
    PROC_PEAK_VSIZE: f32 = "pmix.proc.pkvsize", FLOAT, None, "6.0-dev";
    /// Cpu last run on.
    #[doc(alias = "PMIX_PROC_CPU")]
    PROC_CPU: u16 = "pmix.proc.cpu", UINT16, None, "6.0-dev";
    /// Time of the sample.
    #[doc(alias = "PMIX_PROC_SAMPLE_TIME")]
    PROC_SAMPLE_TIME: Time = "pmix.proc.samptime", TIME, None, "6.0-dev";
    /// Usage of one disk; DISK_ID first.
    #[doc(alias = "PMIX_DISK_RESOURCE_USAGE")]
    DISK_RESOURCE_USAGE: DataArray = "pmix.disk.res", DATA_ARRAY, None, "6.0-dev";
    /// Disk name.
    #[doc(alias = "PMIX_DISK_ID")]
    DISK_ID: String = "pmix.disk.id", STRING, None, "6.0-dev";
    /// Reads done.
    #[doc(alias = "PMIX_DISK_READ_COMPLETED")]
    DISK_READ_COMPLETED: u64 = "pmix.disk.rdscomp", UINT64, None, "6.0-dev";
    /// Reads merged.
    #[doc(alias = "PMIX_DISK_READ_MERGED")]
    DISK_READ_MERGED: u64 = "pmix.disk.rdsmrgd", UINT64, None, "6.0-dev";
    /// Sectors read.
    #[doc(alias = "PMIX_DISK_READ_SECTORS")]
    DISK_READ_SECTORS: u64 = "pmix.disk.rdsct", UINT64, None, "6.0-dev";
    /// Ms spent reading.
    #[doc(alias = "PMIX_DISK_READ_MILLISEC")]
    DISK_READ_MILLISEC: u64 = "pmix.disk.rdms", UINT64, None, "6.0-dev";
    /// Writes done.
    #[doc(alias = "PMIX_DISK_WRITE_COMPLETED")]
    DISK_WRITE_COMPLETED: u64 = "pmix.disk.wtscomp", UINT64, None, "6.0-dev";
    /// Writes merged.
    #[doc(alias = "PMIX_DISK_WRITE_MERGED")]
    DISK_WRITE_MERGED: u64 = "pmix.disk.wtsmrgd", UINT64, None, "6.0-dev";
    /// Sectors written.
    #[doc(alias = "PMIX_DISK_WRITE_SECTORS")]
    DISK_WRITE_SECTORS: u64 = "pmix.disk.wtsct", UINT64, None, "6.0-dev";
    /// Ms spent writing.
    #[doc(alias = "PMIX_DISK_WRITE_MILLISEC")]
    DISK_WRITE_MILLISEC: u64 = "pmix.disk.wtms", UINT64, None, "6.0-dev";
    /// Operations under way.
    #[doc(alias = "PMIX_DISK_IO_IN_PROGRESS")]
    DISK_IO_IN_PROGRESS: u64 = "pmix.disk.ios", UINT64, None, "6.0-dev";
    /// Ms spent on I/O.
    #[doc(alias = "PMIX_DISK_IO_MILLISEC")]
    DISK_IO_MILLISEC: u64 = "pmix.disk.ioms", UINT64, None, "6.0-dev";
    /// Weighted I/O time, backlog measure.
    #[doc(alias = "PMIX_DISK_IO_WEIGHTED")]
    DISK_IO_WEIGHTED: u64 = "pmix.disk.iowght", UINT64, None, "6.0-dev";
    /// Time of the sample.
    #[doc(alias = "PMIX_DISK_SAMPLE_TIME")]
    DISK_SAMPLE_TIME: Time = "pmix.disk.samptime", TIME, None, "6.0-dev";
    /// Usage of one interface; NETWORK_ID first.
    #[doc(alias = "PMIX_NETWORK_RESOURCE_USAGE")]
    NETWORK_RESOURCE_USAGE: DataArray = "pmix.net.res", DATA_ARRAY, None, "6.0-dev";
    /// Interface name.
    #[doc(alias = "PMIX_NETWORK_ID")]
    NETWORK_ID: String = "pmix.net.id", STRING, None, "6.0-dev";
    /// Bytes received.
    #[doc(alias = "PMIX_NET_RECVD_BYTES")]
    NET_RECVD_BYTES: u64 = "pmix.net.rcb", UINT64, None, "6.0-dev";
    /// Packets received.
    #[doc(alias = "PMIX_NET_RECVD_PCKTS")]
    NET_RECVD_PCKTS: u64 = "pmix.net.rcp", UINT64, None, "6.0-dev";
    /// Receive errors.
    #[doc(alias = "PMIX_NET_RECVD_ERRS")]
    NET_RECVD_ERRS: u64 = "pmix.net.rcerr", UINT64, None, "6.0-dev";
    /// Bytes sent.
    #[doc(alias = "PMIX_NET_SENT_BYTES")]
    NET_SENT_BYTES: u64 = "pmix.net.sntb", UINT64, None, "6.0-dev";
    /// Packets sent.
    #[doc(alias = "PMIX_NET_SENT_PCKTS")]
    NET_SENT_PCKTS: u64 = "pmix.net.sntp", UINT64, None, "6.0-dev";
    /// Send errors.
    #[doc(alias = "PMIX_NET_SENT_ERRS")]
    NET_SENT_ERRS: u64 = "pmix.net.snterr", UINT64, None, "6.0-dev";
    /// Time of the sample.
    #[doc(alias = "PMIX_NET_SAMPLE_TIME")]
    NET_SAMPLE_TIME: Time = "pmix.net.samptime", TIME, None, "6.0-dev";
    /// Usage of one node; HOSTNAME or NODEID first.
    #[doc(alias = "PMIX_NODE_RESOURCE_USAGE")]
    NODE_RESOURCE_USAGE: DataArray = "pmix.node.res", DATA_ARRAY, None, "6.0-dev";
    /// 1-minute load.
    #[doc(alias = "PMIX_NODE_LOAD_AVG")]
    NODE_LOAD_AVG: f32 = "pmix.node.la", FLOAT, None, "6.0-dev";
    /// 5-minute load.
    #[doc(alias = "PMIX_NODE_LOAD_AVG5")]
    NODE_LOAD_AVG5: f32 = "pmix.node.la5", FLOAT, None, "6.0-dev";
    /// 15-minute load.
    #[doc(alias = "PMIX_NODE_LOAD_AVG15")]
    NODE_LOAD_AVG15: f32 = "pmix.node.la15", FLOAT, None, "6.0-dev";
    /// Usable memory, MB.
    #[doc(alias = "PMIX_NODE_MEM_TOTAL")]
    NODE_MEM_TOTAL: f32 = "pmix.node.mtot", FLOAT, None, "6.0-dev";
    /// Free memory, MB.
    #[doc(alias = "PMIX_NODE_MEM_FREE")]
    NODE_MEM_FREE: f32 = "pmix.node.mfree", FLOAT, None, "6.0-dev";
    /// Buffers, MB.
    #[doc(alias = "PMIX_NODE_MEM_BUFFERS")]
    NODE_MEM_BUFFERS: f32 = "pmix.node.mbuf", FLOAT, None, "6.0-dev";
    /// Page cache, MB.
    #[doc(alias = "PMIX_NODE_MEM_CACHED")]
    NODE_MEM_CACHED: f32 = "pmix.node.mcache", FLOAT, None, "6.0-dev";
    /// Swap cache, MB.
    #[doc(alias = "PMIX_NODE_MEM_SWAP_CACHED")]
    NODE_MEM_SWAP_CACHED: f32 = "pmix.node.mswpc", FLOAT, None, "6.0-dev";
    /// Swapped-out memory on disk, MB.
    #[doc(alias = "PMIX_NODE_MEM_SWAP_FREE")]
    NODE_MEM_SWAP_FREE: f32 = "pmix.node.mswpfree", FLOAT, None, "6.0-dev";
    /// Mapped files, MB.
    #[doc(alias = "PMIX_NODE_MEM_MAPPED")]
    NODE_MEM_MAPPED: f32 = "pmix.node.mmap", FLOAT, None, "6.0-dev";
    /// Time of the sample.
    #[doc(alias = "PMIX_NODE_SAMPLE_TIME")]
    NODE_SAMPLE_TIME: Time = "pmix.node.samptime", TIME, None, "6.0-dev";
    /// Swap space, MB (standard's name of the same string).
    #[doc(alias = "PMIX_NODE_MEM_SWAP_TOTAL")]
    NODE_MEM_SWAP_TOTAL: f32 = "pmix.node.mswpt", FLOAT, None, "6.0-dev";
    /// Swap space, MB (header name).
    #[doc(alias = "PMIX_NODE_SWAP_TOTAL")]
    NODE_SWAP_TOTAL: f32 = "pmix.node.mswpt", FLOAT, None, "impl 6.1.0";
}
