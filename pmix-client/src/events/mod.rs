//! Events: who wants which, and the streams that carry them.

mod queue;
mod router;
mod stream;

pub(crate) use queue::Queue;
pub(crate) use router::{Interest, Router};
pub use stream::{EventError, EventStream, EventsBuilder};
