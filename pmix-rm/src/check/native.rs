//! A rank that uses the native wire, as a process linked with the C library does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::BytesMut;
use pmix_conformance::Actor;
use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing, Peer, Security, User, tag};
use pmix_native::env::Launched;
use pmix_native::msg::{
    Abort, Allocate, Body, Collective, Command, CommitPart, Context, Entry, Get, Group, IofPull, IofPush,
    JobControl, Log, Lookup, Monitor, Notify, ProcData, Publish, Push, RegisterEvents, Reply as NativeReply,
    Request as NativeRequest, Spawn, ValidateCredential,
};
use pmix_types::message::{
    ConnectReply, Credential, Failure, GetReply, GroupReply, LookupReply, Modex, ProcData as Held, PutEntry,
    QueryReply, Reply, Request, SpawnReply,
};
use pmix_types::{Directives, Event, KeyName, KeyVal, Nspace, ProcId, Rank, Scope, Status, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Events that may wait for a check.
const EVENTS: usize = 1024;

pub(super) struct NativeRank {
    proc: ProcId,
    context: Context,
    /// Data of the own job.
    job: Vec<Entry>,
    writing: Mutex<Writing>,
    waiting: Waiting,
    /// Codes of event registrations.
    codes: Lock<Vec<Status>>,
    events_in: mpsc::Sender<Event>,
    events: Mutex<mpsc::Receiver<Event>>,
}

struct Writing {
    half: OwnedWriteHalf,
    /// The index assigned by the server.
    index: u32,
    next_tag: u32,
}

/// Pending requests by tag.
type Waiting = Arc<Lock<HashMap<u32, oneshot::Sender<Frame>>>>;

impl NativeRank {
    /// Connects to the server in the environment.
    pub(super) async fn connect() -> Result<Self, String> {
        let launched = Launched::read(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
        let launched =
            launched.ok_or("the launcher does not offer the native wire: PMIX_SERVER_URI* is not set")?;
        let user =
            User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let proc = launched.proc.clone();
        let version = launched.version.to_string();
        let hello =
            Connect::new(Peer::Client(proc.clone()), Security::native(user), launched.encoding, version);
        let hello = hello.encode().map_err(|error| error.to_string())?;
        let address = launched.uri.address;
        let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        let (mut reading, mut half) = stream.into_split();
        half.write_all(&hello).await.map_err(|error| error.to_string())?;
        let mut arrived = BytesMut::new();
        let answer = loop {
            if let Some(answer) = ClientAnswer::decode(&mut arrived).map_err(|error| error.to_string())? {
                break answer;
            }
            if !matches!(reading.read_buf(&mut arrived).await, Ok(read) if read > 0) {
                return Err("the server closed the connection".into());
            }
        };
        let context = Context::new(launched.encoding, launched.version);
        let waiting = Waiting::default();
        let (events_in, events) = mpsc::channel(EVENTS);
        tokio::spawn(read(reading, arrived, context, waiting.clone(), events_in.clone()));
        let writing = Mutex::new(Writing { half, index: answer.index, next_tag: tag::FIRST_REQUEST });
        let (codes, events) = (Lock::default(), Mutex::new(events));
        let mut rank = Self { proc, context, job: Vec::new(), writing, waiting, codes, events_in, events };
        match rank.send(NativeRequest::Job).await {
            Ok(NativeReply { body: Body::Job(data), .. }) => rank.job = data.entries,
            Ok(answer) => return Err(format!("the server refused job data: {}", answer.status)),
            Err(failure) => return Err(format!("cannot get job data: {failure}")),
        }
        Ok(rank)
    }

    /// A value of the data of this process's job.
    fn job_value(&self, rank: Rank, key: &KeyName) -> Option<Value> {
        let data = self.job.iter();
        data.flat_map(|entry| match entry {
            Entry::Pair(pair) if rank.is_wildcard() => std::slice::from_ref(pair),
            Entry::Rank(data) if data.rank == rank => data.pairs.as_slice(),
            _ => &[],
        })
        .find(|pair| pair.key == *key)
        .map(|pair| pair.value.clone())
    }

    /// Finalizes the connection.
    pub(super) async fn finalize(&self) -> Result<(), Failure> {
        let answer = self.send(NativeRequest::Finalize).await?;
        if answer.status.is_success() { Ok(()) } else { Err(answer.status.into()) }
    }

    async fn send(&self, request: NativeRequest) -> Result<NativeReply, Failure> {
        let broken = |what: String| Failure::new(Status::ERR_UNPACK_FAILURE, what);
        let payload = request.encode(&self.context).map_err(|error| broken(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        {
            let mut writing = self.writing.lock().await;
            let tag = writing.next_tag;
            writing.next_tag += 1;
            lock(&self.waiting).insert(tag, answer);
            let mut bytes = BytesMut::new();
            let frame = Frame { index: writing.index, tag, payload };
            Framing::default().encode(&frame, &mut bytes).map_err(|error| broken(error.to_string()))?;
            writing.half.write_all(&bytes).await.map_err(|error| gone(&error.to_string()))?;
        }
        let frame = answered.await.map_err(|_| gone("the server closed the connection"))?;
        NativeReply::decode(&self.context, request.command(), &frame.payload)
            .map_err(|error| broken(error.to_string()))
    }
}

#[async_trait]
impl Actor for NativeRank {
    fn proc_id(&self) -> ProcId {
        self.proc.clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        match &request {
            Request::RegisterEvents(registration) => lock(&self.codes).extend(&registration.codes),
            // a server does not send an event back to its sender, whose library delivers it
            Request::Notify(event) if lock(&self.codes).contains(&event.code) => {
                // checks with more events read them
                let _ = self.events_in.try_send(event.clone());
            }
            _ => {}
        }
        if let Request::Get(get) = &request
            && get.proc.nspace == self.proc.nspace
            && let Some(key) = get.key.as_ref().filter(|key| key.is_reserved())
        {
            // job data was received on connection; a missing reserved key never arrives
            let value = self.job_value(get.proc.rank, key).ok_or(Status::ERR_NOT_FOUND)?;
            return Ok(Reply::Get(GetReply::value(value)));
        }
        let keys = match &request {
            Request::Lookup(lookup) => lookup.keys.len(),
            _ => 0,
        };
        let native = translate(request, ProcId::wildcard(self.proc.nspace.clone()))?;
        let command = native.command();
        let answer = self.send(native).await?;
        // only these replies carry what there is
        let is_partial = answer.status == Status::ERR_PARTIAL_SUCCESS
            && [Command::QUERY, Command::LOOKUP].contains(&command);
        if !answer.status.is_success() && !is_partial {
            return Err(answer.status.into());
        }
        Ok(reply(command, answer, keys))
    }

    async fn next_event(&self) -> Event {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

async fn read(
    mut reading: OwnedReadHalf,
    mut arrived: BytesMut,
    context: Context,
    waiting: Waiting,
    events: mpsc::Sender<Event>,
) {
    let framing = Framing::default();
    loop {
        match framing.decode(&mut arrived) {
            Ok(Some(frame)) => {
                let waiter = lock(&waiting).remove(&frame.tag);
                if let Some(waiter) = waiter {
                    let _ = waiter.send(frame);
                } else if let Ok(Some(Push::Event(event))) = Push::decode(&context, frame.tag, &frame.payload)
                {
                    // checks with more events read them
                    let _ = events.try_send(event);
                }
            }
            Ok(None) if matches!(reading.read_buf(&mut arrived).await, Ok(read) if read > 0) => {}
            _ => break,
        }
    }
    // fail all pending requests
    lock(&waiting).clear();
}

/// Translates a request to that of the C library.
fn translate(request: Request, job: ProcId) -> Result<NativeRequest, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let collective = |procs: Vec<ProcId>, directives: Directives| {
        let mut entry = Collective::new(procs);
        entry.info = directives;
        entry
    };
    let lookup = |keys, directives| {
        let mut lookup = Lookup::new(uid, keys);
        lookup.info = directives;
        lookup
    };
    let group = |id: Nspace, procs, directives| {
        let mut group = Group::new(id.to_string());
        group.procs = procs;
        group.info = directives;
        group
    };
    Ok(match request {
        Request::Commit(entries) => NativeRequest::Commit(parts(&entries)),
        Request::Get(get) => {
            let mut native = Get::new(get.proc, get.key);
            native.info = get.directives;
            NativeRequest::Get(native)
        }
        Request::Fence(fence) => {
            NativeRequest::Fence(collective(fence.procs.unwrap_or_else(|| vec![job]), fence.directives))
        }
        Request::Connect(connect) => NativeRequest::Connect(collective(connect.procs, connect.directives)),
        Request::Disconnect(leave) => NativeRequest::Disconnect(collective(leave.procs, leave.directives)),
        Request::Abort(abort) => {
            let mut native = Abort::new(Status::from_raw(abort.status));
            native.message = Some(abort.message);
            native.procs = abort.procs;
            NativeRequest::Abort(native)
        }
        Request::Publish(publish) => {
            let mut native = Publish::new(uid);
            native.info = publish.data.into_iter().chain(publish.directives).collect();
            NativeRequest::Publish(native)
        }
        Request::Lookup(look) => NativeRequest::Lookup(lookup(look.keys, look.directives)),
        Request::Unpublish(unpublish) => {
            NativeRequest::Unpublish(lookup(unpublish.keys, unpublish.directives))
        }
        Request::Query(queries) => NativeRequest::Query(queries),
        Request::RegisterEvents(registration) => {
            let mut native = RegisterEvents::new(registration.codes);
            native.info = registration.directives;
            NativeRequest::RegisterEvents(native)
        }
        Request::Notify(event) => {
            let mut native = Notify::new(event.code, event.range);
            native.info = event.info;
            NativeRequest::Notify(native)
        }
        Request::Spawn(spawn) => {
            let mut native = Spawn::new(spawn.apps);
            native.info = spawn.directives;
            NativeRequest::Spawn(native)
        }
        Request::JobControl(control) => {
            let mut native = JobControl::new(control.targets);
            native.info = control.directives;
            NativeRequest::JobControl(native)
        }
        Request::Log(log) => {
            let mut native = Log::new(log.data.into());
            native.info = log.directives;
            NativeRequest::Log(native)
        }
        Request::Allocate(allocate) => {
            let mut native = Allocate::new(allocate.directive);
            native.info = allocate.directives;
            NativeRequest::Allocate(native)
        }
        Request::Monitor(monitor) => {
            let mut native = Monitor::new(monitor.monitor, monitor.code);
            native.info = monitor.directives;
            NativeRequest::Monitor(native)
        }
        Request::GetCredential(directives) => NativeRequest::GetCredential(directives),
        Request::ValidateCredential(validate) => {
            let mut native = ValidateCredential::new(validate.credential);
            native.info = validate.directives;
            NativeRequest::ValidateCredential(native)
        }
        Request::IofPull(pull) => {
            let mut native = IofPull::new(pull.procs, pull.channels, 0);
            native.info = pull.directives;
            NativeRequest::IofPull(native)
        }
        Request::IofPush(push) => {
            let mut native = IofPush::new(push.targets, push.data);
            native.info = push.directives;
            NativeRequest::IofPush(native)
        }
        Request::GroupConstruct(construct) => {
            NativeRequest::GroupConstruct(group(construct.group, construct.procs, construct.directives))
        }
        Request::GroupLeave(leave) => {
            NativeRequest::GroupLeave(group(leave.group, Vec::new(), leave.directives))
        }
        Request::GroupDestruct(destruct) => {
            NativeRequest::GroupDestruct(group(destruct.group, Vec::new(), destruct.directives))
        }
        Request::DeregisterEvents(_) => {
            let message = "the C library removes registrations itself, and only tells its server which codes are no longer needed";
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        other => {
            let message = format!("the native wire has no request for {}", other.operation());
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
    })
}

/// Splits entries by scope. Global ones go to both the local and the remote part.
fn parts(entries: &[PutEntry]) -> Vec<CommitPart> {
    let of = |scope: Scope| {
        let pairs = entries.iter().filter(|entry| entry.scope == scope || entry.scope == Scope::GLOBAL);
        let pairs = pairs.map(|entry| KeyVal { key: entry.key.clone(), value: entry.value.clone() });
        CommitPart::new(scope, pairs.collect())
    };
    [Scope::LOCAL, Scope::REMOTE].map(of).into_iter().filter(|part| !part.pairs.is_empty()).collect()
}

fn reply(command: Command, answer: NativeReply, keys: usize) -> Reply {
    match answer.body {
        Body::Get(procs) => {
            let modex = Modex::new(procs.into_iter().map(held).collect());
            let mut reply = GetReply::default();
            reply.modex = modex.into();
            Reply::Get(reply)
        }
        Body::Lookup(found) => {
            // the C library also derives it from missing keys
            let status = if found.len() < keys { Status::ERR_PARTIAL_SUCCESS } else { answer.status };
            Reply::Lookup(LookupReply::new(status, found))
        }
        Body::Spawn(spawned) => Reply::Spawn(SpawnReply::new(spawned.nspace)),
        Body::Connect(_) => Reply::Connect(ConnectReply::default()),
        Body::Info(results) if command == Command::QUERY => {
            Reply::Query(QueryReply::new(answer.status, results))
        }
        Body::Info(infos) => Reply::Info(infos),
        Body::Group(result) => {
            let mut group = GroupReply::default();
            (group.members, group.context_id) = (result.members, result.context_id);
            Reply::Group(group.into())
        }
        Body::Credential(given) => Reply::Credential(Credential::new(given.credential, given.info)),
        _ if command == Command::CONNECT => Reply::Connect(ConnectReply::default()),
        _ => Reply::Done,
    }
}

fn held(data: ProcData) -> Held {
    let entry = |entry| match entry {
        Entry::Pair(KeyVal { key, value }) => Some(PutEntry::new(Scope::UNDEF, key, value)),
        _ => None,
    };
    Held::new(data.proc, data.entries.into_iter().filter_map(entry).collect())
}

fn gone(reason: &str) -> Failure {
    Failure::new(Status::ERR_LOST_CONNECTION, reason)
}

fn lock<T>(lock: &Lock<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
