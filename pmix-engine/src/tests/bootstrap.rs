//! Groups made by bootstrap: the host finds out who the members are.

use pmix_types::message::{Finalize, GroupConstruct, Request};
use pmix_types::{DataArray, Directives, Info, ProcId, Rank, Status, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{BootstrapRequest, Bootstrapped, Upcall};
use super::super::{Answer, Command, HostCall, UpcallId, UpcallRequest};
use super::group::{asked_host, construct, destruct, hears_of, leave, made, make};
use super::harness::*;

fn leads(peer: &Peer, leaders: u64, added: impl IntoIterator<Item = ProcId>) -> Request {
    let added: Vec<_> = added.into_iter().collect();
    let request = construct("g", [peer.proc.clone()]).with(&keys::GROUP_BOOTSTRAP, leaders);
    if added.is_empty() { request } else { request.with(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(added)) }
}

fn added() -> Request {
    construct("g", [])
}

#[track_caller]
fn asked(t: &mut Harness, by: &Peer) -> (UpcallId, BootstrapRequest) {
    match t.upcall() {
        (id, caller, UpcallRequest::Bootstrap(request)) => {
            assert_eq!(caller.proc, by.proc, "the host knows who calls");
            (id, request)
        }
        other => panic!("expected a bootstrap, not {other:?}"),
    }
}

fn found(leaders: &[u32], members: &[u32]) -> Bootstrapped {
    let procs = |ranks: &[u32]| ranks.iter().map(|rank| proc("job", *rank)).collect();
    Bootstrapped::new(procs(leaders), procs(members))
}

/// A server of processes 0 to 2 of four; its host makes groups.
fn server() -> (Harness, [Peer; 3]) {
    let mut t = Harness::new([Upcall::Bootstrap, Upcall::Group, Upcall::NotifyEvent]);
    t.job("job", "0,1,2");
    let peers = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    (t, peers)
}

#[track_caller]
fn is_made(t: &mut Harness, to: ReplyTo, members: &[u32]) {
    assert_eq!(made(t, to).members, members.iter().map(|rank| proc("job", *rank)).collect::<Vec<_>>());
}

#[test]
fn grp_02_each_who_calls_is_told_to_the_host_and_they_construct_with_the_members_it_names() {
    let (mut t, [a, b, c]) = server();
    let last = t.ask(&c, added().with(&keys::TIMEOUT, 9));
    let (late, request) = asked(&mut t, &c);
    assert_eq!((&*request.group, request.leaders, request.added), ("g", None, vec![]));
    assert_eq!(request.directives, Directives::new(), "the server keeps the time");
    let all = [all_of("job"), proc("job", 1)];
    let first = t.ask(&a, leads(&a, 2, all).with(&keys::GROUP_OPTIONAL, true));
    let (one, request) = asked(&mut t, &a);
    assert_eq!((request.leaders, request.added), (Some(2), [0, 1, 2].map(|rank| proc("job", rank)).into()));
    assert_eq!(request.directives.flag(&keys::GROUP_OPTIONAL), Ok(true));
    let second = t.ask(&b, leads(&b, 2, []));
    let (other, _) = asked(&mut t, &b);
    // GRP-08: until then it is no group
    for request in [leave("g"), destruct("g"), fence([all_of("g")])] {
        let to = t.ask(&a, request);
        t.fails(to, Status::ERR_INVALID_OPERATION);
    }
    for upcall in [one, late, other] {
        t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0, 1], &[0, 1, 2]))));
    }
    for to in [first, last, second] {
        is_made(&mut t, to, &[0, 1, 2]);
    }
    assert!(t.engine.bootstraps.is_empty());
    let ended = [&a, &b, &c].map(|peer| t.ask(peer, destruct("g")));
    ended.into_iter().for_each(|to| t.done(to));
    t.finish();
}

