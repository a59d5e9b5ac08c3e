//! Work of the engine whose instructions are counted, see `pmix-bench counts`.

#![allow(clippy::expect_used, reason = "work that goes wrong is not to be counted")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use pmix_types::job::JobSpec;
use pmix_types::message::{
    Changes, Commit, Fence, Get, Hello, Identity, Lookup, ProcData, Publish, PutEntry, RegisterEvents,
    Request,
};
use pmix_types::{
    Event, Gid, Info, KeyName, Nspace, Pdata, Pid, ProcId, Rank, Scope, Status, Uid, Value, keys,
};

use pmix_engine::{
    Answer, CallId, Clock, Command, Config, ConnId, Engine, HostCall, Input, PeerCred, Recording, RequestId,
    Upcall, UpcallRequest,
};
use pmix_server::host::CODEC;

/// Work that is prepared; to be done once.
pub(crate) type Work = Box<dyn FnMut()>;

/// What prepares it; the time is what the engine is told.
pub(crate) type Prepare = fn(Instant) -> Work;

/// All of it, by name.
pub(crate) const ALL: [(&str, Prepare); 11] = [
    ("engine/register a job of 1000 ranks", register),
    ("engine/connect 64 ranks", connect),
    ("engine/fence of 64 ranks", fence),
    ("engine/fence of 64 ranks by the host", fence_by_host),
    ("engine/fence of 64 ranks that collects 1 KiB each", fence_that_collects),
    ("engine/commit of 500 keys", commit),
    ("engine/get of 64 local values", get_local),
    ("engine/get of 64 remote values", get_remote),
    ("engine/publish of 64 values", publish),
    ("engine/lookup of 64 values", look_up),
    ("engine/event to 64 handlers", event),
];

/// Ranks on this node.
const LOCAL: u32 = 64;
/// Of server and clients.
const USER: (Uid, Gid) = (Uid::new(1000), Gid::new(100));
/// What a value under test has.
const KEY: &str = "work.key";

/// An engine with a host that answers at once.
struct Node {
    engine: Engine,
    now: Instant,
    requests: u64,
    out: Vec<Command>,
    /// What other nodes have of their processes.
    elsewhere: BTreeMap<ProcId, Bytes>,
    /// Inputs that were answered, and what was said unasked.
    answered: usize,
    pushed: usize,
}

fn nspace() -> Nspace {
    "job".parse().expect("a name")
}

fn proc(rank: u32) -> ProcId {
    ProcId::new(nspace(), Rank::from_raw(rank))
}

fn key(name: &str) -> KeyName {
    name.parse().expect("a key")
}

fn entry(name: &str, bytes: usize) -> PutEntry {
    PutEntry::new(Scope::GLOBAL, key(name), Bytes::from(vec![7; bytes]))
}

/// A job on nodes `n0`, `n1`, ..., the first of which is the engine's.
fn job(map: &str) -> Input {
    let nodes = (0..map.split(';').count()).map(|node| format!("n{node}"));
    let spec = JobSpec::new(nspace()).node_map(nodes).and_then(|spec| spec.proc_map(map)).expect("a job");
    call(HostCall::RegisterNspace { nspace: nspace(), local_procs: None, infos: spec.into_infos() })
}

fn call(call: HostCall) -> Input {
    Input::Call { id: CallId(0), call }
}

/// As a server has it by default.
fn recording() -> Recording {
    #[derive(Debug)]
    struct NoTime;
    impl Clock for NoTime {
        fn tell(&self, _: Instant) -> String {
            String::new()
        }
    }
    Recording { entries: 4096, pid: 1, clock: &NoTime }
}

/// A job of this node's ranks alone.
fn of_one_node() -> String {
    format!("0-{}", LOCAL - 1)
}

/// A job with as many ranks on another.
fn of_two_nodes() -> String {
    format!("0-{};{LOCAL}-{}", LOCAL - 1, 2 * LOCAL - 1)
}

fn hello(rank: u32) -> Input {
    let peer = PeerCred { uid: USER.0, gid: Some(USER.1), pid: Some(100) };
    let hello = Hello::new(Identity::Client(proc(rank)), Pid(100));
    Input::Hello { conn: ConnId(rank.into()), peer, hello, reattaches: false }
}

impl Node {
    fn new(now: Instant) -> Self {
        let upcalls = [Upcall::Fence, Upcall::DirectModex, Upcall::Publish, Upcall::Lookup];
        let server = ProcId::new("server".parse().expect("a name"), Rank::from_raw(0));
        let mut config = Config::new(server, USER.0, USER.1, "n0", 1, CODEC);
        config.capabilities = upcalls.into_iter().collect();
        config.put_limit = 1 << 30;
        let engine = Engine::new(config).with_record(recording());
        Self { engine, now, requests: 0, out: Vec::new(), elsewhere: BTreeMap::new(), answered: 0, pushed: 0 }
    }

    /// A node whose ranks of a job are registered.
    fn registered(now: Instant, map: &str) -> Self {
        let mut node = Self::new(now);
        node.feed(job(map));
        for rank in 0..LOCAL {
            node.feed(register_client(rank));
        }
        node
    }

    /// A node whose ranks of a job are connected.
    fn connected(now: Instant, map: &str) -> Self {
        let mut node = Self::registered(now, map);
        (0..LOCAL).for_each(|rank| node.feed(hello(rank)));
        node
    }

    /// A request that is still to be fed.
    fn request(&mut self, rank: u32, request: Request) -> Input {
        self.requests += 1;
        Input::Request { conn: ConnId(rank.into()), id: RequestId(self.requests), request }
    }

    /// A request that is carried out in preparation.
    fn ask(&mut self, rank: u32, request: Request) {
        let request = self.request(rank, request);
        self.feed(request);
    }

