//! Three servers, their processes, and all that is on its way between them and the host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pmix_types::job::JobSpec;
use pmix_types::message::{Hello, Identity, LATENESS, Push};
use pmix_types::{Nspace, Pid, Status, Uid};

use super::ask::Expect;
use super::collectives::Program;
use super::fixtures::*;
use super::host::{Host, Parcel, Wish};
use super::model::{Model, Who};
use super::{Action, Step};
use crate::store::Ended;
use pmix_engine::Upcall;
use pmix_engine::{Answer, CallId, Command, ConnId, Engine, HostCall, Input, PeerCred, RequestId};

/// Process maps of the jobs.
pub(super) const JOBS: [(&str, &str); 2] = [("a", "0-1;2-3;4"), ("b", "0;1;2")];
pub(super) const NODES: usize = 3;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) node: usize,
    pub(super) conn: ConnId,
    pub(super) stage: Stage,
    /// Collectives it has not entered yet.
    pub(super) program: VecDeque<usize>,
    /// It waits for one to end.
    pub(super) is_in: bool,
    /// Namespaces of the groups it has been told of, by the step of their connect.
    pub(super) groups: BTreeMap<usize, Nspace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Coming,
    In,
    /// It has called finalize.
    Leaving,
    Left,
    /// It has ended, but its connection is still there.
    Dying,
    Gone,
}

/// A request without answer so far.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) who: usize,
    pub(super) expect: Expect,
    pub(super) deadline: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Instant,
    random: u64,
    next: u64,
    pub(super) engines: Vec<Engine>,
    pub(super) procs: Vec<Process>,
    pub(super) open: BTreeMap<(usize, ConnId, RequestId), Open>,
    /// Calls of the host without answer so far.
    pub(super) calls: BTreeMap<CallId, Wish>,
    pub(super) host: Host,
    pub(super) bag: Vec<Parcel>,
    pub(super) model: Model,
    pub(super) program: Program,
    /// Processes that were deregistered: the host has had their data removed.
    pub(super) deregistered: BTreeSet<usize>,
    /// A namespace is being deregistered, or has been.
    pub(super) over: BTreeSet<Nspace>,
}

impl World {
    pub(super) fn new(seed: u64, steps: &[Step]) -> Self {
        let upcalls = [
            Upcall::ClientConnected,
            Upcall::ClientFinalized,
            Upcall::ClientLost,
            Upcall::Abort,
            Upcall::Fence,
            Upcall::DirectModex,
            Upcall::Publish,
            Upcall::Lookup,
            Upcall::Unpublish,
            Upcall::Spawn,
            Upcall::Connect,
            Upcall::Disconnect,
            Upcall::Group,
            Upcall::Bootstrap,
            Upcall::RegisterEvents,
            Upcall::DeregisterEvents,
            Upcall::NotifyEvent,
            Upcall::Query,
            Upcall::Log,
            Upcall::JobControl,
            Upcall::IofPull,
            Upcall::PushStdin,
        ];
        let engine = |node| {
            let mut config = config(upcalls);
            config.hostname = format!("n{node}");
            Engine::new(config)
        };
        let mut world = Self {
            now: pmix_test_wait::moment(),
            random: seed,
            next: 0,
            engines: (0..NODES).map(engine).collect(),
            procs: Vec::new(),
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            host: Host::default(),
            bag: Vec::new(),
            model: Model::default(),
            program: Program::default(),
            deregistered: BTreeSet::new(),
            over: BTreeSet::new(),
        };
        world.set_up(seed.is_multiple_of(2));
        world.program = Program::new(steps, &world.model.who);
        for who in 0..world.procs.len() {
            world.procs[who].program = world.program.of(who);
        }
        world
    }

