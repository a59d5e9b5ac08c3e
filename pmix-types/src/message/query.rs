use super::Failure;
use crate::{Info, KeyOf, Nspace, Query, Status, Value, ValueType, keys};

/// The answer to queries.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryReply {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// One `QUERY_RESULTS` info per query with results; never empty.
    pub results: Vec<Info>,
}

impl QueryReply {
    /// A reply with this status and these results.
    pub const fn new(status: Status, results: Vec<Info>) -> Self {
        Self { status, results }
    }

    /// The first value found for a key, by its type; `None` if it was not found.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invalid key; for a value of another type, the status that the Standard has for that.
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> Result<Option<T>, Failure> {
        let key = key.into_key_name()?;
        let read = |value: &Value| value.get().map_err(|error| Failure::mistyped(&key, error));
        let mut infos = self.results.iter().filter_map(|result| result.value.as_infos()).flatten();
        infos.find(|info| info.key == key).map(|info| read(&info.value)).transpose()
    }
}

/// A request for the processes on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvePeers {
    /// Name of the node; `None` for the caller's own.
    pub node: Option<String>,
    /// The namespace; `None` for all that are known.
    pub nspace: Option<Nspace>,
}

impl ResolvePeers {
    /// A request with these fields.
    pub const fn new(node: Option<String>, nspace: Option<Nspace>) -> Self {
        Self { node, nspace }
    }
}

impl Query {
    /// Refuses a query without a key, and qualifiers that contradict each other (QRY-05).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for `PROCID` together with `NSPACE` or `RANK`, and for `RANK` without `NSPACE`.
    pub fn check(&self) -> Result<(), Failure> {
        let bad = |message: &str| Err(Failure::new(Status::ERR_BAD_PARAM, message));
        if self.keys.is_empty() {
            return bad("a query has no key");
        }
        let given = &self.qualifiers;
        if given.contains(&keys::PROCID) && (given.contains(&keys::NSPACE) || given.contains(&keys::RANK)) {
            return bad("a query has both PROCID and NSPACE or RANK as qualifiers: give one or the other");
        }
        if given.contains(&keys::RANK) && !given.contains(&keys::NSPACE) {
            return bad("a query has the qualifier RANK without NSPACE: a process needs both");
        }
        Ok(())
    }
}
