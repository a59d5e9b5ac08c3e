use crate::{Info, KeyName, Pdata, Status};

directed_requests! {
    /// Data to be published.
    Publish {
        /// `RANGE`, `PERSISTENCE` and the like; may be empty.
        directives,
        /// Keys and values. They may include directives, which are distinguished from data by their keys (PUB-02).
        data: Vec<Info>,
    }
    /// A lookup of published data.
    Lookup {
        /// `RANGE`, `WAIT`, `TIMEOUT` and the like; may be empty.
        directives,
        /// The keys; never empty.
        keys: Vec<KeyName>,
    }
    /// A request to unpublish data.
    Unpublish {
        /// `RANGE` and the like; may be empty.
        directives,
        /// The keys; empty for all data of the caller (PUB-15).
        keys: Vec<KeyName>,
    }
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LookupReply {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// The data found, with its publishers; never empty.
    pub found: Vec<Pdata>,
}

impl LookupReply {
    /// A reply with this status and data.
    pub const fn new(status: Status, found: Vec<Pdata>) -> Self {
        Self { status, found }
    }
}
