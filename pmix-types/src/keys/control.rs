// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, ProcId};

super::keys! {
    /// Label of the control request.
    #[doc(alias = "PMIX_JOB_CTRL_ID")]
    JOB_CTRL_ID: String = "pmix.jctrl.id", STRING, None, "2.0";
    /// Pause the targets.
    #[doc(alias = "PMIX_JOB_CTRL_PAUSE")]
    JOB_CTRL_PAUSE: bool = "pmix.jctrl.pause", BOOL, None, "2.0";
    /// Continue the targets.
    #[doc(alias = "PMIX_JOB_CTRL_RESUME")]
    JOB_CTRL_RESUME: bool = "pmix.jctrl.resume", BOOL, None, "2.0";
    /// Cancel the labelled request; NULL cancels all of the caller's.
    #[doc(alias = "PMIX_JOB_CTRL_CANCEL")]
    JOB_CTRL_CANCEL: String = "pmix.jctrl.cancel", STRING, None, "2.0";
    /// Kill the targets and clean up.
    #[doc(alias = "PMIX_JOB_CTRL_KILL")]
    JOB_CTRL_KILL: bool = "pmix.jctrl.kill", BOOL, None, "2.0";
    /// Restart from the given checkpoint.
    #[doc(alias = "PMIX_JOB_CTRL_RESTART")]
    JOB_CTRL_RESTART: String = "pmix.jctrl.restart", STRING, None, "2.0";
    /// Checkpoint under the given id.
    #[doc(alias = "PMIX_JOB_CTRL_CHECKPOINT")]
    JOB_CTRL_CHECKPOINT: String = "pmix.jctrl.ckpt", STRING, None, "2.0";
    /// Trigger the checkpoint by an event.
    #[doc(alias = "PMIX_JOB_CTRL_CHECKPOINT_EVENT")]
    JOB_CTRL_CHECKPOINT_EVENT: bool = "pmix.jctrl.ckptev", BOOL, None, "2.0";
    /// Trigger the checkpoint by a signal.
    #[doc(alias = "PMIX_JOB_CTRL_CHECKPOINT_SIGNAL")]
    JOB_CTRL_CHECKPOINT_SIGNAL: i32 = "pmix.jctrl.ckptsig", INT, None, "2.0";
    /// Seconds to wait for the checkpoint.
    #[doc(alias = "PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT")]
    JOB_CTRL_CHECKPOINT_TIMEOUT: i32 = "pmix.jctrl.ckpttime", INT, None, "2.0";
    /// Checkpoint methods the app supports.
    #[doc(alias = "PMIX_JOB_CTRL_CHECKPOINT_METHOD")]
    JOB_CTRL_CHECKPOINT_METHOD: DataArray = "pmix.jctrl.ckmethod", DATA_ARRAY, None, "2.0";
    /// Send a signal.
    #[doc(alias = "PMIX_JOB_CTRL_SIGNAL")]
    JOB_CTRL_SIGNAL: i32 = "pmix.jctrl.sig", INT, None, "2.0";
    /// Encoded list of nodes to provision.
    #[doc(alias = "PMIX_JOB_CTRL_PROVISION")]
    JOB_CTRL_PROVISION: String = "pmix.jctrl.pvn", STRING, None, "2.0";
    /// Image for provisioning.
    #[doc(alias = "PMIX_JOB_CTRL_PROVISION_IMAGE")]
    JOB_CTRL_PROVISION_IMAGE: String = "pmix.jctrl.pvnimg", STRING, None, "2.0";
    /// Job may be preempted.
    #[doc(alias = "PMIX_JOB_CTRL_PREEMPTIBLE")]
    JOB_CTRL_PREEMPTIBLE: bool = "pmix.jctrl.preempt", BOOL, None, "2.0";
    /// End the targets in good order, with a chance to clean up.
    #[doc(alias = "PMIX_JOB_CTRL_TERMINATE")]
    JOB_CTRL_TERMINATE: bool = "pmix.jctrl.term", BOOL, None, "2.0";
    /// Files to delete at process end.
    #[doc(alias = "PMIX_REGISTER_CLEANUP")]
    REGISTER_CLEANUP: String = "pmix.reg.cleanup", STRING, None, "3.0";
    /// Directories to delete at process end.
    #[doc(alias = "PMIX_REGISTER_CLEANUP_DIR")]
    REGISTER_CLEANUP_DIR: String = "pmix.reg.cleanupdir", STRING, None, "3.0";
    /// Clean subdirectories too.
    #[doc(alias = "PMIX_CLEANUP_RECURSIVE")]
    CLEANUP_RECURSIVE: bool = "pmix.clnup.recurse", BOOL, None, "3.0";
    /// Remove only empty subdirectories.
    #[doc(alias = "PMIX_CLEANUP_EMPTY")]
    CLEANUP_EMPTY: bool = "pmix.clnup.empty", BOOL, None, "3.0";
    /// Names to keep.
    #[doc(alias = "PMIX_CLEANUP_IGNORE")]
    CLEANUP_IGNORE: String = "pmix.clnup.ignore", STRING, None, "3.0";
    /// Keep the named directory itself.
    #[doc(alias = "PMIX_CLEANUP_LEAVE_TOPDIR")]
    CLEANUP_LEAVE_TOPDIR: bool = "pmix.clnup.lvtop", BOOL, None, "3.0";
    /// Label of the monitoring request.
    #[doc(alias = "PMIX_MONITOR_ID")]
    MONITOR_ID: String = "pmix.monitor.id", STRING, None, "2.0";
    /// Cancel the labelled request; NULL cancels all.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    MONITOR_CANCEL: String = "pmix.monitor.cancel", STRING, None, "2.0";
    /// Application itself decides on the reaction.
    #[doc(alias = "PMIX_MONITOR_APP_CONTROL")]
    MONITOR_APP_CONTROL: bool = "pmix.monitor.appctrl", BOOL, None, "2.0";
    /// Server watches the requester's heartbeat.
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    MONITOR_HEARTBEAT: bool = "pmix.monitor.mbeat", BOOL, None, "2.0";
    /// Send one heartbeat.
    #[doc(alias = "PMIX_SEND_HEARTBEAT")]
    SEND_HEARTBEAT: bool = "pmix.monitor.beat", BOOL, None, "2.0";
    /// Seconds until a heartbeat counts as missed.
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_TIME")]
    MONITOR_HEARTBEAT_TIME: u32 = "pmix.monitor.btime", UINT32, None, "2.0";
    /// Missed heartbeats allowed.
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_DROPS")]
    MONITOR_HEARTBEAT_DROPS: u32 = "pmix.monitor.bdrop", UINT32, None, "2.0";
    /// File must grow.
    #[doc(alias = "PMIX_MONITOR_FILE_SIZE")]
    MONITOR_FILE_SIZE: bool = "pmix.monitor.fsize", BOOL, None, "2.0";
    /// Access time must move.
    #[doc(alias = "PMIX_MONITOR_FILE_ACCESS")]
    MONITOR_FILE_ACCESS: String = "pmix.monitor.faccess", STRING, None, "2.0";
    /// Modification time must move.
    #[doc(alias = "PMIX_MONITOR_FILE_MODIFY")]
    MONITOR_FILE_MODIFY: String = "pmix.monitor.fmod", STRING, None, "2.0";
    /// Seconds between checks.
    #[doc(alias = "PMIX_MONITOR_FILE_CHECK_TIME")]
    MONITOR_FILE_CHECK_TIME: u32 = "pmix.monitor.ftime", UINT32, None, "2.0";
    /// Failed checks allowed.
    #[doc(alias = "PMIX_MONITOR_FILE_DROPS")]
    MONITOR_FILE_DROPS: u32 = "pmix.monitor.fdrop", UINT32, None, "2.0";
    /// Report usage every so many seconds.
    #[doc(alias = "PMIX_MONITOR_RESOURCE_RATE")]
    MONITOR_RESOURCE_RATE: u32 = "pmix.monitor.resrate", UINT32, None, "6.0-dev";
    /// Processes to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_PROCS")]
    MONITOR_TARGET_PROCS: DataArray = "pmix.monitor.tgtproc", DATA_ARRAY, None, "6.0-dev";
    /// Node+pid pairs to watch; pid -1 all of the node.
    #[doc(alias = "PMIX_MONITOR_TARGET_PIDS")]
    MONITOR_TARGET_PIDS: DataArray = "pmix.monitor.tgtpid", DATA_ARRAY, None, "6.0-dev";
    /// Host names to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_NODES")]
    MONITOR_TARGET_NODES: DataArray = "pmix.monitor.tgtnode", DATA_ARRAY, None, "6.0-dev";
    /// Node ids to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_NODEIDS")]
    MONITOR_TARGET_NODEIDS: DataArray = "pmix.monitor.tgtndids", DATA_ARRAY, None, "6.0-dev";
    /// Disks to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_DISKS")]
    MONITOR_TARGET_DISKS: DataArray = "pmix.monitor.tgtdks", DATA_ARRAY, None, "6.0-dev";
    /// Network interfaces to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_NETS")]
    MONITOR_TARGET_NETS: DataArray = "pmix.monitor.tgtnets", DATA_ARRAY, None, "6.0-dev";
    /// Report process usage; value lists the wanted keys, NULL for all.
    #[doc(alias = "PMIX_MONITOR_PROC_RESOURCE_USAGE")]
    MONITOR_PROC_RESOURCE_USAGE: DataArray = "pmix.monitor.presuse", DATA_ARRAY, None, "6.0-dev";
    /// Report node usage.
    #[doc(alias = "PMIX_MONITOR_NODE_RESOURCE_USAGE")]
    MONITOR_NODE_RESOURCE_USAGE: DataArray = "pmix.monitor.ndresuse", DATA_ARRAY, None, "6.0-dev";
    /// Report disk usage.
    #[doc(alias = "PMIX_MONITOR_DISK_RESOURCE_USAGE")]
    MONITOR_DISK_RESOURCE_USAGE: DataArray = "pmix.monitor.dkresuse", DATA_ARRAY, None, "6.0-dev";
    /// Collect on the local node only.
    #[doc(alias = "PMIX_MONITOR_LOCAL_ONLY")]
    MONITOR_LOCAL_ONLY: bool = "pmix.monitor.local", BOOL, None, "6.0-dev";
    /// Watch files; value lists which properties.
    #[doc(alias = "PMIX_MONITOR_FILE_CHANGES")]
    MONITOR_FILE_CHANGES: DataArray = "pmix.monitor.fchg", DATA_ARRAY, None, "6.0-dev";
    /// Files to watch.
    #[doc(alias = "PMIX_MONITOR_TARGET_FILES")]
    MONITOR_TARGET_FILES: DataArray = "pmix.monitor.fmon", DATA_ARRAY, None, "6.0-dev";
    /// Report network usage (standard's name of the same string).
    #[doc(alias = "PMIX_MONITOR_NETWORK_RESOURCE_USAGE")]
    MONITOR_NETWORK_RESOURCE_USAGE: DataArray = "pmix.monitor.netresuse", DATA_ARRAY, None, "6.0-dev";
    /// Give the targets a process set name.
    #[doc(alias = "PMIX_JOB_CTRL_DEFINE_PSET")]
    JOB_CTRL_DEFINE_PSET: String = "pmix.jctrl.defpset", STRING, None, "impl 6.0.0";
    /// Detach a namespace from its parent's life time.
    #[doc(alias = "PMIX_JOB_CTRL_SEP")]
    JOB_CTRL_SEP: bool = "pmix.jctrl.sep", BOOL, None, "impl 6.0.0";
    /// Process on whose behalf the information is requested.
    #[doc(alias = "PMIX_MONITOR_PROXY")]
    MONITOR_PROXY: ProcId = "pmix.monitor.proxy", PROC, None, "impl 6.1.0";
    /// Watch a file (older form).
    #[doc(alias = "PMIX_MONITOR_FILE")]
    MONITOR_FILE: String = "pmix.monitor.fmon", STRING, None, "2.0";
    /// Report network usage (header name).
    #[doc(alias = "PMIX_MONITOR_NET_RESOURCE_USAGE")]
    MONITOR_NET_RESOURCE_USAGE: DataArray = "pmix.monitor.netresuse", DATA_ARRAY, None, "impl 6.1.0";
}
