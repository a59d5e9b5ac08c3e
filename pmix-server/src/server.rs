use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use pmix_types::job::{JobData, JobSpec};
use pmix_types::message::{Failure, Output, Request};
use pmix_types::{Directives, Event, Info, IofChannels, Nspace, NspaceError, ProcId, Rank, Status};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::driver::{Driver, Inbox};
use crate::engine::{CallValue, Config, Engine, HostCall, Presence, ServerStats};
use crate::grpc;
use crate::host::{HostModule, HostObject, NoHost};
use crate::native;
use crate::session_dir::{SessionDir, SessionDirError, default_root};
use crate::setup::HARVEST;
use crate::upcalls::Upcalls;

/// How long processes have to read what a server that stops has said last.
const LAST_WORDS: Duration = Duration::from_millis(250);

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
#[derive(Debug, Error)]
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
    /// The loopback port of the native wire cannot be opened.
    #[error("cannot listen on the loopback interface: {0}")]
    Tcp(#[source] std::io::Error),
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

    /// Namespace of the server itself; `pmix-server.<host>.<pid>` if not given. Its rank is 0.
    pub fn nspace(mut self, nspace: impl Into<String>) -> Self {
        self.nspace = Some(nspace.into());
        self
    }

    /// Directory below which the private one is made; `PMIX_SERVER_TMPDIR`, `TMPDIR` or `/tmp` if not given.
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

    /// Starts the server; it accepts connections when this returns.
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
        let nspace = self.nspace.unwrap_or_else(|| format!("pmix-server.{hostname}.{pid}"));
        let server = ProcId::new(Nspace::new(nspace)?, Rank::from_raw(0));
        let root = self.session_root.unwrap_or_else(default_root);
        let dir = SessionDir::create(&root, &hostname, self.other_users)?;
        let uri = format!("{}.{};unix:{}", server.nspace, server.rank, dir.socket().display());
        let (inbox, events) = Inbox::new();
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::Thread)?;
        let entered = reactor.enter();
        let listener = dir.listen(self.other_users)?;
        let (native, native_uri) = match self.native {
            NativeWire::Off => (None, None),
            _ => {
                let (listener, uri) = native::listen(&server).map_err(ServerError::Tcp)?;
                (Some(listener), Some((uri, self.native)))
            }
        };
        drop(entered);
        // whoever finds them can connect
        if self.tool_support {
            let native = native_uri.as_ref().map(|(uri, _)| uri);
            dir.write_rendezvous(&server.nspace, &uri, native, &hostname)?;
        }
        let shared = Shared {
            server: server.clone(),
            hostname: hostname.clone(),
            uri,
            dir: dir.path().into(),
            native: native_uri,
            harvest: self.harvest,
        };
        let handle = ServerHandle { inbox: inbox.clone(), shared: Arc::new(shared) };
        let host = (self.host)(handle.clone());
        host.started(&handle);
        let config = Config {
            server,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            hostname,
            capabilities: host.capabilities(),
            tool_support: self.tool_support,
        };
        let driver = Driver::new(Engine::new(config), Upcalls::new(host, runtime, inbox.clone()));
        let limits = self.limits;
        let identity = handle.proc_id().clone();
        let thread = std::thread::Builder::new().name("pmix-server".into()).spawn(move || {
            reactor.block_on(async move {
                let connections = TaskTracker::new();
                let accept = grpc::accept(listener, inbox.clone(), limits, connections.clone());
                let accepting = tokio::spawn(accept);
                if let Some(listener) = native {
                    tokio::spawn(native::accept(listener, inbox, identity));
                }
                driver.run(events).await;
                // what was said last is still on its way; processes hang up when they have read it
                accepting.abort();
                connections.close();
                let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
            });
            // listeners and connections end with their runtime
        });
        let thread = thread.map_err(ServerError::Thread)?;
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
        if self.handle.inbox.send(crate::driver::Event::Stop(done)).await {
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
            self.handle.inbox.stop_soon();
        }
    }
}

/// The host's way into the library: registration, direct modex, events. Cheap to clone; may be used from
/// inside upcalls, and outlives the server harmlessly (calls then fail with `ERR_INIT`).
#[derive(Clone)]
pub struct ServerHandle {
    inbox: Inbox,
    shared: Arc<Shared>,
}

