//! The operations that a check can use as one rank of its job.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use pmix_types::message::{
    Commit, Connect, ConnectReply, Disconnect, Failure, Fence, Get, Lookup, LookupReply, Modex, NotifyEvent,
    Publish, PutEntry, QueryInfo, QueryReply, RegisterEvents, Reply, Request, Spawn, Unpublish,
};
use pmix_types::{
    App, DataRange, Directives, Event, Info, Key, KeyName, Nspace, ProcId, Query, Scope, Status, Value, keys,
};

use super::{Actor, Check, SecondJob, Verdict};
use pmix_server::host::Upcall;

/// Default time limit: a request without a reply within this time counts as never answered.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How late a rank is on purpose, so that others that do not wait for it are noticed.
const LATE: Duration = Duration::from_millis(150);

/// One rank of the job that runs a check.
pub struct Rank {
    actor: Box<dyn Actor>,
    proc: ProcId,
    size: u32,
    /// Namespace of a second job with as many ranks as this one, if there is one.
    other: Option<Nspace>,
    patience: Duration,
}

/// Why a check ends early.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Broken(String),
    Skip(String),
}

pub(super) type Checked<T = ()> = Result<T, Stop>;
/// The server's reply or failure.
pub(super) type Answer<T> = Result<T, Failure>;

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rank").field("proc", &self.proc).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Runs a check as one rank of its job.
///
/// All ranks of the job must run the same check. This returns the verdict of this rank; the verdict of the job is the first
/// that is not [`Verdict::Passed`]. `second` says how a check that needs a second job obtains it. A request without a reply
/// within `patience` (see [`PATIENCE`]) counts as never answered.
///
/// # Cancel safety
/// Not cancel-safe: the other ranks may wait for this one.
pub async fn run_rank(
    check: &Check,
    actor: impl Actor + 'static,
    second: SecondJob,
    patience: Duration,
) -> Verdict {
    let proc = actor.proc_id();
    let mut rank = Rank { actor: Box::new(actor), proc, size: 0, other: None, patience };
    let checked = async {
        rank.size = rank.job_size().await?;
        rank.needs_of_host(check).await?;
        if check.both_jobs {
            rank.other = second.find(&rank).await?;
        }
        check.run(&rank).await
    };
    match checked.await {
        Ok(()) => Verdict::Passed,
        Err(Stop::Skip(reason)) => Verdict::Skipped(reason),
        Err(Stop::Broken(reason)) => Verdict::Failed(format!("{}: {reason}", rank.proc)),
    }
}

impl Rank {
    pub(super) fn me(&self) -> &ProcId {
        &self.proc
    }

