//! Operations of the server itself, as a client: get, query, publish, spawn, events.
//!
//! [`ServerHandle::client`] returns a [`ServerClient`]. Its operations have the same names, builders and defaults as in
//! `pmix-client`. The caller is the server ([`ServerHandle::proc_id`]) with the server's user, so they see the jobs of all
//! users.
//!
//! | operation | answered by | may wait for |
//! |---|---|---|
//! | `get` | this server, from job data and what local processes have committed; for processes on other nodes, the host's [`direct_modex`] | the process to commit; the other node. [`immediate`] never waits |
//! | `query`, `resolve_peers`, `resolve_nodes` | the host's [`query`] if it serves queries, and this server | the host |
//! | `publish`, `lookup`, `unpublish`, `spawn`, `log` | the host's upcall of the same name | the host |
//! | `events` | this server; codes of the system are also passed to the host's [`register_events`] | nothing |
//! | `notify` | this server, for receivers on this node; then the host's [`notify_event`], for other nodes | the host, while more than 64 events of the server wait for it |
//!
//! **Inside upcalls.** All operations may be used inside upcalls: the server never waits for one upcall before it starts
//! another. An operation that an upcall requests may come back to the same host as another upcall (`publish` inside `spawn`
//! comes as `publish`). A host whose `publish` calls `publish` recurses for ever; if it holds a lock meanwhile, it
//! deadlocks. [`UpcallContext::caller`] is [`ServerHandle::proc_id`] for upcalls caused by the host itself.
//!
//! **Cancelling.** Dropping the future of a `get`, `query`, `resolve_*` or `lookup` withdraws it. `publish`, `unpublish`,
//! `spawn`, `log` and `notify` are carried out once they have been requested; dropping the future only drops the answer.
//!
//! **Errors.** Each operation fails with a [`Failure`], which has the Standard's status. `ERR_INIT` means that the server has
//! stopped, `ERR_NOT_SUPPORTED` that the host does not serve the upcall, or a required directive, `ERR_BAD_PARAM` that an
//! argument is invalid, `ERR_TIMEOUT` that the time limit has passed.
//!
//! # Examples
//! A host reads what a process has put, and publishes for the processes. In this example it also serves `publish` and `lookup`:
//! ```
//! use std::sync::Mutex;
//!
//! use pmix_server::host::{HostResult, Publish, Lookup, UpcallContext};
//! use pmix_server::types::{DataRange, Info, Pdata, ProcId, Rank, Scope, Status, job::JobSpec, keys};
//! use pmix_server::types::message::{Commit, PutEntry, Request};
//! use pmix_server::{HostModule, Server, async_trait, host_module};
//!
//! #[derive(Default)]
//! struct Board(Mutex<Vec<(ProcId, Info)>>);
//!
//! #[host_module]
//! #[async_trait]
//! impl HostModule for Board {
//!     async fn publish(&self, cx: &UpcallContext, publish: Publish) -> HostResult<()> {
//!         self.0.lock().unwrap().extend(publish.data.into_iter().map(|info| (cx.caller.clone(), info)));
//!         Ok(())
//!     }
//!
//!     async fn lookup(&self, _: &UpcallContext, lookup: Lookup) -> HostResult<Vec<Pdata>> {
//!         let held = self.0.lock().unwrap();
//!         let found = held.iter().filter(|(_, info)| lookup.keys.contains(&info.key));
//!         Ok(found.map(|(proc, info)| Pdata::new(proc.clone(), info.key.clone(), info.value.clone())).collect())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let server = Server::builder().host(Board::default()).hostname("node1").session_root(dir.path()).start().await?;
//! let handle = server.handle();
//! handle.register_nspace(JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0")?).await?;
//! let proc = ProcId::new("job-1".parse()?, Rank::new(0)?);
//! # let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
//! handle.register_client(&proc, uid, gid, None).await?;
//! let client = handle.client();
//!
//! // job data is there at once; what a process puts is waited for
//! let job = ProcId::wildcard(proc.nspace.clone());
//! assert_eq!(client.get(&job, keys::JOB_SIZE).await?, 1);
//! let port = client.get::<u16>(&proc, "port").immediate().await;
//! assert_eq!(port.unwrap_err().status, Status::ERR_NOT_FOUND);
//! let port = client.get::<u16>(&proc, "port").into_future();
//! let process = handle.connect_in_process(proc).await?;
//! process.request(Request::Commit(Commit::new(vec![PutEntry::new(Scope::LOCAL, "port".parse()?, 7000u16)]))).await?;
//! assert_eq!(port.await?, 7000);
//!
//! client.publish().data("service", "10.0.0.1:7000").range(DataRange::SESSION).await?;
//! let found = client.lookup(["service"]).await?;
//! assert_eq!(found.get::<String>("service")?.as_deref(), Some("10.0.0.1:7000"));
//! assert_eq!(found.publisher("service"), Some(handle.proc_id()));
//!
//! let mut events = client.events([Status::from_raw(1)]).await?;
//! client.notify(Status::from_raw(1)).range(DataRange::LOCAL).info(keys::EVENT_TEXT_MESSAGE, "begin").await?;
//! assert_eq!(events.recv().await.map(|event| event.source).as_ref(), Some(handle.proc_id()));
//!
//! server.stop().await;
//! assert_eq!(events.recv().await, None);
//! assert_eq!(client.resolve_nodes(None).await.unwrap_err().status, Status::ERR_INIT);
//! # use std::future::IntoFuture;
//! # Ok(()) }
//! ```
//!
//! [`direct_modex`]: crate::HostModule::direct_modex
//! [`query`]: crate::HostModule::query
//! [`register_events`]: crate::HostModule::register_events
//! [`notify_event`]: crate::HostModule::notify_event
//! [`immediate`]: GetBuilder::immediate
//! [`UpcallContext::caller`]: crate::UpcallContext::caller

