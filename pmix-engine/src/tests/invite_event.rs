//! Invitations and answers that are events, as libraries in C send them: they name neither the group in an answer nor the process
//! that an event is about.

use pmix_types::message::{NotifyEvent, Push, RegisterEvents, Reply, Request};
use pmix_types::{DataArray, DataRange, Event, Info, ProcId, Status, Value, keys};

use super::super::upcall::Upcall;
use super::super::{Answer, Command, HostCall};
use super::group::hears_of;
use super::harness::*;
use super::invite::{accept, decline, invite, told_beyond};
use crate::ids::ReplyTo;

/// As `PMIx_Group_join` answers.
fn says(code: Status, leader: &ProcId) -> Request {
    let range = Info::dynamic(keys::EVENT_CUSTOM_RANGE.key_name(), Value::from(leader.clone()));
    Request::NotifyEvent(NotifyEvent::new(
        Event::new(code, ProcId::none()).with_range(DataRange::CUSTOM).with_info(range),
    ))
}

fn accepts(leader: &Peer) -> Request {
    says(Status::GROUP_INVITE_ACCEPTED, &leader.proc)
}

fn declines(leader: &Peer) -> Request {
    says(Status::GROUP_INVITE_DECLINED, &leader.proc)
}

/// As `PMIx_Group_invite` invites and announces.
fn of_group(code: Status, id: &str, procs: &[ProcId]) -> Request {
    let event = Event::new(code, ProcId::none()).with_range(DataRange::CUSTOM);
    let event = event.with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs.to_vec())));
    let event = event.with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
    Request::NotifyEvent(NotifyEvent::new(event.with_info(Info::new(&keys::GROUP_ID, id))))
}

fn invites(procs: &[ProcId]) -> Request {
    of_group(Status::GROUP_INVITED, "g", procs)
}

fn announces(procs: &[ProcId]) -> Request {
    of_group(Status::GROUP_CONSTRUCT_COMPLETE, "g", procs)
}

fn procs(ranks: impl IntoIterator<Item = u32>) -> Vec<ProcId> {
    ranks.into_iter().map(|rank| proc("job", rank)).collect()
}

/// The members of the group, or nothing with the answer to an event, or the reason of a failure.
type Outcome = Result<Option<Vec<ProcId>>, Status>;

/// What is answered to whom; the events between are left out.
#[track_caller]
fn outcomes(t: &mut Harness) -> Vec<(ReplyTo, Outcome)> {
    let answered = t.drain().into_iter().filter_map(|command| match command {
        Command::Reply { conn, id, result } => Some((
            ReplyTo { conn, id },
            match result {
                Ok(Reply::Group(made)) => Ok(Some(made.members.clone())),
                Ok(Reply::Done) => Ok(None),
                Ok(other) => panic!("{other:?}"),
                Err(failure) => Err(failure.status),
            },
        )),
        Command::Push { .. } => None,
        other => panic!("{other:?}"),
    });
    answered.collect()
}

#[test]
fn grp_03_a_member_that_accepts_by_an_event_is_answered_when_the_group_is_made() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    listen(&mut t, a);
    let leads = t.ask(a, invite(procs([1, 2])));
    let first = t.ask(b, accepts(a));
    // the leader hears of it as of any other answer
    hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &b.proc);
    t.quiet();
    let second = t.ask(c, accept(a));
    let outcomes = outcomes(&mut t);
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    for (to, outcome) in &outcomes {
        if *to == first {
            assert_eq!(*outcome, Ok(None), "the answer to an event");
        } else {
            assert!([leads, second].contains(to));
            assert_eq!(*outcome, Ok(Some(procs([0, 1, 2]))));
        }
    }
    // it is a group of all three
    let entered = peers.iter().map(|peer| t.ask(peer, fence([all_of("g")]))).count();
    let answered = t.drain();
    assert_eq!(answered.len(), entered, "{answered:?}");
    t.finish();
}

#[test]
fn grp_03_a_member_declines_by_an_event() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    let leads = t.ask(a, invite(procs([1, 2])));
    let joins = t.ask(b, accepts(a));
    let says = t.ask(c, declines(a));
    t.done(says);
    let outcomes = outcomes(&mut t);
    let failed = Err(Status::GROUP_CONSTRUCT_ABORT);
    assert_eq!(outcomes, [(leads, failed.clone()), (joins, failed)]);
    t.finish();
}

