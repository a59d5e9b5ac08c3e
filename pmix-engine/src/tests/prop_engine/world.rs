//! Makes things happen to an engine, and holds all it does against the model.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pmix_types::message::{Finalize, Hello, Identity, ProcData, Reply, Request};
use pmix_types::{Directives, Pid, ProcId, Rank, Scope, Status, keys};

use super::super::super::upcall::{Capabilities, Upcall};
use super::super::super::{
    Answer, CallId, CallValue, Command, Config, ConnId, Engine, HostCall, Input, PeerCred, RequestId,
    UpcallId, UpcallRequest,
};
use super::super::harness::*;
use super::Action;
use super::model::{Get, JOB, Model, Put, tagged};

#[derive(Debug)]
struct Conn {
    rank: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    Connected,
    Finalizing,
    Finalized,
}

/// What a request should come to.
#[derive(Clone, Debug)]
enum Asked {
    /// Its connection is in no state to ask.
    TooEarlyOrLate,
    Commit,
    Get(Get),
    Fence {
        set: Vec<ProcId>,
        round: usize,
    },
    /// A fence of others.
    ForeignFence,
    Finalize,
}

#[derive(Debug)]
pub(super) struct World {
    engine: Engine,
    model: Model,
    next: u64,
    conns: BTreeMap<ConnId, Conn>,
    registered: Vec<u32>,
    /// Requests without answer so far.
    open: BTreeMap<(ConnId, RequestId), Asked>,
    /// Calls of the host without answer so far.
    calls: BTreeMap<CallId, Option<(u32, Option<String>)>>,
    upcalls: BTreeMap<UpcallId, UpcallRequest>,
    past_upcalls: Vec<UpcallId>,
    /// What the kernel is asked.
    looks: Vec<UpcallId>,
}

impl World {
    pub(super) fn new(capabilities: Capabilities, local: u32, remote: u32) -> Self {
        let config = Config { capabilities, ..config([]) };
        let model = Model {
            now: pmix_test_wait::moment(),
            local,
            size: local + remote,
            puts: Vec::new(),
            gone: Default::default(),
            rounds: BTreeMap::new(),
            ending: false,
        };
        let mut world = Self {
            engine: Engine::new(config),
            model,
            next: 0,
            conns: BTreeMap::new(),
            registered: Vec::new(),
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            upcalls: BTreeMap::new(),
            past_upcalls: Vec::new(),
            looks: Vec::new(),
        };
        world.set_up();
        world
    }

    /// Registers the job and connects its processes.
    fn set_up(&mut self) {
        let list = |from: u32, to: u32| (from..to).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let (local, size) = (self.model.local, self.model.size);
        let map =
            if size > local { format!("{};{}", list(0, local), list(local, size)) } else { list(0, local) };
        let infos = spec(JOB, &map).into_infos();
        self.call(HostCall::RegisterNspace { nspace: nspace(JOB), local_procs: Some(local), infos }, None);
        for rank in 0..local {
            self.register_client(rank);
            self.hello(rank);
            self.answer_all();
        }
    }

    pub(super) fn step(&mut self, action: Action) {
        match action {
            Action::Hello { rank } => self.hello(u32::from(rank) % self.model.local),
            Action::Commit { who, key, scope } => self.commit(who, key, scope),
            Action::Get { who, rank, key, immediate, refresh, timeout } => {
                let rank = match u32::from(rank) % (self.model.size + 1) {
                    rank if rank == self.model.size => Rank::UNDEF,
                    rank => Rank::from_raw(rank),
                };
                let name = format!("k{key}");
                let mut request =
                    get(proc(JOB, 0).with_rank(rank), &name).with(&keys::TIMEOUT, i32::from(timeout));
                if immediate {
                    request = request.with(&keys::IMMEDIATE, true);
                }
                if refresh {
                    request = request.with(&keys::GET_REFRESH_CACHE, true);
                }
                let deadline = self.deadline(timeout);
                let wanted = Get { rank, key: name, hasty: immediate || refresh, deadline };
                self.ask(who, request, |_, _| Asked::Get(wanted));
            }
            Action::Fence { who, set, collect, timeout } => self.fence(who, set, collect, timeout),
            Action::Finalize { who } => {
                self.ask(who, Request::Finalize(Finalize::new()), |_, conn| {
                    conn.stage = Stage::Finalizing;
                    Asked::Finalize
                });
            }
            Action::Lose { who } => {
                if let Some(conn) = self.pick(who) {
                    self.lose(conn);
                }
            }
            Action::HostAnswers { which, ok } => {
                let index = usize::from(which) % self.upcalls.len().max(1);
                if let Some(id) = self.upcalls.keys().nth(index).copied() {
                    self.answer(id, ok);
                }
            }
            Action::HostRepeats { which, ok } => {
                let index = usize::from(which) % self.past_upcalls.len().max(1);
                if let Some(id) = self.past_upcalls.get(index).copied() {
                    let result = if ok { Ok(Answer::Done) } else { Err(failure(Status::ERROR)) };
                    let mut out = Vec::new();
                    self.engine.handle(self.model.now, Input::HostReply { upcall: id, result }, &mut out);
                    assert!(out.is_empty(), "a late answer did {out:?}");
                }
            }
            Action::HostAsks { rank, key } => {
                let rank = u32::from(rank) % self.model.size;
                let key = key.map(|key| format!("k{key}"));
                let mut directives = Directives::new();
                if let Some(key) = &key {
                    directives = directives.with(&keys::REQUIRED_KEY, key.clone());
                }
                self.call(HostCall::DmodexRequest { proc: proc(JOB, rank), directives }, Some((rank, key)));
            }
            Action::Ended { rank } => self.ended(u32::from(rank) % self.model.local),
            Action::DeregisterClient { rank } => self.deregister_client(u32::from(rank) % self.model.local),
            Action::RegisterClient { rank } => self.register_client(u32::from(rank) % self.model.local),
            Action::DeregisterNspace => {
                self.deregister_nspace();
                self.set_up();
            }
            Action::Pass { seconds } => self.pass(u64::from(seconds)),
        }
        self.check_what_waits();
    }

