//! The host itself: its state, and which file carries out each of its upcalls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Directives, Nspace, ProcId, Rank, Status, keys};

use super::attributes::taken_by;
use super::cluster::Shared;
use super::peer::Answers;
use super::publish::Publishing;
use super::start::JobEntry;
use super::store::User;
use super::supervise::Control;
use super::syslog::Syslog;
use super::{Exchange, Launcher};
use pmix_server::ServerHandle;
use pmix_server::host::{
    Abort, Capabilities, ClientConnected, ClientFinalized, ClientLost, ConnectRequest, Connected,
    DirectModexRequest, Disconnect, Event, FenceRequest, Found, GroupRequest, Grouped, HostError, HostModule,
    HostResult, Infos, IofPullRequest, IofPush, JobControl, Log, Lookup, Publish, QueryRequest, QueryResults,
    Spawn, ToolConnected, Unpublish, Upcall, UpcallContext,
};

/// A ready host: give it a [`Launcher`] and an [`Exchange`] and it is a resource manager.
///
/// It starts jobs ([`StandardHost::start_job`]), watches them, and serves the upcalls: fences and direct modex
/// over the exchange, connect and disconnect, groups, abort, published data of all nodes, spawn, log, queries with process
/// tables, events for the processes of other nodes, tools of the same user, forwarding of output and input. Cheap to
/// clone.
///
/// # Several nodes
/// One process may hold the servers of several nodes ([`StandardHost::cluster`]): a job that is started on any of them
/// spans all. Servers in processes of their own, one for each node, are joined by an [`Exchange`] that reaches them:
/// fences, direct modex, connect, groups, published data and events then span the nodes, for jobs that whoever starts
/// their processes has registered with each server ([`ServerHandle::register_nspace`]); the example `tcp_exchange` does
/// that. A job that a `StandardHost` starts
/// itself, by [`start_job`](Self::start_job) or a process's spawn, runs on the nodes of its own process only:
/// [`Launcher::nodes`] must name no others.
///
/// Published data of all nodes is kept by one of them: the first by name. When that one cannot be reached, publish,
/// lookup and unpublish fail with `ERR_UNREACH`. What each user may have published is bounded: see
/// [`PublishLimits`](super::PublishLimits).
/// The jobs it has started end what their processes have published for that long; for jobs that others have
/// started, a lost connection ends a process, and deregistration the job. A session ends when
/// [`StandardHost::end_session`] says so.
///
/// On a server with [`other_users`](pmix_server::ServerBuilder::other_users), what processes of other users ask for is refused
/// with `ERR_NO_PERMISSIONS` unless it is about their own user's jobs. What they spawn runs as their user, if the launcher
/// can do that ([`Launcher::starts_as_others`]), and is refused with `ERR_NOT_SUPPORTED` if it cannot. Tools of other users
/// are refused.
///
/// A directive that is required and that it does not know is refused with `ERR_NOT_SUPPORTED` (GEN-05); a fence
/// is refused for all of its participants. The name of a job that spans several servers must not be used again:
/// they number its fences, and may still remember those of the old one.
///
/// Hand a clone to [`ServerBuilder::host`](pmix_server::ServerBuilder::host) and keep one to start jobs with.
#[derive(Clone)]
pub struct StandardHost(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    pub(super) exchange: Arc<dyn Exchange>,
    handle: OnceLock<ServerHandle>,
    /// Fences so far by their participants: all servers count alike.
    pub(super) rounds: Mutex<BTreeMap<String, Rounds>>,
    /// Namespaces of connected groups with those of their members.
    pub(super) assemblies: Mutex<BTreeMap<Nspace, BTreeSet<Nspace>>>,
    /// Names for them that were proposed from here.
    pub(super) assembled: AtomicU32,
    /// Numbers for groups that were proposed from here.
    pub(super) contexts: AtomicU64,
    tools: AtomicU32,
    syslog: OnceLock<Syslog>,
    pub(super) publishing: Publishing,
}

/// The fences of one set of participants.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) nspaces: BTreeSet<Nspace>,
    /// How many have begun.
    pub(super) count: u64,
}

impl Inner {
    /// The way to this node's syslog; that of most systems, unless another is given first.
    pub(super) fn syslog(&self) -> &Syslog {
        self.syslog.get_or_init(Syslog::default)
    }

    pub(super) fn set_syslog(&self, syslog: Syslog) {
        let _ = self.syslog.set(syslog);
    }
}