#[macro_use]
mod builder;

mod events;
mod get;
mod link;
mod log;
mod publish;
mod spawn;

use std::fmt;

use pmix_types::message::{
    Failure, Log, Lookup, Publish, QueryInfo, QueryReply, RegisterEvents, ResolveNodes, ResolvePeers, Spawn,
    Unpublish,
};
use pmix_types::{AnyKey, App, Event, KeyOf, Namespaces, ProcId, Query, Status};

use crate::ServerHandle;
use builder::Draft;
pub use events::{EventStream, EventsBuilder, NotifyBuilder};
pub use get::GetBuilder;
use link::Link;
pub use log::LogBuilder;
pub use pmix_types::message::{Logged, LookupReply};
pub use publish::{LookupBuilder, PublishBuilder, UnpublishBuilder};
pub use spawn::SpawnBuilder;

/// Operations of the server itself; see [the module](self). Cheap to clone. It may outlive the server; its operations then
/// fail with `ERR_INIT`.
#[derive(Clone)]
pub struct ServerClient {
    proc: ProcId,
    link: Link,
}

impl ServerHandle {
    /// Returns a client with the identity of the server: see the [module](crate::client).
    pub fn client(&self) -> ServerClient {
        ServerClient { proc: self.proc_id().clone(), link: Link::new(self.inbox().clone()) }
    }
}

impl ServerClient {
    /// Identity of the server, on whose behalf all operations are.
    pub const fn proc_id(&self) -> &ProcId {
        &self.proc
    }

    /// A value of a process or, with rank `WILDCARD`, of a job. Waits until the process has committed it, unless the
    /// builder is [`immediate`](GetBuilder::immediate).
    #[doc(alias = "PMIx_Get")]
    pub fn get<T: pmix_types::ValueType>(
        &self,
        target: impl Into<ProcId>,
        key: impl KeyOf<T>,
    ) -> GetBuilder<T> {
        GetBuilder::of(self.clone(), target.into(), key)
    }