    /// Everybody goes, the host answers what it owes, and nothing may be left (invariants 1 and 5).
    pub(super) fn end(mut self) {
        for conn in self.conns.keys().copied().collect::<Vec<_>>() {
            self.lose(conn);
        }
        for rank in self.registered.clone() {
            self.ended(rank);
        }
        self.answer_all();
        assert!(self.open.is_empty(), "never answered: {:?}", self.open);
        assert!(self.calls.is_empty(), "never answered: {:?}", self.calls);
        assert_idle(&self.engine);
        assert!(self.engine.cx.conns.is_empty());
    }

    // what happens

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn deadline(&self, seconds: u8) -> Option<Instant> {
        (seconds > 0).then(|| self.model.now + Duration::from_secs(seconds.into()))
    }

    fn pick(&self, who: u8) -> Option<ConnId> {
        self.conns.keys().nth(usize::from(who) % self.conns.len().max(1)).copied()
    }

    fn feed(&mut self, input: Input) {
        self.model.review_rounds();
        let mut out = Vec::new();
        self.engine.handle(self.model.now, input, &mut out);
        self.observe(out);
    }

    fn call(&mut self, call: HostCall, wish: Option<(u32, Option<String>)>) {
        let id = CallId(self.number());
        self.calls.insert(id, wish);
        self.feed(Input::Call { id, call });
    }

    fn hello(&mut self, rank: u32) {
        let conn = ConnId(self.number());
        self.conns.insert(conn, Conn { rank, stage: Stage::Asked });
        let peer = PeerCred { uid: USER.0, gid: Some(USER.1), pid: None };
        let hello = Hello::new(Identity::Client(proc(JOB, rank)), Pid(0));
        self.feed(Input::Hello { conn, peer, hello, reattaches: false });
    }

    fn ask(&mut self, who: u8, request: Request, expect: impl FnOnce(&mut Model, &mut Conn) -> Asked) {
        let Some(conn) = self.pick(who) else { return };
        let id = RequestId(self.number());
        let held = self.conns.get_mut(&conn).unwrap();
        let asked = if held.stage == Stage::Connected {
            expect(&mut self.model, held)
        } else {
            Asked::TooEarlyOrLate
        };
        self.open.insert((conn, id), asked);
        self.feed(Input::Request { conn, id, request });
    }

    fn commit(&mut self, who: u8, key: u8, scope: u8) {
        let Some(conn) = self.pick(who) else { return };
        let scope = [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL][usize::from(scope)];
        let (rank, key) = (self.conns[&conn].rank, format!("k{key}"));
        let value = tagged(rank, scope, &key, self.number());
        let request = commit([entry(scope, &key, value.clone())]);
        self.ask(who, request, |model, _| {
            model.puts.push(Put { rank, key, scope, value });
            Asked::Commit
        });
    }

