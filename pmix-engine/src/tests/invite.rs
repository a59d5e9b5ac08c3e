//! Groups by invitation: who is asked, who answers, and what becomes of it.

use pmix_types::message::{
    Connect, Finalize, GroupConstruct, GroupInvite, GroupJoin, Identity, NotifyEvent, Push, Request,
};
use pmix_types::{DataArray, Event, GroupOpt, Info, ProcId, Rank, Status, keys};

use super::super::group::MAX_GROUPS_OF_PROC;
use super::super::upcall::{Connected, Grouped, Upcall};
use super::super::{Answer, Command, HostCall, UpcallId, UpcallRequest};
use super::group::{construct, destruct, hears_of, made};
use super::harness::*;

pub(super) fn invite(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::GroupInvite(GroupInvite::new(nspace("g"), procs.into_iter().collect()))
}

pub(super) fn answer(leader: &Peer, answer: GroupOpt) -> Request {
    Request::GroupJoin(GroupJoin::new(nspace("g"), leader.proc.clone(), answer))
}

pub(super) fn accept(leader: &Peer) -> Request {
    answer(leader, GroupOpt::ACCEPT)
}

pub(super) fn decline(leader: &Peer) -> Request {
    answer(leader, GroupOpt::DECLINE)
}

#[track_caller]
pub(super) fn told_beyond(t: &mut Harness) -> (UpcallId, Event) {
    match t.upcall() {
        (id, _, UpcallRequest::NotifyEvent(notify)) => (id, notify),
        other => panic!("expected an event for other nodes, not {other:?}"),
    }
}

#[test]
fn grp_03_who_accepts_is_a_member_when_all_have_answered() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    listen(&mut t, a);
    listen(&mut t, b);
    let leads = t.ask(a, invite([proc("job", 2), proc("job", 1)]));
    hears_of(&mut t, b, Status::GROUP_INVITED, &a.proc);
    let first = t.ask(b, accept(a));
    hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &b.proc);
    let again = t.ask(b, accept(a));
    t.fails(again, Status::ERR_INVALID_OPERATION);
    let early = t.ask(b, fence([all_of("g")]));
    t.fails(early, Status::ERR_INVALID_OPERATION);
    // its limit ends with the construct
    let second = t.ask(c, accept(a).with(&keys::TIMEOUT, 60));
    hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &c.proc);
    hears_of(&mut t, b, Status::GROUP_MEMBERSHIP_UPDATE, &a.proc);
    for _ in [a, b] {
        let Command::Push { push: Push::Event { event, .. }, .. } = t.next() else { panic!("no event") };
        assert_eq!(event.code, Status::GROUP_CONSTRUCT_COMPLETE);
        let members = event.info.get(&keys::GROUP_MEMBERSHIP).unwrap();
        assert_eq!(members, Some(DataArray::Proc([0, 2, 1].map(|rank| proc("job", rank)).into())));
    }
    // in the order of their answers
    for to in [first, second, leads] {
        let reply = made(&mut t, to);
        assert_eq!(reply.members, [0, 2, 1].map(|rank| proc("job", rank)));
        assert!(!reply.partial);
    }
    t.finish();
}

#[test]
fn grp_03_who_declines_or_ends_makes_it_fail_unless_that_is_optional() {
    for optional in [false, true] {
        for ends in [false, true] {
            let (mut t, peers) = Harness::local(3);
            let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
            listen(&mut t, a);
            let leads = t.ask(a, invite([all_of("job")]).with(&keys::GROUP_OPTIONAL, optional));
            let joins = t.ask(b, accept(a).with(&keys::TIMEOUT, 60));
            hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &b.proc);
            if ends {
                t.lose(c);
                hears_of(&mut t, a, Status::GROUP_INVITE_FAILED, &c.proc);
            } else {
                let declines = t.ask(c, decline(a));
                t.done(declines);
                hears_of(&mut t, a, Status::GROUP_INVITE_DECLINED, &c.proc);
            }
            if optional {
                let Command::Push { push: Push::Event { event, .. }, .. } = t.next() else {
                    panic!("no event")
                };
                assert_eq!(event.code, Status::GROUP_CONSTRUCT_COMPLETE);
                for to in [joins, leads] {
                    let reply = made(&mut t, to);
                    assert_eq!(reply.members, [a.proc.clone(), b.proc.clone()]);
                    assert!(reply.partial);
                }
            } else {
                assert_eq!(t.fails(leads, Status::GROUP_CONSTRUCT_ABORT).procs, [proc("job", 2)]);
                t.fails(joins, Status::GROUP_CONSTRUCT_ABORT);
                let late = t.ask(b, accept(a));
                t.fails(late, Status::ERR_NOT_FOUND);
            }
            t.finish();
        }
    }
}

