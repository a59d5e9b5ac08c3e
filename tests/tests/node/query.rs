//! Queries and aborts.

use std::sync::{Arc, Mutex};

use pmix_client::types::{DataArray, Info, ProcState, Query, Status, Value};
use pmix_client::{ProcId, Rank, keys};
use pmix_server::host::{Abort, QueryRequest, QueryResults, ToolConnected};
use pmix_server::types::job::JobSpec;
use pmix_server::{Capabilities, HostError, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{TestLauncher, TestNode, on_both_runtimes, query_once, within};
use pmix_types::{Gid, Uid};

#[test]
fn qry_12_namespaces_are_a_comma_list() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        node.add_job(JobSpec::new("other".parse().unwrap()), []).await;
        let client = node.client(0).await;
        let results = within(client.query([Query::new(&keys::QUERY_NAMESPACES)])).await.unwrap();
        assert_eq!(results.status(), Status::SUCCESS);
        assert_eq!(results.get(keys::QUERY_NAMESPACES).unwrap().unwrap(), "job,other");
    });
}

#[test]
fn qry_11_val_06_the_process_table_of_a_job_in_rank_order() {
    on_both_runtimes(async || {
        let spec = JobSpec::new("job".parse().unwrap());
        let spec = spec.node_map(["n0", "n1"]).unwrap().proc_map("0,2;1").unwrap();
        let node = TestNode::builder(0).job(spec, [0, 2]).start().await;
        let client = node.client(0).await;
        let own_pid = i32::try_from(std::process::id()).unwrap();
        for (key, ranks) in
            [(&keys::QUERY_PROC_TABLE, vec![0, 1, 2]), (&keys::QUERY_LOCAL_PROC_TABLE, vec![0, 2])]
        {
            let query = Query::new(key).qualifier(&keys::NSPACE.text(), "job");
            let results = within(client.query([query])).await.unwrap();
            let Some(DataArray::ProcInfo(rows)) = results.get(key).unwrap() else { panic!("{results:?}") };
            let procs: Vec<ProcId> = rows.iter().map(|row| row.proc.clone()).collect();
            assert_eq!(procs, ranks.iter().map(|rank| node.proc(*rank)).collect::<Vec<_>>());
            assert_eq!((rows[0].pid.0, rows[0].state), (own_pid, ProcState::CONNECTED));
            assert_eq!((rows[0].hostname.as_deref(), rows[0].exit_code), (Some("n0"), 0));
            let last = rows.last().unwrap();
            assert_eq!((last.pid.0, last.state), (0, ProcState::PREPPED));
        }
    });
}

#[tokio::test]
async fn qry_11_a_process_table_needs_a_namespace() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let error = within(client.query([Query::new(&keys::QUERY_PROC_TABLE)])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    assert!(error.to_string().contains(keys::NSPACE.name()), "{error}");
}

#[tokio::test]
async fn qry_03_qry_04_some_all_or_nothing_is_found() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let some = Query::new(&keys::QUERY_NAMESPACES).key(&keys::QUERY_QUEUE_LIST);
    let results = within(client.query([some])).await.unwrap();
    assert_eq!(results.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(results.missing(), [keys::QUERY_QUEUE_LIST.key_name()]);
    // the queues are the host's, and this server has none
    let error = within(client.query([Query::new(&keys::QUERY_QUEUE_LIST)])).await.unwrap_err();
    assert!(error.is_not_supported(), "{error}");
    let error = within(client.query([Query::new(&keys::SESSION_ID)])).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test]
async fn qry_01_qry_08_several_queries_are_answered_each() {
    let node = TestNode::start(2).await;
    let client = node.client(0).await;
    let size = Query::new(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "job");
    let queries = [Query::new(&keys::QUERY_NAMESPACES), size, Query::new(&keys::QUERY_NAMESPACES)];
    let results = within(client.query(queries)).await.unwrap();
    assert_eq!(results.results().len(), 3);
    assert_eq!(results.get(keys::JOB_SIZE).unwrap(), Some(2));
    assert_eq!(results.results()[0].infos, results.results()[2].infos);
}

#[tokio::test]
async fn qry_05_a_process_is_named_in_one_way() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let both = Query::new(&keys::QUERY_NAMESPACES)
        .qualifier(&keys::PROCID, node.proc(0))
        .qualifier(&keys::NSPACE.text(), "job");
    let error = within(client.query([both])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
}

/// Notes what it is asked, and answers queries for the queue list only.
#[derive(Clone, Debug, Default)]
struct Oracle {
    asked: Arc<Mutex<Vec<(ProcId, QueryRequest)>>>,
    aborts: Arc<Mutex<Vec<(ProcId, Abort)>>>,
}

