use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::message::Failure;
use pmix_types::{
    DataArray, DataType, Directives, Info, Key, KeyName, Nspace, ProcId, Query, Rank, RankSet, Status, Value,
    keys,
};
use tokio::sync::watch;

use super::store::{Look, Store, User};
use super::supervise::{Control, JobEntry};
use super::{Exchange, ExchangeError, JobReport, LaunchReport, Launcher, OutputChannel, Responder};
use crate::engine::query_results;
use crate::host::{
    AbortRequest, Capabilities, ClientConnected, ClientFinalized, ClientLost, ConnectRequest, Connected,
    DirectModexRequest, DisconnectRequest, FenceRequest, Found, HostError, HostModule, HostResult,
    LogRequest, LookupRequest, PublishRequest, QueryRequest, QueryResults, SpawnRequest, ToolConnected,
    UnpublishRequest, Upcall, UpcallContext,
};
use crate::server::ServerHandle;

/// Removed from the Standard, still understood: whether an algorithm must be used (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

/// A ready host: give it a [`Launcher`] and an [`Exchange`] and it is a resource manager.
///
/// It starts jobs ([`StandardHost::start_job`]), watches them, and serves the upcalls: fences and direct modex
/// over the exchange, connect and disconnect, abort, published data on this node, spawn, log, queries with process
/// tables, tools of the same user. Cheap to clone.
///
/// A directive that is required and that it does not know is refused with `ERR_NOT_SUPPORTED` (GEN-05); a fence
/// is refused for all of its participants. The name of a job that spans several servers must not be used again:
/// they number its fences, and may still remember those of the old one.
///
/// Hand a clone to [`ServerBuilder::host`](crate::ServerBuilder::host) and keep one to start jobs with.
#[derive(Debug)]
pub struct StandardHost<L, X>(pub(super) Arc<Inner<L, X>>);

#[derive(Debug)]
pub(super) struct Inner<L, X> {
    pub(super) launcher: L,
    pub(super) exchange: X,
    handle: OnceLock<ServerHandle>,
    pub(super) jobs: Mutex<BTreeMap<Nspace, JobEntry>>,
    /// Fences so far by their participants: all servers count alike.
    rounds: Mutex<BTreeMap<String, Rounds>>,
    tools: AtomicU32,
    /// Jobs that processes have started.
    pub(super) spawned: AtomicU32,
    store: Mutex<Store>,
    /// Tells lookups that wait of new data.
    published: watch::Sender<()>,
}

/// The fences of one set of participants.
#[derive(Debug)]
struct Rounds {
    nspaces: BTreeSet<Nspace>,
    /// How many have begun.
    count: u64,
}

