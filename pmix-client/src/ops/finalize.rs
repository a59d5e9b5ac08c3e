use std::future::IntoFuture;
use std::time::Duration;

use futures::future::BoxFuture;
use pmix_types::message::Request;
use pmix_types::{Directives, Info, Key, ValueType, keys};

use crate::client::Client;
use crate::error::{Error, directive};
use crate::ops::whole_seconds;

/// A pending finalize; await it to close the connection. See [`Client::finalize`].
///
/// # Errors
/// When awaited: `ERR_INIT` if another clone has finalized already, [`Error::Lost`] if the connection is or gets
/// lost, what the barrier or the host says, `ERR_TIMEOUT` if a limit was given that is over. The process is finalized even then.
///
/// # Cancel safety
/// Not safe: once sent it stands; dropping the future only drops the result.
#[derive(Debug)]
#[must_use = "finalize happens when it is awaited"]
pub struct FinalizeBuilder {
    client: Client,
    directives: Directives,
}

impl FinalizeBuilder {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client, directives: Directives::new() }
    }

    /// Waits for all processes of the own namespace first (INI-06).
    #[doc(alias = "PMIX_EMBED_BARRIER")]
    pub fn embed_barrier(self) -> Self {
        self.directive(&keys::EMBED_BARRIER, true)
    }

    /// Limits how long the barrier may take, if there is one, and then the server; rounded up to whole seconds, zero means
    /// no limit (GEN-12). A server that hangs is given up, see [`Client`](crate::Client#time-limits).
    #[doc(alias = "PMIX_TIMEOUT")]
    pub fn timeout(self, limit: Duration) -> Self {
        self.directive(&keys::TIMEOUT, whole_seconds(limit))
    }

    /// Adds an optional directive.
    pub fn directive<D: ValueType>(mut self, key: &Key<D>, value: impl Into<D>) -> Self {
        self.directives.push(Info::new(key, value));
        self
    }

    async fn finalize(mut self) -> Result<(), Error> {
        self.client.check()?;
        let has_barrier = self.directives.flag(&keys::EMBED_BARRIER).map_err(directive("finalize"))?;
        self.directives.remove(&keys::EMBED_BARRIER);
        let barrier = if has_barrier { self.barrier().await } else { Ok(()) };
        self.client.start_finalize()?;
        let Some(session) = self.client.any_session() else { return barrier };
        let finalized = session.carry_out(Request::Finalize(self.directives)).await;
        session.finish();
        barrier.and(finalized)
    }

    /// Has the limit of the whole.
    async fn barrier(&self) -> Result<(), Error> {
        let limit = self.directives.iter().filter(|info| info.is(&keys::TIMEOUT)).cloned();
        self.client.fence_all().directives(limit.collect()).await
    }
}

impl IntoFuture for FinalizeBuilder {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finalize())
    }
}
