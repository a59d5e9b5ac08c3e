//! Hello, finalize, and what may be said in between.

use std::sync::Arc;

use pmix_types::message::{
    Finalize, Hello, Identity, IofPull, Output, QueryInfo, RegisterEvents, Reply, Request, Welcome,
};
use pmix_types::{Directives, Event, Gid, Info, IofChannels, Pid, ProcId, Query, Scope, Status, Uid, keys};

use super::super::upcall::{ClientConnected, ClientFinalized, HostObject, ToolConnected, Upcall};
use super::super::{Answer, Caller, Command, ConnId, HostCall, Input, PeerCred, UpcallRequest};
use super::harness::*;

fn welcome(t: &Harness, rank: u32) -> Welcome {
    let job = t.engine.cx.jobs.get("job").unwrap().data.clone();
    Welcome::new(proc("job", rank), proc("server", 0), NODE.into()).with_job(job)
}

#[test]
fn ini_03_sec_01_a_registered_client_is_let_in_with_its_job_data() {
    let mut t = Harness::new([]);
    t.job("job", "0-1;2-3");
    let conn = t.hello(&proc("job", 1));
    let welcome = welcome(&t, 1);
    assert_eq!(welcome.job.as_ref().unwrap().size(), Some(4));
    t.expect([Command::Accept { conn, welcome }]);
    assert_eq!(t.engine.stats().connections, 1);
    t.finish();
}

#[test]
fn ini_07_cli_05_the_client_waits_for_the_host() {
    let mut t = Harness::new([Upcall::ClientConnected]);
    t.job("job", "0-1");
    let mut hello = Hello::new(Identity::Client(proc("job", 0)), Pid(7));
    hello.directives = Directives::new().with(&keys::PROGRAMMING_MODEL, "MPI");
    let conn = ConnId(9);
    let peer = PeerCred { uid: USER.0, gid: Some(USER.1), pid: None };
    t.feed(Input::Hello { conn, peer, hello: hello.clone(), reattaches: false });
    let (id, caller, request) = t.upcall();
    assert_same(
        &caller,
        &Caller { proc: proc("job", 0), uid: USER.0, gid: Some(USER.1), object: None, trace: None },
    );
    let expected = ClientConnected::new(proc("job", 0)).with_directives(hello.directives);
    assert_eq!(request, UpcallRequest::ClientConnected(expected));

    // nothing of that rank reaches the host before
    let early = t.ask_on(conn, Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)])));
    t.fails(early, Status::ERR_INIT);
    t.answer(id, Ok(Answer::Done));
    let welcome = welcome(&t, 0);
    t.expect([Command::Accept { conn, welcome }]);
    t.finish();
}

#[test]
fn cli_05_sec_01_sec_03_a_client_the_host_refuses_is_dropped() {
    let mut t = Harness::new([Upcall::ClientConnected]);
    t.job("job", "0");
    let conn = t.hello(&proc("job", 0));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.expect([Command::Refuse { conn, failure: failure(Status::ERR_NO_PERMISSIONS) }]);
    assert!(t.engine.cx.conns.is_empty());
    // late and double answers are dropped
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    t.lose_conn(conn);
    t.finish();
}

#[test]
fn ini_07_ini_10_without_the_entries_nobody_waits() {
    let (mut t, peers) = Harness::local(1);
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new()));
    t.done(to);
    t.finish();
}

#[test]
fn cli_02_sec_01_sec_03_a_connection_of_another_user_is_dropped() {
    for user in [(OTHER_USER.0, USER.1), (USER.0, OTHER_USER.1), (Uid::ROOT, Gid::ROOT)] {
        let mut t = Harness::new([Upcall::ClientConnected]);
        t.job("job", "0");
        let conn = t.hello_as(Identity::Client(proc("job", 0)), user);
        match t.next() {
            Command::Refuse { conn: refused, failure } => {
                assert_eq!((refused, failure.status), (conn, Status::ERR_NO_PERMISSIONS));
                assert!(failure.message.contains(&format!("uid {}", user.0)), "{failure}");
            }
            other => panic!("{other:?}"),
        }
        assert!(t.engine.cx.conns.is_empty());
        assert_eq!(t.engine.stats().refused, 1);
        let to = t.ask_on(conn, fence_all());
        t.fails(to, Status::ERR_INIT);
        t.lose_conn(conn);
        t.finish();
    }
}

