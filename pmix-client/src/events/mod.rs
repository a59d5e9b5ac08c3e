//! Events: who wants which, the streams that carry them, and the handlers that are called with them.

mod chain;
mod handler;
mod notify;
mod placement;
mod queue;
mod registration;
mod router;
mod runner;
mod stream;
#[cfg(test)]
mod tests;

pub use handler::{HandlerCall, HandlerOutcome, HandlerResult};
pub use notify::NotifyBuilder;
pub(crate) use queue::{Item, Queue};
pub use registration::{HandlerBuilder, HandlerRegistration};
pub(crate) use router::{Interest, Listener, Router};
pub use stream::{EventError, EventStream, EventsBuilder};

/// The methods of a builder that say which events are wanted, for one that has directives in this field.
macro_rules! filters {
    ($($field:ident).+) => {
        /// Only events about these processes; ranks may be `WILDCARD` (EVT-09).
        #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
        pub fn affected_procs(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
            let procs = pmix_types::DataArray::Proc(procs.into_iter().collect());
            self.directive(&keys::EVENT_AFFECTED_PROCS, procs)
        }

        /// Only events from this far, seen from the own process: `PROC_LOCAL` for its own, `LOCAL` for those of its
        /// node, `NAMESPACE` for those of its namespace, `RM` for those of the host (EVT-09).
        #[doc(alias = "PMIX_RANGE")]
        pub fn source_range(self, range: DataRange) -> Self {
            self.directive(&keys::RANGE, range)
        }

        /// Only events from these processes; ranks may be `WILDCARD` (EVT-09).
        #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
        pub fn sources(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
            let procs = pmix_types::DataArray::Proc(procs.into_iter().collect());
            self.source_range(DataRange::CUSTOM).directive(&keys::EVENT_CUSTOM_RANGE, procs)
        }

        /// Adds a directive.
        pub fn directive<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
            self.$($field).+.push(Info::new(key, value));
            self
        }

        /// Adds directives.
        pub fn directives(mut self, directives: Directives) -> Self {
            self.$($field).+.extend(directives);
            self
        }
    };
}
use filters;
