//! Queries.

use pmix_types::job::JobSpec;
use pmix_types::message::{QueryInfo, QueryReply, Reply, Request};
use pmix_types::{DataArray, Info, InfoFlags, Query, Rank, Status, Value, keys};

use super::super::upcall::Upcall;
use super::harness::*;

#[track_caller]
pub(super) fn answered(t: &mut Harness, peer: &Peer, queries: Vec<Query>) -> QueryReply {
    let to = t.ask(peer, Request::QueryInfo(QueryInfo::new(queries)));
    match t.ok(to) {
        Reply::Query(reply) => reply,
        other => panic!("{other:?}"),
    }
}

pub(super) fn results(infos: impl IntoIterator<Item = Info>) -> Info {
    Info::new(&keys::QUERY_RESULTS, DataArray::Info(infos.into_iter().collect()))
}

pub(super) fn names() -> Query {
    Query::new(&keys::QUERY_NAMESPACES)
}

pub(super) fn names_are(names: &str) -> Info {
    Info::dynamic(keys::QUERY_NAMESPACES.key_name(), names)
}

pub(super) fn unknown() -> Query {
    Query::new(&keys::QUERY_QUEUE_LIST)
}

pub(super) fn ranks_of(value: &Value) -> Vec<String> {
    let rows = value.as_array().and_then(|array| array.as_proc_infos()).unwrap();
    rows.iter().map(|row| row.proc.to_string()).collect()
}

pub(super) fn table_of(nspaces: &[&str]) -> Query {
    let table = Query::new(&keys::QUERY_PROC_TABLE);
    nspaces.iter().fold(table, |query, nspace| query.qualifier(&keys::NSPACE.text(), *nspace))
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
    // the queue list is the host's, and there is none to ask; of the session nothing was said
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![unknown()])));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let unsaid = || Query::new(&keys::SESSION_ID);
    for queries in
        [vec![unsaid()], vec![unknown(), unsaid()], vec![unknown().qualifier(&keys::QUERY_LOCAL_ONLY, true)]]
    {
        let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(queries)));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
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
        vec![by_id().qualifier(&keys::NSPACE.text(), "job")],
        vec![names(), by_id().qualifier(&keys::RANK, proc("job", 0).rank)],
        vec![names().qualifier(&keys::RANK, proc("job", 0).rank)],
    ] {
        let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(queries)));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn qry_12_sizes_and_names_are_known_here() {
    let (mut t, peers) = Harness::local(3);
    t.job("also", "0");
    let query = names().key(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "job");
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
    let proc = vec![Info::new(&keys::RANK, Rank::from_raw(0)), Info::new(&keys::HOSTNAME, "n0")];
    let proc = [proc, vec![Info::new(&keys::LOCAL_RANK, 0u16)]].concat();
    let about = vec![
        Info::new(&keys::NSPACE.text(), "job"),
        Info::new(&keys::JOB_SIZE, 1u32),
        Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(proc)),
    ];
    let about = vec![Info::new(&keys::JOB_INFO_ARRAY, DataArray::Info(about))];
    let reply = answered(&mut t, &peers[0], vec![Query::new(&keys::QUERY_NAMESPACE_INFO)]);
    assert_eq!(the_only(&reply), DataArray::Info(about).into());
    t.register(spec("early", "0"), None);
    let reply = answered(&mut t, &peers[0], vec![names()]);
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![results([names_are("early,job")])]));
    t.finish();
}

/// The values of a reply by key, whatever query they are of.
pub(super) fn values(reply: &QueryReply) -> Vec<(String, Value)> {
    let infos = reply.results.iter().flat_map(|info| info.value.as_infos().unwrap());
    let found = infos.filter(|info| !info.is(&keys::QUERY_QUALIFIERS));
    found.map(|info| (info.key.to_string(), info.value.clone())).collect()
}

pub(super) fn the_only(reply: &QueryReply) -> Value {
    let [(_, value)] = &values(reply)[..] else { panic!("{reply:?}") };
    value.clone()
}

