//! Leaders of invitations that end, and who takes their place.

use pmix_types::message::{GroupConstruct, NotifyEvent, Push, Reply, Request};
use pmix_types::{DataArray, Event, Info, ProcId, Status, keys};

use super::super::upcall::Upcall;
use super::super::{CallId, Command, HostCall, Input, UpcallRequest};
use super::group::{hears_of, made};
use super::harness::*;
use super::invite::*;

pub(super) fn claim(by: &Peer) -> Request {
    let event = Event::new(Status::GROUP_LEADER_SELECTED, by.proc.clone());
    Request::NotifyEvent(NotifyEvent::new(event.with_info(Info::new(&keys::GROUP_ID, "g"))))
}

#[test]
fn grp_07_without_another_leader_those_who_have_accepted_are_released() {
    let (mut t, peers) = Harness::local(3);
    listen(&mut t, &peers[2]);
    t.ask(&peers[0], invite([all_of("job")]));
    hears_of(&mut t, &peers[2], Status::GROUP_INVITED, &peers[0].proc);
    let joins = t.ask(&peers[1], accept(&peers[0]));
    t.lose(&peers[0]);
    hears_of(&mut t, &peers[2], Status::GROUP_LEADER_FAILED, &peers[0].proc);
    // who has not accepted cannot take the place
    let claims = t.ask(&peers[2], claim(&peers[2]));
    t.done(claims);
    t.advance(5);
    t.fails(joins, Status::GROUP_LEADER_FAILED);
    assert!(t.engine.invites.is_empty());
    t.finish();
}

#[test]
fn grp_07_another_one_takes_the_place_of_the_leader() {
    let (mut t, peers) = Harness::local(4);
    let [a, b, c, d] = [&peers[0], &peers[1], &peers[2], &peers[3]];
    t.ask(a, invite([all_of("job")]).with(&keys::GROUP_NOTIFY_TERMINATION, true));
    let first = t.ask(b, accept(a));
    let second = t.ask(c, accept(a));
    listen(&mut t, c);
    hears_of(&mut t, c, Status::GROUP_INVITED, &a.proc);
    t.lose(a);
    hears_of(&mut t, c, Status::GROUP_LEADER_FAILED, &a.proc);
    let claims = t.ask(c, claim(c));
    hears_of(&mut t, c, Status::GROUP_LEADER_SELECTED, &c.proc);
    // the consent of before counts for it
    hears_of(&mut t, c, Status::GROUP_INVITE_ACCEPTED, &b.proc);
    t.done(claims);
    // the place is taken
    let claims = t.ask(b, claim(b));
    t.done(claims);
    // an answer to the one who has invited is one to the one who leads now
    let third = t.ask(d, accept(a));
    hears_of(&mut t, c, Status::GROUP_INVITE_ACCEPTED, &d.proc);
    let Command::Push { push: Push::Event { event, .. }, .. } = t.next() else { panic!("no event") };
    assert_eq!(event.code, Status::GROUP_CONSTRUCT_COMPLETE);
    for to in [first, third, second] {
        let reply = made(&mut t, to);
        assert_eq!(reply.members, [1, 2, 3].map(|rank| proc("job", rank)));
        assert!(reply.partial);
    }
    // what the first has asked for holds
    t.lose(b);
    hears_of(&mut t, c, Status::GROUP_MEMBER_FAILED, &b.proc);
    t.finish();
}

#[test]
fn grp_07_of_two_who_take_the_place_the_lower_one_leads() {
    for other in [1, 4] {
        let mut t = Harness::new([Upcall::Group, Upcall::NotifyEvent]);
        t.job("job", "2,3;0,1,4");
        let b = t.connect(&proc("job", 3));
        // rank 0 leads from another node
        let told = |t: &mut Harness, code: Status, about: &ProcId, more: Vec<Info>| {
            let mut event = Event::new(
                code,
                if code == Status::GROUP_INVITED { about.clone() } else { proc("server", 1) },
            )
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()));
            event.info.extend(more);
            t.feed(Input::Call { id: CallId(9999), call: HostCall::NotifyEvent(event) });
            let mut said = t.drain();
            let answered = said.pop();
            assert!(matches!(answered, Some(Command::Return { result: Ok(_), .. })), "{answered:?}");
            said
        };
        let leader = Peer { conn: b.conn, proc: proc("job", 0) };
        let all = [0, 1, 2, 3, 4].map(|rank| proc("job", rank)).to_vec();
        let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(all));
        assert!(told(&mut t, Status::GROUP_INVITED, &leader.proc, vec![members.clone()]).is_empty());
        let joins = t.ask(&b, accept(&leader));
        assert_eq!(told_beyond(&mut t).1.code, Status::GROUP_INVITE_ACCEPTED);
        assert!(told(&mut t, Status::GROUP_LEADER_FAILED, &leader.proc, vec![]).is_empty());
        let claims = t.ask(&b, claim(&b));
        assert_eq!(told_beyond(&mut t).1.code, Status::GROUP_LEADER_SELECTED);
        t.done(claims);
        // so does somebody on the other node
        let lower = other < 3;
        let other = proc("job", other);
        let former = Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(vec![leader.proc.clone()]));
        let said = told(&mut t, Status::GROUP_LEADER_SELECTED, &other, vec![members, former]);
        // it accepts where the other one is lower, and goes on to lead where it is not
        let accepts = said.iter().any(|command| match command {
            Command::Upcall { request: UpcallRequest::NotifyEvent(notify), .. } => {
                notify.code == Status::GROUP_INVITE_ACCEPTED
                    && notify.info.get(&keys::EVENT_AFFECTED_PROC) == Ok(Some(b.proc.clone()))
            }
            _ => false,
        });
        let leads = t.engine.invites.has(&nspace("g"));
        assert_eq!((accepts, leads), (lower, !lower));
        // nothing is left of it with its processes
        assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
        let failed = t
            .drain()
            .into_iter()
            .any(|command| matches!(command, Command::Reply { id, .. } if id == joins.id));
        assert!(failed, "it is answered");
        t.engine.cx.upcalls.clear();
        t.finish();
    }
}

