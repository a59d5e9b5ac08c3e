use super::Failure;
use crate::{Info, KeyOf, Query, Status, Value, ValueType, keys};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! query_operations {
    ($then:ident $($before:tt)*) => {
        $crate::iof_operations! { $then $($before)*
            /// Queries of server and host.
            QueryInfo query_info -> QueryReply {
                "query", memory: PLAIN,
                fields: {
                    /// The queries, each with its qualifiers; never empty.
                    queries: Vec<Query>,
                },
            }
            /// A request for the processes on a node; the reply may be empty.
            ResolvePeers resolve_peers -> Vec<ProcId> {
                "resolve peers", memory: PLAIN,
                fields: {
                    /// Name of the node; `None` for the caller's own.
                    node: Option<String>,
                    /// The namespace; `None` for all that are known.
                    nspace: Option<Nspace>,
                },
            }
            /// A request for the names of nodes; the reply has them in order and without duplicates, and may be empty.
            ResolveNodes resolve_nodes -> Vec<String> {
                "resolve nodes", memory: PLAIN,
                fields: {
                    /// The namespace whose nodes are requested; `None` for all that are known.
                    nspace: Option<Nspace>,
                },
            }
        }
    };
}

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
