//! Several servers that send each other changes only, under a host that fails some of them, and loses, doubles and delays
//! what they say: no process is ever given anything older than the last fence that has succeeded for it.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use pmix_types::message::{
    Collected, Failure, Fenced, Get, GetReply, Hello, Identity, ProcData, PutEntry, Reply, Request,
};
use pmix_types::{Directives, Pid, Scope, Status, Value, keys};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::upcall::Upcall;
use super::super::{
    Answer, CallId, CallValue, Command, Config, ConnId, Engine, HostCall, Input, PeerCred, RequestId,
    UpcallId, UpcallRequest,
};
use super::harness::*;

const JOB: &str = "job";
const KEYS: u8 = 3;

#[derive(Clone, Debug)]
enum Action {
    Put {
        who: Index,
        key: u8,
        scope: Scope,
    },
    /// Fences that are under way at the same time.
    Fences(Vec<Together>),
    Get {
        who: Index,
        target: Index,
        key: u8,
        refresh: bool,
    },
    /// A process ends, and one of the same rank is started.
    Restart {
        who: Index,
    },
    /// A server ends with its processes, and is started again.
    RestartServer {
        node: Index,
    },
}

#[derive(Clone, Debug)]
struct Together {
    /// Everybody if empty.
    members: Vec<Index>,
    /// On which nodes a participant asks for data.
    collects: u8,
    /// For which nodes it fails.
    fails: u8,
    /// Whose data the host loses for which others.
    loses: Option<(Index, u8)>,
    /// Data comes twice.
    twice: bool,
}

fn action() -> impl Strategy<Value = Action> {
    let scope = prop_oneof![4 => Just(Scope::GLOBAL), 2 => Just(Scope::REMOTE), 1 => Just(Scope::LOCAL)];
    let rarely = || prop_oneof![4 => Just(0u8), 1 => any::<u8>()];
    let members = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(any::<Index>(), 2..5)];
    let collects = prop_oneof![6 => Just(u8::MAX), 1 => Just(0), 1 => any::<u8>()];
    let loses = prop::option::weighted(0.1, (any::<Index>(), any::<u8>()));
    let together = (members, collects, rarely(), loses, prop::bool::weighted(0.1)).prop_map(
        |(members, collects, fails, loses, twice)| Together { members, collects, fails, loses, twice },
    );
    prop_oneof![
        8 => (any::<Index>(), 0..KEYS, scope).prop_map(|(who, key, scope)| Action::Put { who, key, scope }),
        5 => prop::collection::vec(together, 1..3).prop_map(Action::Fences),
        6 => (any::<Index>(), any::<Index>(), 0..KEYS, prop::bool::weighted(0.3))
            .prop_map(|(who, target, key, refresh)| Action::Get { who, target, key, refresh }),
        1 => any::<Index>().prop_map(|who| Action::Restart { who }),
        1 => any::<Index>().prop_map(|node| Action::RestartServer { node }),
    ]
}

/// What a process on another node would see of a key at all times, by the number of the change.
type History = Vec<(u64, Option<Value>)>;

#[derive(Debug, Default)]
struct Process {
    node: usize,
    /// The entries that its server holds, the latest of a key last.
    put: BTreeMap<u8, Vec<(Scope, Value)>>,
    history: BTreeMap<u8, History>,
    /// When it was started again.
    restarted: u64,
    /// What it has received of others.
    values: BTreeMap<(u32, String), Value>,
    generations: BTreeMap<Vec<u32>, u64>,
    /// Up to which change it must have what another has put.
    knows: BTreeMap<u32, u64>,
}

#[derive(Debug)]
enum Expect {
    Done,
    Fence { number: usize },
    Get { target: u32, key: u8, refresh: bool },
}

/// A fence that is under way.
#[derive(Debug)]
struct Open {
    spec: Together,
    members: Vec<u32>,
    /// The changes that are made before it.
    at: u64,
    said: BTreeMap<usize, (UpcallId, Bytes)>,
}