    fn set_up(&mut self, is_one_session: bool) {
        let mut specs = Vec::new();
        for (number, (name, map)) in (7u32..).zip(JOBS) {
            let session = if is_one_session { 7 } else { number };
            specs.push(spec(name, map).session(session));
            for (node, ranks) in map.split(';').enumerate() {
                let (first, last) = ranks.split_once('-').unwrap_or((ranks, ranks));
                for rank in first.parse::<u32>().unwrap()..=last.parse().unwrap() {
                    // users are not jobs: one of each is another's
                    let uid = if (name == "a") == (rank == 3) { Uid::ROOT } else { USER.0 };
                    self.model.who.push(Who { proc: proc(name, rank), node, uid, session });
                }
            }
        }
        for spec in specs {
            self.register_everywhere(spec);
        }
        for who in 0..self.model.who.len() {
            let Who { proc, node, uid, .. } = self.model.who[who].clone();
            let conn = ConnId(self.number());
            self.procs.push(Process {
                node,
                conn,
                stage: Stage::Coming,
                program: VecDeque::new(),
                is_in: false,
                groups: BTreeMap::new(),
            });
            let (gid, object) = (USER.1, None);
            self.call(node, HostCall::RegisterClient { proc: proc.clone(), uid, gid, object }, Wish::Nothing);
            let hello = Hello::new(Identity::Client(proc), Pid(0));
            self.feed(
                node,
                Input::Hello {
                    conn,
                    peer: PeerCred { uid, gid: Some(gid), pid: None },
                    hello,
                    reattaches: false,
                },
            );
        }
    }

    fn register_everywhere(&mut self, spec: JobSpec) {
        let (nspace, infos) = (spec.nspace().clone(), spec.into_infos());
        for node in 0..NODES {
            let (nspace, infos) = (nspace.clone(), infos.clone());
            self.call(node, HostCall::RegisterNspace { nspace, local_procs: None, infos }, Wish::Nothing);
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.model.tick += 1;
        let index = |who: u8| usize::from(who) % JOBS_SIZE;
        match action {
            Action::Ask { who, what } => self.ask(index(who), what),
            Action::Enter { who } => self.enter(index(who)),
            Action::Deliver { which } if !self.bag.is_empty() => {
                let parcel = self.bag.swap_remove(usize::from(which) % self.bag.len());
                self.deliver(parcel);
            }
            Action::Deliver { .. } => {}
            Action::Fate(fate) => self.host.fate = Some(fate),
            Action::Repeat { which, ok } => self.repeat(which.into(), ok),
            Action::Output { who } => self.output(index(who)),
            Action::Kill { who } => self.kill(index(who)),
            Action::Ended { who } => self.ended(index(who)),
            Action::DeregisterClient { who } => self.deregister_client(index(who)),
            Action::DeregisterNspace => self.deregister_nspace(nspace("b")),
            Action::Pass { seconds } => self.pass(seconds.into()),
        }
    }

    /// Lets everything happen that can, in some order.
    fn settle(&mut self) {
        loop {
            self.model.tick += 1;
            let ready: Vec<_> = (0..self.procs.len()).filter(|who| self.can_enter(*who)).collect();
            let count = ready.len() + self.bag.len();
            if count == 0 {
                return;
            }
            match self.random() % count {
                choice if choice < ready.len() => self.enter(ready[choice]),
                choice => {
                    let parcel = self.bag.swap_remove(choice - ready.len());
                    self.deliver(parcel);
                }
            }
        }
    }

    /// All comes to rest: nobody hangs, and nothing is left (invariants 1 and 5).
    pub(super) fn end(mut self) {
        self.host.fate = None;
        self.settle();
        loop {
            self.pass(10);
            self.settle();
            self.wake();
            self.settle();
            let is_timed = self.engines.iter().any(|engine| engine.next_timeout().is_some());
            if !self.give_up_a_collective() && !is_timed {
                break;
            }
            self.settle();
        }
        self.check_who_waits();
        let is_in = |who: usize| self.procs[who].stage == Stage::In;
        if self.over.is_empty() {
            self.model.all_have_heard(is_in);
        }
        for who in 0..self.procs.len() {
            match self.random() % 3 {
                0 => self.kill(who),
                1 => self.ask(who, super::What::Finalize),
                _ => {}
            }
        }
        self.settle();
        for (name, _) in JOBS {
            self.deregister_nspace(nspace(name));
        }
        for spawned in std::mem::take(&mut self.host.spawned) {
            self.deregister_nspace(spawned);
        }
        self.settle();
        self.check_empty();
    }

    fn check_empty(&self) {
        assert!(self.open.is_empty(), "never answered: {:?}", self.open);
        assert!(self.calls.is_empty(), "never answered: {:?}", self.calls);
        assert!(self.host.upcalls.is_empty(), "never answered: {:?}", self.host.upcalls);
        assert_eq!(self.host.store.waiting(), 0, "lookups of nobody wait");
        for engine in &self.engines {
            let held = engine.census();
            assert!(held.is_idle, "{engine:?}");
            assert_eq!(held.connections, 0, "{engine:?}");
            assert_eq!(held.nspaces, 0, "{engine:?}");
            assert_eq!(held.connected_sets, 0, "{engine:?}");
            assert!(!held.has_subscribers, "{engine:?}");
        }
    }

    // what happens

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn random(&mut self) -> usize {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) as usize
    }

