//! Events that are kept for those who register later.

use pmix_types::message::{Finalize, Identity, RegisterEvents, Request};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Memory, ProcId, Status, Value, keys};

use super::super::upcall::Upcall;
use super::super::{Answer, Command, HostCall};
use super::events::*;
use super::harness::*;

fn event(number: i32) -> Event {
    Event::new(Status::from_raw(number), ProcId::none()).with_range(DataRange::LOCAL)
}

fn of_job(number: i32) -> Event {
    Event::new(Status::from_raw(number), proc("a", 5))
}

/// The codes of what comes with a registration for everything.
#[track_caller]
fn codes_kept_for(t: &mut Harness, peer: &Peer) -> Vec<i32> {
    let number = register(t, peer, vec![]);
    let mut codes = Vec::new();
    while let Some(command) = t.take() {
        let Command::Push {
            push: pmix_types::message::Push::Event { registrations, event, is_kept: true },
            ..
        } = command
        else {
            panic!("{command:?}");
        };
        assert_eq!(registrations, [number]);
        codes.push(event.code.to_raw());
    }
    codes
}

#[test]
fn evt_13_who_registers_later_gets_what_matches_in_order_of_arrival() {
    let (mut t, peers) = world([]);
    for number in [3, 1, 2, 1] {
        host_event(&mut t, &event(number));
    }
    let number = register(&mut t, &peers[0], vec![Status::from_raw(1), Status::from_raw(2)]);
    t.expect([1, 2, 1].map(|code| push_kept(&peers[0], number, &event(code))));
    assert_eq!(codes_kept_for(&mut t, &peers[2]), [3, 1, 2, 1]);
    t.finish();
}

#[test]
fn evt_13_what_is_kept_is_filtered_like_any_event() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &event(1).with_info(Info::new(&keys::EVENT_NON_DEFAULT, true)));
    host_event(&mut t, &about(event(2), vec![proc("b", 1)]));
    host_event(&mut t, &event(3).with_range(DataRange::RM));
    let mut wish = RegisterEvents::new(vec![]);
    wish.directives = Directives::new().with(&keys::EVENT_AFFECTED_PROC, proc("b", 0));
    register_wish(&mut t, &peers[0], wish);
    t.quiet();
    assert_eq!(codes_kept_for(&mut t, &peers[0]), [2]);
    let named = register(&mut t, &peers[0], vec![Status::from_raw(1), Status::from_raw(3)]);
    t.expect([push_kept(&peers[0], named, &event(1).with_info(Info::new(&keys::EVENT_NON_DEFAULT, true)))]);
    t.finish();
}

#[test]
fn evt_13_a_range_holds_for_latecomers_too() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &of_job(1));
    let custom = DataArray::Proc(vec![proc("b", 1)]);
    let custom =
        of_job(2).with_range(DataRange::CUSTOM).with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, custom));
    host_event(&mut t, &custom);
    let kept: Vec<_> = peers.iter().map(|peer| codes_kept_for(&mut t, peer)).collect();
    assert_eq!(kept, [vec![1], vec![1], vec![], vec![2]]);
    t.finish();
}

#[test]
fn evt_13_do_not_cache() {
    let (mut t, peers) = world([]);
    let number = register(&mut t, &peers[0], vec![]);
    host_event(&mut t, &uncached(event(1)));
    t.expect([push(&peers[0], &[number], &uncached(event(1)))]);
    assert_eq!(codes_kept_for(&mut t, &peers[1]), [0; 0]);
    t.finish();
}

