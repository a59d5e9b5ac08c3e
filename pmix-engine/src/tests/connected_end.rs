//! Processes that end, or leave a connected set.

use pmix_types::message::{Finalize, RegisterEvents, Request};
use pmix_types::{DataArray, Status, keys};

use super::super::upcall::{Connected, Upcall};
use super::super::{Answer, CallValue, Command, HostCall, Presence, UpcallRequest};
use super::connected::*;
use super::harness::*;

#[test]
fn con_13_who_ends_or_finalizes_while_connected_is_told_of() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    t.job("c", "0");
    let stranger = t.connect(&proc("c", 0));
    for peer in [&a0, &b0, &stranger] {
        listen(&mut t, peer);
    }
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    t.lose(&a1);
    hears(&mut t, &a0, Status::ERR_PROC_TERM_WO_SYNC, &proc("a", 1));
    hears(&mut t, &b0, Status::ERR_PROC_TERM_WO_SYNC, &proc("a", 1));
    // a fence of the group fails, one without the dead does not
    let to = t.ask(&a0, fence([all_of("asm")]));
    let failure = t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    assert_eq!(failure.procs, [proc("a", 1)]);
    let to = t.ask(&b0, fence([all_of("asm")]));
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    let to = t.ask(&b0, Request::Finalize(Finalize::new().with_directives(Default::default())));
    t.done(to);
    // who has finalized will not enter either
    let to = t.ask(&a0, fence([proc("asm", 10), proc("asm", 11)]));
    assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).procs, [proc("b", 0)]);
    // the last one can still disconnect
    let to = t.ask(&a0, disconnect(everybody()));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

#[test]
fn con_13_of_those_who_finalize_hears_who_asks_for_it_by_code() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    listen(&mut t, &a0);
    let wish = RegisterEvents::new(vec![Status::ERR_PROC_TERM_WO_SYNC]);
    let to = t.ask(&a1, Request::RegisterEvents(wish));
    t.ok(to);
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let to = t.ask(&b0, Request::Finalize(Finalize::new().with_directives(Default::default())));
    hears(&mut t, &a1, Status::ERR_PROC_TERM_WO_SYNC, &proc("b", 0));
    t.done(to);
    // nobody else
    t.finish();
}

#[test]
fn con_13_members_on_other_nodes_hear_of_it_through_the_host() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Connect, Upcall::NotifyEvent]);
    let asked = [&a, &b].map(|peer| t.ask(peer, connect([all_of("job")])));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    t.lose(&b);
    let (id, _, request) = t.upcall();
    let UpcallRequest::NotifyEvent(request) = request else { panic!("{request:?}") };
    assert_eq!(request.code, Status::ERR_PROC_TERM_WO_SYNC);
    let range = request.info.get(&keys::EVENT_CUSTOM_RANGE).unwrap();
    assert_eq!(range, Some(DataArray::Proc(vec![all_of("job")])));
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn con_13_who_ends_after_a_disconnect_is_not_told_of() {
    let (mut t, peers) = two_jobs();
    listen(&mut t, &peers[0]);
    all_connect(&mut t, &peers, &connect(everybody()));
    let asked = peers.each_ref().map(|peer| t.ask(peer, disconnect(everybody())));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    t.lose(&peers[1]);
    t.finish();
}

#[test]
fn con_13_con_14_who_has_left_ends_unnoticed_though_the_others_are_connected() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    listen(&mut t, &a0);
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let to = t.ask(&a1, leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.lose(&a1);
    t.quiet();
    t.lose(&b0);
    hears(&mut t, &a0, Status::ERR_PROC_TERM_WO_SYNC, &proc("b", 0));
    t.finish();
}