#[test]
fn gen_05_qry_07_a_required_qualifier_that_nobody_knows_is_refused_and_one_for_other_keys_ignored() {
    let with = |key: &str, is_required: bool| {
        let mut info = Info::dynamic(key.parse().unwrap(), 1u32);
        if is_required {
            info.flags |= InfoFlags::REQUIRED;
        }
        let mut query = names();
        query.qualifiers.push(info);
        query
    };
    let appnum = keys::APPNUM.name();
    for has_host in [false, true] {
        let mut t = Harness::new(has_host.then_some(Upcall::Query));
        t.job("job", "0");
        let peer = t.connect(&proc("job", 0));
        let mut ask = |queries| {
            let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(queries)));
            if has_host {
                let (id, ..) = t.upcall();
                t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
            }
            t.outcome(to)
        };
        for query in [with("strange", false), with(appnum, true)] {
            assert!(matches!(ask(vec![query]), Ok(Reply::Query(reply)) if reply.status == Status::SUCCESS));
        }
        let refused = ask(vec![with("strange", true)]).unwrap_err();
        assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED);
        assert!(refused.message.contains("strange"), "{refused:?}");
        // and fails no other query
        let some = ask(vec![names(), with("strange", true)]);
        assert!(matches!(some, Ok(Reply::Query(reply)) if reply.status == Status::ERR_PARTIAL_SUCCESS));
        t.finish();
    }
}

#[test]
fn qry_03_a_namespace_that_is_not_there_does_not_fail_the_other_keys() {
    let (mut t, peers) = Harness::local(1);
    let both = names().key(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "other");
    for queries in [vec![both], vec![names(), table_of(&["other"])], vec![table_of(&[]), names()]] {
        let reply = answered(&mut t, &peers[0], queries);
        assert_eq!(reply.status, Status::ERR_PARTIAL_SUCCESS);
        assert_eq!(the_only(&reply), "job".into());
    }
    let reply = answered(&mut t, &peers[0], vec![table_of(&["other", "job"])]);
    assert_eq!((reply.status, ranks_of(&the_only(&reply))), (Status::SUCCESS, vec!["job:0".to_owned()]));
    let sizes = Query::new(&keys::JOB_SIZE)
        .qualifier(&keys::NSPACE.text(), "job")
        .qualifier(&keys::NSPACE.text(), "other");
    let reply = answered(&mut t, &peers[0], vec![sizes]);
    assert_eq!((reply.status, the_only(&reply)), (Status::SUCCESS, Value::Uint32(1)));
    // with several reasons there is none
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![table_of(&["other"]), table_of(&[])])));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn qry_06_several_qualifiers_of_one_name_give_one_joined_array() {
    let (mut t, peer, _) = Harness::two_nodes([]);
    t.job("also", "0");
    let ask = |t: &mut Harness, query| the_only(&answered(t, &peer, vec![query]));

    let tables = ask(&mut t, table_of(&["job", "also", "job"]));
    assert_eq!(ranks_of(&tables), ["job:0", "job:1", "job:2", "job:3", "also:0"]);
    let here_and_there = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
    let here_and_there = here_and_there.qualifier(&keys::HOSTNAME, "n1").qualifier(&keys::HOSTNAME, "n0");
    let rows = ask(&mut t, here_and_there.qualifier(&keys::HOSTNAME, "n1"));
    assert_eq!(ranks_of(&rows), ["job:0", "job:1", "job:2", "job:3"]);

    let sizes = Query::new(&keys::JOB_SIZE)
        .qualifier(&keys::NSPACE.text(), "job")
        .qualifier(&keys::NSPACE.text(), "also");
    assert_eq!(ask(&mut t, sizes), DataArray::Uint32(vec![4, 1]).into());
    let nodes = Query::new(&keys::LOCAL_PEERS).qualifier(&keys::NSPACE.text(), "job");
    let nodes = nodes.qualifier(&keys::NODEID, 0u32).qualifier(&keys::NODEID, 1u32);
    // what is named twice is meant once
    let nodes = nodes.qualifier(&keys::NODEID, 0u32);
    assert_eq!(ask(&mut t, nodes), DataArray::String(vec!["0,1".into(), "2,3".into()]).into());
    let procs = Query::new(&keys::LOCAL_RANK).qualifier(&keys::PROCID, proc("job", 1));
    assert_eq!(
        ask(&mut t, procs.qualifier(&keys::PROCID, proc("job", 2))),
        DataArray::Uint16(vec![1, 0]).into()
    );
    // arrays are put end to end
    let sets = |names: &[&str]| DataArray::String(names.iter().map(ToString::to_string).collect());
    let [first, second] = [1, 2].map(|rank| proc("job", rank));
    let spec = JobSpec::new(nspace("job"))
        .proc_info(first.rank, &keys::PSET_NAMES, sets(&["a", "b"]))
        .proc_info(second.rank, &keys::PSET_NAMES, sets(&["c"]));
    t.register(spec, None);
    let names = Query::new(&keys::PSET_NAMES).qualifier(&keys::PROCID, first);
    assert_eq!(ask(&mut t, names.qualifier(&keys::PROCID, second)), sets(&["a", "b", "c"]).into());
    t.finish();
}

