//! Random registrations, events and ends, compared with a model that keeps all it has ever heard.

use std::collections::{BTreeMap, VecDeque};

use pmix_types::message::{DeregisterEvents, Finalize, NotifyEvent, Push, RegisterEvents, Reply, Request};
use pmix_types::{DataArray, DataRange, Event, Info, ProcId, Status, keys};
use proptest::prelude::*;

use super::super::upcall::Upcall;
use super::super::{Answer, Command, UpcallId, UpcallRequest};
use super::events::{host_event, world};
use super::harness::*;

#[derive(Clone, Debug)]
enum Action {
    Register {
        who: usize,
        codes: Vec<i32>,
    },
    Deregister {
        which: usize,
    },
    Notify {
        who: Option<usize>,
        told: Told,
    },
    HostAnswers {
        which: usize,
        ok: bool,
    },
    /// The process finalizes and connects again.
    Again {
        who: usize,
    },
}

/// An event.
#[derive(Clone, Debug)]
struct Told {
    code: i32,
    range: u8,
    custom: Vec<usize>,
    non_default: bool,
    cached: bool,
}

fn action() -> impl Strategy<Value = Action> {
    let who = || 0..4usize;
    let told =
        (1..4i32, 2..8u8, prop::collection::vec(0..4usize, 0..3), any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(code, range, custom, non_default, cached)| Told {
                code,
                range,
                custom,
                non_default,
                cached,
            });
    prop_oneof![
        4 => (who(), prop::collection::vec(1..4i32, 0..3)).prop_map(|(who, codes)| Action::Register { who, codes }),
        2 => (0..16usize).prop_map(|which| Action::Deregister { which }),
        8 => (prop::option::weighted(0.8, who()), told).prop_map(|(who, told)| Action::Notify { who, told }),
        4 => (0..4usize, any::<bool>()).prop_map(|(which, ok)| Action::HostAnswers { which, ok }),
        1 => who().prop_map(|who| Action::Again { who }),
    ]
}

/// What should be so.
struct Model {
    procs: Vec<ProcId>,
    /// By number: whose, and for which codes.
    registrations: BTreeMap<u64, (usize, Vec<i32>)>,
    /// Every event that may be asked for later.
    history: Vec<Event>,
    /// Events of each process that the host has not finished with, the one it is busy with first.
    up: BTreeMap<ProcId, VecDeque<Event>>,
    busy: Vec<(UpcallId, ProcId)>,
}

impl Model {
    fn is_for(&self, event: &Event, who: usize) -> bool {
        let receiver = &self.procs[who];
        match event.range {
            DataRange::LOCAL | DataRange::SESSION | DataRange::GLOBAL => true,
            DataRange::NAMESPACE => event.source.nspace == receiver.nspace,
            DataRange::PROC_LOCAL => event.source == *receiver,
            _ => event.custom_range().contains(receiver),
        }
    }

    fn wants(event: &Event, codes: &[i32]) -> bool {
        if codes.is_empty() {
            !event.info.flag(&keys::EVENT_NON_DEFAULT).unwrap()
        } else {
            codes.contains(&event.code.to_raw())
        }
    }
}

struct World {
    t: Harness,
    peers: Vec<Peer>,
    model: Model,
}

impl World {
    fn new() -> Self {
        let (t, peers) = world([Upcall::NotifyEvent]);
        let procs = peers.iter().map(|peer| peer.proc.clone()).collect();
        let model = Model {
            procs,
            registrations: BTreeMap::new(),
            history: Vec::new(),
            up: BTreeMap::new(),
            busy: Vec::new(),
        };
        Self { t, peers, model }
    }

    fn step(&mut self, action: Action) {
        match action {
            Action::Register { who, codes } => self.register(who, codes),
            Action::Deregister { which } => self.deregister(which),
            Action::Notify { who, told } => self.notify(who, told),
            Action::HostAnswers { which, ok } => self.host_answers(which, ok),
            Action::Again { who } => {
                let to = self.t.ask(&self.peers[who], Request::Finalize(Finalize::new()));
                self.t.done(to);
                self.t.lose(&self.peers[who]);
                self.model.registrations.retain(|_, (owner, _)| *owner != who);
                self.peers[who] = self.t.connect(&self.model.procs[who]);
            }
        }
        self.t.quiet();
    }

