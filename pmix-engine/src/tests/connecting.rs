//! Connect and disconnect.

use pmix_types::message::{Connect, ConnectReply, Disconnect, Reply, Request};
use pmix_types::{ProcId, Rank, Status, keys};

use super::super::upcall::{Connected, Upcall};
use super::super::{Answer, HostCall, UpcallRequest};
use super::harness::*;

fn connect(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::Connect(Connect::new(procs.into_iter().collect()))
}

fn disconnect(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::Disconnect(Disconnect::new(procs.into_iter().collect()))
}

/// Two jobs here: `a` of two processes, `b` of one.
fn two_jobs() -> (Harness, [Peer; 3]) {
    let mut t = Harness::new([]);
    t.job("a", "0-1");
    t.job("b", "0");
    let peers = [proc("a", 0), proc("a", 1), proc("b", 0)].map(|proc| t.connect(&proc));
    (t, peers)
}

#[track_caller]
fn connected(t: &mut Harness, to: super::super::ids::ReplyTo) -> ConnectReply {
    match t.ok(to) {
        Reply::Connect(reply) => reply,
        other => panic!("expected the end of a connect, not {other:?}"),
    }
}

fn names(reply: &ConnectReply) -> Vec<&str> {
    reply.jobs.iter().map(|job| job.nspace().as_str()).collect()
}

#[test]
fn con_02_con_03_con_08_all_enter_in_any_order_and_get_the_others_job_data() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let first = t.ask(&a0, connect([all_of("a"), all_of("b")]));
    let second = t.ask(&b0, connect([all_of("b"), all_of("a")]));
    t.quiet();
    let third = t.ask(&a1, connect([all_of("a"), all_of("b"), all_of("a")]));
    for (to, others) in [(first, "b"), (second, "a"), (third, "b")] {
        let reply = connected(&mut t, to);
        assert_eq!(names(&reply), [others]);
        // con_06: this host makes no namespace
        assert_eq!((reply.nspace, reply.rank), (None, None));
    }
    t.finish();
}

#[test]
fn con_03_who_connects_must_take_part() {
    let (mut t, [a0, ..]) = two_jobs();
    let to = t.ask(&a0, connect([]));
    t.fails(to, Status::ERR_BAD_PARAM);
    let to = t.ask(&a0, connect([proc("a", 1), all_of("b")]));
    t.fails(to, Status::ERR_NOT_A_MEMBER);
    t.finish();
}

#[test]
fn con_04_ids_and_kinds_of_operations_are_apart() {
    let (mut t, [a0, a1, _]) = two_jobs();
    let with_id = |id: &str| connect([all_of("a")]).with(&keys::CONNECT_ID, id);
    let one = t.ask(&a0, with_id("one"));
    let two = t.ask(&a1, with_id("two"));
    let fenced = t.ask(&a1, fence([all_of("a")]));
    t.quiet();
    let more = t.ask(&a0, with_id("two"));
    connected(&mut t, two);
    connected(&mut t, more);
    let more = t.ask(&a1, with_id("one"));
    connected(&mut t, one);
    connected(&mut t, more);
    let more = t.ask(&a0, fence([all_of("a")]));
    t.fenced(fenced);
    t.fenced(more);
    t.finish();
}

