use pmix_types::message::{Connect, Disconnect, Reply, Request};
use pmix_types::{Nspace, ProcId, Rank, keys};

use super::Procs;
use super::builder::builder;
use crate::client::Client;
use crate::error::Error;
use crate::sync::write;

impl Client {
    /// Makes processes of several namespaces known to each other, so that the host treats them as one application
    /// (CON-01); await the builder.
    ///
    /// Ready when all named processes have called it (CON-02), in whatever order they name them (CON-03). After it the
    /// job data of the other namespaces is answered locally (CON-08), and the whole can be addressed by the
    /// namespace of the [`Connection`](crate::Connection), if the host makes one (CON-07). Processes that are connected may
    /// connect again: that waits for all, gives the same connection and changes nothing; one disconnect ends it (CON-15).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, child: pmix_client::Nspace) -> Result<(), pmix_client::Error> {
    /// use pmix_client::{ProcId, keys};
    ///
    /// let both = [ProcId::wildcard(client.proc_id().nspace.clone()), ProcId::wildcard(child.clone())];
    /// let connection = client.connect(both.clone()).await?;
    /// println!("{} processes, I am {:?}", client.job(&child).get(keys::JOB_SIZE).await?, connection.rank);
    /// client.disconnect(both).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Connect")]
    #[doc(alias = "PMIx_Connect_nb")]
    pub fn connect(&self, procs: impl Into<Procs>) -> ConnectBuilder<'_> {
        ConnectBuilder::new(self, Connect::new(procs.into().named()))
    }

    /// Ends a connection together with all who have connected; await the builder.
    ///
    /// The processes are named as they were when they connected, or by the namespace of the
    /// [`Connection`](crate::Connection). What is known of the other namespaces stays (CON-16).
    #[doc(alias = "PMIx_Disconnect")]
    #[doc(alias = "PMIx_Disconnect_nb")]
    pub fn disconnect(&self, procs: impl Into<Procs>) -> DisconnectBuilder<'_> {
        DisconnectBuilder::new(self, Disconnect::new(procs.into().named()))
    }

    /// Leaves a connection alone, without waiting for the others (CON-14); await the builder.
    ///
    /// `nspace` is the namespace of the [`Connection`](crate::Connection). Collectives of those who stay do not wait for
    /// the caller any more.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect_nspace(&self, nspace: &Nspace) -> DisconnectBuilder<'_> {
        DisconnectBuilder::new(self, Disconnect::leave(nspace.clone()))
    }
}

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

builder! {
    /// A pending connect; await it to enter. See [`Client::connect`].
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty set and for [`Procs::own_nspace`], as the participants must be listed
    /// (CON-03), `ERR_NOT_A_MEMBER` if the caller is not one of them, `ERR_INVALID_OPERATION` if the
    /// caller is in a connect or disconnect of the same processes (CON-05, CON-15), `ERR_PROC_TERM_WO_SYNC` with the
    /// participants that have ended in [`Error::procs`] (CON-12), `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a singleton,
    /// [`Error::Lost`] if the connection to the server is or gets lost, `ERR_INIT` after finalize, and what the host says.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the caller takes part; dropping the future only drops the result, and the data of the other
    /// namespaces is not kept.
    ConnectBuilder(Connect) -> Connection
}

impl ConnectBuilder<'_> {
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

    async fn ask(self) -> Result<Connection, Error> {
        const OPERATION: &str = "connect";
        let Self { client, request } = self;
        let session = client.session(OPERATION)?;
        check_named(OPERATION, &request.procs)?;
        match session.request(Request::Connect(request)).await? {
            Reply::Connect(reply) => {
                let mut store = write(client.store());
                reply.jobs.into_iter().for_each(|job| store.keep_job(job));
                Ok(Connection { nspace: reply.nspace, rank: reply.rank })
            }
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

builder! {
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
    DisconnectBuilder(Disconnect) -> ()
}

impl DisconnectBuilder<'_> {
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

    async fn ask(self) -> Result<(), Error> {
        const OPERATION: &str = "disconnect";
        let session = self.client.session(OPERATION)?;
        if self.request.nspace.is_none() {
            check_named(OPERATION, &self.request.procs)?;
        }
        session.carry_out(Request::Disconnect(self.request)).await
    }
}

fn check_named(operation: &'static str, procs: &[ProcId]) -> Result<(), Error> {
    if procs.is_empty() {
        return Err(Error::bad_param(operation, "list the participants; `own_nspace()` is not allowed here"));
    }
    Ok(())
}
