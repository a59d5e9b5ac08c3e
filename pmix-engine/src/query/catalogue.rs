//! Which keys the server answers itself, and which qualifiers each key supports and requires.

use std::collections::BTreeSet;

use pmix_types::message::Failure;
use pmix_types::{AttributeLevel, Directives, Info, Key, Status, keys, usage, why};

/// A key of queries as the Standard describes it.
struct QueryKey {
    key: &'static str,
    /// Whether the server can answer it.
    own: bool,
    /// Qualifiers that it requires.
    needs: &'static [&'static str],
    /// Other qualifiers that it takes.
    takes: &'static [&'static str],
}

const fn own<T>(key: &Key<T>) -> QueryKey {
    QueryKey { key: key.name(), own: true, needs: &[], takes: &[] }
}

const fn host<T>(key: &Key<T>, needs: &'static [&'static str]) -> QueryKey {
    QueryKey { key: key.name(), own: false, needs, takes: &[] }
}

const NSPACE: &str = keys::NSPACE.name();
const PROCESS: &[&str] = &[NSPACE, keys::RANK.name(), keys::PROCID.name()];

/// Qualifiers that select whose attributes are asked for.
const LEVELS: &[&str] = &[
    AttributeLevel::Client.attributes_key().name(),
    AttributeLevel::Client.functions_key().name(),
    AttributeLevel::Server.attributes_key().name(),
    AttributeLevel::Server.functions_key().name(),
    AttributeLevel::Host.attributes_key().name(),
    AttributeLevel::Host.functions_key().name(),
    AttributeLevel::Tool.attributes_key().name(),
    AttributeLevel::Tool.functions_key().name(),
];

const CATALOGUE: &[QueryKey] = &[
    own(&keys::QUERY_SUPPORTED_KEYS),
    own(&keys::QUERY_STABLE_ABI_VERSION),
    own(&keys::QUERY_PROVISIONAL_ABI_VERSION),
    own(&keys::SERVER_URI),
    own(&keys::QUERY_NAMESPACES),
    QueryKey { takes: &[NSPACE], ..own(&keys::QUERY_NAMESPACE_INFO) },
    QueryKey { needs: &[NSPACE], ..own(&keys::QUERY_PROC_TABLE) },
    QueryKey { needs: &[NSPACE], takes: &[keys::HOSTNAME.name()], ..own(&keys::QUERY_LOCAL_PROC_TABLE) },
    QueryKey {
        takes: &[NSPACE, keys::RANK.name(), keys::PROCID.name(), keys::QUERY_REPORT_AVG.name()],
        ..own(&keys::QUERY_MEMORY_USAGE)
    },
    QueryKey { takes: &[NSPACE], ..own(&why::WAITS) },
    own(&why::RECORD),
    QueryKey { takes: PROCESS, ..own(&keys::PROGRAMMING_MODEL) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_LIBRARY_NAME) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_LIBRARY_VERSION) },
    QueryKey { takes: PROCESS, ..own(&keys::THREADING_MODEL) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_NUM_THREADS) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_NUM_CPUS) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_CPU_TYPE) },
    QueryKey { takes: PROCESS, ..own(&keys::MODEL_AFFINITY_POLICY) },
    QueryKey { takes: PROCESS, ..own(&why::LOOKS) },
    QueryKey { takes: PROCESS, ..own(&usage::USAGE) },
    own(&keys::QUERY_NUM_PSETS),
    own(&keys::QUERY_PSET_NAMES),
    QueryKey { needs: &[keys::PSET_NAME.name()], ..own(&keys::QUERY_PSET_MEMBERSHIP) },
    own(&keys::QUERY_NUM_GROUPS),
    own(&keys::QUERY_GROUP_NAMES),
    QueryKey { needs: &[keys::GROUP_ID.name()], ..own(&keys::QUERY_GROUP_MEMBERSHIP) },
    QueryKey { takes: LEVELS, ..own(&keys::QUERY_ATTRIBUTE_SUPPORT) },
    own(&keys::CLIENT_FUNCTIONS),
    own(&keys::SERVER_FUNCTIONS),
    own(&keys::HOST_FUNCTIONS),
    own(&keys::TOOL_FUNCTIONS),
    host(&keys::QUERY_JOB_STATUS, &[NSPACE]),
    QueryKey { takes: &[keys::ALLOC_ID.name()], ..host(&keys::QUERY_ALLOCATION, &[]) },
    host(&keys::QUERY_ALLOC_STATUS, &[keys::ALLOC_REQ_ID.name()]),
    QueryKey {
        takes: &[NSPACE, keys::ALLOC_ID.name(), keys::ALLOC_REQ_ID.name()],
        ..host(&keys::TIME_REMAINING, &[])
    },
];

