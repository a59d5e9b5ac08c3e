use super::{Failure, QueryReply};
use crate::{KeyOf, Query, Status, Value, ValueType, keys};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! query_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::iof_operations! { [$($then)*] $($before)*
            /// Queries of server and host.
            QueryInfo query_info -> QueryReply {
                "query", memory: PLAIN, by: engine,
                fields: {
                    /// The queries, each with its qualifiers; never empty.
                    queries: Vec<Query>,
                },
                native: { QUERY = 15, c: "PMIX_QUERY_CMD", message: [queries] },
                upcalls: {
                    /// Answers queries: one info per query, made by [`Query::results`](pmix_types::Query::results). The server itself answers
                    /// the keys that are missing from the results, or all keys after `ERR_NOT_SUPPORTED` or `ERR_NOT_FOUND`. Any other failure
                    /// fails the queries. Idempotent. The host is responsible for access control (QRY-10).
                    ///
                    /// Read the qualifiers with [`Directives::take`](pmix_types::Directives::take), and refuse those that are required and were not
                    /// read with [`QueryRequest::deny_unread`] (GEN-05). If `NSPACE` names a job that the host does not know, or whose user the
                    /// requester may not see, answer `ERR_NOT_FOUND`: the server answers from what is registered, or with `ERR_INVALID_NAMESPACE`.
                    ///
                    /// Resolve_peers and Resolve_nodes arrive as queries with the keys `QUERY_RESOLVE_PEERS` (qualifiers `HOSTNAME` and
                    /// optionally `NSPACE`) and `QUERY_RESOLVE_NODE` (optionally `NSPACE`), one at a time. Answer with an array of processes
                    /// or a comma-separated list, and also succeed if it is empty. Only `ERR_NOT_SUPPORTED` leaves the answer to the server
                    /// (RES-04, RES-05).
                    Query query(QueryRequest) -> QueryResults {
                        "queries", c: ["query" "pmix_server_query_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Query_info", "PMIx_Query_info_nb"],
                    }
                },
            }
            /// A request for the processes on a node; the reply may be empty.
            ResolvePeers resolve_peers -> Vec<ProcId> {
                "resolve peers", memory: PLAIN, by: engine,
                fields: {
                    /// Name of the node; `None` for the caller's own.
                    node: Option<String>,
                    /// The namespace; `None` for all that are known.
                    nspace: Option<Nspace>,
                },
                functions: ["PMIx_Resolve_peers"],
                native: { RESOLVE_PEERS = 37, c: "PMIX_RESOLVE_PEERS_CMD", since: [5, 0, 6], message: [node, nspace] },
            }
            /// A request for the names of nodes; the reply has them in order and without duplicates, and may be empty.
            ResolveNodes resolve_nodes -> Vec<String> {
                "resolve nodes", memory: PLAIN, by: engine,
                fields: {
                    /// The namespace whose nodes are requested; `None` for all that are known.
                    nspace: Option<Nspace>,
                },
                functions: ["PMIx_Resolve_nodes"],
                native: { RESOLVE_NODES = 38, c: "PMIX_RESOLVE_NODE_CMD", since: [5, 0, 6], message: [nspace] },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! query_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $($then)*! { $($before)*
            /// The answer to queries.
            Query query(QueryReply) {
                /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
                status: Status,
                /// One `QUERY_RESULTS` info per query with results (QRY-02); never empty.
                results: Vec<Info>,
            },
            /// Processes; may be empty.
            Procs procs(Vec<ProcId>),
            /// Names of nodes, in order and without duplicates; may be empty.
            Nodes nodes(Vec<String>),
        }
    };
}

impl QueryReply {
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
