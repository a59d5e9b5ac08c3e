//! Job data: realms, other namespaces, registration again, resolving.

use std::collections::BTreeMap;

use pmix_client::types::job::JobSpec;
use pmix_client::types::{App, Info, Status, Value};
use pmix_client::{Client, Nspace, ProcId, Rank, Scope, keys};
use pmix_host::{JobStart, MemoryExchange, StandardHost};
use pmix_tests::{TestLauncher, TestNode, on_both_runtimes, proc, within};

/// Two apps on two nodes: ranks 0 to 2 and rank 3; 0 and 1 on n0. Values of all realms.
fn spec() -> JobSpec {
    JobSpec::new(Nspace::new("job").unwrap())
        .node_map(["n0", "n1"])
        .unwrap()
        .proc_map("0,1;2,3")
        .unwrap()
        .session(42)
        .session_info(&keys::UNIV_SIZE, 64u32)
        .session_info(&keys::MAX_PROCS, 32u32)
        .session_info(&keys::NODE_MAP_RAW, "n0,n1,n2,n3,n4")
        .info(&keys::JOBID, "4711")
        .info(&keys::MAX_PROCS, 16u32)
        .app_ranks(0, "0-2".parse().unwrap())
        .app_ranks(1, "3".parse().unwrap())
        .app_info(0, &keys::APP_ARGV, "./first")
        .app_info(1, &keys::APP_ARGV, "./second")
        .app_info(1, &keys::MAX_PROCS, 4u32)
        .node_info("n0", &keys::NODE_SIZE, 8u32)
        .node_info("n1", &keys::NODE_SIZE, 9u32)
        .node_info("n1", &keys::HOSTNAME_ALIASES, "n1.cluster,second")
        .proc_info(Rank::from_raw(3), &keys::REINCARNATION, 5u32)
}

async fn node_and_client() -> (TestNode, Client) {
    let node = TestNode::builder(0).job(spec(), [0, 1]).start().await;
    let client = node.client(0).await;
    (node, client)
}

#[test]
fn get_40_get_45_a_key_has_a_value_in_each_realm_and_is_by_default_the_jobs() {
    on_both_runtimes(async || {
        let (node, client) = node_and_client().await;
        let get = || client.job(node.nspace()).get(keys::MAX_PROCS);
        assert_eq!(get().await.unwrap(), 16);
        assert_eq!(get().job_info().await.unwrap(), 16);
        assert_eq!(get().session_info(None).await.unwrap(), 32);
        assert_eq!(get().app_info(Some(1)).await.unwrap(), 4);
        assert_eq!(node.stats().await.gets, 0, "all of it is in the process");
    });
}

#[tokio::test]
async fn get_41a_get_41b_the_session_realm_ignores_the_process_and_may_be_another_session() {
    let (node, client) = node_and_client().await;
    assert_eq!(client.get(None, keys::SESSION_ID).await.unwrap(), 42);
    let univ = client.get(node.proc(3), keys::UNIV_SIZE).session_info(Some(42)).await;
    assert_eq!(univ.unwrap(), 64);
    let other = within(client.get(None, keys::UNIV_SIZE).session_info(Some(43))).await;
    assert!(other.unwrap_err().is_not_found());
}

#[tokio::test]
async fn get_42_the_job_realm_is_that_of_the_processs_namespace() {
    let (node, client) = node_and_client().await;
    assert_eq!(client.get(node.proc(3), keys::JOBID).job_info().await.unwrap(), "4711");
    assert_eq!(client.job(node.nspace()).get(keys::JOB_SIZE).await.unwrap(), 4);
}

