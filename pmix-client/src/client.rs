use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use pmix_types::job::JobData;
use pmix_types::message::{Failure, PutEntry, Reply, Request};
use pmix_types::{AttributeRegistry, Event, Nspace, ProcId, Query, Scope, Status, Value, ValueType};

use crate::builder::ClientBuilder;
use crate::error::{Error, key_name};
use crate::events::{EventsBuilder, HandlerBuilder, NotifyBuilder};
use crate::key_arg::{AskKey, PutKey};
use crate::ops::{
    AbortBuilder, FenceBuilder, FinalizeBuilder, GetAllBuilder, GetBuilder, Procs, QueryResults, Target,
};
use crate::session::Session;
use crate::store::Store;
use crate::sync::{lock, read, write};

/// A process's connection to its PMIx server.
///
/// Cheap to clone: all clones are the same connection, and take the place of the Standard's counted
/// references (INI-04, INI-05). [`Client::finalize`] ends it for all of them. When the last clone is dropped
/// without it the connection closes at once, which a host may take for a failure of the process; the drop
/// never blocks and may happen outside of a runtime.
///
/// Connecting starts one task on the caller's runtime, which carries all traffic; replies arrive as long as
/// that runtime runs. Both flavours of runtime will do.
///
/// What the process holds itself (job data, what it has put, what a fence has collected, what earlier Gets
/// have brought) stays readable after the connection is lost. All that needs the server then fails with
/// [`Error::Lost`].
///
/// # Time limits
/// Without a limit an operation waits as long as the server lets it, for ever if the server hangs. A limit (`timeout` of the
/// builder, or the directive `TIMEOUT`) is kept by the server, which knows who is missing and says so. A server that has
/// said nothing 5 seconds after the limit is given up: the call fails with `ERR_TIMEOUT` and words that say that the server
/// did not answer. That is as if its future had been dropped: what was sent may still be carried out, and an answer that
/// comes later is dropped. The connection stays, and works again if the server does. The runtime needs its timer for calls
/// with a limit. [`ClientBuilder::timeout`] is kept here, to the moment.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    proc: ProcId,
    hostname: String,
    store: RwLock<Store>,
    /// Held while staged data is put in line for sending, so that commits arrive in the order of the puts.
    commit_order: Mutex<()>,
    /// `None` for a singleton.
    session: Option<Arc<Session>>,
    /// What the libraries in this process support.
    attributes: AttributeRegistry,
    is_finalized: AtomicBool,
}

impl Client {
    /// Settings for a process that a launcher has started: server and identity come from the environment
    /// (INI-02), which is read when the client connects.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::from_env().connect().await?;
    /// println!("I am {}", client.proc_id());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Init")]
    pub fn from_env() -> ClientBuilder {
        ClientBuilder::from_env()
    }

