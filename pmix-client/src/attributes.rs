//! What this library supports by itself (ATT-01): the client's part of the answers to queries for attribute support.

use pmix_types::{AttributeLevel, AttributeRegistry, Supported, for_each_upcall, keys};

const QUERY: &[&str] = &[
    AttributeLevel::Client.attributes_key().name(),
    AttributeLevel::Client.functions_key().name(),
    AttributeLevel::Tool.attributes_key().name(),
    AttributeLevel::Tool.functions_key().name(),
];

macro_rules! passed_up {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty {
        $what:literal, c: $c:tt, attributes: $attributes:ident, directives: $directives:ident, passed_up: $passed_up:ident,
        $(absent: $absent:ident,)? serves: [$($function:literal),* $(,)?],
    })+) => {
        &[$(functions!($passed_up [$($function),*])),+]
    };
}

macro_rules! functions {
    (yes $functions:tt) => {
        &$functions
    };
    (no $functions:tt) => {
        &[]
    };
}

/// Functions whose requests go to the host as they come.
const PASSED_UP: &[&[&str]] = for_each_upcall!(passed_up);

/// Other functions that take no directives, or only such as are for the server or the host.
const PASSED_ON: &[&str] = &[
    "PMIx_Commit",
    "PMIx_Connect",
    "PMIx_Connect_nb",
    "PMIx_Deregister_event_handler",
    "PMIx_Disconnect",
    "PMIx_Disconnect_nb",
    "PMIx_Fabric_deregister",
    "PMIx_Fabric_deregister_nb",
    "PMIx_Get_relative_locality",
    "PMIx_Group_construct",
    "PMIx_Group_construct_nb",
    "PMIx_Group_destruct",
    "PMIx_Group_destruct_nb",
    "PMIx_Group_invite",
    "PMIx_Group_invite_nb",
    "PMIx_Group_join",
    "PMIx_Group_join_nb",
    "PMIx_Group_leave",
    "PMIx_Group_leave_nb",
    "PMIx_Heartbeat",
    "PMIx_Initialized",
    "PMIx_IOF_deregister",
    "PMIx_IOF_pull",
    "PMIx_Job_control",
    "PMIx_Job_control_nb",
    "PMIx_Log",
    "PMIx_Log_nb",
    "PMIx_Lookup",
    "PMIx_Lookup_nb",
    "PMIx_Process_monitor",
    "PMIx_Process_monitor_nb",
    "PMIx_Publish",
    "PMIx_Publish_nb",
    "PMIx_Put",
    "PMIx_Resolve_nodes",
    "PMIx_Resolve_peers",
    "PMIx_Spawn",
    "PMIx_Spawn_nb",
    "PMIx_Store_internal",
    "PMIx_Unpublish",
    "PMIx_Unpublish_nb",
];

const SUPPORTED: &[Supported<'static>] = &[
    Supported::GET,
    Supported { functions: Supported::GET.functions, attributes: &[keys::OPTIONAL.name()] },
    // of a process without server, which waits for itself
    Supported::FENCE,
    Supported::REGISTER_EVENTS,
    Supported {
        functions: Supported::REGISTER_EVENTS.functions,
        attributes: &[keys::EVENT_RETURN_OBJECT.name()],
    },
    // by these the process judges whether an event is for its own handlers
    Supported::NOTIFY,
    Supported { functions: &["PMIx_Query_info", "PMIx_Query_info_nb"], attributes: QUERY },
    Supported { functions: &["PMIx_Init"], attributes: &[keys::TIMEOUT.name()] },
    Supported { functions: &["PMIx_Finalize"], attributes: &[keys::EMBED_BARRIER.name()] },
    Supported { functions: &["PMIx_IOF_push"], attributes: &[keys::IOF_COMPLETE.name()] },
    Supported { functions: PASSED_ON, attributes: &[] },
];

/// What is supported by this library, and by the one on top of it.
pub(crate) fn with(more: &AttributeRegistry) -> AttributeRegistry {
    let passed_up = PASSED_UP.iter().map(|functions| Supported { functions, attributes: &[] });
    let rows: Vec<_> = SUPPORTED.iter().copied().chain(passed_up).collect();
    let mut registry = AttributeRegistry::of_library(AttributeLevel::Client, &rows);
    registry.merge(more.clone());
    registry
}

#[cfg(test)]
mod tests {
    use pmix_types::{Directives, Info, InfoFlags, Value};

    use super::*;
    use crate::client::Client;
    use crate::store::Lookup;

    fn reported(function: &str) -> Vec<String> {
        let registry = with(&AttributeRegistry::new());
        let attributes = registry.attributes(AttributeLevel::Client, function).unwrap();
        attributes.iter().map(|attribute| attribute.key.to_string()).collect()
    }

    /// Each attribute that there is, required, with a value that no reader but that of a flag accepts.
    fn each() -> impl Iterator<Item = (&'static str, Directives)> {
        keys::all().iter().map(|definition| {
            let mut info = Info::dynamic(definition.key_name(), Value::Undef);
            info.flags |= InfoFlags::REQUIRED;
            (definition.name, Directives::from(vec![info]))
        })
    }

    #[test]
    fn att_01_gen_05_what_is_reported_of_get_is_read_here() {
        let reported = reported("PMIx_Get");
        for (name, directives) in each() {
            let is_read = match Lookup::new(None, None, directives) {
                Ok(lookup) => lookup.last_level().is_ok(),
                Err(error) => error.status() != pmix_types::Status::ERR_NOT_SUPPORTED,
            };
            assert_eq!(is_read, reported.iter().any(|key| key == name), "{name}");
        }
    }

    #[tokio::test]
    async fn att_01_gen_05_what_is_reported_of_fence_is_read_here() {
        let reported = reported("PMIx_Fence");
        let client = Client::singleton().await.unwrap();
        for (name, directives) in each() {
            let refused = client.fence_all().directives(directives).await.err();
            let is_read = refused.is_none_or(|error| error.status() != pmix_types::Status::ERR_NOT_SUPPORTED);
            assert_eq!(is_read, reported.iter().any(|key| key == name), "{name}");
        }
    }

    #[test]
    fn att_01_every_function_of_this_library_is_reported() {
        let registry = with(&AttributeRegistry::new());
        let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut own: Vec<String> = Vec::new();
        for dir in ["", "client", "ops", "events"] {
            for entry in std::fs::read_dir(src.join(dir)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(path).unwrap();
                    let names =
                        text.lines().filter_map(|line| line.trim().strip_prefix("#[doc(alias = \"PMIx_"));
                    own.extend(names.filter_map(|rest| Some(format!("PMIx_{}", rest.strip_suffix("\")]")?))));
                }
            }
        }
        own.retain(|function| !function.starts_with("PMIx_tool_"));
        own.sort_unstable();
        own.dedup();
        let known = |function: &&String| registry.attributes(AttributeLevel::Client, function).is_some();
        let missing: Vec<_> = own.iter().filter(|function| !known(function)).collect();
        assert!(own.len() > 10);
        assert!(
            missing.is_empty(),
            "{missing:?} are aliases of methods, but in no table of src/attributes.rs: add them to PASSED_ON if all their \
             directives are for the server or the host, else to SUPPORTED"
        );
    }
}
