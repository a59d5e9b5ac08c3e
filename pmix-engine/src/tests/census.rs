//! What an engine says it holds: each noun, while something of it waits.

use pmix_types::message::{
    Connect, IofPull, Monitor, Publish, QueryInfo, RegisterEvents, Request, ResolvePeers,
};
use pmix_types::{Directives, Info, IofChannels, Memory as _, Query, Scope, Status, keys};

use super::super::upcall::Upcall;
use super::super::{Answer, Engine, HostCall};
use super::harness::*;

/// What says whether one noun has anything.
type IsEmpty = fn(&Engine) -> bool;

#[test]
fn an_engine_is_idle_only_if_none_of_its_parts_waits() {
    let heartbeats = Info::dynamic(keys::MONITOR_HEARTBEAT.key_name(), true);
    let monitor = Request::Monitor(Monitor::new(heartbeats, Status::SUCCESS));
    let waits: [(Request, IsEmpty); 8] = [
        (fence_all(), |engine| engine.collectives.is_empty()),
        (Request::Connect(Connect::new(vec![all_of("job")])), |engine| engine.collectives.is_empty()),
        (get(proc("job", 1), "missing"), |engine| engine.data.is_empty()),
        (get(proc("job", 2), "remote"), |engine| engine.data.is_empty()),
        (monitor.with(&keys::MONITOR_HEARTBEAT_TIME, 5_u32), |engine| engine.monitors.is_empty()),
        (Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_QUEUE_LIST)])), |engine| {
            engine.queries.is_empty()
        }),
        (Request::ResolvePeers(ResolvePeers::new(Some("n1".into()), Some(nspace("other")))), |engine| {
            engine.resolutions.is_empty()
        }),
        (Request::Publish(Publish::new(vec![Info::dynamic(key("k"), 1)])), |engine| {
            engine.forwards.is_empty()
        }),
    ];
    for (request, is_empty) in waits {
        let (mut t, a, b) = Harness::two_nodes([
            Upcall::Query,
            Upcall::Publish,
            Upcall::Connect,
            Upcall::DirectModex,
            Upcall::Fence,
        ]);
        assert!(t.engine.census().is_idle);
        let shown = format!("{request:?}");
        t.ask(&a, request);
        t.drain();
        assert!(!is_empty(&t.engine), "{shown}");
        assert!(!t.engine.census().is_idle, "{shown}");
        assert!(!t.engine.census().has_subscribers, "{shown}");
        for peer in [&a, &b] {
            t.lose(peer);
            t.drain();
        }
        // what came of a publish must be known
        for upcall in t.engine.census().upcalls {
            t.answer(upcall, Err(failure(Status::ERR_NOT_SUPPORTED)));
        }
        t.call(HostCall::DeregisterNspace(nspace("job")));
        t.drain();
        t.finish();
    }
}

#[test]
fn whoever_is_subscribed_is_counted_until_it_has_gone() {
    let events = Request::RegisterEvents(RegisterEvents::new(vec![Status::from_raw(4711)]));
    let output = Request::IofPull(IofPull::new(vec![proc("job", 1)], IofChannels::STDOUT));
    for request in [events, output] {
        let (mut t, listener, _) = super::iof::two();
        t.ask(&listener, request);
        t.drain();
        assert!(t.engine.census().has_subscribers);
        t.lose(&listener);
        t.drain();
        while let [upcall, ..] = t.engine.census().upcalls[..] {
            t.answer(upcall, Ok(Answer::Done));
            t.drain();
        }
        assert!(!t.engine.census().has_subscribers);
        t.finish();
    }
}

#[test]
fn gen_12_the_next_timeout_is_the_first_that_is_due() {
    let (mut t, peers) = Harness::local(2);
    let missing = || get(proc("job", 1), "missing");
    assert_eq!(t.engine.next_timeout(), None);
    let late = t.ask(&peers[0], missing().with(&keys::TIMEOUT, 9));
    assert_eq!(t.engine.next_timeout(), Some(t.after(9)));
    let early = t.ask(&peers[1], missing().with(&keys::TIMEOUT, 5));
    assert_eq!(t.engine.next_timeout(), Some(t.after(5)));
    t.advance(5);
    t.fails(early, Status::ERR_TIMEOUT);
    assert_eq!(t.engine.next_timeout(), Some(t.after(4)));
    t.advance(4);
    t.fails(late, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn stats_tell_what_was_done_and_what_waits() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    t.commits(a, [entry(Scope::LOCAL, "k", 1_u8)]);
    let first = t.engine.stats();
    assert_eq!((first.commits, first.waiting), (1, 0));
    assert_eq!(first.bytes_committed, entry(Scope::LOCAL, "k", 1_u8).memory() as u64);
    t.commits(b, [entry(Scope::LOCAL, "k", 1_u8), entry(Scope::LOCAL, "l", 1_u8)]);
    let second = t.engine.stats();
    assert_eq!((second.commits, second.bytes_committed), (2, 3 * first.bytes_committed));

    t.ask(a, get(b.proc.clone(), "missing"));
    assert_eq!(t.engine.stats().waiting, 1);
    let of = Directives::new().require(&keys::REQUIRED_KEY, "missing");
    t.call(HostCall::DmodexRequest { proc: a.proc.clone(), directives: of });
    t.quiet();
    assert_eq!(t.engine.stats().waiting, 2);
    t.ask(b, fence([b.proc.clone(), c.proc.clone()]));
    assert_eq!(t.engine.stats().waiting, 3);
    t.ask(a, super::invite::invite([c.proc.clone()]));
    assert_eq!(t.engine.stats().waiting, 4);
    t.ask(c, super::invite::decline(a));
    t.drain();
    assert_eq!(t.engine.stats().waiting, 3);
    for peer in &peers {
        t.lose(peer);
        t.drain();
    }
    assert_eq!(t.engine.stats().waiting, 0);
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    t.finish();
}

#[test]
fn stats_count_upcalls_as_waiting_until_they_are_answered() {
    let (mut t, a, _) = Harness::two_nodes([Upcall::DirectModex]);
    let before = t.engine.stats().upcalls;
    let to = t.ask(&a, get(proc("job", 2), "remote"));
    let (id, ..) = t.upcall();
    let stats = t.engine.stats();
    // the get and its upcall
    assert_eq!((stats.upcalls, stats.waiting), (before + 1, 2));
    t.answer(id, Err(failure(Status::ERR_NOT_FOUND)));
    t.fails(to, Status::ERR_NOT_FOUND);
    assert_eq!(t.engine.stats().waiting, 0);
    t.finish();
}
