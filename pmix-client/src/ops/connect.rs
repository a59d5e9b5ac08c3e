use std::fmt;

use pmix_types::message::{Connect, Reply, Request};
use pmix_types::{Nspace, ProcId, Procs, Rank, keys};

use super::builder::{Draft, builder, directed};
use super::disconnect::{DisconnectBuilder, check_named};
use crate::core::Core;
use crate::error::Error;

/// The processes that have connected, and how they can be addressed together.
///
/// It holds a clone of the client, so that the connection to the server stays open as long as it is kept.
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
    /// Namespace of all who have connected, for fences, events and [`Client::disconnect_nspace`](crate::Client::disconnect_nspace); `None` if the host
    /// made none, and after [`ConnectBuilder::exchange_only`].
    pub nspace: Option<Nspace>,
    /// Rank of the caller in that namespace; `None` whenever the namespace is, and if the host gave no rank.
    pub rank: Option<Rank>,
    /// As they were named.
    procs: Vec<ProcId>,
    /// The text that tells this connect from others of the same processes.
    id: Option<String>,
    core: Core,
}

impl ConnectedSet {
    /// The caller's id in the new namespace, if it has one.
    pub fn proc_id(&self) -> Option<ProcId> {
        Some(ProcId::new(self.nspace.clone()?, self.rank?))
    }

    /// All who have connected, for a fence or the like, if they have a namespace.
    pub fn all(&self) -> Option<Procs> {
        self.nspace.as_ref().map(Procs::nspace)
    }

    /// Disconnects together with all who have connected; await the builder. See [`Client::disconnect`](crate::Client::disconnect).
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect(&self) -> DisconnectBuilder {
        let builder = DisconnectBuilder::of(self.core.clone(), self.procs.clone().into());
        match &self.id {
            Some(id) => builder.id(id),
            None => builder,
        }
    }

    /// Leaves the set alone; await the builder. See [`Client::disconnect_nspace`](crate::Client::disconnect_nspace).
    ///
    /// Without a namespace the builder fails with `ERR_BAD_PARAM`.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn leave(&self) -> DisconnectBuilder {
        let nspace =
            self.nspace.clone().ok_or("these processes have no namespace, so that none can leave alone");
        DisconnectBuilder::leave(self.core.clone(), nspace)
    }
}

/// Two sets are equal if they are addressed alike.
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
    /// (CON-03), `ERR_NOT_A_MEMBER` if the caller is not one of them, `ERR_INVALID_OPERATION` if the
    /// caller is in a connect or disconnect of the same processes (CON-05, CON-15), `ERR_PROC_TERM_WO_SYNC` with the
    /// participants that have ended in [`Error::procs`] (CON-12), `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a singleton,
    /// [`Error::Lost`] if the connection to the server is or gets lost, `ERR_INIT` after finalize, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the caller takes part; dropping the future only drops the result, and the data of the other
    /// namespaces is not kept.
    ConnectBuilder("connect", Connect) -> ConnectedSet
}

directed!(Connect);

impl ConnectBuilder {
    pub(crate) fn of(core: Core, procs: Procs) -> Self {
        Self::new(Draft::new(core, Connect::new(procs.into_named().unwrap_or_default())))
    }

    /// Tells this connect from others of the same processes, so that there can be several at a time; all participants
    /// must give the same text (CON-04).
    #[doc(alias = "PMIX_CONNECT_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::CONNECT_ID, id)
    }

    /// Has the server tell its processes among the participants of each one that comes, by an event
    /// `PROC_HAS_CONNECTED`, and later of each one that leaves, by `PROC_HAS_DISCONNECTED` (CON-10).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    pub fn notify_each(self) -> Self {
        self.directive(keys::CONNECT_NOTIFY_EACH, true)
    }

    /// Has the server ask the other participants to connect, by an event `CONNECT_REQUESTED` (CON-11).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_REQ")]
    pub fn notify_req(self) -> Self {
        self.directive(keys::CONNECT_NOTIFY_REQ, true)
    }

    /// Goes on without participants that end before they come, where else the connect fails (CON-12).
    #[doc(alias = "PMIX_CONNECT_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(keys::CONNECT_OPTIONAL, true)
    }

    /// Lets processes end while they are connected: there is no event for it, and collectives of the set go on without
    /// them (CON-13).
    #[doc(alias = "PMIX_CONNECT_EARLY_TERM_ALLOWED")]
    pub fn early_term_allowed(self) -> Self {
        self.directive(keys::CONNECT_EARLY_TERM_ALLOWED, true)
    }

    /// Only exchanges the data of the namespaces: the processes are not connected, there is no new namespace, and
    /// nothing to disconnect (CON-09).
    #[doc(alias = "PMIX_CONNECT_XCHG_ONLY")]
    pub fn exchange_only(self) -> Self {
        self.directive(keys::CONNECT_XCHG_ONLY, true)
    }

    async fn ask(self) -> Result<ConnectedSet, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_named(Self::OPERATION, &request.procs)?;
        let procs = request.procs.clone();
        let id = request.directives.get(&keys::CONNECT_ID).unwrap_or_default();
        match core.request(Request::Connect(request)).await? {
            Reply::Connect(reply) => {
                {
                    let mut store = core.store_mut();
                    reply.jobs.into_iter().for_each(|job| store.keep_job(job));
                }
                Ok(ConnectedSet { nspace: reply.nspace, rank: reply.rank, procs, id, core })
            }
            _ => Err(Error::unexpected_reply(Self::OPERATION)),
        }
    }
}