#[derive(Debug)]
struct World {
    now: Instant,
    map: String,
    engines: Vec<Engine>,
    processes: Vec<Process>,
    open: Vec<Open>,
    waiting: BTreeMap<(u32, RequestId), Expect>,
    fetches: BTreeMap<CallId, (usize, UpcallId)>,
    /// On its way to a server.
    bag: Vec<(usize, Input)>,
    choices: Vec<Index>,
    next: u64,
    changes: u64,
}

fn sees(scope: Scope) -> bool {
    scope != Scope::LOCAL
}

fn text(key: u8) -> String {
    format!("k{key}")
}

impl World {
    fn new(ranks_per_node: &[u32], choices: Vec<Index>) -> Self {
        let mut first = 0;
        let (mut processes, mut map) = (Vec::new(), Vec::new());
        for (node, count) in ranks_per_node.iter().enumerate() {
            map.push((first..first + count).map(|rank| rank.to_string()).collect::<Vec<_>>().join(","));
            first += count;
            processes.extend((0..*count).map(|_| Process { node, ..Process::default() }));
        }
        let mut world = Self {
            now: pmix_test_wait::moment(),
            map: map.join(";"),
            engines: Vec::new(),
            processes,
            open: Vec::new(),
            waiting: BTreeMap::new(),
            fetches: BTreeMap::new(),
            bag: Vec::new(),
            choices,
            next: 0,
            changes: 0,
        };
        for node in 0..ranks_per_node.len() {
            let engine = world.engine(node);
            world.engines.push(engine);
            world.populate(node);
        }
        world
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn engine(&mut self, node: usize) -> Engine {
        let incarnation = self.number();
        let config = config([Upcall::Fence, Upcall::DirectModex]);
        Engine::new(Config { hostname: format!("n{node}"), incarnation, ..config })
    }

    fn populate(&mut self, node: usize) {
        let infos = spec(JOB, &self.map).into_infos();
        self.call(node, HostCall::RegisterNspace { nspace: nspace(JOB), local_procs: None, infos });
        for rank in self.ranks_on(node) {
            self.start(rank);
        }
    }

    fn ranks_on(&self, node: usize) -> Vec<u32> {
        (0u32..)
            .zip(&self.processes)
            .filter(|(_, process)| process.node == node)
            .map(|(rank, _)| rank)
            .collect()
    }

    fn start(&mut self, rank: u32) {
        let (node, (uid, gid)) = (self.processes[rank as usize].node, USER);
        self.call(node, HostCall::RegisterClient { proc: proc(JOB, rank), uid, gid, object: None });
        let hello = Hello::new(Identity::Client(proc(JOB, rank)), Pid(0));
        let peer = PeerCred { uid, gid: Some(gid), pid: None };
        self.feed(node, Input::Hello { conn: ConnId(rank.into()), peer, hello, reattaches: false });
    }

    fn call(&mut self, node: usize, call: HostCall) {
        let id = CallId(self.number());
        self.feed(node, Input::Call { id, call });
    }

    fn ask(&mut self, rank: u32, expect: Expect, request: Request) {
        let id = RequestId(self.number());
        self.waiting.insert((rank, id), expect);
        let node = self.processes[rank as usize].node;
        self.feed(node, Input::Request { conn: ConnId(rank.into()), id, request });
    }

    fn feed(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.engines[node].handle(self.now, input, &mut out);
        out.into_iter().for_each(|command| self.carry_out(node, command));
    }

    /// Lets arrive what is under way, in a given disorder.
    fn settle(&mut self) {
        while !self.bag.is_empty() {
            let turn = usize::try_from(self.number()).unwrap();
            let choice = self.choices[turn % self.choices.len()];
            let (node, input) = self.bag.swap_remove(choice.index(self.bag.len()));
            self.feed(node, input);
        }
    }

    fn carry_out(&mut self, node: usize, command: Command) {
        match command {
            Command::Accept { .. } | Command::Close { .. } | Command::CancelUpcall(_) => {}
            Command::Reply { conn, id, result } => {
                let rank = u32::try_from(conn.0).unwrap();
                let expect = self.waiting.remove(&(rank, id)).expect("one answer to one request");
                self.check(rank, expect, result);
            }
            Command::Upcall { id, request: UpcallRequest::Fence(request), .. } => {
                let is_it = |open: &&mut Open| {
                    let named = |member| request.procs.iter().any(|named| named.matches(&proc(JOB, member)));
                    let is_whole = request.procs == [all_of(JOB)];
                    is_whole == open.spec.members.is_empty()
                        && (0..u32::try_from(self.processes.len()).unwrap())
                            .all(|rank| named(rank) == open.members.contains(&rank))
                };
                let open = self.open.iter_mut().find(is_it).expect("a fence that is under way");
                assert!(open.said.insert(node, (id, request.data)).is_none(), "one upcall for one fence");
            }
            Command::Upcall { id, request: UpcallRequest::DirectModex(request), .. } => {
                let call = CallId(self.number());
                self.fetches.insert(call, (node, id));
                let target = self.processes[request.proc.rank.to_raw() as usize].node;
                let fetch = HostCall::DmodexRequest { proc: request.proc, directives: request.directives };
                self.bag.push((target, Input::Call { id: call, call: fetch }));
            }
            Command::Return { id, result } => match self.fetches.remove(&id) {
                None => assert!(result.is_ok(), "{result:?}"),
                Some((node, upcall)) => {
                    let result = result.map(|value| match value {
                        CallValue::Blob(blob) => Answer::Blob(blob),
                        other => panic!("{other:?}"),
                    });
                    self.bag.push((node, Input::HostReply { upcall, result }));
                }
            },
            other => panic!("{other:?}"),
        }
    }

    fn act(&mut self, action: Action) {
        let size = self.processes.len();
        let pick = |index: &Index| u32::try_from(index.index(size)).unwrap();
        match action {
            Action::Put { who, key, scope } => self.put(pick(&who), key, scope),
            Action::Fences(together) => self.fence(together),
            Action::Get { who, target, key, refresh } => self.get(pick(&who), pick(&target), key, refresh),
            Action::Restart { who } => {
                let rank = pick(&who);
                let node = self.processes[rank as usize].node;
                self.call(node, HostCall::DeregisterClient(proc(JOB, rank)));
                self.restarted(rank);
                self.start(rank);
            }
            Action::RestartServer { node } => {
                let node = node.index(self.engines.len());
                let ranks = self.ranks_on(node);
                self.engines[node] = self.engine(node);
                ranks.into_iter().for_each(|rank| self.restarted(rank));
                self.populate(node);
            }
        }
        self.settle();
        assert!(self.waiting.is_empty(), "{:?}", self.waiting);
    }

    fn restarted(&mut self, rank: u32) {
        self.changes += 1;
        let changes = self.changes;
        let process = &mut self.processes[rank as usize];
        process.put.clear();
        process.history.values_mut().for_each(|history| history.push((changes, None)));
        process.restarted = changes;
        process.values.clear();
        process.generations.clear();
        process.knows.clear();
    }

    fn put(&mut self, rank: u32, key: u8, scope: Scope) {
        self.changes += 1;
        let value = Value::from(format!("{} of {rank}", self.changes));
        let process = &mut self.processes[rank as usize];
        let held = process.put.entry(key).or_default();
        held.retain(|(earlier, _)| scope != Scope::GLOBAL && scope != *earlier);
        held.push((scope, value.clone()));
        let visible = held.iter().rev().find(|(scope, _)| sees(*scope)).map(|(_, value)| value.clone());
        process.history.entry(key).or_default().push((self.changes, visible));
        self.ask(rank, Expect::Done, commit([entry(scope, &text(key), value)]));
    }

    fn fence(&mut self, together: Vec<Together>) {
        for spec in together {
            let size = self.processes.len();
            let mut members: Vec<_> =
                spec.members.iter().map(|member| u32::try_from(member.index(size)).unwrap()).collect();
            members.sort_unstable();
            members.dedup();
            if spec.members.is_empty() {
                members = (0..u32::try_from(size).unwrap()).collect();
            }
            let same = |open: &Open| {
                open.members == members && open.spec.members.is_empty() == spec.members.is_empty()
            };
            if !self.open.iter().any(same) {
                self.open.push(Open { spec, members, at: self.changes, said: BTreeMap::new() });
            }
        }
        for number in 0..self.open.len() {
            let Open { members, spec, .. } = &self.open[number];
            let (members, is_whole, collects) = (members.clone(), spec.members.is_empty(), spec.collects);
            for rank in &members {
                let named = members.iter().map(|member| proc(JOB, *member));
                let mut request = if is_whole { fence_all() } else { fence(named) };
                let process = &self.processes[*rank as usize];
                if collects >> process.node & 1 == 1 {
                    request = request.with(&keys::COLLECT_DATA, true);
                    if let Request::Fence(fence) = &mut request {
                        fence.since =
                            process.generations.get(&key_of(&members, is_whole)).copied().unwrap_or(0);
                    }
                }
                self.ask(*rank, Expect::Fence { number }, request);
            }
        }
        for open in &mut self.open {
            for (node, (upcall, _)) in &open.said {
                let from = |other: &usize| {
                    open.spec.loses.is_none_or(|(lost, by)| {
                        lost.index(self.engines.len()) != *other || by >> *node & 1 == 0
                    })
                };
                let mut data: Vec<_> = open
                    .said
                    .iter()
                    .filter(|(other, _)| from(other))
                    .map(|(_, (_, data))| data.clone())
                    .collect();
                if open.spec.twice {
                    data.extend(data.clone());
                }
                let result = if open.spec.fails >> node & 1 == 1 {
                    Err(failure(Status::ERR_LOST_CONNECTION))
                } else {
                    Ok(Answer::Blob(data.concat().into()))
                };
                self.bag.push((*node, Input::HostReply { upcall: *upcall, result }));
            }
        }
        self.settle();
        self.open.clear();
    }

    /// Asked of the server, which is to answer at once or with what the owner has.
    fn get(&mut self, rank: u32, target: u32, key: u8, refresh: bool) {
        let of_target = &self.processes[target as usize];
        if rank == target || of_target.put.is_empty() {
            return;
        }
        let mut request = Get::new(proc(JOB, target), Some(text(key).parse().unwrap()));
        let held = of_target.put.get(&key).into_iter().flatten();
        let is_there = held.map(|(scope, _)| *scope).any(sees);
        request.directives = match refresh {
            true => Directives::new().with(&keys::GET_REFRESH_CACHE, true),
            // it may be anywhere, or would be waited for
            false if is_there => Directives::new(),
            false => Directives::new().with(&keys::IMMEDIATE, true),
        };
        self.ask(rank, Expect::Get { target, key, refresh }, Request::Get(request));
    }

    fn check(&mut self, rank: u32, expect: Expect, outcome: Result<Reply, Failure>) {
        let node = self.processes[rank as usize].node;
        match (expect, outcome) {
            (Expect::Done, Ok(Reply::Done)) => {}
            (Expect::Fence { number }, Ok(Reply::Fence(fenced))) => self.fenced(rank, number, &fenced),
            (Expect::Fence { number }, Err(failure)) => {
                let Open { spec, .. } = &self.open[number];
                assert!(spec.fails >> node & 1 == 1, "{rank}: {failure}");
            }
            (Expect::Get { target, key, refresh }, outcome) => {
                let value = match outcome {
                    Ok(Reply::Get(GetReply { value, .. })) => value,
                    Ok(other) => panic!("{other:?}"),
                    Err(failure) => {
                        let none = [Status::ERR_NOT_FOUND, Status::ERR_EXISTS_OUTSIDE_SCOPE];
                        assert!(none.contains(&failure.status), "{failure}");
                        None
                    }
                };
                if self.processes[target as usize].node == node {
                    return;
                }
                let since = if refresh { self.changes } else { self.since(rank, target) };
                self.check_value(rank, target, key, value.as_ref(), since);
            }
            (expect, outcome) => panic!("{rank} expects {expect:?}, not {outcome:?}"),
        }
    }

    fn since(&self, rank: u32, target: u32) -> u64 {
        self.processes[rank as usize].knows.get(&target).copied().unwrap_or_default()
    }

    /// It was current at some time from a change on.
    fn check_value(&self, rank: u32, target: u32, key: u8, value: Option<&Value>, since: u64) {
        let none: History = vec![(0, None)];
        let history = self.processes[target as usize].history.get(&key).unwrap_or(&none);
        let first = history.iter().rposition(|(at, _)| *at <= since).unwrap_or_default();
        let mut current = history[first..].iter().map(|(_, value)| value.as_ref());
        let is_new = history[0].0 > since && value.is_none();
        assert!(
            is_new || current.any(|current| current == value),
            "{rank} finds {value:?} of {target} under {key}, after {since} in {history:?}"
        );
    }

    fn fenced(&mut self, rank: u32, number: usize, fenced: &Fenced) {
        let Open { spec, members, at, .. } = &self.open[number];
        let (members, at, whole) = (members.clone(), *at, spec.members.is_empty());
        let (collects, loses) = (spec.collects, spec.loses);
        let node = self.processes[rank as usize].node;
        assert!(
            spec.fails >> node & 1 == 0
                || members.iter().all(|member| self.processes[*member as usize].node == node)
        );
        if collects >> node & 1 == 0 {
            return;
        }
        let Collected::Held(modex) = &fenced.collected else { panic!("{fenced:?}") };
        let process = &mut self.processes[rank as usize];
        let held = process.generations.entry(key_of(&members, whole)).or_default();
        assert!(fenced.since <= *held, "{fenced:?}");
        *held = fenced.generation;
        for ProcData { proc, entries, .. } in &modex.procs {
            for PutEntry { key, value, .. } in entries {
                process.values.insert((proc.rank.to_raw(), key.to_string()), value.clone());
            }
        }
        for member in members {
            let of = &self.processes[member as usize];
            let is_lost = loses
                .is_some_and(|(lost, by)| lost.index(self.engines.len()) == of.node && by >> node & 1 == 1);
            if of.node == node || collects >> of.node & 1 == 0 || is_lost {
                continue;
            }
            let knows = self.processes[rank as usize].knows.entry(member).or_default();
            *knows = at.max(*knows);
            let (since, restarted) = (*knows, self.processes[member as usize].restarted);
            for key in 0..KEYS {
                // processes are not told of what is no more
                let value = self.processes[rank as usize].values.get(&(member, text(key)));
                if restarted == 0 || value.is_some_and(|value| self.is_current(member, key, value)) {
                    self.check_value(rank, member, key, value, since);
                }
            }
        }
    }

    fn is_current(&self, rank: u32, key: u8, value: &Value) -> bool {
        let last = self.processes[rank as usize].history.get(&key).and_then(|history| history.last());
        last.is_some_and(|(_, last)| last.as_ref() == Some(value))
    }
}

/// What a process keeps a generation by.
fn key_of(members: &[u32], is_whole: bool) -> Vec<u32> {
    if is_whole { Vec::new() } else { members.to_vec() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn fen_06_fen_08_who_was_in_a_fence_finds_nothing_older_though_servers_send_changes_only(
        ranks_per_node in prop::collection::vec(1..=2u32, 2..=3),
        actions in prop::collection::vec(action(), 1..60),
        choices in prop::collection::vec(any::<Index>(), 1..32),
    ) {
        let mut world = World::new(&ranks_per_node, choices);
        for action in actions {
            world.act(action);
        }
    }
}