#[test]
fn grp_03_an_answer_by_an_event_is_to_the_oldest_open_invitation_of_the_leader() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    // "z" is older, and of another leader there is an older one still
    let others = t.ask(c, of_group(Status::GROUP_INVITED, "c", &procs([2, 1])));
    t.done(others);
    let older = t.ask(a, of_group(Status::GROUP_INVITED, "z", &procs([0, 1])));
    t.done(older);
    let newer = t.ask(a, invites(&procs([0, 1])));
    t.done(newer);
    let first = t.ask(b, accepts(a));
    t.quiet();
    let second = t.ask(b, accepts(a));
    t.quiet();
    // both are answered: a third is an event like any other
    let third = t.ask(b, accepts(a));
    t.done(third);
    for (id, answered) in [("z", first), ("g", second)] {
        let says = t.ask(a, of_group(Status::GROUP_CONSTRUCT_COMPLETE, id, &procs([0, 1])));
        let mut outcomes = outcomes(&mut t);
        outcomes.sort_by_key(|(to, _)| to.id);
        assert_eq!(outcomes, [(answered, Ok(None)), (says, Ok(None))], "{id}");
    }
    // one that names its group answers that
    let named = says(Status::GROUP_INVITE_DECLINED, &c.proc);
    let Request::NotifyEvent(NotifyEvent { event, .. }) = named else { unreachable!() };
    let wrong = event.clone().with_info(Info::new(&keys::GROUP_ID, "g"));
    let to = t.ask(b, Request::NotifyEvent(NotifyEvent::new(wrong)));
    t.done(to);
    listen(&mut t, c);
    assert_eq!(t.drain().len(), 1, "that one is an event, which was kept");
    let right = event.with_info(Info::new(&keys::GROUP_ID, "c"));
    let to = t.ask(b, Request::NotifyEvent(NotifyEvent::new(right)));
    t.done(to);
    let event = hears(&mut t, c, Status::GROUP_INVITE_DECLINED, &b.proc);
    assert_eq!(event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("c"));
    t.lose(c);
    t.finish();
}

#[test]
fn grp_03_a_leader_that_invites_by_an_event_says_when_the_group_is_complete() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    listen(&mut t, a);
    listen(&mut t, b);
    let all = procs([0, 1, 2]);
    // it is not for handlers of all codes
    let codes = vec![Status::GROUP_INVITED];
    let to = t.ask(b, Request::RegisterEvents(RegisterEvents::new(codes)));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let says = t.ask(a, invites(&all));
    t.done(says);
    hears_of(&mut t, b, Status::GROUP_INVITED, &a.proc);
    let first = t.ask(b, accept(a));
    hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &b.proc);
    let second = t.ask(c, accepts(a));
    hears_of(&mut t, a, Status::GROUP_INVITE_ACCEPTED, &c.proc);
    t.quiet();
    let says = t.ask(a, announces(&all));
    let commands = t.drain();
    let announced = |peer: &Peer| {
        let is_it = |command: &&Command| {
            matches!(command, Command::Push { conn, push: Push::Event { event, .. } }
                if *conn == peer.conn && event.code == Status::GROUP_CONSTRUCT_COMPLETE)
        };
        commands.iter().filter(is_it).count()
    };
    assert_eq!((announced(a), announced(b)), (0, 1), "its own library has told the leader");
    let replies = commands.iter().filter_map(|command| match command {
        Command::Reply { conn, id, result } => {
            Some((ReplyTo { conn: *conn, id: *id }, result.clone().unwrap()))
        }
        _ => None,
    });
    let replies: Vec<_> = replies.collect();
    assert_eq!(replies.len(), 3);
    for (to, reply) in replies {
        match reply {
            Reply::Group(made) => assert_eq!((to, &made.members), (first, &all)),
            other => {
                assert!([second, says].contains(&to), "{other:?}");
                assert_same(&other, &Reply::Done);
            }
        }
    }
    t.finish();
}