#[test]
fn qry_06_what_a_query_names_is_bounded() {
    let (mut t, peers) = Harness::local(1);
    let many = |mut query: Query| {
        for number in 0..40u32 {
            query = query.qualifier(&keys::NODEID, number).qualifier(&keys::APPNUM, number);
        }
        query
    };
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![many(Query::new(&keys::JOB_SIZE))])));
    t.fails(to, Status::ERR_BAD_PARAM);
    // whatever the key; nothing is looked at before
    let nspaces = |count: u32| {
        (0..count).fold(Query::new(&keys::QUERY_NAMESPACES), |query, number| {
            query.qualifier(&keys::NSPACE.text(), format!("x{number}"))
        })
    };
    let ranks = |query: Query, count| {
        (0..count).fold(query, |query, rank| query.qualifier(&keys::RANK, Rank::from_raw(rank)))
    };
    let procs = |query: Query, count| {
        (0..count).fold(query, |query, rank| query.qualifier(&keys::PROCID, proc("x", rank)))
    };
    for (query, is_refused) in [
        (nspaces(1024), false),
        (nspaces(1025), true),
        (ranks(nspaces(32), 32), false),
        (ranks(nspaces(33), 32), true),
        (procs(nspaces(0), 1024), false),
        (procs(nspaces(0), 1025), true),
    ] {
        let asked = query.qualifiers.len();
        let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![query])));
        let outcome = t.outcome(to);
        let failed = outcome.is_err_and(|failure| failure.message.contains("combinations"));
        assert_eq!(failed, is_refused, "{asked}");
    }
    t.finish();
}

#[test]
fn qry_10_values_of_jobs_apps_nodes_and_processes_are_known_here() {
    let (mut t, peer, _) = Harness::two_nodes([]);
    let of_job = |query: Query| query.qualifier(&keys::NSPACE.text(), "job");
    let rank = |number| proc("job", number).rank;
    for (query, expected) in [
        (Query::new(&keys::JOB_SIZE), Value::Uint32(4)),
        (of_job(Query::new(&keys::NUM_NODES)), Value::Uint32(2)),
        (Query::new(&keys::LOCAL_SIZE), Value::Uint32(2)),
        (of_job(Query::new(&keys::HOSTNAME)).qualifier(&keys::RANK, rank(3)), "n1".into()),
        (
            Query::new(&keys::LOCAL_PEERS).qualifier(&keys::NODE_INFO, true).qualifier(&keys::HOSTNAME, "n1"),
            "2,3".into(),
        ),
    ] {
        let reply = answered(&mut t, &peer, vec![query.clone()]);
        assert_eq!(the_only(&reply), expected, "{query:?}");
    }
    let to = t.ask(
        &peer,
        Request::QueryInfo(QueryInfo::new(vec![
            Query::new(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "other"),
        ])),
    );
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    let to = t.ask(
        &peer,
        Request::QueryInfo(QueryInfo::new(vec![
            Query::new(&keys::JOB_SIZE).qualifier(&keys::PROC_INFO, true).qualifier(&keys::JOB_INFO, true),
        ])),
    );
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn qry_12_keys_without_the_qualifier_they_need_are_bad_param() {
    let (mut t, peers) = Harness::local(1);
    for query in [
        table_of(&[]),
        Query::new(&keys::QUERY_LOCAL_PROC_TABLE),
        Query::new(&keys::QUERY_JOB_STATUS),
        Query::new(&keys::QUERY_GROUP_MEMBERSHIP),
        Query::new(&keys::QUERY_PSET_MEMBERSHIP),
        Query::new(&keys::QUERY_ALLOC_STATUS),
    ] {
        let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![query])));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn qry_12_the_library_tells_which_keys_and_qualifiers_it_takes() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    // no host is asked
    let reply = answered(&mut t, &peer, vec![Query::new(&keys::QUERY_SUPPORTED_KEYS)]);
    let list = the_only(&reply);
    let list: Vec<_> = list.as_str().unwrap().split(',').collect();
    for key in [keys::QUERY_NAMESPACES.name(), keys::QUERY_PROC_TABLE.name(), keys::QUERY_MEMORY_USAGE.name()]
    {
        assert!(list.contains(&key), "{list:?}");
    }
    for (key, takes) in [
        (
            keys::QUERY_LOCAL_PROC_TABLE.key_name(),
            "pmix.nspace,pmix.hname,pmix.qry.rfsh,pmix.qry.local,pmix.qry.supqual",
        ),
        (keys::QUERY_NAMESPACES.key_name(), "pmix.qry.rfsh,pmix.qry.local,pmix.qry.supqual"),
    ] {
        let query = Query::dynamic([key]).qualifier(&keys::QUERY_SUPPORTED_QUALIFIERS, true);
        let reply = answered(&mut t, &peer, vec![query]);
        assert_eq!(the_only(&reply), takes.into());
    }
    t.finish();
}