    fn fence(&mut self, who: u8, set: u8, collect: bool, timeout: u8) {
        let (local, size) = (self.model.local, self.model.size);
        let set: Vec<ProcId> = match set {
            0 => vec![all_of(JOB)],
            1 => (0..local).map(|rank| proc(JOB, rank)).collect(),
            2 => (0..size).map(|rank| proc(JOB, rank)).collect(),
            3 => (0..2).chain(local..size).map(|rank| proc(JOB, rank)).collect(),
            _ => vec![proc(JOB, 1), proc(JOB, 2)],
        };
        let request = fence(set.iter().rev().cloned())
            .with(&keys::COLLECT_DATA, collect)
            .with(&keys::TIMEOUT, i32::from(timeout));
        let deadline = self.deadline(timeout);
        self.ask(who, request, |model, conn| {
            if !set.iter().any(|member| member.matches(&proc(JOB, conn.rank))) {
                return Asked::ForeignFence;
            }
            let round = model.enter(&set, conn.rank, deadline);
            Asked::Fence { set, round }
        });
    }

    fn lose(&mut self, conn: ConnId) {
        let lost = self.conns.remove(&conn).unwrap();
        self.open.retain(|(other, _), _| *other != conn);
        let has_clone =
            self.conns.values().any(|held| held.rank == lost.rank && held.stage == Stage::Connected);
        if lost.stage == Stage::Connected && !has_clone {
            self.model.gone.insert(lost.rank);
        }
        self.feed(Input::Lost { conn, reason: RESET.into() });
    }

    fn register_client(&mut self, rank: u32) {
        let is_connected = |conn: &Conn| conn.rank == rank && conn.stage != Stage::Asked;
        if !self.conns.values().any(is_connected) {
            self.model.gone.remove(&rank);
        }
        if !self.registered.contains(&rank) {
            self.registered.push(rank);
        }
        let call = HostCall::RegisterClient { proc: proc(JOB, rank), uid: USER.0, gid: USER.1, object: None };
        self.call(call, None);
    }

    fn deregister_client(&mut self, rank: u32) {
        if self.registered.contains(&rank) {
            self.registered.retain(|other| *other != rank);
            self.model.gone.insert(rank);
        }
        self.call(HostCall::DeregisterClient(proc(JOB, rank)), None);
        if self.model.gone.contains(&rank) && !self.registered.contains(&rank) {
            self.model.puts.retain(|put| put.rank != rank);
            assert!(self.conns.values().all(|conn| conn.rank != rank));
        }
    }

    fn deregister_nspace(&mut self) {
        self.model.ending = true;
        self.call(HostCall::DeregisterNspace(nspace(JOB)), None);
        assert!(self.open.is_empty() && self.calls.is_empty() && self.conns.is_empty());
        // aborts and notices outlive their namespace, nothing else
        assert!(self.upcalls.values().all(|upcall| matches!(upcall, UpcallRequest::ClientLost(_))));
        self.answer_all();
        assert_idle(&self.engine);
        self.model.ending = false;
        self.model.rounds.clear();
        self.model.gone.clear();
        self.model.puts.clear();
        self.registered.clear();
    }

    fn ended(&mut self, rank: u32) {
        if self.registered.contains(&rank) {
            self.model.gone.insert(rank);
        }
        let call = HostCall::ClientEnded { proc: proc(JOB, rank), reason: "it ended".into() };
        self.call(call, None);
    }

    fn pass(&mut self, seconds: u64) {
        self.model.now += Duration::from_secs(seconds);
        let mut out = Vec::new();
        self.engine.handle_timeout(self.model.now, &mut out);
        self.observe(out);
        while let Some(upcall) = self.looks.pop() {
            self.feed(Input::HostReply { upcall, result: Ok(Answer::Looks(Vec::new())) });
        }
        assert!(self.engine.next_timeout().is_none_or(|at| at > self.model.now));
    }

    fn answer_all(&mut self) {
        while let Some(id) = self.upcalls.keys().next().copied() {
            self.answer(id, true);
        }
    }

    fn answer(&mut self, id: UpcallId, ok: bool) {
        let request = self.upcalls.remove(&id).unwrap();
        self.past_upcalls.push(id);
        let remote = |rank| blob([self.remote_data(rank)]);
        let answer = match &request {
            UpcallRequest::Fence(request) => {
                let mut joined = vec![request.data.clone()];
                joined.extend((self.model.local..self.model.size).map(remote));
                Answer::Blob(Bytes::from(joined.concat()))
            }
            UpcallRequest::DirectModex(request) => Answer::Blob(remote(request.proc.rank.to_raw())),
            _ => Answer::Done,
        };
        let result = if ok { Ok(answer) } else { Err(failure(Status::ERR_UNREACH)) };
        self.feed(Input::HostReply { upcall: id, result });
    }

    fn remote_data(&self, rank: u32) -> ProcData {
        let entries = [(Scope::GLOBAL, "k0"), (Scope::REMOTE, "k1")]
            .map(|(scope, key)| entry(scope, key, tagged(rank, scope, key, 0)));
        data_of(&proc(JOB, rank), entries)
    }

    // what comes of it