#[test]
fn grp_02_what_makes_no_sense_is_refused() {
    let (mut t, [a, b, _]) = server();
    let add =
        |request: Request| request.with(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(vec![proc("job", 1)]));
    let two = construct("g", [a.proc.clone(), b.proc.clone()]).with(&keys::GROUP_BOOTSTRAP, 1u64);
    let numbers = added().with(&keys::GROUP_BOOTSTRAP, 1u64);
    let list = leads(&a, 1, []).with(&keys::GROUP_ADD_MEMBERS, DataArray::Uint32(vec![1]));
    let nobody = leads(&a, 1, [ProcId::new(nspace(""), Rank::from_raw(1))]);
    let undefined = leads(&a, 1, [ProcId::new(nspace("job"), Rank::UNDEF)]);
    for (request, status) in [
        (leads(&a, 0, []), Status::ERR_BAD_PARAM),
        (leads(&b, 1, []), Status::ERR_BAD_PARAM),
        (two, Status::ERR_BAD_PARAM),
        (numbers, Status::ERR_BAD_PARAM),
        (add(added()), Status::ERR_BAD_PARAM),
        (list, Status::ERR_BAD_PARAM),
        (nobody, Status::ERR_BAD_PARAM),
        (undefined, Status::ERR_BAD_PARAM),
        (Request::GroupConstruct(GroupConstruct::new(nspace(""), vec![])), Status::ERR_BAD_PARAM),
        (Request::GroupConstruct(GroupConstruct::new(nspace("job"), vec![])), Status::ERR_EXISTS),
        (add(construct("g", [a.proc.clone()])), Status::ERR_NOT_SUPPORTED),
    ] {
        let to = t.ask(&a, request);
        t.fails(to, status);
    }
    // once at a time
    let to = t.ask(&a, leads(&a, 2, []));
    let (upcall, _) = asked(&mut t, &a);
    let again = t.ask(&a, added());
    t.fails(again, Status::ERR_INVALID_OPERATION);
    t.answer(upcall, Err(failure(Status::ERR_BAD_PARAM)));
    t.fails(to, Status::ERR_BAD_PARAM);
    // a host that names others
    let to = t.ask(&a, leads(&a, 1, []));
    let (upcall, _) = asked(&mut t, &a);
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[1], &[1, 2]))));
    t.fails(to, Status::ERR_NOT_A_MEMBER);
    let to = t.ask(&a, leads(&a, 1, []));
    let (upcall, _) = asked(&mut t, &a);
    t.answer(upcall, Ok(Answer::Done));
    t.fails(to, Status::ERROR);
    t.finish();
    // a host that cannot
    let (mut t, peers) = Harness::local(1);
    for request in [leads(&peers[0], 1, []), added()] {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}