#[tokio::test]
async fn get_43_the_app_is_named_or_that_of_the_process_or_the_callers() {
    let (node, client) = node_and_client().await;
    let argv = |proc: ProcId| client.get(proc, keys::APP_ARGV);
    assert_eq!(argv(node.job()).app_info(Some(1)).await.unwrap(), "./second");
    assert_eq!(argv(node.proc(3)).app_info(None).await.unwrap(), "./second");
    assert_eq!(argv(node.job()).app_info(None).await.unwrap(), "./first", "the caller's own");
    assert!(argv(node.job()).app_info(Some(2)).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn get_44_get_49_a_node_is_named_in_any_way_and_else_the_local_one() {
    let (node, client) = node_and_client().await;
    let size = || client.job(node.nspace()).get(keys::NODE_SIZE);
    assert_eq!(size().node_info(pmix_client::NodeRef::Local).await.unwrap(), 8);
    for other in ["n1", "n1.cluster", "second"] {
        assert_eq!(size().node_info(other).await.unwrap(), 9, "{other}");
    }
    assert_eq!(size().node_info(1).await.unwrap(), 9);
    assert!(size().node_info("n7").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn get_02_process_values_need_the_rank_of_the_process() {
    let (node, client) = node_and_client().await;
    assert_eq!(client.get(node.proc(3), keys::REINCARNATION).await.unwrap(), 5);
    assert_eq!(client.get(node.proc(3), keys::LOCAL_RANK).await.unwrap(), 1);
    assert_eq!(client.get(node.proc(2), keys::LOCAL_RANK).await.unwrap(), 0);
}

#[tokio::test]
async fn get_46_identity_is_always_the_callers_own() {
    let (node, client) = node_and_client().await;
    assert_eq!(client.get(node.proc(3), keys::PROCID).await.unwrap(), node.proc(0));
    assert_eq!(client.get(None, keys::NSPACE).await.unwrap(), "job");
}

#[tokio::test]
async fn get_47a_get_47b_absent_values_that_mean_something() {
    let (node, client) = node_and_client().await;
    assert!(!client.job(node.nspace()).get(keys::SPAWNED).await.unwrap());
    let locality = within(client.get(node.proc(3), keys::LOCALITY_STRING)).await;
    assert!(locality.unwrap_err().is_not_found());
}

#[tokio::test]
async fn get_47b_processes_share_what_their_localities_have_in_common() {
    use pmix_client::types::Locality;
    let place = |rank, place: &str| (Rank::from_raw(rank), place.to_owned());
    let places = [place(0, "SK0:L30:L20:L10:CR0:HT0:NM0"), place(1, "SK0:L30:L21:L11:CR1:HT2:NM0")];
    let bound = places
        .into_iter()
        .fold(spec(), |spec, (rank, place)| spec.proc_info(rank, &keys::LOCALITY_STRING, place));
    let node = TestNode::builder(0).job(bound, [0, 1]).start().await;
    let client = node.client(0).await;
    let shared =
        Locality::SHARE_NODE | Locality::SHARE_PACKAGE | Locality::SHARE_L3CACHE | Locality::SHARE_NUMA;
    assert_eq!(within(client.locality(&node.proc(1))).await.unwrap(), shared);
    assert_eq!(within(client.locality(&node.proc(3))).await.unwrap(), Locality::NONLOCAL);
    // of processes that are not bound only the node is known
    let (node, client) = node_and_client().await;
    assert_eq!(within(client.locality(&node.proc(1))).await.unwrap(), Locality::SHARE_NODE);
}

#[tokio::test]
async fn get_48_hostname_is_the_node_of_a_process_or_the_node_asked_about() {
    let (node, client) = node_and_client().await;
    assert_eq!(client.get(node.proc(2), keys::HOSTNAME).await.unwrap(), "n1");
    assert_eq!(client.get(None, keys::HOSTNAME).await.unwrap(), "n0");
    let by_id = client.job(node.nspace()).get(keys::HOSTNAME).node_info(1).await;
    assert_eq!(by_id.unwrap(), "n1");
}

#[tokio::test]
async fn get_30_an_absent_reserved_key_of_the_own_job_is_not_found_at_once() {
    let (node, client) = node_and_client().await;
    let error = within(client.job(node.nspace()).get(keys::CMD_LINE)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(node.stats().await.gets, 0);
}

#[tokio::test]
async fn reg_07e_reg_20_what_follows_from_the_maps_need_not_be_given() {
    let (node, client) = node_and_client().await;
    let job = client.job(node.nspace());
    assert_eq!(job.get(keys::NUM_NODES).await.unwrap(), 2);
    assert_eq!(job.get(keys::NODE_LIST).await.unwrap(), "n0,n1");
    assert_eq!(job.get(keys::LOCAL_PEERS).node_info("n1").await.unwrap(), "2,3");
    assert_eq!(job.get(keys::LOCAL_SIZE).node_info("n1").await.unwrap(), 2);
    assert_eq!(job.get(keys::APP_SIZE).app_info(Some(0)).await.unwrap(), 3);
    assert_eq!(client.get(node.proc(3), keys::NODEID).await.unwrap(), 1);
    assert_eq!(client.get(node.proc(3), keys::APPNUM).await.unwrap(), 1);
    assert_eq!(client.get(node.proc(3), keys::APP_RANK).await.unwrap(), Rank::from_raw(0));
}

#[tokio::test]
async fn reg_08_values_that_are_neither_given_nor_derivable_are_not_found() {
    let spec = JobSpec::new(Nspace::new("bare").unwrap());
    let node = TestNode::builder(0).job(spec, [0]).start().await;
    let client = node.client(0).await;
    for key in [keys::JOB_SIZE, keys::UNIV_SIZE, keys::NUM_NODES] {
        assert!(client.job(node.nspace()).get(key).await.unwrap_err().is_not_found(), "{key:?}");
    }
}

#[test]
fn get_31_get_33_data_of_another_job_on_the_same_server() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let other = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(1));
        let spec = JobSpec::new(other.nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 2).unwrap();
        node.add_job(spec, 0..2).await;
        let client = node.client(0).await;
        assert_eq!(within(client.job(&other.nspace).get(keys::JOB_SIZE)).await.unwrap(), 2);
        assert_eq!(client.get(&other, keys::LOCAL_RANK).optional().await.unwrap(), 1);
        let absent = within(client.job(&other.nspace).get(keys::CMD_LINE)).await.unwrap_err();
        assert!(absent.is_not_found(), "{absent}");

        let peer = node.connect(&other).await.unwrap();
        peer.put(Scope::LOCAL, "key", "value").unwrap();
        within(peer.commit()).await.unwrap();
        assert_eq!(within(client.get::<String>(&other, "key")).await.unwrap(), "value");
    });
}

#[tokio::test]
async fn reg_09_get_08_registering_again_adds_and_replaces() {
    let (node, client) = node_and_client().await;
    let more = JobSpec::new(node.nspace().clone()).info(&keys::CMD_LINE, "late").info(&keys::JOBID, "4712");
    node.handle().register_nspace(more).await.unwrap();
    let later = node.client(1).await;
    assert_eq!(later.job(node.nspace()).get(keys::CMD_LINE).await.unwrap(), "late");
    assert_eq!(later.job(node.nspace()).get(keys::JOBID).await.unwrap(), "4712");
    assert_eq!(later.job(node.nspace()).get(keys::JOB_SIZE).await.unwrap(), 4, "what was there stays");
    // who connected before has the old data until it asks for new
    assert_eq!(client.job(node.nspace()).get(keys::JOBID).await.unwrap(), "4711");
    let renewed = within(client.job(node.nspace()).get(keys::JOBID).refresh_cache()).await;
    assert_eq!(renewed.unwrap(), "4712");
}

#[tokio::test]
async fn reg_02_rgx_05_a_registration_that_contradicts_itself_is_refused_whole() {
    let node = TestNode::start(1).await;
    let nspace = Nspace::new("wrong").unwrap();
    let spec = || JobSpec::new(nspace.clone()).node_map(["n0", "n1"]).unwrap();
    let three = spec().proc_map("0;1;2").unwrap();
    let error = node.handle().register_nspace(three).await.unwrap_err();
    assert_eq!(error.status, Status::ERR_BAD_PARAM, "{error}");
    assert!(error.message.contains("wrong"), "{error}");

    let two = spec().proc_map("0,1;2").unwrap().into_infos();
    let error = node.handle().register_nspace_infos(nspace.clone(), Some(3), two).await.unwrap_err();
    assert_eq!(error.status, Status::ERR_BAD_PARAM, "{error}");
    assert!(error.message.contains("3 local processes"), "{error}");
    assert!(node.handle().job_data(&nspace).await.is_err(), "nothing is registered");
}

#[tokio::test]
async fn reg_03_a_namespace_can_be_registered_without_data() {
    let node = TestNode::start(1).await;
    let proc = ProcId::new(Nspace::new("nodata").unwrap(), Rank::from_raw(0));
    let infos = vec![Info::new(&keys::REGISTER_NODATA, true), Info::new(&keys::JOB_SIZE, 5u32)];
    node.handle().register_nspace_infos(proc.nspace.clone(), Some(1), infos).await.unwrap();
    node.register(&proc).await;
    let client = node.connect(&proc).await.unwrap();
    assert!(client.job(&proc.nspace).get(keys::JOB_SIZE).await.unwrap_err().is_not_found());
    within(client.fence_all()).await.unwrap();
}

#[tokio::test]
async fn reg_02_fen_10_without_a_map_the_number_of_local_processes_counts() {
    let node = TestNode::start(1).await;
    let nspace = Nspace::new("counted").unwrap();
    let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
    let infos = vec![Info::new(&keys::JOB_SIZE, 2u32)];
    node.handle().register_nspace_infos(nspace.clone(), Some(2), infos).await.unwrap();
    node.register(&proc(0)).await;
    let first = node.connect(&proc(0)).await.unwrap();
    let fence = tokio::spawn(async move { first.fence_all().await });
    node.until_waiting(1).await;
    node.register(&proc(1)).await;
    node.until_waiting(1).await;
    assert!(!fence.is_finished(), "the second is registered but has not called");
    let second = node.connect(&proc(1)).await.unwrap();
    within(second.fence_all()).await.unwrap();
    within(fence).await.unwrap().unwrap();
}

#[test]
fn reg_11_a_deregistered_namespace_takes_everything_with_it() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let client = node.client(0).await;
        let other = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(0));
        let spec = JobSpec::new(other.nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
        node.add_job(spec, [0]).await;
        let theirs = node.connect(&other).await.unwrap();
        let get = {
            let (client, other) = (client.clone(), other.clone());
            tokio::spawn(async move { client.get::<Value>(other, "key").await })
        };
        let fence = {
            let (client, procs) = (client.clone(), [node.proc(0), other.clone()]);
            tokio::spawn(async move { client.fence(procs).await })
        };
        node.until_waiting(2).await;
        node.handle().deregister_nspace(&other.nspace).await.unwrap();
        assert!(within(get).await.unwrap().unwrap_err().is_not_found());
        assert_eq!(within(fence).await.unwrap().unwrap_err().status(), Status::ERR_INVALID_NAMESPACE);
        assert!(within(theirs.fence_all()).await.unwrap_err().is_lost_connection());
        assert!(node.connect(&other).await.is_err());
        assert_eq!(node.stats().await.nspaces, 1);
        assert!(node.handle().deregister_nspace(&other.nspace).await.is_err(), "it is gone already");
    });
}

