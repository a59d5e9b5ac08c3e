//! Collectives in which all clones of a process take part (IDN-07).

use pmix_types::message::{Connect, Disconnect, Finalize, Reply, Request};
use pmix_types::{Status, keys};

use super::super::ids::{ConnId, RequestId};
use super::super::upcall::Upcall;
use super::super::{Answer, Command, UpcallRequest};
use super::harness::*;

fn with_clones(request: Request) -> Request {
    request.with(&keys::ALL_CLONES_PARTICIPATE, true)
}

/// Whom a reply without failure is for.
fn answer_of(command: Command) -> Option<(ConnId, RequestId)> {
    match command {
        Command::Reply { conn, id, result: Ok(_) } => Some((conn, id)),
        _ => None,
    }
}

/// Rank 0 twice, and rank 1.
fn clones() -> (Harness, [Peer; 3]) {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let peers = [0, 0, 1].map(|rank| t.connect(&proc("job", rank)));
    (t, peers)
}

#[test]
fn idn_07c_a_fence_waits_for_all_clones_of_who_asks_for_that() {
    let (mut t, [a, clone, b]) = clones();
    for [first, second] in [[&a, &clone], [&clone, &a]] {
        let one = t.ask(first, with_clones(fence_all()));
        let other = t.ask(&b, fence_all());
        t.quiet();
        // it is enough that one of them asks for it
        let two = t.ask(second, fence_all());
        for to in [one, other, two] {
            assert_eq!(t.fenced(to), modex([]));
        }
    }
    // nobody asks for all clones of rank 0
    let one = t.ask(&a, fence_all());
    let other = t.ask(&b, with_clones(fence_all()));
    for to in [one, other] {
        assert_eq!(t.fenced(to), modex([]));
    }
    t.quiet();
    t.finish();
}

#[test]
fn idn_07c_a_clone_enters_each_of_the_fences_once() {
    let (mut t, [a, clone, b]) = clones();
    let asked = [&a, &a, &clone, &b].map(|peer| t.ask(peer, with_clones(fence_all())));
    let [first, second, first_too, other] = asked;
    for to in [first, first_too, other] {
        assert_eq!(t.fenced(to), modex([]));
    }
    t.quiet();
    let [second_too, other] = [&clone, &b].map(|peer| t.ask(peer, with_clones(fence_all())));
    for to in [second, second_too, other] {
        assert_eq!(t.fenced(to), modex([]));
    }
    t.finish();
}

#[test]
fn idn_07c_a_clone_that_leaves_is_not_waited_for_and_one_that_comes_is() {
    let (mut t, [a, clone, b]) = clones();
    let one = t.ask(&a, with_clones(fence_all()));
    let late = t.connect(&proc("job", 0));
    let other = t.ask(&b, fence_all());
    t.lose(&clone);
    t.quiet();
    let two = t.ask(&late, with_clones(fence_all()));
    for to in [one, other, two] {
        assert_eq!(t.fenced(to), modex([]));
    }
    // the last that is missing leaves
    let one = t.ask(&a, with_clones(fence_all()));
    let other = t.ask(&b, fence_all());
    t.quiet();
    t.lose(&late);
    for to in [one, other] {
        assert_eq!(t.fenced(to), modex([]));
    }
    t.finish();
}

#[test]
fn idn_07c_who_finalizes_is_not_waited_for_as_a_clone() {
    let (mut t, [a, clone, b]) = clones();
    let other = t.ask(&b, fence_all());
    let one = t.ask(&a, with_clones(fence_all()));
    t.quiet();
    t.ask(&clone, Request::Finalize(Finalize::new().with_directives(Default::default())));
    let answered: Vec<_> = t.drain().into_iter().filter_map(answer_of).collect();
    assert!([other, one].iter().all(|to| answered.contains(&(to.conn, to.id))), "{answered:?}");
    t.finish();
}

#[test]
fn idn_07c_a_fence_that_times_out_names_whom_it_has_waited_for() {
    let (mut t, [a, clone, b]) = clones();
    let one = t.ask(&a, with_clones(fence_all()).with(&keys::TIMEOUT, 1));
    let other = t.ask(&b, fence_all());
    t.quiet();
    t.advance(2);
    for to in [one, other] {
        let failure = t.fails(to, Status::ERR_TIMEOUT);
        assert!(failure.message.contains("job:0"), "{failure}");
    }
    // it has failed for the clone too
    let late = t.ask(&clone, fence_all());
    t.fails(late, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn idn_07c_a_connect_waits_for_all_clones_and_the_host_is_asked_once() {
    let mut t = Harness::new([Upcall::Connect]);
    t.job("job", "0;1");
    let (a, clone) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 0)));
    let connect = || with_clones(Request::Connect(Connect::new(vec![all_of("job")])));
    let one = t.ask(&a, connect());
    t.quiet();
    // each of them enters once
    let again = t.ask(&a, connect());
    t.fails(again, Status::ERR_INVALID_OPERATION);
    let two = t.ask(&clone, connect());
    let (upcall, _, request) = t.upcall();
    let UpcallRequest::Connect(request) = request else { panic!("{request:?}") };
    assert_eq!(request.procs, [all_of("job")], "once");
    t.answer(upcall, Ok(Answer::Connected(super::super::upcall::Connected::default())));
    for to in [one, two] {
        let reply = t.ok(to);
        assert!(matches!(reply, Reply::Connect(_)), "{reply:?}");
    }
    t.finish();
}

#[test]
fn idn_07c_clones_connect_and_disconnect_together() {
    let (mut t, [a, clone, b]) = clones();
    let procs = || vec![proc("job", 0), proc("job", 1)];
    for request in [Request::Connect(Connect::new(procs())), Request::Disconnect(Disconnect::new(procs()))] {
        let other = t.ask(&b, request.clone());
        let one = t.ask(&a, with_clones(request.clone()));
        t.quiet();
        let two = t.ask(&clone, with_clones(request));
        for to in [other, one, two] {
            t.ok(to);
        }
        t.quiet();
    }
    t.finish();
}