#[async_trait]
impl HostModule for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Query).with(Upcall::Abort)
    }

    async fn query(&self, cx: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        self.asked.lock().unwrap().push((cx.caller.clone(), req.clone()));
        let query = &req.queries[0];
        if query.keys.contains(&keys::QUERY_AUTHORIZATIONS.key_name()) {
            panic!("a host that panics");
        }
        if !query.keys.contains(&keys::QUERY_QUEUE_LIST.key_name()) {
            return Err(HostError::not_supported("that"));
        }
        let answer = vec![Info::new(&keys::QUERY_QUEUE_LIST, "short,long")];
        Ok(QueryResults::complete(vec![Info::dynamic(keys::QUERY_RESULTS.key_name(), answer)]))
    }

    async fn abort(&self, cx: &UpcallContext, req: Abort) -> HostResult<()> {
        self.aborts.lock().unwrap().push((cx.caller.clone(), req.clone()));
        match req.procs.is_empty() {
            true => Ok(()),
            false => Err(HostError::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, "all or nothing")),
        }
    }
}

#[test]
fn qry_10_gen_13_the_host_is_asked_with_the_callers_identity_by_the_kernels_word() {
    on_both_runtimes(async || {
        let host = Oracle::default();
        let node = TestNode::with_host(2, host.clone()).await;
        let client = node.client(1).await;
        let query = Query::new(&keys::QUERY_QUEUE_LIST).qualifier(&keys::HOSTNAME, "n0");
        let results = within(client.query([query.clone()])).await.unwrap();
        assert_eq!(results.get(keys::QUERY_QUEUE_LIST).unwrap().unwrap(), "short,long");
        let asked = host.asked.lock().unwrap();
        let [(caller, request)] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!((caller, &request.queries), (&node.proc(1), &vec![query]));
        let uid = Uid::new(rustix::process::geteuid().as_raw());
        assert_eq!(request.directives.get(&keys::USERID).unwrap(), Some(uid));
        let gid = Gid::new(rustix::process::getegid().as_raw());
        assert_eq!(request.directives.get(&keys::GRPID).unwrap(), Some(gid));
    });
}

#[tokio::test]
async fn qry_10_what_the_host_does_not_support_the_server_answers_itself() {
    let node = TestNode::with_host(1, Oracle::default()).await;
    let client = node.client(0).await;
    let results = within(client.query([Query::new(&keys::QUERY_NAMESPACES)])).await.unwrap();
    assert_eq!(results.get_value(keys::QUERY_NAMESPACES.name()), Some(&Value::from("job")));
}

#[test]
fn a_host_that_panics_in_a_query_fails_it() {
    on_both_runtimes(async || {
        let node = TestNode::with_host(1, Oracle::default()).await;
        let client = node.client(0).await;
        let error = within(client.query([Query::new(&keys::QUERY_AUTHORIZATIONS)])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERROR);
        assert!(error.to_string().contains("panicked in query"), "{error}");
    });
}

#[test]
fn abt_01_hst_05_abort_reaches_the_host_as_it_was_said() {
    on_both_runtimes(async || {
        let host = Oracle::default();
        let node = TestNode::with_host(2, host.clone()).await;
        let client = node.client(1).await;
        within(client.abort(-7, "enough")).await.unwrap();
        let error = within(client.abort(0, "").procs([node.proc(0)])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_PARAM_VALUE_NOT_SUPPORTED, "{error}");
        assert!(error.to_string().contains("all or nothing"), "{error}");
        let aborts = host.aborts.lock().unwrap();
        let [(caller, whole), (_, one)] = aborts.as_slice() else { panic!("{aborts:?}") };
        assert_eq!(*caller, node.proc(1));
        assert_eq!((whole.status, whole.message.as_str(), whole.procs.len()), (-7, "enough", 0));
        assert_eq!((one.status, &one.procs), (0, &vec![node.proc(0)]));
    });
}

#[tokio::test]
async fn gen_11_without_such_an_entry_a_call_is_not_supported() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let error = within(client.abort(1, "")).await.unwrap_err();
    assert!(error.is_not_supported(), "{error}");
    assert!(error.to_string().contains("abort"), "{error}");
}

#[tokio::test]
async fn hst_05_the_standard_host_aborts_only_what_it_has_started() {
    let node = TestNode::with_standard_host(1).await;
    let client = node.client(0).await;
    let error = within(client.abort(1, "")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_PARAM_VALUE_NOT_SUPPORTED, "{error}");
    assert!(error.to_string().contains("job"), "{error}");
}

/// Answers the first query only after the second.
#[derive(Debug, Default)]
struct LastInFirstOut {
    second: tokio::sync::Notify,
}

