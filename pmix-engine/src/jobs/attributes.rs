//! The attributes that the server supports, and those that its host declares (ATT-01).
//!
//! The attributes listed for an operation are those that its code reads. Tests try every attribute of the Standard on
//! the engine, and compare.

use pmix_types::message::Failure;
use pmix_types::{AttributeLevel, AttributeRegistry, RegAttr, Status, Supported, keys};

use crate::CallValue;
use crate::context::Context;
use crate::query::qualifiers_of_queries;
use crate::upcall::{Capabilities, Upcall};

const CONNECT: &[&str] = &[
    keys::CONNECT_ID.name(),
    keys::CONNECT_OPTIONAL.name(),
    keys::CONNECT_XCHG_ONLY.name(),
    keys::CONNECT_NOTIFY_EACH.name(),
    keys::CONNECT_NOTIFY_REQ.name(),
    keys::CONNECT_EARLY_TERM_ALLOWED.name(),
    keys::ALL_CLONES_PARTICIPATE.name(),
    keys::TIMEOUT.name(),
];

const GROUP_CONSTRUCT: &[&str] = &[
    keys::GROUP_OPTIONAL.name(),
    keys::GROUP_NOTIFY_TERMINATION.name(),
    keys::GROUP_FT_COLLECTIVE.name(),
    keys::GROUP_LEADER.name(),
    keys::GROUP_LOCAL_ONLY.name(),
    keys::TIMEOUT.name(),
];

const GROUP_INVITE: &[&str] = &[
    keys::GROUP_OPTIONAL.name(),
    keys::GROUP_NOTIFY_TERMINATION.name(),
    keys::GROUP_FT_COLLECTIVE.name(),
    keys::TIMEOUT.name(),
];

/// Of an event that reaches further than the process that makes it.
const NOTIFY: &[&str] = &[keys::EVENT_DO_NOT_CACHE.name(), keys::EVENT_STAYS_LOCAL.name()];

const CLEANUP: &[&str] = &[
    keys::REGISTER_CLEANUP.name(),
    keys::REGISTER_CLEANUP_DIR.name(),
    keys::CLEANUP_RECURSIVE.name(),
    keys::CLEANUP_EMPTY.name(),
    keys::CLEANUP_IGNORE.name(),
    keys::CLEANUP_LEAVE_TOPDIR.name(),
];

pub(crate) const IOF_PULL: &[&str] = &[
    keys::IOF_CACHE_SIZE.name(),
    keys::IOF_DROP_OLDEST.name(),
    keys::IOF_DROP_NEWEST.name(),
    keys::IOF_BUFFERING_SIZE.name(),
    keys::IOF_BUFFERING_TIME.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];

/// What it monitors itself, and how.
const MONITOR: &[&str] = &[
    keys::MONITOR_HEARTBEAT.name(),
    keys::SEND_HEARTBEAT.name(),
    keys::MONITOR_CANCEL.name(),
    keys::MONITOR_HEARTBEAT_TIME.name(),
    keys::MONITOR_HEARTBEAT_DROPS.name(),
    keys::MONITOR_FILE.name(),
    keys::MONITOR_FILE_SIZE.name(),
    keys::MONITOR_FILE_ACCESS.name(),
    keys::MONITOR_FILE_MODIFY.name(),
    keys::MONITOR_FILE_CHECK_TIME.name(),
    keys::MONITOR_FILE_DROPS.name(),
    keys::MONITOR_ID.name(),
    keys::MONITOR_APP_CONTROL.name(),
    keys::MONITOR_LOCAL_ONLY.name(),
    keys::RANGE.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
    keys::TIMEOUT.name(),
];

pub(crate) const IOF_PUSH: &[&str] = &[keys::IOF_COMPLETE.name(), keys::USERID.name(), keys::GRPID.name()];

/// The host takes what there is.
pub(crate) const NOTHING: &[&str] = &[];

/// What the server does for each request that it passes up: it keeps the time, and says who asks.
pub(crate) const PASSED_UP: &[&str] = &[keys::TIMEOUT.name(), keys::USERID.name(), keys::GRPID.name()];

