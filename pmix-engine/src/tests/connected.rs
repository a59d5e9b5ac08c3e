//! What holds between a connect and its disconnect.

use pmix_types::message::{Connect, Disconnect, NotifyEvent, Reply, Request};
use pmix_types::{DataArray, DataRange, Event, Info, ProcId, Rank, Scope, Status, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{Connected, Upcall};
use super::super::{Answer, UpcallId, UpcallRequest};
use super::harness::*;

pub(super) fn connect(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::Connect(Connect::new(procs.into_iter().collect()))
}

pub(super) fn disconnect(procs: impl IntoIterator<Item = ProcId>) -> Request {
    Request::Disconnect(Disconnect::new(procs.into_iter().collect()))
}

pub(super) fn leave(name: &str) -> Request {
    Request::Disconnect(Disconnect::leave(nspace(name)))
}

/// The processes of [`two_jobs`], as they connect.
pub(super) fn everybody() -> [ProcId; 2] {
    [all_of("a"), all_of("b")]
}

/// Two jobs here, `a` of two processes and `b` of one, under a host that names those who connect.
pub(super) fn two_jobs() -> (Harness, [Peer; 3]) {
    let mut t = Harness::new([Upcall::Connect, Upcall::Disconnect]);
    t.job("a", "0-1");
    t.job("b", "0");
    let peers = [proc("a", 0), proc("a", 1), proc("b", 0)].map(|proc| t.connect(&proc));
    (t, peers)
}

/// The host's answer: `asm`, in which `b` comes first.
pub(super) fn named() -> Connected {
    let ranks = [proc("b", 0), proc("a", 0), proc("a", 1)].into_iter().zip((10..).map(Rank::from_raw));
    Connected { nspace: Some(nspace("asm")), ranks: ranks.collect(), data: bytes::Bytes::new() }
}

#[track_caller]
pub(super) fn asked_to_connect(t: &mut Harness) -> UpcallId {
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::Connect(_)), "{request:?}");
    id
}

/// Everybody connects with a request like this.
#[track_caller]
pub(super) fn all_connect(t: &mut Harness, peers: &[Peer], request: &Request) {
    let asked: Vec<_> = peers.iter().map(|peer| t.ask(peer, request.clone())).collect();
    let id = asked_to_connect(t);
    t.answer(id, Ok(Answer::Connected(named())));
    for to in asked {
        assert!(matches!(t.ok(to), Reply::Connect(_)));
    }
}

#[track_caller]
pub(super) fn all_done(t: &mut Harness, asked: impl IntoIterator<Item = ReplyTo>) {
    asked.into_iter().for_each(|to| t.done(to));
}

#[test]
fn con_01_con_02_the_host_is_asked_once_although_all_are_here() {
    let (mut t, peers) = two_jobs();
    let asked: Vec<_> =
        peers.iter().map(|peer| t.ask(peer, connect(everybody()).with(&keys::CONNECT_ID, "x"))).collect();
    let (id, _, request) = t.upcall();
    let UpcallRequest::Connect(request) = request else { panic!("{request:?}") };
    assert_eq!(request.procs, everybody());
    assert_eq!(request.directives.get(&keys::CONNECT_ID), Ok(Some("x".to_owned())), "GEN-14");
    t.answer(id, Ok(Answer::Connected(named())));
    for to in asked {
        assert!(matches!(t.ok(to), Reply::Connect(_)));
    }
    t.finish();
}

#[test]
fn con_05_a_process_is_in_one_connect_of_a_set_but_in_many_of_different_sets() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let first = t.ask(&a0, connect(everybody()));
    let again = t.ask(&a0, connect(everybody()));
    t.fails(again, Status::ERR_INVALID_OPERATION);
    let other = t.ask(&a0, connect([proc("a", 0), proc("b", 0)]));
    let third = t.ask(&a0, connect([proc("a", 0), proc("a", 1)]));
    t.quiet();
    let more = t.ask(&b0, connect([proc("a", 0), proc("b", 0)]));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    t.ok(other);
    t.ok(more);
    t.lose(&a1);
    for to in [third, first] {
        t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    }
    let [late] = [&b0].map(|peer| t.ask(peer, connect(everybody())));
    t.fails(late, Status::ERR_PROC_TERM_WO_SYNC);
    t.finish();
}