#[async_trait]
impl HostModule for LastInFirstOut {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Query)
    }

    async fn query(&self, _: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        let key = req.queries[0].keys[0].clone();
        match key == keys::QUERY_QUEUE_LIST.key_name() {
            true => self.second.notified().await,
            false => self.second.notify_one(),
        }
        let answer = vec![Info::dynamic(key, "answered")];
        Ok(QueryResults::complete(vec![Info::dynamic(keys::QUERY_RESULTS.key_name(), answer)]))
    }
}

#[test]
fn gen_16_an_upcall_that_takes_its_time_holds_up_no_other() {
    on_both_runtimes(async || {
        let node = TestNode::with_host(1, LastInFirstOut::default()).await;
        let client = node.client(0).await;
        let slow = {
            let client = client.clone();
            tokio::spawn(async move { client.query([Query::new(&keys::QUERY_QUEUE_LIST)]).await })
        };
        node.until_waiting(1).await;
        within(client.query([Query::new(&keys::QUERY_NAMESPACES)])).await.unwrap();
        let results = within(slow).await.unwrap().unwrap();
        assert_eq!(results.get(keys::QUERY_QUEUE_LIST).unwrap().unwrap(), "answered");
    });
}

#[tokio::test]
async fn qry_07_qualifiers_that_do_not_apply_are_ignored() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let query = Query::new(&keys::QUERY_NAMESPACES).qualifier(&keys::HOSTNAME, "elsewhere");
    let results = within(client.query([query])).await.unwrap();
    assert_eq!(results.get(keys::QUERY_NAMESPACES).unwrap().unwrap(), "job");
}

/// Lets tools in and never answers them.
struct Silent;

#[async_trait]
impl HostModule for Silent {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Query).with(Upcall::ToolConnected)
    }

    async fn tool_connected(&self, _: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        Ok(ProcId::new("tool".parse().unwrap(), Rank::from_raw(0)))
    }

    async fn query(&self, cx: &UpcallContext, _: QueryRequest) -> HostResult<QueryResults> {
        cx.cancelled().await;
        Err(Status::ERR_TIMEOUT.into())
    }
}

#[tokio::test]
async fn a_unary_query_that_is_hung_up_leaves_nothing() {
    let node = TestNode::builder(1).host(Silent).server(|server| server.tool_support(true)).start().await;
    let query = [Query::new(&keys::QUERY_NAMESPACES)];
    {
        let socket = node.socket();
        let mut asked = std::pin::pin!(query_once(&socket, &query));
        tokio::select! {
            answer = &mut asked => panic!("answered: {answer:?}"),
            () = node.until_waiting(1) => {}
        }
    }
    within(node.until_waiting(0)).await;
}

#[tokio::test]
async fn qry_03_an_unknown_namespace_does_not_fail_the_other_queries() {
    let node = TestNode::with_standard_host(2).await;
    let client = node.client(0).await;
    let table = |nspace: &str| Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), nspace);
    let queries = [table("nope"), Query::new(&keys::JOB_SIZE), table("job")];
    let results = within(client.query(queries)).await.unwrap();
    assert_eq!(results.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(results.get(keys::JOB_SIZE).unwrap(), Some(2));
    assert_eq!(results.missing(), [keys::QUERY_PROC_TABLE.key_name()]);
    let rows = results.get(keys::QUERY_PROC_TABLE).unwrap().unwrap();
    assert_eq!(rows.len(), 2);
    let error = within(client.query([table("nope")])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_INVALID_NAMESPACE, "{error}");
}

#[tokio::test]
async fn qry_06_two_nodes_in_one_query_give_one_array() {
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1", "n2"]).unwrap();
    let node = TestNode::builder(0).job(spec.proc_map("0,3;1;2").unwrap(), [0, 3]).start().await;
    let client = node.client(0).await;
    let table = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
    let table = table.qualifier(&keys::HOSTNAME, "n2").qualifier(&keys::HOSTNAME, "n0");
    let results = within(client.query([table])).await.unwrap();
    let Some(DataArray::ProcInfo(rows)) = results.get(keys::QUERY_LOCAL_PROC_TABLE).unwrap() else {
        panic!("{results:?}")
    };
    let procs: Vec<_> = rows.into_iter().map(|row| row.proc).collect();
    assert_eq!(procs, [0, 2, 3].map(|rank| node.proc(rank)));
}

