//! Groups by invitation on the client's side, with other processes and a server played by the test.

use crate::talk::{Talk, V4, proc};
use pmix_native::client::own_limit;
use pmix_native::msg::{Body, ProcData, Push, Request as Ask};
use pmix_types::message::{Connect, Disconnect, Get, GroupInvite, GroupJoin, Reply, Request};
use pmix_types::{DataArray, DataRange, Event, GroupOpt, Info, KeyVal, ProcId, Rank, Status, keys};

fn of_group(code: Status, source: u32, more: impl IntoIterator<Item = Info>) -> Push {
    let mut event = Event::new(code, proc(source));
    event.info = [Info::new(&keys::GROUP_ID, "g")].into_iter().chain(more).collect();
    Push::Event(event)
}

#[test]
fn grp_03_a_leader_counts_the_answers_and_tells_the_members() {
    for declines in [false, true] {
        let mut talk = Talk::started(V4);
        let mut invite = GroupInvite::new("g".parse().unwrap(), vec![proc(2), proc(0), proc(1)]);
        invite.directives.push(Info::new(&keys::GROUP_OPTIONAL, true));
        talk.client.request(1, Request::GroupInvite(invite));
        let (tag, Ask::Operation(Request::RegisterEvents(listens))) = talk.asked() else {
            panic!("it does not listen")
        };
        assert!(listens.codes.contains(&Status::GROUP_INVITE_ACCEPTED));
        talk.answer(tag, Status::SUCCESS);
        let (tag, Ask::Operation(Request::NotifyEvent(invited))) = talk.asked() else {
            panic!("nobody is invited")
        };
        assert_eq!((invited.event.code, invited.event.range), (Status::GROUP_INVITED, DataRange::CUSTOM));
        assert_eq!(invited.event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
        talk.answer(tag, Status::SUCCESS);
        talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 1, []));
        talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 7, []));
        assert!(talk.client.next_delivery().is_none(), "one has not answered, another was not invited");
        let answer = if declines { Status::GROUP_INVITE_DECLINED } else { Status::GROUP_INVITE_ACCEPTED };
        talk.push(&of_group(answer, 2, []));
        let members = if declines { vec![proc(0), proc(1)] } else { vec![proc(0), proc(2), proc(1)] };
        let Ok(Reply::Group(group)) = talk.reply(1) else { panic!("no group") };
        assert_eq!((&group.members, group.partial), (&members, declines));
        let (tag, Ask::Operation(Request::NotifyEvent(complete))) = talk.asked() else {
            panic!("the members are not told")
        };
        assert_eq!(complete.event.code, Status::GROUP_CONSTRUCT_COMPLETE);
        assert_eq!(complete.event.info.get(&keys::GROUP_MEMBERSHIP).unwrap(), Some(DataArray::Proc(members)));
        talk.answer(tag, Status::SUCCESS);
        assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
    }
}

#[test]
fn grp_03_grp_06_a_member_joins_what_its_leader_makes_and_fails_with_what_it_gives_up() {
    let join = |answer| Request::GroupJoin(GroupJoin::new("g".parse().unwrap(), proc(1), answer));
    let mut talk = Talk::started(V4);
    talk.client.request(1, join(GroupOpt::ACCEPT));
    let (tag, Ask::Operation(Request::RegisterEvents(_))) = talk.asked() else {
        panic!("it does not listen")
    };
    talk.answer(tag, Status::SUCCESS);
    let (tag, Ask::Operation(Request::NotifyEvent(accepts))) = talk.asked() else {
        panic!("it does not accept")
    };
    assert_eq!(accepts.event.code, Status::GROUP_INVITE_ACCEPTED);
    talk.answer(tag, Status::SUCCESS);
    let members = [Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(vec![proc(1), proc(0)]))];
    talk.push(&of_group(Status::GROUP_CONSTRUCT_COMPLETE, 2, members.clone()));
    assert!(talk.client.next_delivery().is_none(), "that one does not lead");
    talk.push(&of_group(Status::GROUP_CONSTRUCT_COMPLETE, 1, members));
    assert!(matches!(talk.reply(1), Ok(Reply::Group(group)) if group.members == [proc(1), proc(0)]));

    talk.client.request(2, join(GroupOpt::ACCEPT));
    let (tag, _) = talk.asked();
    talk.answer(tag, Status::SUCCESS);
    talk.push(&of_group(Status::GROUP_CONSTRUCT_ABORT, 1, []));
    let failure = talk.reply(2).unwrap_err();
    assert_eq!((failure.status, failure.procs), (Status::GROUP_CONSTRUCT_ABORT, vec![proc(1)]));

    // a server that carries no events fails it
    talk.client.request(3, join(GroupOpt::ACCEPT));
    let (tag, _) = talk.asked();
    talk.answer(tag, Status::ERR_NOT_SUPPORTED);
    assert_eq!(talk.reply(3).unwrap_err().status, Status::ERR_NOT_SUPPORTED);
    assert!(talk.round(join(GroupOpt::DECLINE), Status::SUCCESS).is_ok());
}

