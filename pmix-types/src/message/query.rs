use crate::{Info, Nspace, Status};

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
