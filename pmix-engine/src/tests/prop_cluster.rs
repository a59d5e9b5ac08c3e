//! Several engines under one host that moves bytes between them, late and out of order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;
use pmix_types::message::{Collected, Failure, Fenced, Hello, Identity, Reply, Request};
use pmix_types::{KeyName, Pid, ProcId, Scope, Status, Value, keys};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::upcall::{FenceRequest, Upcall};
use super::super::{
    Answer, CallId, CallValue, Command, Config, ConnId, Engine, HostCall, Input, PeerCred, RequestId,
    UpcallId, UpcallRequest,
};
use super::harness::*;

const JOB: &str = "job";

/// What processes do, in this order; each does the steps it takes part in.
#[derive(Clone, Debug)]
enum Step {
    /// Everybody in it commits a key of this step and calls the fence.
    Fence { set: Set, collect: bool },
    /// One process wants what another has put at its start.
    Get { asker: Index, target: Index, immediate: bool },
}

#[derive(Clone, Debug)]
enum Set {
    Everybody,
    Some(Vec<Index>),
}

fn step() -> impl Strategy<Value = Step> {
    let some = prop::collection::vec(any::<Index>(), 1..5).prop_map(Set::Some);
    let set = prop_oneof![2 => Just(Set::Everybody), 3 => some];
    prop_oneof![
        3 => (set, any::<bool>()).prop_map(|(set, collect)| Step::Fence { set, collect }),
        2 => (any::<Index>(), any::<Index>(), prop::bool::weighted(0.1))
            .prop_map(|(asker, target, immediate)| Step::Get { asker, target, immediate }),
    ]
}

/// A process and how far it is.
#[derive(Debug)]
struct Process {
    node: usize,
    alive: bool,
    /// What it still has to ask, the next last.
    program: Vec<(Expect, Request)>,
    waiting: Option<(RequestId, Expect)>,
    received: Received,
}

/// What a process has from fences that have collected.
#[derive(Debug, Default)]
struct Received {
    /// By the participants of the fence.
    generations: BTreeMap<Vec<u32>, u64>,
    values: BTreeMap<(u32, String), Value>,
}

impl Received {
    fn generation(&self, members: &[u32]) -> u64 {
        self.generations.get(members).copied().unwrap_or_default()
    }

    fn take(&mut self, members: &[u32], fenced: &Fenced) {
        let Collected::Held(modex) = &fenced.collected else { panic!("{fenced:?}") };
        assert!(fenced.since <= self.generation(members), "{fenced:?}");
        self.generations.insert(members.to_vec(), fenced.generation);
        if fenced.since == 0 {
            // all of it has come once more
            self.values.retain(|(rank, _), _| !members.contains(rank));
        }
        for data in &modex.procs {
            let of = |key: &KeyName| (data.proc.rank.to_raw(), key.to_string());
            self.values.extend(data.entries.iter().map(|entry| (of(&entry.key), entry.value.clone())));
        }
    }
}

#[derive(Clone, Debug)]
enum Expect {
    Done,
    Fence { step: usize, members: Vec<u32>, collect: bool },
    Get { target: u32, immediate: bool },
}

/// The host of all nodes.
#[derive(Debug, Default)]
struct Host {
    fences: BTreeMap<Vec<ProcId>, Vec<Gathering>>,
    /// Where the answer to a fetch goes.
    fetches: BTreeMap<CallId, (usize, UpcallId)>,
    lost: BTreeSet<u32>,
}

/// What servers have said of one fence.
#[derive(Debug, Default)]
struct Gathering {
    nodes: BTreeSet<usize>,
    said: BTreeMap<usize, (UpcallId, Result<Bytes, Status>)>,
    done: bool,
}

#[derive(Debug)]
struct Cluster {
    now: Instant,
    engines: Vec<Engine>,
    processes: Vec<Process>,
    host: Host,
    /// On its way to the engine of a node.
    bag: Vec<(usize, Input)>,
    /// Whether the fence of a step has succeeded.
    verdicts: BTreeMap<usize, bool>,
    /// The fences of each process.
    takes_part: Vec<Vec<usize>>,
    next: u64,
}

fn node_number(name: &str) -> usize {
    name[1..].parse().unwrap()
}

fn key_of(step: usize, rank: u32) -> Value {
    format!("{step} of {rank}").into()
}

