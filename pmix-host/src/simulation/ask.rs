//! What processes ask for one by one, and what may come of it.

use std::collections::BTreeSet;
use std::time::Duration;

use pmix_types::message::{
    Abort, DeregisterEvents, Finalize, IofDeregister, IofPull, IofPush, JobControl, Log,
    Lookup as LookupRequest, NotifyEvent, Publish, QueryInfo, RegisterEvents, Reply, Request, ResolveNodes,
    ResolvePeers, Spawn, Unpublish,
};
use pmix_types::{
    App, DataArray, DataRange, Directives, Event, Info, IofChannels, Persistence, ProcId, Query, Scope,
    Status, Uid, keys,
};

use super::What;
use super::fixtures::*;
use super::host::{HOST_FAILS, Outcome, Parcel};
use super::model::{Item, Lookup, Put, Range, Registration};
use super::world::{Open, Process, Stage, World};
use pmix_engine::{Input, RequestId};

/// What a request should come to.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    TooEarlyOrLate,
    Done,
    /// Something, at once.
    Anything,
    Get {
        target: usize,
        key: String,
        immediate: bool,
    },
    Publish(u32),
    Lookup(Lookup),
    Unpublish(Vec<u32>),
    Register(Vec<Status>),
    Deregister(u64),
    Notify(u32),
    Spawn,
    Info,
    Pull(usize),
    EndPull(u64),
    Collective(usize),
    Finalize,
}

const RANGES: [DataRange; 8] = [
    DataRange::SESSION,
    DataRange::RM,
    DataRange::LOCAL,
    DataRange::NAMESPACE,
    DataRange::SESSION,
    DataRange::GLOBAL,
    DataRange::CUSTOM,
    DataRange::PROC_LOCAL,
];
const LASTING: [Persistence; 4] =
    [Persistence::APP, Persistence::INDEF, Persistence::FIRST_READ, Persistence::PROC];

/// A range with its processes as directives; the first is not said, because it is the default (PUB-01).
fn in_range(index: u8, range: &Range) -> Directives {
    let mut directives = Directives::new();
    if index > 0 {
        directives = directives.with(&keys::RANGE, range.range);
    }
    if range.range == DataRange::CUSTOM {
        directives = directives.with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(range.custom.clone()));
    }
    // what a process claims to be counts for nothing
    directives.with(&keys::USERID, 3000)
}

fn timed(directives: Directives, timeout: u8) -> Directives {
    if timeout > 0 { directives.with(&keys::TIMEOUT, i32::from(timeout)) } else { directives }
}

fn code(number: u8) -> Status {
    Status::from_raw(i32::from(number) + 1)
}

impl World {
    pub(super) fn send(&mut self, who: usize, request: Request, expect: Expect, timeout: u8) {
        let Process { node, conn, stage, .. } = self.procs[who];
        let id = RequestId(self.number());
        let expect = if matches!(stage, Stage::In) || matches!(expect, Expect::Finalize) {
            expect
        } else {
            Expect::TooEarlyOrLate
        };
        let deadline = (timeout > 0).then(|| self.now + Duration::from_secs(timeout.into()));
        self.open.insert((node, conn, id), Open { who, expect, deadline });
        self.feed(node, Input::Request { conn, id, request });
    }