impl<L, X> Clone for StandardHost<L, X> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    /// A host that starts processes with the launcher and reaches other servers through the exchange.
    pub fn new(launcher: L, exchange: X) -> Self {
        Self(Arc::new(Inner {
            launcher,
            exchange,
            handle: OnceLock::new(),
            jobs: Mutex::default(),
            rounds: Mutex::default(),
            tools: AtomicU32::new(0),
            spawned: AtomicU32::new(0),
            store: Mutex::default(),
            published: watch::Sender::new(()),
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
        lock(&self.0.jobs)
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.0.store)
    }

    fn control(&self, nspace: &Nspace, control: Control) {
        if let Some(job) = self.jobs().get(nspace) {
            // the job may just have ended
            let _ = job.control.send(control);
        }
    }

    /// The number of a fence that begins, from 1.
    fn round(&self, participants: &str, procs: &[ProcId]) -> u64 {
        let mut rounds = lock(&self.0.rounds);
        let rounds = rounds.entry(participants.to_owned()).or_insert_with(|| Rounds {
            nspaces: procs.iter().map(|proc| proc.nspace.clone()).collect(),
            count: 0,
        });
        rounds.count += 1;
        rounds.count
    }

    /// Forgets the fences of namespaces that the server does not know any more.
    async fn forget_ended(&self) {
        let Ok(handle) = self.handle() else { return };
        let named: BTreeSet<Nspace> =
            lock(&self.0.rounds).values().flat_map(|rounds| rounds.nspaces.iter().cloned()).collect();
        for nspace in named {
            if handle.job_data(&nspace).await.is_err() {
                lock(&self.0.rounds).retain(|_, rounds| !rounds.nspaces.contains(&nspace));
            }
        }
    }

    /// Gives the other nodes' servers this one's part of an operation, and returns all parts joined; fails if the
    /// operation failed on one of them.
    async fn gather(&self, cx: &UpcallContext, gathering: Gathering) -> HostResult<Bytes> {
        let Gathering { what, procs, nodes, mut directives, data } = gathering;
        let id: Option<String> = directives.take(&keys::CONNECT_ID)?;
        let participants = format!("{what} {} {}", participants(&procs), id.as_deref().unwrap_or_default());
        let round = self.round(&participants, &procs);
        if round == 1 {
            // now and then is enough
            self.forget_ended().await;
        }
        // a refusal must reach all nodes, so it goes the way of the data
        let part = encode_answer(check_collective(directives).map(|()| data));
        let operation = format!("{participants} {round}");
        let gathered = tokio::select! {
            // first, so that the other nodes hear even of an operation that is cancelled already
            biased;
            gathered = self.0.exchange.all_gather(&operation, &nodes, part) => gathered,
            () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
        };
        let mut joined = BytesMut::new();
        for (node, part) in nodes.iter().zip(gathered.map_err(exchange_failure)?) {
            joined.put(decode_answer(part).map_err(|failure| failed_on(what, node, &failure))?);
        }
        Ok(joined.freeze())
    }

    fn answer_query(&self, query: &Query) -> Vec<Info> {
        query
            .keys
            .iter()
            .filter_map(|key| Some(Info::dynamic(key.clone(), self.answer_key(key, query)?)))
            .collect()
    }

    fn answer_key(&self, key: &KeyName, query: &Query) -> Option<Value> {
        let jobs = self.jobs();
        if **key == *keys::QUERY_NAMESPACES.name() {
            return Some(jobs.keys().map(Nspace::as_str).collect::<Vec<_>>().join(",").into());
        }
        let is_local = **key == *keys::QUERY_LOCAL_PROC_TABLE.name();
        if !is_local && **key != *keys::QUERY_PROC_TABLE.name() {
            return None;
        }
        let nspace: String = query.qualifiers.get(&keys::NSPACE).ok()??;
        let here = self.0.exchange.node();
        let rows = jobs.get(nspace.as_str())?.table.iter();
        let rows = rows.filter(|row| !is_local || row.hostname.as_deref() == Some(here));
        Some(DataArray::ProcInfo(rows.cloned().collect()).into())
    }
}

#[async_trait]
impl<L: Launcher, X: Exchange> HostModule for StandardHost<L, X> {
    fn capabilities(&self) -> Capabilities {
        [
            Upcall::ClientConnected,
            Upcall::ClientFinalized,
            Upcall::ClientLost,
            Upcall::Abort,
            Upcall::Fence,
            Upcall::DirectModex,
            Upcall::Query,
            Upcall::ToolConnected,
            Upcall::Publish,
            Upcall::Lookup,
            Upcall::Unpublish,
            Upcall::Spawn,
            Upcall::Connect,
            Upcall::Disconnect,
            Upcall::Log,
        ]
        .into_iter()
        .collect()
    }

    /// A second server is ignored: one host serves one node.
    fn started(&self, handle: &ServerHandle) {
        if self.0.handle.set(handle.clone()).is_ok() {
            let answers = Answers { handle: handle.clone() };
            self.0.exchange.serve(Arc::new(answers));
        }
    }

    async fn client_connected(&self, _: &UpcallContext, req: ClientConnected) -> HostResult<()> {
        self.control(&req.proc.nspace, Control::Connected(req.proc.rank));
        Ok(())
    }

    async fn client_finalized(&self, _: &UpcallContext, req: ClientFinalized) -> HostResult<()> {
        self.control(&req.proc.nspace, Control::Finalized(req.proc.rank));
        Ok(())
    }

    async fn client_lost(&self, cx: &UpcallContext, req: ClientLost) {
        self.control(&req.proc.nspace, Control::Lost { rank: req.proc.rank, order: cx.id });
    }

    async fn abort(&self, cx: &UpcallContext, req: AbortRequest) -> HostResult<()> {
        req.directives.deny_unprocessed()?;
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
        for nspace in targets {
            if let Some(job) = jobs.get(nspace) {
                let (by, message) = (cx.caller.clone(), req.message.clone());
                let _ = job.control.send(Control::Abort { by, status: req.status, message });
            }
        }
        Ok(())
    }

    async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        let FenceRequest { procs, nodes, data, directives } = req;
        self.gather(cx, Gathering { what: "fence", procs, nodes, directives, data }).await
    }

    async fn connect(&self, cx: &UpcallContext, req: ConnectRequest) -> HostResult<Connected> {
        let ConnectRequest { procs, nodes, data, directives } = req;
        let data = self.gather(cx, Gathering { what: "connect", procs, nodes, directives, data }).await?;
        Ok(Connected { data, ..Connected::default() })
    }

    async fn disconnect(&self, cx: &UpcallContext, req: DisconnectRequest) -> HostResult<()> {
        let DisconnectRequest { procs, directives, .. } = req;
        let (nodes, data) = (self.0.exchange.nodes(), Bytes::new());
        self.gather(cx, Gathering { what: "disconnect", procs, nodes, directives, data }).await?;
        Ok(())
    }

    async fn publish(&self, cx: &UpcallContext, req: PublishRequest) -> HostResult<()> {
        self.store().publish(&user(cx), req.data, &req.directives)?;
        self.0.published.send_replace(());
        Ok(())
    }

    async fn lookup(&self, cx: &UpcallContext, req: LookupRequest) -> HostResult<Found> {
        let look = Look::new(user(cx), req.keys, &req.directives)?;
        let mut published = self.0.published.subscribe();
        loop {
            let found = self.store().look(&look);
            if let Some(found) = found {
                return found;
            }
            tokio::select! {
                _ = published.changed() => {}
                () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
            }
        }
    }

    async fn unpublish(&self, cx: &UpcallContext, req: UnpublishRequest) -> HostResult<()> {
        self.store().unpublish(&cx.caller, &req.keys, &req.directives)
    }

    async fn spawn(&self, cx: &UpcallContext, req: SpawnRequest) -> HostResult<Nspace> {
        self.spawn_child(&cx.caller, req).await
    }

    /// What goes to standard output or error becomes output of the caller.
    async fn log(&self, cx: &UpcallContext, req: LogRequest) -> HostResult<()> {
        let reports = self.jobs().get(&cx.caller.nspace).map(|job| job.reports.clone());
        let Some(reports) = reports else {
            return UpcallContext::not_supported("log for a process of no job");
        };
        let once = req.directives.flag(&keys::LOG_ONCE)?;
        let (mut done, mut failed) = (0, None);
        for info in &req.data {
            let channel = match () {
                () if info.is(&keys::LOG_STDOUT) => Some(OutputChannel::Stdout),
                () if info.is(&keys::LOG_STDERR) => Some(OutputChannel::Stderr),
                () => None,
            };
            match (channel, info.get::<String>()) {
                (Some(channel), Ok(mut text)) => {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    let output = LaunchReport::Output { proc: cx.caller.clone(), channel, data: text.into() };
                    // an owner that is gone reads nothing
                    let _ = reports.send(JobReport::Proc(output)).await;
                    done += 1;
                    if once {
                        return Ok(());
                    }
                }
                _ => failed = failed.or(Some(info)),
            }
        }
        match failed {
            None => Ok(()),
            Some(info) if done == 0 || info.is_required() => {
                let message = format!("log: nothing can be written to {} here", info.key);
                Err(HostError::new(Status::ERR_NOT_SUPPORTED, message))
            }
            Some(_) => Err(Status::ERR_PARTIAL_SUCCESS.into()),
        }
    }

    async fn direct_modex(&self, cx: &UpcallContext, mut req: DirectModexRequest) -> HostResult<Bytes> {
        let handle = self.handle()?;
        let key: Option<String> = req.directives.take(&keys::REQUIRED_KEY)?;
        req.directives.deny_unprocessed()?;
        let request = encode_request(&req.proc, key.as_deref());
        let nodes = match handle.job_data(&req.proc.nspace).await {
            Ok(job) => job.hostname_of(req.proc.rank).into_iter().collect(),
            // a namespace this server does not know: some other may
            Err(_) => self.0.exchange.nodes(),
        };
        let mut last = Failure::new(Status::ERR_NOT_FOUND, format!("no server knows {}", req.proc));
        for node in nodes.iter().filter(|node| *node != self.0.exchange.node()) {
            let answer = tokio::select! {
                answer = self.0.exchange.fetch(node, request.clone()) => answer,
                () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
            };
            match answer
                .map_err(|error| Failure::new(Status::ERR_UNREACH, error.to_string()))
                .and_then(decode_answer)
            {
                Ok(blob) => return Ok(blob),
                Err(failure) => last = failure,
            }
        }
        Err(HostError::new(last.status, last.message))
    }

    async fn query(&self, _: &UpcallContext, mut req: QueryRequest) -> HostResult<QueryResults> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        for query in &req.queries {
            let mut qualifiers = query.qualifiers.clone();
            qualifiers.take::<String>(&keys::NSPACE)?;
            // what is answered here is never a copy
            qualifiers.take_flag(&keys::QUERY_REFRESH_CACHE)?;
            qualifiers.deny_unprocessed()?;
        }
        let (mut results, mut missing) = (Vec::new(), false);
        for query in &req.queries {
            let answers = self.answer_query(query);
            missing |= answers.len() < query.keys.len();
            if !answers.is_empty() {
                results.push(query_results(query, answers));
            }
        }
        match (results.is_empty(), missing) {
            // the server may know
            (true, _) => Err(Status::ERR_NOT_FOUND.into()),
            (false, true) => Ok(QueryResults::partial(results)),
            (false, false) => Ok(QueryResults::complete(results)),
        }
    }

    /// Tools of the server's own user and of root are let in.
    async fn tool_connected(&self, cx: &UpcallContext, mut req: ToolConnected) -> HostResult<ProcId> {
        take_identity(&mut req.directives)?;
        req.directives.deny_unprocessed()?;
        let own = rustix::process::geteuid().as_raw();
        if ![own, 0].contains(&cx.uid) {
            let message = format!("only tools of uid {own} may connect, this one is of uid {}", cx.uid);
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message));
        }
        if let Some(wish) = req.wish {
            return Ok(wish);
        }
        let number = self.0.tools.fetch_add(1, Ordering::Relaxed);
        let nspace = Nspace::new(format!("{}.tool.{number}", self.handle()?.proc_id().nspace));
        let nspace = nspace.map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        Ok(ProcId::new(nspace, Rank::from_raw(0)))
    }
}