#[test]
fn qry_06_qry_12_namespace_info_names_each_job_with_its_command() {
    let (mut t, peers) = Harness::local(1);
    t.register(spec("also", "0").info(&keys::CMD_LINE, "./also -v"), None);
    let proc = [Info::new(&keys::RANK, Rank::from_raw(0)), Info::new(&keys::HOSTNAME, "n0")];
    let proc = [&proc[..], &[Info::new(&keys::LOCAL_RANK, 0u16)]].concat();
    let proc = Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(proc));
    let size = |size: u32| Info::new(&keys::JOB_SIZE, size);
    let job = || vec![Info::new(&keys::NSPACE.text(), "job"), size(1), proc.clone()];
    // none of its processes is here
    let also =
        || vec![Info::new(&keys::NSPACE.text(), "also"), Info::new(&keys::CMD_LINE, "./also -v"), size(1)];
    let of = |infos: Vec<Info>| Info::new(&keys::JOB_INFO_ARRAY, DataArray::Info(infos));
    let ask = || Query::new(&keys::QUERY_NAMESPACE_INFO);
    let reply = answered(&mut t, &peers[0], vec![ask()]);
    assert_eq!(the_only(&reply), DataArray::Info(vec![of(also()), of(job())]).into());
    let reply = answered(&mut t, &peers[0], vec![ask().qualifier(&keys::NSPACE.text(), "job")]);
    assert_eq!(the_only(&reply), DataArray::Info(vec![of(job())]).into());
    // of several names those that are known are told
    let named = ask().qualifier(&keys::NSPACE.text(), "none").qualifier(&keys::NSPACE.text(), "job");
    assert_eq!(the_only(&answered(&mut t, &peers[0], vec![named])), DataArray::Info(vec![of(job())]).into());
    let to = t.ask(
        &peers[0],
        Request::QueryInfo(QueryInfo::new(vec![ask().qualifier(&keys::NSPACE.text(), "none")])),
    );
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.finish();
}

#[test]
fn qry_12_the_uri_of_the_server_is_told() {
    let (mut t, peers) = Harness::local(1);
    let reply = answered(&mut t, &peers[0], vec![Query::new(&keys::SERVER_URI)]);
    assert_eq!(the_only(&reply), "server.0;tcp4://127.0.0.1:1".into());
    t.finish();
}

#[test]
fn qry_14_the_abi_versions_are_the_librarys_own() {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let query = Query::new(&keys::QUERY_STABLE_ABI_VERSION).key(&keys::QUERY_PROVISIONAL_ABI_VERSION);
    let reply = answered(&mut t, &peer, vec![query]);
    assert_eq!(reply.status, Status::SUCCESS);
    assert_eq!(values(&reply).len(), 2);
    t.finish();
}

#[test]
fn what_one_request_asks_for_is_limited() {
    let (mut t, peers) = Harness::local(1);
    let once = || Query::new(&keys::QUERY_NAMESPACES);
    // each key is answered with all qualifiers of its query
    let named = |query: Query| {
        (0..1100).fold(query, |query, name| query.qualifier(&keys::NSPACE, nspace(&format!("j{name}"))))
    };
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![named(once()); 60])));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t
        .ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![named(Query::new(&keys::QUERY_PROC_TABLE))])));
    t.fails(to, Status::ERR_BAD_PARAM);
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![once(); 1025])));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to =
        t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![once().key(&keys::QUERY_NAMESPACES); 512])));
    let Reply::Query(reply) = t.ok(to) else { panic!("not the answer to a query") };
    assert_eq!(reply.results.len(), 512);
    t.finish();
}