/// An invitation of ranks 1 and 2 by rank 0, which has been sent.
fn invites(talk: &mut Talk, id: u64, more: impl IntoIterator<Item = Info>) -> Event {
    let mut invite = GroupInvite::new("g".parse().unwrap(), vec![proc(1), proc(2)]);
    invite.directives = more.into_iter().collect();
    talk.client.request(id, Request::GroupInvite(invite));
    sent(talk)
}

/// Rank 0 accepts an invitation of rank 1.
fn accepts(talk: &mut Talk, id: u64) -> Event {
    talk.client.request(id, join([]));
    sent(talk)
}

fn join(more: impl IntoIterator<Item = Info>) -> Request {
    let mut join = GroupJoin::new("g".parse().unwrap(), proc(1), GroupOpt::ACCEPT);
    join.directives = more.into_iter().collect();
    Request::GroupJoin(join)
}

/// The notice that was sent, and confirmed. The first time, the process also registers for what comes back.
fn sent(talk: &mut Talk) -> Event {
    let (tag, asked) = talk.asked();
    talk.answer(tag, Status::SUCCESS);
    match asked {
        Ask::Operation(Request::NotifyEvent(notice)) => notice.event,
        Ask::Operation(Request::RegisterEvents(_)) => sent(talk),
        other => panic!("{other:?}"),
    }
}

/// For whom a notice is.
fn to(notice: &Event) -> Vec<ProcId> {
    let Ok(Some(DataArray::Proc(procs))) = notice.info.get(&keys::EVENT_CUSTOM_RANGE) else {
        panic!("{notice:?}")
    };
    procs
}

fn told(talk: &mut Talk, code: Status, procs: &[u32]) {
    let notice = sent(talk);
    let procs: Vec<_> = procs.iter().copied().map(proc).collect();
    assert_eq!((notice.code, to(&notice)), (code, procs));
    assert_eq!(notice.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
}

/// The end of a process, as servers tell of it.
fn end_of(who: ProcId) -> Push {
    let mut event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none());
    event.info.push(Info::new(&keys::EVENT_AFFECTED_PROC, who));
    Push::Event(event)
}

fn limit(seconds: i32) -> Info {
    Info::new(&keys::TIMEOUT, seconds)
}

#[test]
fn grp_03_an_invitation_that_is_not_answered_in_time_frees_its_id() {
    let mut talk = Talk::started(V4);
    for _ in 0..2 {
        let invited = invites(&mut talk, 1, [limit(1)]);
        assert_eq!(invited.code, Status::GROUP_INVITED);
        talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 2, []));
        talk.client.expire(7);
        assert!(talk.client.next_delivery().is_none(), "that is another request");
        talk.client.expire(1);
        let failure = talk.reply(1).unwrap_err();
        assert_eq!((failure.status, failure.procs), (Status::ERR_TIMEOUT, vec![proc(1)]));
        told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[2, 1]);
        talk.client.expire(1);
        assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
    }
    // who accepts then hears that there is no group
    let mut late = Event::new(Status::GROUP_INVITE_ACCEPTED, proc(1));
    late.info = [Info::new(&keys::GROUP_ID, "g")].into_iter().collect();
    talk.push(&Push::Event(late.clone()));
    assert!(talk.frame().is_none(), "it was not meant for this process");
    late.info.push(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![proc(0)])));
    talk.push(&Push::Event(late));
    told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[1]);
}