impl Cluster {
    fn new(ranks_per_node: &[u32], steps: &[Step]) -> Self {
        let size: u32 = ranks_per_node.iter().sum();
        let upcalls = [Upcall::Fence, Upcall::DirectModex, Upcall::ClientLost];
        let mut cluster = Self {
            now: pmix_test_wait::moment(),
            engines: Vec::new(),
            processes: Vec::new(),
            host: Host::default(),
            bag: Vec::new(),
            verdicts: BTreeMap::new(),
            takes_part: Vec::new(),
            next: 0,
        };
        let mut first = 0;
        let mut map = Vec::new();
        for (node, count) in ranks_per_node.iter().enumerate() {
            let ranks: Vec<_> = (first..first + count).collect();
            map.push(ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
            first += count;
            cluster.engines.push(Engine::new(Config { hostname: format!("n{node}"), ..config(upcalls) }));
            for rank in ranks {
                let program = program(rank, size, steps);
                let fences = program.iter().filter_map(|(expect, _)| match expect {
                    Expect::Fence { step, .. } => Some(*step),
                    _ => None,
                });
                cluster.takes_part.push(fences.collect());
                let received = Received::default();
                cluster.processes.push(Process { node, alive: true, program, waiting: None, received });
            }
        }
        for node in 0..ranks_per_node.len() {
            let infos = spec(JOB, &map.join(";")).into_infos();
            cluster.call(node, HostCall::RegisterNspace { nspace: nspace(JOB), local_procs: None, infos });
        }
        for rank in 0..size {
            let (proc, node) = (proc(JOB, rank), cluster.processes[rank as usize].node);
            let (uid, gid) = USER;
            cluster.call(node, HostCall::RegisterClient { proc: proc.clone(), uid, gid, object: None });
            let hello = Hello::new(Identity::Client(proc), Pid(0));
            let peer = PeerCred { uid, gid: Some(gid), pid: None };
            cluster.feed(node, Input::Hello { conn: ConnId(rank.into()), peer, hello, reattaches: false });
        }
        cluster
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn call(&mut self, node: usize, call: HostCall) {
        let id = CallId(self.number());
        self.feed(node, Input::Call { id, call });
    }

    /// Lets things happen in a given disorder until nothing can happen any more.
    fn run(&mut self, choices: &[Index], deaths: &[(u8, Index)]) {
        for tick in 0usize.. {
            for (_, rank) in deaths.iter().filter(|(at, _)| usize::from(*at) == tick) {
                self.kill(rank.index(self.processes.len()));
            }
            let can_go =
                |process: &Process| process.alive && process.waiting.is_none() && !process.program.is_empty();
            let ready: Vec<_> =
                (0..self.processes.len()).filter(|rank| can_go(&self.processes[*rank])).collect();
            let count = ready.len() + self.bag.len();
            if count == 0 {
                return;
            }
            match choices[tick % choices.len()].index(count) {
                choice if choice < ready.len() => self.proceed(ready[choice]),
                choice => {
                    let (node, input) = self.bag.swap_remove(choice - ready.len());
                    self.feed(node, input);
                }
            }
        }
    }

    fn proceed(&mut self, rank: usize) {
        let id = RequestId(self.number());
        let process = &mut self.processes[rank];
        let (expect, mut request) = process.program.pop().unwrap();
        if let (Request::Fence(fence), Expect::Fence { members, .. }) = (&mut request, &expect) {
            fence.since = process.received.generation(members);
        }
        process.waiting = Some((id, expect));
        let node = process.node;
        self.feed(node, Input::Request { conn: ConnId(rank as u64), id, request });
    }

    fn kill(&mut self, rank: usize) {
        let process = &mut self.processes[rank];
        if std::mem::take(&mut process.alive) {
            process.waiting = None;
            let node = process.node;
            self.feed(node, Input::Lost { conn: ConnId(rank as u64), reason: RESET.into() });
        }
    }

    fn feed(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.engines[node].handle(self.now, input, &mut out);
        for command in out {
            self.carry_out(node, command);
        }
    }

    fn carry_out(&mut self, node: usize, command: Command) {
        match command {
            Command::Accept { .. } => {}
            Command::Reply { conn, id, result } => {
                let rank = usize::try_from(conn.0).unwrap();
                let (asked, expect) = self.processes[rank].waiting.take().expect("one answer to one request");
                assert_eq!(asked, id);
                self.check(rank, expect, result);
            }
            Command::Upcall { id, request: UpcallRequest::Fence(request), .. } => {
                self.gather(node, id, request)
            }
            Command::Upcall { id, request: UpcallRequest::DirectModex(request), .. } => {
                let call = CallId(self.number());
                self.host.fetches.insert(call, (node, id));
                let target = self.processes[request.proc.rank.to_raw() as usize].node;
                let wish = HostCall::DmodexRequest { proc: request.proc, directives: request.directives };
                self.bag.push((target, Input::Call { id: call, call: wish }));
            }
            Command::Upcall { id, request: UpcallRequest::ClientLost(request), .. } => {
                self.host.lost.insert(request.proc.rank.to_raw());
                self.bag.push((node, Input::HostReply { upcall: id, result: Ok(Answer::Done) }));
                for set in self.host.fences.keys().cloned().collect::<Vec<_>>() {
                    self.settle(&set);
                }
            }
            Command::CancelUpcall(_) => {}
            Command::Return { id, result } => {
                let Some((node, upcall)) = self.host.fetches.remove(&id) else {
                    return assert!(result.is_ok());
                };
                let result = result.map(|value| match value {
                    CallValue::Blob(blob) => Answer::Blob(blob),
                    other => panic!("{other:?}"),
                });
                self.bag.push((node, Input::HostReply { upcall, result }));
            }
            other => panic!("{other:?}"),
        }
    }

    /// A server has called the host for a fence: its n-th call for these processes is about their n-th fence.
    fn gather(&mut self, node: usize, upcall: UpcallId, request: FenceRequest) {
        let status = request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS).unwrap();
        let gatherings = self.host.fences.entry(request.procs.clone()).or_default();
        let turn = gatherings.iter().filter(|gathering| gathering.said.contains_key(&node)).count();
        if turn == gatherings.len() {
            gatherings.push(Gathering::default());
        }
        let gathering = &mut gatherings[turn];
        gathering.nodes.extend(request.nodes.iter().map(|name| node_number(name)));
        gathering.said.insert(node, (upcall, status.map_or(Ok(request.data), Err)));
        self.settle(&request.procs);
    }

    /// Answers the fences for which all servers have spoken, or have nobody left to speak for.
    fn settle(&mut self, set: &[ProcId]) {
        let is_silent = |node: usize| {
            let members = (0u32..).zip(&self.processes).filter(|(rank, process)| {
                process.node == node && set.iter().any(|member| member.matches(&proc(JOB, *rank)))
            });
            members.into_iter().all(|(rank, _)| self.host.lost.contains(&rank))
        };
        let silent: BTreeSet<usize> = (0..self.engines.len()).filter(|node| is_silent(*node)).collect();
        for gathering in self.host.fences.get_mut(set).unwrap().iter_mut().filter(|gathering| !gathering.done)
        {
            let mut missing = gathering.nodes.iter().filter(|node| !gathering.said.contains_key(node));
            let is_short = missing.clone().next().is_some();
            if !missing.all(|node| silent.contains(node)) {
                continue;
            }
            gathering.done = true;
            let said: Result<Vec<Bytes>, Status> =
                gathering.said.values().map(|(_, data)| data.clone()).collect();
            let result = match said {
                Ok(blobs) if !is_short => Ok(Answer::Blob(blobs.concat().into())),
                _ => Err(failure(Status::ERR_LOST_CONNECTION)),
            };
            for (node, (upcall, _)) in &gathering.said {
                self.bag.push((*node, Input::HostReply { upcall: *upcall, result: result.clone() }));
            }
        }
    }

    fn check(&mut self, rank: usize, expect: Expect, outcome: Result<Reply, Failure>) {
        match (expect, outcome) {
            (Expect::Done, Ok(Reply::Done)) => {}
            (Expect::Fence { step, members, collect }, outcome) => {
                let verdict = *self.verdicts.entry(step).or_insert_with(|| outcome.is_ok());
                assert_eq!(
                    outcome.is_ok(),
                    verdict,
                    "{rank} hears otherwise of the fence in step {step}: {outcome:?}"
                );
                match outcome {
                    Ok(Reply::Fence(fenced)) if collect => {
                        self.processes[rank].received.take(&members, &fenced);
                        for member in members {
                            self.check_received(rank, step, member);
                        }
                    }
                    Ok(Reply::Fence(Fenced { collected: Collected::Held(modex), .. })) => {
                        assert_eq!(modex.procs, [], "{rank} in step {step}");
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => assert!(
                        members.iter().any(|member| !self.processes[*member as usize].alive),
                        "the fence in step {step} failed though all live"
                    ),
                }
            }
            (Expect::Get { target, .. }, Ok(Reply::Get(reply))) => {
                assert_eq!(reply.value, Some(format!("hello of {target}").into()));
            }
            (Expect::Get { target, immediate }, Err(failure)) => {
                assert_eq!(failure.status, Status::ERR_NOT_FOUND);
                assert!(immediate || !self.processes[target as usize].alive, "{failure}");
            }
            (expect, outcome) => panic!("{rank} expects {expect:?}, not {outcome:?}"),
        }
    }

    /// The process has all that the member has put up to this step, with the last values. Another fence may have brought
    /// newer ones.
    fn check_received(&self, rank: usize, step: usize, member: u32) {
        let values = &self.processes[rank].received.values;
        let value = |key: String| values.get(&(member, key));
        let mut latest = self.takes_part[member as usize].iter().filter(|other| **other >= step);
        assert!(
            latest.any(|other| value("latest".to_owned()) == Some(&key_of(*other, member))),
            "{rank} in step {step} of {member}: {values:?}"
        );
        for step in self.takes_part[member as usize].iter().filter(|other| **other <= step) {
            let put = key_of(*step, member);
            assert_eq!(
                value(format!("k{step}")),
                Some(&put),
                "{rank} in step {step} of {member}: {values:?}"
            );
        }
    }

    /// Nobody hangs, and nothing is left.
    fn end(mut self) {
        for (rank, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            assert!(process.waiting.is_none(), "{rank} hangs: {process:?}\n{:?}", self.host);
        }
        for rank in 0..self.processes.len() {
            self.kill(rank);
        }
        while let Some((node, input)) = self.bag.pop() {
            self.feed(node, input);
        }
        self.engines.iter().for_each(assert_idle);
    }
}

/// What one process has to do, the next last.
fn program(rank: u32, size: u32, steps: &[Step]) -> Vec<(Expect, Request)> {
    let hello = commit([entry(Scope::GLOBAL, "hello", format!("hello of {rank}"))]);
    let mut program = vec![(Expect::Done, hello)];
    for (number, step) in steps.iter().enumerate() {
        let pick = |index: &Index| u32::try_from(index.index(size as usize)).unwrap();
        match step {
            Step::Fence { set, collect } => {
                let (members, procs) = match set {
                    Set::Everybody => ((0..size).collect::<BTreeSet<_>>(), vec![all_of(JOB)]),
                    Set::Some(some) => {
                        let members: BTreeSet<_> = some.iter().map(pick).collect();
                        let procs = members.iter().map(|member| proc(JOB, *member)).collect();
                        (members, procs)
                    }
                };
                if members.contains(&rank) {
                    let (key, value) = (format!("k{number}"), key_of(number, rank));
                    let latest = entry(Scope::GLOBAL, "latest", value.clone());
                    program.push((Expect::Done, commit([entry(Scope::GLOBAL, &key, value), latest])));
                    let members = members.into_iter().collect();
                    let expect = Expect::Fence { step: number, members, collect: *collect };
                    program.push((expect, fence(procs).with(&keys::COLLECT_DATA, *collect)));
                }
            }
            Step::Get { asker, target, immediate } if pick(asker) == rank => {
                let request = get(proc(JOB, pick(target)), "hello").with(&keys::IMMEDIATE, *immediate);
                program.push((Expect::Get { target: pick(target), immediate: *immediate }, request));
            }
            Step::Get { .. } => {}
        }
    }
    program.reverse();
    program
}

proptest! {
    #[test]
    fn all_nodes_come_to_one_verdict_and_nobody_hangs(
        ranks_per_node in prop::collection::vec(1..=3u32, 2..=3),
        steps in prop::collection::vec(step(), 1..14),
        deaths in prop::collection::vec((any::<u8>(), any::<Index>()), 0..3),
        choices in prop::collection::vec(any::<Index>(), 1..64),
    ) {
        let mut cluster = Cluster::new(&ranks_per_node, &steps);
        cluster.run(&choices, &deaths);
        cluster.end();
    }
}