#[test]
fn grp_03_who_has_ended_before_it_is_invited_is_lost_too() {
    let (mut t, peers) = Harness::local(3);
    t.lose(&peers[2]);
    let leads = t.ask(&peers[0], invite([all_of("job")]));
    assert_eq!(t.fails(leads, Status::GROUP_CONSTRUCT_ABORT).procs, [proc("job", 2)]);
    t.finish();
}

#[test]
fn grp_03_nobody_counts_who_was_not_invited() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent]);
    let leads = t.ask(&a, invite([b.proc.clone()]));
    let declined = Event::new(Status::GROUP_INVITE_DECLINED, proc("server", 1))
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 3)))
        .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![a.proc.clone()])));
    t.called(HostCall::NotifyEvent(declined)).unwrap();
    t.quiet();
    let joins = t.ask(&b, accept(&a));
    for to in [joins, leads] {
        assert_eq!(made(&mut t, to).members, [a.proc.clone(), b.proc.clone()]);
    }
    t.finish();
}

#[test]
fn grp_03_who_has_accepted_and_ends_is_lost_too() {
    let (mut t, peers) = Harness::local(3);
    let leads = t.ask(&peers[0], invite([all_of("job")]));
    t.ask(&peers[1], accept(&peers[0]));
    t.lose(&peers[1]);
    t.fails(leads, Status::GROUP_CONSTRUCT_ABORT);
    t.finish();
}

#[test]
fn grp_03_invitations_and_consents_wait_no_longer_than_asked() {
    let (mut t, peers) = Harness::local(3);
    let leads = t.ask(&peers[0], invite([all_of("job")]).with(&keys::TIMEOUT, 2));
    let joins = t.ask(&peers[1], accept(&peers[0]));
    t.advance(2);
    assert_eq!(t.fails(leads, Status::ERR_TIMEOUT).procs, [proc("job", 2)]);
    t.fails(joins, Status::GROUP_CONSTRUCT_ABORT);
    // one who waits no more counts as one who has declined
    let leads = t.ask(&peers[0], invite([all_of("job")]));
    let joins = t.ask(&peers[1], accept(&peers[0]).with(&keys::TIMEOUT, 1));
    t.advance(1);
    t.fails(joins, Status::ERR_TIMEOUT);
    t.fails(leads, Status::GROUP_CONSTRUCT_ABORT);
    t.finish();
}