#[test]
fn con_06_con_07_a_group_is_addressed_by_its_namespace() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    let asked = [&a0, &a1, &b0].map(|peer| t.ask(peer, connect(everybody())));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(named())));
    for (to, rank) in asked.into_iter().zip([11, 12, 10]) {
        let Reply::Connect(reply) = t.ok(to) else { panic!() };
        assert_eq!((reply.nspace, reply.rank), (Some(nspace("asm")), Some(Rank::from_raw(rank))));
    }
    // all of it, apart from a fence of the same processes by their own names
    let by_group = [&a0, &b0].map(|peer| t.ask(peer, fence([all_of("asm")])));
    let own = t.ask(&a1, fence(everybody()));
    t.quiet();
    let last = t.ask(&a1, fence([all_of("asm")]));
    for to in by_group.into_iter().chain([last]) {
        t.fenced(to);
    }
    let rest = [&a0, &b0].map(|peer| t.ask(peer, fence(everybody())));
    t.fenced(own);
    rest.into_iter().for_each(|to| drop(t.fenced(to)));
    // some of it
    let some = [proc("asm", 12), proc("asm", 10)];
    let to = t.ask(&a0, fence(some.clone()));
    t.fails(to, Status::ERR_NOT_A_MEMBER);
    let asked = [&a1, &b0].map(|peer| t.ask(peer, fence(some.clone())));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    let to = t.ask(&a0, fence([proc("asm", 11), proc("asm", 13)]));
    t.fails(to, Status::ERR_BAD_PARAM);
    // data of a member
    t.commits(&b0, [entry(Scope::GLOBAL, "k", 7)]);
    let to = t.ask(&a0, get(proc("asm", 10), "k"));
    assert_eq!(t.value(to), 7.into());
    // events
    listen(&mut t, &a1);
    listen(&mut t, &b0);
    let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![proc("asm", 12), all_of("asm")]));
    let event = Event::new(Status::ERR_NODE_DOWN, ProcId::none())
        .with_range(DataRange::CUSTOM)
        .with_info(range)
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("x", 0)));
    let to = t.ask(&a0, Request::NotifyEvent(NotifyEvent::new(event)));
    hears(&mut t, &a1, Status::ERR_NODE_DOWN, &proc("x", 0));
    hears(&mut t, &b0, Status::ERR_NODE_DOWN, &proc("x", 0));
    t.done(to);
    t.finish();
}

#[test]
fn con_06_con_07_over_two_nodes_the_host_hears_the_name_of_the_group() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Connect, Upcall::Disconnect, Upcall::Fence]);
    let asked = [&a, &b].map(|peer| t.ask(peer, connect([all_of("job")])));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Connect(request) = request else { panic!("{request:?}") };
    let ranks = (0..4).map(|rank| (proc("job", rank), Rank::from_raw(rank))).collect();
    t.answer(id, Ok(Answer::Connected(Connected { nspace: Some(nspace("asm")), ranks, data: request.data })));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    let asked = [&a, &b].map(|peer| t.ask(peer, fence([all_of("asm")])));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Fence(request) = request else { panic!("{request:?}") };
    assert_eq!((request.procs, request.nodes), (vec![all_of("asm")], vec!["n0".into(), "n1".into()]));
    t.answer(id, Ok(Answer::Blob(bytes::Bytes::new())));
    asked.into_iter().for_each(|to| drop(t.fenced(to)));
    let to = t.ask(&a, fence([proc("asm", 0), proc("asm", 3)]));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Fence(request) = request else { panic!("{request:?}") };
    assert_eq!(request.nodes, ["n0", "n1"]);
    t.answer(id, Ok(Answer::Blob(bytes::Bytes::new())));
    t.fenced(to);
    t.finish();
}

#[test]
fn con_06_a_host_cannot_give_the_name_of_others() {
    let (mut t, peers) = two_jobs();
    let asked = peers.each_ref().map(|peer| t.ask(peer, connect(everybody())));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected { nspace: Some(nspace("b")), ..named() })));
    for to in asked {
        t.fails(to, Status::ERR_EXISTS);
    }
    assert_eq!(t.engine.connected.len(), 0);
    t.finish();
}

#[test]
fn con_09_an_exchange_connects_nobody() {
    let (mut t, peers) = two_jobs();
    let exchange = || connect(everybody()).with(&keys::CONNECT_XCHG_ONLY, true);
    for _ in 0..2 {
        let asked = peers.each_ref().map(|peer| t.ask(peer, exchange()));
        let id = asked_to_connect(&mut t);
        t.answer(id, Ok(Answer::Connected(named())));
        for to in asked {
            let Reply::Connect(reply) = t.ok(to) else { panic!() };
            assert_eq!((reply.nspace, reply.rank, reply.jobs.len()), (None, None, 1));
        }
    }
    assert_eq!(t.engine.connected.len(), 0);
    let to = t.ask(&peers[0], disconnect(everybody()));
    t.fails(to, Status::ERR_INVALID_OPERATION);
    let to = t.ask(&peers[0], leave("asm"));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    // those who are connected can exchange too, and stay connected
    all_connect(&mut t, &peers, &connect(everybody()));
    all_connect(&mut t, &peers, &exchange());
    assert_eq!(t.engine.connected.len(), 1);
    t.finish();
}