/// Who asks, as the kernel says.
fn user(cx: &UpcallContext) -> User {
    User { proc: cx.caller.clone(), uid: cx.uid, gid: cx.gid }
}

/// This node's part of an operation of several nodes.
struct Gathering {
    what: &'static str,
    procs: Vec<ProcId>,
    nodes: Vec<String>,
    directives: Directives,
    data: Bytes,
}

/// Answers other servers that want data of processes on this node.
#[derive(Debug)]
struct Answers {
    handle: ServerHandle,
}

#[async_trait]
impl Responder for Answers {
    async fn respond(&self, _: &str, request: Bytes) -> Bytes {
        let answer = match decode_request(&request) {
            // only who knows a namespace may speak for it; waiting is for processes
            Some((proc, _))
                if proc.rank.is_wildcard() && self.handle.job_data(&proc.nspace).await.is_err() =>
            {
                Err(Failure::new(Status::ERR_NOT_FOUND, format!("{} is not known here", proc.nspace)))
            }
            Some((proc, key)) => {
                let directives =
                    key.map(|key| Info::new(&keys::REQUIRED_KEY, key)).into_iter().collect::<Directives>();
                self.handle.dmodex_request(&proc, directives).await
            }
            None => {
                Err(Failure::new(Status::ERR_UNPACK_FAILURE, "the request of another server cannot be read"))
            }
        };
        encode_answer(answer)
    }
}