#[test]
fn con_13_where_members_may_end_early_nobody_waits_for_them() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let early = connect(everybody()).with(&keys::CONNECT_EARLY_TERM_ALLOWED, true);
    listen(&mut t, &a0);
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &early);
    // a fence that runs, by either name of the group
    let running = [t.ask(&a0, fence([all_of("asm")])), t.ask(&b0, fence([all_of("asm")]))];
    let own = [t.ask(&a0, fence(everybody())), t.ask(&b0, fence(everybody()))];
    t.quiet();
    t.lose(&a1);
    for to in running.into_iter().chain(own) {
        assert!(matches!(t.next(), Command::Reply { result: Ok(_), .. }), "{to:?}");
    }
    // one that comes later
    let to = t.ask(&a0, fence([all_of("asm")]));
    t.quiet();
    let finalized = t.ask(&b0, Request::Finalize(Finalize::new().with_directives(Default::default())));
    t.fenced(to);
    t.done(finalized);
    // other sets are not lowered
    let to = t.ask(&a0, fence([all_of("a")]));
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    t.finish();
}

#[test]
fn con_13_nothing_is_kept_of_a_group_that_has_nobody_here() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    assert_eq!(t.engine.connected.len(), 1);
    t.lose(&peers[0]);
    t.lose(&peers[1]);
    let to = t.ask(&peers[2], leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

#[test]
fn con_14_one_leaves_and_the_others_go_on() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    t.job("c", "0");
    let stranger = t.connect(&proc("c", 0));
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let to = t.ask(&a0, leave("nobody"));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    let to = t.ask(&stranger, leave("asm"));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    let fenced = [&a0, &b0].map(|peer| t.ask(peer, fence([all_of("asm")])));
    let to = t.ask(&a1, leave("asm"));
    let (id, caller, request) = t.upcall();
    assert_eq!(caller.proc, proc("a", 1));
    let UpcallRequest::Disconnect(request) = request else { panic!("{request:?}") };
    assert_eq!((request.procs, request.nspace), (vec![], Some(nspace("asm"))));
    assert_eq!(request.nodes, ["n0"], "no other node takes part");
    t.answer(id, Ok(Answer::Done));
    for waiting in fenced {
        t.fenced(waiting);
    }
    t.done(to);
    // it has left for good
    let to = t.ask(&a1, leave("asm"));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    let to = t.ask(&a1, disconnect(everybody()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    // and the others disconnect without it
    let asked = [&b0, &a0].map(|peer| t.ask(peer, disconnect(everybody())));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    let to = t.ask(&a0, leave("asm"));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.finish();
}

#[test]
fn con_14_a_host_can_refuse_that_one_leaves() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let to = t.ask(&peers[0], leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    let to = t.ask(&peers[0], leave("asm").with(&keys::TIMEOUT, 2));
    let (id, ..) = t.upcall();
    t.advance(2);
    t.expect_cancel_then_timeout(id, to);
    // it is still one of them
    let asked = peers.each_ref().map(|peer| t.ask(peer, disconnect([all_of("asm")])));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    t.finish();
}

#[test]
fn con_14_con_16_groups_end_with_a_namespace_of_theirs() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let to = t.ask(&peers[0], fence([all_of("asm")]));
    t.quiet();
    t.feed(super::super::Input::Call {
        id: super::super::CallId(999),
        call: HostCall::DeregisterNspace(nspace("b")),
    });
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.next();
    t.next();
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

#[test]
fn con_04_con_14_a_disconnect_is_of_the_connection_with_its_id() {
    let (mut t, peers) = two_jobs();
    let of = |request: Request, id: &str| request.with(&keys::CONNECT_ID, id);
    for id in ["x", "y"] {
        let asked = peers.each_ref().map(|peer| t.ask(peer, of(connect(everybody()), id)));
        let upcall = asked_to_connect(&mut t);
        t.answer(upcall, Ok(Answer::Connected(Connected::default())));
        asked.into_iter().for_each(|to| drop(t.ok(to)));
    }
    let to = t.ask(&peers[0], disconnect(everybody()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    for id in ["x", "y"] {
        let asked = peers.each_ref().map(|peer| t.ask(peer, of(disconnect(everybody()), id)));
        let (upcall, ..) = t.upcall();
        t.answer(upcall, Ok(Answer::Done));
        all_done(&mut t, asked);
        let to = t.ask(&peers[0], of(disconnect(everybody()), id));
        t.fails(to, Status::ERR_INVALID_OPERATION);
    }
    t.finish();
}

#[test]
fn con_04_con_14_who_leaves_one_connection_is_awaited_in_the_disconnect_of_another() {
    let (mut t, peers) = two_jobs();
    for (id, connected) in [("x", named()), ("y", Connected::default())] {
        let request = || connect(everybody()).with(&keys::CONNECT_ID, id);
        let asked = peers.each_ref().map(|peer| t.ask(peer, request()));
        let upcall = asked_to_connect(&mut t);
        t.answer(upcall, Ok(Answer::Connected(connected)));
        asked.into_iter().for_each(|to| drop(t.ok(to)));
    }
    let to = t.ask(&peers[2], leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    let request = |id: &str| disconnect(everybody()).with(&keys::CONNECT_ID, id);
    let mut asked = vec![t.ask(&peers[0], request("y")), t.ask(&peers[1], request("y"))];
    t.quiet();
    asked.push(t.ask(&peers[2], request("y")));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    let asked = [0, 1].map(|peer| t.ask(&peers[peer], request("x")));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    t.finish();
}

#[test]
fn con_13_nobody_waits_for_one_that_has_ended_while_the_host_was_at_it() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let request = || connect(everybody()).with(&keys::CONNECT_EARLY_TERM_ALLOWED, true);
    let asked = [&a0, &b0].map(|peer| t.ask(peer, request()));
    t.ask(&a1, request());
    let id = asked_to_connect(&mut t);
    t.lose(&a1);
    t.answer(id, Ok(Answer::Connected(named())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    let fenced = [&a0, &b0].map(|peer| t.ask(peer, fence([all_of("asm")])));
    fenced.into_iter().for_each(|to| drop(t.fenced(to)));
    t.finish();
}

#[test]
fn con_13_who_ended_while_the_host_was_at_it_is_told_of_to_all_that_are_connected_then() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    for peer in [&a0, &b0] {
        listen(&mut t, peer);
    }
    let asked = [&a0, &b0].map(|peer| t.ask(peer, connect(everybody())));
    t.ask(&a1, connect(everybody()));
    let id = asked_to_connect(&mut t);
    t.lose(&a1);
    t.answer(id, Ok(Answer::Connected(named())));
    for peer in [&a0, &b0] {
        hears(&mut t, peer, Status::ERR_PROC_TERM_WO_SYNC, &proc("a", 1));
    }
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    t.finish();
}

#[test]
fn con_14_gen_05_without_the_host_one_leaves_as_far_as_its_wishes_are_known() {
    let mut t = Harness::new([Upcall::Connect]);
    t.job("a", "0-1");
    t.job("b", "0");
    let peers = [proc("a", 0), proc("a", 1), proc("b", 0)].map(|proc| t.connect(&proc));
    all_connect(&mut t, &peers, &connect(everybody()));
    let to = t.ask(&peers[0], leave("asm").require(&keys::COLLECT_DATA, true));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    for status in [None, Some(Status::ERR_INVALID_OPERATION)] {
        let to = t.ask(&peers[0], leave("asm").with(&keys::TIMEOUT, 5));
        match status {
            // it was one of them still
            None => t.done(to),
            Some(status) => drop(t.fails(to, status)),
        }
    }
    t.finish();
}

#[test]
fn con_16_a_node_whose_members_have_all_finalized_holds_no_disconnect_up() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Connect, Upcall::Disconnect]);
    let asked = [&a, &b].map(|peer| t.ask(peer, connect([all_of("job")])));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    for peer in [&a, &b] {
        let to = t.ask(peer, Request::Finalize(Finalize::new()));
        t.done(to);
    }
    // not before their processes have ended, which may take long
    let call = t.call(HostCall::Absence(disconnect([all_of("job")])));
    assert!(matches!(t.returned(call), Ok(CallValue::Presence(Presence::Excused))));
    t.finish();
}
