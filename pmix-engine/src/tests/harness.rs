//! An engine with a clock of its own, and strict eyes on what it does: every command must be looked at, and
//! in the end nothing may be left waiting.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pmix_types::job::{JobData, JobSpec};
use pmix_types::message::{
    Changes, Collected, Commit, Failure, Fence, Fenced, Get, GetReply, Hello, Identity, Modex, ProcData,
    Push, PutEntry, RegisterEvents, Reply, Request,
};
use pmix_types::{
    Directives, Event, Gid, Key, KeyName, Nspace, Pid, ProcId, Rank, Scope, Status, Uid, Value, ValueType,
    keys,
};

use super::super::ids::ReplyTo;
use super::super::upcall::{Capabilities, HostObject, Upcall};
use super::super::{
    Answer, CallId, CallValue, Caller, Clock, Codec, Command, Config, ConnId, Engine, HostCall, Input,
    PeerCred, Recording, RequestId, UpcallId, UpcallRequest,
};

/// The node of the engine under test.
pub(super) const NODE: &str = "n0";
/// User and group of all clients, unless a test says otherwise. The server's user is the same.
pub(super) const USER: (Uid, Gid) = (Uid::new(1000), Gid::new(100));
/// Another user and group.
pub(super) const OTHER_USER: (Uid, Gid) = (Uid::new(1001), Gid::new(101));
/// Group of the server.
const SERVER_GROUP: Gid = Gid::new(2);
/// What one process may put, in bytes.
pub(super) const PUT_LIMIT: usize = 1 << 20;
/// Why connections are lost, unless a test says otherwise.
pub(super) const RESET: &str = "connection reset";

/// As outside tests.
pub(super) const CODEC: &dyn Codec = &Protobuf;

pub(super) type Outcome = Result<Reply, Failure>;

#[derive(Debug)]
struct Protobuf;

impl Codec for Protobuf {
    fn encode_changes(&self, changes: &[Changes]) -> Bytes {
        pmix_proto::modex::encode_changes(changes)
    }

    fn decode_changes(&self, blob: Bytes) -> Result<Vec<Changes>, String> {
        pmix_proto::modex::decode_changes(blob).map_err(|error| error.to_string())
    }

    fn encode_job(&self, job: &JobData) -> Bytes {
        pmix_proto::encode_job(job)
    }

    fn decode_job(&self, blob: Bytes) -> Result<JobData, String> {
        pmix_proto::decode_job(blob).map_err(|error| error.to_string())
    }
}

/// What the flight recorder keeps here.
pub(super) const RECORDED: usize = 40;

#[derive(Debug)]
struct InOneWord;

impl Clock for InOneWord {
    fn tell(&self, at: Instant) -> String {
        format!("{at:?}").replace(' ', "")
    }
}

pub(super) fn recording(entries: usize) -> Recording {
    Recording { entries, pid: 4711, clock: &InOneWord }
}

/// A connected process.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) conn: ConnId,
    pub(super) proc: ProcId,
}

#[derive(Debug)]
pub(super) struct Harness {
    pub(super) engine: Engine,
    now: Instant,
    out: VecDeque<Command>,
    next: u64,
    finished: bool,
}

/// A namespace; the empty one for no name.
pub(super) fn nspace(name: &str) -> Nspace {
    if name.is_empty() { Nspace::none() } else { name.parse().unwrap() }
}

pub(super) fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(nspace(name), Rank::from_raw(rank))
}

pub(super) fn all_of(name: &str) -> ProcId {
    ProcId::wildcard(nspace(name))
}

pub(super) fn key(name: &str) -> KeyName {
    name.parse().unwrap()
}

pub(super) fn entry(scope: Scope, name: &str, value: impl Into<Value>) -> PutEntry {
    PutEntry::new(scope, key(name), value)
}

pub(super) fn commit(entries: impl IntoIterator<Item = PutEntry>) -> Request {
    Request::Commit(Commit::new(entries.into_iter().collect()))
}

pub(super) fn get(target: ProcId, name: &str) -> Request {
    Request::Get(Get::new(target, Some(key(name))))
}