#[test]
fn grp_02_who_waits_too_long_is_told_and_the_host_too() {
    let (mut t, [a, b, _]) = server();
    for request in [leads(&a, 2, []), added()] {
        let to = t.ask(&a, request.with(&keys::TIMEOUT, 3));
        let (upcall, _) = asked(&mut t, &a);
        t.advance(3);
        t.cancelled(upcall);
        t.fails(to, Status::ERR_TIMEOUT);
    }
    // the time in the construct is part of it
    let first = t.ask(&a, leads(&a, 2, []).with(&keys::TIMEOUT, 3));
    let (upcall, _) = asked(&mut t, &a);
    t.advance(2);
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0, 1], &[0, 1]))));
    t.advance(1);
    t.fails(first, Status::ERR_TIMEOUT);
    let second = t.ask(&b, leads(&b, 2, []));
    let (upcall, _) = asked(&mut t, &b);
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0, 1], &[0, 1]))));
    t.fails(second, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn grp_02_grp_06_one_that_ends_before_the_others_call_counts_and_fails_it() {
    for lenient in [None, Some(&keys::GROUP_OPTIONAL), Some(&keys::GROUP_FT_COLLECTIVE)] {
        let (mut t, [a, b, c]) = server();
        t.ask(&a, leads(&a, 2, [c.proc.clone()]).with(&keys::TIMEOUT, 5));
        let (one, _) = asked(&mut t, &a);
        t.lose(&a);
        // its call is not taken back, but its time does not count
        t.advance(6);
        let to = t.ask(&b, leads(&b, 2, []));
        let (other, _) = asked(&mut t, &b);
        let mut who = found(&[0, 1], &[0, 1, 2]);
        who.directives.extend(lenient.map(|key| Info::new(key, true)));
        t.answer(one, Ok(Answer::Bootstrapped(who.clone())));
        t.answer(other, Ok(Answer::Bootstrapped(who.clone())));
        if lenient.is_none() {
            let failure = t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
            assert_eq!(failure.procs, [proc("job", 0)]);
        }
        let last = t.ask(&c, added());
        let (upcall, _) = asked(&mut t, &c);
        t.answer(upcall, Ok(Answer::Bootstrapped(who)));
        if lenient.is_none() {
            t.fails(last, Status::ERR_PROC_TERM_WO_SYNC);
        } else {
            is_made(&mut t, to, &[1, 2]);
            assert!(made(&mut t, last).partial);
        }
        assert!(t.engine.bootstraps.is_empty());
        t.finish();
    }
}

#[test]
fn grp_02_grp_06_leaders_are_told_of_members_that_will_not_come() {
    let (mut t, [a, b, c]) = server();
    for peer in [&a, &b] {
        listen(&mut t, peer);
    }
    let first =
        t.ask(&a, leads(&a, 1, [b.proc.clone(), c.proc.clone()]).with(&keys::GROUP_NOTIFY_TERMINATION, true));
    let (upcall, _) = asked(&mut t, &a);
    let mut who = found(&[0], &[0, 1, 2]);
    who.directives = Directives::new().with(&keys::GROUP_NOTIFY_TERMINATION, true);
    t.answer(upcall, Ok(Answer::Bootstrapped(who.clone())));
    t.lose(&c);
    hears_of(&mut t, &a, Status::GROUP_MEMBER_FAILED, &c.proc);
    let second = t.ask(&b, added());
    let (upcall, _) = asked(&mut t, &b);
    t.answer(upcall, Ok(Answer::Bootstrapped(who)));
    is_made(&mut t, first, &[0, 1]);
    is_made(&mut t, second, &[0, 1]);
    t.finish();
}

#[test]
fn grp_02_what_a_namespace_has_called_goes_with_it() {
    let (mut t, [a, _, _]) = server();
    t.ask(&a, leads(&a, 2, []).with(&keys::TIMEOUT, 5));
    let (upcall, _) = asked(&mut t, &a);
    t.lose(&a);
    t.call(HostCall::DeregisterNspace(nspace("job")));
    t.cancelled(upcall);
    t.drain();
    assert!(t.engine.bootstraps.is_empty());
    t.finish();
}

#[test]
fn grp_02_who_finalizes_has_an_answer_and_may_call_again_in_another_life() {
    let (mut t, [a, _, _]) = server();
    let first = t.ask(&a, leads(&a, 2, []).with(&keys::TIMEOUT, 5));
    let (former, _) = asked(&mut t, &a);
    let finalizes = t.ask(&a, Request::Finalize(Finalize::new()));
    t.fails(first, Status::ERR_LOST_CONNECTION);
    t.done(finalizes);
    t.lose_conn(a.conn);
    t.quiet();
    let a = t.connect(&a.proc);
    let second = t.ask(&a, leads(&a, 1, []));
    t.cancelled(former);
    let (upcall, _) = asked(&mut t, &a);
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0], &[0]))));
    is_made(&mut t, second, &[0]);
    assert!(t.engine.bootstraps.is_empty());
    t.finish();
}

