//! Get of what the host has registered: reserved keys and their realms.

use std::sync::Arc;

use pmix_types::job::JobSpec;
use pmix_types::message::{QueryInfo, QueryReply, Reply, Request};
use pmix_types::{Info, Key, Query, Rank, Scope, Status, Value, keys};

use super::super::upcall::Upcall;
use super::harness::*;

/// Two apps over two nodes in a session, with one key at several levels.
fn rich() -> JobSpec {
    spec("job", "0-1;2-3")
        .session(42)
        .session_info(&keys::UNIV_SIZE, 64u32)
        .info(&keys::MAX_PROCS, 8u32)
        .app_ranks(0, "0-1".parse().unwrap())
        .app_ranks(1, "2-3".parse().unwrap())
        .app_info(0, &keys::MAX_PROCS, 10u32)
        .app_info(1, &keys::MAX_PROCS, 11u32)
        .node_info("n0", &keys::MAX_PROCS, 20u32)
        .node_info("n1", &keys::MAX_PROCS, 21u32)
}

fn world() -> (Harness, Peer) {
    let mut t = Harness::new([Upcall::DirectModex]);
    t.register(rich(), None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    (t, peer)
}

#[track_caller]
fn check(t: &mut Harness, peer: &Peer, request: Request, expected: impl Into<Value>) {
    let to = t.ask(peer, request);
    assert_eq!(t.value(to), expected.into());
}

#[test]
fn get_30_a_reserved_key_is_there_from_the_start_or_never() {
    let (mut t, peer) = world();
    check(&mut t, &peer, get_key(all_of("job"), &keys::JOB_SIZE), 4u32);
    // reg_08: not given and not derivable
    for target in [all_of("job"), proc("job", 0), proc("job", 3), proc("job", 77)] {
        let to = t.ask(&peer, get_key(target, &keys::CREDENTIAL));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    // a key of somebody's own at the job level is not waited for either
    let to = t.ask(&peer, get(all_of("job"), "mine"));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_08_get_33_job_data_comes_along_where_it_is_new_or_wanted_anew() {
    let (mut t, peer) = world();
    let data = t.engine.cx.jobs.get("job").unwrap().data.clone();
    let to = t.ask(&peer, get_key(all_of("job"), &keys::JOB_SIZE));
    assert!(t.got(to).job.is_none());
    for request in
        [get_key(all_of("job"), &keys::JOB_SIZE).with(&keys::GET_REFRESH_CACHE, true), get_all(all_of("job"))]
    {
        let to = t.ask(&peer, request);
        assert!(Arc::ptr_eq(&t.got(to).job.unwrap(), &data));
    }
    t.job("other", "0-1");
    let other = t.connect(&proc("other", 0));
    let to = t.ask(&other, get_key(all_of("job"), &keys::JOB_SIZE));
    let reply = t.got(to);
    assert_eq!(reply.value, Some(Value::Uint32(4)));
    assert!(Arc::ptr_eq(&reply.job.unwrap(), &data));
    t.finish();
}

#[test]
fn get_40_without_directive_a_key_has_its_own_realm() {
    let (mut t, peer) = world();
    check(&mut t, &peer, get_key(all_of("job"), &keys::UNIV_SIZE), 64u32);
    check(&mut t, &peer, get_key(proc("job", 3), &keys::HOSTNAME), "n1");
    check(&mut t, &peer, get_key(proc("job", 3), &keys::LOCAL_RANK), 1u16);
    check(&mut t, &peer, get_key(all_of("job"), &keys::LOCAL_PEERS), "0,1");
    check(&mut t, &peer, get_key(proc("job", 2), &keys::LOCAL_PEERS), "2,3");
    t.finish();
}

#[test]
fn get_41c_session_info_picks_the_session() {
    let (mut t, peer) = world();
    let of = |id: u32| {
        get_key(proc("job", 0), &keys::UNIV_SIZE).with(&keys::SESSION_INFO, true).with(&keys::SESSION_ID, id)
    };
    check(&mut t, &peer, of(42), 64u32);
    let to = t.ask(&peer, of(7));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_42_get_43_get_44_get_45_a_realm_directive_picks_one_of_several_values() {
    let (mut t, peer) = world();
    let ask = |rank: Rank| get_key(all_of("job").with_rank(rank), &keys::MAX_PROCS);
    let (any, third) = (Rank::WILDCARD, Rank::from_raw(3));
    let cases = [
        (ask(any), 8u32),
        (ask(third).with(&keys::JOB_INFO, true), 8),
        (ask(any).with(&keys::APP_INFO, true), 10),
        (ask(third).with(&keys::APP_INFO, true), 11),
        (ask(any).with(&keys::APP_INFO, true).with(&keys::APPNUM, 1u32), 11),
        (ask(third).with(&keys::NODE_INFO, true), 20),
        (ask(any).with(&keys::NODE_INFO, true).with(&keys::HOSTNAME, "n1"), 21),
        (ask(any).with(&keys::NODE_INFO, true).with(&keys::NODEID, 1u32), 21),
    ];
    for (request, value) in cases {
        check(&mut t, &peer, request, value);
    }
    t.finish();
}

#[test]
fn get_44_what_a_process_has_put_is_nothing_of_a_node() {
    let (mut t, peer) = world();
    t.commits(&peer, [entry(Scope::GLOBAL, "zone", 1u32)]);
    let to = t.ask(&peer, get(proc("job", 0), "zone").with(&keys::NODE_INFO, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peer, get(proc("job", 0), "zone"));
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_43_another_jobs_app_is_number_0() {
    let (mut t, _) = world();
    // whose rank is one of the second app there
    t.job("other", "0-2");
    let other = t.connect(&proc("other", 2));
    check(&mut t, &other, get_key(all_of("job"), &keys::MAX_PROCS).with(&keys::APP_INFO, true), 10u32);
    let query =
        Query::new(&keys::MAX_PROCS).qualifier(&keys::NSPACE.text(), "job").qualifier(&keys::APP_INFO, true);
    let to = t.ask(&other, Request::QueryInfo(QueryInfo::new(vec![query.clone()])));
    let results = query.results(vec![Info::new(&keys::MAX_PROCS, 10u32)]);
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::SUCCESS, vec![results])));
    t.finish();
}

#[test]
fn gen_07b_two_realms_at_once_are_bad_param() {
    let (mut t, peer) = world();
    let request =
        get_key(all_of("job"), &keys::MAX_PROCS).with(&keys::APP_INFO, true).with(&keys::NODE_INFO, true);
    let to = t.ask(&peer, request);
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn cli_09_the_server_of_a_job_is_this_one_unless_the_host_says_otherwise() {
    let (mut t, peers) = Harness::local(1);
    check(&mut t, &peers[0], get_key(all_of("job"), &keys::SERVER_NSPACE), "server");
    check(&mut t, &peers[0], get_key(all_of("job"), &keys::SERVER_RANK), Rank::from_raw(0));
    t.finish();

    let mut t = Harness::new([]);
    t.register(spec("job", "0").info(&keys::SERVER_NSPACE, "daemons"), None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    check(&mut t, &peer, get_key(all_of("job"), &keys::SERVER_NSPACE), "daemons");
    // half an identity of each would be nobody's
    let to = t.ask(&peer, get_key(all_of("job"), &keys::SERVER_RANK));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();

    let mut t = Harness::new([]);
    t.register(spec("job", "0").info(&keys::SERVER_RANK, Rank::from_raw(3)), None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    check(&mut t, &peer, get_key(all_of("job"), &keys::SERVER_RANK), Rank::from_raw(3));
    let to = t.ask(&peer, get_key(all_of("job"), &keys::SERVER_NSPACE));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_40_values_given_for_one_process_are_found_there() {
    const MINE: Key<u32> = Key::new("host.own", pmix_types::DataType::UINT32);
    let mut t = Harness::new([]);
    t.register(spec("job", "0-1").proc_info(Rank::from_raw(1), &keys::REINCARNATION, 3u32), None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    check(&mut t, &peer, get_key(proc("job", 1), &keys::REINCARNATION), 3u32);
    // added later (reg_09)
    let call = super::super::HostCall::RegisterNspace {
        nspace: nspace("job"),
        local_procs: None,
        infos: vec![Info::new(&MINE, 4u32)],
    };
    assert!(t.called(call).is_ok());
    check(&mut t, &peer, get_key(all_of("job"), &MINE), 4u32);
    t.finish();
}

#[test]
fn get_43_without_a_rank_the_app_is_the_callers_own() {
    let mut t = Harness::new([]);
    let spec = spec("job", "0-1")
        .app_ranks(0, "0".parse().unwrap())
        .app_ranks(1, "1".parse().unwrap())
        .app_info(0, &keys::MAX_PROCS, 10u32)
        .app_info(1, &keys::MAX_PROCS, 11u32);
    t.register(spec, None);
    for (rank, max) in [(0, 10u32), (1, 11)] {
        t.register_client(&proc("job", rank));
        let peer = t.connect(&proc("job", rank));
        check(&mut t, &peer, get_key(all_of("job"), &keys::MAX_PROCS).with(&keys::APP_INFO, true), max);
    }
    t.finish();
}
