//! Processes that are connected connect again.

use pmix_types::message::{Finalize, Reply, Request};
use pmix_types::{Rank, Status, keys};

use super::super::Answer;
use super::super::upcall::Connected;
use super::connected::*;
use super::harness::*;

#[test]
fn con_15_a_connected_set_connects_again_and_nothing_changes() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()).with(&keys::CONNECT_EARLY_TERM_ALLOWED, true));
    listen(&mut t, &peers[0]);
    // the host has named them anew
    let other = Connected { nspace: Some(nspace("other")), ranks: Vec::new(), ..named() };
    let again = || connect(everybody()).with(&keys::CONNECT_NOTIFY_EACH, true);
    let asked = peers.each_ref().map(|peer| t.ask(peer, again()));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(other)));
    for (to, rank) in asked.into_iter().zip([11, 12, 10]) {
        let Reply::Connect(reply) = t.ok(to) else { panic!() };
        assert_eq!((reply.nspace, reply.rank), (Some(nspace("asm")), Some(Rank::from_raw(rank))));
        assert_eq!(reply.jobs.len(), 1);
    }
    assert_eq!(t.engine.connected.len(), 1);
    let asked = peers.each_ref().map(|peer| t.ask(peer, fence([all_of("asm")])));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    // as they agreed at first, nobody hears of one that leaves, and nobody waits for it
    t.lose(&peers[2]);
    let asked = [0, 1].map(|peer| t.ask(&peers[peer], fence([all_of("asm")])));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    // one disconnect ends it
    let asked = [0, 1].map(|peer| t.ask(&peers[peer], disconnect(everybody())));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    let to = t.ask(&peers[0], disconnect(everybody()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    t.finish();
}

#[test]
fn con_02_con_15_to_connect_again_waits_for_all_too() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let mut asked = vec![t.ask(&peers[0], connect(everybody())), t.ask(&peers[1], connect(everybody()))];
    t.quiet();
    asked.push(t.ask(&peers[2], connect(everybody())));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(named())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    // if it fails they are connected still
    let to = t.ask(&peers[0], connect(everybody()).with(&keys::TIMEOUT, 2));
    t.advance(2);
    t.fails(to, Status::ERR_TIMEOUT);
    assert_eq!(t.engine.connected.len(), 1);
    let asked = [1, 2].map(|peer| t.ask(&peers[peer], connect(everybody())));
    for to in asked {
        t.fails(to, Status::ERR_TIMEOUT);
    }
    let asked = peers.each_ref().map(|peer| t.ask(peer, fence([all_of("asm")])));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    t.finish();
}

#[test]
fn con_15_who_is_in_a_disconnect_connects_again_after_it_only() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let asked = peers.each_ref().map(|peer| t.ask(peer, disconnect(everybody())));
    let (id, ..) = t.upcall();
    let to = t.ask(&peers[0], connect(everybody()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    all_connect(&mut t, &peers, &connect(everybody()));
    t.finish();
}

#[test]
fn con_14_con_15_who_had_left_is_back_when_all_have_connected_again() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let to = t.ask(&peers[2], leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    all_connect(&mut t, &peers, &connect(everybody()));
    let mut asked = vec![t.ask(&peers[0], fence([all_of("asm")])), t.ask(&peers[1], fence([all_of("asm")]))];
    t.quiet();
    asked.push(t.ask(&peers[2], fence([all_of("asm")])));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    t.finish();
}

#[test]
fn con_15_who_finalizes_while_it_connects_again_is_told_what_the_set_is_called() {
    let (mut t, peers) = two_jobs();
    all_connect(&mut t, &peers, &connect(everybody()));
    let asked = peers.each_ref().map(|peer| t.ask(peer, connect(everybody())));
    let id = asked_to_connect(&mut t);
    all_finalize(&mut t, &peers);
    let other = Connected { nspace: Some(nspace("other")), ..named() };
    t.answer(id, Ok(Answer::Connected(other)));
    for to in asked {
        let Reply::Connect(reply) = t.ok(to) else { panic!() };
        assert_eq!(reply.nspace, Some(nspace("asm")));
    }
    assert_eq!(t.engine.connected.len(), 0, "nobody is left of it");
    t.finish();
}

#[test]
fn con_13_a_set_whose_members_have_all_ended_while_they_connected_is_not_kept() {
    let (mut t, peers) = two_jobs();
    let asked = peers.each_ref().map(|peer| t.ask(peer, connect(everybody())));
    let id = asked_to_connect(&mut t);
    all_finalize(&mut t, &peers);
    t.answer(id, Ok(Answer::Connected(named())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

/// As programs may that do not wait for what they have asked for.
fn all_finalize(t: &mut Harness, peers: &[Peer]) {
    for peer in peers {
        let to = t.ask(peer, Request::Finalize(Finalize::new()));
        t.done(to);
    }
}

#[test]
fn ini_08_con_15_who_has_finalized_and_connects_again_is_a_member_again() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let finalizes = |t: &mut Harness, peer: &Peer| {
        let to = t.ask(peer, Request::Finalize(Finalize::new()));
        t.done(to);
        t.lose(peer);
        t.connect(&peer.proc)
    };
    let b0 = finalizes(&mut t, &b0);
    // a fence is of processes, which are all there
    let all = [a0.clone(), a1.clone(), b0.clone()];
    let asked = all.each_ref().map(|peer| t.ask(peer, fence(everybody())));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    all_connect(&mut t, &all, &connect(everybody()));
    // the end of its second life is told of, too
    listen(&mut t, &a0);
    t.lose(&b0);
    hears(&mut t, &a0, Status::ERR_PROC_TERM_WO_SYNC, &b0.proc);
    t.finish();

    let (mut t, [a0, a1, b0]) = two_jobs();
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let all = [a0, a1, finalizes(&mut t, &b0)];
    all_connect(&mut t, &all, &connect(everybody()));
    let asked = all.each_ref().map(|peer| t.ask(peer, disconnect(everybody())));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, asked);
    t.finish();
}

#[test]
fn ini_08_con_13_who_has_finalized_and_initialized_again_is_awaited_though_members_may_end_early() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let request = connect(everybody()).with(&keys::CONNECT_EARLY_TERM_ALLOWED, true);
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &request);
    let to = t.ask(&b0, Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose(&b0);
    let b0 = t.connect(&b0.proc);
    let mut asked = vec![t.ask(&a0, fence(everybody())), t.ask(&a1, fence(everybody()))];
    t.quiet();
    asked.push(t.ask(&b0, fence(everybody())));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    t.finish();
}