    pub(super) fn feed(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.engines[node].handle(self.now, input, &mut out);
        self.observe(node, out);
    }

    pub(super) fn call(&mut self, node: usize, call: HostCall, wish: Wish) {
        let id = CallId(self.number());
        self.calls.insert(id, wish);
        self.feed(node, Input::Call { id, call });
    }

    /// Time passes everywhere; what has waited too long is answered, after a moment in which a server may ask whom a collective
    /// lacks on other nodes.
    fn pass(&mut self, seconds: u64) {
        let due = self.now + Duration::from_secs(seconds);
        for now in [due, due + LATENESS] {
            self.now = now;
            for node in 0..NODES {
                let mut out = Vec::new();
                self.engines[node].handle_timeout(self.now, &mut out);
                self.observe(node, out);
                assert!(self.engines[node].next_timeout().is_none_or(|at| at > self.now));
            }
        }
        let is_late = |open: &&Open| open.deadline.is_some_and(|at| at <= due);
        assert!(!self.open.values().any(|open| is_late(&open)), "overdue: {:?}", self.open);
    }

    /// A process no longer takes part in any operation.
    pub(super) fn departs(&mut self, who: usize, stage: Stage) {
        self.procs[who].stage = stage;
        self.procs[who].program.clear();
        self.model.all_going(|item, _| item.who() == who && item.ends_with_proc());
        if [Stage::Left, Stage::Gone].contains(&stage) {
            self.model.registrations.retain(|_, held| held.who != who);
            self.model.pulls.retain(|_, held| held.0 != who);
        }
    }

    pub(super) fn kill(&mut self, who: usize) {
        if self.procs[who].stage == Stage::Gone {
            return;
        }
        let Process { node, conn, stage, .. } = self.procs[who];
        self.departs(who, Stage::Gone);
        self.open.retain(|_, open| open.who != who);
        self.feed(node, Input::Lost { conn, reason: RESET.into() });
        let Who { proc, .. } = self.model.who[who].clone();
        let is_known = [Stage::In, Stage::Dying].contains(&stage);
        if !is_known && !self.over.contains(&proc.nspace) {
            // for its server it has not come yet, or may come again: only the host knows of its end
            self.is_over_for_host(who);
            self.call(node, HostCall::ClientEnded { proc, reason: "it ended".into() }, Wish::Nothing);
        }
    }

    fn ended(&mut self, who: usize) {
        let Process { node, stage, .. } = self.procs[who];
        let Who { proc, .. } = self.model.who[who].clone();
        if stage != Stage::In || self.over.contains(&proc.nspace) {
            return;
        }
        self.departs(who, Stage::Dying);
        self.is_over_for_host(who);
        self.call(node, HostCall::ClientEnded { proc, reason: "it ended".into() }, Wish::Nothing);
        self.bag.push(Parcel::Loss(who));
    }

    fn deregister_client(&mut self, who: usize) {
        let Process { node, stage, .. } = self.procs[who];
        let Who { proc, .. } = self.model.who[who].clone();
        if ![Stage::Coming, Stage::In].contains(&stage) || self.over.contains(&proc.nspace) {
            return;
        }
        self.departs(who, Stage::Dying);
        self.deregistered.insert(who);
        self.is_over_for_host(who);
        self.call(node, HostCall::DeregisterClient(proc), Wish::Nothing);
        assert_eq!(self.procs[who].stage, Stage::Gone);
    }

    /// The host is told by each server on its own.
    fn deregister_nspace(&mut self, nspace: Nspace) {
        if !self.over.insert(nspace.clone()) {
            return;
        }
        self.model.all_going(|item, who| who.proc.nspace == nspace && item.ends_with_job());
        Ended::of_job(&nspace).iter().for_each(|ended| self.host.store.forget(ended));
        for who in 0..self.procs.len() {
            if self.model.who[who].proc.nspace == nspace {
                self.procs[who].program.clear();
                self.host.gone.insert(who);
            }
        }
        self.settle_collectives();
        self.settle_bootstraps();
        for node in 0..NODES {
            self.bag.push(Parcel::Call(node, HostCall::DeregisterNspace(nspace.clone()), Wish::Nothing));
        }
    }

