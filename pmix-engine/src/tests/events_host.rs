//! Events and the host: what it is told, and what it is asked to watch.

use pmix_types::message::{DeregisterEvents, NotifyEvent, RegisterEvents, Reply, Request};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{DeregisterEventsRequest, Upcall};
use super::super::{Answer, UpcallId, UpcallRequest};
use super::events::*;
use super::harness::*;

const SYSTEM: Status = Status::EVENT_NODE_DOWN;
const OWN: Status = Status::from_raw(-4711);
const OF_JOB: Status = Status::ERR_PROC_ABORTED;

/// A job on two nodes under a host that carries events.
fn world(upcalls: impl IntoIterator<Item = Upcall>) -> (Harness, Peer, Peer) {
    Harness::two_nodes(upcalls)
}

fn notify(t: &mut Harness, peer: &Peer, event: &Event) -> ReplyTo {
    t.ask(peer, Request::NotifyEvent(NotifyEvent::new(event.clone())))
}

/// The event that the host is called with.
#[track_caller]
fn told(t: &mut Harness) -> (UpcallId, Event) {
    match t.upcall() {
        (id, _, UpcallRequest::NotifyEvent(event)) => (id, event),
        (_, _, other) => panic!("{other:?}"),
    }
}

#[test]
fn evt_11_evt_19_what_reaches_further_than_the_node_goes_up_to_the_host() {
    let (mut t, a, b) = world([Upcall::NotifyEvent]);
    let number = register(&mut t, &b, vec![]);
    let custom = |procs| {
        Event::new(SYSTEM, a.proc.clone())
            .with_range(DataRange::CUSTOM)
            .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)))
    };
    let range = |range| Event::new(SYSTEM, a.proc.clone()).with_range(range);
    let stays = range(DataRange::GLOBAL).with_info(Info::new(&keys::EVENT_STAYS_LOCAL, true));
    let cases = [
        (range(DataRange::NAMESPACE), true, true),
        (range(DataRange::SESSION), true, true),
        (range(DataRange::GLOBAL), true, true),
        (range(DataRange::RM), false, true),
        (range(DataRange::LOCAL), true, false),
        (range(DataRange::PROC_LOCAL), false, false),
        (custom(vec![b.proc.clone()]), true, false),
        (custom(vec![b.proc.clone(), proc("job", 2)]), true, true),
        (custom(vec![proc("job", 3)]), false, true),
        (custom(vec![all_of("job")]), true, true),
        (stays, true, false),
    ];
    for (event, is_heard, goes_up) in cases {
        let to = notify(&mut t, &a, &event);
        if is_heard {
            assert_same(&t.next(), &push(&b, &[number], &event));
        }
        // taken, whatever the host will say (EVT-17)
        t.done(to);
        if goes_up {
            let (upcall, sent) = told(&mut t);
            assert_eq!(sent, event);
            t.answer(upcall, Err(failure(Status::ERR_NOT_SUPPORTED)));
        }
        t.quiet();
    }
    t.finish();
}

#[test]
fn evt_19_gen_11_a_host_that_does_not_carry_events_is_not_called_and_local_processes_hear_them() {
    let (mut t, a, b) = world([]);
    let number = register(&mut t, &b, vec![SYSTEM]);
    let event = Event::new(SYSTEM, a.proc.clone()).with_range(DataRange::GLOBAL);
    let to = notify(&mut t, &a, &event);
    assert_same(&t.next(), &push(&b, &[number], &event));
    t.done(to);
    t.finish();
}

#[test]
fn hst_07_the_host_is_not_told_of_its_own_events() {
    let (mut t, a, _) = world([Upcall::NotifyEvent]);
    for source in [ProcId::none(), a.proc.clone(), proc("job", 3)] {
        host_event(&mut t, &Event::new(SYSTEM, source).with_range(DataRange::GLOBAL));
        t.quiet();
    }
    t.finish();
}