impl fmt::Debug for StandardHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandardHost").field("node", &self.0.exchange.node()).finish_non_exhaustive()
    }
}

impl StandardHost {
    /// A host that starts processes with the launcher and reaches other servers through the exchange.
    ///
    /// It starts them on its own node; [`StandardHost::cluster`] makes hosts for several.
    pub fn new(launcher: impl Launcher, exchange: impl Exchange) -> Self {
        let shared = Arc::new(Shared::new(Arc::new(launcher)));
        let host = Self::on_node(shared.clone(), Arc::new(exchange));
        shared.belongs_to([&host]);
        host
    }

    pub(super) fn on_node(shared: Arc<Shared>, exchange: Arc<dyn Exchange>) -> Self {
        Self(Arc::new(Inner {
            shared,
            exchange,
            handle: OnceLock::new(),
            rounds: Mutex::default(),
            assemblies: Mutex::default(),
            assembled: AtomicU32::new(0),
            contexts: AtomicU64::new(0),
            tools: AtomicU32::new(0),
            syslog: OnceLock::new(),
            publishing: Publishing::default(),
        }))
    }

    pub(super) fn handle(&self) -> HostResult<&ServerHandle> {
        let missing = || {
            HostError::new(
                Status::ERR_INIT,
                "the host has no server yet: give it to Server::builder().host() and start that",
            )
        };
        self.0.handle.get().ok_or_else(missing)
    }

    pub(super) fn jobs(&self) -> MutexGuard<'_, BTreeMap<Nspace, JobEntry>> {
        lock(&self.0.shared.jobs)
    }

    fn control(&self, nspace: &Nspace, control: Control) {
        if let Some(job) = self.jobs().get(nspace) {
            // the job may just have ended
            let _ = job.control.send(control);
        }
    }

    /// The same as an answer.
    fn note(&self, nspace: &Nspace, control: Control) -> HostResult<()> {
        self.control(nspace, control);
        Ok(())
    }

    fn abort_jobs(&self, cx: &UpcallContext, req: &Abort) -> HostResult<()> {
        let caller = &cx.caller.nspace;
        if req.procs.iter().any(|proc| !proc.rank.is_wildcard()) {
            let message = "single processes cannot be aborted here: abort all of a namespace (rank WILDCARD)";
            return Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        let targets: Vec<&Nspace> = if req.procs.is_empty() {
            vec![caller]
        } else {
            req.procs.iter().map(|proc| &proc.nspace).collect()
        };
        let jobs = self.jobs();
        if let Some(stranger) = targets.iter().find(|nspace| !jobs.contains_key(**nspace)) {
            let message =
                format!("{stranger} was not started by this resource manager, so it cannot be aborted");
            return Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        drop(jobs);
        for nspace in targets {
            let (by, message) = (cx.caller.clone(), req.message.clone());
            // looked at before the caller is answered and ends: who dies after that may have died of the abort
            let dead = self.dead_unseen(nspace);
            self.control(nspace, Control::Abort { by, status: req.status, message, dead });
        }
        Ok(())
    }

    /// Processes that have ended by what the launcher knows, whether that has been heard of or not.
    fn dead_unseen(&self, nspace: &Nspace) -> Vec<Rank> {
        let mut rows = self.process_table(nspace);
        rows.retain(|row| self.0.shared.launcher.has_ended(&row.proc));
        rows.into_iter().map(|row| row.proc.rank).collect()
    }

    /// Gives a tool its identity.
    fn let_tool_in(&self, mut req: ToolConnected) -> HostResult<ProcId> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        if let Some(wish) = req.wish {
            return Ok(wish);
        }
        let number = self.0.tools.fetch_add(1, Ordering::Relaxed);
        let nspace = Nspace::new(format!("{}.tool.{number}", self.handle()?.proc_id().nspace));
        let nspace = nspace.map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        Ok(ProcId::new(nspace, Rank::from_raw(0)))
    }
}

/// The entries, each behind the [gate](super::gate): with the processes of others that its request names.
macro_rules! behind_the_gate {
    ({ $($ungated:tt)* } $(
        $upcall:ident $method:ident($host:ident, $cx:ident, $req:ident: $request:ty) -> $answer:ty, of $named:expr
            => $work:expr;
    )+) => {
        /// What it serves; input only if the launcher takes it.
        const SERVED: &[Upcall] = &[Upcall::ClientLost, $(Upcall::$upcall),+];

        #[async_trait]
        impl HostModule for StandardHost {
            $($ungated)*

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$answer> {
                let ($host, $cx, $req) = (self, cx, req);
                self.admit(Upcall::$upcall, &User::of(cx), $named)?;
                $work
            })+
        }
    };
}