    // what comes of it

    fn observe(&mut self, node: usize, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Accept { conn, .. } => {
                    let who = self.owner(node, conn);
                    assert_eq!(self.procs[who].stage, Stage::Coming);
                    self.procs[who].stage = Stage::In;
                }
                Command::Refuse { conn, .. } => panic!("{conn:?} was refused"),
                Command::Reply { conn, id, result } => {
                    let open = self.open.remove(&(node, conn, id)).expect("one answer to one request");
                    self.answered(open, result);
                }
                Command::Push { conn, push } => self.pushed(node, conn, push),
                Command::Close { conn, .. } => {
                    let who = self.owner(node, conn);
                    self.open.retain(|_, open| open.who != who);
                    self.departs(who, Stage::Gone);
                }
                Command::Upcall { id, caller, request } => self.upcall(node, id, caller, request),
                Command::Measure { id, .. } => {
                    assert!(self.host.upcalls.insert((node, id)));
                    self.bag.push(Parcel::Reply(node, id, Ok(Answer::Looks(Vec::new()))));
                }
                Command::Look { .. } => panic!("nobody asked for files"),
                Command::CancelUpcall(id) => self.cancelled(node, id),
                Command::Cleanup(_) => {}
                Command::Return { id, result } => {
                    match self.calls.remove(&id).expect("one answer to one call") {
                        Wish::Nothing => {
                            result.expect("a call of the host that cannot fail");
                        }
                        Wish::Fetch(to, upcall) => self.fetched(to, upcall, result),
                    }
                }
            }
        }
        let under_way = self.host.upcalls.iter().filter(|(at, _)| *at == node).map(|(_, id)| id);
        assert!(self.engines[node].census().upcalls.iter().eq(under_way), "{:?}", self.engines[node]);
    }

    fn owner(&self, node: usize, conn: ConnId) -> usize {
        let is_its = |process: &Process| (process.node, process.conn) == (node, conn);
        let who = self.procs.iter().position(is_its).expect("a known connection");
        assert!(self.procs[who].stage != Stage::Gone, "{who} is gone");
        who
    }

    fn pushed(&mut self, node: usize, conn: ConnId, push: Push) {
        let who = self.owner(node, conn);
        match push {
            Push::Event { registrations, event, .. } => {
                let number = event.info.iter().find(|info| info.key.as_str() == "n");
                let number = number.map(|info| info.value.get::<u32>().unwrap());
                if number.is_none() {
                    let whom = event.custom_range();
                    let proc = &self.model.who[who].proc;
                    assert!(whom.iter().any(|named| named.matches(proc)), "{proc} hears of {event:?}");
                }
                self.model.hear(node, who, number, &registrations);
            }
            Push::Output { registration, output } => {
                let held = self.model.pulls.get_mut(&(node, registration)).expect("IOF: a wish in force");
                let (owner, target, had) = held;
                assert_eq!(*owner, who);
                let target = &self.model.who[*target].proc;
                assert!(output.source.matches(target), "{:?} for who asked for {target}", output.source);
                let text = std::str::from_utf8(&output.data).unwrap();
                for word in text.split_terminator(';') {
                    assert!(word.starts_with(&format!("{target} ")), "{word} is not of {target}");
                    assert!(had.insert(word.to_owned()), "{word} came twice");
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn output(&mut self, who: usize) {
        use pmix_types::{IofChannels, message::Output};
        let source = self.model.who[who].proc.clone();
        let text = format!("{source} {};", self.number());
        for node in 0..NODES {
            let output = Output::new(source.clone(), IofChannels::STDOUT, text.clone().into());
            self.bag.push(Parcel::Call(node, HostCall::IofDeliver(output), Wish::Nothing));
        }
    }

    fn repeat(&mut self, which: usize, ok: bool) {
        let Some((node, upcall)) = self.host.past.get(which % self.host.past.len().max(1)).copied() else {
            return;
        };
        let result = if ok { Ok(Answer::Done) } else { Err(failure(Status::ERROR)) };
        let mut out = Vec::new();
        self.engines[node].handle(self.now, Input::HostReply { upcall, result }, &mut out);
        assert!(out.is_empty(), "a late answer did {out:?}");
    }
}

/// Processes of all jobs together.
const JOBS_SIZE: usize = 8;
