//! Texts of the keys that have a meaning of their own here, to match on.

use crate::keys;

macro_rules! names {
    ($($NAME:ident),+ $(,)?) => {
        $(pub(super) const $NAME: &str = keys::$NAME.name();)+
    };
}

names!(
    APPLDR,
    APPNUM,
    APP_INFO_ARRAY,
    APP_RANK,
    APP_SIZE,
    GLOBAL_RANK,
    HOSTNAME,
    HOSTNAME_ALIASES,
    JOB_INFO_ARRAY,
    JOB_NUM_APPS,
    JOB_SIZE,
    LOCALLDR,
    LOCAL_CPUSETS,
    LOCAL_PEERS,
    LOCAL_PROCS,
    LOCAL_RANK,
    LOCAL_SIZE,
    NODEID,
    NODE_INFO_ARRAY,
    NODE_LIST,
    NODE_MAP,
    NODE_MAP_RAW,
    NODE_RANK,
    NPROC_OFFSET,
    NSPACE,
    NUM_NODES,
    PROCID,
    PROC_INFO_ARRAY,
    PROC_MAP,
    PROC_MAP_RAW,
    RANK,
    REGISTER_NODATA,
    SESSION_ID,
    SESSION_INFO_ARRAY,
    SPAWNED,
);
