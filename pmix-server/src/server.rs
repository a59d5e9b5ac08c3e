use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pmix_types::trace::TraceContext;
use pmix_types::{Nspace, NspaceError, ProcId, Rank};
use tokio::sync::oneshot;

use crate::account::own_user;
use crate::clock::WallClock;
use crate::descriptors::raise_descriptor_limit;
use crate::door::Door;
use crate::driver::Driver;
use crate::error::ServerError;
use crate::handle::{ServerHandle, Shared};
use crate::host::{CODEC, Capabilities, HostModule, NoHost};
use crate::inbox::{DriverEvent, Inbox};
use crate::reactor::{Opened, Plan};
use crate::reactor::{ServerFiles, Tools};
use crate::setup::HARVEST;
use crate::traces::Traces;
use crate::upcalls::Upcalls;
use crate::wire::{NativeWire, Pmi1Wire};
use pmix_engine::{Config, Engine, Recording, ServerStats};

/// Default of [`ServerBuilder::unread_timeout`].
const PATIENCE: Duration = Duration::from_secs(60);
/// Default of [`ServerBuilder::record`].
const RECORDED: usize = 4096;
/// Default of [`ServerBuilder::put_limit`], in bytes.
const PUT_LIMIT: usize = 1 << 30;

/// A running PMIx server: serves the processes of its node until stopped or dropped.
///
/// It runs on its own thread; upcalls run on the runtime from which it was started.
///
/// # Standard
/// `PMIx_server_init`, `PMIx_server_finalize`
///
/// # Examples
/// ```
/// use pmix_server::Server;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let server = Server::builder().session_root(dir.path()).start().await?;
/// assert!(server.handle().uri().contains(";unix:"));
/// server.stop().await;
/// # Ok(()) }
/// ```
#[doc(alias = "PMIx_server_init")]
pub struct Server {
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
    files: Option<ServerFiles>,
}

/// Settings of a [`Server`].
#[must_use]
pub struct ServerBuilder {
    host: HostMaker,
    hostname: Option<String>,
    nspace: Option<Result<Nspace, NspaceError>>,
    session_root: Option<PathBuf>,
    rank: Rank,
    tool_support: bool,
    rendezvous_file: Option<PathBuf>,
    /// As a system-level server, in this directory unless in the usual one.
    system: Option<Option<PathBuf>>,
    /// Whether it is also a session-level server, if it is a system-level one.
    session: Option<bool>,
    other_users: bool,
    native: NativeWire,
    pmi1: Pmi1Wire,
    limits: pmix_proto::Limits,
    raise_nofile: bool,
    patience: Duration,
    put_limit: usize,
    recorded: usize,
    harvest: Vec<String>,
    /// The root, and where processes are to send spans.
    traces: Option<(TraceContext, String)>,
}

type HostMaker = Box<dyn FnOnce(ServerHandle) -> Arc<dyn HostModule> + Send>;

impl ServerBuilder {
    /// The host that serves the upcalls. Without a host, the server serves local data only (INI-10).
    pub fn host(self, host: impl HostModule) -> Self {
        self.host_with(|_| host)
    }

    /// A host that is created by `make` from the server's handle.
    pub fn host_with<H: HostModule>(mut self, make: impl FnOnce(ServerHandle) -> H + Send + 'static) -> Self {
        self.host = Box::new(|handle| Arc::new(make(handle)));
        self
    }

