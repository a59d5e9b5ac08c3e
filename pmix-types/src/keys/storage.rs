// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{StorageAccessType, StorageAccessibility, StorageMedium, StoragePersistence};

super::keys! {
    /// Storage systems, comma list.
    #[doc(alias = "PMIX_QUERY_STORAGE_LIST")]
    QUERY_STORAGE_LIST: String = "pmix.strg.list", STRING, None, "4.1";
    /// Capacity (MB in headers, bytes as double in the standard).
    #[doc(alias = "PMIX_STORAGE_CAPACITY_LIMIT")]
    STORAGE_CAPACITY_LIMIT: u64 = "pmix.strg.cap", UINT64, None, "4.1";
    /// Object limit.
    #[doc(alias = "PMIX_STORAGE_OBJECT_LIMIT")]
    STORAGE_OBJECT_LIMIT: u64 = "pmix.strg.obj", UINT64, None, "4.1";
    /// Name of a storage system.
    #[doc(alias = "PMIX_STORAGE_ID")]
    STORAGE_ID: String = "pmix.strg.id", STRING, None, "4.1";
    /// Mount point.
    #[doc(alias = "PMIX_STORAGE_PATH")]
    STORAGE_PATH: String = "pmix.strg.path", STRING, None, "4.1";
    /// Kind of storage.
    #[doc(alias = "PMIX_STORAGE_TYPE")]
    STORAGE_TYPE: String = "pmix.strg.type", STRING, None, "4.1";
    /// From where it can be reached.
    #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY")]
    STORAGE_ACCESSIBILITY: StorageAccessibility = "pmix.strg.access", STOR_ACCESS, None, "4.1";
    /// Read and/or write.
    #[doc(alias = "PMIX_STORAGE_ACCESS_TYPE")]
    STORAGE_ACCESS_TYPE: StorageAccessType = "pmix.strg.atype", STOR_ACCESS_TYPE, None, "4.1";
    /// Bandwidth seen lately, bytes/s.
    #[doc(alias = "PMIX_STORAGE_BW_CUR")]
    STORAGE_BW_CUR: f64 = "pmix.strg.bwcur", DOUBLE, None, "4.1";
    /// Top bandwidth, bytes/s.
    #[doc(alias = "PMIX_STORAGE_BW_MAX")]
    STORAGE_BW_MAX: f64 = "pmix.strg.bwmax", DOUBLE, None, "4.1";
    /// Used bytes.
    #[doc(alias = "PMIX_STORAGE_CAPACITY_USED")]
    STORAGE_CAPACITY_USED: f64 = "pmix.strg.capuse", DOUBLE, None, "4.1";
    /// I/O rate seen lately.
    #[doc(alias = "PMIX_STORAGE_IOPS_CUR")]
    STORAGE_IOPS_CUR: f64 = "pmix.strg.iopscur", DOUBLE, None, "4.1";
    /// Top I/O rate.
    #[doc(alias = "PMIX_STORAGE_IOPS_MAX")]
    STORAGE_IOPS_MAX: f64 = "pmix.strg.iopsmax", DOUBLE, None, "4.1";
    /// Media kinds.
    #[doc(alias = "PMIX_STORAGE_MEDIUM")]
    STORAGE_MEDIUM: StorageMedium = "pmix.strg.medium", STOR_MEDIUM, None, "4.1";
    /// Smallest transfer, bytes.
    #[doc(alias = "PMIX_STORAGE_MINIMAL_XFER_SIZE")]
    STORAGE_MINIMAL_XFER_SIZE: f64 = "pmix.strg.minxfer", DOUBLE, None, "4.1";
    /// Objects used.
    #[doc(alias = "PMIX_STORAGE_OBJECTS_USED")]
    STORAGE_OBJECTS_USED: u64 = "pmix.strg.objuse", UINT64, None, "4.1";
    /// How long the storage keeps its content.
    #[doc(alias = "PMIX_STORAGE_PERSISTENCE")]
    STORAGE_PERSISTENCE: StoragePersistence = "pmix.strg.persist", STOR_PERSIST, None, "4.1";
    /// Advised transfer size, bytes.
    #[doc(alias = "PMIX_STORAGE_SUGGESTED_XFER_SIZE")]
    STORAGE_SUGGESTED_XFER_SIZE: f64 = "pmix.strg.sxfer", DOUBLE, None, "4.1";
    /// Version text.
    #[doc(alias = "PMIX_STORAGE_VERSION")]
    STORAGE_VERSION: String = "pmix.strg.ver", STRING, None, "4.1";
}
