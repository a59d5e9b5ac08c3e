//! What C clients ask reaches the host whole, and what the server knows reaches them as it is.

use pmix_client::types::job::JobSpec;
use pmix_client::types::{
    AllocDirective, Directives, Info, IofChannels, Key, KeyVal, Query, Status, Time, Value, keys,
};
use pmix_client::{ProcId, Rank};
use pmix_native::conn::{Peer as Who, tag};
use pmix_native::msg::{Body, Entry, IofPull, Log, NspaceData, Push, Reply, Request};
use pmix_native::{Dialect, Encoding};
use pmix_server::NativeWire;
use pmix_server::host::{self, IofPullRequest};
use pmix_tests::{NativeSession, Recorder, TestCluster, TestNode, within};
use pmix_types::message::{
    Abort, Allocate, Fence, Finalize, IofPush, JobControl, Monitor, QueryInfo, RegisterEvents, ResolveNodes,
    ResolvePeers, SessionControl, ValidateCredential,
};
use tokio::sync::mpsc;

fn me() -> ProcId {
    ProcId::new("job".parse().unwrap(), Rank::from_raw(0))
}

async fn session(node: &TestNode) -> NativeSession {
    open_as(node, Dialect::V41, "4.2.2").await
}

async fn open_as(node: &TestNode, dialect: Dialect, version: &str) -> NativeSession {
    NativeSession::open(node, Who::Client(me()), Encoding::plain(dialect), version).await
}

/// Tags below that of the first request are those of pushes: an answer would be taken for an event or for output.
#[tokio::test]
async fn what_has_the_tag_of_no_request_is_neither_carried_out_nor_answered() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Recorder(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On)).start().await;
    let mut session = session(&node).await;
    let abort =
        |message: &str| Request::from(Abort::new(0, message.into())).encode(&session.context).unwrap();
    let (low, first) = (abort("low"), abort("first"));
    for tag in [tag::EVENT, tag::IOF, 3, tag::FIRST_REQUEST - 1] {
        session.send(tag, low.clone()).await;
    }
    session.send(tag::FIRST_REQUEST, first).await;
    assert_eq!(session.next_frame().await.tag, tag::FIRST_REQUEST, "the first answer");
    let carried_out = within(asked.recv()).await.unwrap();
    assert!(carried_out.contains("first"), "{carried_out}");
    assert!(asked.try_recv().is_err());
}

#[tokio::test]
async fn an_outcome_that_a_release_does_not_know_is_told_as_one_that_it_knows() {
    let node = TestNode::builder(2).server(|server| server.native_wire(NativeWire::On)).start().await;
    let member = Status::ERR_NOT_A_MEMBER;
    for (dialect, version, expected) in [
        (Dialect::V21, "2.1.4", Status::ERR_BAD_PARAM),
        (Dialect::V3, "3.2.3", Status::ERR_BAD_PARAM),
        (Dialect::V4, "4.0.0", Status::ERR_BAD_PARAM),
        (Dialect::V41, "4.2.2", Status::ERR_BAD_PARAM),
        (Dialect::V41, "5.0.11", Status::ERR_BAD_PARAM),
        (Dialect::V41, "6.0.0", member),
        (Dialect::V21, "6.0.0", member),
        (Dialect::V41, "no release", Status::ERR_BAD_PARAM),
    ] {
        let mut session = open_as(&node, dialect, version).await;
        let others = Fence::new(Some(vec![node.proc(1)]));
        assert_eq!(session.ask(&others.into()).await.status, expected, "{dialect} {version}");
        // what all know
        let nowhere = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "nowhere");
        let unknown = session.ask(&QueryInfo::new(vec![nowhere]).into()).await.status;
        assert_eq!(unknown, Status::ERR_INVALID_NAMESPACE, "{dialect} {version}");
        assert_eq!(session.ask(&Finalize::new().into()).await.status, Status::SUCCESS);
    }
}

