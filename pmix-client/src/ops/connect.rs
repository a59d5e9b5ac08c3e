use std::fmt;

use pmix_types::message::Connect;
use pmix_types::{Nspace, ProcId, Procs, Rank, keys};

use super::builder::builder;
use super::disconnect::{DisconnectBuilder, check_named};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;

impl Client {
    /// Makes processes of several namespaces known to each other, so that the host treats them as one application
    /// (CON-01); await the builder. It has nothing to do with the connection to the server.
    ///
    /// Ready when all named processes have called it (CON-02); they may name them in any order (CON-03). After it, gets
    /// of the other namespaces' job data are answered locally (CON-08), and the connected processes can be addressed by
    /// the namespace of the [`ConnectedSet`](crate::ConnectedSet), if the host makes one (CON-07). Connected processes
    /// may connect again: the call waits for all of them, returns the same set and changes nothing; a single disconnect
    /// still ends it (CON-15).
    #[doc(alias = "PMIx_Connect")]
    #[doc(alias = "PMIx_Connect_nb")]
    pub fn connect(&self, procs: impl Into<Procs>) -> ConnectBuilder {
        ConnectBuilder::new(self.draft(Connect::new(procs.into().into_named().unwrap_or_default())))
    }
}

/// A set of connected processes, and the namespace by which they can be addressed together.
///
/// It holds a clone of the client, so the connection to the server stays open as long as the set exists.
///
/// # Examples
/// ```
/// # async fn example(client: pmix_client::Client, other: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
/// let set = client.connect([client.proc_id(), &other]).await?;
/// if let Some(everybody) = set.all() {
///     client.fence(everybody).collect_data().await?;
/// }
/// set.disconnect().await?;
/// # Ok(())
/// # }
/// #
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pmix_client::Error> {
/// # let alone = pmix_client::Client::singleton().await?;
/// # let refused = example(alone.clone(), alone.proc_id().clone()).await.unwrap_err();
/// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
/// # Ok(())
/// # }
/// ```
///
/// # Standard
/// RFC0003 (`PMIx_Connect` returns a namespace and a rank); rules CON-06, CON-07.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectedSet {
    /// Namespace of all connected processes, for fences, events and
    /// [`Client::disconnect_nspace`](crate::Client::disconnect_nspace); `None` if the host made none, and after
    /// [`ConnectBuilder::exchange_only`].
    pub nspace: Option<Nspace>,
    /// Rank of the caller in that namespace; `None` if there is no namespace or the host assigned no rank.
    pub rank: Option<Rank>,
    /// As they were named.
    procs: Vec<ProcId>,
    /// The id that distinguishes this connect from others of the same processes.
    id: Option<String>,
    core: Core,
}

impl ConnectedSet {
    /// The caller's id in the new namespace, if it has one.
    pub fn proc_id(&self) -> Option<ProcId> {
        Some(ProcId::new(self.nspace.clone()?, self.rank?))
    }

    /// All connected processes, for a fence for example, if they have a namespace.
    pub fn all(&self) -> Option<Procs> {
        self.nspace.clone().map(Procs::nspace)
    }

    /// Dissolves the set; all its processes must call it. Await the builder. See
    /// [`Client::disconnect`](crate::Client::disconnect).
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect(&self) -> DisconnectBuilder {
        let builder = DisconnectBuilder::of(self.core.clone(), self.procs.clone().into());
        match &self.id {
            Some(id) => builder.id(id),
            None => builder,
        }
    }

    /// Leaves the set without waiting for the others; await the builder. See
    /// [`Client::disconnect_nspace`](crate::Client::disconnect_nspace).
    ///
    /// Without a namespace the builder fails with `ERR_BAD_PARAM`.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn leave(&self) -> DisconnectBuilder {
        let core = self.core.clone();
        match &self.nspace {
            Some(nspace) => DisconnectBuilder::leave(core, nspace),
            None => DisconnectBuilder::leave_nameless(core),
        }
    }
}

/// Two sets are equal if they are addressed in the same way.
impl PartialEq for ConnectedSet {
    fn eq(&self, other: &Self) -> bool {
        (&self.nspace, self.rank) == (&other.nspace, other.rank)
    }
}