    pub(super) fn number(&self) -> u32 {
        self.proc.rank.to_raw()
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn is_first(&self) -> bool {
        self.number() == 0
    }

    pub(super) fn is_last(&self) -> bool {
        self.number() + 1 == self.size
    }

    pub(super) fn peer(&self, rank: u32) -> ProcId {
        self.proc.with_rank(pmix_types::Rank::from_raw(rank))
    }

    pub(super) fn last(&self) -> ProcId {
        self.peer(self.size - 1)
    }

    pub(super) fn job(&self) -> ProcId {
        ProcId::wildcard(self.proc.nspace.clone())
    }

    /// All ranks of this job and of the second one.
    pub(super) fn both_jobs(&self) -> Checked<Vec<ProcId>> {
        let other = self.other.clone().ok_or_else(|| skip("needs a second job"))?;
        Ok(vec![self.job(), ProcId::wildcard(other)])
    }

    /// Whether the namespace of this job sorts before that of the second one.
    pub(super) fn is_of_first_job(&self) -> bool {
        self.other.as_ref().is_none_or(|other| self.proc.nspace < *other)
    }

    /// A key that no other job uses.
    pub(super) fn key(&self, name: &str) -> Checked<KeyName> {
        self.key_of(&self.proc.nspace, name)
    }

    /// A key with the same name in both jobs.
    pub(super) fn shared_key(&self, name: &str) -> Checked<KeyName> {
        let other = self.other.as_ref().unwrap_or(&self.proc.nspace);
        self.key_of(other.min(&self.proc.nspace), name)
    }

    fn key_of(&self, nspace: &Nspace, name: &str) -> Checked<KeyName> {
        KeyName::new(format!("check.{nspace}.{name}")).map_err(|error| broken(error.to_string()))
    }

    /// Skips the check unless the job has this many ranks.
    pub(super) fn needs(&self, ranks: u32) -> Checked {
        match self.size >= ranks {
            true => Ok(()),
            false => Err(skip(format!("needs {ranks} ranks"))),
        }
    }

    /// Skips the check if the server reports that its host does not serve the upcalls that it needs. Other servers report
    /// nothing: a check that expects a refusal must then send what would be served first, and skip itself if that is not
    /// supported, as [`request`](Self::request) does.
    async fn needs_of_host(&self, check: &Check) -> Checked {
        if check.needs.is_empty() && check.needs_across_nodes.is_empty() {
            return Ok(());
        }
        let Some(served) = self.host_functions().await? else { return Ok(()) };
        // an upcall that serves no function is in no report
        let lacks = |upcall: &&Upcall| {
            let functions = upcall.functions();
            !functions.is_empty() && !functions.iter().any(|name| served.contains(*name))
        };
        let mut missing: Vec<_> = check.needs.iter().filter(lacks).collect();
        if check.needs_across_nodes.iter().any(|upcall| lacks(&upcall)) && self.spans_nodes().await? {
            missing.extend(check.needs_across_nodes.iter().filter(lacks));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = missing.iter().map(|upcall| upcall.name()).collect();
        Err(skip(format!("needs {}", names.join(", "))))
    }

    /// The functions that the host serves; `None` if the server does not report them.
    async fn host_functions(&self) -> Checked<Option<BTreeSet<String>>> {
        let query = Query::new(&keys::SERVER_FUNCTIONS).key(&keys::HOST_FUNCTIONS);
        let Ok(Reply::Query(reply)) = self.ask(Request::QueryInfo(QueryInfo::new(vec![query]))).await? else {
            return Ok(None);
        };
        // the results of one query come as one array
        let answers =
            reply.results.iter().flat_map(|info| info.value.as_infos().unwrap_or_else(|| from_ref(info)));
        let answers: Vec<_> = answers.collect();
        let named = |key: &Key<String>| {
            let named = answers.iter().find(|info| info.key == *key.name());
            named.and_then(|info| info.value.as_str())
        };
        // a server that reports its own functions would also report those of its host
        let names = named(&keys::HOST_FUNCTIONS).or_else(|| named(&keys::SERVER_FUNCTIONS).map(|_| ""));
        Ok(names.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect()))
    }

    /// Skips the check unless the first and the last rank are on different nodes.
    pub(super) async fn needs_two_nodes(&self) -> Checked {
        match self.spans_nodes().await? {
            true => Ok(()),
            false => Err(skip("needs two nodes")),
        }
    }

    /// Whether the first and the last rank are on different nodes.
    async fn spans_nodes(&self) -> Checked<bool> {
        Ok(self.node_of(0).await? != self.node_of(self.size - 1).await?)
    }

    /// The host name of a rank of this job.
    pub(super) async fn node_of(&self, rank: u32) -> Checked<Value> {
        let proc = self.peer(rank);
        let name = self.get(&proc, keys::HOSTNAME.name(), Directives::new()).await?;
        name.map_err(|failure| broken(format!("cannot get the host name of {proc}: {failure}")))
    }

    /// Waits, to be later than the other ranks.
    #[expect(
        clippy::disallowed_methods,
        reason = "only the passing of time shows that others do not leave too early"
    )]
    pub(super) async fn be_late(&self) {
        tokio::time::sleep(LATE).await;
    }

    /// Sends a request. See [`request`](Self::request), which skips the check if it is not supported.
    pub(super) async fn ask(&self, request: Request) -> Checked<Answer<Reply>> {
        let operation = request.operation();
        self.answered(operation, self.actor.request(request)).await
    }

    /// Waits for an answer; a request that hangs fails the check.
    async fn answered<T>(&self, operation: &str, answer: impl Future<Output = T>) -> Checked<T> {
        tokio::time::timeout(self.patience, answer)
            .await
            .map_err(|_| broken(format!("no reply to a {operation} within {:?}", self.patience)))
    }

    async fn job_size(&self) -> Checked<u32> {
        let job = self.job();
        match self.get(&job, keys::JOB_SIZE.name(), Directives::new()).await? {
            Ok(Value::Uint32(size)) if size > self.number() => Ok(size),
            Ok(value) => Err(broken(format!("the size of the job is {value:?}"))),
            Err(failure) => Err(broken(format!("cannot get the size of the job: {failure}"))),
        }
    }

    pub(super) async fn commit(&self, scope: Scope, key: KeyName, value: impl Into<Value>) -> Checked {
        let entry = PutEntry::new(scope, key, value);
        must("commit", self.ask(Request::Commit(Commit::new(vec![entry]))).await?).map(drop)
    }

    pub(super) async fn get(
        &self,
        proc: &ProcId,
        key: &str,
        directives: Directives,
    ) -> Checked<Answer<Value>> {
        let key = KeyName::new(key).map_err(|error| broken(error.to_string()))?;
        let mut get = Get::new(proc.clone(), Some(key.clone()));
        get.directives = directives;
        Ok(match self.ask(Request::Get(get)).await? {
            Ok(Reply::Get(reply)) => match reply.value.or_else(|| of_modex(&reply.modex, proc, &key)) {
                Some(value) => Ok(value),
                None => Err(Failure::new(Status::ERR_NOT_FOUND, "the reply does not contain the key")),
            },
            Ok(other) => return Err(unexpected("get", &other)),
            Err(failure) => Err(failure),
        })
    }

    pub(super) async fn fence(
        &self,
        procs: Option<Vec<ProcId>>,
        directives: Directives,
    ) -> Checked<Answer<()>> {
        let mut fence = Fence::new(procs);
        fence.directives = directives;
        Ok(self.ask(Request::Fence(fence)).await?.map(drop))
    }

    /// Enters a fence without data, which must succeed.
    pub(super) async fn sync(&self, procs: Option<Vec<ProcId>>) -> Checked {
        must("fence", self.fence(procs, Directives::new()).await?)
    }

    pub(super) async fn publish(
        &self,
        key: &KeyName,
        value: impl Into<Value>,
        directives: Directives,
    ) -> Checked<Answer<()>> {
        let mut publish = Publish::new(vec![Info::dynamic(key.clone(), value)]);
        publish.directives = directives;
        supported(self.ask(Request::Publish(publish)).await?.map(drop))
    }

    pub(super) async fn lookup(
        &self,
        keys: &[&KeyName],
        directives: Directives,
    ) -> Checked<Answer<LookupReply>> {
        let mut lookup = Lookup::new(keys.iter().map(|key| (*key).clone()).collect());
        lookup.directives = directives;
        match supported(self.ask(Request::Lookup(lookup)).await?)? {
            Ok(Reply::Lookup(reply)) => Ok(Ok(reply)),
            Ok(other) => Err(unexpected("lookup", &other)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    pub(super) async fn unpublish(&self, keys: &[&KeyName], directives: Directives) -> Checked {
        let mut unpublish = Unpublish::new(keys.iter().map(|key| (*key).clone()).collect());
        unpublish.directives = directives;
        must("unpublish", supported(self.ask(Request::Unpublish(unpublish)).await?)?).map(drop)
    }

    pub(super) async fn query(&self, queries: Vec<Query>) -> Checked<Answer<QueryReply>> {
        match supported(self.ask(Request::QueryInfo(QueryInfo::new(queries))).await?)? {
            Ok(Reply::Query(reply)) => Ok(Ok(reply)),
            Ok(other) => Err(unexpected("query", &other)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    pub(super) async fn connect(
        &self,
        procs: Vec<ProcId>,
        directives: Directives,
    ) -> Checked<Answer<ConnectReply>> {
        let mut connect = Connect::new(procs);
        connect.directives = directives;
        match supported(self.ask(Request::Connect(connect)).await?)? {
            Ok(Reply::Connect(reply)) => Ok(Ok(reply)),
            Ok(other) => Err(unexpected("connect", &other)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    pub(super) async fn disconnect(&self, procs: Vec<ProcId>) -> Checked<Answer<()>> {
        supported(self.ask(Request::Disconnect(Disconnect::new(procs))).await?.map(drop))
    }

    pub(super) async fn listen(&self, code: Status) -> Checked {
        self.listen_to_all(vec![code]).await
    }

    /// Registers for all these codes at once.
    pub(super) async fn listen_to_all(&self, codes: Vec<Status>) -> Checked {
        let registration = RegisterEvents::new(codes);
        must("register events", self.ask(Request::RegisterEvents(registration)).await?).map(drop)
    }

    /// Ends this process without finalize; skips the check if that cannot be done.
    pub(super) async fn lose(&self) -> Checked {
        if self.actor.lose().await { Ok(()) } else { Err(skip("needs a process that may die")) }
    }

    /// Connects a tool to the server of this process; skips the check if that cannot be done.
    pub(super) async fn tool(&self) -> Checked<Answer<ProcId>> {
        let tool = self.answered("connection of a tool", self.actor.tool()).await?;
        tool.ok_or_else(|| skip("needs a process that can connect as a tool"))
    }

    pub(super) async fn notify(&self, code: Status, range: DataRange) -> Checked {
        let event = Event::new(code, self.proc.clone()).with_range(range);
        must("notify", self.ask(Request::NotifyEvent(NotifyEvent::new(event))).await?).map(drop)
    }

    pub(super) async fn next_event(&self) -> Checked<Event> {
        let event = tokio::time::timeout(self.patience, self.actor.next_event()).await;
        event.map_err(|_| broken(format!("no event arrived within {:?}", self.patience)))
    }

    /// Starts a job of one application.
    pub(super) async fn spawn(&self, app: App, directives: Directives) -> Checked<Answer<Nspace>> {
        let mut spawn = Spawn::new(vec![app]);
        spawn.directives = directives;
        match supported(self.ask(Request::Spawn(spawn)).await?)? {
            Ok(Reply::Spawn(reply)) => Ok(Ok(reply.nspace)),
            Ok(other) => Err(unexpected("spawn", &other)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    pub(super) async fn request(&self, request: Request) -> Checked<Answer<Reply>> {
        supported(self.ask(request).await?)
    }
}

fn of_modex(modex: &Arc<Modex>, proc: &ProcId, key: &KeyName) -> Option<Value> {
    let of_proc = modex.procs.iter().filter(|data| data.proc == *proc).flat_map(|data| &data.entries);
    of_proc.filter(|entry| entry.key == *key).last().map(|entry| entry.value.clone())
}

fn unexpected(operation: &str, reply: &Reply) -> Stop {
    broken(format!("the reply to a {operation} is {reply:?}"))
}

/// Skips the check if the operation is not supported.
pub(super) fn supported<T>(answer: Answer<T>) -> Checked<Answer<T>> {
    match answer {
        Err(failure) if failure.status == Status::ERR_NOT_SUPPORTED => Err(skip(failure.to_string())),
        answer => Ok(answer),
    }
}

pub(super) fn must<T>(what: &str, answer: Answer<T>) -> Checked<T> {
    answer.map_err(|failure| broken(format!("{what} failed: {failure}")))
}

/// Fails the check unless the request failed with one of these statuses.
pub(super) fn must_fail<T>(what: &str, answer: Answer<T>, statuses: &[Status]) -> Checked {
    match answer {
        Err(failure) if statuses.contains(&failure.status) => Ok(()),
        Err(failure) => Err(broken(format!("{what}: expected {statuses:?}, got {failure}"))),
        Ok(_) => Err(broken(format!("{what}: expected {statuses:?}, got success"))),
    }
}

pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken(otherwise())) }
}

pub(super) fn broken(reason: impl Into<String>) -> Stop {
    Stop::Broken(reason.into())
}

pub(super) fn skip(reason: impl Into<String>) -> Stop {
    Stop::Skip(reason.into())
}