#[test]
fn grp_07_a_leader_of_a_construct_that_ends_is_told_of_and_another_one_leads() {
    let (mut t, peers) = Harness::local(4);
    let construct = |t: &mut Harness, peer: &Peer, leads: bool| {
        let construct = GroupConstruct::new(nspace("g"), vec![all_of("job")]);
        let request = Request::GroupConstruct(construct).with(&keys::GROUP_NOTIFY_TERMINATION, true);
        t.ask(peer, request.with(&keys::GROUP_LEADER, leads))
    };
    listen(&mut t, &peers[1]);
    listen(&mut t, &peers[2]);
    construct(&mut t, &peers[0], true);
    let first = construct(&mut t, &peers[1], false);
    t.lose(&peers[0]);
    for peer in &peers[1..3] {
        hears_of(&mut t, peer, Status::GROUP_LEADER_FAILED, &peers[0].proc);
    }
    let claims = t.ask(&peers[1], claim(&peers[1]));
    for peer in &peers[1..3] {
        hears_of(&mut t, peer, Status::GROUP_LEADER_SELECTED, &peers[1].proc);
    }
    t.done(claims);
    // the new one alone hears of members that will not come
    t.lose(&peers[3]);
    hears_of(&mut t, &peers[1], Status::GROUP_MEMBER_FAILED, &peers[3].proc);
    let second = construct(&mut t, &peers[2], false);
    hears_of(&mut t, &peers[1], Status::GROUP_MEMBER_FAILED, &peers[0].proc);
    hears_of(&mut t, &peers[2], Status::GROUP_MEMBER_FAILED, &peers[0].proc);
    for to in [first, second] {
        assert!(made(&mut t, to).partial);
    }
    t.finish();
}

#[test]
fn grp_07_a_member_gives_a_group_up_for_all() {
    let abort = |by: u32| {
        let event = Event::new(Status::GROUP_CONSTRUCT_ABORT, proc("job", by));
        Request::NotifyEvent(NotifyEvent::new(event.with_info(Info::new(&keys::GROUP_ID, "g"))))
    };
    // the leader of an invitation, and one who has accepted it
    for by in [0, 1] {
        let (mut t, peers) = Harness::local(3);
        let leads = t.ask(&peers[0], invite([all_of("job")]));
        let joins = t.ask(&peers[1], accept(&peers[0]));
        let asked = t.ask(&peers[by as usize], abort(by));
        let (first, second) = if by == 0 { (leads, joins) } else { (joins, leads) };
        t.fails(first, Status::GROUP_CONSTRUCT_ABORT);
        t.fails(second, Status::GROUP_CONSTRUCT_ABORT);
        t.done(asked);
        t.finish();
    }
    // a member of a collective, before it has called itself
    let (mut t, peers) = Harness::local(3);
    listen(&mut t, &peers[0]);
    let construct = |t: &mut Harness, peer: &Peer| {
        let construct = GroupConstruct::new(nspace("g"), vec![all_of("job")]);
        t.ask(peer, Request::GroupConstruct(construct))
    };
    let waits = construct(&mut t, &peers[0]);
    let asked = t.ask(&peers[1], abort(1));
    t.fails(waits, Status::GROUP_CONSTRUCT_ABORT);
    hears_of(&mut t, &peers[0], Status::GROUP_CONSTRUCT_ABORT, &peers[1].proc);
    t.done(asked);
    for late in &peers[1..] {
        let to = construct(&mut t, late);
        t.fails(to, Status::GROUP_CONSTRUCT_ABORT);
    }
    // without a group it is an event like others
    let asked = t.ask(&peers[1], abort(1));
    assert!(matches!(t.next(), Command::Push { .. }));
    t.done(asked);
    t.finish();
}

#[test]
fn grp_07_who_accepts_while_there_is_no_leader_waits_for_the_next() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    t.ask(a, invite([all_of("job")]));
    let first = t.ask(b, accept(a));
    t.lose(a);
    let second = t.ask(c, accept(a));
    t.quiet();
    t.ask(b, claim(b));
    let out = t.drain();
    for to in [first, second] {
        let is_its = |command: &Command| matches!(command, Command::Reply { id, result: Ok(Reply::Group(_)), .. } if *id == to.id);
        assert!(out.iter().any(is_its), "{out:?}");
    }
    t.finish();
}