#[test]
fn evt_19_the_events_of_one_process_go_up_in_order_and_those_of_others_beside_them() {
    let (mut t, a, b) = world([Upcall::NotifyEvent]);
    let event = |peer: &Peer, number| Event::new(Status::from_raw(number), peer.proc.clone());
    let mut first = None;
    for number in 1..=3 {
        let to = notify(&mut t, &a, &event(&a, number));
        t.done(to);
        if number == 1 {
            first = Some(told(&mut t));
        }
        t.quiet();
    }
    let to = notify(&mut t, &b, &event(&b, 9));
    t.done(to);
    let (of_b, sent) = told(&mut t);
    assert_eq!(sent, event(&b, 9));
    t.answer(of_b, Ok(Answer::Done));
    let (mut upcall, sent) = first.unwrap();
    assert_eq!(sent, event(&a, 1));
    for number in 2..=3 {
        t.answer(upcall, Ok(Answer::Done));
        let (next, sent) = told(&mut t);
        assert_eq!(sent, event(&a, number));
        upcall = next;
    }
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn evt_17_a_process_that_tells_more_than_the_host_takes_has_to_wait() {
    let (mut t, a, b) = world([Upcall::NotifyEvent]);
    let event = Event::new(SYSTEM, a.proc.clone());
    let to = notify(&mut t, &a, &event);
    t.done(to);
    let (mut upcall, _) = told(&mut t);
    for _ in 0..64 {
        let to = notify(&mut t, &a, &event);
        t.done(to);
    }
    let waiting = [notify(&mut t, &a, &event), notify(&mut t, &a, &event)];
    t.quiet();
    // its events that were not taken are not told once it is gone
    let is_done = |t: &mut Harness, upcall| {
        t.answer(upcall, Ok(Answer::Done));
        told(t).0
    };
    upcall = is_done(&mut t, upcall);
    t.done(waiting[0]);
    t.lose(&a);
    for _ in 0..64 {
        upcall = is_done(&mut t, upcall);
    }
    t.answer(upcall, Ok(Answer::Done));
    t.quiet();
    // and nobody else had to wait
    let to = notify(&mut t, &b, &Event::new(SYSTEM, b.proc.clone()).with_range(DataRange::LOCAL));
    t.done(to);
    t.finish();
}

#[track_caller]
fn asked_to_watch(t: &mut Harness) -> (UpcallId, Vec<Status>) {
    match t.upcall() {
        (id, caller, UpcallRequest::RegisterEvents(RegisterEvents { codes, directives, .. })) => {
            assert_eq!(directives.get(&keys::USERID), Ok(Some(caller.uid)), "GEN-13");
            assert_eq!(directives.get(&keys::GRPID), Ok(caller.gid), "GEN-13");
            (id, codes)
        }
        (_, _, other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn asked_to_stop(t: &mut Harness) -> (UpcallId, Vec<Status>) {
    match t.upcall() {
        (id, _, UpcallRequest::DeregisterEvents(DeregisterEventsRequest { codes, .. })) => (id, codes),
        (_, _, other) => panic!("{other:?}"),
    }
}

/// A registration that may make the server call the host.
#[track_caller]
fn register_codes(t: &mut Harness, peer: &Peer, codes: Vec<Status>) -> u64 {
    let to = t.ask(peer, Request::RegisterEvents(RegisterEvents::new(codes)));
    match t.ok(to) {
        Reply::Registered(number) => number,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn deregister(t: &mut Harness, peer: &Peer, number: u64) -> ReplyTo {
    t.ask(peer, Request::DeregisterEvents(DeregisterEvents::new(number)))
}

const WATCHER: [Upcall; 2] = [Upcall::RegisterEvents, Upcall::DeregisterEvents];

#[test]
fn hst_06_gen_13_the_host_is_asked_once_for_a_code_that_only_it_can_see() {
    let (mut t, a, b) = world(WATCHER);
    let first = register_codes(&mut t, &a, vec![OF_JOB, OWN, SYSTEM, OWN]);
    let (upcall, codes) = asked_to_watch(&mut t);
    assert_eq!(codes, [OWN, SYSTEM]);
    t.answer(upcall, Ok(Answer::Done));
    register_codes(&mut t, &b, vec![SYSTEM]);
    register_codes(&mut t, &b, vec![]);
    register_codes(&mut t, &b, vec![OF_JOB]);
    t.quiet();

    let to = deregister(&mut t, &a, first);
    t.done(to);
    let (upcall, codes) = asked_to_stop(&mut t);
    assert_eq!(codes, [OWN], "somebody still wants the other");
    t.answer(upcall, Ok(Answer::Done));
    // the death of the last one counts as its deregistration
    t.lose(&b);
    let (upcall, codes) = asked_to_stop(&mut t);
    assert_eq!(codes, [SYSTEM]);
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn hst_06_system_events_are_those_from_230_to_330() {
    let (mut t, a, _) = world(WATCHER);
    let number = register_codes(&mut t, &a, [-229, -230, -330, -331].map(Status::from_raw).into());
    let (upcall, codes) = asked_to_watch(&mut t);
    assert_eq!(codes, [-330, -230].map(Status::from_raw));
    t.answer(upcall, Ok(Answer::Done));
    let to = deregister(&mut t, &a, number);
    t.done(to);
    let (upcall, _) = asked_to_stop(&mut t);
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn hst_06_gen_11_a_host_that_cannot_be_told_to_stop_is_asked_anew() {
    let (mut t, a, _) = world([Upcall::RegisterEvents]);
    for _ in 0..2 {
        let number = register_codes(&mut t, &a, vec![SYSTEM]);
        let (upcall, _) = asked_to_watch(&mut t);
        t.answer(upcall, Ok(Answer::Done));
        let to = deregister(&mut t, &a, number);
        t.done(to);
        t.quiet();
    }
    t.finish();
}

#[test]
fn hst_06_what_changes_while_the_host_is_busy_is_told_afterwards() {
    let (mut t, a, _) = world(WATCHER);
    let number = register_codes(&mut t, &a, vec![SYSTEM]);
    let (start, _) = asked_to_watch(&mut t);
    let to = deregister(&mut t, &a, number);
    t.done(to);
    // upcalls may overtake each other, so the second waits for the first
    t.answer(start, Ok(Answer::Done));
    let (stop, codes) = asked_to_stop(&mut t);
    assert_eq!(codes, [SYSTEM]);
    register_codes(&mut t, &a, vec![SYSTEM]);
    t.quiet();
    t.answer(stop, Ok(Answer::Done));
    let (start, codes) = asked_to_watch(&mut t);
    assert_eq!(codes, [SYSTEM]);
    t.answer(start, Ok(Answer::Done));
    t.finish();
}

#[test]
fn hst_06_what_a_host_refuses_is_heard_locally_and_asked_again_by_the_next() {
    let (mut t, a, b) = world(WATCHER);
    let number = register_codes(&mut t, &a, vec![SYSTEM]);
    let (upcall, _) = asked_to_watch(&mut t);
    t.answer(upcall, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.quiet();
    let event = uncached(Event::new(SYSTEM, b.proc.clone()));
    let to = notify(&mut t, &b, &event);
    assert_same(&t.next(), &push(&a, &[number], &event));
    t.done(to);
    register_codes(&mut t, &b, vec![SYSTEM]);
    let (upcall, _) = asked_to_watch(&mut t);
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn hst_06_gen_11_a_host_that_watches_nothing_is_not_asked() {
    let (mut t, a, _) = world([]);
    let number = register(&mut t, &a, vec![SYSTEM, OWN]);
    let to = deregister(&mut t, &a, number);
    t.done(to);
    t.finish();
}

#[test]
fn codes_that_the_host_is_asked_to_watch_are_limited() {
    let (mut t, a, b) = world(WATCHER);
    for block in 0..4 {
        register_codes(&mut t, &a, (1..=1024).map(|code| Status::from_raw(block * 1024 + code)).collect());
        let (upcall, _) = asked_to_watch(&mut t);
        t.answer(upcall, Ok(Answer::Done));
    }
    for codes in [vec![SYSTEM], (1..=1025).map(Status::from_raw).collect()] {
        let to = t.ask(&b, Request::RegisterEvents(RegisterEvents::new(codes)));
        t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    }
    register_codes(&mut t, &b, vec![OF_JOB]);
    // what is watched already takes no room
    register_codes(&mut t, &b, [1, 2, 1].map(Status::from_raw).to_vec());
    t.finish();
}

#[test]
fn gen_14_the_host_sees_the_directives_of_the_registration() {
    let (mut t, a, _) = world(WATCHER);
    let mut wish = RegisterEvents::new(vec![SYSTEM]);
    wish.directives = Directives::new().with(&keys::EVENT_AFFECTED_PROC, proc("job", 3));
    let to = t.ask(&a, Request::RegisterEvents(wish));
    t.ok(to);
    let (upcall, _, UpcallRequest::RegisterEvents(request)) = t.upcall() else { panic!("another upcall") };
    assert_eq!(request.directives.get(&keys::EVENT_AFFECTED_PROC), Ok(Some(proc("job", 3))));
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}
