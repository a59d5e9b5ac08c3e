//! Tools that attach again: the wire of the C library opens one more connection then.

use pmix_types::message::{Finalize, Identity, QueryInfo, RegisterEvents, Reply, Request, Spawn};
use pmix_types::{App, DataArray, DataRange, Event, Info, ProcId, Query, Status, Uid, keys};

use super::super::upcall::{QueryResults, Upcall};
use super::super::{Answer, Command, ConnId, HostCall, PeerCred};
use super::harness::*;
use crate::UpcallRequest;
use crate::connections::admission::MAX_CONNECTIONS;

const CODE: Status = Status::from_raw(-9_000_000);

fn tool() -> ProcId {
    proc("tool", 0)
}

const fn process(uid: Uid, pid: Option<i32>) -> PeerCred {
    PeerCred { uid, gid: None, pid }
}

fn happened() -> Event {
    Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL)
}

/// A connection under the tool's name, and why it is refused.
#[track_caller]
fn attach(t: &mut Harness, peer: PeerCred, reattaches: bool) -> Result<Peer, Status> {
    let conn = t.hello_of(Identity::Tool(Some(tool())), peer, reattaches);
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(tool())));
    outcome(t, conn)
}

#[track_caller]
fn outcome(t: &mut Harness, conn: ConnId) -> Result<Peer, Status> {
    match t.next() {
        Command::Accept { conn: accepted, welcome } => {
            assert_eq!((accepted, &welcome.proc), (conn, &tool()));
            Ok(Peer { conn, proc: tool() })
        }
        Command::Refuse { conn: refused, failure } => {
            assert_eq!(refused, conn);
            Err(failure.status)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn tol_12_tol_09e_a_process_attaches_again_under_its_name_and_no_other_does() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let first = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    for (peer, reattaches) in [
        (process(USER.0, Some(41)), true),
        (process(OTHER_USER.0, Some(40)), true),
        (process(USER.0, None), true),
        // on our own wire a process may be several tools
        (process(USER.0, Some(40)), false),
    ] {
        assert_eq!(attach(&mut t, peer, reattaches).unwrap_err(), Status::ERR_EXISTS, "{peer:?}");
    }
    let second = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    assert_eq!(t.engine.stats().connections, 2);
    // the name is taken until both are gone
    t.lose(&first);
    assert_eq!(attach(&mut t, process(USER.0, Some(41)), true).unwrap_err(), Status::ERR_EXISTS);
    t.lose(&second);
    let other = attach(&mut t, process(USER.0, Some(41)), true).unwrap();
    t.lose(&other);
    t.finish();
}

#[test]
fn tol_17_the_host_hears_of_a_tool_that_is_lost_with_its_last_connection_and_of_none_that_finalizes() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::ToolLost, Upcall::ClientLost]);
    let first = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    let second = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    t.lose(&first);
    t.quiet();
    t.lose(&second);
    let (id, caller, request) = t.upcall();
    assert_eq!((caller.proc, caller.uid), (tool(), USER.0));
    assert!(matches!(request, UpcallRequest::ToolLost(lost) if lost.proc == tool() && lost.reason == RESET));
    t.answer(id, Ok(Answer::Done));
    let third = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    let to = t.ask(&third, Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose(&third);
    // and one that the host has not let in yet was none
    let conn = t.hello_as(Identity::Tool(None), USER);
    let (id, ..) = t.upcall();
    t.lose_conn(conn);
    t.cancelled(id);
    t.answer(id, Ok(Answer::Identity(tool())));
    t.finish();
}

#[test]
fn tol_17_the_host_hears_of_a_tool_that_finalizes_on_its_last_connection_and_lets_it_wait() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::ToolFinalized, Upcall::ToolLost]);
    let attach = |t: &mut Harness| attach(t, process(USER.0, Some(40)), true).unwrap();
    let (first, second) = (attach(&mut t), attach(&mut t));
    let to = t.ask(&first, Request::Finalize(Finalize::new()));
    t.done(to);
    let to = t.ask(&second, Request::Finalize(Finalize::new()));
    let (id, caller, request) = t.upcall();
    assert_eq!((caller.proc, caller.uid), (tool(), USER.0));
    assert!(matches!(request, UpcallRequest::ToolFinalized(ended) if ended.proc == tool()));
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.lose(&first);
    t.lose(&second);
    t.quiet();
    // one that goes without finalize while another connection of it only has to be closed
    let (first, second) = (attach(&mut t), attach(&mut t));
    let to = t.ask(&first, Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose(&second);
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::ToolLost(_)), "{request:?}");
    t.answer(id, Ok(Answer::Done));
    t.lose(&first);
    t.finish();
}