#[tokio::test]
async fn cli_08a_a_deregistered_client_takes_its_data_with_it() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    b.put(Scope::GLOBAL, "key", 1).unwrap();
    within(b.commit()).await.unwrap();
    node.handle().deregister_client(&node.proc(1)).await.unwrap();
    assert!(within(a.get::<i32>(node.proc(1), "key").immediate()).await.unwrap_err().is_not_found());
    assert!(within(b.fence_all()).await.unwrap_err().is_lost_connection());
    assert!(node.connect(&node.proc(1)).await.is_err());
}

#[tokio::test]
async fn cli_01_cli_07a_only_registered_processes_get_an_environment() {
    let node = TestNode::start(1).await;
    let environment = node.handle().setup_fork(&node.proc(0)).await.unwrap();
    let environment: BTreeMap<_, _> = environment.iter().collect();
    assert_eq!(environment["PMIX_NAMESPACE"], "job");
    assert_eq!(environment["PMIX_RANK"], "0");
    assert_eq!(environment["PMIX_GRPC_URI"], node.handle().uri());
    assert_eq!(environment["PMIX_FRAMED_URI"], node.handle().framed_uri());
    let error = node.handle().setup_fork(&node.proc(1)).await.unwrap_err();
    assert_eq!(error.status, Status::ERR_NOT_FOUND);
    assert!(error.message.contains("register_client"), "{error}");
    let wildcard = node.handle().register_client(&node.job(), 0, 0, None).await.unwrap_err();
    assert_eq!(wildcard.status, Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn res_01_res_07_res_08_peers_and_nodes_come_from_the_layout() {
    let (node, client) = node_and_client().await;
    let nspace = Some(node.nspace());
    let peers = client.resolve_peers(Some("n1"), nspace).await.unwrap();
    assert_eq!(peers, [node.proc(2), node.proc(3)]);
    let local = client.resolve_peers(None, nspace).await.unwrap();
    assert_eq!(local, [node.proc(0), node.proc(1)]);
    assert!(client.resolve_peers(Some("n7"), nspace).await.unwrap().is_empty());
    assert_eq!(client.resolve_nodes(nspace).await.unwrap(), ["n0", "n1"]);
    let unknown = Nspace::new("unknown").unwrap();
    let error = client.resolve_nodes(Some(&unknown)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_INVALID_NAMESPACE);
}

#[tokio::test]
async fn reg_07a_reg_07d_the_standard_host_tells_of_jobs_and_applications() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = launcher.node_of(host.clone()).await;
    let apps = vec![App::new("one", 2), App::new("two", 1)];
    let start = JobStart::new("job".parse().unwrap(), apps);
    let _job = within(host.start_job(start)).await.unwrap();
    let client = node.connect(&proc("job", 2)).await.unwrap();
    let job = client.job(client.proc_id().nspace.clone());

    assert!(within(client.get(None, keys::UNIV_SIZE).session_info(None)).await.unwrap() >= 3);
    assert_eq!(within(job.get(keys::JOBID)).await.unwrap(), "job");
    assert_eq!(within(job.get(keys::JOB_SIZE)).await.unwrap(), 3);
    assert_eq!(within(job.get(keys::MAX_PROCS)).await.unwrap(), 3);
    for map in [keys::NODE_MAP.name(), keys::PROC_MAP.name()] {
        within(job.get::<Value>(map)).await.unwrap();
    }
    let one = (Some(0), 0, 2);
    let two = (Some(1), 2, 1);
    for (app, leader, size) in [one, two] {
        assert_eq!(within(job.get(keys::APPLDR).app_info(app)).await.unwrap(), Rank::from_raw(leader));
        assert_eq!(within(job.get(keys::APP_SIZE).app_info(app)).await.unwrap(), size);
    }
    for (rank, app, within_app) in [(0, 0, 0), (1, 0, 1), (2, 1, 0)] {
        let of = proc("job", rank);
        assert_eq!(within(client.get(of.clone(), keys::APPNUM)).await.unwrap(), app);
        assert_eq!(within(client.get(of, keys::APP_RANK)).await.unwrap(), Rank::from_raw(within_app));
    }
}

#[tokio::test]
async fn rgx_05_reg_20_processes_are_told_of_the_nodes_of_their_session_and_how_many_these_are() {
    let (node, client) = node_and_client().await;
    let nodes = || client.job(node.nspace()).get(keys::NUM_NODES);
    assert_eq!(within(nodes().session_info(Some(42))).await.unwrap(), 5);
    assert!(within(nodes().session_info(Some(43))).await.is_err());
    assert_ne!(within(nodes()).await.unwrap(), 5);
    let map = client.job(node.nspace()).get(keys::NODE_MAP_RAW).session_info(None);
    assert_eq!(within(map).await.unwrap(), "n0,n1,n2,n3,n4");
}