pub(super) fn get_key<T>(target: ProcId, key: &Key<T>) -> Request {
    Request::Get(Get::new(target, Some(key.key_name())))
}

pub(super) fn get_all(target: ProcId) -> Request {
    Request::Get(Get::new(target, None))
}

pub(super) fn fence(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::Fence(Fence::new(Some(procs.into_iter().collect())))
}

pub(super) fn fence_all() -> Request {
    Request::Fence(Fence::new(None))
}

/// A request with one more directive.
pub(super) trait With: Sized {
    fn held(&mut self) -> &mut Directives;

    fn with<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        let before = std::mem::take(self.held());
        *self.held() = before.with(key, value);
        self
    }

    fn require<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        let before = std::mem::take(self.held());
        *self.held() = before.require(key, value);
        self
    }
}

impl With for Request {
    fn held(&mut self) -> &mut Directives {
        self.directives_mut().expect("a request with directives")
    }
}

/// What a modex says of one process, in the form tests compare.
pub(super) fn data_of(proc: &ProcId, entries: impl IntoIterator<Item = PutEntry>) -> ProcData {
    ProcData::new(proc.clone(), entries.into_iter().collect())
}

pub(super) fn modex(procs: impl IntoIterator<Item = ProcData>) -> Modex {
    Modex::new(procs.into_iter().collect())
}

/// What the server of another node sends of all that these processes have put, each time something newer.
pub(super) fn blob(procs: impl IntoIterator<Item = ProcData>) -> Bytes {
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    let mut changes = Changes::new(4711, 0, GENERATION.fetch_add(1, Ordering::Relaxed));
    changes.procs.extend(procs);
    CODEC.encode_changes(&[changes])
}

/// All data in a blob.
pub(super) fn read_blob(blob: &Bytes) -> Modex {
    modex(read_changes(blob).into_iter().flat_map(|changes| changes.procs))
}

pub(super) fn read_changes(blob: &Bytes) -> Vec<Changes> {
    CODEC.read_changes(blob.clone()).unwrap()
}

pub(super) fn failure(status: Status) -> Failure {
    Failure::new(status, "the test says so")
}

/// Compares what has no `PartialEq` because of what it carries, such as an opaque host object.
#[track_caller]
pub(super) fn assert_same(found: &impl Debug, expected: &impl Debug) {
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    assert!(found == expected, "found {found}\nexpected {expected}");
}

pub(super) fn config(upcalls: impl IntoIterator<Item = Upcall>) -> Config {
    Config {
        server: proc("server", 0),
        uid: USER.0,
        gid: SERVER_GROUP,
        hostname: NODE.into(),
        uri: Some("server.0;tcp4://127.0.0.1:1".into()),
        capabilities: upcalls.into_iter().collect::<Capabilities>(),
        tool_support: true,
        put_limit: PUT_LIMIT,
        codec: CODEC,
        incarnation: 1,
    }
}

/// The group with the same number.
pub(super) const fn group_of(uid: Uid) -> Gid {
    Gid::new(uid.as_raw())
}

/// The caller of collectives and fetches.
pub(super) fn server_caller() -> Caller {
    Caller { proc: proc("server", 0), uid: USER.0, gid: Some(SERVER_GROUP), object: None, trace: None }
}

/// A job on nodes `n0`, `n1`, ...; ranks of each as in a process map.
pub(super) fn spec(name: &str, proc_map: &str) -> JobSpec {
    let nodes = (0..proc_map.split(';').count()).map(|node| format!("n{node}"));
    JobSpec::new(nspace(name)).node_map(nodes).unwrap().proc_map(proc_map).unwrap()
}

impl Harness {
    /// An engine under a host that serves these upcalls.
    pub(super) fn new(upcalls: impl IntoIterator<Item = Upcall>) -> Self {
        Self::with_config(config(upcalls))
    }

    pub(super) fn with_config(config: Config) -> Self {
        Self::with_record(config, RECORDED)
    }

    pub(super) fn with_record(config: Config, entries: usize) -> Self {
        let engine = Engine::new(config).with_record(recording(entries));
        Self { engine, now: pmix_test_wait::moment(), out: VecDeque::new(), next: 0, finished: false }
    }

