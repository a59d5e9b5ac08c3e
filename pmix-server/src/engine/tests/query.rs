//! Queries.

use pmix_types::message::{QueryReply, Reply, Request};
use pmix_types::{DataArray, Directives, Info, Pid, ProcInfo, ProcState, Query, Status, keys};

use super::super::{Answer, Caller, HostCall, UpcallRequest};
use super::harness::*;
use crate::host::{QueryRequest, QueryResults, Upcall};

#[track_caller]
fn answered(t: &mut Harness, peer: &Peer, queries: Vec<Query>) -> QueryReply {
    let to = t.ask(peer, Request::Query(queries));
    match t.ok(to) {
        Reply::Query(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn results(infos: impl IntoIterator<Item = Info>) -> Info {
    Info::new(&keys::QUERY_RESULTS, DataArray::Info(infos.into_iter().collect()))
}

fn names() -> Query {
    Query::new(&keys::QUERY_NAMESPACES)
}

fn names_are(names: &str) -> Info {
    Info::dynamic(keys::QUERY_NAMESPACES.key_name(), names)
}

fn unknown() -> Query {
    Query::new(&keys::QUERY_QUEUE_LIST)
}

#[test]
fn qry_02_qry_08_each_query_has_its_results_with_its_qualifiers_first() {
    let (mut t, peers) = Harness::local(1);
    let qualified = names().qualifier(&keys::HOSTNAME, "n0");
    let reply = answered(&mut t, &peers[0], vec![names(), qualified.clone()]);
    let qualifiers = DataArray::Info(qualified.qualifiers.as_slice().to_vec());
    let expected = vec![
        results([names_are("job")]),
        results([Info::new(&keys::QUERY_QUALIFIERS, qualifiers), names_are("job")]),
    ];
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, expected));
    t.finish();
}

#[test]
fn qry_03_qry_04_what_is_not_found_shows_in_the_status() {
    let (mut t, peers) = Harness::local(1);
    let both = names().key(&keys::QUERY_QUEUE_LIST);
    for queries in [vec![both], vec![names(), unknown()]] {
        let reply = answered(&mut t, &peers[0], queries);
        assert_eq!(reply, QueryReply::new(Status::ERR_PARTIAL_SUCCESS, vec![results([names_are("job")])]));
    }
    let to = t.ask(&peers[0], Request::Query(vec![unknown(), Query::new(&keys::JOB_SIZE)]));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn qry_05_queries_that_contradict_themselves_are_bad_param() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let by_id = || names().qualifier(&keys::PROCID, proc("job", 0));
    for queries in [
        vec![],
        vec![names(), Query::dynamic([])],
        vec![by_id().qualifier(&keys::NSPACE, "job")],
        vec![names(), by_id().qualifier(&keys::RANK, proc("job", 0).rank)],
    ] {
        let to = t.ask(&peer, Request::Query(queries));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn qry_10_gen_13_the_host_is_asked_with_the_askers_identity() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::Query(vec![unknown()]));
    let (id, caller, request) = t.upcall();
    assert_same(&caller, &Caller { proc: peer.proc.clone(), uid: USER.0, gid: USER.1, object: None });
    let identity = Directives::new().with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
    assert_eq!(request, UpcallRequest::Query(QueryRequest::new(vec![unknown()]).with_directives(identity)));
    let found = vec![results([Info::new(&keys::QUERY_QUEUE_LIST, "q")])];
    t.answer(id, Ok(Answer::Query(QueryResults::partial(found.clone()))));
    let reply = QueryReply::new(Status::ERR_PARTIAL_SUCCESS, found);
    assert_same(&t.ok(to), &Reply::Query(reply));
    t.finish();
}

#[test]
fn qry_03_qry_10_what_the_host_cannot_say_the_server_may_know() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    for status in [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND] {
        let to = t.ask(&peer, Request::Query(vec![names()]));
        let (id, ..) = t.upcall();
        t.answer(id, Err(failure(status)));
        assert_same(
            &t.ok(to),
            &Reply::Query(QueryReply::new(Status::SUCCESS, vec![results([names_are("job")])])),
        );
    }
    let to = t.ask(&peer, Request::Query(vec![names()]));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    let to = t.ask(&peer, Request::Query(vec![names()]));
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
    t.ask(&peer, Request::Query(vec![names()]));
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.cancelled(id);
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![]))));
    t.finish();
}