#[test]
fn grp_03_an_acceptance_whose_leader_takes_too_long_is_taken_back() {
    let mut talk = Talk::started(V4);
    for _ in 0..2 {
        assert_eq!(accepts(&mut talk, 3).code, Status::GROUP_INVITE_ACCEPTED);
        talk.client.expire(3);
        let failure = talk.reply(3).unwrap_err();
        assert_eq!((failure.status, failure.procs), (Status::ERR_TIMEOUT, vec![proc(1)]));
        told(&mut talk, Status::GROUP_INVITE_DECLINED, &[1]);
    }
    // the leader takes the one that has changed its mind for one that has declined
    let mut talk = Talk::started(V4);
    invites(&mut talk, 1, []);
    talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 1, []));
    talk.push(&of_group(Status::GROUP_INVITE_DECLINED, 1, []));
    let failure = talk.reply(1).unwrap_err();
    assert_eq!((failure.status, failure.procs), (Status::GROUP_CONSTRUCT_ABORT, vec![proc(1)]));
    told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[2]);
}

#[test]
fn grp_03_a_server_that_does_not_confirm_the_registration_does_not_block_the_id() {
    let mut talk = Talk::started(V4);
    talk.client.request(1, join([limit(1)]));
    let (tag, Ask::Operation(Request::RegisterEvents(_))) = talk.asked() else {
        panic!("it does not listen")
    };
    talk.client.expire(1);
    assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_TIMEOUT);
    talk.answer(tag, Status::SUCCESS);
    assert!(talk.frame().is_none() && talk.client.next_delivery().is_none());
    assert_eq!(accepts(&mut talk, 2).code, Status::GROUP_INVITE_ACCEPTED);
}

#[test]
fn grp_06_the_end_of_an_invited_process_is_noticed() {
    for accepted_before in [false, true] {
        let mut talk = Talk::started(V4);
        invites(&mut talk, 1, []);
        if accepted_before {
            talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 2, []));
        }
        talk.push(&end_of(proc(5)));
        assert!(talk.client.next_delivery().is_none(), "that one was not invited");
        talk.push(&end_of(proc(2)));
        let failure = talk.reply(1).unwrap_err();
        assert_eq!((failure.status, failure.procs), (Status::GROUP_CONSTRUCT_ABORT, vec![proc(2)]));
        assert_eq!(failure.message, "group g: job:2 has ended");
        told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[1]);
    }
    // an optional group is made without it; also a whole job may end
    let mut talk = Talk::started(V4);
    invites(&mut talk, 1, [Info::new(&keys::GROUP_OPTIONAL, true)]);
    talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 1, []));
    talk.push(&end_of(proc(2)));
    let Ok(Reply::Group(group)) = talk.reply(1) else { panic!("no group") };
    assert_eq!((&*group.members, group.partial), (&[proc(0), proc(1)][..], true));
    told(&mut talk, Status::GROUP_CONSTRUCT_COMPLETE, &[1]);
    invites(&mut talk, 2, []);
    let failure = talk.reply(2).unwrap_err();
    assert_eq!(failure.procs, [proc(2)], "it has ended before");
    told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[1]);
}

#[test]
fn grp_06_the_end_of_a_leader_is_noticed() {
    let mut talk = Talk::started(V4);
    accepts(&mut talk, 1);
    talk.push(&end_of(ProcId::wildcard("job".parse().unwrap())));
    let failure = talk.reply(1).unwrap_err();
    assert_eq!((failure.status, failure.procs), (Status::GROUP_LEADER_FAILED, vec![proc(1)]));
    assert!(talk.frame().is_none());
}

#[test]
fn ended_processes_are_remembered_in_bounded_number() {
    let mut talk = Talk::started(V4);
    invites(&mut talk, 1, []);
    // more than the 4096 that are remembered
    (10..4200).for_each(|rank| talk.push(&end_of(proc(rank))));
    talk.client.expire(1);
    assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_TIMEOUT);
    told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[1, 2]);
    for (rank, is_remembered) in [(10, true), (4199, false)] {
        let invite = GroupInvite::new("g".parse().unwrap(), vec![proc(rank)]);
        talk.client.request(2, Request::GroupInvite(invite));
        sent(&mut talk);
        talk.client.expire(2);
        let status = talk.reply(2).unwrap_err().status;
        assert_eq!(status == Status::GROUP_CONSTRUCT_ABORT, is_remembered, "{rank}: {status}");
    }
}