#[test]
fn cli_01_cli_03_who_is_not_registered_is_refused() {
    let mut t = Harness::new([Upcall::ClientConnected]);
    t.register(spec("job", "0-1"), None);
    t.register_client(&proc("job", 0));
    for stranger in [proc("job", 1), proc("job", 2), proc("other", 0), all_of("job"), proc("", 0)] {
        let conn = t.hello(&stranger);
        match t.next() {
            Command::Refuse { conn: refused, failure } => {
                assert_eq!((refused, failure.status), (conn, Status::ERR_NO_PERMISSIONS));
            }
            other => panic!("{stranger}: {other:?}"),
        }
    }
    assert!(t.engine.cx.conns.is_empty());
    t.finish();
}

#[test]
fn cli_04_the_host_gets_its_object_back() {
    let mut t =
        Harness::new([Upcall::ClientConnected, Upcall::ClientFinalized, Upcall::Abort, Upcall::ClientLost]);
    t.register(spec("job", "0-1"), None);
    let object: HostObject = Arc::new(String::from("mine"));
    t.register_client_with(&proc("job", 0), Some(object.clone()));
    t.register_client_with(&proc("job", 1), Some(object.clone()));
    #[track_caller]
    fn check(caller: &Caller, object: &HostObject) {
        assert!(Arc::ptr_eq(caller.object.as_ref().unwrap(), object));
    }

    let conn = t.hello(&proc("job", 0));
    let (id, caller, _) = t.upcall();
    check(&caller, &object);
    t.answer(id, Ok(Answer::Done));
    assert!(matches!(t.next(), Command::Accept { .. }));

    let to = t.ask_on(conn, Request::Abort(pmix_types::message::Abort::new(1, "".into())));
    let (id, caller, _) = t.upcall();
    check(&caller, &object);
    t.answer(id, Ok(Answer::Done));
    t.done(to);

    let to = t.ask_on(conn, Request::Finalize(Finalize::new()));
    let (id, caller, _) = t.upcall();
    check(&caller, &object);
    t.answer(id, Ok(Answer::Done));
    t.done(to);

    let peer = t.connect(&proc("job", 1));
    t.lose(&peer);
    let (id, caller, _) = t.upcall();
    check(&caller, &object);
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn cli_06_ini_07_finalize_tells_the_host_and_waits() {
    let mut t = Harness::new([Upcall::ClientFinalized, Upcall::ClientLost]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::Finalize(Finalize::new()));
    let (id, caller, request) = t.upcall();
    assert_same(
        &caller,
        &Caller { proc: peer.proc.clone(), uid: USER.0, gid: Some(USER.1), object: None, trace: None },
    );
    assert_eq!(request, UpcallRequest::ClientFinalized(ClientFinalized::new(peer.proc.clone())));
    // gen_10: it has said goodbye already
    let late = t.ask(&peer, fence_all());
    t.fails(late, Status::ERR_INIT);
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    // its end is no failure
    t.lose(&peer);
    t.finish();
}

#[test]
fn ini_07_what_the_host_says_of_a_finalize_reaches_the_client() {
    let mut t = Harness::new([Upcall::ClientFinalized, Upcall::ClientLost]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::Finalize(Finalize::new()));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    // it has finalized all the same
    let late = t.ask(&peer, fence_all());
    t.fails(late, Status::ERR_INIT);
    t.lose(&peer);
    t.finish();
}

#[test]
fn gen_05_gen_12_ini_07_directives_of_finalize_are_carried_out_or_refused() {
    let mut t = Harness::new([Upcall::ClientFinalized, Upcall::ClientLost]);
    t.job("job", "0-4");
    let within = |seconds| Directives::new().with(&keys::TIMEOUT, seconds);
    let peers = [0, 1, 2, 3, 4].map(|rank| t.connect(&proc("job", rank)));
    // no answer in time, and one that comes later
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new().with_directives(within(2))));
    let (id, ..) = t.upcall();
    t.advance(2);
    t.fails(to, Status::ERR_TIMEOUT);
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    // one in time
    let to = t.ask(&peers[1], Request::Finalize(Finalize::new().with_directives(within(2))));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    // it does not wait for an answer
    t.ask(&peers[2], Request::Finalize(Finalize::new().with_directives(within(2))));
    let (id, ..) = t.upcall();
    t.lose(&peers[2]);
    t.cancelled(id);
    // the host hears of it although a directive is wrong
    let unknown = Directives::new().require(&keys::COLLECT_DATA, true);
    for (peer, directives, status) in
        [(&peers[3], unknown, Status::ERR_NOT_SUPPORTED), (&peers[4], within(-1), Status::ERR_BAD_PARAM)]
    {
        let to = t.ask(peer, Request::Finalize(Finalize::new().with_directives(directives)));
        let (id, _, request) = t.upcall();
        assert_eq!(request, UpcallRequest::ClientFinalized(ClientFinalized::new(peer.proc.clone())));
        t.fails(to, status);
        t.answer(id, Ok(Answer::Done));
        let late = t.ask(peer, fence_all());
        t.fails(late, Status::ERR_INIT);
    }
    for peer in [0, 1, 3, 4] {
        t.lose(&peers[peer]);
    }
    t.finish();
}

