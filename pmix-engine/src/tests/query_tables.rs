//! Process tables.

use pmix_types::job::JobSpec;
use pmix_types::message::{Finalize, Hello, Identity, QueryInfo, QueryReply, Reply, Request};
use pmix_types::{DataArray, Directives, Info, Key, Pid, ProcId, ProcInfo, ProcState, Query, Status, keys};

use super::super::{Command, ConnId, HostCall, Input, PeerCred};
use super::harness::*;
use super::query::*;

#[test]
fn qry_11_process_tables_are_in_rank_order_with_states() {
    let mut t = Harness::new([]);
    t.job("job", "0,3,4,5;1,2");
    let [running, finalized, lost] = [0, 3, 4].map(|rank| t.connect(&proc("job", rank)));
    let to = t.ask(&finalized, Request::Finalize(Finalize::new()));
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
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![table()])));
    t.fails(to, Status::ERR_BAD_PARAM);
    let to = t.ask(
        &peers[0],
        Request::QueryInfo(QueryInfo::new(vec![table().qualifier(&keys::NSPACE.text(), "other")])),
    );
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
    assert_eq!(table.as_proc_infos().unwrap()[1].pid, Pid(0));
    t.finish();
}

#[test]
fn qry_11_the_pid_is_that_of_the_process_and_not_of_one_that_it_has_forked() {
    let (mut t, peers) = Harness::local(1);
    let pid = |t: &mut Harness| {
        let query = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
        let table = the_only(&answered(t, &peers[0], vec![query]));
        table.as_array().and_then(|array| array.as_proc_infos()).unwrap()[0].pid
    };
    let first = pid(&mut t);
    assert!(first.0 > 0);
    let forked = t.connect(&proc("job", 0));
    assert_eq!(pid(&mut t), first);
    t.lose(&forked);
    t.finish();
}

#[track_caller]
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
    let to = t.ask(&peer, Request::QueryInfo(QueryInfo::new(vec![local("n9")])));
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

/// The answer to a key about a process.
fn model_of(t: &mut Harness, peer: &Peer, key: &Key<String>, of: Option<ProcId>) -> Option<String> {
    let query = of.into_iter().fold(Query::new(key), |query, proc| query.qualifier(&keys::PROCID, proc));
    let to = t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![query])));
    match t.outcome(to) {
        Ok(Reply::Query(reply)) => Some(the_only(&reply).as_str().unwrap().to_owned()),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => {
            assert_eq!(failure.status, Status::ERR_NOT_FOUND);
            None
        }
    }
}

#[test]
fn ini_11_what_a_process_says_of_its_programming_model_is_found_by_queries() {
    let mut t = Harness::new([]);
    t.job("job", "0-1");
    let plain = t.connect(&proc("job", 1));
    let hello = |model: &str| {
        let mut hello = Hello::new(Identity::Client(proc("job", 0)), Pid(7));
        hello.directives = Directives::new()
            .with(&keys::PROGRAMMING_MODEL, model)
            .with(&keys::MODEL_LIBRARY_NAME, "Open MPI")
            .with(&keys::TIMEOUT, 3);
        hello
    };
    let peer_cred = |pid| PeerCred { uid: USER.0, gid: Some(USER.1), pid: Some(pid) };
    t.feed(Input::Hello { conn: ConnId(100), peer: peer_cred(70), hello: hello("MPI"), reattaches: false });
    assert!(matches!(t.next(), Command::Accept { .. }));
    let peer = Peer { conn: ConnId(100), proc: proc("job", 0) };
    let of = |rank| Some(proc("job", rank));
    assert_eq!(model_of(&mut t, &peer, &keys::PROGRAMMING_MODEL, None).as_deref(), Some("MPI"));
    assert_eq!(model_of(&mut t, &plain, &keys::PROGRAMMING_MODEL, of(0)).as_deref(), Some("MPI"));
    assert_eq!(model_of(&mut t, &plain, &keys::MODEL_LIBRARY_NAME, of(0)).as_deref(), Some("Open MPI"));
    assert_eq!(model_of(&mut t, &plain, &keys::MODEL_LIBRARY_VERSION, of(0)), None);
    assert_eq!(model_of(&mut t, &plain, &keys::PROGRAMMING_MODEL, None), None);
    assert_eq!(model_of(&mut t, &peer, &keys::PROGRAMMING_MODEL, of(1)), None);
    // another library of the same process says it of its own, and one that says nothing changes nothing
    t.feed(Input::Hello {
        conn: ConnId(101),
        peer: peer_cred(70),
        hello: hello("OpenSHMEM"),
        reattaches: false,
    });
    assert!(matches!(t.next(), Command::Accept { .. }));
    let third = t.connect(&proc("job", 0));
    assert_eq!(model_of(&mut t, &plain, &keys::PROGRAMMING_MODEL, of(0)).as_deref(), Some("OpenSHMEM"));
    t.lose(&third);
    // who is started anew has said nothing yet
    for conn in [ConnId(100), ConnId(101)] {
        t.lose_conn(conn);
    }
    t.drain();
    t.register_client(&proc("job", 0));
    assert_eq!(model_of(&mut t, &plain, &keys::PROGRAMMING_MODEL, of(0)), None);
    t.finish();
}

#[test]
fn what_a_process_says_of_its_programming_model_is_bounded() {
    let mut t = Harness::new([]);
    t.job("job", "0");
    for (length, fits) in [(5000, false), (3000, true)] {
        let mut hello = Hello::new(Identity::Client(proc("job", 0)), Pid(7));
        hello.directives = Directives::new().with(&keys::PROGRAMMING_MODEL, "m".repeat(length));
        let peer = PeerCred { uid: USER.0, gid: Some(USER.1), pid: Some(70) };
        t.feed(Input::Hello { conn: ConnId(100), peer, hello, reattaches: false });
        match t.next() {
            Command::Accept { .. } => assert!(fits),
            Command::Refuse { failure, .. } => {
                assert!(!fits && failure.status == Status::ERR_OUT_OF_RESOURCE, "{failure}");
            }
            other => panic!("{other:?}"),
        }
    }
    t.finish();
}
