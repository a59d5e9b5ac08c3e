//! A rank that speaks OpenPMIx's own protocol, as a process linked with the C library does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::BytesMut;
use pmix_conformance::Session;
use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing, Peer, Security, User, tag};
use pmix_native::env::Launched;
use pmix_native::msg::{
    Abort, Body, Collective, Command, CommitPart, Context, Entry, Get, JobControl, Log, Lookup, Notify,
    ProcData, Publish, Push, RegisterEvents, Reply as Answer, Request as Ask, Spawn,
};
use pmix_types::message::{
    ConnectReply, Failure, GetReply, LookupReply, Modex, ProcData as Held, PutEntry, QueryReply, Reply,
    Request, SpawnReply,
};
use pmix_types::{Directives, Event, KeyName, KeyVal, ProcId, Rank, Scope, Status, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Events that may wait for a check.
const EVENTS: usize = 1024;

pub(super) struct NativeSession {
    proc: ProcId,
    context: Context,
    /// Data of the own job.
    job: Vec<Entry>,
    writing: Mutex<Writing>,
    waiting: Waiting,
    /// Codes that events are wanted of.
    codes: Lock<Vec<Status>>,
    events_in: mpsc::Sender<Event>,
    events: Mutex<mpsc::Receiver<Event>>,
}

struct Writing {
    half: OwnedWriteHalf,
    /// The number that the server has given.
    index: u32,
    next_tag: u32,
}

/// The requests that are not answered yet, by tag.
type Waiting = Arc<Lock<HashMap<u32, oneshot::Sender<Frame>>>>;

impl NativeSession {
    /// Connects as the environment says.
    pub(super) async fn connect() -> Result<Self, String> {
        let launched = Launched::read(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
        let launched =
            launched.ok_or("no launcher has offered its native protocol: PMIX_SERVER_URI* is not set")?;
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
        let mut session = Self { proc, context, job: Vec::new(), writing, waiting, codes, events_in, events };
        match session.ask(Ask::Job).await {
            Ok(Answer { body: Body::Job(data), .. }) => session.job = data.entries,
            Ok(answer) => return Err(format!("job data is refused: {}", answer.status)),
            Err(failure) => return Err(format!("job data cannot be read: {failure}")),
        }
        Ok(session)
    }

    /// A value of the own job's data.
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
        let answer = self.ask(Ask::Finalize).await?;
        if answer.status.is_success() { Ok(()) } else { Err(answer.status.into()) }
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        let broken = |what: String| Failure::new(Status::ERR_UNPACK_FAILURE, what);
        let payload = ask.encode(&self.context).map_err(|error| broken(error.to_string()))?;
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
        Answer::decode(&self.context, ask.command(), &frame.payload)
            .map_err(|error| broken(error.to_string()))
    }
}

#[async_trait]
impl Session for NativeSession {
    fn proc_id(&self) -> ProcId {
        self.proc.clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        match &request {
            Request::RegisterEvents(wish) => lock(&self.codes).extend(&wish.codes),
            // a server does not send an event back: the library of its sender sees to that
            Request::Notify(event) if lock(&self.codes).contains(&event.code) => {
                // checks with so many events read them
                let _ = self.events_in.try_send(event.clone());
            }
            _ => {}
        }
        if let Request::Get(get) = &request
            && get.proc.nspace == self.proc.nspace
            && let Some(key) = get.key.as_ref().filter(|key| key.is_reserved())
        {
            // job data came when the process connected; a reserved key that is not there never comes
            let value = self.job_value(get.proc.rank, key).ok_or(Status::ERR_NOT_FOUND)?;
            return Ok(Reply::Get(GetReply::value(value)));
        }
        let keys = match &request {
            Request::Lookup(lookup) => lookup.keys.len(),
            _ => 0,
        };
        let ask = translate(request, ProcId::wildcard(self.proc.nspace.clone()))?;
        let command = ask.command();
        let answer = self.ask(ask).await?;
        if !answer.status.is_success() && answer.status != Status::ERR_PARTIAL_SUCCESS {
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
                    // checks with so many events read them
                    let _ = events.try_send(event);
                }
            }
            Ok(None) if matches!(reading.read_buf(&mut arrived).await, Ok(read) if read > 0) => {}
            _ => break,
        }
    }
    // nobody is left waiting
    lock(&waiting).clear();
}