/// Whether this node can take part in a fence, with what the host knows of directives.
fn check_collective(mut directives: Directives) -> Result<(), Failure> {
    let local = directives.take(&keys::LOCAL_COLLECTIVE_STATUS)?.unwrap_or(Status::SUCCESS);
    if !local.is_success() {
        return Err(local.into());
    }
    if directives.take_flag(&COLLECTIVE_ALGO_REQD)? {
        return Err(HostError::not_supported("the collective algorithm that is required").into());
    }
    Ok(directives.deny_unprocessed()?)
}

fn failed_on(what: &str, node: &str, failure: &Failure) -> HostError {
    let status = match failure.status {
        // how many are left there matters to that node only (FEN-13)
        Status::ERR_PARTIAL_SUCCESS | Status::ERR_LOST_CONNECTION => Status::ERR_PROC_TERM_WO_SYNC,
        status => status,
    };
    HostError::new(status, format!("the {what} failed on node {node}: {failure}"))
}

fn exchange_failure(error: ExchangeError) -> HostError {
    let status = match error {
        ExchangeError::Abandoned { .. } => Status::ERR_TIMEOUT,
        _ => Status::ERR_UNREACH,
    };
    HostError::new(status, error.to_string()).with_source(error)
}

/// The identity that comes with a request is that of the context.
fn take_identity(directives: &mut Directives) -> HostResult<()> {
    directives.take::<u32>(&keys::USERID)?;
    directives.take::<u32>(&keys::GRPID)?;
    Ok(())
}