    /// Settings that know nothing of an environment: the server's URI and the identity have to be given.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// A process without server: the only one of its job, for tests and for programs that run alone too.
    ///
    /// Its namespace is unique on this machine and its rank is 0. Put, commit, get and a fence of itself work;
    /// all that needs a server fails with `ERR_UNREACH`.
    ///
    /// # Errors
    /// [`Error::Config`] if the machine's name cannot be part of a namespace.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn singleton() -> Result<Self, Error> {
        crate::singleton::start(crate::attributes::at_start(AttributeRegistry::new()))
    }

    pub(crate) fn new(
        proc: ProcId,
        hostname: String,
        job: Option<Arc<JobData>>,
        session: Option<Arc<Session>>,
        attributes: AttributeRegistry,
    ) -> Self {
        let store = RwLock::new(Store::new(proc.clone(), hostname.clone(), job));
        let is_finalized = AtomicBool::new(false);
        Self {
            inner: Arc::new(Inner {
                proc,
                hostname,
                store,
                commit_order: Mutex::new(()),
                session,
                attributes,
                is_finalized,
            }),
        }
    }

    /// The process's own id (INI-03).
    pub fn proc_id(&self) -> &ProcId {
        &self.inner.proc
    }

    /// Id of the server; `None` for a singleton.
    pub fn server_id(&self) -> Option<&ProcId> {
        self.inner.session.as_deref().map(Session::server)
    }

    /// Name of the node the process runs on, as the host calls it.
    pub fn hostname(&self) -> &str {
        &self.inner.hostname
    }

    /// Whether the process runs without a server.
    pub fn is_singleton(&self) -> bool {
        self.inner.session.is_none()
    }

    /// Whether there is a connection to a server, as far as is known.
    #[doc(alias = "PMIx_Initialized")]
    #[doc(alias = "PMIx_tool_is_connected")]
    pub fn is_connected(&self) -> bool {
        !self.is_finalized() && self.inner.session.as_deref().is_some_and(Session::is_open)
    }

    /// Sends a request as it is and returns what the server replies.
    ///
    /// For programs that test servers or carry requests for others. Nothing that the process holds is asked or
    /// changed; events of a registration made this way are dropped: use [`Client::events`].
    ///
    /// # Errors
    /// What the server says; [`Error::Lost`] if the connection is or gets lost, `ERR_UNREACH` for a singleton,
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Once sent the request goes on; dropping the future only drops the reply.
    pub async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.session(request.operation())?.request(request).await
    }

    /// Stages a value under a key of this process; [`Client::commit`] shows it to others.
    ///
    /// Putting a key again replaces its value and scope (PUT-04). Until the commit only this process sees it
    /// (PUT-05), and with [`Scope::INTERNAL`] also after it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a reserved key (PUT-02) and for a text that is no key, `ERR_NOT_SUPPORTED` for a
    /// scope other than local, remote, global and internal (PUT-03), `ERR_INIT` after finalize.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Scope, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::GLOBAL, "endpoint", "10.0.0.1:7000")?;
    /// let endpoint: String = client.get(None, "endpoint").await?;
    /// assert_eq!(endpoint, "10.0.0.1:7000");
    /// assert!(client.put(Scope::GLOBAL, keys::JOB_SIZE, 3u32).is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Put")]
    pub fn put(&self, scope: Scope, key: impl PutKey, value: impl Into<Value>) -> Result<(), Error> {
        const OPERATION: &str = "put";
        self.check()?;
        let key = key.into_key_name().map_err(key_name(OPERATION))?;
        if key.is_reserved() {
            let problem = "keys that start with \"pmix\" are for hosts and libraries";
            return Err(Error::bad_param(OPERATION, problem).about(None, Some(&key)));
        }
        if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL].contains(&scope) {
            let problem = format!("no values can be put in scope {scope}");
            let failure = Failure::new(Status::ERR_NOT_SUPPORTED, problem);
            return Err(Error::failed(OPERATION, failure).about(None, Some(&key)));
        }
        write(&self.inner.store).put(PutEntry { scope, key, value: value.into() });
        Ok(())
    }

    /// Files a value under any process id, for this process only: it is never sent anywhere (PUT-09).
    ///
    /// Reserved keys are allowed (PUT-10): what was learned some other way can be kept where Get finds it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a text that is no key and for an id that names no process, `ERR_INIT` after
    /// finalize.
    #[doc(alias = "PMIx_Store_internal")]
    pub fn store_internal(
        &self,
        proc: &ProcId,
        key: impl PutKey,
        value: impl Into<Value>,
    ) -> Result<(), Error> {
        const OPERATION: &str = "store internal";
        self.check()?;
        let key = key.into_key_name().map_err(key_name(OPERATION))?;
        if !proc.is_valid() {
            return Err(Error::bad_param(OPERATION, "the id names no process").about(Some(proc), Some(&key)));
        }
        write(&self.inner.store).store_internal(proc.clone(), key, value.into());
        Ok(())
    }

    /// Sends what was put since the last commit to the server, which shows it to others by its scope.
    ///
    /// With nothing staged it succeeds without asking the server (PUT-07). If it fails the values stay staged,
    /// and the next commit sends them again.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection is or gets lost, `ERR_INIT` after finalize, and what the server says.
    ///
    /// # Cancel safety
    /// Once sent the commit stands. When the future is dropped the values stay staged, so the next commit may
    /// send them a second time, which does no harm.
    #[doc(alias = "PMIx_Commit")]
    pub async fn commit(&self) -> Result<(), Error> {
        self.check()?;
        let has_staged = read(&self.inner.store).has_staged();
        let (true, Some(session)) = (has_staged, self.inner.session.as_deref()) else {
            return Ok(());
        };
        let slot = session.slot().await?;
        let (answer, staged) = {
            let _in_order = lock(&self.inner.commit_order);
            let staged = read(&self.inner.store).staged();
            (slot.send(Request::Commit(staged.entries.clone())), staged)
        };
        match answer.await? {
            Reply::Done => write(&self.inner.store).committed(&staged),
            _ => return Err(Error::unexpected_reply("commit")),
        }
        Ok(())
    }

    /// Asks for a value; await the builder.
    ///
    /// `target` is a process id, or `None` for the process itself (GET-01). Give the rank of the process for
    /// what it has put, and `WILDCARD` (or [`Client::job`]) for what is known of a job. A typed key decides
    /// the type of the result; with a text or a [`KeyName`](pmix_types::KeyName) the caller does, and [`Value`] fits all.
    ///
    /// What the process holds is answered locally, without contacting the server: own puts, job data, and what a fence with
    /// [`FenceBuilder::collect_data`] or an earlier Get has brought. Otherwise the server is asked, and waits
    /// until the process has committed the key (GET-22); see [`GetBuilder`] for limits.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Scope, Value, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::LOCAL, "port", 7000u16)?;
    /// let port: u16 = client.get(client.proc_id(), "port").await?;
    /// assert_eq!(port, 7000);
    /// assert_eq!(client.get::<Value>(None, "port").await?, Value::Uint16(7000));
    /// assert_eq!(client.get(None, keys::RANK).optional().await?, client.proc_id().rank);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Get")]
    #[doc(alias = "PMIx_Get_nb")]
    pub fn get<T: ValueType>(&self, target: impl Into<Target>, key: impl AskKey<T>) -> GetBuilder<'_, T> {
        GetBuilder::new(self, target.into(), key.into_key_name())
    }

    /// Asks for all keys that a process has put, with their values.
    #[doc(alias = "PMIx_Get")]
    pub fn get_all(&self, target: impl Into<Target>) -> GetAllBuilder<'_> {
        GetAllBuilder::new(self, target.into())
    }

    /// A job to ask about.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::keys;
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// assert_eq!(client.job(&client.proc_id().nspace).get(keys::JOB_SIZE).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn job(&self, nspace: &Nspace) -> Job<'_> {
        Job { client: self, proc: ProcId::wildcard(nspace.clone()) }
    }

    /// Waits for other processes; await the builder.
    ///
    /// All participants must name the set the same way (FEN-03), and the caller must be one of them
    /// (FEN-05).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// client.fence([client.proc_id().clone()]).collect_data().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Fence")]
    #[doc(alias = "PMIx_Fence_nb")]
    pub fn fence(&self, procs: impl Into<Procs>) -> FenceBuilder<'_> {
        FenceBuilder::new(self, procs.into())
    }

    /// Waits for all processes of the own namespace (FEN-01); await the builder.
    pub fn fence_all(&self) -> FenceBuilder<'_> {
        self.fence(Procs::own_nspace())
    }

    /// Has the host end processes, by default all of the own namespace (ABT-01); await the builder.
    ///
    /// `status` is the exit status to be reported, `message` is for the user and may be empty.
    #[doc(alias = "PMIx_Abort")]
    pub fn abort(&self, status: i32, message: impl Into<String>) -> AbortBuilder<'_> {
        AbortBuilder::new(self, status, message.into())
    }

    /// Asks the server and its host questions.
    ///
    /// That some keys could not be answered is not an error (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if no key was found, or what keeps all of them from being found: `ERR_NOT_SUPPORTED` if the
    /// host would have to say and answers no queries, `ERR_INVALID_NAMESPACE`, `ERR_BAD_PARAM` without a qualifier
    /// that a key needs, or what the host says. `ERR_BAD_PARAM` also without queries, for one without keys, and for
    /// qualifiers that contradict each other (QRY-05). `ERR_UNREACH` for a singleton, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the answer is dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Query, keys};
    ///
    /// let table = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE, "job-1");
    /// let results = client.query([Query::new(&keys::QUERY_NAMESPACES), table]).await?;
    /// let namespaces: Option<String> = results.get(&keys::QUERY_NAMESPACES)?;
    /// println!("{namespaces:?}, not known: {:?}", results.missing());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Query_info")]
    #[doc(alias = "PMIx_Query_info_nb")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        crate::ops::query(self, queries.into_iter().collect()).await
    }

    /// Processes on a node.
    ///
    /// `node` absent means the local node; `nspace` absent means all namespaces that are known (RES-11). The
    /// server answers, and asks its host first (RES-03, RES-04); a process without a connection answers from
    /// what it holds (RES-02). The answer is empty if the node has no process of the namespace, or is not known
    /// (RES-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), `ERR_DATA_VALUE_NOT_FOUND` if
    /// no processes were given for the node (RES-10), what the host says (RES-05), [`Error::Lost`] if
    /// the connection gets lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the answer is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// assert_eq!(client.resolve_peers(None, None).await?, [client.proc_id().clone()]);
    /// assert_eq!(client.resolve_nodes(None).await?, [client.hostname()]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Resolve_peers")]
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspace: Option<&Nspace>,
    ) -> Result<Vec<ProcId>, Error> {
        self.check()?;
        crate::ops::resolve_peers(self, node, nspace).await
    }

    /// Names of the nodes of a namespace, in its order and without repeats; empty if it has none (RES-07).
    ///
    /// `nspace` absent means all namespaces that are known (RES-11). Who answers is as with
    /// [`Client::resolve_peers`].
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), what the host says (RES-05),
    /// [`Error::Lost`] if the connection gets lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the answer is dropped.
    #[doc(alias = "PMIx_Resolve_nodes")]
    pub async fn resolve_nodes(&self, nspace: Option<&Nspace>) -> Result<Vec<String>, Error> {
        self.check()?;
        crate::ops::resolve_nodes(self, nspace).await
    }

    /// Listens for events of these codes, or of all if there are none; await the builder.
    ///
    /// The registration is complete when the future is ready; nothing that is older than it arrives but what
    /// the server has kept for latecomers (EVT-13, EVT-15).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::Status;
    ///
    /// let mut events = client.events([Status::ERR_PROC_TERM_WO_SYNC]).await?;
    /// while let Some(event) = events.recv().await {
    ///     match event {
    ///         Ok(event) => println!("{} from {}", event.code, event.source),
    ///         Err(trouble) => println!("{trouble}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn events(&self, codes: impl IntoIterator<Item = Status>) -> EventsBuilder<'_> {
        EventsBuilder::new(self, codes.into_iter().collect())
    }

    /// Calls a handler for events of these codes, or of all if there are none.
    ///
    /// The handlers of a process form a chain: each sees what those before it have made of the event, and may end the
    /// chain (EVT-06). Streams of [`Client::events`] stand beside the chain and hear everything. See
    /// [`HandlerBuilder::handle`] for an example.
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn on_event(&self, codes: impl IntoIterator<Item = Status>) -> HandlerBuilder<'_> {
        HandlerBuilder::new(self, codes.into_iter().collect())
    }

    /// Tells others of an event, as far as its range goes; await the builder. A bare code is an event for the own
    /// namespace.
    ///
    /// Ready when the server has taken it, which says nothing of its delivery (EVT-17). An event for
    /// [`DataRange::PROC_LOCAL`](pmix_types::DataRange::PROC_LOCAL) goes to this process's own streams and handlers
    /// and nowhere else (EVT-11). Its source is this process, whatever the event says.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    /// use pmix_client::types::{DataRange, Status};
    ///
    /// let code = Status::from_raw(1); // positive codes are free for programs
    /// client.notify(code).range(DataRange::SESSION).info(&keys::EVENT_TEXT_MESSAGE, "hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Notify_event")]
    pub fn notify(&self, event: impl Into<Event>) -> NotifyBuilder<'_> {
        NotifyBuilder::new(self, event.into())
    }

    /// Finalizes the connection; await the builder.
    ///
    /// The future is ready when the server has answered (INI-07). From the moment it is sent (after the barrier,
    /// if there is one) calls through other clones fail with `ERR_INIT` (GEN-10), and so do those that still wait
    /// when the answer comes. Staged values that were not committed are lost. The process may connect again
    /// later (INI-08).
    #[doc(alias = "PMIx_Finalize")]
    pub fn finalize(self) -> FinalizeBuilder {
        FinalizeBuilder::new(self)
    }

    /// Refuses calls after finalize (GEN-10).
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_finalized() { Err(Error::Finalized) } else { Ok(()) }
    }

    /// The connection, for an operation that needs it.
    pub(crate) fn session(&self, operation: &'static str) -> Result<&Arc<Session>, Error> {
        self.check()?;
        self.inner.session.as_ref().ok_or_else(|| Error::singleton(operation))
    }

    pub(crate) fn attributes(&self) -> &AttributeRegistry {
        &self.inner.attributes
    }

    pub(crate) fn store(&self) -> &RwLock<Store> {
        &self.inner.store
    }

    /// Marks the process as finalized; an error if it was so already.
    pub(crate) fn start_finalize(&self) -> Result<(), Error> {
        match self.inner.is_finalized.swap(true, Ordering::AcqRel) {
            true => Err(Error::Finalized),
            false => Ok(()),
        }
    }

    /// The connection, whether finalized or not.
    pub(crate) fn any_session(&self) -> Option<&Session> {
        self.inner.session.as_deref()
    }

    fn is_finalized(&self) -> bool {
        self.inner.is_finalized.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("proc", self.proc_id())
            .field("server", &self.server_id())
            .field("is_connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}

/// A job to ask about; see [`Client::job`].
#[derive(Clone, Debug)]
pub struct Job<'a> {
    client: &'a Client,
    proc: ProcId,
}

impl<'a> Job<'a> {
    /// The job's namespace.
    pub const fn nspace(&self) -> &Nspace {
        &self.proc.nspace
    }

    /// Asks for a value of the job; await the builder. See [`Client::get`].
    pub fn get<T: ValueType>(&self, key: impl AskKey<T>) -> GetBuilder<'a, T> {
        self.client.get(&self.proc, key)
    }
}
