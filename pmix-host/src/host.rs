//! The host itself: routes each upcall to its service.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::host::{
    Abort, Allocate, BootstrapRequest, Bootstrapped, Capabilities, ClientConnected, ClientFinalized,
    ClientLost, ConnectRequest, Connected, Credential, DirectModexRequest, DisconnectRequest, Event,
    FenceRequest, GetCredential, GroupRequest, Grouped, HostModule, HostResult, Infos, IofPullRequest,
    IofPush, JobControl, Log, Lookup, LookupResult, Publish, QueryRequest, QueryResults, Spawn,
    ToolConnected, ToolFinalized, ToolLost, Unpublish, Upcall, UpcallContext, ValidateCredential,
};
use pmix_server::{ServerHandle, ServerStats};
use pmix_types::{Nspace, ProcId, ProcInfo};

use crate::answers::Answers;
use crate::attributes::taken_by;
use crate::internode::{News, Site};
use crate::jobs::{Cluster, Control, JobStart, Node, Records, RunningJob, StartError};
use crate::services::Services;
use crate::stats::HostStats;
use crate::store::{Ended, PublishLimits};
use crate::tools::counts_of_all;
use crate::user::User;
use crate::{Exchange, Launcher};

/// A ready host: with a [`Launcher`] and an [`Exchange`] it is a resource manager.
///
/// It starts jobs ([`StandardHost::start_job`]), watches them, and serves the upcalls: fences and direct modex
/// over the exchange, connect and disconnect, groups, abort, published data of all nodes, spawn, log, queries with process
/// tables, events for the processes of other nodes, tools of the same user, forwarding of output and input, credentials. Cheap to
/// clone.
///
/// # Allocations
/// A process may reserve slots of the nodes (processors reported by [`Launcher::machine`]) for a time, and start jobs in them
/// (ALC-01). Jobs outside any allocation are not restricted. An allocation ends when its time is over, when it is released, or
/// with the job of its holder; processes not started by this host must set a time. An event `ALLOC_TIMEOUT_WARNING` announces
/// the end a tenth of its time before, a minute at most, or as set by `ALLOC_WARN_TIMEOUT`. Jobs still running at the end
/// are terminated with status `ERR_TIMEOUT`. Allocations cover the nodes that the launcher of this host names: those
/// whose servers are in its process or, for a [`head`](StandardHost::head), all its members. Members pass requests for
/// allocations on to the head.
///
/// # Credentials
/// Credentials of type `hmac`, the default, name the requester's user and group as reported by the kernel. Whoever gets the bytes can
/// have any of the hosts validate them, any number of times, for 300 seconds; other systems cannot validate them. Credentials of type `munge` come
/// from the node's MUNGE daemon and are valid wherever MUNGE says so, once for each daemon. Those of other users' processes
/// require a server that can become other users.
///
/// # Several nodes
/// One process may contain the servers of several nodes ([`StandardHost::cluster`]): a job that is started on any of
/// them spans all. Servers in separate processes, one for each node, are connected by an [`Exchange`] that reaches
/// them. Fences, direct modex, connect, groups, published data and events then span the nodes, for jobs that are
/// registered with each server ([`ServerHandle::register_nspace`]) by whoever starts their processes; the example
/// `tcp_exchange` does that. A job that a `StandardHost` starts itself, by [`start_job`](Self::start_job) or for a
/// spawn, runs only on nodes whose servers are in its own process: [`Launcher::nodes`] must name no others. With a
/// [`head`](StandardHost::head) and its [`members`](StandardHost::member), jobs run on servers in separate processes.
///
/// One node, the first by name, keeps the published data of all nodes. When it cannot be reached, publish, lookup and
/// unpublish fail with `ERR_UNREACH`. The published data of each user is bounded: see
/// [`PublishLimits`](super::PublishLimits). Data with the persistence of its process or application is removed when that
/// ends. For jobs that this host has not started, a lost connection counts as the end of the process (finalize does not),
/// and deregistration, which is noticed within seconds, as the end of the job. A session ends when
/// [`StandardHost::end_session`] is called.
///
/// On a server with [`other_users`](pmix_server::ServerBuilder::other_users), requests of other users' processes are
/// refused with `ERR_NO_PERMISSIONS` unless they concern their own user's jobs. Jobs that they spawn run as their user
/// if the launcher can do that ([`Launcher::supports_user_switch`]); otherwise the spawn is refused with
/// `ERR_NOT_SUPPORTED`. Tools of other users are refused, unless the host [serves them](StandardHost::allow_other_users).
///
/// A request with an unknown required directive is refused with `ERR_NOT_SUPPORTED` (GEN-05); a fence is refused for
/// all of its participants. Do not reuse the name of a job that spans several servers: they count its fences, and may
/// still remember those of the old job.
///
/// Pass a clone to [`ServerBuilder::host`](pmix_server::ServerBuilder::host) and keep one to start jobs with.
///
/// # Examples
/// A job on a launcher for tests, whose processes end at once:
/// ```
/// use pmix_host::{JobStart, LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange, ProcExit, StandardHost};
/// use pmix_server::types::{App, ProcId};
/// use pmix_server::{Server, async_trait};
/// use tokio::sync::mpsc;
///
/// struct Instant;
///
/// #[async_trait]
/// impl Launcher for Instant {
///     fn nodes(&self) -> Vec<String> {
///         vec!["n0".into()]
///     }
///
///     async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
///         // the reports may come later: the channel is bounded
///         tokio::spawn(async move {
///             for proc in &job.procs {
///                 let proc = ProcId::new(job.nspace.clone(), proc.rank);
///                 let _ = reports.send(LaunchReport::Ended { proc, exit: ProcExit::Code(0) }).await;
///             }
///         });
///         Ok(())
///     }
///
///     async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
///         Ok(()) // all have ended
///     }
///
///     async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let host = StandardHost::new(Instant, MemoryExchange::single("n0"));
/// let server = Server::builder().host(host.clone()).hostname("n0");
/// # let server = server.session_root(dir.path());
/// let server = server.start().await?;
/// let mut job = host.start_job(JobStart::new("job-1".parse()?, vec![App::new("a.out", 4)])).await?;
/// let outcome = job.outcome().await.ok_or("the server has stopped")?;
/// assert_eq!((outcome.exit_code, outcome.procs.len()), (0, 4));
/// server.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct StandardHost(pub(crate) Arc<Services>);

