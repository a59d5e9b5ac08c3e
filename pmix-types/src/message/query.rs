use super::Failure;
use crate::{Info, KeyOf, Nspace, Status, Value, ValueType};

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