/// An element of a C program's array that it has not filled in.
#[tokio::test]
async fn an_info_without_a_key_does_not_make_a_request_unreadable() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Recorder(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On)).start().await;
    for (dialect, version) in [(Dialect::V21, "2.1.4"), (Dialect::V3, "3.2.3"), (Dialect::V41, "4.2.2")] {
        let mut session = open_as(&node, dialect, version).await;
        let mut control = JobControl::new(vec![ProcId::wildcard(me().nspace)]);
        control.directives = Directives::new().with(&keys::JOB_CTRL_ID, "mine");
        let named = control.directives.clone();
        control.directives.push(Info::dynamic("unfilled".parse().unwrap(), true));
        let request = Request::from(control);
        let payload = request.encode(&session.context).unwrap();
        let answer = session.ask_bytes(without_text(&payload, "unfilled", dialect)).await;
        let answer = Reply::decode(&session.context, request.command(), &answer).unwrap();
        assert_eq!(answer.status, Status::SUCCESS, "{dialect}");
        let carried_out = within(asked.recv()).await.unwrap();
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let told = named.with(&keys::USERID, uid).with(&keys::GRPID, gid);
        assert!(carried_out.contains(&format!("{told:?}")), "{dialect}: {carried_out}");
        assert_eq!(session.ask(&Finalize::new().into()).await.status, Status::SUCCESS);
    }
}

/// The bytes of a request with an empty text in the place of this one.
fn without_text(payload: &[u8], text: &str, dialect: Dialect) -> Vec<u8> {
    let at = payload.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
    // before it its length with the NUL, after it the NUL
    let length = if dialect.is_flexible() { 1 } else { 4 };
    let mut changed = payload[..at - length].to_vec();
    changed.extend(vec![0; length]);
    changed.extend(&payload[at + text.len() + 1..]);
    changed
}