#[test]
fn con_10_each_who_comes_and_goes_is_told_of_to_the_others() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    t.job("c", "0");
    let stranger = t.connect(&proc("c", 0));
    for peer in [&a0, &b0, &stranger] {
        listen(&mut t, peer);
    }
    let each = || connect(everybody()).with(&keys::CONNECT_NOTIFY_EACH, true).with(&keys::CONNECT_ID, "x");
    let first = t.ask(&a0, each());
    let event = hears(&mut t, &b0, Status::PROC_HAS_CONNECTED, &proc("a", 0));
    assert_eq!(event.info.get(&keys::CONNECT_ID), Ok(Some("x".to_owned())));
    let second = t.ask(&a1, each());
    hears(&mut t, &a0, Status::PROC_HAS_CONNECTED, &proc("a", 1));
    hears(&mut t, &b0, Status::PROC_HAS_CONNECTED, &proc("a", 1));
    let third = t.ask(&b0, each());
    hears(&mut t, &a0, Status::PROC_HAS_CONNECTED, &proc("b", 0));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(named())));
    [first, second, third].into_iter().for_each(|to| drop(t.ok(to)));
    // what was agreed when they connected holds to the end, for one who leaves alone too
    let to = t.ask(&a1, leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    hears(&mut t, &a0, Status::PROC_HAS_DISCONNECTED, &proc("a", 1));
    hears(&mut t, &b0, Status::PROC_HAS_DISCONNECTED, &proc("a", 1));
    t.done(to);
    let first = t.ask(&b0, disconnect([all_of("asm")]));
    hears(&mut t, &a0, Status::PROC_HAS_DISCONNECTED, &proc("b", 0));
    let second = t.ask(&a0, disconnect([all_of("asm")]));
    hears(&mut t, &b0, Status::PROC_HAS_DISCONNECTED, &proc("a", 0));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, [first, second]);
    t.finish();
}

#[test]
fn con_10_what_one_asks_for_holds_for_those_who_connect_later() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    listen(&mut t, &a0);
    let first = t.ask(&a0, connect(everybody()).with(&keys::CONNECT_NOTIFY_EACH, true));
    let second = t.ask(&a1, connect(everybody()));
    hears(&mut t, &a0, Status::PROC_HAS_CONNECTED, &proc("a", 1));
    let third = t.ask(&b0, connect(everybody()));
    hears(&mut t, &a0, Status::PROC_HAS_CONNECTED, &proc("b", 0));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(named())));
    [first, second, third].into_iter().for_each(|to| drop(t.ok(to)));
    // and for those who leave
    let to = t.ask(&b0, leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    hears(&mut t, &a0, Status::PROC_HAS_DISCONNECTED, &proc("b", 0));
    t.done(to);
    t.finish();
}

#[test]
fn con_10_who_asks_for_it_in_disconnect_only_is_told_of_too() {
    let (mut t, [a0, a1, b0]) = two_jobs();
    listen(&mut t, &a0);
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let first = t.ask(&b0, disconnect(everybody()));
    t.quiet();
    let second = t.ask(&a1, disconnect(everybody()).with(&keys::CONNECT_NOTIFY_EACH, true));
    hears(&mut t, &a0, Status::PROC_HAS_DISCONNECTED, &proc("a", 1));
    let third = t.ask(&a0, disconnect(everybody()));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, [first, second, third]);
    // and who leaves alone
    all_connect(&mut t, &[a0.clone(), a1.clone(), b0.clone()], &connect(everybody()));
    let to = t.ask(&b0, leave("asm").with(&keys::CONNECT_NOTIFY_EACH, true));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    hears(&mut t, &a0, Status::PROC_HAS_DISCONNECTED, &proc("b", 0));
    t.done(to);
    let to = t.ask(&a1, leave("asm"));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.finish();
}