/// Qualifiers for values of jobs, whose keys are not specific to queries.
const REALMS: &[&str] = &[
    keys::SESSION_INFO.name(),
    keys::JOB_INFO.name(),
    keys::APP_INFO.name(),
    keys::NODE_INFO.name(),
    keys::PROC_INFO.name(),
    keys::SESSION_ID.name(),
    keys::APPNUM.name(),
    keys::HOSTNAME.name(),
    keys::NODEID.name(),
];

/// Qualifiers that go with every key.
const GENERAL: &[&str] = &[
    keys::QUERY_REFRESH_CACHE.name(),
    keys::QUERY_LOCAL_ONLY.name(),
    keys::QUERY_SUPPORTED_QUALIFIERS.name(),
];

fn entry(key: &str) -> Option<&'static QueryKey> {
    CATALOGUE.iter().find(|entry| entry.key == key)
}

/// Whether the server can answer a key if it has the data: such a key is never for the host alone.
pub(super) fn is_own(key: &str) -> bool {
    match entry(key) {
        Some(entry) => entry.own,
        None => is_of_jobs(key),
    }
}

/// Whether a key names a value of sessions, jobs, applications, nodes or processes.
pub(super) fn is_of_jobs(key: &str) -> bool {
    keys::find(key).is_some_and(|definition| definition.realm != pmix_types::Realm::None)
}

/// Keys that the server answers, in the order of the catalogue.
pub(super) fn own_keys() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().filter(|entry| entry.own).map(|entry| entry.key)
}

/// Qualifiers that a key takes here; `None` for an unknown key.
pub(super) fn qualifiers_of(key: &str) -> Option<Vec<&'static str>> {
    let special: Vec<_> = match entry(key) {
        Some(entry) => entry.needs.iter().chain(entry.takes).copied().collect(),
        None if is_of_jobs(key) => PROCESS.iter().chain(REALMS).copied().collect(),
        None => return None,
    };
    Some(special.into_iter().chain(GENERAL.iter().copied()).collect())
}

/// Qualifiers that some key takes here, in order.
pub(crate) fn qualifiers_of_queries() -> Vec<&'static str> {
    let of_keys = CATALOGUE.iter().flat_map(|entry| entry.needs.iter().chain(entry.takes));
    let all = of_keys.chain(PROCESS).chain(REALMS).chain(GENERAL).copied();
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Refuses a required qualifier that no key takes (GEN-05); one that only other keys take is ignored (QRY-07).
pub(super) fn deny_strange(qualifiers: &Directives) -> Result<(), Failure> {
    if qualifiers.iter().any(Info::is_unprocessed) {
        qualifiers.deny_beyond(&qualifiers_of_queries())?;
    }
    Ok(())
}

/// Refuses a key without the qualifiers that it requires (QRY-12).
pub(super) fn check(key: &str, qualifiers: &Directives) -> Result<(), Failure> {
    let needs = entry(key).map_or(&[][..], |entry| entry.needs);
    match needs.iter().find(|needed| qualifiers.get_value(needed).is_none()) {
        Some(needed) => {
            let message = format!("{key} requires the qualifier {needed}");
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qry_12_what_keys_need_is_what_the_table_says() {
        let table = include_str!("../../../spec/attributes.tsv");
        let mut checked = 0;
        for line in table.lines() {
            let cells: Vec<_> = line.split('\t').collect();
            let (Some(key), Some(meaning)) = (cells.get(1), cells.get(7)) else { continue };
            let Some((_, needs)) = meaning.split_once("needs ") else { continue };
            if cells.get(3) != Some(&"query") || cells.get(5) == Some(&"impl-only") {
                continue;
            }
            let constant: String =
                needs.chars().take_while(|letter| letter.is_ascii_uppercase() || *letter == '_').collect();
            let needed = match keys::find_constant(&constant) {
                Some(definition) => definition.name,
                None if needs.contains("request id") => keys::ALLOC_REQ_ID.name(),
                None => panic!("what does {key} need: {needs}?"),
            };
            assert_eq!(entry(key).map(|entry| entry.needs), Some(&[needed][..]), "{key}");
            checked += 1;
        }
        assert!(checked >= 5, "{checked}");
    }
}
