//! The host side: the trait that the embedding resource manager implements, and its types.

mod blob;
mod context;
mod dispatch;
mod error;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Nspace, ProcId, for_each_upcall};

use crate::handle::ServerHandle;

pub use blob::{CODEC, decode_job, decode_jobs, encode_jobs};
pub use context::UpcallContext;
pub use dispatch::call;
pub use error::{HostError, HostResult};
pub use pmix_engine::upcall::*;

/// The answer of a host that lacks the entry.
macro_rules! absent {
    ($name:ident) => {
        not_served(Upcall::$name)
    };
    ($name:ident accepted) => {
        Ok(())
    };
}

macro_rules! declare {
    ($(
        $(#[$doc:meta])*
        $name:ident $method:ident($request:ty) -> $reply:ty {
            $what:literal, c: [$($c_name:literal $c_type:literal),*],
            attributes: $attributes:ident, directives: $directives:ident, passed_up: $passed_up:ident,
            $(absent: $absent:ident,)? serves: [$($function:literal),* $(,)?],
        }
    )+) => {
        /// The server's interface to the resource manager: one method per entry of the Standard's server module.
        ///
        /// By default every method returns `ERR_NOT_SUPPORTED`, as for an absent entry (GEN-11). The methods for notifications
        /// return success, because an absent entry means that the host does not want them (INI-07).
        ///
        /// # You may assume
        /// - Upcalls run as tasks on the runtime from which the server was started, several at a time, in no fixed order. Those that you
        ///   declare with [`Capabilities::begun_by_server`] run on the server's thread until they wait for something, which
        ///   saves two changes of threads if they answer at once.
        /// - [`ServerHandle`] may be called from inside any of them.
        /// - `client_connected` comes before any other upcall for that process (CLI-05).
        /// - Collectives come once per node and operation, when all local participants have called, or one can no longer (HST-02), and
        ///   never twice at a time for the same participants.
        ///
        /// # You must
        /// - declare the entries that you serve, because the server calls no others: put [`host_module`](crate::host_module) above the `impl`,
        ///   which declares each method that is there, or write [`HostModule::capabilities`]. At its start the server logs the declared upcalls at
        ///   level `debug` of the target `pmix_server` (with `tracing-subscriber`: `RUST_LOG=pmix_server=debug`),
        /// - not block the thread (GEN-16); awaiting is fine,
        /// - expect that an answer may no longer be wanted, see [`UpcallContext::cancelled`]; a late answer is dropped,
        /// - refuse required directives that you do not know: take those that you carry out, then call
        ///   [`Directives::deny_unprocessed`], which fails with `ERR_NOT_SUPPORTED` (GEN-05).
        ///
        /// # Entries
        /// [`Upcall`] lists the entries by their names in the Standard's module, and the functions that each of them serves.
        ///
        /// # Standard
        /// `pmix_server_module_t`
        #[async_trait]
        #[doc(alias = "pmix_server_module_t")]
        #[allow(unused_variables, reason = "the names are the documentation of the arguments")]
        pub trait HostModule: Send + Sync + 'static {
            /// The entries that this host serves. Read once, when the server starts.
            fn capabilities(&self) -> Capabilities {
                Capabilities::none()
            }

            /// Receives the handle for calls to the library, shortly before the server begins to serve. Called once, before any
            /// upcall.
            fn started(&self, handle: &ServerHandle) {}

            $(
                $(#[$doc])*
                $(#[doc(alias = $c_type)])*
                async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$reply> {
                    absent!($name $($absent)?)
                }
            )+
        }
    };
}

// the methods stand in the table of operations, in `pmix-types/src/message/`, each with the request that leads to it
for_each_upcall!(declare);

/// The answer of an entry that the host does not serve (GEN-11).
fn not_served<T>(upcall: Upcall) -> HostResult<T> {
    Err(HostError::not_supported(upcall.operation()))
}

/// A server without a host: serves local data only (INI-10).
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "it is nothing")]
pub struct NoHost;

impl HostModule for NoHost {}

const _: fn(Arc<dyn HostModule>) = |_| {};