#[test]
fn cli_06_a_tool_that_finalizes_is_no_client() {
    let mut t =
        Harness::new([Upcall::ToolConnected, Upcall::ClientFinalized, Upcall::ClientLost, Upcall::ToolLost]);
    let conn = t.hello_as(Identity::Tool(None), USER);
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(proc("tool", 0))));
    assert!(matches!(t.next(), Command::Accept { .. }));
    let to = t.ask_on(conn, Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose_conn(conn);
    t.finish();
}

#[test]
fn gen_10_nothing_works_before_init_or_after_finalize() {
    let (mut t, peers) = Harness::local(1);
    let to = t.ask_on(ConnId(77), commit([]));
    t.fails(to, Status::ERR_INIT);
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new()));
    t.done(to);
    for request in [
        commit([]),
        get(proc("job", 0), "k"),
        fence_all(),
        Request::QueryInfo(QueryInfo::new(vec![])),
        Request::Finalize(Finalize::new()),
    ] {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_INIT);
    }
    t.finish();
}

#[test]
fn ini_08_a_finalized_process_may_come_again() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose(&peers[0]);
    let waits = t.ask(&peers[1], fence_all());
    t.quiet();
    let again = t.connect(&proc("job", 0));
    let enters = t.ask(&again, fence_all());
    assert_eq!(t.fenced(waits), modex([]));
    assert_eq!(t.fenced(enters), modex([]));
    t.finish();
}