#[test]
fn grp_03_a_leader_counts_the_answers_from_other_nodes() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Group, Upcall::NotifyEvent]);
    let leads =
        t.ask(&a, invite([proc("job", 1), proc("job", 2)]).with(&keys::GROUP_NOTIFY_TERMINATION, true));
    let (id, event) = told_beyond(&mut t);
    assert_eq!((event.code, &event.source), (Status::GROUP_INVITED, &a.proc));
    t.answer(id, Ok(Answer::Done));
    let joins = t.ask(&b, accept(&a));
    // what the server of rank 2 tells
    let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![a.proc.clone()]));
    let accepted = Event::new(Status::GROUP_INVITE_ACCEPTED, proc("server", 1))
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 2)))
        .with_info(range);
    let call = t.call(HostCall::NotifyEvent(accepted));
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_MEMBERSHIP_UPDATE);
    assert_eq!(event.info.flag(&keys::GROUP_NOTIFY_TERMINATION), Ok(true));
    let (group, _, request) = t.upcall();
    let UpcallRequest::Group(request) = request else { panic!("{request:?}") };
    assert_eq!(request.procs, [0, 1, 2].map(|rank| proc("job", rank)));
    assert!(t.returned(call).is_ok());
    t.answer(id, Ok(Answer::Done));
    t.answer(group, Ok(Answer::Grouped(Grouped::default())));
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_CONSTRUCT_COMPLETE);
    for to in [joins, leads] {
        assert_eq!(made(&mut t, to).members.len(), 3);
    }
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn grp_03_a_consent_that_comes_too_late_is_answered() {
    let (mut t, a, _) = Harness::two_nodes([Upcall::NotifyEvent]);
    // also when the leader is not registered any more
    assert!(t.called(HostCall::DeregisterClient(a.proc.clone())).is_ok());
    t.drain();
    let accepted = Event::new(Status::GROUP_INVITE_ACCEPTED, proc("server", 1))
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 2)))
        .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![a.proc.clone()])));
    let call = t.call(HostCall::NotifyEvent(accepted));
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_CONSTRUCT_ABORT);
    assert_eq!(event.info.get(&keys::EVENT_CUSTOM_RANGE), Ok(Some(DataArray::Proc(vec![proc("job", 2)]))));
    assert!(t.returned(call).is_ok());
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn grp_03_a_consent_that_comes_too_late_ends_nothing_for_others() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent]);
    let of_2 = |code| {
        let event = Event::new(code, proc("server", 1));
        let event = event.with_info(Info::new(&keys::GROUP_ID, "g"));
        let event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 2)));
        let range = DataArray::Proc(vec![proc("job", 0)]);
        HostCall::NotifyEvent(event.with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, range)))
    };
    let wish = invite([1, 2, 3].map(|rank| proc("job", rank))).with(&keys::GROUP_OPTIONAL, true);
    t.ask(&a, wish);
    let (id, _) = told_beyond(&mut t);
    t.answer(id, Ok(Answer::Done));
    t.ask(&b, accept(&a));
    t.quiet();
    // the end of a process overtakes its consent
    assert!(t.called(of_2(Status::GROUP_INVITE_FAILED)).is_ok());
    let call = t.call(of_2(Status::GROUP_INVITE_ACCEPTED));
    let (id, event) = told_beyond(&mut t);
    assert_eq!((event.code, event.custom_range()), (Status::GROUP_CONSTRUCT_ABORT, vec![proc("job", 2)]));
    assert!(t.returned(call).is_ok());
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    assert!(t.engine.invites.has(&nspace("g")));
    for (peer, code) in [(&a, Status::GROUP_LEADER_FAILED), (&b, Status::GROUP_INVITE_FAILED)] {
        t.lose(peer);
        while let Some(command) = t.take() {
            let Command::Upcall { id, request: UpcallRequest::NotifyEvent(event), .. } = command else {
                panic!("{command:?}")
            };
            assert_eq!(event.code, code);
            t.answer(id, Ok(Answer::Done));
        }
    }
    t.finish();
}

#[test]
fn grp_07_whose_leader_is_of_a_namespace_that_ends_does_not_wait() {
    let mut t = Harness::new([Upcall::NotifyEvent]);
    t.job("job", "1;0");
    t.job("other", "1;0");
    let (member, leader) = (t.connect(&proc("job", 1)), proc("other", 0));
    let invited = Event::new(Status::GROUP_INVITED, leader.clone())
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, leader.clone()))
        .with_info(Info::new(
            &keys::GROUP_MEMBERSHIP,
            DataArray::Proc(vec![leader.clone(), member.proc.clone()]),
        ));
    t.called(HostCall::NotifyEvent(invited)).unwrap();
    let joins = Request::GroupJoin(GroupJoin::new(nspace("g"), leader, GroupOpt::ACCEPT));
    let joins = t.ask(&member, joins);
    let (id, _) = told_beyond(&mut t);
    t.answer(id, Ok(Answer::Done));
    assert!(t.called(HostCall::DeregisterNspace(nspace("other"))).is_ok());
    t.quiet();
    t.advance(5);
    t.fails(joins, Status::GROUP_LEADER_FAILED);
    assert!(t.engine.invites.is_empty());
    t.finish();
}

#[test]
fn grp_03_what_cannot_be_is_refused() {
    let (mut t, a, b) = Harness::two_nodes([]);
    for (procs, status) in [
        (vec![], Status::ERR_BAD_PARAM),
        (vec![a.proc.clone()], Status::ERR_BAD_PARAM),
        (vec![all_of("nobody")], Status::ERR_BAD_PARAM),
        (vec![proc("job", 2)], Status::ERR_NOT_SUPPORTED),
    ] {
        let to = t.ask(&a, invite(procs));
        t.fails(to, status);
    }
    let nobody = t.ask(&b, accept(&a));
    t.fails(nobody, Status::ERR_NOT_FOUND);
    let leads = t.ask(&a, invite([b.proc.clone()]));
    let again = t.ask(&a, invite([b.proc.clone()]));
    t.fails(again, Status::ERR_EXISTS);
    let odd = t.ask(&b, answer(&a, GroupOpt::from(7)));
    t.fails(odd, Status::ERR_BAD_PARAM);
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    t.fails(leads, Status::GROUP_LEADER_FAILED);
    t.drain();
    assert!(t.engine.invites.is_empty());
    t.finish();
}

