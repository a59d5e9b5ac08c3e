//! The host's calls to the library.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pmix_native::Dialect;
use pmix_types::job::{JobData, JobSpec, Target};
use pmix_types::message::{Failure, Output, Request};
use pmix_types::trace::{self, TraceContext};
use pmix_types::why::Wait;
use pmix_types::{Directives, Event, Gid, Info, IofChannels, Nspace, NspaceError, ProcId, Uid, keys};
use tokio::sync::oneshot;

use crate::account::own_uid;
use crate::door::Door;
use crate::environment::Environment;
use crate::inbox::{DriverEvent, Inbox, stopped};
use crate::open_mpi;
use crate::pmi1;
use crate::wire::NativeWire;
use pmix_engine::upcall::HostObject;
use pmix_engine::{HostCall, Presence, ServerStats};

/// The host's access to the library: registration, direct modex, events. Cheap to clone. The host may use it inside
/// upcalls. It may outlive the server; its calls then fail with `ERR_INIT`.
///
/// # Examples
/// The life of a job, with a task of this program in the place of a process:
/// ```
/// use pmix_server::types::job::JobSpec;
/// use pmix_server::types::message::{RegisterEvents, Request};
/// use pmix_server::types::{Event, Info, ProcId, Rank, Status, keys};
/// use pmix_server::{NoHost, Server};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
/// let server = Server::builder().host(NoHost).hostname("node1").session_root(dir.path()).start().await?;
/// let handle = server.handle();
///
/// // before the job starts
/// handle.register_nspace(JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0-1")?).await?;
/// let proc = ProcId::new("job-1".parse()?, Rank::new(0)?);
/// handle.register_client(&proc, uid, gid, None).await?;
/// let environment = handle.setup_fork(&proc).await?;
/// assert!(environment.iter().any(|(name, value)| name == "PMIX_GRPC_URI" && value == handle.uri()));
///
/// // while it runs
/// let process = handle.connect_in_process(proc.clone()).await?;
/// process.request(Request::RegisterEvents(RegisterEvents::new(vec![Status::EVENT_NODE_DOWN]))).await?;
/// let affected = Info::new(keys::EVENT_AFFECTED_PROC, proc.clone());
/// handle.notify_event(Event::new(Status::EVENT_NODE_DOWN, ProcId::none()).with_info(affected)).await?;
/// assert_eq!(process.next_event().await.affected_procs(), [proc.clone()]);
///
/// // when it has ended
/// drop(process);
/// handle.client_ended(&proc, "exit code 1").await?;
/// handle.deregister_nspace(&proc.nspace).await?;
/// let gone = handle.job_data(&proc.nspace).await.unwrap_err();
/// assert_eq!(gone.status(), Status::ERR_INVALID_NAMESPACE);
/// server.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ServerHandle {
    inbox: Inbox,
    shared: Arc<Shared>,
}

/// Properties of a server that are fixed once it has started.
pub(crate) struct Shared {
    pub(crate) server: ProcId,
    pub(crate) hostname: String,
    pub(crate) uri: String,
    pub(crate) dir: PathBuf,
    pub(crate) native: Option<(pmix_native::conn::ServerUri, NativeWire)>,
    pub(crate) pmi1: Option<Arc<pmi1::Front>>,
    pub(crate) harvest: Vec<String>,
    pub(crate) traces: Option<(TraceContext, String)>,
    pub(crate) door: Door,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("uri", &self.shared.uri).finish_non_exhaustive()
    }
}

impl ServerHandle {
    pub(crate) fn new(inbox: Inbox, shared: Shared) -> Self {
        Self { inbox, shared: Arc::new(shared) }
    }

    /// Where front ends send their events.
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

    /// Address of the server: `<nspace>.<rank>;unix:<path>`.
    pub fn uri(&self) -> &str {
        &self.shared.uri
    }

    /// The same address for the framed wire, for clients of this node: `<nspace>.<rank>;framed:<path>`.
    pub fn framed_uri(&self) -> String {
        self.shared.uri.replacen(";unix:", ";framed:", 1)
    }

    /// The address on the native wire, if the server speaks it: `<nspace>.<rank>;tcp4://<address>:<port>`.
    pub fn native_uri(&self) -> Option<String> {
        self.shared.native.as_ref().map(|(uri, _)| uri.to_string())
    }

    pub(crate) fn harvested_names(&self) -> &[String] {
        &self.shared.harvest
    }

