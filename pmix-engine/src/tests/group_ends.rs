//! Members of groups that end or leave, and the end of groups.

use pmix_types::message::{NotifyEvent, Request};
use pmix_types::{DataArray, DataRange, Event, Info, Status, keys};

use super::super::upcall::{Grouped, Upcall};
use super::super::{Answer, CallValue, HostCall, Presence, UpcallRequest};
use super::group::*;
use super::harness::*;

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
fn grp_11_who_tries_again_after_a_failure_takes_no_id_that_others_have_meanwhile() {
    let mut t = Harness::new([]);
    let [a0, a1, b0, b1] = [("a", 0), ("a", 1), ("b", 0), ("b", 1)].map(|(job, rank)| {
        if rank == 0 {
            t.register(spec(job, "0-1"), None);
        }
        t.register_client(&proc(job, rank));
        t.connect(&proc(job, rank))
    });
    let of_b = || construct("g", [all_of("b")]);
    let to = t.ask(&b0, of_b().with(&keys::TIMEOUT, 1));
    t.advance(1);
    t.fails(to, Status::ERR_TIMEOUT);
    make(&mut t, &[a0.clone(), a1.clone()], &construct("g", [all_of("a")]));
    let to = t.ask(&b0, of_b());
    t.fails(to, Status::ERR_EXISTS);
    // who comes late still learns how the first attempt has ended
    let to = t.ask(&b1, of_b());
    t.fails(to, Status::ERR_TIMEOUT);
    let to = t.ask(&b1, of_b());
    t.fails(to, Status::ERR_EXISTS);
    let to = t.ask(&a1, leave("g"));
    t.done(to);
    let to = t.ask(&a0, destruct("g"));
    t.done(to);
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
    assert_eq!(t.engine.groups.len(), 0, "nobody is left");
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
        assert_eq!(t.engine.groups.len(), 0);
        t.finish();
    }
}

#[test]
fn grp_09_a_group_that_outlives_its_members_goes_with_the_last_of_their_namespaces() {
    let (mut t, peers) = Harness::local(1);
    t.job("b", "0");
    let other = t.connect(&proc("b", 0));
    let request = construct("g", [all_of("job"), all_of("b")]).with(&keys::GROUP_NOTIFY_TERMINATION, true);
    make(&mut t, &[peers[0].clone(), other.clone()], &request);
    for (name, left) in [("b", 1), ("job", 0)] {
        t.called(HostCall::DeregisterNspace(nspace(name))).unwrap();
        t.drain();
        assert_eq!(t.engine.groups.len(), left, "{name} is gone");
    }
    t.finish();
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
        Request::NotifyEvent(NotifyEvent::new(
            Event::new(Status::from_raw(-9), proc("job", 1))
                .with_range(DataRange::CUSTOM)
                .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![all_of("g")]))),
        )),
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
fn grp_09_nodes_whose_members_have_all_left_are_named_at_the_end() {
    let mut t = Harness::new([Upcall::Group]);
    t.job("job", "0-1;2;3");
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, construct("g", [0, 2, 3].map(|rank| proc("job", rank))));
    let (id, _) = asked_host(&mut t);
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    made(&mut t, to);
    let left = Event::new(Status::GROUP_LEFT, proc("job", 3))
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 3)));
    t.called(HostCall::NotifyEvent(left)).unwrap();
    let to = t.ask(&a, destruct("g"));
    let (id, upcall) = asked_host(&mut t);
    assert_eq!(upcall.nodes, ["n0", "n1", "n2"], "one of them may not know yet that they have");
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    t.done(to);
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
                assert_eq!(t.engine.groups.len(), 0, "it has been ended without them");
            }
            other => panic!("{other:?}"),
        }
        t.finish();
    }
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

#[test]
fn grp_11_a_group_whose_members_all_end_while_the_host_numbers_it_is_not_kept() {
    let mut t = Harness::new([Upcall::Group]);
    t.job("job", "0-2");
    let peers = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    let request = construct("g", [proc("job", 0), proc("job", 1)]).with(&keys::GROUP_ASSIGN_CONTEXT_ID, true);
    for peer in &peers[..2] {
        t.ask(peer, request.clone());
    }
    let (id, _) = asked_host(&mut t);
    t.lose(&peers[0]);
    t.lose(&peers[1]);
    t.drain();
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    assert_eq!(t.engine.groups.len(), 0);
    t.finish();
}
