//! Queries that the host answers, or the driver.

use pmix_types::message::{QueryInfo, QueryReply, Reply, Request};
use pmix_types::why::ProcLook;
use pmix_types::{DataArray, Directives, Info, Pid, Query, Status, keys};

use super::super::upcall::{QueryRequest, QueryResults, Upcall};
use super::super::{Answer, Caller, Command, UpcallId, UpcallRequest};
use super::harness::*;
use super::query::*;

#[test]
fn qry_10_gen_13_the_host_is_asked_with_the_askers_identity() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![unknown()])));
    let (id, caller, request) = t.upcall();
    assert_same(
        &caller,
        &Caller { proc: peer.proc.clone(), uid: USER.0, gid: Some(USER.1), object: None, trace: None },
    );
    let identity = Directives::new().with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
    assert_eq!(request, UpcallRequest::Query(QueryRequest::new(vec![unknown()]).with_directives(identity)));
    let found = vec![results([Info::new(&keys::QUERY_QUEUE_LIST, "q")])];
    t.answer(id, Ok(Answer::Query(QueryResults::partial(found.clone()))));
    let reply = QueryReply::new(Status::SUCCESS, found);
    assert_same(&t.ok(to), &Reply::Query(reply));
    t.finish();
}

#[test]
fn qry_03_qry_10_what_the_host_cannot_say_the_server_may_know() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    for status in [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND] {
        let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![names()])));
        let (id, ..) = t.upcall();
        t.answer(id, Err(failure(status)));
        assert_same(
            &t.ok(to),
            &Reply::Query(QueryReply::new(Status::SUCCESS, vec![results([names_are("job")])])),
        );
    }
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![names()])));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![names()])));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Done));
    t.fails(to, Status::ERROR);
    t.finish();
}

#[test]
fn gen_08_a_query_whose_asker_is_gone_is_cancelled() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![names()])));
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.cancelled(id);
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![]))));
    t.finish();
}

fn under_a_host() -> (Harness, Peer) {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    (t, peer)
}

#[test]
fn qry_09b_qry_09c_local_only_stops_here_and_a_refresh_goes_to_the_host() {
    let (mut t, peer) = under_a_host();
    let local = || names().qualifier(&keys::QUERY_LOCAL_ONLY, true);
    let reply = answered(&mut t, &peer, vec![local()]);
    assert_eq!(the_only(&reply), "job".into());
    // every other question goes to the host each time: nothing is ever a copy
    let [fresh, not_local] = [(&keys::QUERY_REFRESH_CACHE, true), (&keys::QUERY_LOCAL_ONLY, false)]
        .map(|(key, value)| names().qualifier(key, value));
    for query in [names(), names(), fresh, not_local] {
        let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![local(), query.clone()])));
        let (id, _, request) = t.upcall();
        assert!(matches!(request, UpcallRequest::Query(request) if request.queries == [query]));
        let found = results([names_are("fresh")]);
        t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![found]))));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        let found: Vec<_> = values(&reply).into_iter().map(|(_, value)| value).collect();
        assert_eq!(found, ["job".into(), "fresh".into()]);
    }
    t.finish();
}

#[test]
fn qry_03_qry_10_what_the_host_leaves_out_the_server_adds() {
    let (mut t, peer) = under_a_host();
    let both =
        || names().key(&keys::QUERY_QUEUE_LIST).key(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "job");
    let queue = || Info::new(&keys::QUERY_QUEUE_LIST, "q");
    let qualifiers = Info::new(&keys::QUERY_QUALIFIERS, DataArray::Info(both().qualifiers.into_vec()));
    for found in [vec![results([qualifiers, queue()])], vec![results([queue()])], vec![queue()]] {
        let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![both()])));
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Query(QueryResults::partial(found))));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        assert_eq!(reply.status, Status::SUCCESS);
        let names: Vec<_> = values(&reply).into_iter().map(|(key, _)| key).collect();
        assert_eq!(names, both().keys.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    t.finish();
}

#[test]
fn qry_08_results_of_the_host_go_to_the_queries_they_belong_to() {
    let (mut t, peer) = under_a_host();
    let of = |queue: &str| unknown().qualifier(&keys::ALLOC_QUEUE, queue);
    let result = |query: &Query, value: &str| query.results(vec![Info::new(&keys::QUERY_QUEUE_LIST, value)]);
    let queries = vec![of("a"), of("b"), of("c")];
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(queries.clone())));
    let (id, ..) = t.upcall();
    // none for the second
    let found = vec![result(&queries[0], "1"), result(&queries[2], "3")];
    t.answer(id, Ok(Answer::Query(QueryResults::partial(found.clone()))));
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, found)));

    // a host that leaves out the qualifiers keeps the order, though one answers the first key and one the second
    let of = |queue: &str| of(queue).key(&keys::QUERY_JOB_STATUS).qualifier(&keys::NSPACE.text(), "job");
    let queries = [of("a"), of("b")];
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(queries.to_vec())));
    let (id, ..) = t.upcall();
    let [first, second] =
        [Info::new(&keys::QUERY_QUEUE_LIST, "1"), Info::dynamic(keys::QUERY_JOB_STATUS.key_name(), "2")];
    let bare = [&first, &second].map(|info| results([info.clone()]));
    t.answer(id, Ok(Answer::Query(QueryResults::partial(bare.to_vec()))));
    let found = vec![queries[0].results(vec![first]), queries[1].results(vec![second])];
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, found)));
    t.finish();
}