#[test]
fn ini_08_fen_13_one_that_was_lost_and_comes_again_is_waited_for() {
    let (mut t, peers) = Harness::local(2);
    t.lose(&peers[0]);
    let fails = t.ask(&peers[1], fence_all());
    t.fails(fails, Status::ERR_PROC_TERM_WO_SYNC);
    let again = t.connect(&proc("job", 0));
    let (waits, wanted) = (t.ask(&peers[1], fence_all()), t.ask(&peers[1], get(again.proc.clone(), "k")));
    t.quiet();
    let enters = t.ask(&again, fence_all());
    for to in [waits, enters] {
        t.fenced(to);
    }
    t.commits(&again, [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(t.value(wanted), 1u32.into());
    t.finish();
}

#[test]
fn ini_08_a_second_life_that_ends_badly_is_noticed_though_the_first_connection_lingers() {
    let mut t = Harness::new([Upcall::ClientLost]);
    t.job("job", "0");
    let first = t.connect(&proc("job", 0));
    let to = t.ask(&first, Request::Finalize(Finalize::new()));
    t.done(to);
    let second = t.connect(&proc("job", 0));
    t.lose(&second);
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.lose(&first);
    t.finish();
}

#[test]
fn idn_07a_idn_07b_clones_connect_under_one_name_and_count_once() {
    let mut t = Harness::new([Upcall::ClientLost]);
    t.job("job", "0-1");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let clone = t.connect(&proc("job", 0));
    let first = t.ask(&a, fence_all());
    // the same rank again is not rank 1
    let second = t.ask(&clone, fence_all());
    t.quiet();
    let third = t.ask(&b, fence_all());
    assert_eq!(t.fenced(first), modex([]));
    assert_eq!(t.fenced(third), modex([]));
    let fourth = t.ask(&b, fence_all());
    assert_eq!(t.fenced(second), modex([]));
    assert_eq!(t.fenced(fourth), modex([]));
    // one of two is gone: the process goes on
    t.lose(&a);
    t.quiet();
    // and so it does when the younger is gone
    let younger = t.connect(&proc("job", 0));
    t.lose(&younger);
    t.quiet();
    t.lose(&clone);
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::ClientLost(lost) if lost.reason == RESET));
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn connections_of_a_process_are_limited_also_while_the_host_is_asked() {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let held: Vec<_> = (0..8).map(|_| t.connect(&proc("job", 0))).collect();
    let refused = t.hello(&proc("job", 0));
    let Command::Refuse { conn, failure } = t.next() else { panic!("it is let in") };
    assert_eq!((conn, failure.status), (refused, Status::ERR_RESOURCE_BUSY));
    assert!(failure.message.contains("already have 8 connections"), "{failure}");
    t.connect(&proc("job", 1));
    t.lose(&held[0]);
    t.connect(&proc("job", 0));
    t.finish();

    let mut t = Harness::new([Upcall::ClientConnected]);
    t.job("job", "0");
    let mut asked = Vec::new();
    for _ in 0..9 {
        t.hello(&proc("job", 0));
        asked.push(t.upcall().0);
    }
    for id in asked.drain(..8) {
        t.answer(id, Ok(Answer::Done));
        assert!(matches!(t.next(), Command::Accept { .. }));
    }
    t.answer(asked[0], Ok(Answer::Done));
    let Command::Refuse { failure, .. } = t.next() else { panic!("it is let in") };
    assert_eq!(failure.status, Status::ERR_RESOURCE_BUSY);
    t.hello(&proc("job", 0));
    let Command::Refuse { .. } = t.next() else { panic!("the host is asked in vain") };
    t.finish();
}

#[test]
fn sec_02_a_tool_needs_the_server_and_the_host() {
    let mut closed = config([Upcall::ToolConnected]);
    closed.tool_support = false;
    for config in [closed, config([])] {
        let mut t = Harness::with_config(config);
        let conn = t.hello_as(Identity::Tool(None), OTHER_USER);
        match t.next() {
            Command::Refuse { conn: refused, failure } => {
                assert_eq!((refused, failure.status), (conn, Status::ERR_NOT_SUPPORTED));
            }
            other => panic!("{other:?}"),
        }
        t.finish();
    }
}

#[test]
fn sec_02_gen_13_the_host_decides_on_a_tool_by_what_the_system_says() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let mut hello = Hello::new(Identity::Tool(Some(proc("tool", 3))), Pid(7));
    hello.directives = Directives::new().with(&keys::USERID, Uid::ROOT).with(&keys::HOSTNAME, "there");
    let conn = ConnId(1000);
    let (uid, gid) = OTHER_USER;
    t.feed(Input::Hello {
        conn,
        peer: PeerCred { uid, gid: Some(gid), pid: None },
        hello,
        reattaches: false,
    });
    let (id, caller, request) = t.upcall();
    assert_same(&caller, &Caller { proc: proc("tool", 3), uid, gid: Some(gid), object: None, trace: None });
    let directives = Directives::from(vec![
        Info::new(&keys::HOSTNAME, "there"),
        Info::new(&keys::USERID, uid),
        Info::new(&keys::GRPID, gid),
    ]);
    let expected = ToolConnected::new(Some(proc("tool", 3))).with_directives(directives);
    assert_eq!(request, UpcallRequest::ToolConnected(expected));
    t.answer(id, Ok(Answer::Identity(proc("tool", 8))));
    let welcome = Welcome::new(proc("tool", 8), proc("server", 0), NODE.into());
    t.expect([Command::Accept { conn, welcome }]);

    // a name in use is not given twice, not even that of a process which is still to come; and no name is none
    t.job("job", "0");
    for (name, status) in [
        (proc("tool", 8), Status::ERR_EXISTS),
        (proc("job", 0), Status::ERR_EXISTS),
        (ProcId::none(), Status::ERR_BAD_PARAM),
        (all_of("tool"), Status::ERR_BAD_PARAM),
    ] {
        let other = t.hello_as(Identity::Tool(None), OTHER_USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(name)));
        assert!(matches!(t.next(), Command::Refuse { conn, failure }
            if conn == other && failure.status == status));
    }
    t.lose_conn(conn);
    t.finish();
}

