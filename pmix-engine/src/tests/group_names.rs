//! Members that are named by the id of their group.

use pmix_types::message::{
    Abort, Allocate, Connect, Disconnect, Identity, IofPull, IofPush, JobControl, Monitor, NotifyEvent,
    RegisterEvents, Reply, Request,
};
use pmix_types::{
    AllocDirective, DataArray, DataRange, Directives, Event, Info, IofChannels, ProcId, Scope, Status, Value,
    keys,
};

use super::super::upcall::{Connected, Grouped, Upcall};
use super::super::{Answer, CallValue, Command, HostCall, UpcallRequest};
use super::group::*;
use super::harness::*;

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
fn grp_11_no_id_is_a_name_that_only_a_connected_set_may_get() {
    let mut t = Harness::new([Upcall::Connect]);
    t.job("job", "0-1");
    let peers = [0, 1].map(|rank| t.connect(&proc("job", rank)));
    for taken in ["server.connected.0", "server.tool.0", "server.", "job"] {
        let to = t.ask(&peers[0], construct(taken, [proc("job", 0)]));
        t.fails(to, Status::ERR_EXISTS);
    }
    // the next connected set
    let request = Connect::new(vec![all_of("job")]);
    let asked = [0, 1].map(|rank: usize| t.ask(&peers[rank], Request::Connect(request.clone())));
    let (id, ..) = t.upcall();
    let named = Connected { nspace: Some(nspace("server.connected.0")), ..Connected::default() };
    t.answer(id, Ok(Answer::Connected(named)));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    // what only looks like one
    for free in ["job1", "job.solver", "job.1", "job.", "server-1", "check.job.1"] {
        make(&mut t, &peers[..1], &construct(free, [proc("job", 0)]));
    }
    // a host that names a child of the job takes the next name
    let register =
        |name| HostCall::RegisterNspace { nspace: nspace(name), local_procs: Some(0), infos: vec![] };
    assert_eq!(t.called(register("job.1")).unwrap_err().status, Status::ERR_EXISTS);
    t.called(HostCall::DeregisterNspace(nspace("job.1"))).unwrap_err();
    t.called(register("job.2")).unwrap();
    let to = t.ask(&peers[0], fence([all_of("job.1")]));
    t.fenced(to);
    t.finish();
}

#[test]
fn grp_11_the_namespace_of_a_tool_is_no_name_of_a_group() {
    for group_first in [false, true] {
        let mut t = Harness::new([Upcall::ToolConnected]);
        t.job("job", "0");
        let member = t.connect(&proc("job", 0));
        if group_first {
            // before the host gives that name
            make(&mut t, std::slice::from_ref(&member), &construct("tool", [proc("job", 0)]));
        }
        let conn = t.hello_as(Identity::Tool(None), USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(proc("tool", 0))));
        if group_first {
            let Command::Refuse { failure, .. } = t.next() else { panic!("it is let in") };
            assert_eq!(failure.status, Status::ERR_EXISTS);
            t.finish();
            continue;
        }
        assert!(matches!(t.next(), Command::Accept { .. }));
        let tool = Peer { conn, proc: proc("tool", 0) };
        let to = t.ask(&member, construct("tool", [proc("job", 0)]));
        t.fails(to, Status::ERR_EXISTS);
        listen(&mut t, &member);
        listen(&mut t, &tool);
        let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![tool.proc.clone()]));
        let event = Event::new(Status::from_raw(-9), ProcId::none()).with_range(DataRange::CUSTOM);
        let event = event.with_info(range).with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("x", 0)));
        let to = t.ask(&member, Request::NotifyEvent(NotifyEvent::new(event)));
        hears(&mut t, &tool, Status::from_raw(-9), &proc("x", 0));
        t.done(to);
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
        let to = t.ask(&b, Request::NotifyEvent(NotifyEvent::new(event.with_info(range))));
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
        Upcall::Allocate,
    ]);
    t.job("job", "0-2");
    let peers = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    make(&mut t, &peers[..2], &construct("g", [proc("job", 1), proc("job", 0)]));
    let (named, members) = (vec![all_of("g")], vec![proc("job", 1), proc("job", 0)]);
    let mut abort = Abort::new(1, "".into());
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
    t.answer(id, Ok(Answer::from(Vec::<Info>::new())));
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
    let affected = Directives::new().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(named.clone()));
    let to =
        t.ask(&peers[2], Request::Allocate(Allocate::new(AllocDirective::NEW).with_directives(affected)));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Allocate(allocate) = &request else { panic!("{request:?}") };
    let affected = allocate.directives.get_value(keys::EVENT_AFFECTED_PROCS.name());
    assert_eq!(affected, Some(&DataArray::Proc(members.clone()).into()));
    t.answer(id, Ok(Answer::from(Vec::<Info>::new())));
    assert!(matches!(t.ok(to), Reply::Info(_)));
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
