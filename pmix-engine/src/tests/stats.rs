//! What a server counts.

use std::time::Duration;

use pmix_types::message::Identity;
use pmix_types::{Event, Status, keys};

use super::super::iof::CACHE_SIZE;
use super::super::{Answer, CollectiveStats, HostCall, Upcall};
use super::connected::{connect, disconnect};
use super::events::host_event;
use super::group::{construct, destruct};
use super::harness::{Harness, USER, With, all_of, fence_all, listen, nspace, proc};
use super::iof::*;

/// Completed, failed, and the place of each time.
fn summed(stats: CollectiveStats) -> (u64, u64, Vec<usize>) {
    let places = stats.took.iter().enumerate();
    let places = places.flat_map(|(place, &count)| std::iter::repeat_n(place, count as usize));
    (stats.completed, stats.failed, places.collect())
}

#[test]
fn a_collective_is_counted_once_with_the_time_from_its_first_entry() {
    let (mut t, peers) = Harness::local(2);
    let [a, b] = [&peers[0], &peers[1]];
    let first = t.ask(a, fence_all());
    assert_eq!(summed(t.engine.stats().fence), (0, 0, vec![]), "it is under way");
    t.pass(2);
    let second = t.ask(b, fence_all());
    t.fenced(first);
    t.fenced(second);
    let stats = t.engine.stats();
    // 3 s are at least 2 s
    assert_eq!((summed(stats.fence), stats.fences), ((1, 0, vec![9]), 1));
    assert_eq!(stats.fence.time, Duration::from_secs(2));

    // one that fails for lack of time, also for the participant that comes late
    let early = t.ask(a, fence_all().with(&keys::TIMEOUT, 1_i32));
    t.advance(1);
    t.fails(early, Status::ERR_TIMEOUT);
    let late = t.ask(b, fence_all());
    t.fails(late, Status::ERR_TIMEOUT);
    let stats = t.engine.stats();
    assert_eq!((summed(stats.fence), stats.fences), ((1, 1, vec![8, 9]), 1));
    assert_eq!(stats.fence.time, Duration::from_secs(3));
    assert_eq!(stats.requests, 4);
    t.finish();
}

#[test]
fn each_kind_of_collective_is_counted_by_itself() {
    let (mut t, peers) = Harness::local(2);
    let all = [all_of("job")];
    let requests = [construct("g", all.clone()), destruct("g"), connect(all.clone()), disconnect(all)];
    for (done, request) in requests.into_iter().enumerate() {
        let asked: Vec<_> = peers.iter().map(|peer| t.ask(peer, request.clone())).collect();
        for to in asked {
            let _ = t.outcome(to);
        }
        t.drain();
        let stats = t.engine.stats();
        let kinds =
            [stats.group_construct, stats.group_destruct, stats.connect, stats.disconnect, stats.fence];
        for (kind, stats) in kinds.into_iter().enumerate() {
            let due = if kind <= done { (1, 0, vec![0]) } else { (0, 0, vec![]) };
            assert_eq!(summed(stats), due, "after {} kind {kind}", done + 1);
        }
    }
    t.finish();
}

#[test]
fn a_collective_of_a_namespace_that_ends_has_failed() {
    let (mut t, peers) = Harness::local(2);
    t.ask(&peers[0], fence_all());
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    assert_eq!(summed(t.engine.stats().fence), (0, 1, vec![0]));
    t.drain();
    t.finish();
}

#[test]
fn times_belong_to_the_first_bound_that_they_do_not_pass() {
    let mut stats = CollectiveStats::default();
    for micros in [0, 100, 101, 300, 1_000_000, 100_000_000, 100_000_001] {
        stats.count(true, Duration::from_micros(micros));
    }
    assert_eq!(summed(stats), (7, 0, vec![0, 0, 1, 1, 8, 12, 13]));
    assert!(CollectiveStats::BOUNDS.is_sorted());
}

#[test]
fn clients_and_tools_are_counted_while_they_are_connected() {
    let (mut t, peers) = Harness::local(3);
    let count = |t: &Harness| (t.engine.stats().clients, t.engine.stats().tools);
    assert_eq!(count(&t), (3, 0));
    t.lose(&peers[1]);
    t.drain();
    assert_eq!(count(&t), (2, 0));
    t.finish();
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.hello_as(Identity::Tool(None), USER);
    let (asked, ..) = t.upcall();
    assert_eq!(count(&t), (0, 0), "it is not let in yet");
    t.answer(asked, Ok(Answer::Identity(proc("tool", 0))));
    t.drain();
    assert_eq!(count(&t), (0, 1));
    t.finish();
}

#[test]
fn an_event_is_counted_once_and_its_receivers_each() {
    let (mut t, peers) = Harness::local(3);
    peers.iter().for_each(|peer| listen(&mut t, peer));
    let before = t.engine.stats();
    host_event(&mut t, &Event::new(Status::from_raw(-9_000_000), proc("job", 9)));
    let after = t.engine.stats();
    assert_eq!((after.events - before.events, after.events_delivered - before.events_delivered), (1, 3));
    t.drain();
    t.finish();
}

#[test]
fn output_that_nobody_pulls_is_counted_where_it_is_dropped() {
    let (mut t, _, writer) = two();
    t.delivers(text(&writer, OUT, &"x".repeat(CACHE_SIZE - 10)));
    assert_eq!(t.engine.stats().output_dropped, 0);
    t.delivers(text(&writer, OUT, &"y".repeat(15)));
    assert_eq!(t.engine.stats().output_dropped, 5);
    t.delivers(text(&writer, OUT, "zzz"));
    assert_eq!(t.engine.stats().output_dropped, 8);
    t.finish();
}