    pub(super) fn ask(&mut self, who: usize, what: What) {
        match self.procs[who].stage {
            Stage::Dying | Stage::Gone => return,
            // all the same for those who may not ask
            Stage::Coming | Stage::Leaving | Stage::Left => {
                return self.send(who, fence_all(), Expect::TooEarlyOrLate, 0);
            }
            Stage::In => {}
        }
        let own = self.model.who[who].proc.clone();
        let number = u32::try_from(self.number()).unwrap();
        let proc_of = |index: u8| self.model.who[usize::from(index) % self.model.who.len()].proc.clone();
        let range_of = |range: u8, to: u8| {
            let range = RANGES[usize::from(range)];
            let custom = if range == DataRange::CUSTOM { vec![proc_of(to)] } else { Vec::new() };
            Range { range, custom }
        };
        match what {
            What::Commit { key, scope } => {
                let scope = [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL][usize::from(scope)];
                let key = format!("k{key}");
                let value = format!("{own} {key} {scope} {number}");
                let request = commit([entry(scope, &key, value.clone())]);
                self.model.puts.push(Put { who, key, scope, value: value.into() });
                self.send(who, request, Expect::Done, 0);
            }
            What::Get { target, key, immediate, timeout } => {
                let key = format!("k{key}");
                let mut directives = Directives::new().with(&keys::IMMEDIATE, immediate);
                if timeout > 0 {
                    directives = directives.with(&keys::TIMEOUT, i32::from(timeout));
                }
                let request = get(proc_of(target), &key, directives);
                let target = self.model.index(&proc_of(target));
                self.send(who, request, Expect::Get { target, key, immediate }, timeout);
            }
            What::Publish { key, range, lasting, to, opened, timeout } => {
                let said = range_of(range, to);
                let mut directives = timed(in_range(range, &said), timeout);
                let persistence = LASTING[usize::from(lasting)];
                if lasting > 0 {
                    directives = directives.with(&keys::PERSISTENCE, persistence);
                }
                if opened {
                    let users = Info::new(&keys::ACCESS_USERIDS, DataArray::Uint32(vec![0]));
                    directives = directives.with(&keys::ACCESS_PERMISSIONS, DataArray::Info(vec![users]));
                }
                let name = format!("p{key}");
                let mut publish = Publish::new(vec![Info::dynamic(super::fixtures::key(&name), number)]);
                publish.directives = directives;
                let opened = opened.then(|| vec![Uid::ROOT]);
                let mut item = Item::new(who, name, said);
                (item.opened, item.persistence) = (opened, persistence);
                self.model.publish(number, item);
                // upcalls overtake each other: what takes back may come after what it was asked before
                let takes_back = |open: &Open| open.who == who && matches!(open.expect, Expect::Unpublish(_));
                if self.open.values().any(takes_back) {
                    self.model.going(number);
                }
                self.send(who, Request::Publish(publish), Expect::Publish(number), timeout);
            }
            What::Lookup { keys: bits, range, to, wait, timeout } => {
                let names: Vec<_> =
                    (0..3).filter(|bit| bits >> bit & 1 == 1).map(|bit| format!("p{bit}")).collect();
                let said = range_of(range, to);
                let mut lookup = LookupRequest::new(names.iter().map(|name| key(name)).collect());
                lookup.directives = timed(in_range(range, &said), timeout);
                if let Some(count) = wait {
                    lookup.directives.push(Info::new(&keys::WAIT, i32::from(count)));
                }
                let wait = wait.map(|count| match usize::from(count) {
                    0 => names.len(),
                    count => count.min(names.len()),
                });
                let look = Lookup { who, keys: names, range: said, wait, at: self.model.tick };
                self.send(who, Request::Lookup(lookup), Expect::Lookup(look), timeout);
            }
            What::Unpublish { key: wanted, range } => {
                let said = Range { range: RANGES[usize::from(range)], custom: Vec::new() };
                let name = wanted.map(|wanted| format!("p{wanted}"));
                let mut unpublish = Unpublish::new(name.iter().map(|name| key(name)).collect());
                unpublish.directives = in_range(range, &said);
                let numbers = self.model.unpublish(who, name.as_deref(), said.range);
                self.send(who, Request::Unpublish(unpublish), Expect::Unpublish(numbers), 0);
            }
            What::Register { codes } => {
                let codes: Vec<_> = (0..3).filter(|bit| codes >> bit & 1 == 1).map(code).collect();
                let request = Request::RegisterEvents(RegisterEvents::new(codes.clone()));
                self.send(who, request, Expect::Register(codes), 0);
            }
            What::Deregister { which } => {
                let own: Vec<_> =
                    self.model.registrations.iter().filter(|(_, held)| held.who == who).collect();
                let Some(((_, number), _)) = own.get(usize::from(which) % own.len().max(1)) else { return };
                let number = *number;
                self.send(
                    who,
                    Request::DeregisterEvents(DeregisterEvents::new(number)),
                    Expect::Deregister(number),
                    0,
                );
            }
            What::Notify { code: told, range, to } => {
                let said = range_of(range, to);
                let mut event = Event::new(code(told), ProcId::none())
                    .with_range(said.range)
                    .with_info(Info::dynamic(key("n"), number));
                if said.range == DataRange::CUSTOM {
                    event = event.with_info(Info::new(
                        &keys::EVENT_CUSTOM_RANGE,
                        DataArray::Proc(said.custom.clone()),
                    ));
                }
                self.model.tell(number, who, code(told), said);
                self.send(who, Request::NotifyEvent(NotifyEvent::new(event)), Expect::Notify(number), 0);
            }
            What::Query { timeless } => {
                let query = if timeless {
                    Query::new(&keys::QUERY_NAMESPACES)
                } else {
                    Query::new(&keys::QUERY_JOB_STATUS)
                };
                self.send(who, Request::QueryInfo(QueryInfo::new(vec![query])), Expect::Anything, 0);
            }
            What::Resolve { peers } => {
                let nspace = Some(own.nspace);
                let request = match peers {
                    true => Request::ResolvePeers(ResolvePeers::new(Some("n0".into()), nspace)),
                    false => Request::ResolveNodes(ResolveNodes::new(nspace)),
                };
                self.send(who, request, Expect::Anything, 0);
            }
            What::Log { timeout } => {
                let mut log = Log::new(vec![Info::new(&keys::LOG_STDERR, "oh")]);
                log.directives = timed(Directives::new(), timeout);
                self.send(who, Request::Log(log), Expect::Done, timeout);
            }
            What::Spawn { timeout } => {
                let mut spawn = Spawn::new(vec![App::new("program", 1)]);
                spawn.directives = timed(Directives::new(), timeout);
                self.send(who, Request::Spawn(spawn), Expect::Spawn, timeout);
            }
            What::Control { timeout } => {
                let mut control = JobControl::new(Vec::new());
                control.directives = timed(Directives::new().with(&keys::JOB_CTRL_PAUSE, true), timeout);
                self.send(who, Request::JobControl(control), Expect::Info, timeout);
            }
            What::Pull { target } => {
                let request = IofPull::new(vec![proc_of(target)], IofChannels::STDOUT);
                let target = self.model.index(&proc_of(target));
                self.send(who, Request::IofPull(request), Expect::Pull(target), 0);
            }
            What::EndPull { which } => {
                let own: Vec<_> = self.model.pulls.iter().filter(|(_, held)| held.0 == who).collect();
                let Some(((_, number), _)) = own.get(usize::from(which) % own.len().max(1)) else { return };
                let number = *number;
                self.send(
                    who,
                    Request::IofDeregister(IofDeregister::new(number)),
                    Expect::EndPull(number),
                    0,
                );
            }
            What::Push { target } => {
                let request = Request::IofPush(IofPush::new(vec![proc_of(target)], "in".into()));
                self.send(who, request, Expect::Done, 0);
            }
            What::Abort => {
                self.send(who, Request::Abort(Abort::new(1, "enough".into())), Expect::Done, 0);
            }
            What::Finalize => {
                self.departs(who, Stage::Leaving);
                self.send(who, Request::Finalize(Finalize::new()), Expect::Finalize, 0);
            }
        }
    }

