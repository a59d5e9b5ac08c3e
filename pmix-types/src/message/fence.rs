use std::sync::Arc;

use bytes::Bytes;

use super::Modex;
use crate::ProcId;

directed_requests! {
    /// Entry into a fence.
    Fence {
        /// `COLLECT_DATA`, `TIMEOUT` and the like; may be empty.
        directives,
        /// The participants; `None` for all processes of the caller's namespace (FEN-01).
        procs: Option<Vec<ProcId>>,
    }
}

/// The data that a fence has collected.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)]
pub enum Collected {
    /// The data of each participant.
    Held(Arc<Modex>),
    /// The same data, still encoded as received; empty if there is none. Every participant receives the data of all but
    /// needs little of it, so decoding it on demand saves most of the work.
    Encoded(Bytes),
}

impl Default for Collected {
    fn default() -> Self {
        Self::Encoded(Bytes::new())
    }
}

impl From<Arc<Modex>> for Collected {
    fn from(modex: Arc<Modex>) -> Self {
        Self::Held(modex)
    }
}

impl From<Modex> for Collected {
    fn from(modex: Modex) -> Self {
        Self::Held(Arc::new(modex))
    }
}
