//! How the builders are made: as those of `pmix-client`, on plain messages.

use std::time::Duration;

use pmix_types::message::Failure;
use pmix_types::{AnyKey, KeyName, ProcId, Procs, Status};

use super::ServerClient;

/// What a builder holds: the request as far as it is complete, and the first mistake in it.
#[derive(Clone, Debug)]
pub(super) struct Draft<R> {
    pub(super) client: ServerClient,
    pub(super) request: R,
    mistake: Option<Failure>,
}

impl<R> Draft<R> {
    pub(super) const fn new(client: ServerClient, request: R) -> Self {
        Self { client, request, mistake: None }
    }

    /// Has the operation fail with `ERR_BAD_PARAM` when it is awaited. The first mistake counts.
    pub(super) fn mistaken(&mut self, problem: impl ToString) {
        self.mistake.get_or_insert_with(|| Failure::new(Status::ERR_BAD_PARAM, problem.to_string()));
    }

    /// The names of keys; those that are invalid are mistakes.
    pub(super) fn names<K: AnyKey>(&mut self, keys: impl IntoIterator<Item = K>) -> Vec<KeyName> {
        keys.into_iter().filter_map(|key| self.name(key)).collect()
    }

    pub(super) fn name(&mut self, key: impl AnyKey) -> Option<KeyName> {
        key.into_key_name().map_err(|error| self.mistaken(error)).ok()
    }

    /// A limit as the Standard's attributes have it: whole seconds, 0 for none (GEN-12). Anything else is a mistake.
    pub(super) fn seconds(&mut self, limit: Duration) -> i32 {
        let whole = Some(limit.as_secs()).filter(|_| limit.subsec_nanos() == 0);
        whole.and_then(|seconds| i32::try_from(seconds).ok()).unwrap_or_else(|| {
            self.mistaken(format!("{limit:?} is not a number of whole seconds, which a limit must be"));
            0
        })
    }

    /// Processes by their names; without names, those of the server's own namespace.
    pub(super) fn procs(&self, procs: impl Into<Procs>) -> Vec<ProcId> {
        procs.into().resolve(&self.client.proc.nspace)
    }

    pub(super) fn ready(self) -> Result<(ServerClient, R), Failure> {
        match self.mistake {
            Some(mistake) => Err(mistake),
            None => Ok((self.client, self.request)),
        }
    }
}

/// Declares a builder of a request that has `directives`; it needs an `ask` that sends it.
macro_rules! builder {
    ($(#[$doc:meta])* plain $name:ident ($request:ty) -> $output:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until it is awaited"]
        pub struct $name {
            draft: $crate::client::builder::Draft<$request>,
        }

        impl $name {
            pub(super) const fn new(draft: $crate::client::builder::Draft<$request>) -> Self {
                Self { draft }
            }
        }

        impl std::future::IntoFuture for $name {
            type Output = Result<$output, pmix_types::message::Failure>;
            type IntoFuture = futures::future::BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.ask())
            }
        }
    };

    ($(#[$doc:meta])* untimed $name:ident ($request:ty) -> $output:ty) => {
        builder! { $(#[$doc])* plain $name ($request) -> $output }

        impl $name {
            /// Adds an optional directive.
            pub fn directive<D: pmix_types::ValueType>(
                mut self,
                key: impl pmix_types::TypedKey<D>,
                value: impl Into<D>,
            ) -> Self {
                self.draft.request.directives.push(pmix_types::Info::new(key.key(), value));
                self
            }

            /// Adds directives, some of which may be required.
            pub fn directives(mut self, more: pmix_types::Directives) -> Self {
                self.draft.request.directives.extend(more);
                self
            }
        }
    };

    ($(#[$doc:meta])* $name:ident ($request:ty) -> $output:ty) => {
        builder! { $(#[$doc])* untimed $name ($request) -> $output }

        impl $name {
            /// Limits the wait, in whole seconds; zero means no limit (GEN-12). Anything else fails with
            /// `ERR_BAD_PARAM` when the builder is awaited.
            #[doc(alias = "PMIX_TIMEOUT")]
            pub fn timeout(mut self, limit: std::time::Duration) -> Self {
                let seconds = self.draft.seconds(limit);
                self.directive(pmix_types::keys::TIMEOUT, seconds)
            }
        }
    };
}