    /// A job on `n0` alone, all of whose processes are connected; no upcalls.
    pub(super) fn local(size: u32) -> (Self, Vec<Peer>) {
        let mut t = Self::new([]);
        t.job("job", &format!("0-{}", size - 1));
        let peers = (0..size).map(|rank| t.connect(&proc("job", rank))).collect();
        (t, peers)
    }

    /// Ranks 0 and 1 of a job here and connected, ranks 2 and 3 on `n1`.
    pub(super) fn two_nodes(upcalls: impl IntoIterator<Item = Upcall>) -> (Self, Peer, Peer) {
        let mut t = Self::new(upcalls);
        t.job("job", "0-1;2-3");
        let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
        (t, a, b)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    // what happens

    pub(super) fn feed(&mut self, input: Input) {
        // behind the commands that nobody has looked at yet
        let mut out = Vec::from(std::mem::take(&mut self.out));
        self.engine.handle(self.now, input, &mut out);
        self.out = out.into();
        self.engine.recorder.check(&self.engine.cx);
    }

    #[track_caller]
    pub(super) fn call(&mut self, call: HostCall) -> CallId {
        self.quiet();
        let id = CallId(self.number());
        self.feed(Input::Call { id, call });
        id
    }

    /// A call of the host that is answered at once; what else came of it is left to be looked at.
    #[track_caller]
    pub(super) fn called(&mut self, call: HostCall) -> Result<CallValue, Failure> {
        let call = self.call(call);
        match self.out.pop_back() {
            Some(Command::Return { id, result }) if id == call => result,
            other => panic!("the call of the host was not answered, but {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn register(&mut self, spec: JobSpec, local_procs: Option<u32>) {
        let nspace = spec.nspace().clone();
        let call = HostCall::RegisterNspace { nspace, local_procs, infos: spec.into_infos() };
        assert_same(&self.called(call), &Ok::<_, Failure>(CallValue::Done));
    }

    #[track_caller]
    pub(super) fn register_client(&mut self, proc: &ProcId) {
        self.register_client_with(proc, None);
    }

    #[track_caller]
    pub(super) fn register_client_with(&mut self, proc: &ProcId, object: Option<HostObject>) {
        let (uid, gid) = USER;
        let call = HostCall::RegisterClient { proc: proc.clone(), uid, gid, object };
        assert_same(&self.called(call), &Ok::<_, Failure>(CallValue::Done));
    }

    /// Registers a job and its processes on this node.
    #[track_caller]
    pub(super) fn job(&mut self, name: &str, proc_map: &str) {
        self.register(spec(name, proc_map), None);
        let nspace = nspace(name);
        let local = self.engine.cx.job_or_failure(&nspace).unwrap().local_ranks.clone();
        for rank in local.unwrap_or_default().iter() {
            self.register_client(&ProcId::new(nspace.clone(), rank));
        }
    }

    pub(super) fn hello_as(&mut self, identity: Identity, user: (Uid, Gid)) -> ConnId {
        let pid = Some(41 + i32::try_from(self.next).unwrap());
        self.hello_of(identity, PeerCred { uid: user.0, gid: Some(user.1), pid }, false)
    }

    pub(super) fn hello_of(&mut self, identity: Identity, peer: PeerCred, reattaches: bool) -> ConnId {
        let conn = ConnId(self.number());
        self.feed(Input::Hello { conn, peer, hello: Hello::new(identity, Pid(7)), reattaches });
        conn
    }

    #[track_caller]
    pub(super) fn hello(&mut self, proc: &ProcId) -> ConnId {
        self.quiet();
        self.hello_as(Identity::Client(proc.clone()), USER)
    }

    /// Connects a client; a host that wants to know agrees.
    #[track_caller]
    pub(super) fn connect(&mut self, proc: &ProcId) -> Peer {
        let conn = self.hello(proc);
        if self.engine.cx.config.capabilities.has(Upcall::ClientConnected) {
            let (id, _, request) = self.upcall();
            assert!(matches!(request, UpcallRequest::ClientConnected(request) if request.proc == *proc));
            self.answer(id, Ok(Answer::Done));
        }
        match self.out.pop_front() {
            Some(Command::Accept { conn: accepted, welcome }) if accepted == conn => {
                assert_eq!(welcome.proc, *proc);
            }
            other => panic!("{proc} was not let in, but {other:?}"),
        }
        Peer { conn, proc: proc.clone() }
    }

    pub(super) fn ask(&mut self, peer: &Peer, request: Request) -> ReplyTo {
        self.ask_on(peer.conn, request)
    }

    pub(super) fn ask_on(&mut self, conn: ConnId, request: Request) -> ReplyTo {
        let id = RequestId(self.number());
        self.feed(Input::Request { conn, id, request });
        ReplyTo { conn, id }
    }

    /// A commit that succeeds; what else came of it is left to be looked at.
    #[track_caller]
    pub(super) fn commits(&mut self, peer: &Peer, entries: impl IntoIterator<Item = PutEntry>) {
        self.quiet();
        let to = self.ask(peer, commit(entries));
        self.done(to);
    }

    #[track_caller]
    pub(super) fn lose(&mut self, peer: &Peer) {
        self.quiet();
        self.lose_conn(peer.conn);
    }

    pub(super) fn lose_conn(&mut self, conn: ConnId) {
        self.feed(Input::Lost { conn, reason: RESET.into() });
    }

    #[track_caller]
    pub(super) fn answer(&mut self, upcall: UpcallId, result: Result<Answer, Failure>) {
        self.quiet();
        self.feed(Input::HostReply { upcall, result });
    }

    /// The time in so many seconds.
    pub(super) fn after(&self, seconds: u64) -> Instant {
        self.now + Duration::from_secs(seconds)
    }

    /// Time passes. A kernel that is asked about processes then says nothing.
    #[track_caller]
    pub(super) fn advance(&mut self, seconds: u64) {
        self.pass(seconds);
        while let Some(at) = self.out.iter().position(|command| matches!(command, Command::Measure { .. })) {
            let Some(Command::Measure { id, .. }) = self.out.remove(at) else { unreachable!() };
            self.feed(Input::HostReply { upcall: id, result: Ok(Answer::Looks(Vec::new())) });
        }
    }

    /// Time passes.
    #[track_caller]
    pub(super) fn pass(&mut self, seconds: u64) {
        self.quiet();
        self.now += Duration::from_secs(seconds);
        let mut out = Vec::new();
        self.engine.handle_timeout(self.now, &mut out);
        self.out.extend(out);
        self.engine.recorder.check(&self.engine.cx);
        assert!(self.engine.next_timeout().is_none_or(|at| at > self.now));
    }

    // what comes of it

    /// Exactly these commands, and no more.
    #[track_caller]
    pub(super) fn expect(&mut self, commands: impl IntoIterator<Item = Command>) {
        assert_same(&self.out.drain(..).collect::<Vec<_>>(), &commands.into_iter().collect::<Vec<_>>());
    }

    /// All that came of it.
    pub(super) fn drain(&mut self) -> Vec<Command> {
        self.out.drain(..).collect()
    }

    #[track_caller]
    pub(super) fn quiet(&self) {
        assert!(self.out.is_empty(), "nothing was expected, but {:#?}", self.out);
    }

    #[track_caller]
    pub(super) fn next(&mut self) -> Command {
        self.out.pop_front().expect("a command")
    }

    /// The next command, if there is one.
    pub(super) fn take(&mut self) -> Option<Command> {
        self.out.pop_front()
    }

    #[track_caller]
    pub(super) fn outcome(&mut self, to: ReplyTo) -> Outcome {
        match self.next() {
            Command::Reply { conn, id, result } if (ReplyTo { conn, id }) == to => result,
            other => panic!("expected the answer to {to:?}, not {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn ok(&mut self, to: ReplyTo) -> Reply {
        self.outcome(to).unwrap_or_else(|failure| panic!("{to:?} failed: {failure}"))
    }

    #[track_caller]
    pub(super) fn done(&mut self, to: ReplyTo) {
        assert_same(&self.ok(to), &Reply::Done);
    }

    #[track_caller]
    pub(super) fn fails(&mut self, to: ReplyTo, status: Status) -> Failure {
        let failure = match self.outcome(to) {
            Err(failure) => failure,
            Ok(reply) => panic!("{to:?} should fail, not give {reply:?}"),
        };
        assert_eq!(failure.status, status, "{failure}");
        assert!(!failure.message.is_empty() && !failure.message.ends_with('.'), "{failure}");
        failure
    }

    #[track_caller]
    pub(super) fn got(&mut self, to: ReplyTo) -> GetReply {
        match self.ok(to) {
            Reply::Get(reply) => reply,
            other => panic!("expected data, not {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn value(&mut self, to: ReplyTo) -> Value {
        self.got(to).value.expect("a value")
    }

    #[track_caller]
    pub(super) fn fenced(&mut self, to: ReplyTo) -> Modex {
        match self.ok(to) {
            Reply::Fence(Fenced { collected: Collected::Held(modex), .. }) => (*modex).clone(),
            other => panic!("expected the end of a fence, not {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn upcall(&mut self) -> (UpcallId, Caller, UpcallRequest) {
        match self.next() {
            Command::Upcall { id, caller, request } => (id, caller, request),
            other => panic!("expected an upcall, not {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn cancelled(&mut self, upcall: UpcallId) {
        assert_same(&self.next(), &Command::CancelUpcall(upcall));
    }

    #[track_caller]
    pub(super) fn expect_cancel_then_timeout(&mut self, upcall: UpcallId, to: ReplyTo) {
        self.cancelled(upcall);
        self.fails(to, Status::ERR_TIMEOUT);
    }

    /// The end of a call of the host that had to wait.
    #[track_caller]
    pub(super) fn returned(&mut self, call: CallId) -> Result<CallValue, Failure> {
        match self.next() {
            Command::Return { id, result } if id == call => result,
            other => panic!("expected the end of {call:?}, not {other:?}"),
        }
    }

    /// Nothing is under way: no unseen command, waiting request, upcall or timer (invariant 5).
    #[track_caller]
    pub(super) fn finish(mut self) {
        self.finished = true;
        self.quiet();
        assert_idle(&self.engine);
    }
}

#[track_caller]
pub(super) fn assert_idle(engine: &Engine) {
    assert!(engine.cx.upcalls.is_empty(), "upcalls under way: {:?}", engine.cx.upcalls);
    assert_eq!(engine.next_timeout(), None, "timers: {:?}", engine.cx.timers);
    assert_eq!(
        engine.stats().waiting,
        0,
        "{:?} {:?} {:?}",
        engine.data,
        engine.collectives,
        engine.cx.timers
    );
    assert!(engine.collectives.is_empty(), "{:?}", engine.collectives);
    assert!(engine.data.is_empty(), "{:?}", engine.data);
    assert!(engine.monitors.is_empty(), "{:?}", engine.monitors);
    assert!(engine.queries.is_empty(), "{:?}", engine.queries);
    assert!(engine.resolutions.is_empty(), "{:?}", engine.resolutions);
    assert!(engine.forwards.is_empty(), "{:?}", engine.forwards);
}

/// A process wants to hear of all events.
#[track_caller]
pub(super) fn listen(t: &mut Harness, peer: &Peer) {
    let to = t.ask(peer, Request::RegisterEvents(RegisterEvents::new(vec![])));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
}

/// The next thing is that a process hears of an event.
#[track_caller]
pub(super) fn hears(t: &mut Harness, peer: &Peer, code: Status, about: &ProcId) -> Event {
    match t.next() {
        Command::Push { conn, push: Push::Event { event, .. } } => {
            assert_eq!((conn, event.code), (peer.conn, code), "{event:?}");
            assert_eq!(event.info.get(&keys::EVENT_AFFECTED_PROC).unwrap().as_ref(), Some(about));
            event
        }
        other => panic!("{} should hear {code}, but {other:?}", peer.proc),
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        assert!(self.finished || std::thread::panicking(), "the test did not call finish");
    }
}