behind_the_gate! {
    {
        fn capabilities(&self) -> Capabilities {
            let takes_input = self.0.shared.launcher.takes_stdin();
            SERVED
                .iter()
                .copied()
                .filter(|upcall| takes_input || *upcall != Upcall::PushStdin)
                .fold(Capabilities::none(), |all, upcall| all.with_attributes(upcall, taken_by(upcall)))
        }

        /// A second server is ignored: one host serves one node.
        fn started(&self, handle: &ServerHandle) {
            if self.0.handle.set(handle.clone()).is_ok() {
                let answers = Answers(Arc::downgrade(&self.0));
                self.0.exchange.serve(Arc::new(answers));
            }
        }

        async fn client_lost(&self, cx: &UpcallContext, req: ClientLost) -> HostResult<()> {
            self.forget_lost(&req.proc);
            if self.jobs().contains_key(&req.proc.nspace) {
                self.control(&req.proc.nspace, Control::Lost { rank: req.proc.rank, order: cx.id });
            } else {
                self.announce_loss(cx, req.proc).await;
            }
            Ok(())
        }
    }

    ClientConnected client_connected(host, _cx, req: ClientConnected) -> (), of &[]
        => host.note(&req.proc.nspace, Control::Connected(req.proc.rank));
    ClientFinalized client_finalized(host, _cx, req: ClientFinalized) -> (), of &[]
        => host.note(&req.proc.nspace, Control::Finalized(req.proc.rank));
    Abort abort(host, cx, req: Abort) -> (), of &req.procs
        => host.abort_jobs(cx, &req);
    Fence fence(host, cx, req: FenceRequest) -> Bytes, of &req.procs
        => host.carry_out_fence(cx, req).await;
    Connect connect(host, cx, req: ConnectRequest) -> Connected, of &req.procs
        => host.carry_out_connect(cx, req).await;
    Disconnect disconnect(host, cx, req: Disconnect) -> (), of &req.procs
        => host.carry_out_disconnect(cx, req).await;
    Group group(host, cx, req: GroupRequest) -> Grouped, of &req.procs
        => host.carry_out_group(cx, req).await;
    Publish publish(host, cx, req: Publish) -> (), of &[]
        => host.publish_data(cx, req).await;
    Lookup lookup(host, cx, req: Lookup) -> Found, of &[]
        => host.look_up(cx, req).await;
    Unpublish unpublish(host, cx, req: Unpublish) -> (), of &[]
        => host.unpublish_data(cx, req).await;
    Spawn spawn(host, cx, req: Spawn) -> Nspace, of &[]
        => host.spawn_child(cx, req).await;
    Log log(host, cx, req: Log) -> (), of &[]
        => host.write_log(cx, req).await;
    JobControl job_control(host, cx, req: JobControl) -> Infos, of &host.those_here(&req.targets)
        => host.control_jobs(cx, req).await;
    NotifyEvent notify_event(host, cx, req: Event) -> (), of &[]
        => host.carry_event(cx, req).await;
    // its end takes back what it was given
    IofPull iof_pull(host, cx, req: IofPullRequest) -> (), of if req.start { &req.pull.procs } else { &[] }
        => host.change_forwarding(cx, req);
    PushStdin push_stdin(host, _cx, req: IofPush) -> (), of &req.targets
        => host.take_input(req).await;
    DirectModex direct_modex(host, cx, req: DirectModexRequest) -> Bytes, of &[]
        => host.fetch_data(cx, req).await;
    Query query(host, cx, req: QueryRequest) -> QueryResults, of &[]
        => host.answer_queries(&User::of(cx), req);
    ToolConnected tool_connected(host, _cx, req: ToolConnected) -> ProcId, of &[]
        => host.let_tool_in(req);
}

/// The identity that comes with a request is that of the context.
pub(super) fn take_identity(directives: &mut Directives) -> HostResult<()> {
    directives.take::<u32>(&keys::USERID)?;
    directives.take::<u32>(&keys::GRPID)?;
    Ok(())
}

/// A panic elsewhere leaves these tables whole: each lock holds one change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