impl fmt::Debug for StandardHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandardHost").field("node", &self.0.site.node()).finish_non_exhaustive()
    }
}

impl StandardHost {
    /// A host that starts processes with the launcher and reaches other servers through the exchange. Either may be an
    /// `Arc`, if the caller keeps it too.
    ///
    /// Jobs run on its own node; [`StandardHost::cluster`] makes hosts for several nodes.
    pub fn new(launcher: impl Launcher, exchange: impl Exchange) -> Self {
        let cluster = Arc::new(Cluster::new(Arc::new(launcher)));
        let host = Self(Arc::new(Services::new(cluster.clone(), Arc::new(Site::new(Arc::new(exchange))))));
        cluster.add_nodes([host.node()]);
        host
    }

    /// Hosts for the servers of several nodes in this process: one for each exchange, in that order.
    ///
    /// They share the launcher, which must use the same names of nodes as the exchanges, and the jobs. A job started by
    /// any of them is registered with the servers of all nodes, and each of its processes connects to the server of its
    /// own node. If one server learns of a death or an abort, all nodes of the job act on it.
    ///
    /// # Examples
    /// ```
    /// use pmix_server::Server;
    /// use pmix_host::{MemoryExchange, StandardHost};
    /// # use pmix_host::{LaunchError, LaunchJob, LaunchReport, Launcher};
    /// # #[derive(Debug)] struct MyLauncher;
    /// # #[pmix_server::async_trait] impl Launcher for MyLauncher {
    /// #     fn nodes(&self) -> Vec<String> { vec!["n0".into(), "n1".into()] }
    /// #     async fn launch(
    /// #         &self, _: LaunchJob, _: tokio::sync::mpsc::Sender<LaunchReport>,
    /// #     ) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn signal(&self, _: &[pmix_types::ProcId], _: i32) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn terminate(&self, _: &[pmix_types::ProcId]) -> Result<(), LaunchError> { Ok(()) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let nodes = ["n0", "n1"];
    /// let hosts = StandardHost::cluster(MyLauncher, MemoryExchange::cluster(nodes));
    /// let mut servers = Vec::new();
    /// for (host, node) in hosts.iter().zip(nodes) {
    ///     let server = Server::builder().host(host.clone()).hostname(node);
    /// #   let server = server.session_root(dir.path());
    ///     servers.push(server.start().await?);
    /// }
    /// assert_eq!(servers.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn cluster<X: Exchange>(
        launcher: impl Launcher,
        exchanges: impl IntoIterator<Item = X>,
    ) -> Vec<Self> {
        let cluster = Arc::new(Cluster::new(Arc::new(launcher)));
        let site = |exchange| Arc::new(Site::new(Arc::new(exchange)));
        let host = |exchange| Self(Arc::new(Services::new(cluster.clone(), site(exchange))));
        let hosts: Vec<Self> = exchanges.into_iter().map(host).collect();
        cluster.add_nodes(hosts.iter().map(Self::node));
        hosts
    }

    /// This node, as jobs speak to it.
    pub(crate) fn node(&self) -> std::sync::Weak<dyn Node> {
        let node: Arc<dyn Node> = self.0.node.clone();
        Arc::downgrade(&node)
    }

    /// Sets the limits of published data for each user. Call this on the node that keeps the data, the first by name,
    /// before its server starts.
    #[must_use]
    pub fn with_publish_limits(self, limits: PublishLimits) -> Self {
        self.0.published.set_limits(limits);
        self
    }

    /// Sets where the [flight record](ServerHandle::record) of the server is written when a job fails. The first call
    /// counts.
    ///
    /// A job that fails, or is ended by a call of abort, by its owner or by its time limit, has a file on each node:
    /// `record.<job>.<node>.<time>.txt`, for the server's user only.
    /// [`JobReport::Recorded`](crate::JobReport::Recorded) names it. A node keeps the last eight and removes older
    /// ones. Without this call, they are in the session directory of each server ([`Records::Session`]) and are
    /// removed with it: name a directory if the server ends with the job.
    #[must_use]
    pub fn with_records(self, place: Records) -> Self {
        self.0.records.set_place(place);
        self
    }

    /// Lets tools of other users in, on a server with [`other_users`](pmix_server::ServerBuilder::other_users). They see, control and
    /// read jobs of their user, start jobs that run as that, and nothing else; the server names them. A
    /// [member](Self::member) starts jobs of other users at the word of its head.
    ///
    /// The launcher must be able to start processes [as others](Launcher::supports_user_switch), or their jobs are refused.
    #[must_use]
    pub fn allow_other_users(self) -> Self {
        self.0.gate.serve_others();
        self
    }

    /// Sets the socket of the node's MUNGE daemon, which issues credentials of type `munge` (CRD-01). By default,
    /// that of MUNGE's own programs. The first call counts.
    #[must_use]
    pub fn with_munge_socket(self, socket: impl AsRef<std::path::Path>) -> Self {
        self.0.credentials.set_munge(socket.as_ref());
        self
    }

    /// Sets a program like `sendmail`, which sends the mails that processes log (`LOG_EMAIL`): it is called with `-i
    /// -- RECIPIENT...` and reads a message with its headers. The first call counts. Without one, mails are refused.
    ///
    /// The first node by name sends the mails of all nodes (LOG-06). The program runs with the permissions of the user whose
    /// process logs the mail; mails of other users are refused unless the server can assume their permissions. It has
    /// ten seconds for each mail, and four run at a time. A process cannot choose the mail server.
    #[cfg(feature = "mail")]
    #[must_use]
    pub fn with_mail_program(self, program: impl AsRef<std::path::Path>) -> Self {
        self.0.logger.set_mail_program(program.as_ref());
        self
    }

    /// Sets the socket of the node's syslog, by default `/dev/log` (LOG-06). The first call counts.
    #[cfg(feature = "syslog")]
    #[must_use]
    pub fn with_syslog(self, socket: impl AsRef<std::path::Path>) -> Self {
        self.0.logger.set_syslog(socket.as_ref());
        self
    }

    #[cfg(feature = "durable")]
    /// Keeps data that is published with [`Persistence::INDEF`](pmix_types::Persistence::INDEF) in a file, so that it
    /// outlasts the server, however the server ends.
    ///
    /// A publish with that persistence returns when its data is on disk. Data that is already in the file is published
    /// from the start, with its former publishers, ranges and access. Call this on the node that keeps the data, the
    /// first by name, before its server starts; on other nodes the file stays empty. A missing file is created,
    /// accessible to its owner only. A second call opens its file, but has no other effect.
    ///
    /// # Errors
    /// [`DurableError`](crate::DurableError) if the file is in use, damaged, or of another kind or format. It is never replaced.
    ///
    /// # Examples
    /// ```
    /// use pmix_host::{DurableError, MemoryExchange, StandardHost};
    /// # use pmix_host::{Launcher, LaunchError, LaunchJob, LaunchReport};
    /// # use pmix_server::{async_trait, types::ProcId};
    /// # struct MyLauncher;
    /// # #[async_trait] impl Launcher for MyLauncher {
    /// #     fn nodes(&self) -> Vec<String> { vec!["n0".into()] }
    /// #     async fn launch(&self, _: LaunchJob, _: tokio::sync::mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> { Ok(()) }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let file = dir.path().join("published");
    /// let host = StandardHost::new(MyLauncher, MemoryExchange::single("n0")).with_durable_store(&file)?;
    ///
    /// let other = StandardHost::new(MyLauncher, MemoryExchange::single("n0")).with_durable_store(&file);
    /// assert!(matches!(other, Err(DurableError::InUse { .. })));
    /// # Ok(()) }
    /// ```
    pub fn with_durable_store(self, path: impl AsRef<std::path::Path>) -> Result<Self, crate::DurableError> {
        let (file, records) = crate::publish::open(path.as_ref())?;
        // all of them can be read
        let _ = self.0.published.keep_on(Arc::new(file), &records);
        Ok(self)
    }

    /// Has data that is published with [`Persistence::INDEF`](pmix_types::Persistence::INDEF) kept by a store of your own, as
    /// [`with_durable_store`](Self::with_durable_store) does by a file: a publish with that persistence returns when the store has its
    /// records. `records` is what the store has from an earlier host: it is published from the start. Call this on the node that keeps the data,
    /// before its server starts. The first store counts.
    ///
    /// # Errors
    /// [`UnreadableRecord`](crate::UnreadableRecord) names a record that cannot be read.
    pub fn with_durable(
        self,
        store: impl crate::DurableStore,
        records: &[crate::DurableRecord],
    ) -> Result<Self, crate::UnreadableRecord> {
        self.0.published.keep_on(Arc::new(store), records)?;
        Ok(self)
    }

    /// Starts a job: registers it with the servers, launches its processes, and watches them until all have ended.
    ///
    /// Ranks are numbered application by application and placed on the nodes in blocks, as evenly as possible: on all
    /// nodes of the launcher, unless `HOST` or `HOSTFILE` selects some (SPN-02). Applications that name the same nodes
    /// share them.
    ///
    /// # Errors
    /// [`StartError`] names the process, program, node and cause; nothing is left running or registered.
    ///
    /// # Cancel safety
    /// Not cancel-safe: a dropped future may leave processes running until the launcher is dropped.
    pub async fn start_job(&self, start: JobStart) -> Result<RunningJob, StartError> {
        self.0.jobs.start_unless(start, self.0.site.node(), std::future::pending()).await
    }

    /// Waits until a tool of the server's user asks this host to end, by job control with `JOB_CTRL_TERMINATE` for all processes of the
    /// server's own namespace, and returns the identity of the tool. Such requests are refused until this is called. For the head of a
    /// DVM, which then calls [`end_jobs`](Self::end_jobs) and stops its server.
    ///
    /// # Cancel safety
    /// Cancel-safe: a request stays known.
    pub async fn shutdown_requested(&self) -> ProcId {
        self.0.controller.shutdown_requested().await
    }

    /// Refuses further jobs with `ERR_JOB_CANCELED`, ends all that run, first by a request and after the launcher's grace period by
    /// force, and returns when they have ended.
    ///
    /// # Cancel safety
    /// Cancel-safe: jobs are still refused, and those that run still end.
    pub async fn end_jobs(&self) {
        self.0.jobs.end_all().await;
    }

    /// The process table of a running job that this host has started; empty for any other.
    pub fn process_table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        self.0.table.rows(nspace)
    }

    /// What its jobs and nodes have done, and what there is now.
    pub fn stats(&self) -> HostStats {
        HostStats::of(&self.0.table, &*self.0.launcher)
    }

    /// What the server of this node, and those of the nodes on which this host starts jobs, have counted, by the names of the nodes, this one
    /// first. `None` of a node that is lost, or does not answer within half a second. Empty before the server of this host has started.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn server_stats(&self) -> Vec<(String, Option<ServerStats>)> {
        counts_of_all(&self.0.site, self.0.launcher.nodes()).await
    }

    /// Reports the end of a session: the one with this number or, with `None`, that of jobs without a session number.
    /// Removes data that its processes have published until its end (PUB-08).
    pub fn end_session(&self, session: Option<u32>) {
        self.0.published.forget(Ended::Session(session));
    }
}

