//! Process groups: who makes them of whom, what their members get to know, and what is left when they end.

use std::sync::Arc;

use pmix_types::message::{GroupConstruct, GroupDestruct, GroupLeave, GroupReply, Reply, Request};
use pmix_types::{Directives, GroupOperation, ProcId, Scope, Status, keys};

use super::super::group::{MAX_GROUPS, MAX_GROUPS_OF_PROC};
use super::super::ids::ReplyTo;
use super::super::upcall::{GroupRequest, Grouped, Upcall};
use super::super::{Answer, CallValue, HostCall, UpcallId, UpcallRequest};
use super::harness::*;

pub(super) fn construct(id: &str, procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::GroupConstruct(GroupConstruct::new(nspace(id), procs.into_iter().collect()))
}

pub(super) fn destruct(id: &str) -> Request {
    Request::GroupDestruct(GroupDestruct::new(nspace(id)))
}

pub(super) fn leave(id: &str) -> Request {
    Request::GroupLeave(GroupLeave::new(nspace(id)))
}

/// The same with a wish that no group can fulfil.
pub(super) fn leave_required(id: &str) -> Request {
    let mut leave = GroupLeave::new(nspace(id));
    leave.directives = Directives::new().require(&keys::COLLECT_DATA, true);
    Request::GroupLeave(leave)
}

#[track_caller]
pub(super) fn made(t: &mut Harness, to: ReplyTo) -> Arc<GroupReply> {
    match t.ok(to) {
        Reply::Group(reply) => reply,
        other => panic!("expected a group, not {other:?}"),
    }
}

/// All of them enter, and the group is there.
#[track_caller]
pub(super) fn make(t: &mut Harness, peers: &[Peer], request: &Request) -> Vec<Arc<GroupReply>> {
    let asked: Vec<_> = peers.iter().map(|peer| t.ask(peer, request.clone())).collect();
    asked.into_iter().map(|to| made(t, to)).collect()
}

#[track_caller]
pub(super) fn asked_host(t: &mut Harness) -> (UpcallId, GroupRequest) {
    match t.upcall() {
        (id, caller, UpcallRequest::Group(request)) => {
            assert_same(&caller, &server_caller());
            (id, request)
        }
        other => panic!("expected a group, not {other:?}"),
    }
}

/// The next thing is that a process hears of something about another one of group `g`.
#[track_caller]
pub(super) fn hears_of(t: &mut Harness, peer: &Peer, code: Status, about: &ProcId) {
    let event = hears(t, peer, code, about);
    assert_eq!(event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
}

#[test]
fn grp_01_grp_04_the_id_is_what_counts_and_the_lowest_member_orders() {
    let (mut t, peers) = Harness::local(3);
    let ways = [
        vec![proc("job", 1), proc("job", 0), proc("job", 2)],
        vec![all_of("job")],
        vec![proc("job", 2), all_of("job")],
    ];
    // the others first
    let asked: Vec<_> =
        [2, 1, 0].map(|rank: usize| t.ask(&peers[rank], construct("g", ways[rank].clone()))).into();
    for to in asked {
        let reply = made(&mut t, to);
        assert_eq!(reply.members, ways[0]);
        assert_eq!((reply.context_id, reply.partial, reply.jobs.len()), (None, false, 1));
    }
    // another id is another group
    let other = make(&mut t, &peers[..1], &construct("h", [proc("job", 0)]));
    assert_eq!(other[0].members, [proc("job", 0)]);
    t.finish();
}

#[test]
fn grp_01_members_of_one_id_that_name_different_sets_are_told() {
    let (mut t, peers) = Harness::local(3);
    let first = t.ask(&peers[0], construct("g", [proc("job", 0), proc("job", 1)]));
    for (peer, procs, status) in [
        (1, vec![all_of("job")], Status::ERR_BAD_PARAM),
        (2, vec![all_of("job")], Status::ERR_EXISTS),
        (2, vec![proc("job", 0)], Status::ERR_NOT_A_MEMBER),
        (0, vec![proc("job", 0), proc("job", 1)], Status::ERR_INVALID_OPERATION),
    ] {
        let to = t.ask(&peers[peer], construct("g", procs));
        t.fails(to, status);
    }
    let second = t.ask(&peers[1], construct("g", [proc("job", 1), proc("job", 0)]));
    made(&mut t, first);
    made(&mut t, second);
    t.finish();
}

#[test]
fn grp_11_an_id_is_that_of_no_namespace_and_no_other_group() {
    let (mut t, peers) = Harness::local(2);
    make(&mut t, &peers[..1], &construct("g", [proc("job", 0)]));
    for taken in ["job", "server", "g"] {
        let to = t.ask(&peers[1], construct(taken, [proc("job", 1)]));
        t.fails(to, Status::ERR_EXISTS);
    }
    t.finish();
}

#[test]
fn grp_05_members_get_what_each_has_put_and_may_see() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[1], [entry(Scope::LOCAL, "near", 1u32), entry(Scope::REMOTE, "far", 2u32)]);
    for reply in make(&mut t, &peers, &construct("g", [all_of("job")])) {
        let near = data_of(&proc("job", 1), [entry(Scope::LOCAL, "near", 1u32)]);
        assert_eq!(*reply.modex, modex([near]));
    }
    t.finish();
}

