//! What processes can make the server keep: what is not bounded by number alone is bounded in bytes.

use pmix_types::message::{
    Abort, Connect, Failure, GroupInvite, IofPull, IofPush, Log, MAX_PLAIN, MAX_SPAWN, Monitor, NotifyEvent,
    Publish, RegisterEvents, Reply, Request, Spawn,
};
use pmix_types::{App, DataArray, Directives, Event, Info, IofChannels, Memory, ProcId, Status, keys};

use super::super::connected::MAX_SETS;
use super::super::group::MAX_GROUPS_OF_PROC;
use super::super::upcall::{Connected, Upcall};
use super::super::{Answer, Command, HostCall};
use super::harness::*;

/// So many processes that nobody knows.
fn strangers(count: u32) -> Vec<ProcId> {
    (0..count).map(|rank| proc("strange", rank)).collect()
}

#[test]
fn a_request_that_brings_no_data_is_bounded_in_bytes() {
    let mut t = Harness::new([Upcall::Log, Upcall::Spawn, Upcall::Publish]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let log = |bytes: usize| Request::Log(Log::new(vec![Info::new(&keys::LOG_STDERR, "x".repeat(bytes))]));
    let spawn = |variables: usize| {
        let mut app = App::new("true", 1);
        app.env = vec!["E=1".into(); variables];
        Request::Spawn(Spawn::new(vec![app]))
    };
    for too_large in [log(MAX_PLAIN), spawn(MAX_SPAWN / 24)] {
        let to = t.ask(&peer, too_large);
        t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    }
    // data has limits where it is kept
    let published = Info::dynamic(key("key"), vec![0u8; 2 * MAX_SPAWN]);
    let publish = Request::Publish(Publish::new(vec![published]));
    for fits in [log(MAX_PLAIN - 10_000), publish] {
        let to = t.ask(&peer, fits);
        let (upcall, _, _) = t.upcall();
        t.answer(upcall, Ok(Answer::Done));
        t.done(to);
    }
    let to = t.ask(&peer, spawn(100_000));
    let (upcall, _, _) = t.upcall();
    t.answer(upcall, Err(Failure::new(Status::ERR_NOT_SUPPORTED, "the host starts nothing")));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn event_registrations_of_a_connection_are_bounded_in_bytes() {
    const LIMIT: usize = 4 << 20;
    let (mut t, peers) = Harness::local(2);
    let wish = |count: u32| {
        let mut wish = RegisterEvents::new(vec![]);
        wish.directives =
            Directives::new().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(strangers(count)));
        Request::RegisterEvents(wish)
    };
    let half = u32::try_from(LIMIT / 2 / strangers(1).heap()).unwrap();
    let to = t.ask(&peers[0], wish(half));
    t.ok(to);
    let to = t.ask(&peers[0], wish(2 * half));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t.ask(&peers[1], wish(half));
    t.ok(to);
    t.drain();
    t.lose(&peers[0]);
    t.lose(&peers[1]);
    t.finish();
}

#[test]
fn an_event_is_bounded_in_bytes() {
    let (mut t, peers) = Harness::local(2);
    let tell = |bytes: usize| {
        let text = Info::new(&keys::EVENT_TEXT_MESSAGE, "x".repeat(bytes));
        Request::NotifyEvent(NotifyEvent::new(
            Event::new(Status::from_raw(-5000), ProcId::none()).with_info(text),
        ))
    };
    let to = t.ask(&peers[0], tell(1 << 20));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t.ask(&peers[0], tell((1 << 20) - 1000));
    t.done(to);
    t.finish();
}

#[test]
fn a_monitor_is_bounded_in_bytes() {
    let (mut t, peers) = Harness::local(2);
    let watch = |bytes: usize| {
        let wish = Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, true), Status::from_raw(-5000));
        Request::Monitor(wish)
            .with(&keys::MONITOR_HEARTBEAT_TIME, 5u32)
            .with(&keys::MONITOR_ID, "x".repeat(bytes))
    };
    let to = t.ask(&peers[0], watch(64 << 10));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t.ask(&peers[0], watch(30 << 10));
    t.ok(to);
    t.lose(&peers[0]);
    t.finish();
}