#[test]
fn gen_05_directives_that_are_required_of_an_invitation_are_carried_out_or_refused() {
    let required =
        |key: &str| Info::dynamic(key.parse().unwrap(), true).with_flags(pmix_types::InfoFlags::REQUIRED);
    let mut talk = Talk::started(V4);
    invites(&mut talk, 1, [Info::required(&keys::GROUP_OPTIONAL, true), Info::required(&keys::TIMEOUT, 5)]);
    talk.push(&of_group(Status::GROUP_INVITE_DECLINED, 1, []));
    talk.push(&of_group(Status::GROUP_INVITE_DECLINED, 2, []));
    let Ok(Reply::Group(group)) = talk.reply(1) else { panic!("no group") };
    assert_eq!(group.members, [proc(0)]);
    for key in [keys::GROUP_ASSIGN_CONTEXT_ID.name(), keys::GROUP_NOTIFY_TERMINATION.name(), "some.key"] {
        let mut invite = GroupInvite::new("g".parse().unwrap(), vec![proc(1)]);
        invite.directives = [required(key)].into_iter().collect();
        for request in [Request::GroupInvite(invite), join([required(key)])] {
            talk.client.request(2, request);
            assert_eq!(talk.reply(2).unwrap_err().status, Status::ERR_NOT_SUPPORTED, "{key}");
            assert!(talk.frame().is_none());
        }
        // what nobody requires may be left undone
        invites(&mut talk, 3, [Info::dynamic(key.parse().unwrap(), true)]);
        talk.push(&of_group(Status::GROUP_INVITE_DECLINED, 1, []));
        assert_eq!(talk.reply(3).unwrap_err().status, Status::GROUP_CONSTRUCT_ABORT);
        told(&mut talk, Status::GROUP_CONSTRUCT_ABORT, &[2]);
    }
    talk.client.request(4, join([limit(-1)]));
    assert_eq!(talk.reply(4).unwrap_err().status, Status::ERR_BAD_PARAM);
}

#[test]
fn grp_11_a_group_has_no_name_of_a_namespace() {
    let mut talk = Talk::started(V4);
    let id = || "job".parse().unwrap();
    let construct = pmix_types::message::GroupConstruct::new(id(), vec![proc(0), proc(1)]);
    for request in
        [Request::GroupConstruct(construct), Request::GroupInvite(GroupInvite::new(id(), vec![proc(1)]))]
    {
        talk.client.request(1, request);
        if let Some(frame) = talk.frame() {
            talk.answer(frame.tag, Status::SUCCESS);
        }
        assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_EXISTS);
        assert!(talk.frame().is_none());
    }
}

#[test]
fn con_02_gen_12_servers_are_not_told_of_the_limit_of_a_connect() {
    let mut talk = Talk::started(V4);
    let all = vec![proc(0), proc(1)];
    let directives = || [Info::required(&keys::TIMEOUT, 1), Info::new(&keys::CONNECT_XCHG_ONLY, true)];
    let connect = Connect::new(all.clone()).with_directives(directives().into_iter().collect());
    let mut disconnect = Disconnect::new(all);
    disconnect.directives = directives().into_iter().collect();
    for request in [Request::Connect(connect), Request::Disconnect(disconnect)] {
        talk.client.request(1, request);
        let (tag, asked) = talk.asked();
        let Ask::Operation(asked) = asked else { panic!("{asked:?}") };
        let left = asked.directives().map(|left| left.as_slice());
        assert_eq!(left, Some(&[Info::new(&keys::CONNECT_XCHG_ONLY, true)][..]));
        talk.client.expire(1);
        assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_TIMEOUT);
        talk.answer(tag, Status::SUCCESS);
        assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
    }
    let mut senseless = Connect::new(vec![proc(0)]);
    senseless.directives = [limit(-1)].into_iter().collect();
    talk.client.request(2, Request::Connect(senseless));
    assert_eq!(talk.reply(2).unwrap_err().status, Status::ERR_BAD_PARAM);
}