    fn register(&mut self, who: usize, codes: Vec<i32>) {
        let wish = RegisterEvents::new(codes.iter().copied().map(Status::from_raw).collect());
        let to = self.t.ask(&self.peers[who], Request::RegisterEvents(wish));
        let Reply::Registered(number) = self.t.ok(to) else { panic!("no registration") };
        for event in &self.model.history {
            if self.model.is_for(event, who) && Model::wants(event, &codes) {
                let push = Push::Event { registrations: vec![number], event: event.clone(), is_kept: true };
                assert_same(&self.t.next(), &Command::Push { conn: self.peers[who].conn, push });
            }
        }
        self.model.registrations.insert(number, (who, codes));
    }

    fn deregister(&mut self, which: usize) {
        let count = self.model.registrations.len().max(1);
        let Some((number, (who, _))) = self.model.registrations.iter().nth(which % count) else { return };
        let to = self.t.ask(&self.peers[*who], Request::DeregisterEvents(DeregisterEvents::new(*number)));
        self.t.done(to);
        let number = *number;
        self.model.registrations.remove(&number);
    }

    fn notify(&mut self, who: Option<usize>, told: Told) {
        let source = who.map_or_else(|| proc("a", 7), |who| self.model.procs[who].clone());
        let mut event =
            Event::new(Status::from_raw(told.code), source).with_range(DataRange::from_raw(told.range));
        if event.range == DataRange::CUSTOM {
            let procs = told.custom.iter().map(|who| self.model.procs[*who].clone()).collect();
            event = event.with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)));
        }
        if told.non_default {
            event = event.with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
        }
        if !told.cached {
            event = event.with_info(Info::new(&keys::EVENT_DO_NOT_CACHE, true));
        }
        let answer = match who {
            Some(who) => {
                Some(self.t.ask(&self.peers[who], Request::NotifyEvent(NotifyEvent::new(event.clone()))))
            }
            None => {
                host_event(&mut self.t, &event);
                None
            }
        };
        let mut heard = BTreeMap::<usize, Vec<u64>>::new();
        for (number, (owner, codes)) in &self.model.registrations {
            if self.model.is_for(&event, *owner) && Model::wants(&event, codes) {
                heard.entry(*owner).or_default().push(*number);
            }
        }
        let mut by_conn: Vec<_> = heard.iter().collect();
        by_conn.sort_by_key(|(owner, _)| self.peers[**owner].conn);
        for (owner, registrations) in by_conn {
            let push =
                Push::Event { registrations: registrations.clone(), event: event.clone(), is_kept: false };
            assert_same(&self.t.next(), &Command::Push { conn: self.peers[*owner].conn, push });
        }
        if told.cached {
            self.model.history.push(event.clone());
        }
        if let Some(to) = answer {
            self.t.done(to);
            let reaches =
                [DataRange::NAMESPACE, DataRange::SESSION, DataRange::GLOBAL].contains(&event.range);
            if reaches {
                let up = self.model.up.entry(event.source.clone()).or_default();
                up.push_back(event);
                if up.len() == 1 {
                    self.told();
                }
            }
        }
    }

    /// The host is called with an event: the next of its source.
    fn told(&mut self) {
        let (id, _, UpcallRequest::NotifyEvent(request)) = self.t.upcall() else { panic!("another upcall") };
        let source = request.source.clone();
        assert_eq!(self.model.up[&source].front(), Some(&request));
        self.model.busy.push((id, source));
    }

    fn host_answers(&mut self, which: usize, ok: bool) {
        if self.model.busy.is_empty() {
            return;
        }
        let (id, source) = self.model.busy.remove(which % self.model.busy.len());
        let result = if ok { Ok(Answer::Done) } else { Err(failure(Status::ERR_NOT_SUPPORTED)) };
        self.t.answer(id, result);
        let up = self.model.up.get_mut(&source).unwrap();
        up.pop_front();
        if !up.is_empty() {
            self.told();
        }
    }

    fn end(mut self) {
        while !self.model.busy.is_empty() {
            self.host_answers(0, true);
        }
        self.t.finish();
    }
}

proptest! {
    #[test]
    fn evt_09_evt_13_evt_14_evt_15_evt_19_any_schedule_is_heard_as_the_model_says(
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let mut world = World::new();
        for action in actions {
            world.step(action);
        }
        world.end();
    }
}
