// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, DataRange, Persistence, Scope};

super::keys! {
    /// Exchange all committed data among the participants during the fence; off by default.
    #[doc(alias = "PMIX_COLLECT_DATA")]
    COLLECT_DATA: bool = "pmix.collect", BOOL, None, "1.1";
    /// Every clone of the caller must also call the collective.
    #[doc(alias = "PMIX_ALL_CLONES_PARTICIPATE")]
    ALL_CLONES_PARTICIPATE: bool = "pmix.clone.part", BOOL, None, "4.0";
    /// Exchange job-level data that servers produced locally.
    #[doc(alias = "PMIX_COLLECT_GENERATED_JOB_INFO")]
    COLLECT_GENERATED_JOB_INFO: bool = "pmix.collect.gen", BOOL, None, "4.0";
    /// Seconds until the operation fails with PMIX_ERR_TIMEOUT; 0 means never.
    #[doc(alias = "PMIX_TIMEOUT")]
    TIMEOUT: i32 = "pmix.timeout", INT, None, "1.1";
    /// Server answers at once from what it has; it does not ask its host.
    #[doc(alias = "PMIX_IMMEDIATE")]
    IMMEDIATE: bool = "pmix.immediate", BOOL, None, "2.0";
    /// Lookup waits until this many of the requested values exist; 0 means all.
    #[doc(alias = "PMIX_WAIT")]
    WAIT: i32 = "pmix.wait", INT, None, "1.1";
    /// Who may see published data or an event; also the search range of lookup/unpublish.
    #[doc(alias = "PMIX_RANGE")]
    RANGE: DataRange = "pmix.range", DATA_RANGE, None, "1.1";
    /// How long published data is kept.
    #[doc(alias = "PMIX_PERSISTENCE")]
    PERSISTENCE: Persistence = "pmix.persist", PERSIST, None, "1.1";
    /// Search only data put with this scope.
    #[doc(alias = "PMIX_DATA_SCOPE")]
    DATA_SCOPE: Scope = "pmix.scope", SCOPE, None, "2.0";
    /// Search only the client's own store; never ask the server.
    #[doc(alias = "PMIX_OPTIONAL")]
    OPTIONAL: bool = "pmix.optional", BOOL, None, "1.1";
    /// Fill caller-provided storage (C-only; not for the non-blocking form).
    #[doc(alias = "PMIX_GET_STATIC_VALUES")]
    GET_STATIC_VALUES: bool = "pmix.get.static", BOOL, None, "4.0";
    /// Return pointers into the library's store (C-only).
    #[doc(alias = "PMIX_GET_POINTER_VALUES")]
    GET_POINTER_VALUES: bool = "pmix.get.pntrs", BOOL, None, "4.0";
    /// Refresh the local copy of a remote process's data (all keys if key is NULL) before answering.
    #[doc(alias = "PMIX_GET_REFRESH_CACHE")]
    GET_REFRESH_CACHE: bool = "pmix.get.refresh", BOOL, None, "4.0";
    /// Array of permission entries limiting who may read published data.
    #[doc(alias = "PMIX_ACCESS_PERMISSIONS")]
    ACCESS_PERMISSIONS: DataArray = "pmix.aperms", DATA_ARRAY, None, "4.0";
    /// Effective uids allowed to read.
    #[doc(alias = "PMIX_ACCESS_USERIDS")]
    ACCESS_USERIDS: DataArray = "pmix.auids", DATA_ARRAY, None, "4.0";
    /// Effective gids allowed to read.
    #[doc(alias = "PMIX_ACCESS_GRPIDS")]
    ACCESS_GRPIDS: DataArray = "pmix.agids", DATA_ARRAY, None, "4.0";
    /// Take the value from the session realm.
    #[doc(alias = "PMIX_SESSION_INFO")]
    SESSION_INFO: bool = "pmix.ssn.info", BOOL, None, "2.1";
    /// Take the value from the job realm.
    #[doc(alias = "PMIX_JOB_INFO")]
    JOB_INFO: bool = "pmix.job.info", BOOL, None, "2.1";
    /// Take the value from the app realm; APPNUM picks another app.
    #[doc(alias = "PMIX_APP_INFO")]
    APP_INFO: bool = "pmix.app.info", BOOL, None, "2.1";
    /// Take the value from the node realm; HOSTNAME or NODEID picks another node.
    #[doc(alias = "PMIX_NODE_INFO")]
    NODE_INFO: bool = "pmix.node.info", BOOL, None, "2.1";
    /// Session-level entries; must hold SESSION_ID.
    #[doc(alias = "PMIX_SESSION_INFO_ARRAY")]
    SESSION_INFO_ARRAY: DataArray = "pmix.ssn.arr", DATA_ARRAY, None, "2.1";
    /// Job-level entries; identifiers needed only where the job is not clear from context.
    #[doc(alias = "PMIX_JOB_INFO_ARRAY")]
    JOB_INFO_ARRAY: DataArray = "pmix.job.arr", DATA_ARRAY, None, "2.1";
    /// Entries of one app; must hold APPNUM (first).
    #[doc(alias = "PMIX_APP_INFO_ARRAY")]
    APP_INFO_ARRAY: DataArray = "pmix.app.arr", DATA_ARRAY, None, "2.1";
    /// Entries of one process; RANK (or PROCID) first.
    #[doc(alias = "PMIX_PROC_INFO_ARRAY")]
    PROC_INFO_ARRAY: DataArray = "pmix.pdata", DATA_ARRAY, None, "4.0";
    /// Entries of one node; must hold NODEID or HOSTNAME.
    #[doc(alias = "PMIX_NODE_INFO_ARRAY")]
    NODE_INFO_ARRAY: DataArray = "pmix.node.arr", DATA_ARRAY, None, "2.1";
    /// Data on one server, namespace first.
    #[doc(alias = "PMIX_SERVER_INFO_ARRAY")]
    SERVER_INFO_ARRAY: DataArray = "pmix.srv.arr", DATA_ARRAY, None, "4.0";
    /// Take the value from the process realm (default meaning of Get).
    #[doc(alias = "PMIX_PROC_INFO")]
    PROC_INFO: bool = "pmix.proc.info", BOOL, None, "2.0";
    /// Event to the participants each time one of them connects or disconnects.
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    CONNECT_NOTIFY_EACH: bool = "pmix.cnct.each", BOOL, None, "impl 3.0.0";
    /// Event to each named process that it is asked to connect.
    #[doc(alias = "PMIX_CONNECT_NOTIFY_REQ")]
    CONNECT_NOTIFY_REQ: bool = "pmix.cnct.req", BOOL, None, "impl 3.0.0";
    /// No error if processes end without having connected.
    #[doc(alias = "PMIX_CONNECT_OPTIONAL")]
    CONNECT_OPTIONAL: bool = "pmix.cnt.opt", BOOL, None, "impl 3.0.0";
    /// No error if a process ends without having disconnected.
    #[doc(alias = "PMIX_CONNECT_EARLY_TERM_ALLOWED")]
    CONNECT_EARLY_TERM_ALLOWED: bool = "pmix.cnct.eterm", BOOL, None, "RFC0003";
    /// Only exchange job-level data; no new namespace or rank.
    #[doc(alias = "PMIX_CONNECT_XCHG_ONLY")]
    CONNECT_XCHG_ONLY: bool = "pmix.cnt.xchg", BOOL, None, "impl 3.0.0";
    /// Application's own label that, with the procs, identifies the connect operation; all must give the
    /// same.
    #[doc(alias = "PMIX_CONNECT_ID")]
    CONNECT_ID: String = "pmix.cnt.id", STRING, None, "impl 3.0.0";
    /// Value carried with qualifiers: first element primary pair, rest the qualifiers needed to fetch it.
    #[doc(alias = "PMIX_QUALIFIED_VALUE")]
    QUALIFIED_VALUE: DataArray = "pmix.qual.val", DATA_ARRAY, None, "impl 4.2.0";
}