struct Shared {
    server: ProcId,
    hostname: String,
    uri: String,
    dir: PathBuf,
    native: Option<(pmix_native::conn::ServerUri, NativeWire)>,
    harvest: Vec<String>,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("uri", &self.shared.uri).finish_non_exhaustive()
    }
}

/// Variables that a process needs to find its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// Sets them for a command; other variables of the command stay (CLI-07).
    pub fn apply(&self, command: &mut std::process::Command) {
        command.envs(self.0.iter().map(|(name, value)| (name, value)));
    }

    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value of each, owned.
    pub fn into_vec(self) -> Vec<(String, String)> {
        self.0
    }
}

impl ServerHandle {
    /// Where front ends bring what happens.
    #[cfg(feature = "testing")]
    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Identity of the server.
    pub fn proc_id(&self) -> &ProcId {
        &self.shared.server
    }

    /// Name of the node.
    pub fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    /// Where the server is reached: `<nspace>.<rank>;unix:<path>`.
    pub fn uri(&self) -> &str {
        &self.shared.uri
    }

    pub(crate) fn harvested_names(&self) -> &[String] {
        &self.shared.harvest
    }

    /// The server's private directory; removed when it stops.
    pub fn session_dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Tells the server of a job, before its first process starts here (REG-01). Again for the same
    /// namespace, adds to and replaces its data (REG-09).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the description contradicts itself; nothing is registered then.
    ///
    /// # Cancel safety
    /// Once started it is carried out; dropping the future only discards the answer.
    #[doc(alias = "PMIx_server_register_nspace")]
    pub async fn register_nspace(&self, spec: JobSpec) -> Result<(), Failure> {
        let nspace = spec.nspace().clone();
        self.register_nspace_infos(nspace, None, spec.into_infos()).await
    }

    /// As [`ServerHandle::register_nspace`], from the Standard's arguments. `local_procs` is the number of
    /// processes on this node; `None` if the process map tells.
    ///
    /// # Errors
    /// As [`ServerHandle::register_nspace`].
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn register_nspace_infos(
        &self,
        nspace: Nspace,
        local_procs: Option<u32>,
        infos: Vec<Info>,
    ) -> Result<(), Failure> {
        self.call(HostCall::RegisterNspace { nspace, local_procs, infos }).await
    }

    /// Forgets a namespace, its clients and their data; what is pending for them fails (REG-11).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_nspace")]
    pub async fn deregister_nspace(&self, nspace: &Nspace) -> Result<(), Failure> {
        self.call(HostCall::DeregisterNspace(nspace.clone())).await
    }

    /// Announces a local process before it starts: who connects as `proc` must have this user and group
    /// (CLI-01, CLI-02). The object comes back with its upcalls (CLI-04).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the rank is not that of one process.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_register_client")]
    pub async fn register_client(
        &self,
        proc: &ProcId,
        uid: u32,
        gid: u32,
        object: Option<HostObject>,
    ) -> Result<(), Failure> {
        self.call(HostCall::RegisterClient { proc: proc.clone(), uid, gid, object }).await
    }

    /// Forgets one client and its data (CLI-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` or `ERR_NOT_FOUND` if it is not registered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_client")]
    pub async fn deregister_client(&self, proc: &ProcId) -> Result<(), Failure> {
        self.call(HostCall::DeregisterClient(proc.clone())).await
    }

