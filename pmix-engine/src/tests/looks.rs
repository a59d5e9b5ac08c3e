//! What the kernel says of processes: as queries and the host are told.

use pmix_types::message::{Hello, Identity, QueryInfo, Reply, Request};
use pmix_types::why::{Activity, LOOKS, ProcLook};
use pmix_types::{Pid, ProcId, Query, Rank, Status, keys};

use super::super::{Answer, CallValue, ConnId, HostCall, Input, PeerCred};
use super::harness::*;
use super::query::*;
use super::query_host::measure;

/// What a query for looks is told when the kernel has found all processes that it was asked about.
#[track_caller]
fn looks(t: &mut Harness, by: &Peer, query: Query) -> Vec<ProcLook> {
    let to = t.ask(by, Request::QueryInfo(QueryInfo::new(vec![query])));
    let (id, mut procs) = measure(t);
    procs.iter_mut().for_each(|look| look.activity = Activity::Stopped);
    t.answer(id, Ok(Answer::Looks(procs)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    ProcLook::read_all(&the_only(&reply))
}

fn ranks(looks: &[ProcLook]) -> Vec<u32> {
    looks.iter().map(|look| look.proc.rank.to_raw()).collect()
}

#[test]
fn the_kernel_is_asked_about_those_who_are_named_and_run() {
    let (mut t, peers) = Harness::local(3);
    let ask = || Query::new(&LOOKS);
    let of_job = || ask().qualifier(&keys::NSPACE.text(), "job");
    let rank = |rank| Rank::new(rank).unwrap();
    let all = looks(&mut t, &peers[0], of_job());
    assert_eq!(
        (ranks(&all), all[1].activity, all[1].node.as_str()),
        (vec![0, 1, 2], Activity::Stopped, NODE)
    );
    assert!(all.iter().all(|look| look.pid.0 > 0));
    let some = of_job().qualifier(&keys::RANK, rank(2)).qualifier(&keys::RANK, rank(0));
    assert_eq!(ranks(&looks(&mut t, &peers[0], some)), [0, 2]);
    let one = ask().qualifier(&keys::PROCID, peers[1].proc.clone());
    assert_eq!(ranks(&looks(&mut t, &peers[0], one)), [1]);
    let strange = ask().qualifier(&keys::PROCID, proc("strange", 0));
    assert_eq!(looks(&mut t, &peers[0], strange), []);

    // nobody knows yet what runs a process that has not connected
    t.register(spec("later", "0"), None);
    let call = HostCall::RegisterClient { proc: proc("later", 0), uid: USER.0, gid: USER.1, object: None };
    t.called(call).unwrap();
    let to = t.ask(
        &peers[0],
        Request::QueryInfo(QueryInfo::new(vec![ask().qualifier(&keys::NSPACE.text(), "later")])),
    );
    let (id, procs) = measure(&mut t);
    assert_eq!(procs, []);
    t.answer(id, Ok(Answer::Looks(procs)));
    t.ok(to);

    // stuck without a connection, but not ended
    t.lose(&peers[1]);
    t.drain();
    assert_eq!(ranks(&looks(&mut t, &peers[0], of_job())), [0, 1, 2]);
    t.called(HostCall::ClientEnded { proc: peers[1].proc.clone(), reason: "it has exited".into() }).unwrap();
    assert_eq!(ranks(&looks(&mut t, &peers[0], of_job())), [0, 2]);
    // one that the kernel has not found is left out
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![of_job()])));
    let (id, mut procs) = measure(&mut t);
    procs.remove(0);
    t.answer(id, Ok(Answer::Looks(procs)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!(ranks(&ProcLook::read_all(&the_only(&reply))), [2]);

    for (query, status) in [
        (ask(), Status::ERR_BAD_PARAM),
        (ask().qualifier(&keys::NSPACE.text(), "strange"), Status::ERR_INVALID_NAMESPACE),
    ] {
        let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![query])));
        let (id, procs) = measure(&mut t);
        assert_eq!(procs, []);
        t.answer(id, Ok(Answer::Looks(procs)));
        t.fails(to, status);
    }
    t.finish();
}

#[test]
fn a_process_that_has_started_is_looked_at_before_it_connects() {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let peers = [t.connect(&proc("job", 0))];
    t.called(HostCall::ClientStarted { proc: proc("job", 1), pid: 4711 }).unwrap();
    let found = looks(&mut t, &peers[0], Query::new(&LOOKS).qualifier(&keys::NSPACE.text(), "job"));
    assert_eq!((ranks(&found), found[1].pid), (vec![0, 1], Pid(4711)));
    // it is no client yet, and so has no memory to be told
    t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_MEMORY_USAGE)])));
    let (id, procs) = measure(&mut t);
    assert_eq!(procs.iter().map(|look| look.pid.0).collect::<Vec<_>>(), [0, found[0].pid.0]);
    t.lose(&peers[0]);
    t.cancelled(id);
    t.finish();
}

/// As on the native wire.
#[test]
fn a_process_whose_pid_the_kernel_does_not_name_has_that_of_the_host() {
    for is_told_first in [true, false] {
        let mut t = Harness::new([]);
        t.job("job", "0");
        let started = HostCall::ClientStarted { proc: proc("job", 0), pid: 4711 };
        if is_told_first {
            t.called(started.clone()).unwrap();
        }
        let conn = ConnId(1);
        let peer = PeerCred { uid: USER.0, gid: Some(USER.1), pid: None };
        let hello = Hello::new(Identity::Client(proc("job", 0)), Pid(7));
        t.feed(Input::Hello { conn, peer, hello, reattaches: false });
        t.next();
        if !is_told_first {
            t.called(started).unwrap();
        }
        let call = t.call(HostCall::Looks(vec![all_of("job")]));
        let (id, procs) = measure(&mut t);
        assert_eq!(procs.iter().map(|look| look.pid).collect::<Vec<_>>(), [Pid(4711)], "{is_told_first}");
        t.answer(id, Ok(Answer::Looks(procs)));
        t.returned(call).unwrap();
        t.finish();
    }
}

#[test]
fn the_host_is_told_what_the_kernel_says() {
    let (mut t, peers) = Harness::local(2);
    for (asked, expected) in [
        (vec![ProcId::wildcard(nspace("job"))], vec![0, 1]),
        (vec![peers[1].proc.clone(), peers[1].proc.clone(), proc("strange", 0)], vec![1]),
    ] {
        let call = t.call(HostCall::Looks(asked));
        let (id, procs) = measure(&mut t);
        assert_eq!(ranks(&procs), expected);
        t.answer(id, Ok(Answer::Looks(procs.clone())));
        match t.returned(call) {
            Ok(CallValue::Looks(looks)) => assert_eq!(looks, procs),
            other => panic!("{other:?}"),
        }
    }
    t.finish();
}
