use std::future::IntoFuture;
use std::time::Duration;

use futures::future::BoxFuture;
use pmix_types::message::{Connect, Disconnect, Reply, Request};
use pmix_types::{Directives, Nspace, ProcId, Rank, keys};

use super::{Procs, directive_methods, whole_seconds};
use crate::client::Client;
use crate::error::Error;
use crate::sync::write;

/// What a connect has come to: how the processes can be addressed together.
///
/// # Standard
/// RFC0003 (`PMIx_Connect` returns a namespace and a rank); rules CON-06, CON-07.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Namespace of all who have connected, for fences, events and [`Client::disconnect_nspace`]; `None` if the host
    /// made none, and after [`ConnectBuilder::exchange_only`].
    pub nspace: Option<Nspace>,
    /// Rank of the caller in that namespace; `None` whenever the namespace is, and if the host gave no rank.
    pub rank: Option<Rank>,
}

impl Connection {
    /// The caller's id in the new namespace, if it has one.
    pub fn proc_id(&self) -> Option<ProcId> {
        Some(ProcId::new(self.nspace.clone()?, self.rank?))
    }

    /// All who have connected, for a fence or a disconnect, if they have a namespace.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, other: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
    /// let connection = client.connect([client.proc_id().clone(), other]).await?;
    /// if let Some(everybody) = connection.all() {
    ///     client.fence(everybody).collect_data().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn all(&self) -> Option<Procs> {
        self.nspace.clone().map(Procs::nspace)
    }
}

/// A connect that is about to be entered; await it. See [`Client::connect`].
///
/// # Errors
/// When awaited: `ERR_BAD_PARAM` for an empty set and for [`Procs::own_nspace`], as the participants have to be named
/// (CON-03), `ERR_NOT_A_MEMBER` if the caller is not one of them, `ERR_INVALID_OPERATION` if they are connected
/// already or the caller is in such a connect (CON-05, CON-15), `ERR_PROC_TERM_WO_SYNC` with the participants that
/// have ended in [`Error::procs`] (CON-12), `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a singleton,
/// [`Error::Lost`] if the connection to the server is or gets lost, `ERR_INIT` after finalize, and what the host says.
///
/// # Cancel safety
/// Not safe: once sent, the caller takes part; dropping the future only drops the result, and the data of the other
/// namespaces is not kept.
#[derive(Clone, Debug)]
#[must_use = "a connect is entered when it is awaited"]
pub struct ConnectBuilder<'a> {
    client: &'a Client,
    procs: Procs,
    directives: Directives,
}

impl<'a> ConnectBuilder<'a> {
    pub(crate) const fn new(client: &'a Client, procs: Procs) -> Self {
        Self { client, procs, directives: Directives::new() }
    }