    /// Tells the server that a local process has ended, so that nobody waits for it any more: collectives it
    /// has not entered fail, naming it and the reason. Its data stays.
    ///
    /// The server finds out by itself when a connected process dies; this is for those that end before they
    /// connect, or after finalize. An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if it is not registered here.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn client_ended(&self, proc: &ProcId, reason: impl Into<String>) -> Result<(), Failure> {
        self.call(HostCall::ClientEnded { proc: proc.clone(), reason: reason.into() }).await
    }

    /// What a registered process needs in its environment (CLI-07): the way to its server, and what
    /// [`setup_local_support`](Self::setup_local_support) has brought.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` or `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_setup_fork")]
    pub async fn setup_fork(&self, proc: &ProcId) -> Result<Environment, Failure> {
        let CallValue::Variables(given) = self.inbox.call(HostCall::VariablesOf(proc.clone())).await? else {
            return Err(Status::ERROR.into());
        };
        let vars = [
            ("PMIX_NAMESPACE", proc.nspace.to_string()),
            ("PMIX_RANK", proc.rank.to_string()),
            ("PMIX_GRPC_URI", self.shared.uri.clone()),
            ("PMIX_HOSTNAME", self.shared.hostname.clone()),
        ];
        let mut environment: Vec<_> =
            vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some((uri, wire)) = &self.shared.native {
            let mut launch =
                pmix_native::env::Launch::new(uri.clone(), proc.clone(), self.shared.hostname.clone());
            launch.server_tmpdir = Some(self.shared.dir.clone());
            launch.open_mpi_4 = *wire == NativeWire::WithOpenMpi4;
            for (name, value) in launch.variables() {
                if !environment.iter().any(|(held, _)| held == name) {
                    environment.push((name.to_owned(), value));
                }
            }
        }
        // what leads to the server is not the host's to change
        for (name, value) in given {
            if !environment.iter().any(|(held, _)| *held == name) {
                environment.push((name, value));
            }
        }
        Ok(Environment(environment))
    }

    /// The data of a local process for the server of another node, as soon as it has committed; with
    /// `REQUIRED_KEY` as soon as that key is there (DMX-02, DMX-03). For rank `WILDCARD` the job-level data
    /// of the namespace. Waits as long as it takes; the asking side keeps the time.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if the process is not on this node or has ended, `ERR_EXISTS_OUTSIDE_SCOPE` if the
    /// required key was put for local processes only.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_dmodex_request")]
    pub async fn dmodex_request(&self, proc: &ProcId, directives: Directives) -> Result<Bytes, Failure> {
        match self.inbox.call(HostCall::DmodexRequest { proc: proc.clone(), directives }).await? {
            CallValue::Blob(blob) => Ok(blob),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Waits until it is known what comes here of an operation that another node waits for, given as the fence, connect or
    /// disconnect that a process there has asked for: an operation of these participants ends here, or none of them can
    /// enter it any more. A host that has not been called for an operation which others wait for should ask, as nobody
    /// else tells it of participants that have all ended before (CON-12). An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for another request, or one without participants; `ERR_OUT_OF_RESOURCE` with too many of these
    /// calls under way; `ERR_INVALID_NAMESPACE` and the like when a participating namespace ends, `ERR_INIT` after the
    /// server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn presence(&self, operation: Request) -> Result<Presence, Failure> {
        match self.inbox.call(HostCall::Absence(operation)).await? {
            CallValue::Presence(presence) => Ok(presence),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Tells local processes of an event; [`ProcId::none`] as source for the host itself (EVT-12).
    ///
    /// # Errors
    /// None but `ERR_INIT` after the server has stopped. Says nothing about delivery.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_Notify_event")]
    pub async fn notify_event(&self, event: Event) -> Result<(), Failure> {
        self.call(HostCall::NotifyEvent(event)).await
    }

    /// Hands over output of a process: the server finds those who have asked for it (IOF-05). Ready when the bytes
    /// are no longer needed.
    ///
    /// Output that nobody has asked for yet is kept for whoever asks first, if the namespace is registered: the
    /// first 64 KiB of each channel of each process, 16 MiB in all. `IOF_CACHE_SIZE` and `IOF_DROP_OLDEST` in
    /// `info` change that; they are not passed on. `IOF_COMPLETE` says that the channel is closed (IOF-08).
    /// Calls for one channel must be made one after the other to keep its order (IOF-09).
    ///
    /// A process that reads too slowly never holds this back: it loses output and is told how much.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a directive in `info` of the wrong type, `ERR_INIT` after the server has stopped.
    /// Says nothing about delivery.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_IOF_deliver")]
    pub async fn iof_deliver(
        &self,
        source: &ProcId,
        channels: IofChannels,
        data: Bytes,
        info: Directives,
    ) -> Result<(), Failure> {
        let mut output = Output::new(source.clone(), channels, data);
        output.info = info;
        self.call(HostCall::IofDeliver(output)).await
    }

    /// The job-level data the server holds of a namespace.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn job_data(&self, nspace: &Nspace) -> Result<Arc<JobData>, Failure> {
        match self.inbox.call(HostCall::JobData(nspace.clone())).await? {
            CallValue::Job(job) => Ok(job),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Counters; all zero after the server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn stats(&self) -> ServerStats {
        match self.inbox.call(HostCall::Stats).await {
            Ok(CallValue::Stats(stats)) => stats,
            _ => ServerStats::default(),
        }
    }

    pub(crate) async fn call(&self, call: HostCall) -> Result<(), Failure> {
        self.inbox.call(call).await.map(|_| ())
    }
}

fn system_hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
