//! Operations that other nodes wait for: whether somebody here can still enter them.

use pmix_types::message::{Commit, Connect, Disconnect, Fence, GroupConstruct, Request};
use pmix_types::{Status, keys};

use super::super::collective::MAX_ABSENCES;
use super::super::upcall::{Connected, Upcall};
use super::super::{Answer, CallId, CallValue, HostCall, Presence};
use super::harness::*;

const HOST: [Upcall; 3] = [Upcall::Fence, Upcall::Connect, Upcall::Disconnect];

fn connect() -> Request {
    Request::Connect(Connect::new(vec![all_of("job")]))
}

#[track_caller]
fn presence(t: &mut Harness, call: CallId) -> Presence {
    match t.returned(call) {
        Ok(CallValue::Presence(presence)) => presence,
        other => panic!("expected a presence, not {other:?}"),
    }
}

#[track_caller]
fn is_departed(t: &mut Harness, call: CallId) {
    match presence(t, call) {
        Presence::Departed(failure) => {
            assert_eq!(failure.status, Status::ERR_PROC_TERM_WO_SYNC);
            assert_eq!(failure.procs, [proc("job", 0), proc("job", 1)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn con_12_fen_13_it_is_told_when_all_have_ended() {
    let fence = || Request::Fence(Fence::new(Some(vec![all_of("job")])));
    for request in [connect(), fence()] {
        let (mut t, a, b) = Harness::two_nodes(HOST);
        let before = t.call(HostCall::Absence(request.clone()));
        assert!(!t.engine.collectives.is_empty());
        t.lose(&a);
        t.quiet();
        t.lose(&b);
        is_departed(&mut t, before);
        let after = t.call(HostCall::Absence(request));
        is_departed(&mut t, after);
        t.finish();
    }
}

#[test]
fn con_12_con_13_some_operations_go_on_without_them() {
    let disconnect = Request::Disconnect(Disconnect::new(vec![all_of("job")]));
    for request in [connect().with(&keys::CONNECT_OPTIONAL, true), disconnect] {
        let (mut t, a, b) = Harness::two_nodes(HOST);
        t.lose(&a);
        t.lose(&b);
        let call = t.call(HostCall::Absence(request));
        assert_eq!(presence(&mut t, call), Presence::Excused);
        t.finish();
    }
}

#[test]
fn grp_06_an_optional_group_goes_on_without_those_of_a_node() {
    let construct = || Request::GroupConstruct(GroupConstruct::new(nspace("g"), vec![all_of("job")]));
    for (request, is_optional) in
        [(construct(), false), (construct().with(&keys::GROUP_OPTIONAL, true), true)]
    {
        let (mut t, a, b) = Harness::two_nodes([Upcall::Group]);
        t.lose(&a);
        t.lose(&b);
        let call = t.call(HostCall::Absence(request));
        if is_optional {
            assert_eq!(presence(&mut t, call), Presence::Excused);
        } else {
            is_departed(&mut t, call);
        }
        t.finish();
    }
}

#[test]
fn con_12_an_operation_under_way_is_waited_for() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let to = [&a, &b].map(|peer| t.ask(peer, connect()));
    let (id, ..) = t.upcall();
    let call = t.call(HostCall::Absence(connect()));
    // what they have given stays
    t.lose(&b);
    t.quiet();
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    t.ok(to[0]);
    assert_eq!(presence(&mut t, call), Presence::Ended);
    t.finish();
}

#[test]
fn what_ends_with_its_namespace_is_told() {
    let (mut t, ..) = Harness::two_nodes(HOST);
    let call = t.call(HostCall::Absence(connect()));
    let _ = t.called(HostCall::DeregisterNspace(nspace("job")));
    let _ = (call, t.drain());
    let wrong = t.call(HostCall::Absence(Request::Commit(Commit::new(Vec::new()))));
    assert_eq!(t.returned(wrong).unwrap_err().status, Status::ERR_BAD_PARAM);
    let empty = t.call(HostCall::Absence(Request::Connect(Connect::new(Vec::new()))));
    assert_eq!(t.returned(empty).unwrap_err().status, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn questions_about_operations_of_other_nodes_are_limited() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let calls: Vec<_> = (0..MAX_ABSENCES).map(|_| t.call(HostCall::Absence(connect()))).collect();
    let refused = t.called(HostCall::Absence(connect()));
    assert_eq!(refused.unwrap_err().status, Status::ERR_OUT_OF_RESOURCE);
    t.lose(&a);
    t.lose(&b);
    for call in calls {
        is_departed(&mut t, call);
    }
    t.finish();
}