    pub(super) fn answered(&mut self, open: Open, outcome: Outcome<Reply>) {
        let Open { who, expect, deadline } = open;
        assert!(self.procs[who].stage != Stage::Gone, "{who} is gone and answered");
        let node = self.procs[who].node;
        let status = outcome.as_ref().err().map(|failure| failure.status);
        match expect {
            Expect::Collective(step) => return self.collective_ended(who, step, outcome),
            Expect::TooEarlyOrLate => return assert_eq!(status, Some(Status::ERR_INIT)),
            Expect::Finalize => {
                assert!(
                    [None, Some(HOST_FAILS)].contains(&status) || self.host.spoke_nonsense,
                    "{outcome:?}"
                );
                self.bag.push(Parcel::Loss(who));
                return self.departs(who, Stage::Left);
            }
            Expect::Anything => return,
            _ => {}
        }
        match status {
            Some(HOST_FAILS) => return,
            Some(Status::ERROR) if self.host.spoke_nonsense => return,
            Some(Status::ERR_TIMEOUT) => {
                return assert!(deadline.is_some_and(|at| at <= self.now), "{expect:?} timed out early");
            }
            _ => {}
        }
        match (expect, outcome) {
            (Expect::Done, Ok(Reply::Done)) | (Expect::Info, Ok(Reply::Info(_))) => {}
            (Expect::Get { target, key, .. }, Ok(Reply::Get(reply))) => {
                let owner = self.model.who[target].proc.clone();
                self.model.check_put(who, &owner, &key, &reply.value.expect("a value"));
                self.model.check_modex(who, &reply.modex);
            }
            (Expect::Get { target, key, immediate }, Err(failure)) => {
                let owner = &self.model.who[target].proc;
                let is_alive = matches!(self.procs[target].stage, Stage::Coming | Stage::In)
                    && !self.over.contains(&owner.nspace);
                match failure.status {
                    Status::ERR_EXISTS_OUTSIDE_SCOPE => {
                        assert!(self.model.has_put(target, &key), "{failure}")
                    }
                    Status::ERR_NOT_FOUND => {
                        assert!(immediate || !is_alive, "{failure} though {owner} lives")
                    }
                    // of a job that is over
                    Status::ERR_INVALID_NAMESPACE => assert!(!is_alive, "{failure}"),
                    other => panic!("{other}: {failure}"),
                }
            }
            (Expect::Publish(number), Ok(Reply::Done)) => self.model.published(number),
            (Expect::Publish(number), Err(failure)) => {
                assert_eq!(failure.status, Status::ERR_DUPLICATE_KEY, "{failure}");
                self.model.is_duplicate(number);
            }
            (Expect::Lookup(look), Ok(Reply::Lookup(reply))) => {
                let is_all = reply.found.len() == look.keys.len();
                assert_eq!(reply.status == Status::SUCCESS, is_all, "PUB-12: {reply:?}");
                self.model.found(&look, &reply.found);
            }
            (Expect::Lookup(look), Err(failure)) => {
                let none = [Status::ERR_NOT_FOUND, Status::ERR_NO_PERMISSIONS];
                assert!(none.contains(&failure.status) && look.wait.is_none(), "{failure}");
                self.model.found_all(&look, &BTreeSet::new());
            }
            (Expect::Unpublish(numbers), Ok(Reply::Done)) => self.model.unpublished(&numbers),
            (Expect::Register(codes), Ok(Reply::Registered(number))) => {
                let held = self.model.registrations.insert((node, number), Registration { who, codes });
                assert!(held.is_none());
            }
            (Expect::Deregister(number), Ok(Reply::Done)) => {
                self.model.registrations.remove(&(node, number));
            }
            (Expect::Deregister(_), Err(failure)) => assert_eq!(failure.status, Status::ERR_BAD_PARAM),
            (Expect::Notify(number), Ok(Reply::Done)) => {
                self.model.events.get_mut(&number).unwrap().taken = true;
            }
            (Expect::Spawn, Ok(Reply::Spawn(reply))) => {
                assert!(self.host.spawned.contains(&reply.nspace));
            }
            (Expect::Pull(target), Ok(Reply::Registered(number))) => {
                let held = self.model.pulls.insert((node, number), (who, target, BTreeSet::new()));
                assert!(held.is_none());
            }
            (Expect::EndPull(number), Ok(Reply::Done)) => {
                self.model.pulls.remove(&(node, number));
            }
            (Expect::EndPull(_), Err(failure)) => assert_eq!(failure.status, Status::ERR_BAD_PARAM),
            (expect, outcome) => panic!("{expect:?} came to {outcome:?}"),
        }
    }

