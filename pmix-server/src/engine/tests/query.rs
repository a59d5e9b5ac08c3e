//! Queries.

use pmix_types::job::JobSpec;
use pmix_types::message::{QueryReply, Reply, Request};
use pmix_types::{
    DataArray, Directives, Info, InfoFlags, Pid, ProcInfo, ProcState, Query, Status, Value, keys,
};

use super::super::upcall::{QueryRequest, QueryResults, Upcall};
use super::super::{Answer, Caller, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::*;

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
    // the queue list is the host's, and there is none to ask; of the session nothing was said
    let to = t.ask(&peers[0], Request::Query(vec![unknown()]));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let unsaid = || Query::new(&keys::SESSION_ID);
    for queries in
        [vec![unsaid()], vec![unknown(), unsaid()], vec![unknown().qualifier(&keys::QUERY_LOCAL_ONLY, true)]]
    {
        let to = t.ask(&peers[0], Request::Query(queries));
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
    assert_same(&caller, &Caller { proc: peer.proc.clone(), uid: USER.0, gid: Some(USER.1), object: None });
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
        let query = query.qualifier(&keys::NSPACE.text(), "job");
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
    let to = t.ask(&peers[0], Request::Query(vec![table().qualifier(&keys::NSPACE.text(), "other")]));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.finish();
}

#[test]
fn qry_11_a_registered_process_that_has_not_come_yet_is_prepared() {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let peer = t.connect(&proc("job", 0));
    let query = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
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
    let about = vec![Info::new(&keys::NSPACE.text(), "job")];
    let about = vec![Info::new(&keys::QUERY_NAMESPACE_INFO, DataArray::Info(about))];
    let reply = answered(&mut t, &peers[0], vec![Query::new(&keys::QUERY_NAMESPACE_INFO)]);
    assert_eq!(the_only(&reply), DataArray::Info(about).into());
    t.register(spec("early", "0"), None);
    let reply = answered(&mut t, &peers[0], vec![names()]);
    assert_eq!(reply, QueryReply::new(Status::SUCCESS, vec![results([names_are("early,job")])]));
    t.finish();
}

/// The values of a reply by key, whatever query they are of.
fn values(reply: &QueryReply) -> Vec<(String, Value)> {
    let infos = reply.results.iter().flat_map(|info| info.value.as_infos().unwrap());
    let found = infos.filter(|info| !info.is(&keys::QUERY_QUALIFIERS));
    found.map(|info| (info.key.to_string(), info.value.clone())).collect()
}

fn the_only(reply: &QueryReply) -> Value {
    let [(_, value)] = &values(reply)[..] else { panic!("{reply:?}") };
    value.clone()
}

#[track_caller]
fn ranks_of(value: &Value) -> Vec<String> {
    let rows = value.as_array().and_then(|array| array.as_proc_infos()).unwrap();
    rows.iter().map(|row| row.proc.to_string()).collect()
}

fn table_of(nspaces: &[&str]) -> Query {
    let table = Query::new(&keys::QUERY_PROC_TABLE);
    nspaces.iter().fold(table, |query, nspace| query.qualifier(&keys::NSPACE.text(), *nspace))
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
            let to = t.ask(&peer, Request::Query(queries));
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
    let to = t.ask(&peers[0], Request::Query(vec![table_of(&["other"]), table_of(&[])]));
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
    let to = t.ask(&peers[0], Request::Query(vec![many(Query::new(&keys::JOB_SIZE))]));
    t.fails(to, Status::ERR_BAD_PARAM);
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
        Request::Query(vec![Query::new(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "other")]),
    );
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    let to = t.ask(
        &peer,
        Request::Query(vec![
            Query::new(&keys::JOB_SIZE).qualifier(&keys::PROC_INFO, true).qualifier(&keys::JOB_INFO, true),
        ]),
    );
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn qry_11_the_local_table_may_be_that_of_another_node() {
    let (mut t, peer, _) = Harness::two_nodes([]);
    let local = |host| {
        let query = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
        query.qualifier(&keys::HOSTNAME, host)
    };
    for (host, expected) in [("n0", ["job:0", "job:1"]), ("n1", ["job:2", "job:3"])] {
        let reply = answered(&mut t, &peer, vec![local(host)]);
        assert_eq!(ranks_of(&the_only(&reply)), expected);
    }
    let to = t.ask(&peer, Request::Query(vec![local("n9")]));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn qry_11_processes_that_no_map_names_are_in_the_tables_too() {
    let mut t = Harness::new([]);
    let bare = JobSpec::new(nspace("job")).node_map(["n0"]).unwrap();
    t.register(bare.node_info("n0", &keys::HOSTNAME_ALIASES, "front"), None);
    t.register_client(&proc("job", 7));
    let peer = t.connect(&proc("job", 7));
    let local = || Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
    let by_alias = local().qualifier(&keys::HOSTNAME, "front");
    for query in [table_of(&["job"]), local(), local().qualifier(&keys::HOSTNAME, "n0"), by_alias] {
        let value = the_only(&answered(&mut t, &peer, vec![query.clone()]));
        let rows = value.as_array().and_then(|array| array.as_proc_infos()).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.proc.clone(), row.hostname.as_deref())).collect();
        assert_eq!(found, [(proc("job", 7), Some("n0"))], "{query:?}");
    }
    t.finish();
}