#[test]
fn grp_05_grp_12_the_host_is_asked_once_with_real_ids_and_orders_and_numbers() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Group]);
    t.commits(&a, [entry(Scope::GLOBAL, "k", 1u32)]);
    // a group of this node within
    make(&mut t, &[a.clone(), b.clone()], &construct("pair", [proc("job", 1), proc("job", 0)]));
    let request = construct("g", [all_of("pair"), proc("job", 3), proc("job", 2)])
        .with(&keys::GROUP_ASSIGN_CONTEXT_ID, true)
        .with(&keys::TIMEOUT, 5);
    let asked = [&a, &b].map(|peer| t.ask(peer, request.clone()));
    let (id, upcall) = asked_host(&mut t);
    assert_eq!((upcall.operation, &*upcall.group), (GroupOperation::CONSTRUCT, "g"));
    assert_eq!(upcall.procs, [1, 0, 3, 2].map(|rank| proc("job", rank)));
    assert_eq!(upcall.nodes, ["n0", "n1"]);
    assert_eq!(upcall.absent, []);
    assert_eq!(upcall.directives.flag(&keys::GROUP_ASSIGN_CONTEXT_ID), Ok(true), "GEN-14");
    assert_eq!(upcall.directives.get(&keys::TIMEOUT), Ok(None), "GEN-12");
    let own = data_of(&proc("job", 0), [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(read_blob(&upcall.data), modex([own.clone()]));
    let theirs = data_of(&proc("job", 2), [entry(Scope::GLOBAL, "k", 3u32)]);
    let members = [2, 3, 0, 1].map(|rank| proc("job", rank)).into();
    let data = blob([own.clone(), theirs.clone()]);
    let grouped = Grouped { members, context_id: Some(9), data, ..Grouped::default() };
    t.answer(id, Ok(Answer::Grouped(grouped)));
    for to in asked {
        let reply = made(&mut t, to);
        assert_eq!(reply.members, [2, 3, 0, 1].map(|rank| proc("job", rank)));
        assert_eq!((reply.context_id, reply.partial), (Some(9), false));
        assert_eq!(*reply.modex, modex([own.clone(), theirs.clone()]));
    }
    // the end of it is the host's too, and names all
    let ended = [&a, &b].map(|peer| t.ask(peer, destruct("g")));
    let (id, upcall) = asked_host(&mut t);
    assert_eq!((upcall.operation, &*upcall.group), (GroupOperation::DESTRUCT, "g"));
    assert_eq!(upcall.procs, [2, 3, 0, 1].map(|rank| proc("job", rank)));
    assert_eq!(upcall.nodes, ["n0", "n1"]);
    assert!(upcall.data.is_empty() && upcall.jobs.is_empty());
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    ended.into_iter().for_each(|to| t.done(to));
    t.finish();
}

#[test]
fn grp_11_a_local_group_needs_the_host_for_a_number_only() {
    for has_host in [false, true] {
        let mut t = Harness::new(has_host.then_some(Upcall::Group));
        t.job("job", "0");
        let a = t.connect(&proc("job", 0));
        make(&mut t, std::slice::from_ref(&a), &construct("g", [proc("job", 0)]));
        let numbered = construct("h", [proc("job", 0)]);
        let to = t.ask(&a, numbered.clone().with(&keys::GROUP_ASSIGN_CONTEXT_ID, true));
        if has_host {
            let (id, upcall) = asked_host(&mut t);
            assert_eq!(upcall.nodes, ["n0"]);
            let grouped = Grouped { context_id: Some(4), ..Grouped::default() };
            t.answer(id, Ok(Answer::Grouped(grouped)));
        }
        assert_eq!(made(&mut t, to).context_id, has_host.then_some(4));
        let to = t.ask(&a, destruct("g"));
        t.done(to);
        let to = t.ask(&a, destruct("h"));
        if has_host {
            let (id, _) = asked_host(&mut t);
            t.answer(id, Ok(Answer::Grouped(Grouped::default())));
        }
        t.done(to);
        if !has_host {
            let to = t.ask(&a, numbered.require(&keys::GROUP_ASSIGN_CONTEXT_ID, true));
            t.fails(to, Status::ERR_NOT_SUPPORTED);
        }
        t.finish();
    }
}

#[test]
fn grp_11_members_on_other_nodes_need_the_host_and_are_none_of_a_local_group() {
    let (mut t, a, b) = Harness::two_nodes([]);
    let asked = [&a, &b].map(|peer| t.ask(peer, construct("g", [all_of("job")])));
    for to in asked {
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    let to = t.ask(&a, construct("g", [all_of("job")]).with(&keys::GROUP_LOCAL_ONLY, true));
    t.fails(to, Status::ERR_BAD_PARAM);
    let to = t.ask(&a, construct("g", [proc("job", 0)]).with(&keys::GROUP_LOCAL_ONLY, true));
    made(&mut t, to);
    t.finish();
}

#[test]
fn groups_of_a_process_are_limited_and_go_with_it() {
    let (mut t, peers) = Harness::local(2);
    for number in 0..MAX_GROUPS_OF_PROC {
        let id = format!("g{number}");
        if number % 2 == 0 {
            make(&mut t, &peers[..1], &construct(&id, [proc("job", 0)]));
        } else {
            // it waits for the other one
            t.ask(&peers[0], construct(&id, [all_of("job")]));
        }
    }
    let to = t.ask(&peers[0], construct("more", [proc("job", 0)]));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    // others are not hindered
    make(&mut t, &peers[1..], &construct("others", [proc("job", 1)]));
    const { assert!(MAX_GROUPS > MAX_GROUPS_OF_PROC) };
    assert_eq!(t.engine.groups.len(), MAX_GROUPS_OF_PROC / 2 + 1);
    t.lose(&peers[0]);
    assert_eq!(t.engine.groups.len(), 1);
    assert!(matches!(t.called(HostCall::DeregisterNspace(nspace("job"))), Ok(CallValue::Done)));
    t.drain();
    assert_eq!(t.engine.groups.len(), 0);
    t.finish();
}
