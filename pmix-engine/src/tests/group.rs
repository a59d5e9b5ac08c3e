//! Process groups: who makes them of whom, what their members get to know, and what is left when they end.

use std::sync::Arc;

use pmix_types::message::{
    Abort, Connect, Disconnect, GroupConstruct, GroupDestruct, GroupLeave, GroupReply, IofPull, IofPush,
    JobControl, Monitor, RegisterEvents, Reply, Request,
};
use pmix_types::{
    DataArray, DataRange, Directives, Event, GroupOperation, Info, IofChannels, ProcId, Scope, Status, Value,
    keys,
};

use super::super::groups::{MAX_GROUPS, MAX_GROUPS_OF_PROC};
use super::super::ids::ReplyTo;
use super::super::upcall::{Connected, GroupRequest, Grouped, Upcall};
use super::super::{Answer, CallValue, Command, HostCall, Presence, UpcallId, UpcallRequest};
use super::harness::*;

fn construct(id: &str, procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::GroupConstruct(GroupConstruct::new(nspace(id), procs.into_iter().collect()))
}

fn destruct(id: &str) -> Request {
    Request::GroupDestruct(GroupDestruct::new(nspace(id)))
}

fn leave(id: &str) -> Request {
    Request::GroupLeave(GroupLeave::new(nspace(id)))
}

/// The same with a wish that no group can fulfil.
fn leave_required(id: &str) -> Request {
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
fn make(t: &mut Harness, peers: &[Peer], request: &Request) -> Vec<Arc<GroupReply>> {
    let asked: Vec<_> = peers.iter().map(|peer| t.ask(peer, request.clone())).collect();
    asked.into_iter().map(|to| made(t, to)).collect()
}

#[track_caller]
fn asked_host(t: &mut Harness) -> (UpcallId, GroupRequest) {
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
            let (id, _) = asked_host(&mut t);
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
fn grp_06_who_ends_before_fails_it_for_all_and_for_those_who_come_later() {
    let (mut t, peers) = Harness::local(4);
    let to = t.ask(&peers[0], construct("g", [all_of("job")]));
    t.lose(&peers[3]);
    assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).procs, [proc("job", 3)]);
    for peer in &peers[1..3] {
        let to = t.ask(peer, construct("g", [all_of("job")]));
        t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    }
    // nothing of it is in the way
    make(&mut t, &peers[..2], &construct("g", [proc("job", 0), proc("job", 1)]));
    t.finish();
}

#[test]
fn grp_06_after_a_failure_the_same_id_is_free_for_those_who_are_left() {
    let (mut t, peers) = Harness::local(3);
    let to = t.ask(&peers[0], construct("g", [all_of("job")]));
    t.lose(&peers[2]);
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    // rank 1 has not heard of it yet
    let rest = [proc("job", 0), proc("job", 1)];
    let again = t.ask(&peers[0], construct("g", rest.clone()));
    let late = t.ask(&peers[1], construct("g", [all_of("job")]));
    t.fails(late, Status::ERR_PROC_TERM_WO_SYNC);
    let other = t.ask(&peers[1], construct("g", rest));
    made(&mut t, again);
    made(&mut t, other);
    t.finish();
}

#[test]
fn grp_06_an_optional_group_is_of_those_who_came_and_nobody_is_told() {
    let (mut t, peers) = Harness::local(3);
    listen(&mut t, &peers[0]);
    let request = construct("g", [all_of("job")]).with(&keys::GROUP_OPTIONAL, true);
    let first = t.ask(&peers[0], request.clone().with(&keys::GROUP_NOTIFY_TERMINATION, true));
    t.lose(&peers[1]);
    let second = t.ask(&peers[2], request);
    for to in [first, second] {
        let reply = made(&mut t, to);
        assert!(reply.partial);
        assert_eq!(reply.members, [proc("job", 0), proc("job", 2)]);
    }
    t.finish();
}

#[test]
fn grp_06_the_host_hears_who_is_absent_here() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Group]);
    let request = construct("g", [all_of("job")]).with(&keys::GROUP_OPTIONAL, true);
    let to = t.ask(&a, request);
    t.lose(&b);
    let (id, upcall) = asked_host(&mut t);
    assert_eq!(upcall.absent, [proc("job", 1)]);
    assert_eq!(upcall.directives.get(&keys::LOCAL_COLLECTIVE_STATUS), Ok(None));
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    let reply = made(&mut t, to);
    assert_eq!((reply.members.len(), reply.partial), (3, true));
    t.finish();
}