pub(crate) const SPAWN: &[&str] =
    &[keys::TIMEOUT.name(), keys::SPAWN_TIMEOUT.name(), keys::USERID.name(), keys::GRPID.name()];

pub(crate) const LOOKUP: &[&str] =
    &[keys::RANGE.name(), keys::TIMEOUT.name(), keys::USERID.name(), keys::GRPID.name()];

pub(crate) const PUBLISH: &[&str] = &[
    keys::RANGE.name(),
    keys::PERSISTENCE.name(),
    keys::TIMEOUT.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];

macro_rules! row {
    ($attributes:expr, $($function:literal),+) => {
        Supported { functions: &[$($function),+], attributes: $attributes }
    };
}

/// What the server does without its host.
const OWN: &[Supported<'static>] = &[
    Supported::GET,
    Supported::FENCE,
    Supported::REGISTER_EVENTS,
    Supported::NOTIFY,
    row!(CONNECT, "PMIx_Connect", "PMIx_Connect_nb", "PMIx_Disconnect", "PMIx_Disconnect_nb"),
    row!(GROUP_CONSTRUCT, "PMIx_Group_construct", "PMIx_Group_construct_nb"),
    row!(&[keys::TIMEOUT.name()], "PMIx_Group_destruct", "PMIx_Group_destruct_nb"),
    row!(GROUP_INVITE, "PMIx_Group_invite", "PMIx_Group_invite_nb"),
    row!(&[keys::TIMEOUT.name()], "PMIx_Group_join", "PMIx_Group_join_nb"),
    row!(&[], "PMIx_Group_leave", "PMIx_Group_leave_nb"),
    row!(NOTIFY, "PMIx_Notify_event"),
    row!(CLEANUP, "PMIx_Job_control", "PMIx_Job_control_nb"),
    row!(MONITOR, "PMIx_Process_monitor", "PMIx_Process_monitor_nb"),
    row!(
        &[],
        "PMIx_Init",
        "PMIx_Finalize",
        "PMIx_Put",
        "PMIx_Commit",
        "PMIx_Deregister_event_handler",
        "PMIx_Heartbeat",
        "PMIx_Resolve_peers",
        "PMIx_Resolve_nodes"
    ),
];

/// What is supported when the server starts: its own attributes, and those that the host has declared.
pub(crate) fn at_start(capabilities: &Capabilities) -> AttributeRegistry {
    let (server, host) = (AttributeLevel::Server, AttributeLevel::Host);
    let queries = qualifiers_of_queries();
    let queries = Supported { functions: Upcall::Query.functions(), attributes: &queries };
    let served = |upcall: &Upcall| {
        let attributes = upcall.attributes_of_server().filter(|_| capabilities.has(*upcall))?;
        Some(Supported { functions: upcall.functions(), attributes })
    };
    let rows: Vec<_> =
        OWN.iter().copied().chain([queries]).chain(Upcall::ALL.iter().filter_map(served)).collect();
    let mut registry = AttributeRegistry::of_library(server, &rows);
    for upcall in capabilities.iter() {
        let attributes = capabilities.attributes(upcall).to_vec();
        if attributes.is_empty() {
            registry.declare(host, upcall.functions());
        } else {
            // entries serve different functions, and each entry is there once
            let _ = registry.register(host, upcall.functions(), attributes);
        }
    }
    registry
}

/// The host says which attributes an entry of its module takes (ATT-01).
pub(crate) fn register(
    registry: &mut AttributeRegistry,
    function: &str,
    attributes: Vec<RegAttr>,
    cx: &Context,
) -> Result<CallValue, Failure> {
    let bad = |message: String| Failure::new(Status::ERR_BAD_PARAM, message);
    let upcall =
        Upcall::from_name(function).ok_or_else(|| bad(format!("the host module has no entry {function}")))?;
    if !cx.config.capabilities.has(upcall) {
        return Err(bad(format!("the host does not declare {function}, so the server never calls it")));
    }
    registry.register(AttributeLevel::Host, upcall.functions(), attributes).map_err(|status| {
        Failure::new(status, format!("the attributes of {function} have been registered already"))
    })?;
    Ok(CallValue::Done)
}