#[test]
fn qry_11_rows_have_the_executable_if_the_host_said_it() {
    let mut t = Harness::new([]);
    let spec = [(0, "0", "./solver -x 1"), (1, "1", "worker,-y")].into_iter().fold(
        spec("job", "0-1"),
        |spec, (app, ranks, argv)| {
            spec.app_ranks(app, ranks.parse().unwrap()).app_info(app, &keys::APP_ARGV, argv)
        },
    );
    t.register(spec, None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    let reply = answered(&mut t, &peer, vec![table_of(&["job"])]);
    let value = the_only(&reply);
    let rows = value.as_array().and_then(|array| array.as_proc_infos()).unwrap();
    let executables: Vec<_> = rows.iter().map(|row| row.executable.as_deref()).collect();
    assert_eq!(executables, [Some("./solver"), Some("worker")]);
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
        let to = t.ask(&peers[0], Request::Query(vec![query]));
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
    let job = || vec![Info::new(&keys::NSPACE.text(), "job")];
    let also = || vec![Info::new(&keys::NSPACE.text(), "also"), Info::new(&keys::CMD_LINE, "./also -v")];
    let of = |infos: Vec<Info>| Info::new(&keys::QUERY_NAMESPACE_INFO, DataArray::Info(infos));
    let ask = || Query::new(&keys::QUERY_NAMESPACE_INFO);
    let reply = answered(&mut t, &peers[0], vec![ask()]);
    assert_eq!(the_only(&reply), DataArray::Info(vec![of(also()), of(job())]).into());
    let reply = answered(&mut t, &peers[0], vec![ask().qualifier(&keys::NSPACE.text(), "job")]);
    assert_eq!(the_only(&reply), DataArray::Info(vec![of(job())]).into());
    // of several names those that are known are told
    let named = ask().qualifier(&keys::NSPACE.text(), "none").qualifier(&keys::NSPACE.text(), "job");
    assert_eq!(the_only(&answered(&mut t, &peers[0], vec![named])), DataArray::Info(vec![of(job())]).into());
    let to = t.ask(&peers[0], Request::Query(vec![ask().qualifier(&keys::NSPACE.text(), "none")]));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
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

fn under_a_host() -> (Harness, Peer) {
    let mut t = Harness::new([Upcall::Query]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    (t, peer)
}

#[test]
fn qry_09_local_only_stops_here_and_a_refresh_goes_to_the_host() {
    let (mut t, peer) = under_a_host();
    let local = || names().qualifier(&keys::QUERY_LOCAL_ONLY, true);
    let reply = answered(&mut t, &peer, vec![local()]);
    assert_eq!(the_only(&reply), "job".into());
    // every other question goes to the host each time: nothing is ever a copy
    let [fresh, not_local] = [(&keys::QUERY_REFRESH_CACHE, true), (&keys::QUERY_LOCAL_ONLY, false)]
        .map(|(key, value)| names().qualifier(key, value));
    for query in [names(), names(), fresh, not_local] {
        let to = t.ask(&peer, Request::Query(vec![local(), query.clone()]));
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
        let to = t.ask(&peer, Request::Query(vec![both()]));
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
    let to = t.ask(&peer, Request::Query(queries.clone()));
    let (id, ..) = t.upcall();
    // none for the second
    let found = vec![result(&queries[0], "1"), result(&queries[2], "3")];
    t.answer(id, Ok(Answer::Query(QueryResults::partial(found.clone()))));
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, found)));

    // a host that leaves out the qualifiers keeps the order, though one answers the first key and one the second
    let of = |queue: &str| of(queue).key(&keys::QUERY_JOB_STATUS).qualifier(&keys::NSPACE.text(), "job");
    let queries = [of("a"), of("b")];
    let to = t.ask(&peer, Request::Query(queries.to_vec()));
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
fn qry_08_results_with_qualifiers_that_nobody_gave_are_nobodys() {
    let (mut t, peer) = under_a_host();
    let of = |queue: &str| unknown().qualifier(&keys::ALLOC_QUEUE, queue);
    let strange = of("c").results(vec![Info::new(&keys::QUERY_QUEUE_LIST, "3")]);
    let to = t.ask(&peer, Request::Query(vec![of("a"), unknown()]));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![strange.clone()]))));
    t.fails(to, Status::ERR_NOT_FOUND);
    // nor do they keep others from theirs
    let own = of("a").results(vec![Info::new(&keys::QUERY_QUEUE_LIST, "1")]);
    let to = t.ask(&peer, Request::Query(vec![of("a")]));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![strange, own.clone()]))));
    assert_same(&t.ok(to), &Reply::Query(QueryReply::new(Status::SUCCESS, vec![own])));
    t.finish();
}