#[test]
fn grp_06_a_leader_is_told_of_who_will_not_come_or_all_without_one() {
    for has_leader in [true, false] {
        let (mut t, peers) = Harness::local(3);
        peers[..2].iter().for_each(|peer| listen(&mut t, peer));
        let request = construct("g", [all_of("job")]).with(&keys::GROUP_NOTIFY_TERMINATION, true);
        let first = t.ask(&peers[0], request.clone().with(&keys::GROUP_LEADER, has_leader));
        t.lose(&peers[2]);
        hears_of(&mut t, &peers[0], Status::GROUP_MEMBER_FAILED, &proc("job", 2));
        if !has_leader {
            hears_of(&mut t, &peers[1], Status::GROUP_MEMBER_FAILED, &proc("job", 2));
        }
        let second = t.ask(&peers[1], request);
        for to in [first, second] {
            assert!(made(&mut t, to).partial);
        }
        t.finish();
    }
}

#[test]
fn grp_06_members_are_told_of_one_that_ends_without_leaving() {
    let (mut t, peers) = Harness::local(3);
    let request = construct("g", [all_of("job")]);
    make(&mut t, &peers, &request.clone().with(&keys::GROUP_NOTIFY_TERMINATION, true));
    listen(&mut t, &peers[0]);
    // one that leaves is no failure
    let to = t.ask(&peers[1], leave("g"));
    hears_of(&mut t, &peers[0], Status::GROUP_LEFT, &proc("job", 1));
    t.done(to);
    t.lose(&peers[1]);
    t.lose(&peers[2]);
    hears_of(&mut t, &peers[0], Status::GROUP_MEMBER_FAILED, &proc("job", 2));
    // asked for, it does not fail the end (GRP-09)
    let to = t.ask(&peers[0], destruct("g"));
    t.done(to);
    t.finish();
}

#[test]
fn grp_08_it_is_not_used_or_left_before_it_is_complete() {
    let (mut t, peers) = Harness::local(2);
    let first = t.ask(&peers[0], construct("g", [all_of("job")]));
    for early in [fence([all_of("g")]), construct("h", [all_of("g")]), leave("g"), destruct("g")] {
        let to = t.ask(&peers[1], early);
        t.fails(to, Status::ERR_INVALID_OPERATION);
    }
    let call = HostCall::RegisterNspace { nspace: nspace("g"), local_procs: None, infos: Vec::new() };
    assert_eq!(t.called(call).unwrap_err().status, Status::ERR_EXISTS, "GRP-11");
    let second = t.ask(&peers[1], construct("g", [all_of("job")]));
    made(&mut t, first);
    made(&mut t, second);
    t.finish();
}

#[test]
fn grp_09_a_dead_member_fails_the_end_but_one_that_left_does_not() {
    let (mut t, peers) = Harness::local(3);
    make(&mut t, &peers, &construct("g", [all_of("job")]));
    let to = t.ask(&peers[0], destruct("g"));
    let again = t.ask(&peers[0], destruct("g"));
    t.fails(again, Status::ERR_INVALID_OPERATION);
    // it is not waited for, although it was a member when the first came
    let gone = t.ask(&peers[1], leave("g"));
    t.done(gone);
    t.lose(&peers[2]);
    assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).procs, [proc("job", 2)]);
    let to = t.ask(&peers[0], leave("g"));
    t.done(to);
    assert_eq!(t.engine.collectives.groups.len(), 0, "nobody is left");
    t.finish();
}