#[tokio::test]
async fn qry_06_qry_11_qry_12_the_standard_host_tells_of_the_jobs_it_has_started() {
    let (node, _host, _job) = TestLauncher::new("n0").node("job", 2).await;
    node.add_job(JobSpec::new("other".parse().unwrap()), []).await;
    let client = node.connect(&ProcId::new("job".parse().unwrap(), Rank::from_raw(0))).await.unwrap();
    let rows_of = async |query: Query| {
        let key = query.keys[0].clone();
        let results = within(client.query([query])).await.unwrap();
        match results.get_value(&key) {
            Some(Value::DataArray(array)) => array.as_proc_infos().unwrap().to_vec(),
            other => panic!("{other:?}"),
        }
    };
    // what is named twice is meant once
    for key in [&keys::QUERY_PROC_TABLE, &keys::QUERY_LOCAL_PROC_TABLE] {
        let query =
            Query::new(key).qualifier(&keys::NSPACE.text(), "job").qualifier(&keys::NSPACE.text(), "job");
        let rows = rows_of(query).await;
        let found: Vec<_> =
            rows.iter().map(|row| (row.proc.rank.to_raw(), row.hostname.as_deref())).collect();
        assert_eq!(found, [(0, Some("n0")), (1, Some("n0"))]);
    }
    let elsewhere = Query::new(&keys::QUERY_LOCAL_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
    assert_eq!(rows_of(elsewhere.qualifier(&keys::HOSTNAME, "n9")).await, []);
    // jobs that others have registered are there as well
    let results = within(client.query([Query::new(&keys::QUERY_NAMESPACES)])).await.unwrap();
    let names = results.get(keys::QUERY_NAMESPACES).unwrap().unwrap();
    let names: Vec<_> = names.split(',').collect();
    assert!(names.contains(&"job") && names.contains(&"other"), "{names:?}");
}

#[test]
fn the_memory_of_processes_is_measured() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let client = node.client(0).await;
        let query = Query::new(&keys::QUERY_MEMORY_USAGE).qualifier(&keys::PROCID, node.proc(0));
        let results = within(client.query([query])).await.unwrap();
        let usage = results.get(keys::QUERY_MEMORY_USAGE).unwrap().unwrap();
        let [average, of_proc] = usage.as_infos().unwrap() else { panic!("{usage:?}") };
        let average: f32 = average.get().unwrap();
        assert!(average > 1.0, "{average}");
        let of_proc: DataArray = of_proc.get().unwrap();
        assert_eq!(of_proc.as_infos().unwrap()[0], Info::new(&keys::PROCID, node.proc(0)));
    });
}

/// Never answers for `slow`.
struct Stuck;

#[async_trait]
impl HostModule for Stuck {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Query)
    }

    async fn query(&self, cx: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        let stuck = req.queries[0].keys.contains(&keys::QUERY_QUEUE_LIST.key_name());
        if stuck {
            cx.cancelled().await;
        }
        Err(HostError::not_supported("that"))
    }
}

#[test]
fn qry_09c_gen_16_a_host_that_hangs_holds_up_nobody_else() {
    on_both_runtimes(async || {
        let node = TestNode::with_host(2, Stuck).await;
        let (client, other) = (node.client(0).await, node.client(1).await);
        let hanging = {
            let client = client.clone();
            tokio::spawn(async move { client.query([Query::new(&keys::QUERY_QUEUE_LIST)]).await })
        };
        node.until_waiting(1).await;
        let names = || Query::new(&keys::QUERY_NAMESPACES);
        for client in [&client, &other] {
            within(client.query([names()])).await.unwrap();
            let both =
                [names().qualifier(&keys::QUERY_LOCAL_ONLY, true), Query::new(&keys::QUERY_SUPPORTED_KEYS)];
            within(client.query(both)).await.unwrap();
            within(client.resolve_nodes(None)).await.unwrap();
        }
        assert!(!hanging.is_finished());
        hanging.abort();
    });
}

#[tokio::test]
async fn qry_10_dbg_01_launchers_and_debuggers_are_told_what_a_spawn_may_request() {
    let node = TestNode::with_standard_host(1).await;
    let client = node.client(0).await;
    let query = Query::new(&keys::QUERY_SPAWN_SUPPORT).key(&keys::QUERY_DEBUG_SUPPORT);
    let found = within(client.query([query])).await.unwrap();
    let list = |key| found.get::<String>(key).unwrap().unwrap();
    let (all, debug) = (list(&keys::QUERY_SPAWN_SUPPORT), list(&keys::QUERY_DEBUG_SUPPORT));
    let (all, debug): (Vec<_>, Vec<_>) = (all.split(',').collect(), debug.split(',').collect());
    for key in [keys::DEBUG_STOP_IN_INIT.name(), keys::DEBUGGER_DAEMONS.name(), keys::DEBUG_TARGET.name()] {
        assert!(debug.contains(&key), "{key}: {debug:?}");
    }
    assert!(debug.iter().all(|key| all.contains(key)), "{debug:?} {all:?}");
    assert!(all.contains(&keys::WDIR.name()) && !debug.contains(&keys::WDIR.name()));
    // what is refused is not promised
    assert!(!all.contains(&keys::DEBUG_STOP_ON_EXEC.name()));
}