#[test]
fn qry_08_a_key_that_is_asked_for_twice_is_answered_once_also_without_a_frame() {
    let (mut t, peer) = under_a_host();
    let queue = || Info::new(&keys::QUERY_QUEUE_LIST, "q");
    let twice = unknown().key(&keys::QUERY_QUEUE_LIST);
    // an array of infos is a frame under the key of frames only
    let infos = || Info::dynamic(keys::QUERY_QUEUE_LIST.key_name(), vec![queue()]);
    for (queries, found, expected) in [
        (vec![twice], results([queue()]), vec![queue()]),
        (vec![unknown(), unknown()], queue(), vec![queue(), queue()]),
        (vec![unknown()], infos(), vec![infos()]),
    ] {
        let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(queries)));
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![found]))));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        let expected: Vec<_> = expected.into_iter().map(|info| (info.key.to_string(), info.value)).collect();
        assert_eq!((reply.status, values(&reply)), (Status::SUCCESS, expected));
    }
    t.finish();
}

#[test]
fn qry_08_results_with_qualifiers_that_nobody_gave_are_nobodys() {
    let (mut t, peer) = under_a_host();
    let of = |queue: &str| unknown().qualifier(&keys::ALLOC_QUEUE, queue);
    let strange = of("c").results(vec![Info::new(&keys::QUERY_QUEUE_LIST, "3")]);
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![of("a"), unknown()])));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![strange.clone()]))));
    t.fails(to, Status::ERR_NOT_FOUND);
    // nor do they keep others from theirs
    let own = of("a").results(vec![Info::new(&keys::QUERY_QUEUE_LIST, "1")]);
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![of("a")])));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![strange, own.clone()]))));
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::SUCCESS, vec![own])));
    t.finish();
}

#[test]
fn qry_10_a_host_that_refuses_is_not_gone_around() {
    let (mut t, peer) = under_a_host();
    let to = t.ask(
        &peer,
        Request::QueryInfo(QueryInfo::new(vec![names(), Query::new(&keys::QUERY_SUPPORTED_KEYS)])),
    );
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!(reply.status, Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(values(&reply)[0].0, keys::QUERY_SUPPORTED_KEYS.name());
    // what it was not asked it has not refused
    let local = names().qualifier(&keys::QUERY_LOCAL_ONLY, true);
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![names(), local])));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!((reply.status, the_only(&reply)), (Status::ERR_PARTIAL_SUCCESS, "job".into()));
    t.finish();
}

#[track_caller]
pub(super) fn measure(t: &mut Harness) -> (UpcallId, Vec<ProcLook>) {
    match t.next() {
        Command::Measure { id, procs, .. } => (id, procs),
        other => panic!("expected a measurement, not {other:?}"),
    }
}

#[test]
fn memory_is_measured_outside_and_told_by_process() {
    let (mut t, peers) = Harness::local(2);
    const MEGABYTE: u64 = 1 << 20;
    let ask = || Query::new(&keys::QUERY_MEMORY_USAGE);
    let told = |proc: &Peer, megabytes: f32| {
        let of_proc =
            vec![Info::new(&keys::PROCID, proc.proc.clone()), Info::new(&keys::PROC_RSS, megabytes)];
        Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(of_proc))
    };
    let [daemon, average] = [(&keys::DAEMON_MEMORY, 9.0), (&keys::CLIENT_AVG_MEMORY, 3.0)]
        .map(|(key, megabytes)| Info::new(key, megabytes));
    for (query, expected) in [
        (ask(), vec![daemon.clone(), average.clone(), told(&peers[0], 2.0), told(&peers[1], 4.0)]),
        (ask().qualifier(&keys::QUERY_REPORT_AVG, true), vec![daemon, average]),
        (
            ask().qualifier(&keys::PROCID, peers[1].proc.clone()),
            vec![Info::new(&keys::CLIENT_AVG_MEMORY, 4.0), told(&peers[1], 4.0)],
        ),
    ] {
        let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![query])));
        let (id, mut procs) = measure(&mut t);
        assert_eq!(procs.len(), 3, "{procs:?}");
        assert_eq!(procs[0].pid, Pid(0));
        procs.iter_mut().zip([9, 2, 4]).for_each(|(look, megabytes)| look.rss = megabytes * MEGABYTE);
        t.answer(id, Ok(Answer::Looks(procs)));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        assert_eq!(the_only(&reply), DataArray::Info(expected).into());
    }
    // one that is gone by then is left out, and an asker that is gone is forgotten
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![ask()])));
    let (id, _) = measure(&mut t);
    t.answer(id, Ok(Answer::Looks(Vec::new())));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![ask()])));
    let (id, _) = measure(&mut t);
    t.lose(&peers[0]);
    t.cancelled(id);
    t.finish();
}