#[test]
fn grp_09_the_end_waits_for_all_but_not_longer_than_asked() {
    let (mut t, peers) = Harness::local(2);
    make(&mut t, &peers, &construct("g", [all_of("job")]));
    let to = t.ask(&peers[0], destruct("g").with(&keys::TIMEOUT, 2));
    t.advance(2);
    assert_eq!(t.fails(to, Status::ERR_TIMEOUT).procs, [proc("job", 1)]);
    let late = t.ask(&peers[1], destruct("g"));
    t.fails(late, Status::ERR_TIMEOUT);
    let asked = [&peers[1], &peers[0]].map(|peer| t.ask(peer, destruct("g")));
    asked.into_iter().for_each(|to| t.done(to));
    let gone = t.ask(&peers[0], destruct("g"));
    t.fails(gone, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn grp_09_a_group_goes_on_without_a_job_that_is_gone_if_it_outlives_members() {
    for notify in [false, true] {
        let (mut t, peers) = Harness::local(1);
        t.job("b", "0");
        let other = t.connect(&proc("b", 0));
        let mut request = construct("g", [all_of("job"), all_of("b")]);
        if notify {
            request = request.with(&keys::GROUP_NOTIFY_TERMINATION, true);
        }
        make(&mut t, &[peers[0].clone(), other.clone()], &request);
        t.lose(&other);
        t.called(HostCall::DeregisterNspace(nspace("b"))).unwrap();
        let to = t.ask(&peers[0], destruct("g"));
        if notify {
            t.done(to);
        } else {
            t.fails(to, Status::ERR_NOT_FOUND);
        }
        assert_eq!(t.engine.collectives.groups.len(), 0);
        t.finish();
    }
}

#[test]
fn grp_10_those_of_other_nodes_are_told_by_the_host_and_theirs_are_heard() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Group, Upcall::NotifyEvent]);
    let asked = [&a, &b].map(|peer| t.ask(peer, construct("g", [all_of("job")])));
    let (id, _) = asked_host(&mut t);
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    asked.into_iter().for_each(|to| drop(made(&mut t, to)));
    let to = t.ask(&a, leave("g"));
    let (notice, _, request) = t.upcall();
    let UpcallRequest::NotifyEvent(notify) = request else { panic!("{request:?}") };
    assert_eq!((notify.code, notify.range), (Status::GROUP_LEFT, DataRange::CUSTOM));
    assert_eq!(notify.source, proc("job", 0));
    t.done(to);
    t.answer(notice, Ok(Answer::Done));
    // rank 2 goes on its node, and can say so of itself only
    for about in [proc("job", 2), proc("job", 3)] {
        let event = Event::new(Status::GROUP_LEFT, proc("job", 2))
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about));
        t.called(HostCall::NotifyEvent(event)).unwrap();
    }
    let to = t.ask(
        &b,
        Request::Notify(
            Event::new(Status::from_raw(-9), proc("job", 1))
                .with_range(DataRange::CUSTOM)
                .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![all_of("g")]))),
        ),
    );
    t.done(to);
    let (notice, _, request) = t.upcall();
    let UpcallRequest::NotifyEvent(notify) = request else { panic!("{request:?}") };
    let range = notify.info.get(&keys::EVENT_CUSTOM_RANGE).unwrap();
    assert_eq!(range, Some(DataArray::Proc(vec![proc("job", 1), proc("job", 3)])), "IDN-06");
    t.answer(notice, Ok(Answer::Done));
    t.finish();
}

#[test]
fn idn_06_a_fence_by_the_id_is_one_of_the_members() {
    let (mut t, peers) = Harness::local(3);
    make(&mut t, &peers[1..], &construct("g", [proc("job", 2), proc("job", 1)]));
    let by_id = t.ask(&peers[1], fence([all_of("g")]));
    let by_rank = t.ask(&peers[2], fence([proc("g", 0), proc("job", 1)]));
    t.fenced(by_id);
    t.fenced(by_rank);
    let stranger = t.ask(&peers[0], fence([all_of("g")]));
    t.fails(stranger, Status::ERR_NOT_A_MEMBER);
    let nobody = t.ask(&peers[1], fence([proc("g", 2)]));
    t.fails(nobody, Status::ERR_BAD_PARAM);
    t.commits(&peers[2], [entry(Scope::GLOBAL, "k", 5u32)]);
    let to = t.ask(&peers[0], get(proc("g", 0), "k"));
    assert_eq!(t.value(to), 5u32.into());
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
    assert_eq!(t.engine.collectives.groups.len(), MAX_GROUPS_OF_PROC / 2 + 1);
    t.lose(&peers[0]);
    assert_eq!(t.engine.collectives.groups.len(), 1);
    assert!(matches!(t.called(HostCall::DeregisterNspace(nspace("job"))), Ok(CallValue::Done)));
    t.drain();
    assert_eq!(t.engine.collectives.groups.len(), 0);
    t.finish();
}