#[tokio::test]
async fn gen_14_hst_05_iof_10_log_03_mon_03b_what_a_c_client_asks_reaches_the_host_whole() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let node =
        TestNode::builder(1).host(Recorder(sender)).server(|server| server.native_wire(NativeWire::On));
    let node = node.start().await;
    let mut session = session(&node).await;
    let whole = || vec![ProcId::wildcard(me().nspace)];
    let wish = || Directives::new().with(&keys::JOB_CTRL_ID, "mine");
    // the host is told who asks
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let identity = |directives: Directives| directives.with(&keys::USERID, uid).with(&keys::GRPID, gid);
    let code = Status::from_raw(-3001);
    let text = || vec![Info::new(&keys::LOG_STDERR, "text")];
    let usage = || Info::new(&keys::MONITOR_CANCEL, "of the host");

    let mut log = Log::new(text().into());
    (log.time, log.info) = (Some(Time(86_400)), Directives::new().with(&keys::LOG_SYSLOG_PRI, 5));
    let stamped = log.info.clone().with(&keys::LOG_TIMESTAMP, Time(86_400));
    let copied = Directives::new().with(&keys::IOF_COPY, true);
    let mut pull = IofPull::new(whole(), IofChannels::STDERR, 5);
    pull.info = copied.clone();
    let pulled = host::IofPull::new(whole(), IofChannels::STDERR).with_directives(identity(copied));
    let pulled = IofPullRequest::new(pulled, true);
    let aborted = Abort::new(3, "over".into()).with_procs(whole());

    let allocate = |directives| Allocate::new(AllocDirective::EXTEND).with_directives(directives);
    let paused = || wish().with(&keys::JOB_CTRL_PAUSE, true);
    let control = |directives| JobControl::new(whole()).with_directives(directives);
    let monitor = |directives| Monitor::new(usage(), code).with_directives(directives);
    let validate = |directives| ValidateCredential::new("secret".into()).with_directives(directives);
    let last = || Directives::new().with(&keys::IOF_COMPLETE, true);
    let push = |directives| IofPush::new(whole(), "last".into()).with_directives(directives);
    let of_session = |directives| SessionControl::new(Some(7)).with_directives(directives);
    for (request, expected) in [
        (aborted.clone().into(), format!("{aborted:?}")),
        (Request::Log(log), format!("{:?}", host::Log::new(text()).with_directives(identity(stamped)))),
        (allocate(wish()).into(), format!("{:?}", allocate(identity(wish())))),
        (control(paused()).into(), format!("{:?}", control(identity(paused())))),
        (monitor(wish()).into(), format!("{:?}", monitor(identity(wish())))),
        (validate(wish()).into(), format!("{:?}", validate(identity(wish())))),
        (Request::IofPull(pull), format!("{pulled:?}")),
        (push(last()).into(), format!("{:?}", push(identity(last())))),
        (of_session(wish()).into(), format!("{:?}", of_session(identity(wish())))),
    ] {
        let reply = session.ask(&request).await;
        assert_eq!(reply.status, Status::SUCCESS, "{request:?}");
        assert_eq!(within(asked.recv()).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn qry_03_res_07_res_11_a_c_client_hears_the_status_and_what_is_there() {
    let node = TestNode::builder(1).server(|server| server.native_wire(NativeWire::On)).start().await;
    node.add_job(JobSpec::new("bare".parse().unwrap()), []).await;
    let query = |query: Query| Request::from(QueryInfo::new(vec![query]));
    let names = Query::new(&keys::QUERY_NAMESPACES);
    let some = query(names.clone().key(&keys::QUERY_QUEUE_LIST));
    // with any other status, libraries before 5.0 ignore the results
    for (dialect, version, status) in [
        (Dialect::V3, "3.2.3", Status::SUCCESS),
        (Dialect::V41, "4.2.2", Status::SUCCESS),
        (Dialect::V41, "5.0.11", Status::ERR_PARTIAL_SUCCESS),
    ] {
        let mut session = open_as(&node, dialect, version).await;
        let reply = session.ask(&some).await;
        assert_eq!(reply.status, status, "{version}");
        let Body::Info(results) = reply.body else { panic!("{version}: {:?}", reply.body) };
        assert!(matches!(&results[..], [one] if one.is(&keys::QUERY_NAMESPACES)), "{version}: {results:?}");
        assert_eq!(session.ask(&Finalize::new().into()).await.status, Status::SUCCESS);
    }
    let mut session = session(&node).await;
    for (asked, status) in [
        (names.clone(), Status::SUCCESS),
        (Query::new(&keys::QUERY_QUEUE_LIST), Status::ERR_NOT_SUPPORTED),
        (
            Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "none"),
            Status::ERR_INVALID_NAMESPACE,
        ),
    ] {
        assert_eq!(session.ask(&query(asked)).await.status, status);
    }
    // no namespace stands for all of them, no node for this one
    let nspace = |name: &str| (!name.is_empty()).then(|| name.parse().unwrap());
    for asked in ["", "job"] {
        let peers = session.ask(&ResolvePeers::new(None, nspace(asked)).into()).await;
        assert_eq!(peers.body, Body::Peers(vec![me()]));
        let nodes = session.ask(&ResolveNodes::new(nspace(asked)).into()).await;
        assert_eq!(nodes.body, Body::Nodes(Some("n0".into())));
    }
    let none = session.ask(&ResolveNodes::new(nspace("bare")).into()).await;
    assert_eq!((none.status, none.body), (Status::SUCCESS, Body::Nodes(None)));
    let unknown = session.ask(&ResolveNodes::new(nspace("other")).into()).await;
    assert_eq!(unknown.status, Status::ERR_INVALID_NAMESPACE);
}

async fn job_data(node: &TestNode) -> NspaceData {
    match session(node).await.ask(&Request::Job).await.body {
        Body::Job(job) => job,
        other => panic!("{other:?}"),
    }
}

/// The values of the job itself, with the arrays of its parts among them.
fn of_job(job: &NspaceData) -> Vec<KeyVal> {
    let pair = |entry: &Entry| match entry {
        Entry::Pair(pair) => Some(pair.clone()),
        _ => None,
    };
    job.entries.iter().filter_map(pair).collect()
}

fn value<T>(pairs: &[KeyVal], key: &Key<T>) -> Option<Value> {
    pairs.iter().find(|pair| *pair.key == *key.name()).map(|pair| pair.value.clone())
}

#[tokio::test]
async fn reg_09_reg_20_a_c_client_is_told_what_follows_from_the_maps_and_what_came_last() {
    let spec =
        JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1"]).unwrap().proc_map("0,2;1").unwrap();
    let spec =
        spec.session(42).info(&keys::NPROC_OFFSET, Rank::from_raw(10)).node_info("n1", &keys::NODEID, 7u32);
    let spec = spec.session_info(&keys::NODE_MAP_RAW, "n0,n1,n2");
    // libpmix 4.2 refuses reserved keys that it does not know
    let (unknown, own): (pmix_client::types::KeyName, pmix_client::types::KeyName) =
        ("pmix.not.there".parse().unwrap(), "acme.own".parse().unwrap());
    let spec = [&unknown, &own]
        .into_iter()
        .fold(spec, |spec, key| spec.raw(Info::dynamic(key.clone(), Value::Uint32(1))));
    let node = TestNode::builder(0).job(spec, [0, 2]).server(|server| server.native_wire(NativeWire::On));
    let node = node.start().await;
    let job = job_data(&node).await;
    let whole = of_job(&job);
    assert!(whole.iter().any(|pair| pair.key == own) && whole.iter().all(|pair| pair.key != unknown));
    assert_eq!(value(&whole, &keys::JOB_SIZE), Some(Value::Uint32(3)));
    assert_eq!(value(&whole, &keys::MAX_PROCS), Some(Value::Uint32(3)));
    assert_eq!(value(&whole, &keys::NUM_NODES), Some(Value::Uint32(2)));
    let parts = |key: &Key<_>| -> Vec<Vec<KeyVal>> {
        let arrays = whole.iter().filter(|pair| *pair.key == *key.name());
        let pair = |info: &Info| KeyVal { key: info.key.clone(), value: info.value.clone() };
        arrays.map(|array| array.value.as_infos().unwrap().iter().map(pair).collect()).collect()
    };
    let session = &parts(&keys::SESSION_INFO_ARRAY)[0];
    assert_eq!(value(session, &keys::SESSION_ID), Some(Value::Uint32(42)));
    assert_eq!(value(session, &keys::NUM_NODES), Some(Value::Uint32(3)));
    let app = &parts(&keys::APP_INFO_ARRAY)[0];
    assert_eq!(value(app, &keys::APP_SIZE), Some(Value::Uint32(3)));
    assert_eq!(value(app, &keys::APPLDR), Some(Value::Rank(Rank::from_raw(0))));
    let nodes = parts(&keys::NODE_INFO_ARRAY);
    assert_eq!(nodes.len(), 2);
    for (of_node, (name, id, peers, first)) in nodes.iter().zip([("n0", 0, "0,2", 0), ("n1", 7, "1", 1)]) {
        assert_eq!(value(of_node, &keys::HOSTNAME), Some(name.into()));
        assert_eq!(value(of_node, &keys::NODEID), Some(Value::Uint32(id)));
        assert_eq!(value(of_node, &keys::LOCAL_PEERS), Some(peers.into()));
        assert_eq!(value(of_node, &keys::LOCALLDR), Some(Value::Rank(Rank::from_raw(first))));
    }
    let of_rank = |entry: &Entry| match entry {
        Entry::Rank(data) if data.rank == Rank::from_raw(2) => Some(data.pairs.clone()),
        _ => None,
    };
    let pairs = job.entries.iter().find_map(of_rank).unwrap();
    for (key, due) in [
        (keys::LOCAL_RANK.key_name(), Value::Uint16(1)),
        (keys::NODE_RANK.key_name(), Value::Uint16(1)),
        (keys::GLOBAL_RANK.key_name(), Value::Rank(Rank::from_raw(12))),
        (keys::APP_RANK.key_name(), Value::Rank(Rank::from_raw(2))),
        (keys::APPNUM.key_name(), Value::Uint32(0)),
        (keys::HOSTNAME.key_name(), "n0".into()),
        (keys::NODEID.key_name(), Value::Uint32(0)),
    ] {
        let found = pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value);
        assert_eq!(found, Some(&due), "{key}");
    }

    // what is told once more is told to those who come then
    let more = JobSpec::new("job".parse().unwrap()).info(&keys::JOBID, "9").info(&keys::MAX_PROCS, 8u32);
    node.add_job(more.proc_info(Rank::from_raw(2), &keys::NODE_RANK, 5u16), []).await;
    let job = job_data(&node).await;
    assert_eq!(value(&of_job(&job), &keys::JOBID), Some("9".into()));
    // what the host says goes before what follows
    assert_eq!(value(&of_job(&job), &keys::MAX_PROCS), Some(Value::Uint32(8)));
    let pairs = job.entries.iter().find_map(of_rank).unwrap();
    assert_eq!(value(&pairs, &keys::NODE_RANK), Some(Value::Uint16(5)));
    // older dialects have no type for maps
    assert_eq!([&keys::NODE_MAP, &keys::PROC_MAP].map(|key| value(&of_job(&job), key)), [None, None]);
}