    /// When nothing happens any more, who waits must have a reason for it.
    pub(super) fn check_who_waits(&self) {
        for Open { who, expect, .. } in self.open.values() {
            match expect {
                Expect::Get { target, key, immediate } => {
                    let owner = &self.model.who[*target].proc;
                    let is_over = self.over.contains(&owner.nspace);
                    let is_alive = self.procs[*target].stage == Stage::In;
                    assert!(!immediate && (is_alive || is_over), "{who} waits for {key} of {owner}");
                    assert!(is_over || !self.model.has_put(*target, key), "{who} waits for {key} of {owner}");
                }
                Expect::Lookup(look) => self.model.look_may_wait(look),
                Expect::Collective(step) => self.collective_may_wait(*who, *step),
                other => panic!("{who} hangs in {other:?}"),
            }
        }
        // and nobody else is waited for
        for (node, engine) in self.engines.iter().enumerate() {
            let count = |is: fn(&Expect) -> bool| {
                self.open.iter().filter(|((at, ..), open)| *at == node && is(&open.expect)).count()
            };
            let held = engine.census();
            assert_eq!(held.gets, count(|expect| matches!(expect, Expect::Get { .. })));
            let in_collectives = count(|expect| matches!(expect, Expect::Collective(_)));
            // who waits for answers to invitations, or for leaders, has not entered yet
            let not_yet = self.wait_outside(node);
            assert!(held.participants <= in_collectives, "{engine:?}");
            assert!(held.participants + not_yet >= in_collectives, "{engine:?}");
            assert_eq!(engine.next_timeout(), None, "{engine:?}");
        }
    }
}