/// The request as the C library would send it.
fn translate(request: Request, job: ProcId) -> Result<Ask, Failure> {
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
    Ok(match request {
        Request::Commit(entries) => Ask::Commit(parts(&entries)),
        Request::Get(get) => {
            let mut ask = Get::new(get.proc, get.key);
            ask.info = get.directives;
            Ask::Get(ask)
        }
        Request::Fence(fence) => {
            Ask::Fence(collective(fence.procs.unwrap_or_else(|| vec![job]), fence.directives))
        }
        Request::Connect(connect) => Ask::Connect(collective(connect.procs, connect.directives)),
        Request::Disconnect(leave) => Ask::Disconnect(collective(leave.procs, leave.directives)),
        Request::Abort(abort) => {
            let mut ask = Abort::new(Status::from_raw(abort.status));
            ask.message = Some(abort.message);
            ask.procs = abort.procs;
            Ask::Abort(ask)
        }
        Request::Publish(publish) => {
            let mut ask = Publish::new(uid);
            ask.info = publish.data.into_iter().chain(publish.directives).collect();
            Ask::Publish(ask)
        }
        Request::Lookup(look) => Ask::Lookup(lookup(look.keys, look.directives)),
        Request::Unpublish(unpublish) => Ask::Unpublish(lookup(unpublish.keys, unpublish.directives)),
        Request::Query(queries) => Ask::Query(queries),
        Request::RegisterEvents(wish) => {
            let mut ask = RegisterEvents::new(wish.codes);
            ask.info = wish.directives;
            Ask::RegisterEvents(ask)
        }
        Request::Notify(event) => {
            let mut ask = Notify::new(event.code, event.range);
            ask.info = event.info;
            Ask::Notify(ask)
        }
        Request::Spawn(spawn) => {
            let mut ask = Spawn::new(spawn.apps);
            ask.info = spawn.directives;
            Ask::Spawn(ask)
        }
        Request::JobControl(control) => {
            let mut ask = JobControl::new(control.targets);
            ask.info = control.directives;
            Ask::JobControl(ask)
        }
        Request::Log(log) => {
            let mut ask = Log::new(log.data.into());
            ask.info = log.directives;
            Ask::Log(ask)
        }
        Request::DeregisterEvents(_) => {
            let message =
                "the C library ends registrations itself, and tells its server codes that nobody wants";
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        other => {
            let message = format!("the C library's protocol cannot ask for a {}", other.operation());
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
    })
}

/// What is put for all goes into the local part and into the remote one.
fn parts(entries: &[PutEntry]) -> Vec<CommitPart> {
    let of = |scope: Scope| {
        let pairs = entries.iter().filter(|entry| entry.scope == scope || entry.scope == Scope::GLOBAL);
        let pairs = pairs.map(|entry| KeyVal { key: entry.key.clone(), value: entry.value.clone() });
        CommitPart::new(scope, pairs.collect())
    };
    [Scope::LOCAL, Scope::REMOTE].map(of).into_iter().filter(|part| !part.pairs.is_empty()).collect()
}

fn reply(command: Command, answer: Answer, keys: usize) -> Reply {
    match answer.body {
        Body::Get(procs) => {
            let modex = Modex { procs: procs.into_iter().map(held).collect() };
            let mut reply = GetReply::default();
            reply.modex = modex.into();
            Reply::Get(reply)
        }
        Body::Lookup(found) => {
            // the C library tells it from what is missing, too
            let status = if found.len() < keys { Status::ERR_PARTIAL_SUCCESS } else { answer.status };
            Reply::Lookup(LookupReply::new(status, found))
        }
        Body::Spawn(spawned) => Reply::Spawn(SpawnReply::new(spawned.nspace)),
        Body::Connect(_) => Reply::Connect(ConnectReply::default()),
        Body::Info(results) if command == Command::QUERY => {
            Reply::Query(QueryReply::new(answer.status, results))
        }
        Body::Info(infos) => Reply::Info(infos),
        _ if command == Command::CONNECT => Reply::Connect(ConnectReply::default()),
        _ => Reply::Done,
    }
}

fn held(data: ProcData) -> Held {
    let entry = |entry| match entry {
        Entry::Pair(KeyVal { key, value }) => Some(PutEntry { scope: Scope::UNDEF, key, value }),
        _ => None,
    };
    Held { proc: data.proc, entries: data.entries.into_iter().filter_map(entry).collect() }
}

fn gone(reason: &str) -> Failure {
    Failure::new(Status::ERR_LOST_CONNECTION, reason)
}

fn lock<T>(lock: &Lock<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