    /// The server's private directory; removed when the server stops.
    pub fn session_dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Registers a job. Call it before the first process of the job starts on this node (REG-01). A second call for the same
    /// namespace adds to its data and replaces values (REG-09).
    ///
    /// The name should not begin with `pmix`; such a name is logged as a warning. Programs build keys from their namespace,
    /// and keys that begin with `pmix` are reserved (GEN-01), so the C library refuses to put them.
    ///
    /// If a machine runs more processes than it has processors, say so for each of its nodes:
    /// `spec.node_info(node, keys::NODE_OVERSUBSCRIBED, true)`. Leave the key out elsewhere, because Open MPI 5 takes any
    /// value as true. Without this key, processes of MPI libraries spin while they wait for each other, and a collective takes
    /// seconds instead of microseconds. Open MPI 5 reads the key when it starts. Open MPI 4 reads a variable, which
    /// [`setup_fork`](Self::setup_fork) then adds to the [`defaults`](Environment::defaults). `StandardHost` of the crate
    /// `pmix-host` sets the key for launchers that know their number of processors.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the description contradicts itself; nothing is registered then.
    ///
    /// # Cancel safety
    /// Once the call is in the server's queue it is carried out, and dropping the future only discards the reply. A future that is
    /// dropped before, because the queue is full, makes no call.
    #[doc(alias = "PMIx_server_register_nspace")]
    pub async fn register_nspace(&self, spec: JobSpec) -> Result<(), Failure> {
        let nspace = spec.nspace().clone();
        self.register_nspace_infos(nspace, None, spec.into_infos()).await
    }