#[test]
fn con_14_con_16_only_who_is_connected_disconnects() {
    let (mut t, [a0, _, b0]) = two_jobs();
    let set = || [proc("a", 0), proc("b", 0)];
    let to = t.ask(&a0, disconnect(set()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    let asked = [&a0, &b0].map(|peer| t.ask(peer, connect(set())));
    for to in asked {
        connected(&mut t, to);
    }
    let asked = [&a0, &b0].map(|peer| t.ask(peer, disconnect(set())));
    for to in asked {
        t.done(to);
    }
    let to = t.ask(&b0, disconnect(set()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    let to = t.ask(&a0, get_key(all_of("b"), &keys::JOB_SIZE));
    assert_eq!(t.value(to).get::<u32>(), Ok(1));
    // what is gone cannot disconnect
    let asked = [&a0, &b0].map(|peer| t.ask(peer, connect(set())));
    for to in asked {
        connected(&mut t, to);
    }
    t.feed(super::super::Input::Call {
        id: super::super::CallId(999),
        call: HostCall::DeregisterNspace(nspace("b")),
    });
    t.next();
    t.next();
    let to = t.ask(&a0, disconnect(set()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    t.finish();
}

#[test]
fn con_12_the_dead_fail_a_connect_unless_they_are_optional() {
    let (mut t, [a0, a1, _]) = two_jobs();
    let to = t.ask(&a0, connect([all_of("a")]));
    t.lose(&a1);
    let failure = t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    assert_eq!(failure.procs, [proc("a", 1)]);
    t.finish();

    let (mut t, [a0, a1, b0]) = two_jobs();
    let optional = || connect([all_of("a"), all_of("b")]).with(&keys::CONNECT_OPTIONAL, true);
    let first = t.ask(&a0, optional());
    t.lose(&a1);
    t.quiet();
    let second = t.ask(&b0, optional());
    connected(&mut t, first);
    connected(&mut t, second);
    t.finish();
}

#[test]
fn con_02_con_06_gen_12_one_upcall_a_node_and_each_gets_its_rank() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Connect, Upcall::Disconnect]);
    let enter = || connect([all_of("job")]).with(&keys::TIMEOUT, 9);
    let first = t.ask(&a, enter());
    t.quiet();
    let second = t.ask(&b, enter());
    let (id, caller, request) = t.upcall();
    assert_same(&caller, &server_caller());
    let UpcallRequest::Connect(request) = request else { panic!("{request:?}") };
    assert_eq!(request.procs, [all_of("job")]);
    assert_eq!(request.nodes, ["n0", "n1"]);
    assert!(request.directives.is_empty());
    let jobs = CODEC.read_jobs(request.data.clone()).unwrap();
    assert_eq!(jobs.iter().map(|job| job.nspace().as_str()).collect::<Vec<_>>(), ["job"]);
    let ranks = vec![(proc("job", 1), Rank::from_raw(7)), (proc("job", 0), Rank::from_raw(5))];
    let answer = Connected { nspace: Some(nspace("connected")), ranks, data: request.data };
    t.answer(id, Ok(Answer::Connected(answer)));
    for (to, rank) in [(first, 5), (second, 7)] {
        let reply = connected(&mut t, to);
        assert_eq!((reply.nspace, reply.rank), (Some(nspace("connected")), Some(Rank::from_raw(rank))));
    }
    let asked = [&a, &b].map(|peer| t.ask(peer, disconnect([all_of("job")])));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Disconnect(request) = request else { panic!("{request:?}") };
    assert_eq!((request.procs, request.nspace), (vec![all_of("job")], None));
    assert_eq!(request.nodes, ["n0", "n1"]);
    t.answer(id, Ok(Answer::Done));
    for to in asked {
        t.done(to);
    }
    t.finish();
}

#[test]
fn con_02_gen_12_a_connect_ends_in_time() {
    let (mut t, [a0, ..]) = two_jobs();
    let to = t.ask(&a0, connect([all_of("a")]).with(&keys::TIMEOUT, 3));
    t.advance(3);
    let failure = t.fails(to, Status::ERR_TIMEOUT);
    assert_eq!(failure.procs, [proc("a", 1)]);
    let to = t.ask(&a0, connect([all_of("a")]).with(&keys::TIMEOUT, -3));
    t.fails(to, Status::ERR_BAD_PARAM);
    let late = t.engine.collectives.waiting();
    assert_eq!(late, 0);
    let Some(a1) =
        t.engine.cx.conns.iter().find(|(_, held)| held.proc == proc("a", 1)).map(|(conn, _)| *conn)
    else {
        panic!("a:1 is not connected")
    };
    // the last one comes too late for the others, and the round is over
    let to = t.ask_on(a1, connect([all_of("a")]));
    t.fails(to, Status::ERR_TIMEOUT);
    t.finish();
}