    fn observe(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Accept { conn, welcome } => {
                    let held = self.conns.get_mut(&conn).unwrap();
                    assert_eq!((held.stage, welcome.proc), (Stage::Asked, proc(JOB, held.rank)));
                    held.stage = Stage::Connected;
                    self.model.gone.remove(&held.rank);
                }
                Command::Refuse { conn, .. } => {
                    let held = self.conns.remove(&conn).unwrap();
                    assert_eq!(held.stage, Stage::Asked);
                }
                Command::Close { conn, .. } => {
                    assert!(self.conns.remove(&conn).is_some());
                    self.open.retain(|(other, _), _| *other != conn);
                }
                Command::Reply { conn, id, result } => {
                    let asked = self.open.remove(&(conn, id));
                    self.check_reply(conn, asked.expect("one answer to one request"), &result);
                }
                Command::Push { .. } => panic!("nobody asked for events"),
                Command::Cleanup(_) => panic!("nobody asked for files to be removed"),
                // of processes for which a round has timed out
                Command::Measure { id, .. } => self.looks.push(id),
                Command::Look { .. } => panic!("nobody asked for files to be watched"),
                Command::Upcall { id, request, .. } => {
                    self.check_upcall(&request);
                    assert!(self.upcalls.insert(id, request).is_none());
                }
                Command::CancelUpcall(id) => {
                    assert!(self.upcalls.remove(&id).is_some(), "{id:?} was cancelled though not under way");
                    self.past_upcalls.push(id);
                }
                Command::Return { id, result } => {
                    let wish = self.calls.remove(&id).expect("one answer to one call");
                    match result {
                        Ok(CallValue::Blob(blob)) => self.model.check_outgoing(&read_blob(&blob)),
                        Ok(_) => assert_eq!(wish, None),
                        Err(failure) => assert_ne!(failure.status, Status::ERROR),
                    }
                }
            }
        }
    }

    fn check_reply(&mut self, conn: ConnId, asked: Asked, outcome: &Outcome) {
        let status = outcome.as_ref().map(|_| ()).map_err(|failure| failure.status);
        match asked {
            Asked::TooEarlyOrLate => assert_eq!(status, Err(Status::ERR_INIT)),
            Asked::ForeignFence => assert_eq!(status, Err(Status::ERR_NOT_A_MEMBER)),
            Asked::Commit => assert!(matches!(outcome, Ok(Reply::Done))),
            Asked::Finalize => self.conns.get_mut(&conn).unwrap().stage = Stage::Finalized,
            Asked::Get(get) => self.model.get_is_answered(&get, outcome),
            Asked::Fence { set, round } => self.model.fence_is_answered(&set, round, outcome),
        }
    }

    fn check_upcall(&mut self, request: &UpcallRequest) {
        match request {
            UpcallRequest::Fence(request) => {
                assert!(self.engine.cx.config.capabilities.has(Upcall::Fence));
                assert!(!self.host_is_busy(&request.procs), "two fences of {:?} at a time", request.procs);
                self.model.check_outgoing(&read_blob(&request.data));
                let status = request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS).unwrap();
                self.model.fence_is_handed_over(&request.procs, status);
                assert!(!request.directives.contains(&keys::TIMEOUT));
            }
            UpcallRequest::DirectModex(request) => {
                assert!(self.engine.cx.config.capabilities.has(Upcall::DirectModex));
                assert!(!self.model.is_local(request.proc.rank.to_raw()));
                assert!(!request.directives.contains(&keys::TIMEOUT));
                let is_refresh = request.directives.contains(&keys::IMMEDIATE);
                let twin = UpcallRequest::DirectModex(request.clone());
                let is_one = self.upcalls.values().all(|other| *other != twin);
                assert!(is_refresh || is_one, "two fetches of one thing");
            }
            _ => {}
        }
    }

    fn host_is_busy(&self, set: &[ProcId]) -> bool {
        let is_same =
            |upcall: &UpcallRequest| matches!(upcall, UpcallRequest::Fence(fence) if fence.procs == set);
        self.upcalls.values().any(is_same)
    }

    fn check_what_waits(&self) {
        for ((conn, _), asked) in &self.open {
            assert!(self.conns.contains_key(conn));
            match asked {
                Asked::Get(get) => self.model.get_may_wait(get),
                Asked::Fence { set, round } => {
                    self.model.fence_may_wait(set, *round, self.host_is_busy(set));
                }
                Asked::Finalize => {
                    assert!(
                        self.upcalls
                            .values()
                            .any(|upcall| matches!(upcall, UpcallRequest::ClientFinalized(_)))
                    );
                }
                other => panic!("{other:?} was not answered at once"),
            }
        }
        for wish in self.calls.values() {
            let (rank, key) = wish.as_ref().expect("an answer at once");
            self.model.host_may_wait(*rank, key.as_deref());
        }
    }
}