    /// The same request of each rank.
    fn of_all(&mut self, request: impl Fn(u32) -> Request) -> Vec<Input> {
        (0..LOCAL).map(|rank| self.request(rank, request(rank))).collect()
    }

    /// What comes of something that happens, with the answers of the host.
    fn feed(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.engine.handle(self.now, input, &mut self.out);
            for command in std::mem::take(&mut self.out) {
                match command {
                    Command::Upcall { id, request, .. } => {
                        inputs.push(Input::HostReply { upcall: id, result: Ok(self.host(request)) });
                    }
                    Command::Accept { .. } | Command::Reply { result: Ok(_), .. } => self.answered += 1,
                    Command::Return { result: Ok(_), .. } => self.answered += 1,
                    Command::Push { .. } => self.pushed += 1,
                    other => panic!("the engine should not say {other:?}"),
                }
            }
        }
    }

    fn host(&self, request: UpcallRequest) -> Answer {
        match request {
            UpcallRequest::Fence(fence) => Answer::Blob(fence.data),
            UpcallRequest::DirectModex(wish) => Answer::Blob(self.elsewhere[&wish.proc].clone()),
            UpcallRequest::Publish(_) => Answer::Done,
            UpcallRequest::Lookup(lookup) => {
                let found = |key| Pdata::new(proc(LOCAL), key, Value::Uint32(1));
                Answer::Found(lookup.keys.into_iter().map(found).collect())
            }
            other => panic!("the host was asked for {other:?}"),
        }
    }

    /// Work that ends when all inputs are answered.
    fn work(mut self, mut inputs: Vec<Input>) -> Work {
        let all = self.answered + inputs.len();
        Box::new(move || {
            inputs.drain(..).for_each(|input| self.feed(input));
            assert_eq!(black_box(self.answered), all, "not everybody was answered");
        })
    }
}

fn register_client(rank: u32) -> Input {
    call(HostCall::RegisterClient { proc: proc(rank), uid: USER.0, gid: USER.1, object: None })
}

fn register(now: Instant) -> Work {
    let nodes: Vec<_> = (0..1000).step_by(LOCAL as usize).collect();
    let ranks = nodes.into_iter().map(|first| format!("{first}-{}", (first + LOCAL).min(1000) - 1));
    let map = ranks.collect::<Vec<_>>().join(";");
    Node::new(now).work(std::iter::once(job(&map)).chain((0..LOCAL).map(register_client)).collect())
}

fn connect(now: Instant) -> Work {
    Node::registered(now, &of_two_nodes()).work((0..LOCAL).map(hello).collect())
}

fn fence_of(mut node: Node, collects: bool) -> Work {
    let entered = node.of_all(|_| {
        let mut fence = Fence::new(None);
        if collects {
            fence.directives = fence.directives.require(&keys::COLLECT_DATA, true);
        }
        Request::Fence(fence)
    });
    node.work(entered)
}

fn fence(now: Instant) -> Work {
    fence_of(Node::connected(now, &of_one_node()), false)
}

fn fence_by_host(now: Instant) -> Work {
    fence_of(Node::connected(now, &of_two_nodes()), false)
}

fn fence_that_collects(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_two_nodes());
    (0..LOCAL).for_each(|rank| node.ask(rank, Request::Commit(Commit::new(vec![entry(KEY, 1024)]))));
    fence_of(node, true)
}

fn commit(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_one_node());
    let entries = (0..500).map(|number| entry(&format!("{KEY}.{number}"), 8)).collect();
    let request = node.request(0, Request::Commit(Commit::new(entries)));
    node.work(vec![request])
}

/// Each asks for what another has put, of the node whose first rank this is.
fn gets(node: &mut Node, first: u32) -> Vec<Input> {
    let peer = |rank| proc(first + (rank + 1) % LOCAL);
    node.of_all(|rank| Request::Get(Get::new(peer(rank), Some(key(KEY)))))
}

fn get_local(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_one_node());
    (0..LOCAL).for_each(|rank| node.ask(rank, Request::Commit(Commit::new(vec![entry(KEY, 64)]))));
    let gets = gets(&mut node, 0);
    node.work(gets)
}

fn get_remote(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_two_nodes());
    for rank in LOCAL..2 * LOCAL {
        let mut changes = Changes::new(1, 0, 1);
        changes.procs.push(ProcData::new(proc(rank), vec![entry(KEY, 64)]));
        node.elsewhere.insert(proc(rank), CODEC.encode_changes(&[changes]));
    }
    let gets = gets(&mut node, LOCAL);
    node.work(gets)
}

fn publish(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_one_node());
    let data = |rank| vec![Info::dynamic(key(&format!("{KEY}.{rank}")), Value::Uint32(rank))];
    let requests = node.of_all(|rank| Request::Publish(Publish::new(data(rank))));
    node.work(requests)
}

fn look_up(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_one_node());
    let requests = node.of_all(|rank| Request::Lookup(Lookup::new(vec![key(&format!("{KEY}.{rank}"))])));
    node.work(requests)
}

fn event(now: Instant) -> Work {
    let mut node = Node::connected(now, &of_one_node());
    (0..LOCAL).for_each(|rank| node.ask(rank, Request::RegisterEvents(RegisterEvents::new(vec![]))));
    let about = Info::new(&keys::EVENT_AFFECTED_PROC, proc(0));
    let event = Event::new(Status::ERR_NODE_DOWN, ProcId::none()).with_info(about);
    Box::new(move || {
        node.feed(call(HostCall::NotifyEvent(event.clone())));
        assert_eq!(black_box(node.pushed), LOCAL as usize, "not everybody has heard");
    })
}