#[test]
fn grp_09_a_node_without_members_that_are_left_holds_nobody_up() {
    let (mut t, a, _) = Harness::two_nodes([Upcall::Group]);
    let awaited = |request: Request| HostCall::Absence(request);
    let call = t.call(awaited(destruct("g")));
    assert!(matches!(t.returned(call), Ok(CallValue::Presence(Presence::Excused))));
    // a construct waits for those who may come
    let call = t.call(awaited(construct("g", [proc("job", 0), proc("job", 3)])));
    t.quiet();
    t.lose(&a);
    assert!(matches!(t.returned(call), Ok(CallValue::Presence(Presence::Departed(_)))));
    t.finish();
}

#[test]
fn grp_09_members_of_a_node_who_have_all_died_fail_the_end_too() {
    for notify in [false, true] {
        let (mut t, a, b) = Harness::two_nodes([Upcall::Group]);
        let mut request = construct("g", [all_of("job")]);
        if notify {
            request = request.with(&keys::GROUP_NOTIFY_TERMINATION, true);
        }
        let asked = [&a, &b].map(|peer| t.ask(peer, request.clone()));
        let (id, _) = asked_host(&mut t);
        t.answer(id, Ok(Answer::Grouped(Grouped::default())));
        asked.into_iter().for_each(|to| drop(made(&mut t, to)));
        // who has left is no reason
        let to = t.ask(&a, leave("g"));
        t.done(to);
        t.lose(&b);
        t.lose(&a);
        let call = t.call(HostCall::Absence(destruct("g")));
        match t.returned(call) {
            Ok(CallValue::Presence(Presence::Departed(failure))) if !notify => {
                assert_eq!((failure.status, failure.procs), (Status::ERR_PROC_TERM_WO_SYNC, vec![b.proc]));
            }
            Ok(CallValue::Presence(Presence::Excused)) if notify => {
                assert_eq!(t.engine.collectives.groups.len(), 0, "it has been ended without them");
            }
            other => panic!("{other:?}"),
        }
        t.finish();
    }
}

#[test]
fn idn_06_each_member_is_meant_once_however_often_it_is_named() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Group, Upcall::NotifyEvent]);
    let asked = [&a, &b].map(|peer| t.ask(peer, construct("g", vec![all_of("job"); 3])));
    let (id, request) = asked_host(&mut t);
    let all: Vec<_> = (0..4).map(|rank| proc("job", rank)).collect();
    assert_eq!(request.procs, all);
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    asked.into_iter().for_each(|to| drop(made(&mut t, to)));
    let often = [vec![all_of("g"); 1000], vec![proc("g", 1), proc("job", 2)]].concat();
    for range in [Value::from(DataArray::Proc(often)), Value::Proc(all_of("g"))] {
        let range = Info::dynamic(keys::EVENT_CUSTOM_RANGE.key_name(), range);
        let event = Event::new(Status::from_raw(-9), b.proc.clone()).with_range(DataRange::CUSTOM);
        let to = t.ask(&b, Request::Notify(event.with_info(range)));
        t.done(to);
        let (notice, _, request) = t.upcall();
        let UpcallRequest::NotifyEvent(notify) = request else { panic!("{request:?}") };
        assert_eq!(notify.custom_range(), all);
        t.answer(notice, Ok(Answer::Done));
    }
    assert!(matches!(t.called(HostCall::DeregisterNspace(nspace("job"))), Ok(CallValue::Done)));
    t.drain();
    t.finish();
}

#[test]
fn idn_06_an_alarm_reaches_the_members_of_a_group_by_its_id() {
    let (mut t, peers) = Harness::local(3);
    make(&mut t, &peers[1..], &construct("g", [proc("job", 1), proc("job", 2)]));
    peers.iter().for_each(|peer| listen(&mut t, peer));
    let wish = Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, true), Status::from_raw(-9));
    let wish = Request::Monitor(wish)
        .with(&keys::MONITOR_HEARTBEAT_TIME, 5u32)
        .with(&keys::RANGE, DataRange::CUSTOM)
        .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![all_of("g")]));
    let to = t.ask(&peers[0], wish);
    assert!(matches!(t.ok(to), Reply::Info(_)));
    t.advance(5);
    for peer in &peers[1..] {
        assert!(matches!(t.next(), Command::Push { conn, .. } if conn == peer.conn));
    }
    t.lose(&peers[0]);
    t.finish();
}