    /// Tells this connect from others of the same processes, so that there can be several at a time; all participants
    /// must give the same text (CON-04).
    #[doc(alias = "PMIX_CONNECT_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(&keys::CONNECT_ID, id)
    }

    /// Has the server tell its processes among the participants of each one that comes, by an event
    /// `PROC_HAS_CONNECTED`, and later of each one that leaves, by `PROC_HAS_DISCONNECTED` (CON-10).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    pub fn notify_each(self) -> Self {
        self.directive(&keys::CONNECT_NOTIFY_EACH, true)
    }

    /// Has the server ask the other participants to connect, by an event `CONNECT_REQUESTED` (CON-11).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_REQ")]
    pub fn notify_req(self) -> Self {
        self.directive(&keys::CONNECT_NOTIFY_REQ, true)
    }

    /// Goes on without participants that end before they come, where else the connect fails (CON-12).
    #[doc(alias = "PMIX_CONNECT_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(&keys::CONNECT_OPTIONAL, true)
    }

    /// Lets processes end while they are connected: nobody is told of it, and collectives of the group go on without
    /// them (CON-13).
    #[doc(alias = "PMIX_CONNECT_EARLY_TERM_ALLOWED")]
    pub fn early_term_allowed(self) -> Self {
        self.directive(&keys::CONNECT_EARLY_TERM_ALLOWED, true)
    }

    /// Only exchanges the data of the namespaces: the processes are not connected, there is no new namespace, and
    /// nothing to disconnect (CON-09).
    #[doc(alias = "PMIX_CONNECT_XCHG_ONLY")]
    pub fn exchange_only(self) -> Self {
        self.directive(&keys::CONNECT_XCHG_ONLY, true)
    }

    directive_methods!();

    async fn enter(self) -> Result<Connection, Error> {
        const OPERATION: &str = "connect";
        let client = self.client;
        client.check()?;
        let mut connect = Connect::new(self.procs.named(OPERATION)?);
        connect.directives = self.directives;
        match client.session(OPERATION)?.request(Request::Connect(connect)).await? {
            Reply::Connect(reply) => {
                let mut store = write(client.store());
                reply.jobs.into_iter().for_each(|job| store.keep_job(job));
                Ok(Connection { nspace: reply.nspace, rank: reply.rank })
            }
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

impl<'a> IntoFuture for ConnectBuilder<'a> {
    type Output = Result<Connection, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enter())
    }
}

/// The end of a connection, about to be asked for; await it. See [`Client::disconnect`] and
/// [`Client::disconnect_nspace`].
///
/// # Errors
/// When awaited: `ERR_INVALID_OPERATION` if the named processes are not connected, or the caller is not one of the
/// group any more, `ERR_INVALID_NAMESPACE` if there is no such group (CON-14), `ERR_BAD_PARAM` for an empty set and
/// for [`Procs::own_nspace`], `ERR_NOT_A_MEMBER` if the caller is not part of the set, `ERR_TIMEOUT` with the missing
/// participants in [`Error::procs`], `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection to the server is
/// or gets lost, `ERR_INIT` after finalize, and what the host says.
///
/// # Cancel safety
/// Not safe: once sent, the caller takes part; dropping the future only drops the result.
#[derive(Clone, Debug)]
#[must_use = "a disconnect is asked for when it is awaited"]
pub struct DisconnectBuilder<'a> {
    client: &'a Client,
    whom: Whom,
    directives: Directives,
}

#[derive(Clone, Debug)]
enum Whom {
    All(Procs),
    Caller(Nspace),
}

impl<'a> DisconnectBuilder<'a> {
    pub(crate) const fn all(client: &'a Client, procs: Procs) -> Self {
        Self { client, whom: Whom::All(procs), directives: Directives::new() }
    }

    pub(crate) const fn caller(client: &'a Client, nspace: Nspace) -> Self {
        Self { client, whom: Whom::Caller(nspace), directives: Directives::new() }
    }

    /// The text that was given when they connected, if there was one (CON-04).
    #[doc(alias = "PMIX_CONNECT_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(&keys::CONNECT_ID, id)
    }

    /// Tells the other members that the caller leaves, by an event `PROC_HAS_DISCONNECTED` (CON-10).
    #[doc(alias = "PMIX_CONNECT_NOTIFY_EACH")]
    pub fn notify_each(self) -> Self {
        self.directive(&keys::CONNECT_NOTIFY_EACH, true)
    }

    directive_methods!();

    async fn enter(self) -> Result<(), Error> {
        const OPERATION: &str = "disconnect";
        let client = self.client;
        client.check()?;
        let mut disconnect = match self.whom {
            Whom::All(procs) => Disconnect::new(procs.named(OPERATION)?),
            Whom::Caller(nspace) => Disconnect::leave(nspace),
        };
        disconnect.directives = self.directives;
        client.session(OPERATION)?.carry_out(Request::Disconnect(disconnect)).await
    }
}

impl<'a> IntoFuture for DisconnectBuilder<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enter())
    }
}
