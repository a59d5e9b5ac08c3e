use pmix_types::message::Finalize;
use pmix_types::{Directives, keys};

use super::builder::builder;
use super::fence::FenceBuilder;
use crate::client::Client;
use crate::connection::Connection;
use crate::core::Core;
use crate::error::{Error, directive};

impl Client {
    /// Finalizes the connection; await the builder.
    ///
    /// The future is ready when the server has answered (INI-07). Once the request is sent (after the barrier, if there
    /// is one), calls through other clones fail with `ERR_INIT` (GEN-10); so do calls that are still waiting when the
    /// answer arrives. Values that were put but not committed are lost. The process may be initialized again later
    /// (INI-08).
    #[doc(alias = "PMIx_Finalize")]
    pub fn finalize(self) -> FinalizeBuilder {
        FinalizeBuilder::new(self.draft(Finalize::new()))
    }
}

builder! {
    /// A pending finalize; await it to close the connection. See [`Client::finalize`](crate::Client::finalize).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// let clone = client.clone();
    /// client.finalize().embed_barrier().await?;
    /// assert!(clone.commit().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_INIT` if another clone has finalized already, `ERR_BAD_PARAM` for a limit with a fraction of a
    /// second or a malformed `EMBED_BARRIER` (the process then finalizes without limit and without barrier),
    /// `ERR_NOT_SUPPORTED` for an unknown required directive, [`Error::Lost`] if the connection is lost, errors of the
    /// barrier or the host, `ERR_TIMEOUT` when the limit has passed. The process is finalized even if there is an error.
    ///
    /// # Cancel safety
    /// Not safe: after the barrier, if there is one, dropping the future closes the connection without waiting for the
    /// server's answer, and does not undo a finalize that was sent. A future that is dropped during the barrier leaves
    /// other clones connected, and the barrier entered.
    FinalizeBuilder(Finalize) -> ()
}

impl FinalizeBuilder {
    /// First waits for all processes of the caller's namespace in a barrier (INI-06). The [limit](Self::timeout)
    /// applies to the barrier, and then again to the finalize itself.
    #[doc(alias = "PMIX_EMBED_BARRIER")]
    pub fn embed_barrier(self) -> Self {
        self.directive(keys::EMBED_BARRIER, true)
    }

    async fn ask(self) -> Result<(), Error> {
        let mut draft = self.draft;
        // the client is used up: without a finalize, a host may take its end for a failure
        let mistake = draft.take_mistake(Self::OPERATION);
        let (core, Finalize { mut directives, .. }) = draft.ready(Self::OPERATION)?;
        let has_barrier = directives.flag(&keys::EMBED_BARRIER).map_err(directive(Self::OPERATION));
        directives.remove(&keys::EMBED_BARRIER);
        let barrier = match has_barrier {
            // what was meant is not known: not how long to wait, either
            Ok(true) if mistake.is_ok() => barrier(&core, &directives).await,
            other => other.map(drop),
        };
        core.start_finalize()?;
        let outcome = mistake.and(barrier);
        let Some(connection) = core.any_connection() else { return outcome };
        let _ends = Ends(connection);
        outcome.and(connection.call(Finalize::new().with_directives(directives)).await)
    }
}

/// Ends the conversation when dropped, even if the caller no longer awaits the server's answer.
struct Ends<'a>(&'a Connection);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

async fn barrier(core: &Core, directives: &Directives) -> Result<(), Error> {
    let limit = directives.iter().filter(|info| info.is(&keys::TIMEOUT)).cloned();
    FenceBuilder::of(core.clone(), pmix_types::Procs::own_nspace()).directives(limit.collect()).await
}