#[test]
fn con_11_the_others_are_asked_to_connect_here_and_elsewhere() {
    let mut t = Harness::new([Upcall::Connect, Upcall::NotifyEvent]);
    t.job("job", "0-2;3");
    let [a, b, c] = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    for peer in [&a, &b, &c] {
        listen(&mut t, peer);
    }
    let request = || connect([all_of("job")]).with(&keys::CONNECT_NOTIFY_REQ, true);
    let mut asked = vec![t.ask(&a, connect([all_of("job")])), t.ask(&b, request())];
    // who is in already need not be asked
    let event = hears(&mut t, &c, Status::CONNECT_REQUESTED, &proc("job", 1));
    let set = event.info.get(&keys::EVENT_AFFECTED_PROCS).unwrap();
    assert_eq!(set, Some(DataArray::Proc(vec![all_of("job")])));
    let (id, _, upcall) = t.upcall();
    let UpcallRequest::NotifyEvent(upcall) = upcall else { panic!("{upcall:?}") };
    assert_eq!((upcall.code, upcall.range), (Status::CONNECT_REQUESTED, DataRange::CUSTOM));
    t.answer(id, Ok(Answer::Done));
    // they are asked once
    asked.push(t.ask(&c, request()));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    t.finish();
}

#[test]
fn con_08_con_19a_a_namespace_of_another_cluster_is_the_hosts_to_find() {
    let (mut t, [a0, ..]) = two_jobs();
    let far = "east:job";
    let to = t.ask(&a0, connect([proc("a", 0), all_of(far)]));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Connect(request) = request else { panic!("{request:?}") };
    assert_eq!(request.procs, [proc("a", 0), all_of(far)]);
    let mut other = Harness::new([]);
    other.job(far, "0-2");
    let job = other.engine.cx.job_or_failure(far).unwrap().data.clone();
    other.finish();
    let data = CODEC.jobs_blob([&*job]);
    t.answer(id, Ok(Answer::Connected(Connected { data, ..Connected::default() })));
    let Reply::Connect(reply) = t.ok(to) else { panic!() };
    assert_eq!(reply.jobs.iter().map(|job| job.size()).collect::<Vec<_>>(), [Some(3)]);
    let to = t.ask(&a0, get_key(all_of(far), &keys::JOB_SIZE));
    assert_eq!(t.value(to), 3u32.into());
    t.finish();
}

#[test]
fn con_08_what_the_host_has_registered_here_stands_whatever_another_server_says() {
    let (mut t, [a0, _, b0]) = two_jobs();
    let asked = [&a0, &b0].map(|peer| t.ask(peer, connect([proc("a", 0), proc("b", 0)])));
    let id = asked_to_connect(&mut t);
    let mut other = Harness::new([]);
    other.job("b", "0-2");
    let data = CODEC.jobs_blob([&*other.engine.cx.job_or_failure("b").unwrap().data]);
    other.finish();
    t.answer(id, Ok(Answer::Connected(Connected { data, ..Connected::default() })));
    let [to_a, to_b] = asked;
    let Reply::Connect(reply) = t.ok(to_a) else { panic!() };
    assert_eq!(reply.jobs.iter().map(|job| job.size()).collect::<Vec<_>>(), [Some(1)]);
    t.ok(to_b);
    let to = t.ask(&a0, get_key(all_of("b"), &keys::JOB_SIZE));
    assert_eq!(t.value(to), 1u32.into());
    t.finish();
}

#[test]
fn con_10_of_who_goes_those_on_other_nodes_hear_too_of_who_comes_they_do_not() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Connect, Upcall::Disconnect, Upcall::NotifyEvent]);
    let each = |request: Request| request.with(&keys::CONNECT_NOTIFY_EACH, true);
    let asked = [&a, &b].map(|peer| t.ask(peer, each(connect([all_of("job")]))));
    let id = asked_to_connect(&mut t);
    t.answer(id, Ok(Answer::Connected(Connected::default())));
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    let first = t.ask(&a, disconnect([all_of("job")]));
    let (id, _, request) = t.upcall();
    let UpcallRequest::NotifyEvent(request) = request else { panic!("{request:?}") };
    assert_eq!((request.code, request.range), (Status::PROC_HAS_DISCONNECTED, DataRange::CUSTOM));
    assert_eq!(request.custom_range(), [all_of("job")]);
    t.answer(id, Ok(Answer::Done));
    let second = t.ask(&b, disconnect([all_of("job")]));
    let (notice, ..) = t.upcall();
    let (id, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::Disconnect(_)), "{request:?}");
    t.answer(notice, Ok(Answer::Done));
    t.answer(id, Ok(Answer::Done));
    all_done(&mut t, [first, second]);
    t.finish();
}
