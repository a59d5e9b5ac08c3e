//! Processes that are connected connect again.

use pmix_types::message::Reply;
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
    assert_eq!(t.engine.collectives.assemblies.len(), 1);
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
    assert_eq!(t.engine.collectives.assemblies.len(), 1);
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