#[test]
fn sec_02_of_two_tools_with_one_wish_the_first_that_is_let_in_gets_it() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let wish = || Identity::Tool(Some(proc("tool", 0)));
    let asking = [t.hello_as(wish(), USER), t.hello_as(wish(), USER)];
    let answers = [t.upcall().0, t.upcall().0];
    t.answer(answers[1], Ok(Answer::Identity(proc("tool", 0))));
    assert!(matches!(t.next(), Command::Accept { conn, .. } if conn == asking[1]));
    t.answer(answers[0], Ok(Answer::Identity(proc("tool", 0))));
    assert!(matches!(t.next(), Command::Refuse { conn, failure }
        if conn == asking[0] && failure.status == Status::ERR_EXISTS));
    t.lose_conn(asking[1]);
    t.finish();
}

#[test]
fn sec_02_a_tool_that_takes_the_name_of_a_client_gets_neither_its_object_nor_its_fate() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::ClientLost]);
    t.register(spec("job", "0"), None);
    t.register_client_with(&proc("job", 0), Some(Arc::new(1u8)));
    let conn = t.hello_as(Identity::Tool(Some(proc("job", 0))), USER);
    let (id, caller, _) = t.upcall();
    assert!(caller.object.is_none());
    // clients are closed with their namespace, tools are not
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    t.quiet();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.expect([Command::Refuse { conn, failure: failure(Status::ERR_NO_PERMISSIONS) }]);
    t.finish();
}

#[test]
fn sec_03_a_tool_gone_before_the_answer_leaves_nothing() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let conn = t.hello_as(Identity::Tool(None), USER);
    let (id, ..) = t.upcall();
    t.lose_conn(conn);
    t.cancelled(id);
    t.answer(id, Ok(Answer::Identity(proc("tool", 0))));
    t.quiet();
    assert!(t.engine.cx.conns.is_empty());
    t.finish();
}

#[test]
fn tol_17_a_lost_tool_leaves_no_registration_request_or_name() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::Query, Upcall::IofPull]);
    t.job("job", "0");
    let own = proc("tool", 0);
    let attach = |t: &mut Harness| {
        let conn = t.hello_as(Identity::Tool(None), USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(own.clone())));
        assert!(matches!(t.next(), Command::Accept { conn: accepted, .. } if accepted == conn));
        Peer { conn, proc: own.clone() }
    };
    let tool = attach(&mut t);

    let event = Status::from_raw(-9_000_000);
    let registers = Request::RegisterEvents(RegisterEvents::new(vec![event]));
    let to = t.ask(&tool, registers);
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let to = t.ask(&tool, Request::IofPull(IofPull::new(vec![all_of("job")], IofChannels::STDOUT)));
    let (pulls, ..) = t.upcall();
    t.answer(pulls, Ok(Answer::Done));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    // one request is with the host, and another waits for data of a process that has not come
    t.ask(&tool, Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)])));
    let (asked, ..) = t.upcall();
    t.ask(&tool, get(proc("job", 0), "late"));

    t.lose(&tool);
    let (ends, _, request) = t.upcall();
    assert!(
        matches!(request, UpcallRequest::IofPull(request) if !request.start),
        "the host forgets the pull"
    );
    t.cancelled(asked);
    t.answer(ends, Ok(Answer::Done));
    t.quiet();
    assert!(t.engine.events.is_empty() && t.engine.iof.is_empty() && t.engine.cx.conns.is_empty());

    // neither what happens nor who is next hears of it
    t.called(HostCall::NotifyEvent(Event::new(event, proc("job", 0)))).unwrap();
    t.called(HostCall::IofDeliver(Output::new(proc("job", 0), IofChannels::STDOUT, "late".into()))).unwrap();
    let next = attach(&mut t);
    t.quiet();
    t.lose(&next);
    t.finish();
}