/// `nspace NUL rank NUL key`, the key empty if there is none; none of the parts can hold a NUL.
fn encode_request(proc: &ProcId, key: Option<&str>) -> Bytes {
    format!("{}\0{}\0{}", proc.nspace, proc.rank.to_raw(), key.unwrap_or_default()).into()
}

fn decode_request(request: &[u8]) -> Option<(ProcId, Option<String>)> {
    let mut parts = std::str::from_utf8(request).ok()?.splitn(3, '\0');
    let nspace = Nspace::new(parts.next()?).ok()?;
    let rank = Rank::from_raw(parts.next()?.parse().ok()?);
    let key = parts.next()?;
    Some((ProcId::new(nspace, rank), (!key.is_empty()).then(|| key.to_owned())))
}

/// Status, then the blob or the words that explain the failure.
fn encode_answer(answer: Result<Bytes, Failure>) -> Bytes {
    let (status, content) = match answer {
        Ok(blob) => (Status::SUCCESS, blob),
        Err(failure) => (failure.status, failure.message.into()),
    };
    let mut bytes = BytesMut::with_capacity(4 + content.len());
    bytes.put_i32_le(status.to_raw());
    bytes.put(content);
    bytes.freeze()
}

fn decode_answer(mut answer: Bytes) -> Result<Bytes, Failure> {
    let status = answer.try_get_i32_le().map_or(Status::ERR_UNPACK_FAILURE, Status::from_raw);
    if status.is_success() { Ok(answer) } else { Err(Failure::new(status, String::from_utf8_lossy(&answer))) }
}

/// The participants as text, the same on every server: `job:0-3 other:*`.
fn participants(procs: &[ProcId]) -> String {
    let mut ranks = BTreeMap::<&Nspace, RankSet>::new();
    let mut words = Vec::new();
    for proc in procs {
        if proc.rank.is_wildcard() {
            words.push(format!("{}:*", proc.nspace));
        } else {
            ranks.entry(&proc.nspace).or_default().insert(proc.rank);
        }
    }
    words.extend(ranks.iter().map(|(nspace, ranks)| format!("{nspace}:{ranks}")));
    words.join(" ")
}

/// A panic elsewhere leaves these tables whole: each lock holds one change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