#[test]
fn qry_10_a_host_that_refuses_is_not_gone_around() {
    let (mut t, peer) = under_a_host();
    let to = t.ask(&peer, Request::Query(vec![names(), Query::new(&keys::QUERY_SUPPORTED_KEYS)]));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!(reply.status, Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(values(&reply)[0].0, keys::QUERY_SUPPORTED_KEYS.name());
    // what it was not asked it has not refused
    let local = names().qualifier(&keys::QUERY_LOCAL_ONLY, true);
    let to = t.ask(&peer, Request::Query(vec![names(), local]));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NO_PERMISSIONS)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!((reply.status, the_only(&reply)), (Status::ERR_PARTIAL_SUCCESS, "job".into()));
    t.finish();
}

#[track_caller]
fn measure(t: &mut Harness) -> (UpcallId, Vec<i32>) {
    match t.next() {
        Command::Measure { id, pids } => (id, pids),
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
        let to = t.ask(&peers[0], Request::Query(vec![query]));
        let (id, pids) = measure(&mut t);
        assert_eq!(pids.len(), 3, "{pids:?}");
        assert_eq!(pids[0], 0);
        t.answer(id, Ok(Answer::Memory(vec![Some(9 * MEGABYTE), Some(2 * MEGABYTE), Some(4 * MEGABYTE)])));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        assert_eq!(the_only(&reply), DataArray::Info(expected).into());
    }
    // one that is gone by then is left out, and an asker that is gone is forgotten
    let to = t.ask(&peers[0], Request::Query(vec![ask()]));
    let (id, _) = measure(&mut t);
    t.answer(id, Ok(Answer::Memory(vec![None, None, None])));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.ask(&peers[0], Request::Query(vec![ask()]));
    let (id, _) = measure(&mut t);
    t.lose(&peers[0]);
    t.cancelled(id);
    t.finish();
}