#[test]
fn gen_08_who_has_ended_is_not_answered_again_by_the_host_or_the_end_of_its_namespace() {
    let (mut t, [a, b, _]) = server();
    // the host says that it has ended; its connection is still there
    let ended = t.ask(&a, leads(&a, 2, []));
    let (upcall, _) = asked(&mut t, &a);
    let call = t.call(HostCall::ClientEnded { proc: a.proc.clone(), reason: "it ended".into() });
    t.fails(ended, Status::ERR_LOST_CONNECTION);
    assert!(t.returned(call).is_ok());
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0, 1], &[0, 1]))));
    t.quiet();
    let finalized = t.ask(&b, leads(&b, 2, []));
    let (upcall, _) = asked(&mut t, &b);
    let finalizes = t.ask(&b, Request::Finalize(Finalize::new()));
    t.fails(finalized, Status::ERR_LOST_CONNECTION);
    t.done(finalizes);
    t.call(HostCall::DeregisterNspace(nspace("job")));
    t.cancelled(upcall);
    let again = t.drain().into_iter().filter(|command| matches!(command, Command::Reply { .. })).count();
    assert_eq!(again, 0, "it has its answer");
    t.finish();
}

#[test]
fn idn_06_leaders_add_the_members_of_a_group_by_its_id() {
    let (mut t, [a, b, c]) = server();
    make(&mut t, &[b.clone(), c.clone()], &construct("pair", [c.proc.clone(), b.proc.clone()]));
    t.ask(&a, leads(&a, 1, [all_of("pair")]));
    let (_, request) = asked(&mut t, &a);
    assert_eq!(request.added, [2, 1].map(|rank| proc("job", rank)));
    t.call(HostCall::DeregisterNspace(nspace("job")));
    t.drain();
    t.finish();
}

/// Who is in the construct already, which the others know.
#[test]
fn grp_02_members_of_other_nodes_take_part_in_the_construct() {
    let mut t = Harness::new([Upcall::Bootstrap, Upcall::Group]);
    t.job("job", "0;1");
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, leads(&a, 2, []));
    let (upcall, _) = asked(&mut t, &a);
    t.answer(upcall, Ok(Answer::Bootstrapped(found(&[0, 1], &[0, 1]))));
    let (group, request) = asked_host(&mut t);
    assert_eq!(
        (request.procs, request.nodes),
        ([0, 1].map(|rank| proc("job", rank)).into(), vec!["n0".into(), "n1".into()])
    );
    assert_eq!(request.directives, Directives::new());
    t.answer(group, Ok(Answer::Grouped(Default::default())));
    is_made(&mut t, to, &[0, 1]);
    t.finish();
}

#[test]
fn what_a_leader_adds_is_bounded_in_bytes() {
    let (mut t, [a, _, _]) = server();
    let many = |count: u32| (0..count).map(|rank| proc("elsewhere", rank));
    let to = t.ask(&a, leads(&a, 1, many(200_000)));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t.ask(&a, leads(&a, 1, many(2_000)));
    let (upcall, _) = asked(&mut t, &a);
    t.answer(upcall, Err(failure(Status::ERR_TIMEOUT)));
    t.fails(to, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn grp_02_idn_07b_what_a_clone_has_called_counts_though_it_is_gone() {
    for finalizes in [false, true] {
        let (mut t, [a, b, c]) = server();
        let clone = t.connect(&a.proc);
        t.ask(&clone, leads(&a, 2, []));
        let (one, _) = asked(&mut t, &a);
        let second = t.ask(&b, leads(&b, 2, []));
        let (other, _) = asked(&mut t, &b);
        if finalizes {
            let to = t.ask(&clone, Request::Finalize(Finalize::new()));
            t.done(to);
        }
        t.lose(&clone);
        let who = found(&[0, 1], &[0, 1]);
        for upcall in [one, other] {
            t.answer(upcall, Ok(Answer::Bootstrapped(who.clone())));
        }
        is_made(&mut t, second, &[0, 1]);
        for peer in [a, b, c] {
            t.lose(&peer);
        }
        t.drain();
        t.finish();
    }
}
