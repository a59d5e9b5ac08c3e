use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pmix_types::{Nspace, NspaceError, ProcId, Rank};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::descriptors::raise_descriptor_limit;
use crate::door::Door;
use crate::driver::{Driver, Inbox};
use crate::handle::{ServerHandle, Shared};
use crate::host::CODEC;
use crate::host::{HostModule, NoHost};
use crate::reactor::{Opened, Plan};
use crate::session_dir::{SessionDir, SessionDirError};
use crate::setup::HARVEST;
use crate::upcalls::Upcalls;
use pmix_engine::{Config, Engine, ServerStats};

/// How long a process may leave unread what it is told, unless the embedder says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a process may have put, unless the embedder says otherwise.
const PUT_LIMIT: usize = 1 << 30;

/// A running PMIx server: serves the processes of its node until stopped or dropped.
///
/// It runs on a thread of its own; upcalls run on the runtime it was started from.
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
    dir: Option<SessionDir>,
}

/// Why a server cannot start.
#[derive(Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The private directory cannot be used.
    #[error(transparent)]
    SessionDir(#[from] SessionDirError),
    /// The server's thread or runtime cannot be made.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The name given for the server is no namespace.
    #[error("server namespace: {0}")]
    Nspace(#[from] NspaceError),
    /// Connections to the socket cannot be accepted.
    #[error("cannot accept connections on the socket: {0}")]
    Socket(#[source] std::io::Error),
    /// The loopback port of the native wire cannot be opened.
    #[error("the native wire cannot start, as the loopback interface cannot be listened on: {0}")]
    Tcp(#[source] std::io::Error),
    /// The kernel does not tell who owns a loopback connection, so the native wire could not tell users apart: some
    /// containers do not let netlink SOCK_DIAG through.
    #[error(
        "the native wire cannot start, as the kernel does not tell who connects (netlink SOCK_DIAG: {0}); \
         allow it in this container or turn the native wire off"
    )]
    SockDiag(#[source] std::io::Error),
    /// There is no tokio runtime to run upcalls on.
    #[error("a server must be started from within a tokio runtime, its upcalls run there")]
    NoRuntime,
}

/// Settings of a [`Server`].
#[must_use]
pub struct ServerBuilder {
    host: HostMaker,
    hostname: Option<String>,
    nspace: Option<String>,
    session_root: Option<PathBuf>,
    tool_support: bool,
    other_users: bool,
    native: NativeWire,
    limits: pmix_proto::Limits,
    patience: Duration,
    put_limit: usize,
    harvest: Vec<String>,
}

/// Whether and how a server speaks OpenPMIx's own protocol beside its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeWire {
    /// It does not.
    #[default]
    Off,
    /// It does.
    On,
    /// It does, and programs of Open MPI 4 find out from their environment that they were launched: without the
    /// marker (`JSM_JSRUN_PORT=0`, which nothing else reads) they start alone. It also turns Open MPI 4's own binding
    /// of processes off.
    WithOpenMpi4,
}

type HostMaker = Box<dyn FnOnce(ServerHandle) -> Arc<dyn HostModule> + Send>;

impl ServerBuilder {
    /// The host that serves the upcalls; without one, only local data is served (INI-10).
    pub fn host(self, host: impl HostModule) -> Self {
        self.host_with(|_| host)
    }

    /// The host, made with the handle for calling back.
    pub fn host_with<H: HostModule>(mut self, make: impl FnOnce(ServerHandle) -> H + Send + 'static) -> Self {
        self.host = Box::new(|handle| Arc::new(make(handle)));
        self
    }

    /// Name of this node as it stands in node maps; the system's host name if not given.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = Some(hostname.into());
        self
    }

    /// Namespace of the server itself; `server.<host>.<pid>` if not given. Its rank is 0.
    ///
    /// `StandardHost` of `pmix-host` names tools and connected groups after it, so it should not begin
    /// with `pmix` (see [`ServerHandle::register_nspace`]).
    pub fn nspace(mut self, nspace: impl Into<String>) -> Self {
        self.nspace = Some(nspace.into());
        self
    }

    /// Directory below which the private one is made; it is an error if that cannot be used. If not given, it is
    /// `PMIX_SERVER_TMPDIR`, or else `TMPDIR` or `/tmp`; only if somebody else has taken our name in these two, it is
    /// `XDG_RUNTIME_DIR` or a name that nobody foresees (see [`pmix_proto::places`]). Relative paths are made absolute
    /// at the start.
    pub fn session_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.session_root = Some(root.into());
        self
    }

    /// Whether tools may connect, given that the host serves `tool_connected` (TOL-01). Off by default.
    #[doc(alias = "PMIX_SERVER_TOOL_SUPPORT")]
    pub const fn tool_support(mut self, on: bool) -> Self {
        self.tool_support = on;
        self
    }

    /// Whether processes of other users may reach the socket. Off by default. Who is let in is decided by
    /// the kernel's credentials against the registration in either case.
    ///
    /// The server's own user and root see everything. A process of another user sees its own namespace and the jobs whose
    /// processes are all registered for its user, or whose data names it by `USERID` where none is registered; its events
    /// are heard by its user only. What the host may be asked is the host's to decide, by
    /// [`UpcallContext::uid`](crate::UpcallContext::uid), as `StandardHost` of `pmix-host` does.
    pub const fn other_users(mut self, on: bool) -> Self {
        self.other_users = on;
        self
    }

    /// Whether programs linked with the C library (OpenPMIx) may connect too, on a loopback TCP port with its own
    /// protocol. Off by default. Processes of both kinds can be in the same job.
    pub const fn native_wire(mut self, wire: NativeWire) -> Self {
        self.native = wire;
        self
    }

    /// Names of the variables that [`ServerHandle::setup_application`] harvests: whole names, or the start of names
    /// and `*`. Without it `OMP_*`, `OMPI_MCA_*`, `PMIX_MCA_*`, `UCX_*` and `FI_*`.
    pub fn harvest<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.harvest = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Limits of messages, in bytes.
    pub const fn limits(mut self, limits: pmix_proto::Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How many bytes the keys and values that one process has put may take in this server's memory; 1 GiB if not given.
    /// A commit beyond it fails with `ERR_OUT_OF_RESOURCE`.
    pub const fn put_limit(mut self, bytes: usize) -> Self {
        self.put_limit = bytes;
        self
    }

    /// How long a process may leave unread what it is told before its connection is closed; a minute if not given.
    ///
    /// A process that reads slowly is served slowly: while much waits to be read, no more of its requests are taken.
    ///
    /// A process that a debugger has stopped reads nothing, and is disconnected if it is stopped for longer than this while
    /// more is told to it than its connection takes up. Give more where processes are debugged.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the server; it accepts connections when this returns.
    ///
    /// Raises the limit of open files of this process as far as the system lets it (`RLIMIT_NOFILE`, soft to hard):
    /// each process of the node takes one. Processes that this one starts inherit that, unless they are given the limit that
    /// was there ([`inherited_file_limit`](crate::inherited_file_limit)), as `pmix_rm` does.
    ///
    /// # Errors
    /// [`ServerError`]; nothing is left behind.
    ///
    /// # Cancel safety
    /// Cancel-safe: the server is started or not.
    pub async fn start(self) -> Result<Server, ServerError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ServerError::NoRuntime)?;
        let hostname = self.hostname.unwrap_or_else(system_hostname);
        let pid = std::process::id();
        let nspace = self.nspace.unwrap_or_else(|| format!("server.{hostname}.{pid}"));
        let server = ProcId::new(Nspace::new(nspace)?, Rank::from_raw(0));
        raise_descriptor_limit();
        let door = Door::new(self.other_users);
        let (inbox, events) = Inbox::new(self.patience);
        let plan = Plan {
            server: server.clone(),
            hostname: hostname.clone(),
            session_root: self.session_root,
            tool_support: self.tool_support,
            other_users: self.other_users,
            door: door.clone(),
            native: self.native != NativeWire::Off,
            limits: self.limits,
        };
        let opened = Opened::open(plan, inbox.clone()).await?;
        // nothing fails from here on: the host hears only of a server that runs
        let shared = Shared {
            server: server.clone(),
            hostname: hostname.clone(),
            uri: opened.uri.clone(),
            dir: opened.dir.path().into(),
            native: opened.native_uri.clone().map(|uri| (uri, self.native)),
            harvest: self.harvest,
            door: door.clone(),
        };
        let handle = ServerHandle::new(inbox.clone(), shared);
        let host = (self.host)(handle.clone());
        host.started(&handle);
        let config = Config {
            server,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            hostname,
            capabilities: host.capabilities(),
            tool_support: self.tool_support,
            put_limit: self.put_limit,
            codec: CODEC,
        };
        let driver = Driver::new(Engine::new(config), Upcalls::new(host, runtime, inbox), door);
        let (thread, dir) = opened.run(driver, events);
        Ok(Server { handle, thread: Some(thread), dir: Some(dir) })
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
    /// Settings of a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            host: Box::new(|_| Arc::new(NoHost)),
            hostname: None,
            nspace: None,
            session_root: None,
            tool_support: false,
            other_users: false,
            native: NativeWire::Off,
            limits: pmix_proto::Limits::default(),
            patience: PATIENCE,
            put_limit: PUT_LIMIT,
            harvest: HARVEST.map(str::to_owned).into(),
        }
    }

    /// The host's way into the library.
    pub const fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// Counters.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn stats(&self) -> ServerStats {
        self.handle.stats().await
    }

    /// Closes all connections, ends the thread and removes the private directory.
    ///
    /// Upcalls under way are cancelled and have one second to end; then they are dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the server does the same without waiting.
    #[doc(alias = "PMIx_server_finalize")]
    pub async fn stop(mut self) {
        let (done, stopped) = oneshot::channel();
        if self.handle.inbox().send(crate::driver::Event::Stop(done)).await {
            let _ = stopped.await;
        }
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
        self.dir.take();
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

pmix_types::message_first!(ServerError);