#[test]
fn grp_03_grp_07_no_process_speaks_for_another_or_for_a_server() {
    let (mut t, a, _) = Harness::two_nodes([Upcall::Group, Upcall::NotifyEvent]);
    let say = |code: Status, by: &ProcId, about: &ProcId| {
        Event::new(code, by.clone())
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()))
            .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![a.proc.clone()])))
    };
    let far = proc("job", 2);
    let codes = [
        Status::GROUP_INVITE_ACCEPTED,
        Status::GROUP_INVITE_DECLINED,
        Status::GROUP_INVITE_FAILED,
        Status::GROUP_MEMBERSHIP_UPDATE,
        Status::GROUP_CONSTRUCT_ABORT,
        Status::GROUP_LEADER_FAILED,
        Status::GROUP_LEADER_SELECTED,
    ];
    // other servers would take it for the word of this one
    let more = [Status::GROUP_INVITED, Status::GROUP_LEFT, Status::GROUP_CONSTRUCT_COMPLETE];
    for code in codes.into_iter().chain(more) {
        let to = t.ask(&a, Request::NotifyEvent(NotifyEvent::new(say(code, &a.proc, &far))));
        t.fails(to, Status::ERR_NO_PERMISSIONS);
    }
    let leads = t.ask(&a, invite([far.clone(), proc("job", 3)]));
    let (id, _) = told_beyond(&mut t);
    t.answer(id, Ok(Answer::Done));
    // and what a process of another node says of itself is none of its server's
    for code in codes {
        t.called(HostCall::NotifyEvent(say(code, &far, &far))).unwrap();
        t.quiet();
    }
    let call = t.call(HostCall::NotifyEvent(say(Status::GROUP_INVITE_DECLINED, &proc("server", 1), &far)));
    t.fails(leads, Status::GROUP_CONSTRUCT_ABORT);
    let (id, _) = told_beyond(&mut t);
    assert!(t.returned(call).is_ok());
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn grp_03_the_limits_of_an_invitation_hold_until_the_group_is_complete() {
    for leader_limits in [true, false] {
        let (mut t, a, b) = Harness::two_nodes([Upcall::Group, Upcall::NotifyEvent]);
        let limit = |request: Request, limits| if limits { request.with(&keys::TIMEOUT, 5) } else { request };
        let leads = t.ask(&a, limit(invite([b.proc.clone(), proc("job", 2)]), leader_limits));
        let (id, _) = told_beyond(&mut t);
        t.answer(id, Ok(Answer::Done));
        let joins = t.ask(&b, limit(accept(&a), !leader_limits));
        t.advance(4);
        let accepted = Event::new(Status::GROUP_INVITE_ACCEPTED, proc("server", 1))
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("job", 2)))
            .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![a.proc.clone()])));
        let call = t.call(HostCall::NotifyEvent(accepted));
        let (id, _) = told_beyond(&mut t);
        let (group, ..) = t.upcall();
        assert!(t.returned(call).is_ok());
        t.answer(id, Ok(Answer::Done));
        // the host of the other node has nothing to say
        t.advance(1);
        assert_same(&t.next(), &Command::CancelUpcall(group));
        for to in [joins, leads] {
            t.fails(to, Status::ERR_TIMEOUT);
        }
        t.finish();
    }
}

#[test]
fn idn_06_the_members_of_a_group_are_invited_by_its_id() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    let pair = GroupConstruct::new(nspace("pair"), vec![b.proc.clone(), c.proc.clone()]);
    let asked = [b, c].map(|peer| t.ask(peer, Request::GroupConstruct(pair.clone())));
    asked.into_iter().for_each(|to| drop(made(&mut t, to)));
    listen(&mut t, b);
    listen(&mut t, c);
    let leads = t.ask(a, invite([all_of("pair")]));
    hears_of(&mut t, b, Status::GROUP_INVITED, &a.proc);
    hears_of(&mut t, c, Status::GROUP_INVITED, &a.proc);
    t.ask(b, decline(a));
    let rest = t.drain();
    assert!(
        rest.iter().any(|command| matches!(command, Command::Reply { id, result: Err(failure), .. }
        if *id == leads.id && failure.status == Status::GROUP_CONSTRUCT_ABORT)),
        "{rest:?}"
    );
    t.finish();
}

