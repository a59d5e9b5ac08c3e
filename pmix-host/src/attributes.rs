//! The attributes that each entry supports, for queries about them (ATT-01).
//!
//! The attributes listed for an entry are those that its code reads. A test sends requests with every attribute of the
//! Standard, and compares (`att_01_gen_05_...` in `tests/tests/node/attributes.rs`).

use pmix_types::{RegAttr, keys};

use pmix_server::host::Upcall;

const GROUP: &[&str] = &[
    keys::GROUP_ASSIGN_CONTEXT_ID.name(),
    keys::GROUP_OPTIONAL.name(),
    keys::GROUP_BOOTSTRAP.name(),
    keys::GROUP_ADD_MEMBERS.name(),
    keys::RANGE.name(),
];

const PUBLISH: &[&str] = &[
    keys::RANGE.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
    keys::PERSISTENCE.name(),
    keys::ACCESS_PERMISSIONS.name(),
    keys::ACCESS_USERIDS.name(),
    keys::ACCESS_GRPIDS.name(),
];

const LOOKUP: &[&str] = &[keys::RANGE.name(), keys::EVENT_CUSTOM_RANGE.name(), keys::WAIT.name()];

const UNPUBLISH: &[&str] = &[keys::RANGE.name(), keys::EVENT_CUSTOM_RANGE.name()];

pub(crate) const SPAWN: &[&str] = &[
    keys::WDIR.name(),
    keys::SET_SESSION_CWD.name(),
    keys::PREFIX.name(),
    keys::HOST.name(),
    keys::HOSTFILE.name(),
    keys::ADD_HOST.name(),
    keys::ADD_HOSTFILE.name(),
    keys::SET_ENVAR.name(),
    keys::ADD_ENVAR.name(),
    keys::UNSET_ENVAR.name(),
    keys::PREPEND_ENVAR.name(),
    keys::APPEND_ENVAR.name(),
    keys::FIRST_ENVAR.name(),
    keys::FWD_STDIN.name(),
    keys::FWD_STDOUT.name(),
    keys::FWD_STDERR.name(),
    keys::JOB_TIMEOUT.name(),
    keys::ALLOC_ID.name(),
    keys::NOTIFY_COMPLETION.name(),
    keys::NOTIFY_JOB_EVENTS.name(),
    keys::NOTIFY_PROC_TERMINATION.name(),
    keys::NOTIFY_PROC_ABNORMAL_TERMINATION.name(),
    keys::LOG_COMPLETION.name(),
    keys::LOG_JOB_EVENTS.name(),
    keys::LOG_PROC_TERMINATION.name(),
    keys::LOG_PROC_ABNORMAL_TERMINATION.name(),
    keys::PARENT_ID.name(),
    keys::SPAWNED.name(),
    keys::REQUESTOR_IS_CLIENT.name(),
    keys::REQUESTOR_IS_TOOL.name(),
    keys::EVENT_SILENT_TERMINATION.name(),
    keys::ENVARS_HARVESTED.name(),
    keys::SPAWN_CHILD_SEP.name(),
    keys::DEBUG_STOP_IN_INIT.name(),
    keys::DEBUG_STOP_IN_APP.name(),
    keys::MAPBY.name(),
    keys::RANKBY.name(),
    keys::BINDTO.name(),
    keys::CPUS_PER_PROC.name(),
    keys::REPORT_BINDINGS.name(),
    keys::DEBUGGER_DAEMONS.name(),
    keys::DEBUG_TARGET.name(),
    keys::DEBUG_DAEMONS_PER_NODE.name(),
    keys::DEBUG_DAEMONS_PER_PROC.name(),
    keys::SPAWN_TOOL.name(),
    keys::LAUNCHER_RENDEZVOUS_FILE.name(),
    keys::LAUNCH_DIRECTIVES.name(),
    keys::EXEC_AGENT.name(),
    keys::FORKEXEC_AGENT.name(),
];

const LOG_CHANNELS: &[&str] = &[
    keys::LOG_STDOUT.name(),
    keys::LOG_STDERR.name(),
    #[cfg(feature = "syslog")]
    keys::LOG_SYSLOG.name(),
    #[cfg(feature = "syslog")]
    keys::LOG_LOCAL_SYSLOG.name(),
    #[cfg(feature = "syslog")]
    keys::LOG_GLOBAL_SYSLOG.name(),
];

/// How to write to the channels.
pub(crate) const LOG_STYLE: &[&str] = &[
    keys::LOG_SYSLOG_PRI.name(),
    keys::LOG_SOURCE.name(),
    keys::LOG_TIMESTAMP.name(),
    keys::LOG_GENERATE_TIMESTAMP.name(),
    keys::LOG_TAG_OUTPUT.name(),
    keys::LOG_TIMESTAMP_OUTPUT.name(),
    keys::LOG_ONCE.name(),
];

pub(crate) const JOB_CONTROL: &[&str] = &[
    keys::JOB_CTRL_ID.name(),
    keys::JOB_CTRL_SIGNAL.name(),
    keys::JOB_CTRL_KILL.name(),
    keys::JOB_CTRL_PAUSE.name(),
    keys::JOB_CTRL_RESUME.name(),
    keys::JOB_CTRL_TERMINATE.name(),
    keys::JOB_CTRL_CANCEL.name(),
];

const IOF_PULL: &[&str] = &[keys::IOF_COPY.name(), keys::IOF_REDIRECT.name()];

const ALLOCATE: &[&str] = &[
    keys::ALLOC_ID.name(),
    keys::ALLOC_REQ_ID.name(),
    keys::ALLOC_NUM_NODES.name(),
    keys::ALLOC_NODE_LIST.name(),
    keys::ALLOC_EXCLUDE.name(),
    keys::ALLOC_NUM_CPUS.name(),
    keys::ALLOC_NUM_CPU_LIST.name(),
    keys::ALLOC_TIME.name(),
    keys::ALLOC_WARN_TIMEOUT.name(),
];

const CREDENTIAL: &[&str] = &[keys::CRED_TYPE.name()];

/// What qualifies the queries it answers.
pub(crate) const QUERY: &[&str] = &[
    keys::NSPACE.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::HOSTNAME.name(),
    keys::ALLOC_ID.name(),
    keys::ALLOC_REQ_ID.name(),
    keys::GROUP_ID.name(),
    keys::QUERY_REFRESH_CACHE.name(),
];

/// What an entry of `StandardHost` takes; empty for one that takes nothing, and for those it does not serve.
pub(crate) fn taken_by(upcall: Upcall) -> impl Iterator<Item = RegAttr> {
    let (names, more): (&[&str], &[&str]) = match upcall {
        Upcall::Group => (GROUP, &[]),
        Upcall::Publish => (PUBLISH, &[]),
        Upcall::Lookup => (LOOKUP, &[]),
        Upcall::Unpublish => (UNPUBLISH, &[]),
        Upcall::Spawn => (SPAWN, &[]),
        Upcall::Log => (LOG_CHANNELS, LOG_STYLE),
        Upcall::JobControl => (JOB_CONTROL, &[]),
        Upcall::IofPull => (IOF_PULL, &[]),
        Upcall::Query => (QUERY, &[]),
        Upcall::Allocate => (ALLOCATE, &[]),
        Upcall::GetCredential | Upcall::ValidateCredential => (CREDENTIAL, &[]),
        _ => (&[], &[]),
    };
    names.iter().chain(more).filter_map(|name| keys::find(name)).map(RegAttr::from)
}
