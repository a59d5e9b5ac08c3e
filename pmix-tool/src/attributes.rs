//! Attributes that this library supports in addition to the client library (ATT-01): the tool's part of the replies to
//! queries of supported attributes.

use pmix_types::{AttributeLevel, AttributeRegistry, Supported, keys};

/// Formats of output; see [`OutputFormat::from_directives`](crate::OutputFormat::from_directives).
const FORMAT: &[&str] = &[
    keys::IOF_TAG_OUTPUT.name(),
    keys::IOF_RANK_OUTPUT.name(),
    keys::IOF_TIMESTAMP_OUTPUT.name(),
    keys::IOF_XML_OUTPUT.name(),
    keys::IOF_OUTPUT_RAW.name(),
    keys::IOF_MERGE_STDERR_STDOUT.name(),
    keys::IOF_OUTPUT_TO_FILE.name(),
    keys::IOF_FILE_PATTERN.name(),
    keys::IOF_OUTPUT_TO_DIRECTORY.name(),
    keys::IOF_FILE_ONLY.name(),
];

const SUPPORTED: &[Supported<'static>] = &[
    Supported { functions: &["PMIx_IOF_pull"], attributes: FORMAT },
    Supported { functions: &["PMIx_tool_attach_to_server"], attributes: &[keys::PRIMARY_SERVER.name()] },
    Supported {
        functions: &["PMIx_tool_set_server"],
        attributes: &[keys::WAIT_FOR_CONNECTION.name(), keys::TIMEOUT.name()],
    },
    Supported {
        functions: &[
            "PMIx_tool_init",
            "PMIx_tool_finalize",
            "PMIx_tool_disconnect",
            "PMIx_tool_get_servers",
            "PMIx_Query_info",
            "PMIx_Query_info_nb",
            "PMIx_IOF_push",
        ],
        attributes: &[],
    },
];

pub(crate) fn supported() -> AttributeRegistry {
    AttributeRegistry::of_library(AttributeLevel::Tool, SUPPORTED)
}

#[cfg(test)]
mod tests {
    use pmix_types::{Directives, Info, Value};

    use super::*;
    use crate::OutputFormat;

    #[test]
    fn att_01_what_is_reported_of_output_is_read() {
        let supported = supported();
        let reported = supported.attributes(AttributeLevel::Tool, "PMIx_IOF_pull").unwrap();
        for definition in keys::all() {
            // no directive of output has this type, so reading one fails
            let odd = Info::dynamic(definition.key_name(), Value::Pid(pmix_types::Pid(1)));
            let is_read = OutputFormat::from_directives(&Directives::from(vec![odd])).is_err();
            let is_reported = reported.iter().any(|attribute| attribute.key == definition.name);
            assert_eq!(is_read, is_reported, "{}", definition.constant);
        }
    }
}