#[test]
fn grp_11_an_id_is_not_that_of_those_who_are_connected_or_being_invited() {
    let mut t = Harness::new([Upcall::Connect]);
    t.job("job", "0-2");
    let [a, b, c] = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    let to = t.ask(&a, Request::Connect(Connect::new(vec![a.proc.clone()])));
    let (id, ..) = t.upcall();
    let ranks = vec![(a.proc.clone(), Rank::from_raw(0))];
    let named = Connected { nspace: Some(nspace("asm")), ranks, ..Connected::default() };
    t.answer(id, Ok(Answer::Connected(named)));
    t.ok(to);
    let leads = t.ask(&b, invite([c.proc.clone()]));
    let construct = |id| Request::GroupConstruct(GroupConstruct::new(nspace(id), vec![a.proc.clone()]));
    for taken in ["asm", "g"] {
        let to = t.ask(&a, construct(taken));
        t.fails(to, Status::ERR_EXISTS);
    }
    t.ask(&c, decline(&b));
    assert!(t.drain().iter().any(|command| matches!(command, Command::Reply { id, .. } if *id == leads.id)));
    let to = t.ask(&a, construct("g"));
    made(&mut t, to);
    t.finish();
}

#[test]
fn grp_03_who_is_invited_to_a_group_is_not_asked_to_another_of_its_id() {
    let (mut t, _, b) = Harness::two_nodes([Upcall::NotifyEvent]);
    let invited = |leader: &ProcId| {
        let members = DataArray::Proc(vec![leader.clone(), b.proc.clone()]);
        Event::new(Status::GROUP_INVITED, leader.clone())
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, leader.clone()))
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, members))
    };
    let [first, second] = [2, 3].map(|rank| proc("job", rank));
    t.called(HostCall::NotifyEvent(invited(&first))).unwrap();
    t.quiet();
    let call = t.call(HostCall::NotifyEvent(invited(&second)));
    let (id, event) = told_beyond(&mut t);
    assert_eq!((event.code, event.custom_range()), (Status::GROUP_INVITE_FAILED, vec![second]));
    assert!(t.returned(call).is_ok());
    t.answer(id, Ok(Answer::Done));
    t.lose(&b);
    let (id, event) = told_beyond(&mut t);
    assert_eq!((event.code, event.custom_range()), (Status::GROUP_INVITE_FAILED, vec![first]));
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

/// What the server of leader `job:2` tells of a group of it, `job:1` and `job:3`.
fn of_leader(code: Status) -> HostCall {
    let leader = proc("job", 2);
    let source = if code == Status::GROUP_INVITED { leader.clone() } else { proc("server", 1) };
    let members = DataArray::Proc([2, 1, 3].map(|rank| proc("job", rank)).to_vec());
    let event = Event::new(code, source)
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, leader))
        .with_info(Info::new(&keys::GROUP_MEMBERSHIP, members));
    HostCall::NotifyEvent(event)
}

/// A process is alone in a group `g`.
#[track_caller]
fn has_g(t: &mut Harness, peer: &Peer) {
    let to = t.ask(peer, construct("g", [peer.proc.clone()]));
    made(t, to);
}

/// The leader of another node hears that rank 1 cannot be a member.
#[track_caller]
fn cannot_join(t: &mut Harness) {
    let (id, event) = told_beyond(t);
    assert_eq!((event.code, event.custom_range()), (Status::GROUP_INVITE_FAILED, vec![proc("job", 2)]));
    assert_eq!(event.info.get(&keys::EVENT_AFFECTED_PROC), Ok(Some(proc("job", 1))));
    // nothing else may be left to see
    let rest = t.drain();
    t.answer(id, Ok(Answer::Done));
    rest.into_iter().for_each(|command| match command {
        Command::Return { result: Ok(_), .. } => {}
        other => panic!("{other:?}"),
    });
}

#[test]
fn grp_03_grp_11_who_is_invited_where_others_have_the_id_fails_at_once() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent, Upcall::Group]);
    has_g(&mut t, &a);
    t.call(of_leader(Status::GROUP_INVITED));
    cannot_join(&mut t);
    let late = t.ask(&b, answer(&Peer { proc: proc("job", 2), ..a.clone() }, GroupOpt::ACCEPT));
    t.fails(late, Status::ERR_NOT_FOUND);
    let to = t.ask(&a, destruct("g"));
    t.done(to);
    t.finish();
}