#[test]
fn a_spawn_of_a_tool_that_is_lost_is_cancelled_and_that_of_a_client_goes_on() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::ToolLost, Upcall::Spawn]);
    t.job("job", "0");
    let client = t.connect(&proc("job", 0));
    let lost = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    let spawn = || Request::Spawn(Spawn::new(vec![App::new("prog", 1)]));
    t.ask(&client, spawn());
    let (of_client, ..) = t.upcall();
    t.ask(&lost, spawn());
    let (of_tool, ..) = t.upcall();
    t.lose(&lost);
    // before it hears of the loss: it may not have begun
    t.cancelled(of_tool);
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::ToolLost(_)), "{request:?}");
    t.answer(id, Ok(Answer::Done));
    t.answer(of_tool, Err(Status::ERR_JOB_CANCELED.into()));
    t.lose(&client);
    t.quiet();
    t.answer(of_client, Ok(Answer::Spawned(nspace("child"))));
    t.finish();
}

#[test]
fn tol_12_processes_that_the_kernel_does_not_name_are_not_taken_for_one() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let first = attach(&mut t, process(USER.0, None), true).unwrap();
    assert_eq!(attach(&mut t, process(USER.0, None), true).unwrap_err(), Status::ERR_EXISTS);
    t.lose(&first);
    let ours = attach(&mut t, process(USER.0, Some(40)), false).unwrap();
    assert_eq!(attach(&mut t, process(USER.0, Some(40)), true).unwrap_err(), Status::ERR_EXISTS);
    t.lose(&ours);
    t.finish();
}

#[test]
fn tol_12_a_process_that_attaches_twice_at_once_is_let_in_twice() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let wish = || Identity::Tool(Some(tool()));
    let asking = [(); 2].map(|()| t.hello_of(wish(), process(USER.0, Some(40)), true));
    let answers = [t.upcall().0, t.upcall().0];
    for (conn, id) in asking.into_iter().zip(answers) {
        t.answer(id, Ok(Answer::Identity(tool())));
        assert!(outcome(&mut t, conn).is_ok());
    }
    asking.into_iter().for_each(|conn| t.lose_conn(conn));
    t.finish();
}

#[test]
fn tol_12_tol_17_each_connection_has_its_own_registrations_and_requests() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::Query]);
    t.job("job", "0");
    let [first, second] = [(); 2].map(|()| attach(&mut t, process(USER.0, Some(40)), true).unwrap());
    let to = t.ask(&first, Request::RegisterEvents(RegisterEvents::new(vec![CODE])));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let waits = t.ask(&first, Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)])));
    let (asked, ..) = t.upcall();

    // what the first has asked for goes on, and an event comes once
    t.lose(&second);
    t.quiet();
    t.answer(asked, Ok(Answer::Query(QueryResults::complete(Vec::new()))));
    assert!(matches!(t.ok(waits), Reply::Query(_)));
    t.called(HostCall::NotifyEvent(happened())).unwrap();
    assert!(matches!(t.next(), Command::Push { conn, .. } if conn == first.conn));
    t.quiet();

    // the same the other way around: what was asked for on the first ends with it, and the second goes on
    let second = attach(&mut t, process(USER.0, Some(40)), true).unwrap();
    t.ask(&first, Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)])));
    let (asked, ..) = t.upcall();
    t.lose(&first);
    t.cancelled(asked);
    t.called(HostCall::NotifyEvent(happened())).unwrap();
    t.quiet();
    assert_eq!(kept_for(&mut t, &second), 2);
    t.lose(&second);
    t.finish();
}

/// The events that a connection is given which were kept.
fn kept_for(t: &mut Harness, peer: &Peer) -> usize {
    let to = t.ask(peer, Request::RegisterEvents(RegisterEvents::new(vec![CODE])));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let pushed = t.drain();
    assert!(pushed.iter().all(|command| matches!(command, Command::Push { .. })), "{pushed:?}");
    pushed.len()
}

#[test]
fn tol_12_evt_14_a_tool_that_has_attached_again_is_gone_with_its_last_connection() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let named = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![tool()]));
    t.called(HostCall::NotifyEvent(happened().with_range(DataRange::CUSTOM).with_info(named))).unwrap();
    let [first, second] = [(); 2].map(|()| attach(&mut t, process(USER.0, Some(40)), true).unwrap());
    assert_eq!(kept_for(&mut t, &first), 1);
    t.lose(&first);
    // nor does one that has only asked for the name, and gives up, end it
    let impostor = t.hello_of(Identity::Tool(Some(tool())), process(USER.0, Some(41)), true);
    let (id, ..) = t.upcall();
    t.lose_conn(impostor);
    t.cancelled(id);
    assert_eq!(kept_for(&mut t, &second), 1, "each registration gets it");
    t.lose(&second);
    let next = attach(&mut t, process(USER.0, Some(41)), true).unwrap();
    assert_eq!(kept_for(&mut t, &next), 0, "it is not for another process");
    t.lose(&next);
    t.finish();
}

#[test]
fn tol_12_connections_of_a_tool_are_limited() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    let own = process(USER.0, Some(40));
    let held: Vec<_> = (0..MAX_CONNECTIONS).map(|_| attach(&mut t, own, true).unwrap()).collect();
    assert_eq!(attach(&mut t, own, true).unwrap_err(), Status::ERR_RESOURCE_BUSY);
    t.lose(&held[0]);
    let again = attach(&mut t, own, true).unwrap();
    held[1..].iter().chain([&again]).for_each(|peer| t.lose(peer));
    t.finish();
}