#[test]
fn evt_14_each_registration_gets_an_event_once_whatever_others_of_its_process_got() {
    let (mut t, peers) = world([]);
    let first = register(&mut t, &peers[0], vec![Status::from_raw(1)]);
    host_event(&mut t, &event(1));
    t.expect([push(&peers[0], &[first], &event(1))]);
    host_event(&mut t, &event(2));
    for _ in 0..2 {
        assert_eq!(codes_kept_for(&mut t, &peers[0]), [1, 2]);
    }
    host_event(&mut t, &event(3));
    t.expect([push(&peers[0], &[first + 1, first + 2], &event(3))]);
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new()));
    t.done(to);
    let again = t.connect(&peers[0].proc);
    assert_eq!(codes_kept_for(&mut t, &again), [1, 2, 3], "the same process has connected again");
    t.lose(&again);
    t.register_client(&peers[0].proc);
    let another = t.connect(&peers[0].proc);
    assert_eq!(codes_kept_for(&mut t, &another), [1, 2, 3], "another process under the same name");
    t.finish();
}

#[test]
fn evt_13_those_for_no_job_are_a_ring_of_512() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &of_job(1));
    for number in 1..=600 {
        host_event(&mut t, &event(1000 + number));
    }
    let kept = codes_kept_for(&mut t, &peers[0]);
    assert_eq!(kept.len(), 513);
    assert_eq!((kept[0], kept[1], kept[512]), (1, 1089, 1600), "the job's is not displaced by those for all");
    t.finish();
}

#[test]
fn evt_13_an_event_of_a_job_is_kept_as_long_as_the_job() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &of_job(1));
    for peer in &peers[..2] {
        assert_eq!(codes_kept_for(&mut t, peer), [1]);
    }
    assert_eq!(t.engine.stats().events_kept, 1);
    // nor is it for processes that may not have it
    assert_eq!(codes_kept_for(&mut t, &peers[3]), [0; 0]);
    assert!(t.called(HostCall::DeregisterNspace(nspace("a"))).is_ok());
    while t.take().is_some() {}
    assert_eq!(t.engine.stats().events_kept, 0);
    t.finish();
}

#[test]
fn evt_13_an_event_for_a_tool_is_kept_until_the_tool_is_gone() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let tool = Peer { conn: t.hello_as(Identity::Tool(None), USER), proc: proc("tool", 0) };
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(tool.proc.clone())));
    t.next();
    let for_tool = |number: i32| {
        let custom = DataArray::Proc(vec![proc("tool", 0)]);
        event(number).with_range(DataRange::CUSTOM).with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, custom))
    };
    host_event(&mut t, &for_tool(1));
    assert_eq!(t.engine.stats().events_kept, 1);
    assert_eq!(codes_kept_for(&mut t, &tool), [1]);
    assert_eq!(t.engine.stats().events_kept, 1);
    t.lose_conn(tool.conn);
    assert_eq!(t.engine.stats().events_kept, 0);
    t.finish();
}

#[test]
fn evt_13_what_is_kept_is_bounded_in_number_and_bytes() {
    let (mut t, _) = world([]);
    for number in 0..3000 {
        host_event(&mut t, &of_job(number));
    }
    assert_eq!(t.engine.stats().events_kept, 1024);
    let large = |bytes: usize| event(1).with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, "x".repeat(bytes)));
    host_event(&mut t, &large(17 << 20));
    assert_eq!(t.engine.stats().events_kept, 1024, "one that is too large is not kept");
    for _ in 0..20 {
        host_event(&mut t, &large(1 << 20));
    }
    assert_eq!(t.engine.stats().events_kept, 15, "the oldest make room");
    t.finish();
}

#[test]
fn evt_13_nested_information_and_long_keys_count_in_what_is_kept() {
    const LIMIT: usize = 16 << 20;
    let (mut t, _) = world([]);
    let nested = DataArray::DataArray(vec![DataArray::Uint8(vec![0; 100]); 10_000]);
    let keys = DataArray::Info(
        (0..2000).map(|number| Info::dynamic(key(&format!("{number:0500}")), true)).collect(),
    );
    for more in [Value::from(nested), keys.into()] {
        let bytes = more.memory();
        assert!(bytes > 1_000_000);
        for _ in 0..100 {
            host_event(&mut t, &event(1).with_info(Info::dynamic(key("more"), more.clone())));
        }
        let kept = t.engine.stats().events_kept as usize;
        assert!(kept * bytes <= LIMIT && (kept + 2) * bytes > LIMIT, "{kept} of {bytes} bytes");
    }
    t.finish();
}