    /// Name of this node as used in node maps. Default: the system's host name.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = Some(hostname.into());
        self
    }

    /// Namespace of the server itself. Default: `server.<host>.<pid>`.
    ///
    /// `StandardHost` derives the namespaces of tools and connected sets from it, so it should not begin with `pmix`
    /// (see [`ServerHandle::register_nspace`]). C tools of release 4.2.2 cut the namespace of a server off at its first dot,
    /// so a server that such tools attach to besides another server needs a namespace without dots, unlike the default.
    #[doc(alias = "PMIX_SERVER_NSPACE")]
    pub fn nspace(mut self, nspace: impl TryInto<Nspace, Error: Into<NspaceError>>) -> Self {
        self.nspace = Some(nspace.try_into().map_err(Into::into));
        self
    }

    /// The directory in which the server creates its private directory; starting fails if it cannot be used. Default:
    /// `PMIX_SERVER_TMPDIR`, or else `TMPDIR` or `/tmp`. Only if another user has taken our name in `TMPDIR` or `/tmp`, the
    /// server uses `XDG_RUNTIME_DIR` or a random name (see [`pmix_proto::places`]). A relative path is made absolute at the
    /// start.
    #[doc(alias = "PMIX_SERVER_TMPDIR")]
    pub fn session_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.session_root = Some(root.into());
        self
    }

    /// Whether tools may connect, provided that the host serves `tool_connected` (TOL-01). Off by default.
    #[doc(alias = "PMIX_SERVER_TOOL_SUPPORT")]
    pub const fn tool_support(mut self, on: bool) -> Self {
        self.tool_support = on;
        self
    }

    /// Writes the contents of the rendezvous file to this file as well, for the tool that started this server
    /// (TOL-04). Only for a server that admits tools. The file is readable for its user only, is written when the
    /// server can be reached, and removed when it stops. It may replace a file of this user; starting fails if
    /// something else is there, or if the file cannot be written.
    ///
    /// A launcher takes it from `PMIX_LAUNCHER_RNDZ_FILE`, as `pmixrun` does; the server does not read this variable.
    #[doc(alias = "PMIX_LAUNCHER_RENDEZVOUS_FILE")]
    pub fn rendezvous_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.rendezvous_file = Some(file.into());
        self
    }

    /// Makes this the system-level server of the node, which tools of all users find by one file, `pmix.sys.<host>` in
    /// `PMIX_SYSTEM_TMPDIR`, or else `TMPDIR` or `/tmp` (TOL-02). Off by default. It admits tools, as with
    /// [`tool_support`](Self::tool_support), and is not a session-level server unless
    /// [`session_support`](Self::session_support) is on. Starting fails while another system-level server lives on
    /// the node; the file of a dead one is taken over.
    ///
    /// [`other_users`](Self::other_users) decides who may read the file and reach the socket, and the host decides
    /// what they see.
    #[doc(alias = "PMIX_SERVER_SYSTEM_SUPPORT")]
    pub fn system_support(mut self, on: bool) -> Self {
        self.system = on.then(|| self.system.flatten());
        self
    }

    /// Whether it is a system-level one.
    pub(crate) const fn is_of_system(&self) -> bool {
        self.system.is_some()
    }

    /// Makes this a [system-level](Self::system_support) server with its file in this directory.
    #[doc(alias = "PMIX_SYSTEM_TMPDIR")]
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system = Some(Some(directory.into()));
        self
    }

    /// Whether tools that search for a session-level server find this one. On by default for a server that admits tools,
    /// unless it is a [system-level](Self::system_support) one. If it is off, tools find it by its process id, its namespace or
    /// its address.
    #[doc(alias = "PMIX_SERVER_SESSION_SUPPORT")]
    pub const fn session_support(mut self, on: bool) -> Self {
        self.session = Some(on);
        self
    }

    /// Rank of the server itself in its namespace. Default: 0.
    #[doc(alias = "PMIX_SERVER_RANK")]
    pub const fn rank(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    /// Whether processes of other users may reach the socket. Off by default. In both cases the server lets a process in only
    /// if the credentials reported by the kernel match its registration.
    ///
    /// The server's own user and root see everything. A process of another user sees its own namespace and the jobs of its
    /// user: those whose processes are all registered for this user, or, without registered processes, those whose data names
    /// the user by `USERID`. Only processes and tools of the same user receive its events. The host decides by
    /// [`UpcallContext::uid`](crate::UpcallContext::uid) what each user may request, as `StandardHost` does.
    pub const fn other_users(mut self, on: bool) -> Self {
        self.other_users = on;
        self
    }

    /// Whether programs linked with the C library (OpenPMIx) may also connect, through a loopback TCP port with the library's
    /// own protocol. Off by default. Processes of both kinds can be in the same job.
    pub const fn native_wire(mut self, wire: NativeWire) -> Self {
        self.native = wire;
        self
    }

    /// Whether programs of MPICH and its relatives, which are started through PMI-1.1, become processes of the jobs here. Off by
    /// default. Their requests become those of other processes: `put` a commit, a barrier a fence that collects, and so on.
    pub const fn pmi1_wire(mut self, wire: Pmi1Wire) -> Self {
        self.pmi1 = wire;
        self
    }

    /// Names of the variables that [`ServerHandle::setup_application`] collects: full names, or a prefix followed by `*`.
    /// Default: `OMP_*`, `OMPI_MCA_*`, `PMIX_MCA_*`, `UCX_*` and `FI_*`.
    pub fn harvest<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.harvest = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Limits of what one connection may send: sizes in bytes, and the number of incomplete bodies. Default:
    /// [`Limits::default`](pmix_proto::Limits).
    pub const fn limits(mut self, limits: pmix_proto::Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How many bytes of this server's memory the keys and values that one process has put may take. Default: 1 GiB. A commit
    /// beyond this limit fails with `ERR_OUT_OF_RESOURCE`. All processes of a user together have the same limit, which includes
    /// what other nodes have sent, unless it is the server's own user or root.
    pub const fn put_limit(mut self, bytes: usize) -> Self {
        self.put_limit = bytes;
        self
    }

    /// How many entries the flight recorder keeps: requests and their replies, upcalls and their answers, calls of the host,
    /// connections, failures. Default: 4096; at most 65,536; 0 turns it off. [`ServerHandle::record`] reads it, and so does
    /// `pmix why --record`.
    ///
    /// An entry takes 120 bytes, plus up to 256 bytes on average for its names and messages. It never holds a value:
    /// only names, sizes and the messages of failures.
    pub const fn record(mut self, entries: usize) -> Self {
        self.recorded = entries;
        self
    }

    /// Traces fences. Each fence is one trace, with spans of its processes, servers and hosts below `root`; draw one root for each run
    /// and give it to all servers of the run. Off by default. The spans are spans of the crate `tracing` with the target
    /// [`pmix_types::trace::TARGET`]; install a subscriber to receive them, such as the layer of `pmix_client::otel` (feature `otel`),
    /// which sends them to OpenTelemetry.
    ///
    /// [`setup_fork`](ServerHandle::setup_fork) tells processes the root in `TRACEPARENT`, and in `PMIX_TRACE_TO` where spans
    /// are to go, unless that is empty. Processes of all users that the server serves can read both, so put no credentials there.
    pub fn traces(mut self, root: TraceContext, to: impl Into<String>) -> Self {
        self.traces = Some((root, to.into()));
        self
    }

    /// How long a process may leave messages unread before the server closes its connection. Default: one minute.
    ///
    /// A process that reads slowly is served slowly: while it has too much unread data, the server takes no further requests
    /// from it.
    ///
    /// A process stopped in a debugger reads nothing. It is disconnected if it is stopped for longer than this and its
    /// messages exceed what the connection buffers. Set a longer time where processes are debugged.
    pub const fn unread_timeout(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Raises this process's soft limit of open files (`RLIMIT_NOFILE`) to the hard limit when the server starts; off by default. Each
    /// process of the node needs a descriptor, so a server of many processes needs this, or a process whose limit is high.
    ///
    /// Programs that this process starts inherit the raised limit, unless you restore the old one
    /// ([`inherited_file_limit`](crate::inherited_file_limit)), as `pmix-launch` does.
    ///
    /// # Examples
    /// ```standalone_crate
    /// use pmix_server::{Server, inherited_file_limit};
    /// use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let root = tempfile::tempdir()?;
    /// setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(200) })?;
    /// let server = Server::builder().session_root(root.path()).start().await?;
    /// server.stop().await;
    /// assert_eq!(getrlimit(Resource::Nofile).current, Some(100));
    ///
    /// let server = Server::builder().session_root(root.path()).raise_nofile(true).start().await?;
    /// server.stop().await;
    /// assert_eq!(getrlimit(Resource::Nofile).current, Some(200));
    /// assert_eq!(inherited_file_limit(), Some(100));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn raise_nofile(mut self, raises: bool) -> Self {
        self.raise_nofile = raises;
        self
    }

    /// Starts the server. When this returns, the server accepts connections.
    ///
    /// # Errors
    /// [`ServerError`]; nothing is left behind.
    ///
    /// # Cancel safety
    /// Cancel-safe: the server has either started or not.
    pub async fn start(self) -> Result<Server, ServerError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ServerError::NoRuntime)?;
        let hostname = self.hostname.unwrap_or_else(system_hostname);
        let pid = std::process::id();
        let nspace = self.nspace.unwrap_or_else(|| Nspace::new(format!("server.{hostname}.{pid}")))?;
        let server = ProcId::new(nspace, self.rank);
        if self.raise_nofile {
            raise_descriptor_limit();
        }
        let door = Door::new(self.other_users);
        let (inbox, events) = Inbox::new(self.patience);
        let session = self.session.unwrap_or_else(|| self.system.is_none());
        let admits_tools = self.tool_support || self.system.is_some();
        let tools = Tools { session: session && admits_tools, by_name: admits_tools, system: self.system };
        let plan = Plan {
            server: server.clone(),
            hostname: hostname.clone(),
            session_root: self.session_root,
            tools,
            rendezvous_file: self.rendezvous_file,
            other_users: self.other_users,
            door: door.clone(),
            native: self.native.is_on(),
            pmi1: self.pmi1,
            limits: self.limits,
        };
        let opened = Opened::open(plan, inbox.clone()).await?;
        // nothing fails from here on, so the host never receives the handle of a server that did not start
        let shared = Shared {
            server: server.clone(),
            hostname: hostname.clone(),
            uri: opened.uri.clone(),
            dir: opened.dir.path().into(),
            native: opened.native_uri.clone().map(|uri| (uri, self.native)),
            pmi1: opened.pmi1.clone(),
            harvest: self.harvest,
            traces: self.traces.clone(),
            door: door.clone(),
        };
        let handle = ServerHandle::new(inbox.clone(), shared);
        let host = (self.host)(handle.clone());
        host.started(&handle);
        let capabilities = host.capabilities();
        let upcalls: Vec<_> = capabilities.iter().collect();
        tracing::debug!(?upcalls, "upcalls served by the host");
        // one user's large requests must not hold up another's
        let here = if self.other_users { Capabilities::none() } else { capabilities.clone() };
        let upcalls = Upcalls::new(host, hostname.clone(), here, runtime, inbox);
        // seeded by the system: it need not be secret, only another one each time
        let traces = self.traces.map(|(root, _)| Traces::new(root, hostname.clone()));
        let incarnation = RandomState::new().hash_one((&hostname, pid));
        let (uid, gid) = own_user();
        let mut config = Config::new(server, uid, gid, hostname, incarnation, CODEC);
        config.uri = Some(handle.native_uri().unwrap_or_else(|| handle.uri().to_owned()));
        config.capabilities = capabilities;
        config.tool_support = admits_tools;
        config.put_limit = self.put_limit;
        let recording = Recording { entries: self.recorded, pid, clock: &WallClock };
        let engine = Engine::new(config).with_record(recording);
        let driver = Driver::new(engine, upcalls, door, traces);
        let (thread, files) = opened.run(driver, events);
        Ok(Server { handle, thread: Some(thread), files: Some(files) })
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the settings of a new server, with their defaults.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            host: Box::new(|_| Arc::new(NoHost)),
            hostname: None,
            nspace: None,
            session_root: None,
            rank: Rank::from_raw(0),
            tool_support: false,
            rendezvous_file: None,
            system: None,
            session: None,
            other_users: false,
            native: NativeWire::Off,
            pmi1: Pmi1Wire::Off,
            limits: pmix_proto::Limits::default(),
            raise_nofile: false,
            patience: PATIENCE,
            put_limit: PUT_LIMIT,
            recorded: RECORDED,
            harvest: HARVEST.map(str::to_owned).into(),
            traces: None,
        }
    }

    /// The handle with which the host calls the library.
    pub const fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// Returns the server's counters.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn stats(&self) -> ServerStats {
        self.handle.stats().await
    }

    /// Closes all connections, ends the thread and removes the private directory.
    ///
    /// Pending upcalls are cancelled; those that do not end within one second are dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the server does the same without waiting.
    #[doc(alias = "PMIx_server_finalize")]
    pub async fn stop(mut self) {
        let (done, stopped) = oneshot::channel();
        if self.handle.inbox().send(DriverEvent::Stop(done)).await {
            let _ = stopped.await;
        }
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
        self.files.take();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.handle.inbox().stop_soon();
        }
    }
}

fn system_hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