#[tokio::test]
async fn cli_09_a_c_client_is_told_of_the_server_that_serves_it_or_of_the_one_that_the_host_names() {
    for named in [None, Some("elsewhere")] {
        let mut spec =
            JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0,2").unwrap();
        if let Some(server) = named {
            spec = spec.info(&keys::SERVER_NSPACE, server).info(&keys::SERVER_RANK, Rank::from_raw(3));
        }
        let node = TestNode::builder(0).job(spec, [0, 2]).server(|server| server.native_wire(NativeWire::On));
        let node = node.start().await;
        let whole = of_job(&job_data(&node).await);
        let own = node.handle().proc_id().clone();
        let (nspace, rank) = named.map_or((own.nspace.as_str(), own.rank), |name| (name, Rank::from_raw(3)));
        assert_eq!(value(&whole, &keys::SERVER_NSPACE), Some(nspace.into()));
        assert_eq!(value(&whole, &keys::SERVER_RANK), Some(Value::Rank(rank)));
        let times = whole.iter().filter(|pair| *pair.key == *keys::SERVER_NSPACE.name()).count();
        assert_eq!(times, 1);
    }
}

/// The answer to a fence has room for a status only: an event names the dead.
#[tokio::test]
async fn fen_13_evt_20_a_c_client_hears_who_died_on_another_node_in_a_fence() {
    let cluster = TestCluster::with_servers(2, 1, |server| server.native_wire(NativeWire::On)).await;
    let mut witness = session(cluster.node(0)).await;
    let victim = cluster.client(1).await;
    let lost = Request::from(RegisterEvents::new(vec![Status::ERR_PROC_TERM_WO_SYNC]));
    assert_eq!(witness.ask(&lost).await.status, Status::SUCCESS);
    let fence = Request::from(Fence::new(Some(vec![ProcId::wildcard(me().nspace)])));
    let kill = async {
        cluster.node(0).until(|stats| stats.waiting > 0).await;
        drop(victim);
    };
    let (answer, ()) = tokio::join!(witness.ask(&fence), kill);
    assert_eq!(answer.status, Status::ERR_PROC_TERM_WO_SYNC);
    let Push::Event(event) = within(witness.push()).await else { panic!("no event") };
    assert_eq!(event.code, Status::ERR_PROC_TERM_WO_SYNC);
    assert_eq!(event.info.get(&keys::EVENT_AFFECTED_PROC), Ok(Some(cluster.proc(1))));
}