/// The entries, each behind the [gate](super::gate): with the processes of others that its request names.
macro_rules! behind_the_gate {
    ({ $($ungated:tt)* } $(
        $upcall:ident $method:ident($host:ident, $cx:ident, $req:ident: $request:ty) -> $answer:ty, of $named:expr
            => $work:expr;
    )+) => {
        /// What it serves; input only if the launcher takes it.
        const SERVED: &[Upcall] = &[Upcall::ClientLost, Upcall::ToolFinalized, Upcall::ToolLost, $(Upcall::$upcall),+];

        #[async_trait]
        impl HostModule for StandardHost {
            $($ungated)*

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$answer> {
                let ($host, $cx, $req) = (&*self.0, cx, req);
                self.0.gate.admit(Upcall::$upcall, &User::of(cx), $named)?;
                $work
            })+
        }
    };
}

/// Those that look things up, pass them on, or await other nodes.
const NEVER_BLOCK: [Upcall; 16] = [
    Upcall::ClientConnected,
    Upcall::ClientFinalized,
    Upcall::ClientLost,
    Upcall::ToolFinalized,
    Upcall::ToolLost,
    Upcall::ToolConnected,
    Upcall::Fence,
    Upcall::Connect,
    Upcall::Disconnect,
    Upcall::Group,
    Upcall::Bootstrap,
    Upcall::DirectModex,
    Upcall::Publish,
    Upcall::Lookup,
    Upcall::Unpublish,
    Upcall::NotifyEvent,
];