#[test]
fn idn_06_all_that_goes_to_the_host_names_the_members() {
    let mut t = Harness::new([
        Upcall::Abort,
        Upcall::JobControl,
        Upcall::IofPull,
        Upcall::PushStdin,
        Upcall::Connect,
        Upcall::Disconnect,
    ]);
    t.job("job", "0-2");
    let peers = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    make(&mut t, &peers[..2], &construct("g", [proc("job", 1), proc("job", 0)]));
    let (named, members) = (vec![all_of("g")], vec![proc("job", 1), proc("job", 0)]);
    let mut abort = Abort::new(1, "");
    abort.procs = named.clone();
    let to = t.ask(&peers[2], Request::Abort(abort));
    let (id, _, request) = t.upcall();
    assert!(matches!(&request, UpcallRequest::Abort(abort) if abort.procs == members), "{request:?}");
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    let to = t.ask(&peers[2], Request::JobControl(JobControl::new(named.clone())));
    let (id, _, request) = t.upcall();
    let UpcallRequest::JobControl(control) = &request else { panic!("{request:?}") };
    assert_eq!(control.targets, members);
    t.answer(id, Ok(Answer::Info(vec![])));
    assert!(matches!(t.ok(to), Reply::Info(_)));
    let to = t.ask(&peers[2], Request::IofPush(IofPush::new(named.clone(), "input".into())));
    let (id, _, request) = t.upcall();
    let UpcallRequest::PushStdin(input) = &request else { panic!("{request:?}") };
    assert_eq!(input.targets, members);
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    let to = t.ask(&peers[2], Request::IofPull(IofPull::new(named.clone(), IofChannels::STDOUT)));
    let (id, _, request) = t.upcall();
    let UpcallRequest::IofPull(pull) = &request else { panic!("{request:?}") };
    assert_eq!(pull.pull.procs, members);
    t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    // who is connected is so by the own name
    let real = Connect::new(members.clone());
    let asked = [Connect::new(named.clone()), real].into_iter().zip(&peers);
    let asked: Vec<_> = asked.map(|(connect, peer)| t.ask(peer, Request::Connect(connect))).collect();
    let (id, _, request) = t.upcall();
    let UpcallRequest::Connect(connect) = &request else { panic!("{request:?}") };
    assert_eq!(connect.procs, [proc("job", 0), proc("job", 1)]);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    let asked = [Disconnect::new(members), Disconnect::new(named)].into_iter().zip(&peers);
    let asked: Vec<_> = asked.map(|(end, peer)| t.ask(peer, Request::Disconnect(end))).collect();
    let (id, _, request) = t.upcall();
    let UpcallRequest::Disconnect(end) = &request else { panic!("{request:?}") };
    assert_eq!(end.procs, [proc("job", 0), proc("job", 1)]);
    t.answer(id, Ok(Answer::Done));
    asked.into_iter().for_each(|to| t.done(to));
    t.finish();
}

#[test]
fn idn_06_a_handler_for_what_affects_a_group_is_one_for_its_members() {
    let (mut t, peers) = Harness::local(3);
    make(&mut t, &peers[..2], &construct("g", [proc("job", 0), proc("job", 1)]));
    let mut wish = RegisterEvents::new(vec![]);
    let group = DataArray::Proc(vec![all_of("g")]);
    wish.directives = Directives::new().with(&keys::EVENT_AFFECTED_PROCS, group);
    let to = t.ask(&peers[2], Request::RegisterEvents(wish));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let code = Status::from_raw(-9);
    for rank in [2, 1] {
        let about = proc("job", rank);
        let event = Event::new(code, about.clone()).with_range(DataRange::LOCAL);
        let event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()));
        t.called(HostCall::NotifyEvent(event)).unwrap();
        if rank == 1 {
            hears(&mut t, &peers[2], code, &about);
        }
        t.quiet();
    }
    t.finish();
}

#[test]
fn grp_09_grp_10_the_end_does_not_wait_for_one_that_leaves_meanwhile() {
    let (mut t, peers) = Harness::local(3);
    make(&mut t, &peers, &construct("g", [all_of("job")]));
    let ended = [0, 1].map(|rank: usize| t.ask(&peers[rank], destruct("g")));
    t.quiet();
    // GEN-05: what must be done and is not known is not done
    let to = t.ask(&peers[2], leave_required("g"));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let to = t.ask(&peers[2], leave("g"));
    ended.into_iter().for_each(|to| t.done(to));
    t.done(to);
    t.finish();
}
