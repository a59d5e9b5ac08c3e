//! Events on their way to streams and handlers.

mod chain;
mod error;
mod handler;
mod placement;
mod router;
mod runner;
#[cfg(test)]
mod tests;

pub use error::EventError;
pub(crate) use error::EventQueue;
pub(crate) use handler::Handler;
pub use handler::{HandlerCall, HandlerOutcome, HandlerResult};
pub(crate) use placement::Placement;
pub(crate) use router::{Interest, Listener, Router};
pub(crate) use runner::Tell;