behind_the_gate! {
    {
        fn capabilities(&self) -> Capabilities {
            let takes_input = self.0.launcher.takes_stdin();
            SERVED
                .iter()
                .copied()
                .filter(|upcall| takes_input || *upcall != Upcall::PushStdin)
                .fold(Capabilities::none(), |all, upcall| all.with_attributes(upcall, taken_by(upcall)))
                .begun_by_server(NEVER_BLOCK)
        }

        /// A second server is ignored: one host serves one node.
        fn started(&self, handle: &ServerHandle) {
            if self.0.site.set_server(handle) {
                self.0.site.serve(Arc::new(Answers(Arc::downgrade(&self.0))));
            }
        }

        async fn client_lost(&self, cx: &UpcallContext, req: ClientLost) -> HostResult<()> {
            self.0.published.forget_lost(&req.proc);
            if let Some(relay) = &self.0.relay {
                if !relay.lost(cx, req.proc.clone()).await? {
                    self.0.events.tell_of_loss(cx, req.proc).await;
                }
                return Ok(());
            }
            if self.0.table.contains(&req.proc.nspace) {
                self.0.table.tell(&req.proc.nspace, Control::Lost { rank: req.proc.rank, order: cx.id });
            } else {
                self.0.events.tell_of_loss(cx, req.proc).await;
            }
            Ok(())
        }

        async fn tool_finalized(&self, _: &UpcallContext, req: ToolFinalized) -> HostResult<()> {
            self.0.published.forget_tool(&req.proc);
            Ok(())
        }

        async fn tool_lost(&self, cx: &UpcallContext, req: ToolLost) -> HostResult<()> {
            self.0.published.forget_tool(&req.proc);
            match &self.0.relay {
                Some(relay) => relay.tell(cx, News::ToolLost(req.proc)).await.map(drop),
                None => {
                    self.0.table.end_jobs_of(&req.proc, self.0.site.node());
                    Ok(())
                }
            }
        }
    }

    ClientConnected client_connected(host, cx, req: ClientConnected) -> (), of &[]
        => {
            host.node.let_in(&req.proc).await?;
            match &host.relay {
                Some(relay) => relay.tell(cx, News::Connected(req.proc)).await.map(drop),
                None => { host.table.tell(&req.proc.nspace, Control::Connected(req.proc.rank)); Ok(()) }
            }
        };
    ClientFinalized client_finalized(host, cx, req: ClientFinalized) -> (), of &[]
        => match &host.relay {
            Some(relay) => relay.tell(cx, News::Finalized(req.proc)).await.map(drop),
            None => { host.table.tell(&req.proc.nspace, Control::Finalized(req.proc.rank)); Ok(()) }
        };
    Abort abort(host, cx, req: Abort) -> (), of host.judged(&req.procs)
        => match &host.relay {
            Some(relay) => relay.abort(cx, req).await,
            None => host.jobs.abort(cx, &req).await,
        };
    Fence fence(host, cx, req: FenceRequest) -> Bytes, of &req.procs
        => host.collectives.fence(cx, req).await;
    Connect connect(host, cx, req: ConnectRequest) -> Connected, of &req.procs
        => host.collectives.connect(cx, req).await;
    Disconnect disconnect(host, cx, req: DisconnectRequest) -> (), of &req.procs
        => host.collectives.disconnect(cx, req).await;
    Group group(host, cx, req: GroupRequest) -> Grouped, of &req.procs
        => host.collectives.group(cx, req).await;
    Bootstrap bootstrap(host, cx, req: BootstrapRequest) -> Bootstrapped, of &[]
        => host.collectives.bootstrap(cx, req).await;
    Publish publish(host, cx, req: Publish) -> (), of &[]
        => host.published.publish(cx, req).await;
    Lookup lookup(host, cx, req: Lookup) -> LookupResult, of &[]
        => host.published.look_up(cx, req).await;
    Unpublish unpublish(host, cx, req: Unpublish) -> (), of &[]
        => host.published.unpublish(cx, req).await;
    Spawn spawn(host, cx, req: Spawn) -> Nspace, of &[]
        => match &host.relay {
            Some(relay) => relay.spawn(cx, req).await,
            None => host.jobs.spawn(cx, req).await,
        };
    Log log(host, cx, req: Log) -> (), of &[]
        => host.logger.write(cx, req).await;
    JobControl job_control(host, cx, req: JobControl) -> Infos, of &host.table.those_here(&req.targets)
        => match &host.relay {
            Some(relay) if host.controller.is_end_of_host(&req)? => relay.end_host(cx).await,
            Some(relay) => relay.control(cx, req).await,
            None => host.controller.control(cx, req).await,
        };
    NotifyEvent notify_event(host, cx, req: Event) -> (), of &[]
        => host.events.carry(cx, req).await;
    // its end takes back what it was given
    IofPull iof_pull(host, cx, req: IofPullRequest) -> (), of if req.start { host.judged(&req.pull.procs) } else { &[] }
        => match &host.relay {
            Some(relay) => relay.pull(cx, req).await,
            None => host.forwarder.change_forwarding(host.site.node(), cx, req),
        };
    PushStdin push_stdin(host, cx, req: IofPush) -> (), of host.judged(&req.targets)
        => match &host.relay {
            Some(relay) => relay.push(cx, req).await,
            None => host.forwarder.take_input(req).await,
        };
    DirectModex direct_modex(host, cx, req: DirectModexRequest) -> Bytes, of &[]
        => host.modex.fetch(cx, req).await;
    Query query(host, cx, req: QueryRequest) -> QueryResults, of &[]
        => match &host.relay {
            Some(relay) => relay.query(cx, req).await,
            None => {
                let requester = User::of(cx);
                // nobody takes the answer if the connection is lost
                tokio::select! {
                    answer = host.queries.answer(&requester, host.site.node(), req) => answer,
                    () = cx.cancelled() => Err(pmix_types::Status::ERR_LOST_CONNECTION.into()),
                }
            }
        };
    Allocate allocate(host, cx, req: Allocate) -> Infos, of &[]
        => match &host.relay {
            Some(relay) => relay.allocate(cx, req).await,
            None => host.allocator.carry_out(cx, req).await,
        };
    GetCredential get_credential(host, cx, req: GetCredential) -> Credential, of &[]
        => host.credentials.issue(cx, req.directives).await;
    ValidateCredential validate_credential(host, cx, req: ValidateCredential) -> Infos, of &[]
        => host.credentials.validate(cx, req).await;
    ToolConnected tool_connected(host, cx, req: ToolConnected) -> ProcId, of &[]
        => host.identities.assign(cx.uid, req);
}