#[test]
fn gen_12_some_clocks_run_in_the_process() {
    let mut invite = GroupInvite::new("g".parse().unwrap(), vec![proc(1)]);
    invite.directives = [limit(3)].into_iter().collect();
    assert_eq!(own_limit(&Request::GroupInvite(invite)).map(|limit| limit.as_secs()), Some(3));
    assert_eq!(own_limit(&join([limit(2)])).map(|limit| limit.as_secs()), Some(2));
    let mut declines = GroupJoin::new("g".parse().unwrap(), proc(1), GroupOpt::DECLINE);
    declines.directives = [limit(2)].into_iter().collect();
    let mut connect = Connect::new(vec![proc(0), proc(1)]);
    connect.directives = [limit(4)].into_iter().collect();
    assert_eq!(own_limit(&Request::Connect(connect)).map(|limit| limit.as_secs()), Some(4));
    for request in [
        Request::Connect(Connect::new(vec![])),
        join([]),
        join([limit(0)]),
        join([limit(-4)]),
        Request::GroupJoin(declines),
    ] {
        assert_eq!(own_limit(&request), None);
    }
}

#[test]
fn grp_03_a_server_that_makes_the_group_speaks_for_leader_and_members() {
    let by_server = |code, more: Vec<Info>| {
        let Push::Event(mut event) = of_group(code, 0, more) else { unreachable!() };
        event.source = ProcId::new("server".parse().unwrap(), Rank::from_raw(0));
        Push::Event(event)
    };
    let mut talk = Talk::started(V4);
    let invite = GroupInvite::new("g".parse().unwrap(), vec![proc(0), proc(1)]);
    talk.client.request(1, Request::GroupInvite(invite));
    for _ in ["listens", "invites"] {
        let (tag, _) = talk.asked();
        talk.answer(tag, Status::SUCCESS);
    }
    let about = Info::new(&keys::EVENT_AFFECTED_PROC, proc(1));
    talk.push(&by_server(Status::GROUP_INVITE_ACCEPTED, vec![about]));
    let (_, Ask::Operation(Request::NotifyEvent(announced))) = talk.asked() else {
        panic!("the group is not announced")
    };
    assert_eq!(announced.event.code, Status::GROUP_CONSTRUCT_COMPLETE);
    assert!(matches!(talk.reply(1), Ok(Reply::Group(group)) if group.members == [proc(0), proc(1)]));

    let mut talk = Talk::started(V4);
    let join = GroupJoin::new("g".parse().unwrap(), proc(1), GroupOpt::ACCEPT);
    talk.client.request(1, Request::GroupJoin(join));
    for _ in ["listens", "accepts"] {
        let (tag, _) = talk.asked();
        talk.answer(tag, Status::SUCCESS);
    }
    let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(vec![proc(1), proc(0)]));
    talk.push(&by_server(Status::GROUP_CONSTRUCT_COMPLETE, vec![members]));
    assert!(matches!(talk.reply(1), Ok(Reply::Group(group)) if group.members == [proc(1), proc(0)]));
}

/// Such as the news that a group is not made.
#[test]
fn what_the_library_asks_by_itself_is_not_answered_to_the_process() {
    let mut talk = Talk::started(V4);
    talk.client.request(1, Request::GroupInvite(GroupInvite::new("g".parse().unwrap(), vec![proc(1)])));
    for _ in ["listens", "invites"] {
        let (tag, _) = talk.asked();
        talk.answer(tag, Status::SUCCESS);
    }
    talk.client.expire(1);
    assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_TIMEOUT);
    let (tag, Ask::Operation(Request::NotifyEvent(news))) = talk.asked() else {
        panic!("the others are not told")
    };
    assert_eq!(news.event.code, Status::GROUP_CONSTRUCT_ABORT);
    talk.client.expire(0);
    talk.client.give_up(&[0].into());
    assert!(talk.client.next_delivery().is_none() && !talk.client.is_idle());
    talk.answer(tag, Status::SUCCESS);
    assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
}

/// The server may confirm an event of an invitation late, or not at all, after the request has had its answer.
#[test]
fn grp_03_a_request_that_has_its_answer_has_no_second_one_when_its_time_is_over() {
    let mut talk = Talk::started(V4);
    talk.client.request(1, join([limit(1)]));
    let (tag, _) = talk.asked();
    talk.answer(tag, Status::SUCCESS);
    let (tag, Ask::Operation(Request::NotifyEvent(_))) = talk.asked() else { panic!("it does not accept") };
    talk.push(&of_group(Status::GROUP_CONSTRUCT_ABORT, 1, []));
    assert_eq!(talk.reply(1).unwrap_err().status, Status::GROUP_CONSTRUCT_ABORT);
    talk.client.expire(1);
    assert!(talk.client.next_delivery().is_none() && !talk.client.is_idle());
    talk.answer(tag, Status::ERR_NOT_SUPPORTED);
    assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
}

