//! The servers that a tool is attached to.

use std::fmt;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use pmix_client::Client;
use pmix_types::{ProcId, Status};
use tokio::sync::watch;

use crate::builder::ToolBuilder;
use crate::discovery::ServerInfo;
use crate::error::{Error, Timeout};
use crate::foreign;

/// The servers that a [`Tool`](crate::Tool) is attached to, one of which may be the primary one.
///
/// Calls of the tool itself go to its primary server: the first that it has attached to, until
/// [`set_primary`](Self::set_primary) or [`AttachBuilder::primary`] chooses another (TOL-11). Each server also has a client of
/// its own, [`AttachedServer::client`], so a tool can call any of them without making it the primary one.
///
/// # What stays where
/// When the primary server changes, registrations of events, subscriptions of output, monitors and calls that wait go
/// on with the server at which they were made; they end when the tool disconnects from it. To receive the events of
/// two servers, register with both.
///
/// The identity of the tool is the same at all servers and never changes (TOL-09). A server at which another process or tool
/// has it refuses the tool.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), pmix_tool::Error> {
/// use pmix_tool::{Status, Tool};
///
/// let tool = Tool::builder().pid(4711).connect().await?;
/// let second = tool.servers().attach(Tool::builder().pid(4712)).await?;
/// println!("jobs of {}: {:?}", tool.server()?.proc_id(), tool.namespaces().await?);
/// let mut events = second.client().events([Status::EVENT_JOB_END]).await?;
///
/// tool.servers().set_primary(second.proc_id())?;
/// println!("jobs of {}: {:?}", second.proc_id(), tool.namespaces().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Servers {
    shared: Arc<SharedServers>,
}

struct SharedServers {
    /// The client of a tool without primary server.
    alone: Client,
    limit: Option<Duration>,
    state: Mutex<State>,
    /// Counts changes of `state`.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// May have been lost, but the tool has not disconnected from it.
    primary: Option<ProcId>,
    /// By time of attachment.
    attached: Vec<AttachedServer>,
    /// Attachments under way, without those that wait for others.
    attaching: usize,
    is_finalized: bool,
}

/// An attachment under way.
struct Attaching<'a>(&'a Servers);

impl<'a> Attaching<'a> {
    fn begin(servers: &'a Servers) -> Self {
        servers.state().attaching += 1;
        Self(servers)
    }
}

impl Drop for Attaching<'_> {
    fn drop(&mut self) {
        self.0.state().attaching -= 1;
        self.0.tell_of_change();
    }
}

/// A server that a tool is attached to. Cheap to clone.
///
/// The connection stays until [`Servers::disconnect`] or [`Tool::finalize`](crate::Tool::finalize), or until the last clone
/// of tool, servers and clients is dropped.
#[derive(Clone)]
pub struct AttachedServer(Arc<Attachment>);

struct Attachment {
    client: Client,
    proc: ProcId,
    uri: String,
    info: Option<ServerInfo>,
}

/// Attaches a tool to another server; made by [`Servers::attach`].
#[must_use = "await the builder to attach to the server"]
pub struct AttachBuilder {
    servers: Servers,
    target: ToolBuilder,
    is_primary: bool,
}

impl AttachedServer {
    pub(crate) fn new(client: Client, proc: ProcId, uri: String, info: Option<ServerInfo>) -> Self {
        Self(Arc::new(Attachment { client, proc, uri, info }))
    }

    /// Identity of the server.
    pub fn proc_id(&self) -> &ProcId {
        &self.0.proc
    }

    /// Address of the server: `<nspace>.<rank>;unix:<path of its socket>`, or `<nspace>.<rank>;tcp4://<address>:<port>` of one of
    /// OpenPMIx.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }

    /// Contents of the server's rendezvous file; `None` if the server was selected by its URI.
    pub fn info(&self) -> Option<&ServerInfo> {
        self.0.info.as_ref()
    }

    /// Whether it is a server of OpenPMIx: see [`ServerInfo::is_of_openpmix`].
    pub fn is_of_openpmix(&self) -> bool {
        foreign::parse_uri(self.uri()).is_some()
    }

    /// The tool's client at this server, whether the server is the primary one or not.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    fn is_connected(&self) -> bool {
        self.client().is_connected()
    }
}

impl Servers {
    /// `alone` has the identity of the tool and no server.
    pub(crate) fn new(alone: Client, limit: Option<Duration>) -> Self {
        let (changes, _) = watch::channel(0);
        Self { shared: Arc::new(SharedServers { alone, limit, state: Mutex::default(), changes }) }
    }

    /// The servers that the tool is attached to: the primary one first, the others by time of attachment (TOL-14).
    ///
    /// Servers whose connection is lost are left out.
    #[doc(alias = "PMIx_tool_get_servers")]
    pub fn list(&self) -> Vec<AttachedServer> {
        let state = self.state();
        let (mut primary, others): (Vec<_>, Vec<_>) = (state.attached.iter())
            .filter(|server| server.is_connected())
            .cloned()
            .partition(|server| state.primary.as_ref() == Some(server.proc_id()));
        primary.extend(others);
        primary
    }

