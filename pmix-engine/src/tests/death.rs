//! The end of a client in each state it can be in.

use pmix_types::message::{Finalize, Request};
use pmix_types::{Scope, Status, keys};

use super::super::upcall::{ClientLost, Upcall};
use super::super::{Answer, HostCall, UpcallId, UpcallRequest};
use super::harness::*;

const HOST: [Upcall; 4] =
    [Upcall::ClientConnected, Upcall::ClientFinalized, Upcall::ClientLost, Upcall::Fence];

fn world() -> (Harness, Peer) {
    let mut t = Harness::new(HOST);
    t.job("job", "0-1");
    let peer = t.connect(&proc("job", 0));
    (t, peer)
}

/// The host hears that a process was lost.
#[track_caller]
fn lost(t: &mut Harness, rank: u32) -> UpcallId {
    let (id, caller, request) = t.upcall();
    assert_eq!((caller.proc, caller.uid, caller.gid), (proc("job", rank), USER.0, Some(USER.1)));
    assert_eq!(request, UpcallRequest::ClientLost(ClientLost::new(proc("job", rank), RESET.into())));
    id
}

#[test]
fn a_registered_process_that_ended_before_it_came() {
    let (mut t, peer) = world();
    let to = t.ask(&peer, fence_all());
    let ended = HostCall::ClientEnded { proc: proc("job", 1), reason: "it could not be started".into() };
    assert!(t.called(ended).is_ok());
    assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).procs, [proc("job", 1)]);
    t.finish();
}

#[test]
fn a_process_the_host_is_asked_about() {
    let (mut t, peer) = world();
    let conn = t.hello(&proc("job", 1));
    let (id, ..) = t.upcall();
    let to = t.ask(&peer, fence_all());
    t.lose_conn(conn);
    // it was never in: it may still come
    t.cancelled(id);
    t.answer(id, Ok(Answer::Done));
    t.quiet();
    let other = t.connect(&proc("job", 1));
    let late = t.ask(&other, fence_all());
    t.fenced(to);
    t.fenced(late);
    t.finish();
}

#[test]
fn cli_06_a_connected_process() {
    let (mut t, peer) = world();
    t.lose(&peer);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn fen_13_a_process_awaited_by_a_fence() {
    let (mut t, peer) = world();
    let other = t.connect(&proc("job", 1));
    let to = t.ask(&other, fence_all().with(&keys::TIMEOUT, 9));
    t.lose(&peer);
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn fen_14_a_process_inside_a_fence() {
    let (mut t, peer) = world();
    let other = t.connect(&proc("job", 1));
    t.ask(&peer, fence_all().with(&keys::TIMEOUT, 9));
    t.lose(&peer);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    let to = t.ask(&other, fence_all());
    t.fenced(to);
    t.finish();
}

#[test]
fn get_26_a_process_that_waits_for_data() {
    let (mut t, peer) = world();
    t.ask(&peer, get(proc("job", 1), "k").with(&keys::TIMEOUT, 9));
    t.lose(&peer);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    let other = t.connect(&proc("job", 1));
    t.commits(&other, [entry(Scope::GLOBAL, "k", 1u32)]);
    t.finish();
}

#[test]
fn get_26_a_process_whose_data_is_waited_for() {
    let (mut t, peer) = world();
    let other = t.connect(&proc("job", 1));
    let to = t.ask(&other, get(proc("job", 0), "k").with(&keys::TIMEOUT, 9));
    t.lose(&peer);
    assert_eq!(t.fails(to, Status::ERR_NOT_FOUND).procs, [proc("job", 0)]);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn cli_06_a_process_that_has_said_goodbye_is_not_lost_though_the_host_still_thinks() {
    let (mut t, peer) = world();
    t.ask(&peer, Request::Finalize(Finalize::new()));
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.cancelled(id);
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn ini_08_a_finalized_process_is_not_lost() {
    let (mut t, peer) = world();
    let to = t.ask(&peer, Request::Finalize(Finalize::new()));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.lose(&peer);
    t.quiet();
    // a fence may still wait for it: it may come again, or the host says that it has ended
    let other = t.connect(&proc("job", 1));
    let to = t.ask(&other, fence_all());
    t.quiet();
    assert!(t.called(HostCall::ClientEnded { proc: proc("job", 0), reason: "exit status 0".into() }).is_ok());
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    t.finish();
}

#[test]
fn gen_08_requests_of_a_process_that_finalized_meanwhile_are_still_answered() {
    let (mut t, peer) = world();
    let other = t.connect(&proc("job", 1));
    let to = t.ask(&peer, get(proc("job", 1), "k"));
    let bye = t.ask(&peer, Request::Finalize(Finalize::new()));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(bye);
    t.commits(&other, [entry(Scope::GLOBAL, "k", 1u32)]);
    t.value(to);
    t.finish();
}

#[test]
fn a_connection_lost_twice_or_never_known_is_no_news() {
    let (mut t, peer) = world();
    t.lose(&peer);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    t.lose(&peer);
    t.quiet();
    t.lose_conn(super::super::ConnId(999));
    t.finish();
}

#[test]
fn the_host_says_it_first_and_the_connection_later() {
    let (mut t, peer) = world();
    assert!(t.called(HostCall::ClientEnded { proc: proc("job", 0), reason: "signal 9".into() }).is_ok());
    t.quiet();
    t.lose(&peer);
    let id = lost(&mut t, 0);
    t.answer(id, Ok(Answer::Done));
    let other = t.connect(&proc("job", 1));
    let to = t.ask(&other, fence_all());
    assert!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).message.contains("signal 9"));
    t.finish();
}