    /// Queries this server and, if it serves queries, the host. The reply's status is `ERR_PARTIAL_SUCCESS`
    /// if some keys were not found (QRY-03).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without queries or for a query without keys, `ERR_NOT_FOUND` if nothing was found,
    /// `ERR_NOT_SUPPORTED` for keys that nobody knows, `ERR_INIT` after the server has stopped, and errors of the host.
    ///
    /// # Cancel safety
    /// Safe: the queries are withdrawn.
    #[doc(alias = "PMIx_Query_info")]
    pub async fn query(
        &self,
        queries: impl IntoIterator<Item = Query> + Send,
    ) -> Result<QueryReply, Failure> {
        let queries: Vec<_> = queries.into_iter().collect();
        if queries.is_empty() || queries.iter().any(|query| query.keys.is_empty()) {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "every query needs at least one key"));
        }
        self.link.call(QueryInfo::new(queries)).await
    }

    /// The processes on a node: of a namespace, or of all that are known. `None` means this node.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for an unknown namespace, `ERR_DATA_VALUE_NOT_FOUND` if the processes of the node are
    /// not known (RES-10), `ERR_INIT` after the server has stopped, and errors of the host.
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIx_Resolve_peers")]
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspaces: impl Into<Namespaces>,
    ) -> Result<Vec<ProcId>, Failure> {
        self.link.call(ResolvePeers::new(node.map(Into::into), nspaces.into().one())).await
    }

    /// The nodes of a namespace, or of all that are known.
    ///
    /// # Errors
    /// As [`ServerClient::resolve_peers`].
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIx_Resolve_nodes")]
    pub async fn resolve_nodes(&self, nspaces: impl Into<Namespaces>) -> Result<Vec<String>, Failure> {
        self.link.call(ResolveNodes::new(nspaces.into().one())).await
    }

    /// Publishes data for whoever looks it up.
    #[doc(alias = "PMIx_Publish")]
    pub fn publish(&self) -> PublishBuilder {
        PublishBuilder::new(Draft::new(self.clone(), Publish::new(Vec::new())))
    }

    /// Looks up published data.
    #[doc(alias = "PMIx_Lookup")]
    pub fn lookup<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> LookupBuilder {
        let mut draft = Draft::new(self.clone(), Lookup::new(Vec::new()));
        draft.request.keys = draft.names(keys);
        LookupBuilder::new(draft)
    }

    /// Withdraws data that the server has published.
    #[doc(alias = "PMIx_Unpublish")]
    pub fn unpublish<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> UnpublishBuilder {
        let mut draft = Draft::new(self.clone(), Unpublish::new(Vec::new()));
        draft.request.keys = draft.names(keys);
        if draft.request.keys.is_empty() {
            draft.mistaken("no keys are given: unpublish_all() means all of them");
        }
        UnpublishBuilder::new(draft)
    }

    /// Withdraws all data that the server has published in a range.
    pub fn unpublish_all(&self) -> UnpublishBuilder {
        UnpublishBuilder::new(Draft::new(self.clone(), Unpublish::new(Vec::new())))
    }

    /// Starts a job by the host's `spawn`, with the server as its parent.
    #[doc(alias = "PMIx_Spawn")]
    pub fn spawn(&self, apps: impl IntoIterator<Item = App>) -> SpawnBuilder {
        SpawnBuilder::new(Draft::new(self.clone(), Spawn::new(apps.into_iter().collect())))
    }

    /// Logs messages by the host's `log`.
    #[doc(alias = "PMIx_Log")]
    pub fn log(&self) -> LogBuilder {
        LogBuilder::new(Draft::new(self.clone(), Log::new(Vec::new())))
    }

    /// Registers for events with these codes; an empty list means all.
    ///
    /// Delivers every event that reaches the server, whatever its audience: from its processes, for any user and range, and
    /// from its host. Only events that stay in their process ([`PROC_LOCAL`]) do not reach it.
    ///
    /// [`PROC_LOCAL`]: pmix_types::DataRange::PROC_LOCAL
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn events(&self, codes: impl IntoIterator<Item = Status>) -> EventsBuilder {
        EventsBuilder::new(Draft::new(self.clone(), RegisterEvents::new(codes.into_iter().collect())))
    }

    /// Notifies processes of an event of the server. Unlike an event that [`ServerHandle::notify_event`] delivers, it
    /// has the server as its source, and reaches other nodes by the host's `notify_event`.
    #[doc(alias = "PMIx_Notify_event")]
    pub fn notify(&self, code: Status) -> NotifyBuilder {
        let event = Event::new(code, self.proc.clone());
        NotifyBuilder::new(Draft::new(self.clone(), event))
    }
}

impl fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClient").field("proc", &self.proc).finish_non_exhaustive()
    }
}