    /// The primary server, to which calls of the tool go; `None` if the tool never had one, or has disconnected from it.
    ///
    /// A primary server whose connection is lost stays the primary one: calls fail with `ERR_LOST_CONNECTION` until another is
    /// chosen, or until the tool attaches to it again.
    pub fn primary(&self) -> Option<AttachedServer> {
        self.state().primary()
    }

    /// The server with this identity, if the tool is attached to it.
    pub fn get(&self, server: &ProcId) -> Option<AttachedServer> {
        self.state().connected(server)
    }

    /// Attaches to a further server; await the builder.
    ///
    /// `target` selects it as for [`ToolBuilder::connect`], with its limits and attempts. A selection that leads to a server
    /// that the tool is attached to already succeeds and changes nothing; the search without selection skips such servers,
    /// and fails if there is no other (TOL-12). The new server becomes the primary one if there is no other, or with
    /// [`AttachBuilder::primary`].
    ///
    /// # Errors
    /// Those of [`ToolBuilder::connect`]: if there is no new connection, the status is `ERR_UNREACH`, or that of the refusal:
    /// `ERR_EXISTS` if another process or tool of that server has this identity. [`Error::Identity`] with `ERR_BAD_PARAM` if
    /// `target` requests an identity other than the tool's, with `ERR_NOT_SUPPORTED` if the server's host insists on giving it
    /// another, and with `ERR_EXISTS` if the tool is attached to a different server of the same identity. `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the new connection.
    #[doc(alias = "PMIx_tool_attach_to_server")]
    pub fn attach(&self, target: ToolBuilder) -> AttachBuilder {
        AttachBuilder { servers: self.clone(), target, is_primary: false }
    }

    /// Makes a server the primary one, to which the calls that follow go (TOL-11).
    ///
    /// # Errors
    /// [`Error::NotAttached`] with `ERR_UNREACH` if the tool is not attached to it; the primary server is then the same as
    /// before.
    #[doc(alias = "PMIx_tool_set_server")]
    pub fn set_primary(&self, server: &ProcId) -> Result<AttachedServer, Error> {
        let mut state = self.state();
        let chosen = state.connected(server).ok_or_else(|| Error::not_attached(server.clone()))?;
        state.primary = Some(server.clone());
        Ok(chosen)
    }

    /// As [`set_primary`](Self::set_primary), but if the tool is not attached to the server yet, waits until it is: another
    /// task of the program may be about to attach to it. Waits for no longer than the limit, if there is one.
    ///
    /// # Errors
    /// [`Error::Timeout`] when the limit has passed; the primary server is then the same as before. `ERR_INIT` once the tool has
    /// finalized.
    ///
    /// # Cancel safety
    /// Safe: nothing has changed if the future is dropped before it is ready.
    ///
    /// # Panics
    /// With a limit, outside of a tokio runtime with a timer.
    #[doc(alias = "PMIX_WAIT_FOR_CONNECTION")]
    #[doc(alias = "PMIX_TIMEOUT")]
    pub async fn set_primary_when_attached(
        &self,
        server: &ProcId,
        limit: Option<Duration>,
    ) -> Result<AttachedServer, Error> {
        let attached = async {
            let mut changes = self.shared.changes.subscribe();
            loop {
                if let Ok(chosen) = self.set_primary(server) {
                    return Ok(chosen);
                }
                if self.state().is_finalized {
                    return Err(pmix_client::Error::Finalized.into());
                }
                // the sender is in `self`
                let _ = changes.changed().await;
            }
        };
        let Some(limit) = limit else { return attached.await };
        tokio::time::timeout(limit, attached)
            .await
            .unwrap_or_else(|_| Err(Error::Timeout(Box::new(Timeout { server: server.clone(), limit }))))
    }

    /// Disconnects from a server. Calls that wait for its answer, and later calls of its clients, fail with `ERR_INIT`; the
    /// server drops all that it has of the tool (TOL-17).
    ///
    /// After the primary server has been disconnected, calls of the tool fail with `ERR_UNREACH` until another is chosen,
    /// or until it attaches to one while it has none at all (TOL-13).
    ///
    /// # Errors
    /// [`Error::NotAttached`] if the tool is not attached to it; a lost connection, or a server that does not answer within
    /// the limit of [`ToolBuilder::timeout`]: the tool is then disconnected nevertheless.
    ///
    /// # Cancel safety
    /// Not safe: the tool is disconnected when the future is polled first.
    #[doc(alias = "PMIx_tool_disconnect")]
    pub async fn disconnect(&self, server: &ProcId) -> Result<(), Error> {
        let leaving = self.state().remove(server).ok_or_else(|| Error::not_attached(server.clone()))?;
        Ok(leaving.client().clone().finalize().await?)
    }