#[test]
fn tol_17_a_lost_tool_leaves_no_fence_that_nobody_else_has_entered() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.job("job", "0-1");
    let rank = t.connect(&proc("job", 0));
    let attach = |t: &mut Harness, own: ProcId| {
        let conn = t.hello_as(Identity::Tool(None), USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(own.clone())));
        assert!(matches!(t.next(), Command::Accept { conn: accepted, .. } if accepted == conn));
        Peer { conn, proc: own }
    };
    let tool = attach(&mut t, proc("tool", 0));
    let other = attach(&mut t, proc("other", 0));
    let (own, its) = (tool.proc.clone(), other.proc.clone());
    // with nobody, with a process that has not come, and with another tool, which goes as well
    t.ask(&tool, fence([own.clone(), proc("tool", 9)]));
    t.ask(&tool, fence([own.clone(), proc("tool", 9)]).with(&keys::TIMEOUT, 9));
    t.ask(&tool, fence([own.clone(), proc("job", 0)]));
    let three = [own.clone(), its.clone(), proc("tool", 9)];
    t.ask(&tool, fence(three.clone()));
    t.ask(&other, fence(three));
    // what a process has entered that is here goes on, until its job ends
    let both = [own.clone(), proc("job", 0), proc("job", 1)];
    t.ask(&tool, fence(both.clone()));
    let to = t.ask(&rank, fence(both.clone()));
    t.lose(&tool);
    assert_eq!(t.engine.stats().waiting, 2, "the rank and the other tool");
    t.lose(&other);
    t.quiet();
    assert_eq!(t.engine.stats().waiting, 1);
    t.called(HostCall::DeregisterNspace(rank.proc.nspace.clone())).unwrap();
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.drain();
    t.finish();
}

/// A user could have one tool after the other leave some behind.
#[test]
fn tools_of_a_user_share_one_limit_of_open_collectives() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let attach = |t: &mut Harness, name: &str| {
        let own = proc(name, 0);
        let conn = t.hello_as(Identity::Tool(None), USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(own.clone())));
        assert!(matches!(t.next(), Command::Accept { conn: accepted, .. } if accepted == conn));
        Peer { conn, proc: own }
    };
    let (first, second) = (attach(&mut t, "first"), attach(&mut t, "second"));
    let with = |tool: &Peer, rank: u32| fence([tool.proc.clone(), proc("nobody", rank)]);
    for rank in 0..1000 {
        t.ask(&first, with(&first, rank));
    }
    for rank in 0..24 {
        t.ask(&second, with(&second, rank));
    }
    let to = t.ask(&second, with(&second, 24));
    let failure = t.fails(to, Status::ERR_RESOURCE_BUSY);
    assert!(failure.message.contains("that tools of uid 1000 began"), "{failure}");
    t.lose(&first);
    t.ask(&second, with(&second, 24));
    t.quiet();
    assert_eq!(t.engine.stats().waiting, 25);
    t.lose(&second);
    t.finish();
}

#[test]
fn gen_08_an_abort_is_answered_once_though_the_host_answers_twice() {
    let mut t = Harness::new([Upcall::Abort]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::Abort(pmix_types::message::Abort::new(1, "why".into())));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    assert_same(&t.ok(to), &Reply::Done);
    t.answer(id, Err(failure(Status::ERROR)));
    t.finish();
}