#[test]
fn qry_11_process_tables_are_in_rank_order_with_states() {
    let mut t = Harness::new([]);
    t.job("job", "0,3,4,5;1,2");
    let [running, finalized, lost] = [0, 3, 4].map(|rank| t.connect(&proc("job", rank)));
    let to = t.ask(&finalized, Request::Finalize(Directives::new()));
    t.done(to);
    t.lose(&lost);
    let ended = HostCall::ClientEnded { proc: proc("job", 5), reason: "signal 9".into() };
    assert!(t.called(ended).is_ok());

    let pid = |peer: &Peer| Pid(40 + i32::try_from(peer.conn.0).unwrap());
    let row = |rank, pid, state| {
        let mut row = ProcInfo::new(proc("job", rank));
        row.hostname = Some(if [1, 2].contains(&rank) { "n1" } else { "n0" }.into());
        (row.pid, row.state) = (pid, state);
        row
    };
    let here = [
        row(0, pid(&running), ProcState::CONNECTED),
        row(3, pid(&finalized), ProcState::RUNNING),
        row(4, pid(&lost), ProcState::TERM_WO_SYNC),
        row(5, Pid(0), ProcState::TERMINATED),
    ];
    let there = [1, 2].map(|rank| row(rank, ProcInfo::new(proc("job", 0)).pid, ProcState::UNDEF));
    let [zero, three, four, five] = here.clone();
    let [one, two] = there;
    let tables = [
        (Query::new(&keys::QUERY_LOCAL_PROC_TABLE), here.to_vec()),
        (Query::new(&keys::QUERY_PROC_TABLE), vec![zero, one, two, three, four, five]),
    ];
    for (query, table) in tables {
        let key = query.keys[0].clone();
        let query = query.qualifier(&keys::NSPACE, "job");
        let reply = answered(&mut t, &running, vec![query.clone()]);
        let qualifiers = DataArray::Info(query.qualifiers.as_slice().to_vec());
        let expected = results([
            Info::new(&keys::QUERY_QUALIFIERS, qualifiers),
            Info::dynamic(key, DataArray::ProcInfo(table)),
        ]);
        assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![expected]));
    }
    t.finish();
}

#[test]
fn qry_11_a_table_needs_a_namespace() {
    let (mut t, peers) = Harness::local(1);
    let table = || Query::new(&keys::QUERY_PROC_TABLE);
    let to = t.ask(&peers[0], Request::Query(vec![table()]));
    t.fails(to, Status::ERR_BAD_PARAM);
    let to = t.ask(&peers[0], Request::Query(vec![table().qualifier(&keys::NSPACE, "other")]));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.finish();
}

#[test]
fn qry_11_a_registered_process_that_has_not_come_yet_is_prepared() {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let peer = t.connect(&proc("job", 0));
    let query = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE, "job");
    let reply = answered(&mut t, &peer, vec![query]);
    let found: DataArray = reply.results[0].get().unwrap();
    let table: DataArray = found.as_infos().unwrap()[1].get().unwrap();
    let states: Vec<_> = table.as_proc_infos().unwrap().iter().map(|row| row.state).collect();
    assert_eq!(states, [ProcState::CONNECTED, ProcState::PREPPED]);
    t.finish();
}

#[test]
fn qry_12_sizes_and_names_are_known_here() {
    let (mut t, peers) = Harness::local(3);
    t.job("also", "0");
    let query = names().key(&keys::JOB_SIZE).qualifier(&keys::NSPACE, "job");
    let reply = answered(&mut t, &peers[0], vec![query.clone()]);
    let qualifiers = DataArray::Info(query.qualifiers.as_slice().to_vec());
    let expected = results([
        Info::new(&keys::QUERY_QUALIFIERS, qualifiers),
        names_are("also,job"),
        Info::new(&keys::JOB_SIZE, 3u32),
    ]);
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![expected]));
    t.finish();
}

#[test]
fn qry_12_reg_01_only_registered_names_are_listed() {
    let (mut t, peers) = Harness::local(1);
    t.register_client(&proc("early", 0));
    let reply = answered(&mut t, &peers[0], vec![names()]);
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![results([names_are("job")])]));
    t.register(spec("early", "0"), None);
    let reply = answered(&mut t, &peers[0], vec![names()]);
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![results([names_are("early,job")])]));
    t.finish();
}