/// A server may do at once what it is asked, and says so.
#[test]
fn grp_03_what_a_server_has_done_at_once_does_not_end_an_invitation() {
    let mut talk = Talk::started(V4);
    talk.client.request(1, join([]));
    for what in ["listens", "accepts"] {
        let (tag, _) = talk.asked();
        talk.answer(tag, Status::OPERATION_SUCCEEDED);
        assert!(talk.client.next_delivery().is_none(), "it {what}");
    }
    let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(vec![proc(1), proc(0)]));
    talk.push(&of_group(Status::GROUP_CONSTRUCT_COMPLETE, 1, [members]));
    assert!(matches!(talk.reply(1), Ok(Reply::Group(_))));
    assert!(talk.client.next_delivery().is_none() && talk.client.is_idle());
}

#[test]
fn grp_03_no_process_answers_for_another() {
    let about = |rank| [Info::new(&keys::EVENT_AFFECTED_PROC, proc(rank))];
    let mut talk = Talk::started(V4);
    invites(&mut talk, 1, []);
    // rank 2 declines for rank 1, and accepts for it
    talk.push(&of_group(Status::GROUP_INVITE_DECLINED, 2, about(1)));
    talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, 2, about(1)));
    assert!(talk.client.next_delivery().is_none() && talk.frame().is_none());
    for rank in [1, 2] {
        talk.push(&of_group(Status::GROUP_INVITE_ACCEPTED, rank, about(rank)));
    }
    assert!(talk.reply(1).is_ok());
    // nor does it give up the group of another
    let mut talk = Talk::started(V4);
    accepts(&mut talk, 1);
    talk.push(&of_group(Status::GROUP_CONSTRUCT_ABORT, 2, about(1)));
    assert!(talk.client.next_delivery().is_none());
    talk.push(&of_group(Status::GROUP_CONSTRUCT_ABORT, 1, about(1)));
    assert_eq!(talk.reply(1).unwrap_err().status, Status::GROUP_CONSTRUCT_ABORT);
}

#[test]
fn grp_03_no_process_of_another_job_answers_for_one() {
    let of = |nspace: &str, rank| ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank));
    let by = |source: ProcId, code, about: ProcId| {
        let to = DataArray::Proc(vec![proc(0)]);
        let more = [Info::new(&keys::EVENT_AFFECTED_PROC, about), Info::new(&keys::EVENT_CUSTOM_RANGE, to)];
        let Push::Event(mut event) = of_group(code, 0, more) else { unreachable!() };
        event.source = source;
        Push::Event(event)
    };
    let mut talk = Talk::started(V4);
    // for another of its own job, which takes no part: whom it names would be told that there is no group
    talk.push(&by(of("third", 5), Status::GROUP_INVITE_ACCEPTED, of("third", 0)));
    assert!(talk.frame().is_none());
    // of an invited job for one of another
    let invite = GroupInvite::new("g".parse().unwrap(), vec![proc(1), of("second", 0)]);
    talk.client.request(1, Request::GroupInvite(invite));
    sent(&mut talk);
    talk.push(&by(of("second", 5), Status::GROUP_INVITE_DECLINED, proc(1)));
    // of a job that is known and takes no part
    let mut whole = ProcData::new(ProcId::wildcard("third".parse().unwrap()));
    whole.entries.push(KeyVal { key: keys::JOB_SIZE.key_name(), value: 9_u32.into() }.into());
    let size = Get::new(ProcId::wildcard("third".parse().unwrap()), Some(keys::JOB_SIZE.key_name()));
    talk.round(Request::Get(size), Body::Get(vec![whole])).unwrap();
    talk.push(&by(of("third", 5), Status::GROUP_INVITE_DECLINED, proc(1)));
    assert!(talk.client.next_delivery().is_none());
    // a server may
    talk.push(&by(of("server", 0), Status::GROUP_INVITE_DECLINED, proc(1)));
    assert_eq!(talk.reply(1).unwrap_err().status, Status::GROUP_CONSTRUCT_ABORT);
}