impl Eq for ConnectedSet {}

impl fmt::Debug for ConnectedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedSet")
            .field("nspace", &self.nspace)
            .field("rank", &self.rank)
            .field("procs", &self.procs)
            .finish_non_exhaustive()
    }
}

builder! {
    /// A pending connect; await it to enter. See [`Client::connect`](crate::Client::connect).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client, child: pmix_client::Nspace) -> Result<(), pmix_client::Error> {
    /// use pmix_client::{ProcId, keys};
    ///
    /// let both = [ProcId::wildcard(client.proc_id().nspace.clone()), ProcId::wildcard(child.clone())];
    /// let connection = client.connect(both.clone()).await?;
    /// println!("{} processes, I am {:?}", client.job(&child).get(keys::JOB_SIZE).await?, connection.rank);
    /// client.disconnect(both).await?;
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone(), alone.proc_id().nspace.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty set and for [`Procs::own_nspace`], as the participants must be listed
    /// (CON-03), `ERR_NOT_A_MEMBER` if the caller is not one of them, `ERR_INVALID_OPERATION` if the caller already has
    /// a pending connect or disconnect of the same processes (CON-05, CON-15), `ERR_PROC_TERM_WO_SYNC` if participants
    /// have ended, which [`Error::procs`] names (CON-12), `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a
    /// singleton, [`Error::Lost`] if the connection to the server is lost, `ERR_INIT` after finalize, and errors of the
    /// host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller takes part. Dropping the future only drops the result, including
    /// the data of the other namespaces.
    ConnectBuilder(Connect) -> ConnectedSet
}

impl ConnectBuilder {
    /// An id that distinguishes this connect from others of the same processes, so that several can exist at a time;
    /// all participants must give the same id (CON-04).
    #[doc(alias = "PMIX_CONNECT_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::CONNECT_ID, id)
    }

    /// Has the server notify the participants on its node when a process enters, by an event `PROC_HAS_CONNECTED`, and
    /// later when one leaves, by `PROC_HAS_DISCONNECTED` (CON-10).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    pub fn notify_each(self) -> Self {
        self.directive(keys::CONNECT_NOTIFY_EACH, true)
    }

    /// Has the server ask the other participants to connect, by an event `CONNECT_REQUESTED` (CON-11).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_REQ")]
    pub fn notify_req(self) -> Self {
        self.directive(keys::CONNECT_NOTIFY_REQ, true)
    }

    /// Waits for every clone of the caller, that is, for every process connected under its rank at the time when the other
    /// participants have entered (IDN-07). By default, the entry of one of them is enough.
    #[doc(alias = "PMIX_ALL_CLONES_PARTICIPATE")]
    pub fn all_clones(self) -> Self {
        self.directive(keys::ALL_CLONES_PARTICIPATE, true)
    }

    /// Continues without participants that end before they enter; by default, the connect then fails (CON-12).
    #[doc(alias = "PMIX_CONNECT_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(keys::CONNECT_OPTIONAL, true)
    }

    /// Allows processes to end while they are connected: this raises no event, and collectives of the set continue
    /// without them (CON-13).
    #[doc(alias = "PMIX_CONNECT_EARLY_TERM_ALLOWED")]
    pub fn early_term_allowed(self) -> Self {
        self.directive(keys::CONNECT_EARLY_TERM_ALLOWED, true)
    }

    /// Only exchanges the data of the namespaces: the processes are not connected, there is no new namespace, and no
    /// disconnect is needed (CON-09).
    #[doc(alias = "PMIX_CONNECT_XCHG_ONLY")]
    pub fn exchange_only(self) -> Self {
        self.directive(keys::CONNECT_XCHG_ONLY, true)
    }

    async fn ask(self) -> Result<ConnectedSet, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_named(Self::OPERATION, &request.procs)?;
        let procs = request.procs.clone();
        let id = request.directives.get(&keys::CONNECT_ID).unwrap_or_default();
        let reply = core.call(request).await?;
        {
            let mut store = core.store_mut();
            reply.jobs.into_iter().for_each(|job| store.keep_job(job));
        }
        Ok(ConnectedSet { nspace: reply.nspace, rank: reply.rank, procs, id, core })
    }
}