#[test]
fn grp_03_grp_07_what_a_leader_that_invites_by_an_event_leaves_open_ends() {
    // it announces the group without those who have not answered, or declined
    let (mut t, peers) = Harness::local(4);
    let [a, b, c, d] = [&peers[0], &peers[1], &peers[2], &peers[3]];
    let all = procs([0, 1, 2, 3]);
    let to = t.ask(a, invites(&all));
    t.done(to);
    let joins = t.ask(b, accept(a));
    let to = t.ask(c, decline(a));
    t.done(to);
    t.quiet();
    let says = t.ask(a, announces(&all));
    for (to, outcome) in outcomes(&mut t) {
        let due = if to == joins { (joins, Ok(Some(procs([0, 1])))) } else { (says, Ok(None)) };
        assert_eq!((to, outcome), due);
    }
    // who comes too late is told so
    let late = t.ask(d, accept(a));
    assert_eq!(outcomes(&mut t), [(late, Err(Status::ERR_NOT_FOUND))]);

    // it gives it up
    let to = t.ask(a, of_group(Status::GROUP_INVITED, "h", &procs([0, 1])));
    t.done(to);
    let joins = t.ask(b, accepts(a));
    let to = t.ask(a, of_group(Status::GROUP_CONSTRUCT_ABORT, "h", &procs([1])));
    let outcomes = outcomes(&mut t);
    assert_eq!(outcomes, [(joins, Err(Status::GROUP_CONSTRUCT_ABORT)), (to, Ok(None))]);
    t.finish();
}

#[test]
fn grp_07_a_leader_that_invites_by_an_event_ends() {
    let (mut t, peers) = Harness::local(3);
    let [a, b, c] = [&peers[0], &peers[1], &peers[2]];
    let to = t.ask(a, invites(&procs([0, 1, 2])));
    t.done(to);
    let joins = [t.ask(b, accept(a)), t.ask(c, accepts(a))];
    t.lose(a);
    t.quiet();
    t.advance(5);
    let outcomes = outcomes(&mut t);
    assert_eq!(outcomes, joins.map(|to| (to, Err(Status::GROUP_LEADER_FAILED))));
    assert!(t.engine.invites.is_empty());
    t.finish();
}

#[test]
fn grp_03_an_event_that_no_server_can_make_a_group_of_is_an_event() {
    let (mut t, peers) = Harness::local(2);
    let [a, b] = [&peers[0], &peers[1]];
    let codes = vec![
        Status::GROUP_INVITED,
        Status::GROUP_CONSTRUCT_COMPLETE,
        Status::GROUP_INVITE_ACCEPTED,
        Status::GROUP_INVITE_DECLINED,
    ];
    let to = t.ask(b, Request::RegisterEvents(RegisterEvents::new(codes)));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    for request in [
        // nobody but itself, nobody, and a name in use
        invites(&procs([0])),
        invites(&[]),
        of_group(Status::GROUP_INVITED, "job", &procs([0, 1])),
        // there is no invitation
        announces(&procs([0, 1])),
        accepts(b),
        declines(b),
    ] {
        let Request::NotifyEvent(NotifyEvent { event, .. }) = &request else { unreachable!() };
        let (code, named) = (event.code, event.custom_range().contains(&b.proc));
        let to = t.ask(a, request);
        if named {
            let Command::Push { conn, push } = t.next() else { panic!("{code}") };
            assert!(matches!(push, Push::Event { event, .. }
                if conn == b.conn && event.code == code && event.source == a.proc));
        }
        t.done(to);
    }
    assert!(t.engine.invites.is_empty());
    t.finish();
}

#[test]
fn grp_03_a_member_on_another_node_answers_by_an_event() {
    let mut t = Harness::new([Upcall::NotifyEvent]);
    t.job("job", "1;0");
    let b = t.connect(&proc("job", 1));
    let leader = proc("job", 0);
    let invited = Event::new(Status::GROUP_INVITED, leader.clone()).with_range(DataRange::CUSTOM);
    let invited = invited
        .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs([1]))))
        .with_info(Info::new(&keys::GROUP_ID, "g"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, leader.clone()))
        .with_info(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(procs([0, 1]))));
    t.called(HostCall::NotifyEvent(invited)).unwrap();
    t.ask(&b, says(Status::GROUP_INVITE_ACCEPTED, &leader));
    let (id, event) = told_beyond(&mut t);
    assert_eq!((event.code, event.custom_range()), (Status::GROUP_INVITE_ACCEPTED, vec![leader]));
    assert_eq!(event.info.get(&keys::EVENT_AFFECTED_PROC).unwrap(), Some(b.proc.clone()));
    assert_eq!(event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    t.lose(&b);
    let (id, event) = told_beyond(&mut t);
    assert_eq!(event.code, Status::GROUP_INVITE_FAILED);
    t.answer(id, Ok(Answer::Done));
    assert!(t.engine.invites.is_empty());
    t.finish();
}