    /// The client for calls of the tool.
    pub(crate) fn client(&self) -> Client {
        self.primary().map_or_else(|| self.shared.alone.clone(), |server| server.client().clone())
    }

    pub(crate) fn proc_id(&self) -> &ProcId {
        self.shared.alone.proc_id()
    }

    pub(crate) fn limit(&self) -> Option<Duration> {
        self.shared.limit
    }

    /// Ends all connections; the first failure counts.
    pub(crate) async fn finalize(&self) -> Result<(), Error> {
        let leaving = {
            let mut state = self.state();
            if std::mem::replace(&mut state.is_finalized, true) {
                return Err(pmix_client::Error::Finalized.into());
            }
            state.attached.clone()
        };
        self.tell_of_change();
        self.shared.alone.clone().finalize().await?;
        let ends =
            join_all(leaving.iter().map(|server| server.client().clone().finalize().into_future())).await;
        Ok(ends.into_iter().collect::<Result<_, _>>()?)
    }

    /// Adds a server to which there is a connection. If another task was faster, the older connection stays.
    pub(crate) fn add(&self, server: AttachedServer, is_primary: bool) -> Result<AttachedServer, Error> {
        let mut state = self.state();
        if state.is_finalized {
            return Err(pmix_client::Error::Finalized.into());
        }
        if let Some(other) = state.connected(server.proc_id()).filter(|other| other.uri() != server.uri()) {
            let problem = format!(
                "the tool is attached to another server {}, that at {}; disconnect from it first, or make another tool",
                other.proc_id(),
                other.uri()
            );
            return Err(Error::identity(Status::ERR_EXISTS, problem));
        }
        let chosen = state.add(server, is_primary);
        drop(state);
        self.tell_of_change();
        Ok(chosen)
    }

    fn tell_of_change(&self) {
        self.shared.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until no attachment is under way, but not beyond the limit.
    async fn none_attaches(&self, limit: Option<Duration>) {
        let mut changes = self.shared.changes.subscribe();
        let none = async {
            while self.state().attaching > 0 {
                // the sender is in `self`
                let _ = changes.changed().await;
            }
        };
        match limit {
            Some(limit) => drop(tokio::time::timeout(limit, none).await),
            None => none.await,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn primary(&self) -> Option<AttachedServer> {
        let primary = self.primary.as_ref()?;
        self.attached.iter().find(|server| server.proc_id() == primary).cloned()
    }

    fn connected(&self, server: &ProcId) -> Option<AttachedServer> {
        let is_it = |known: &&AttachedServer| known.proc_id() == server && known.is_connected();
        self.attached.iter().find(is_it).cloned()
    }

    fn add(&mut self, server: AttachedServer, is_primary: bool) -> AttachedServer {
        let proc = server.proc_id().clone();
        let is_first = !self.attached.iter().any(AttachedServer::is_connected);
        let known = self.connected(&proc);
        if known.is_none() {
            // those that are lost are of no use any more, except that calls say so
            let keeps = |old: &AttachedServer| {
                *old.proc_id() != proc && (old.is_connected() || self.primary.as_ref() == Some(old.proc_id()))
            };
            let mut attached = std::mem::take(&mut self.attached);
            attached.retain(keeps);
            attached.push(server.clone());
            self.attached = attached;
        }
        if is_primary || is_first {
            self.primary = Some(proc);
        }
        known.unwrap_or(server)
    }

    fn remove(&mut self, server: &ProcId) -> Option<AttachedServer> {
        let index = self.attached.iter().position(|known| known.proc_id() == server)?;
        if self.primary.as_ref() == Some(server) {
            self.primary = None;
        }
        Some(self.attached.remove(index))
    }
}

impl AttachBuilder {
    /// Makes the server the primary one, also if the tool is attached to it already.
    #[doc(alias = "PMIX_PRIMARY_SERVER")]
    pub fn primary(mut self) -> Self {
        self.is_primary = true;
        self
    }

    async fn attach(self) -> Result<AttachedServer, Error> {
        let Self { servers, target, is_primary } = self;
        if servers.state().is_finalized {
            return Err(pmix_client::Error::Finalized.into());
        }
        let attaching = Attaching::begin(&servers);
        let server = match target.clone().reach_another(&servers).await {
            // another task may attach to it at the same time, so that the server took this for a second tool
            Err(error) if error.status() == Status::ERR_EXISTS => {
                drop(attaching);
                servers.none_attaches(target.limit()).await;
                let known = target.among(&servers.list()).ok_or(error)?;
                return servers.add(known, is_primary);
            }
            outcome => outcome?,
        };
        servers.add(server, is_primary)
    }
}

impl IntoFuture for AttachBuilder {
    type Output = Result<AttachedServer, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.attach())
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl fmt::Debug for AttachedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedServer")
            .field("proc", self.proc_id())
            .field("uri", &self.uri())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AttachBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachBuilder")
            .field("target", &self.target)
            .field("is_primary", &self.is_primary)
            .finish_non_exhaustive()
    }
}
