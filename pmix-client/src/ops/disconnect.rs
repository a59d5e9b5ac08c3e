use pmix_types::message::Disconnect;
use pmix_types::{Nspace, NspaceError, ProcId, Procs, keys};

use super::builder::{Draft, builder};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;

impl Client {
    /// Dissolves a connected set; all its processes must call it. Await the builder.
    ///
    /// Name the processes as in the connect, or by the namespace of the [`ConnectedSet`](crate::ConnectedSet). The data
    /// of the other namespaces stays available (CON-16). [`ConnectedSet::disconnect`](crate::ConnectedSet::disconnect)
    /// does the same.
    #[doc(alias = "PMIx_Disconnect")]
    #[doc(alias = "PMIx_Disconnect_nb")]
    pub fn disconnect(&self, procs: impl Into<Procs>) -> DisconnectBuilder {
        DisconnectBuilder::of(self.core(), procs.into())
    }

    /// Leaves a connected set alone, without waiting for the others (CON-14); await the builder.
    ///
    /// `nspace` is the namespace of the [`ConnectedSet`](crate::ConnectedSet), as a string or an [`Nspace`].
    /// Collectives of the remaining processes no longer wait for the caller.
    /// [`ConnectedSet::leave`](crate::ConnectedSet::leave) does the same.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect_nspace(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> DisconnectBuilder {
        DisconnectBuilder::leave(self.core(), nspace)
    }
}

builder! {
    /// A pending disconnect; await it to enter. See [`Client::disconnect`](crate::Client::disconnect) and
    /// [`Client::disconnect_nspace`](crate::Client::disconnect_nspace).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// let set = client.connect(client.proc_id()).id("coupling").await?;
    /// // as they were named when they connected; `set.disconnect()` is the same
    /// client.disconnect(client.proc_id()).id("coupling").await?;
    /// # drop(set);
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_INVALID_OPERATION` if the named processes are not connected, or the caller has left the set,
    /// `ERR_INVALID_NAMESPACE` if no connected set has this namespace (CON-14), `ERR_BAD_PARAM` for an empty set and
    /// for [`Procs::own_nspace`], `ERR_NOT_A_MEMBER` if the caller is not part of the set, `ERR_TIMEOUT` with the
    /// missing participants in [`Error::procs`], `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection to
    /// the server is lost, `ERR_INIT` after finalize, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller takes part. Dropping the future only drops the result.
    DisconnectBuilder(Disconnect) -> ()
}

impl DisconnectBuilder {
    pub(crate) fn of(core: Core, procs: Procs) -> Self {
        Self::new(Draft::new(core, Disconnect::new(procs.into_named().unwrap_or_default())))
    }

    /// Of the caller alone.
    pub(crate) fn leave(core: Core, nspace: impl TryInto<Nspace, Error: Into<NspaceError>>) -> Self {
        Self::new(Draft::naming(core, nspace, Disconnect::leave))
    }

    /// Fails, because the connected set has no namespace.
    pub(crate) fn leave_nameless(core: Core) -> Self {
        let mut draft = Draft::new(core, Disconnect::leave(Nspace::none()));
        draft.mistaken("the connected set has no namespace, without which a process cannot leave it alone");
        Self::new(draft)
    }

    /// The id that was given to the connect, if any (CON-04).
    #[doc(alias = "PMIX_CONNECT_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::CONNECT_ID, id)
    }

    /// Notifies the other processes of the set that the caller leaves, by an event `PROC_HAS_DISCONNECTED` (CON-10).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    pub fn notify_each(self) -> Self {
        self.directive(keys::CONNECT_NOTIFY_EACH, true)
    }

    /// Waits for every clone of the caller, that is, for every process connected under its rank at the time when the other
    /// participants have entered (IDN-07). By default, the entry of one of them is enough.
    #[doc(alias = "PMIX_ALL_CLONES_PARTICIPATE")]
    pub fn all_clones(self) -> Self {
        self.directive(keys::ALL_CLONES_PARTICIPATE, true)
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        if request.nspace.is_none() {
            check_named(Self::OPERATION, &request.procs)?;
        }
        core.call(request).await
    }
}

/// Participants must be listed (CON-03).
pub(super) fn check_named(operation: &'static str, procs: &[ProcId]) -> Result<(), Error> {
    if procs.is_empty() {
        return Err(Error::bad_param(operation, "list the participants; `own_nspace()` is not allowed here"));
    }
    Ok(())
}