#[test]
fn grp_03_grp_11_who_is_still_in_the_group_that_had_the_id_can_accept() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent, Upcall::Group]);
    has_g(&mut t, &b);
    t.called(of_leader(Status::GROUP_INVITED)).unwrap();
    let joins = t.ask(&b, accept(&Peer { proc: proc("job", 2), ..a.clone() }));
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_INVITE_ACCEPTED);
    t.answer(id, Ok(Answer::Done));
    let to = t.ask(&b, destruct("g"));
    t.done(to);
    t.call(of_leader(Status::GROUP_MEMBERSHIP_UPDATE));
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::Group(_)), "{request:?}");
    t.drain();
    t.answer(id, Ok(Answer::Grouped(Grouped::default())));
    assert_eq!(made(&mut t, joins).members.len(), 3);
    t.drain();
    t.finish();
}

#[test]
fn grp_03_grp_11_who_accepts_when_others_have_the_id_fails_too() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent, Upcall::Group]);
    t.called(of_leader(Status::GROUP_INVITED)).unwrap();
    has_g(&mut t, &a);
    let to = t.ask(&b, accept(&Peer { proc: proc("job", 2), ..a.clone() }));
    t.fails(to, Status::ERR_EXISTS);
    cannot_join(&mut t);
    t.finish();
}

#[test]
fn grp_03_grp_11_a_member_that_cannot_enter_any_more_makes_it_fail_for_all() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent, Upcall::Group]);
    t.called(of_leader(Status::GROUP_INVITED)).unwrap();
    let joins = t.ask(&b, accept(&Peer { proc: proc("job", 2), ..a.clone() }));
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_INVITE_ACCEPTED);
    t.answer(id, Ok(Answer::Done));
    has_g(&mut t, &a);
    let call = t.call(of_leader(Status::GROUP_MEMBERSHIP_UPDATE));
    // the other nodes hear that this one takes no part
    let (id, _, request) = t.upcall();
    let UpcallRequest::Group(request) = request else { panic!("{request:?}") };
    let status = request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS).unwrap();
    assert_eq!((request.procs.len(), status), (3, Some(Status::GROUP_CONSTRUCT_ABORT)));
    let failure = t.fails(joins, Status::GROUP_CONSTRUCT_ABORT);
    assert!(failure.message.contains("cannot have the id g"), "{failure}");
    assert_eq!(failure.procs, std::slice::from_ref(&b.proc));
    assert!(t.returned(call).is_ok());
    t.answer(id, Err(failure));
    // the group that is there stays
    let to = t.ask(&a, destruct("g"));
    t.done(to);
    t.finish();
}

#[test]
fn grp_03_who_is_in_too_many_groups_is_invited_to_no_more() {
    let (mut t, peers) = Harness::local(2);
    for number in 0..MAX_GROUPS_OF_PROC {
        let to = t.ask(&peers[1], construct(&number.to_string(), [proc("job", 1)]));
        made(&mut t, to);
    }
    let leads = t.ask(&peers[0], invite([proc("job", 1)]));
    assert_eq!(t.fails(leads, Status::GROUP_CONSTRUCT_ABORT).procs, [proc("job", 1)]);
    t.finish();
}

#[test]
fn grp_03_a_tool_leads_no_group() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::NotifyEvent]);
    t.job("job", "0");
    let tool = Peer { conn: t.hello_as(Identity::Tool(None), USER), proc: proc("tool", 0) };
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(tool.proc.clone())));
    assert!(matches!(t.next(), Command::Accept { .. }));
    let to = t.ask(&tool, invite([proc("job", 0)]));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn idn_07a_grp_03_a_clone_that_finalizes_ends_nothing_of_its_process() {
    let (mut t, peers) = Harness::local(3);
    let clone = t.connect(&proc("job", 1));
    let leads = t.ask(&peers[0], invite([all_of("job")]));
    let joins = t.ask(&peers[1], accept(&peers[0]));
    let to = t.ask(&clone, Request::Finalize(Finalize::new()));
    t.done(to);
    t.quiet();
    let last = t.ask(&peers[2], accept(&peers[0]));
    for to in [joins, last, leads] {
        made(&mut t, to);
    }
    t.finish();
}

#[test]
fn gen_05_grp_03_who_could_not_enter_the_construct_is_told_before_others_wait_for_it() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[0], invite([proc("job", 1)]).require(&keys::COLLECT_DATA, true));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let leads = t.ask(&peers[0], invite([proc("job", 1)]));
    let to = t.ask(&peers[1], accept(&peers[0]).require(&keys::COLLECT_DATA, true));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let joins = t.ask(&peers[1], accept(&peers[0]));
    for to in [joins, leads] {
        made(&mut t, to);
    }
    t.finish();
}