#[test]
fn wishes_for_output_of_a_connection_are_bounded_in_bytes() {
    const LIMIT: usize = 4 << 20;
    let mut t = Harness::new([Upcall::IofPull]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let wish = |count: u32| Request::IofPull(IofPull::new(strangers(count), IofChannels::STDOUT));
    let half = u32::try_from(LIMIT / 2 / strangers(1).heap()).unwrap();
    let to = t.ask(&peer, wish(half));
    let (upcall, _, _) = t.upcall();
    t.answer(upcall, Ok(Answer::Done));
    t.ok(to);
    let to = t.ask(&peer, wish(2 * half));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.lose(&peer);
    let (upcall, _, _) = t.upcall();
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn what_a_user_leaves_at_the_host_by_coming_again_and_again_is_bounded() {
    const LARGE: usize = 20 << 20;
    let mut t = Harness::new([Upcall::Publish, Upcall::Abort, Upcall::PushStdin]);
    t.job("job", "0-1");
    let (one, other) = (proc("job", 0), proc("job", 1));
    let publish = || Request::Publish(Publish::new(vec![Info::dynamic(key("data"), "x".repeat(LARGE))]));
    let mut upcalls = Vec::new();
    let push = || Request::IofPush(IofPush::new(vec![proc("job", 1)], "x".repeat(LARGE).into()));
    for request in [publish(), push(), publish()] {
        let peer = t.connect(&one);
        t.ask(&peer, request);
        upcalls.push(t.upcall().0);
        t.lose(&peer);
    }
    let peer = t.connect(&other);
    let to = t.ask(&peer, publish());
    upcalls.push(t.upcall().0);
    t.lose(&peer);
    let peer = t.connect(&one);
    for request in [publish(), push(), Request::Abort(Abort::new(1, "".into()))] {
        let to = t.ask(&peer, request);
        t.fails(to, Status::ERR_RESOURCE_BUSY);
    }
    for upcall in upcalls {
        t.answer(upcall, Ok(Answer::Done));
    }
    assert_ne!(to.conn, peer.conn);
    let to = t.ask(&peer, publish());
    let (upcall, _, _) = t.upcall();
    t.answer(upcall, Ok(Answer::Done));
    t.done(to);
    t.finish();
}

#[test]
fn an_invitation_is_bounded_in_bytes() {
    const LIMIT: usize = 4 << 20;
    let (mut t, peers) = Harness::local(2);
    let too_many = u32::try_from(LIMIT / strangers(1).heap()).unwrap() * 2;
    let invite = GroupInvite::new(nspace("g"), strangers(too_many));
    let to = t.ask(&peers[0], Request::GroupInvite(invite));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.finish();
}

#[test]
fn invitations_of_a_leader_and_to_a_process_are_limited() {
    let mut t = Harness::new([]);
    t.job("job", "0-2");
    let [one, other] = [proc("job", 0), proc("job", 1)].map(|proc| t.connect(&proc));
    let invite = |id: String, whom| Request::GroupInvite(GroupInvite::new(nspace(&id), vec![whom]));
    for number in 0..MAX_GROUPS_OF_PROC {
        t.ask(&one, invite(format!("g{number}"), proc("job", 2)));
        t.drain();
    }
    let to = t.ask(&one, invite("more".into(), proc("job", 2)));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    // the one invited has as many as it may have: the leader is told that it does not come
    let to = t.ask(&other, invite("others".into(), proc("job", 2)));
    let outcomes = t.drain();
    let told =
        outcomes.iter().any(|command| matches!(command, Command::Reply { conn, .. } if *conn == to.conn));
    assert!(told, "{outcomes:?}");
    t.lose(&one);
    t.lose(&other);
    t.drain();
    // another leader could have taken their place
    t.advance(5);
    t.drain();
    t.finish();
}

#[test]
fn connected_sets_are_limited_in_number_and_bytes() {
    let mut t = Harness::new([Upcall::Connect, Upcall::Disconnect]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let connect =
        |id: String| Request::Connect(Connect::new(vec![proc("job", 0)])).with(&keys::CONNECT_ID, id);
    let to = t.ask(&peer, connect("x".repeat(300 << 10)));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    for number in 0..MAX_SETS {
        let to = t.ask(&peer, connect(number.to_string()));
        let (upcall, _, _) = t.upcall();
        t.answer(upcall, Ok(Answer::Connected(Connected::default())));
        assert!(matches!(t.ok(to), Reply::Connect(_)));
    }
    let to = t.ask(&peer, connect("more".into()));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.lose(&peer);
    t.drain();
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

/// Participants that are different each time.
fn subset(number: u32) -> Vec<ProcId> {
    (0..12).filter(|bit| *bit == 0 || number & (1 << (bit - 1)) != 0).map(|rank| proc("job", rank)).collect()
}

#[test]
fn fences_that_have_timed_out_have_a_limit_whoever_takes_part() {
    let (mut t, peers) = Harness::local(12);
    for number in 1..=1024 {
        let to = t.ask(&peers[0], fence(subset(number)).with(&keys::TIMEOUT, 1));
        t.advance(1);
        t.fails(to, Status::ERR_TIMEOUT);
    }
    let to = t.ask(&peers[0], fence(subset(1025)));
    t.fails(to, Status::ERR_RESOURCE_BUSY);
    // others are not concerned, and it can enter what others have begun
    let (a, b) = (t.ask(&peers[1], fence_all()), t.ask(&peers[0], fence_all()));
    t.quiet();
    assert!(a != b);
    t.call(HostCall::DeregisterNspace(nspace("job")));
    t.drain();
    t.finish();
}

#[test]
fn what_a_process_brings_to_fences_has_a_limit_in_bytes() {
    let (mut t, peers) = Harness::local(12);
    let large = |number: u32| {
        let mut request = fence(subset(number)).with(&keys::TIMEOUT, 1);
        request.held().push(Info::dynamic(key("my.own"), "x".repeat(1 << 20)));
        request
    };
    for number in 1..=15 {
        let to = t.ask(&peers[0], large(number));
        t.advance(1);
        t.fails(to, Status::ERR_TIMEOUT);
    }
    let to = t.ask(&peers[0], large(16));
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.contains("the limit is 16777216"), "{failure}");
    // when the others come, it has room again
    let came = t.ask(&peers[1], fence(subset(1)));
    t.fails(came, Status::ERR_TIMEOUT);
    let to = t.ask(&peers[0], large(16));
    t.advance(1);
    t.fails(to, Status::ERR_TIMEOUT);
    t.call(HostCall::DeregisterNspace(nspace("job")));
    t.drain();
    t.finish();
}

#[test]
fn fen_04_operations_that_a_process_is_ahead_of_the_others_are_limited() {
    const LIMIT: usize = 1024;
    let (mut t, peers) = Harness::local(2);
    let mut ahead: Vec<_> = (0..LIMIT).map(|_| t.ask(&peers[0], fence([all_of("job")]))).collect();
    let to = t.ask(&peers[0], fence([all_of("job")]));
    t.fails(to, Status::ERR_RESOURCE_BUSY);
    // the other may enter those that there are, which makes room
    for round in 0..LIMIT {
        let to = t.ask(&peers[1], fence([all_of("job")]));
        t.ok(ahead.remove(0));
        t.ok(to);
        if round == 0 {
            ahead.push(t.ask(&peers[0], fence([all_of("job")])));
        }
    }
    let to = t.ask(&peers[1], fence([all_of("job")]));
    t.ok(ahead.remove(0));
    t.ok(to);
    t.finish();
}