#[test]
fn evt_13_what_is_kept_is_given_to_one_connection_up_to_a_limit() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &event(1).with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, "x".repeat(15 << 20))));
    for _ in 0..18 {
        assert_eq!(codes_kept_for(&mut t, &peers[0]), [1]);
    }
    // beyond it, it is told what is missing
    register(&mut t, &peers[0], vec![]);
    let missing = pmix_types::message::Push::Lagged { missed: 1 };
    t.expect([Command::Push { conn: peers[0].conn, push: missing }]);
    assert_eq!(codes_kept_for(&mut t, &peers[1]), [1]);
    t.finish();
}

#[test]
fn an_event_that_is_kept_does_not_keep_the_message_it_came_in() {
    let (mut t, _) = world([]);
    let message = bytes::Bytes::from(vec![0; 1000]);
    host_event(
        &mut t,
        &event(1).with_info(Info::dynamic(key("part"), Value::ByteObject(message.slice(..1)))),
    );
    assert_eq!(t.engine.stats().events_kept, 1);
    assert!(message.is_unique());
    t.finish();
}

#[test]
fn evt_13_evt_14_a_new_job_of_the_same_name_has_heard_nothing_and_does_not_hear_of_the_old_one() {
    let (mut t, peers) = world([]);
    host_event(&mut t, &of_job(1));
    host_event(&mut t, &event(2));
    assert_eq!(codes_kept_for(&mut t, &peers[0]), [1, 2]);
    assert!(t.called(HostCall::DeregisterNspace(nspace("a"))).is_ok());
    while t.take().is_some() {}
    t.job("a", "0-1");
    let peer = t.connect(&proc("a", 0));
    assert_eq!(codes_kept_for(&mut t, &peer), [2]);
    t.finish();
}

#[test]
fn evt_14_a_tool_that_takes_the_name_of_one_that_is_gone_has_heard_nothing_yet() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    host_event(&mut t, &event(1));
    for _ in 0..2 {
        let tool = Peer { conn: t.hello_as(Identity::Tool(None), USER), proc: proc("tool", 0) };
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(tool.proc.clone())));
        assert!(matches!(t.next(), Command::Accept { .. }));
        assert_eq!(codes_kept_for(&mut t, &tool), [1]);
        t.lose(&tool);
    }
    t.finish();
}

#[test]
fn evt_13_evt_20_what_is_for_a_job_that_is_not_known_yet_waits_for_it() {
    let mut t = Harness::new([]);
    for (number, named) in [(1, proc("late", 0)), (2, all_of("late")), (3, proc("late", 1))] {
        let named = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![named]));
        host_event(&mut t, &event(number).with_range(DataRange::CUSTOM).with_info(named));
    }
    t.job("late", "0-1");
    let peers = [0, 1].map(|rank| t.connect(&proc("late", rank)));
    assert_eq!(peers.each_ref().map(|peer| codes_kept_for(&mut t, peer)), [[1, 2], [2, 3]]);
    t.finish();
}

#[test]
fn evt_13_those_of_a_job_that_are_still_to_be_registered_are_waited_for() {
    let mut t = Harness::new([]);
    t.register(pmix_types::job::JobSpec::new(nspace("late")), Some(2));
    t.register_client(&proc("late", 0));
    let first = t.connect(&proc("late", 0));
    let number = register(&mut t, &first, vec![]);
    let event = Event::new(Status::from_raw(1), proc("late", 0));
    host_event(&mut t, &event);
    t.expect([push(&first, &[number], &event)]);
    t.register_client(&proc("late", 1));
    let second = t.connect(&proc("late", 1));
    assert_eq!(codes_kept_for(&mut t, &second), [1]);
    t.finish();
}