    /// Like [`ServerHandle::register_nspace`], with the arguments of the Standard's function. `local_procs` is the number of
    /// processes on this node; pass `None` if there is a process map.
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
        if nspace.as_str().starts_with("pmix") {
            tracing::warn!(
                %nspace,
                "the name of this job begins with pmix: keys that programs build from it count as reserved, and the C \
                 library refuses them; choose another name"
            );
        }
        self.call(HostCall::RegisterNspace { nspace, local_procs, infos }).await
    }

    /// Removes a namespace, its clients and their data; their pending requests fail (REG-11).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered, `ERR_BAD_PARAM` for a text that is not a name.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_nspace")]
    pub async fn deregister_nspace(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<(), Failure> {
        let nspace = nspace.try_into().map_err(Into::into)?;
        let (answer, answered) = oneshot::channel();
        let call = HostCall::DeregisterNspace(nspace.clone());
        if !self.inbox.send(DriverEvent::Call { call, answer }).await {
            return Err(stopped());
        }
        // not before: if nobody waits for room in the inbox any more, the job goes on
        let _forgets = self.shared.pmi1.as_ref().map(|pmi1| pmi1.forgets(&nspace));
        answered.await.unwrap_or_else(|_| Err(stopped())).map(drop)
    }

    /// Registers a local process before it starts. A peer that connects as `proc` must have this user and group
    /// (CLI-01, CLI-02). Upcalls for the process carry `object` (CLI-04).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the rank does not name a single process, does not belong to the job, or is on another node
    /// according to the job's maps. If a process is registered before its namespace, the rank is checked when the namespace
    /// is registered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_register_client")]
    pub async fn register_client(
        &self,
        proc: &ProcId,
        uid: impl Into<Uid>,
        gid: impl Into<Gid>,
        object: Option<HostObject>,
    ) -> Result<(), Failure> {
        let (uid, gid) = (uid.into(), gid.into());
        self.call(HostCall::RegisterClient { proc: proc.clone(), uid, gid, object }).await
    }

    /// Removes one client and its data (CLI-08). Until then, or until its namespace is deregistered, the data stays, also when
    /// all clients have finalized: processes on other nodes may still get it.
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

    /// Reports the end of a local process, so that nothing waits for it any longer: collectives that it has not
    /// entered fail with the process and `reason`. Its data stays.
    ///
    /// The server notices by itself when a connected process dies. Call this for processes that end before they connect or
    /// after finalize. An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if it is not registered here.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn client_ended(&self, proc: &ProcId, reason: impl Into<String>) -> Result<(), Failure> {
        self.call(HostCall::ClientEnded { proc: proc.clone(), reason: reason.into() }).await
    }

    /// Builds the environment of a registered process (CLI-07): the address of its server, and the variables from
    /// [`setup_local_support`](Self::setup_local_support). With the native wire, also its place in the job under the names
    /// that Open MPI's launchers use (`OMPI_COMM_WORLD_RANK` and the like), which scripts and libraries read; only values
    /// that the job data contains. With PMI-1, the variables of that, and a [socket](Environment::pmi1).
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` or `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_setup_fork")]
    pub async fn setup_fork(&self, proc: &ProcId) -> Result<Environment, Failure> {
        let changes: Vec<Info> = self.inbox.call(HostCall::EnvChangesOf(proc.clone())).await?;
        let secret = self.shared.door.secrets().for_proc(proc, &self.inbox).await?;
        let vars = [
            ("PMIX_NAMESPACE", proc.nspace.to_string()),
            ("PMIX_RANK", proc.rank.to_string()),
            ("PMIX_GRPC_URI", self.shared.uri.clone()),
            ("PMIX_FRAMED_URI", self.framed_uri()),
            ("PMIX_HOSTNAME", self.shared.hostname.clone()),
            (pmix_proto::proof::VARIABLE, secret.variable(&self.shared.server)),
        ];
        let mut environment: Vec<_> =
            vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some((root, to)) = &self.shared.traces {
            environment.push((trace::VARIABLE.to_owned(), root.to_string()));
            let to = Some(to).filter(|to| !to.is_empty());
            environment.extend(to.map(|to| (trace::TO_VARIABLE.to_owned(), to.clone())));
        }
        let job = match self.shared.native.is_some() || self.shared.pmi1.is_some() {
            true => self.job_data(&proc.nspace).await.ok(),
            false => None,
        };
        if let Some((uri, wire)) = &self.shared.native {
            let mut launch =
                pmix_native::env::Launch::new(uri.clone(), proc.clone(), self.shared.hostname.clone());
            // launchers among the processes of another user could not use it
            launch.server_tmpdir =
                Some(self.shared.dir.clone()).filter(|_| !job.as_deref().is_some_and(is_of_other));
            launch.open_mpi_4 = wire.marks_launches_for_open_mpi_4();
            for (name, value) in launch.variables() {
                if !environment.iter().any(|(held, _)| held == name) {
                    environment.push((name.to_owned(), value));
                }
            }
        } else {
            // this server may be a process of another launcher, whose server its own processes must not take for theirs
            let inherited = Dialect::ALL.into_iter().map(Dialect::uri_variable);
            let inherited = inherited.filter(|name| std::env::var_os(name).is_some());
            environment.extend(inherited.map(|name| (name.to_owned(), String::new())));
        }
        let mut defaults = Vec::new();
        if let Some(job) = job {
            if self.shared.native.is_some() {
                environment.extend(open_mpi::place(&job, proc.rank));
                defaults.extend(open_mpi::parameters(&job, &self.shared.hostname));
            }
            if let Some(pmi1) = &self.shared.pmi1 {
                environment.extend(pmi1.variables(&job, proc));
                defaults.extend(pmi1::parameters());
            }
        }
        let pmi1 = self.shared.pmi1.as_ref().map(|pmi1| pmi1.socket(proc));
        Ok(Environment { changes, variables: environment, defaults, pmi1 })
    }

    /// Returns the data of a local process, for the server of another node. Waits until the process has committed, or, with
    /// `REQUIRED_KEY`, until it has committed that key (DMX-02, DMX-03). For rank `WILDCARD`, returns the job-level data of
    /// the namespace. Has no time limit of its own; the requesting server enforces one. With `IMMEDIATE`, returns what is there
    /// now, also if that is nothing.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if the process is not on this node or has ended, or with `IMMEDIATE` if it, its namespace or the
    /// required key is not known here yet; `ERR_EXISTS_OUTSIDE_SCOPE` if the required key was put for local processes only.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_dmodex_request")]
    pub async fn dmodex_request(&self, proc: &ProcId, directives: Directives) -> Result<Bytes, Failure> {
        self.inbox.call(HostCall::DmodexRequest { proc: proc.clone(), directives }).await
    }

    /// Waits until the outcome of a collective on this node is known, for another node that waits for it. `operation` is the
    /// fence, connect or disconnect that a process on that node requested. Returns when an operation of these participants
    /// ends on this node, or when none of them can enter it any more. A host should call this if other nodes wait for an
    /// operation for which it has received no upcall: otherwise it would not learn that all participants here have already
    /// ended (CON-12). An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for another kind of request, or one without participants; `ERR_OUT_OF_RESOURCE` if too many of these
    /// calls are pending; `ERR_INVALID_NAMESPACE` and the like when a participating namespace ends; `ERR_INIT` after the
    /// server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn collective_status(&self, operation: Request) -> Result<Presence, Failure> {
        self.inbox.call(HostCall::Absence(operation)).await
    }

    /// Notifies local processes of an event. Its source is [`ProcId::none`] for an event of the host itself (EVT-12).
    /// Returns once the event is in the server's queue, before whatever reaches the server later.
    ///
    /// # Errors
    /// Only `ERR_INIT`, after the server has stopped. Success does not mean that the event was delivered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_Notify_event")]
    pub async fn notify_event(&self, event: Event) -> Result<(), Failure> {
        self.inbox.tell(HostCall::NotifyEvent(event)).await
    }

    /// Notifies local processes of an event from a process on another node that runs as `uid`. Processes and tools of other
    /// users do not receive it. Returns as [`notify_event`](Self::notify_event) does.
    ///
    /// # Errors
    /// Only `ERR_INIT`, after the server has stopped. Success does not mean that the event was delivered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn notify_event_as(&self, event: Event, uid: impl Into<Uid>) -> Result<(), Failure> {
        self.inbox.tell(HostCall::NotifyEventOf { event, uid: uid.into() }).await
    }

    /// Delivers output of a process to its subscribers (IOF-05). Returns when the bytes are no longer needed.
    ///
    /// Output without a subscriber is kept for the first one, if the namespace is registered: the first 64 KiB of each channel
    /// of each process, 16 MiB of all processes of a user. `IOF_CACHE_SIZE` and `IOF_DROP_OLDEST` in `info` change these limits; they are not
    /// passed on. `IOF_COMPLETE` marks the channel as closed (IOF-08). To keep the order of a channel, await each call before
    /// the next (IOF-09).
    ///
    /// A subscriber that reads too slowly never delays this call: it loses output, and is told how many bytes.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a directive in `info` of the wrong type, `ERR_INIT` after the server has stopped.
    /// Success does not mean that the output was delivered.
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

    /// Returns the job-level data that the server holds for a namespace.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered, `ERR_BAD_PARAM` for a text that is not a name.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn job_data(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<Arc<JobData>, Failure> {
        let nspace = nspace.try_into().map_err(Into::into)?;
        self.inbox.call(HostCall::JobData(nspace)).await
    }

    /// Reports the start of a process, with its process id on this node. Optional: it lets [`waits`](Self::waits),
    /// queries and errors name the pid of a process that has not connected yet.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if it is not registered.
    ///
    /// # Cancel safety
    /// As for [`ServerHandle::register_nspace`].
    pub async fn client_started(&self, proc: &ProcId, pid: i32) -> Result<(), Failure> {
        self.call(HostCall::ClientStarted { proc: proc.clone(), pid }).await
    }

    /// Returns the operations that are not complete on this server, those that have waited longest first: of these
    /// namespaces, or of all if none is named. Empty after the server has stopped.
    ///
    /// A server knows only the participants on its own node; [`Wait::merged`] combines the reports of several
    /// servers.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn waits(&self, nspaces: &[Nspace]) -> Vec<Wait> {
        self.inbox.call(HostCall::Waits(nspaces.to_vec())).await.unwrap_or_default()
    }

    /// Returns the flight recorder as text: a header, a line for each of the [last
    /// entries](crate::ServerBuilder::record), then a line for each operation that waits. Empty after the server has
    /// stopped.
    ///
    /// Each server has its own record. It covers the jobs of all users: show it only to the user of the server.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn record(&self) -> String {
        self.inbox.call(HostCall::Record).await.unwrap_or_default()
    }

    /// Returns the server's counters; all zero after the server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn stats(&self) -> ServerStats {
        let Ok(mut stats) = self.inbox.call::<Box<ServerStats>>(HostCall::Stats).await else {
            return ServerStats::default();
        };
        stats.refused += self.shared.door.turned_away();
        *stats
    }

    pub(crate) async fn call(&self, call: HostCall) -> Result<(), Failure> {
        self.inbox.call(call).await
    }
}

/// Whether a job is known to be that of another user than this process.
fn is_of_other(job: &JobData) -> bool {
    let user = job.lookup(keys::USERID.name(), &Target::Job).and_then(|value| value.get().ok());
    user.is_some_and(|user: Uid| user != own_uid())
}
