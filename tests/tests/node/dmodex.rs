//! Direct modex between servers, both ways.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use pmix_client::types::job::JobSpec;
use pmix_client::types::message::Changes;
use pmix_client::types::{Directives, Info, Status};
use pmix_client::{Client, Error, Nspace, ProcId, Rank, Scope, keys};
use pmix_server::host::DirectModexRequest;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_test_wait::turn;
use pmix_tests::{TestCluster, TestNode, on_both_runtimes, proc, within};
use tokio::task::JoinHandle;

async fn publish(client: &Client, scope: Scope, key: &str, value: &str) {
    client.put(scope, key, value).unwrap();
    within(client.commit()).await.unwrap();
}

/// A get that is spawned, and known to wait at both servers.
async fn waiting_get(
    cluster: &TestCluster,
    client: &Client,
    rank: u32,
    key: &'static str,
) -> JoinHandle<Result<String, Error>> {
    let (client, proc) = (client.clone(), cluster.proc(rank));
    let held = cluster.node_of(rank).stats().await.waiting;
    let get = tokio::spawn(async move { client.get::<String>(proc, key).await });
    cluster.node_of(rank).until(|stats| stats.waiting > held).await;
    get
}

#[test]
fn get_23_dmx_01_data_comes_from_another_node_both_ways() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        publish(&a, Scope::GLOBAL, "key", "from a").await;
        publish(&b, Scope::REMOTE, "key", "from b").await;
        let (to_a, to_b) = within(async {
            tokio::join!(a.get::<String>(b.proc_id(), "key"), b.get::<String>(a.proc_id(), "key"))
        })
        .await;
        assert_eq!(to_a.unwrap(), "from b");
        assert_eq!(to_b.unwrap(), "from a");
        // and is kept
        assert_eq!(a.get::<String>(b.proc_id(), "key").optional().await.unwrap(), "from b");
    });
}

#[test]
fn get_23_dmx_02a_a_get_waits_for_the_commit_on_another_node() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let get = waiting_get(&cluster, &a, 1, "key").await;
        b.put(Scope::GLOBAL, "key", "at last").unwrap();
        assert!(!get.is_finished(), "not committed");
        within(b.commit()).await.unwrap();
        assert_eq!(within(get).await.unwrap().unwrap(), "at last");
        for node in cluster.nodes() {
            node.until_waiting(0).await;
        }
    });
}

#[test]
fn dmx_03_a_commit_without_the_wanted_key_is_not_the_answer() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let get = waiting_get(&cluster, &a, 1, "second").await;
        publish(&b, Scope::GLOBAL, "first", "1").await;
        assert!(!get.is_finished());
        publish(&b, Scope::GLOBAL, "second", "2").await;
        assert_eq!(within(get).await.unwrap().unwrap(), "2");
        assert_eq!(a.get::<String>(b.proc_id(), "first").optional().await.unwrap(), "1", "it came along");
    });
}

#[test]
fn put_08_get_06_dmx_04_local_data_does_not_leave_its_node() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        publish(&b, Scope::LOCAL, "secret", "ours").await;
        let error = within(a.get::<String>(b.proc_id(), "secret")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_EXISTS_OUTSIDE_SCOPE, "{error}");
        assert!(a.get::<String>(b.proc_id(), "secret").optional().await.unwrap_err().is_not_found());
    });
}

#[tokio::test]
async fn dmx_04_a_blob_has_global_and_remote_data_only() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    for scope in [Scope::GLOBAL, Scope::LOCAL, Scope::REMOTE, Scope::INTERNAL] {
        client.put(scope, scope.to_string(), 1).unwrap();
    }
    within(client.commit()).await.unwrap();
    let blob = within(node.handle().dmodex_request(&node.proc(0), Directives::new())).await.unwrap();
    let changes = pmix_proto::modex::decode_changes(blob).unwrap();
    let [Changes { since: 0, procs, .. }] = &*changes else { panic!("{changes:?}") };
    let [data] = procs.as_slice() else { panic!("{procs:?}") };
    assert_eq!(data.proc, node.proc(0));
    let keys: Vec<_> = data.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["GLOBAL", "REMOTE"]);

    let blob = within(node.handle().dmodex_request(&node.job(), Directives::new())).await.unwrap();
    let job = pmix_proto::decode_job(blob).unwrap();
    assert_eq!((job.nspace(), job.size()), (node.nspace(), Some(1)));
}

#[tokio::test]
async fn dmx_05_a_request_for_a_process_that_is_not_here_fails_and_for_an_unknown_job_waits() {
    let node = TestNode::start(1).await;
    let stranger = node.proc(7);
    let request = node.handle().dmodex_request(&stranger, Directives::new());
    assert_eq!(within(request).await.unwrap_err().status, Status::ERR_NOT_FOUND);

    let later = ProcId::new(Nspace::new("later").unwrap(), Rank::from_raw(0));
    let request = {
        let (handle, proc) = (node.handle().clone(), later.clone());
        let directives = Directives::new().with(&keys::REQUIRED_KEY, "key");
        tokio::spawn(async move { handle.dmodex_request(&proc, directives).await })
    };
    node.until_waiting(1).await;
    let spec = JobSpec::new(later.nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
    node.add_job(spec, [0]).await;
    assert!(!request.is_finished());
    publish(&node.connect(&later).await.unwrap(), Scope::GLOBAL, "key", "value").await;
    let blob = within(request).await.unwrap().unwrap();
    assert_eq!(pmix_proto::modex::decode_changes(blob).unwrap()[0].procs[0].proc, later);
}

#[tokio::test]
async fn requests_that_the_host_has_dropped_are_forgotten() {
    let node = TestNode::start(1).await;
    let never = Directives::new().with(&keys::REQUIRED_KEY, "never");
    let target = node.proc(0);
    for _ in 0..3000 {
        let request = node.handle().dmodex_request(&target, never.clone());
        assert!(request.now_or_never().is_none(), "sent, and dropped");
        turn().await;
    }
    let waiting = node.stats().await.waiting;
    assert!(waiting <= 1024, "{waiting} wait of 3000 that are gone");
}

#[test]
fn get_26_dmx_02a_a_death_on_another_node_ends_the_wait() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let get = waiting_get(&cluster, &a, 1, "key").await;
        drop(b);
        let error = within(get).await.unwrap().unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert!(error.to_string().contains("job:1"), "{error}");
        cluster.node(1).until_waiting(0).await;
    });
}

#[tokio::test]
async fn get_25_gets_for_one_missing_key_share_one_upcall() {
    let cluster = TestCluster::new(2, 2).await;
    let (a, b) = (cluster.client(0).await, cluster.client(1).await);
    let before = cluster.node(0).stats().await.upcalls;
    let first = waiting_get(&cluster, &a, 2, "key").await;
    let (second, third) = {
        let (a, b, proc, again) = (a.clone(), b.clone(), cluster.proc(2), cluster.proc(2));
        let second = tokio::spawn(async move { a.get::<String>(again, "key").await });
        (
            second,
            tokio::spawn(async move { b.get::<String>(proc, "key").timeout(Duration::from_secs(1)).await }),
        )
    };
    let late = within(third).await.unwrap().unwrap_err();
    assert!(late.is_timeout(), "each has its own limit: {late}");
    assert_eq!(cluster.node(0).stats().await.upcalls, before + 1);
    publish(&cluster.client(2).await, Scope::GLOBAL, "key", "value").await;
    assert_eq!(within(first).await.unwrap().unwrap(), "value");
    assert_eq!(within(second).await.unwrap().unwrap(), "value");
}

#[tokio::test]
async fn get_08_a_refresh_fetches_from_the_other_node_anew() {
    let cluster = TestCluster::new(2, 1).await;
    let (a, b) = (cluster.client(0).await, cluster.client(1).await);
    // nor does it wait
    let early = within(a.get::<String>(b.proc_id(), "key").refresh_cache()).await.unwrap_err();
    assert!(early.is_not_found(), "{early}");
    publish(&b, Scope::GLOBAL, "key", "old").await;
    assert_eq!(within(a.get::<String>(b.proc_id(), "key")).await.unwrap(), "old");
    publish(&b, Scope::GLOBAL, "key", "new").await;
    assert_eq!(a.get::<String>(b.proc_id(), "key").await.unwrap(), "old");
    assert_eq!(within(a.get::<String>(b.proc_id(), "key").refresh_cache()).await.unwrap(), "new");
}

#[tokio::test]
async fn get_23_gen_05_what_the_host_must_do_and_does_not_know_is_not_supported() {
    let cluster = TestCluster::new(2, 1).await;
    let (a, b) = (cluster.client(0).await, cluster.client(1).await);
    publish(&b, Scope::GLOBAL, "key", "value").await;
    let unknown = Directives::new().require(&keys::COLLECT_DATA, true);
    let refused = within(a.get::<String>(b.proc_id(), "key").directives(unknown)).await.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED, "{refused}");
}

#[tokio::test]
async fn get_04_immediate_asks_no_other_node() {
    let cluster = TestCluster::new(2, 1).await;
    let (a, b) = (cluster.client(0).await, cluster.client(1).await);
    publish(&b, Scope::GLOBAL, "key", "value").await;
    let before = cluster.node(0).stats().await.upcalls;
    assert!(within(a.get::<String>(b.proc_id(), "key").immediate()).await.unwrap_err().is_not_found());
    assert_eq!(cluster.node(0).stats().await.upcalls, before);
}

#[test]
fn get_31_get_32_get_33_a_job_that_only_another_server_knows() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let other = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(0));
        let spec = JobSpec::new(other.nspace.clone()).node_map(["n1"]).unwrap().ranks_block(1, 3).unwrap();
        cluster.node(1).add_job(spec.info(&keys::CMD_LINE, "tests"), 0..3).await;
        publish(&cluster.node(1).connect(&other).await.unwrap(), Scope::GLOBAL, "key", "value").await;

        let client = cluster.client(0).await;
        let immediate = client.job(&other.nspace).get(keys::JOB_SIZE).immediate();
        assert!(within(immediate).await.unwrap_err().is_not_found());
        assert_eq!(within(client.job(&other.nspace).get(keys::JOB_SIZE)).await.unwrap(), 3);
        // everything about it has come
        assert_eq!(client.job(&other.nspace).get(keys::CMD_LINE).optional().await.unwrap(), "tests");
        assert_eq!(client.get(&other, keys::HOSTNAME).optional().await.unwrap(), "n1");
        assert_eq!(within(client.get::<String>(&other, "key")).await.unwrap(), "value");

        let nobody = Nspace::new("nobody").unwrap();
        assert!(within(client.job(&nobody).get(keys::JOB_SIZE)).await.unwrap_err().is_not_found());
    });
}

#[test]
fn get_33_a_get_of_put_data_brings_the_other_jobs_data() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let other = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(0));
        let spec = JobSpec::new(other.nspace.clone()).node_map(["n1"]).unwrap().ranks_block(1, 2).unwrap();
        cluster.node(1).add_job(spec, 0..2).await;
        publish(&cluster.node(1).connect(&other).await.unwrap(), Scope::GLOBAL, "key", "value").await;
        let client = cluster.client(0).await;
        assert_eq!(within(client.get::<String>(&other, "key")).await.unwrap(), "value");
        assert_eq!(client.job(&other.nspace).get(keys::JOB_SIZE).optional().await.unwrap(), 2);
    });
}

/// Does with direct modex requests whatever it is told to.
struct FetchHost<F>(F);

#[async_trait]
impl<F, Fut> HostModule for FetchHost<F>
where
    F: Fn(UpcallContext, DirectModexRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HostResult<Bytes>> + Send,
{
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::DirectModex)
    }

    async fn direct_modex(&self, cx: &UpcallContext, req: DirectModexRequest) -> HostResult<Bytes> {
        (self.0)(cx.clone(), req).await
    }
}

/// A node with the first of two ranks.
async fn one_of_two(host: impl HostModule) -> TestNode {
    let spec = JobSpec::new(Nspace::new("job").unwrap());
    let spec = spec.node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
    TestNode::builder(0).job(spec, [0]).host(host).start().await
}

#[tokio::test]
async fn dmx_01_dmx_05_a_namespace_that_only_a_third_node_knows_is_found_there() {
    let cluster = TestCluster::new(3, 1).await;
    let far = proc("far", 0);
    cluster.node(2).add_job(JobSpec::new(far.nspace.clone()), [0]).await;
    let owner = cluster.node(2).connect(&far).await.unwrap();
    owner.put(Scope::GLOBAL, "key", 5).unwrap();
    within(owner.commit()).await.unwrap();
    let asker = cluster.client(0).await;
    // the second node does not know it either, and waits
    assert_eq!(within(asker.get::<i32>(&far, "key")).await.unwrap(), 5);
    // with a job of unknown size, only a limit of time ends the wait for a rank that nobody has
    let nobody = proc("far", 1);
    let get = asker.get::<i32>(&nobody, "key").timeout(Duration::from_secs(1));
    assert!(within(get).await.unwrap_err().is_timeout());
}

#[test]
fn gen_12_dmx_03_the_host_is_told_the_key_and_not_the_time() {
    on_both_runtimes(async || {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = asked.clone();
        let node = one_of_two(FetchHost(move |cx: UpcallContext, request| {
            requests.lock().unwrap().push(request);
            async move {
                cx.cancelled().await;
                Ok(Bytes::new())
            }
        }))
        .await;
        let client = node.client(0).await;
        let get = client.get::<String>(node.proc(1), "key").timeout(Duration::from_secs(1));
        assert!(within(get).await.unwrap_err().is_timeout());
        let asked = asked.lock().unwrap();
        let [request] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(request.proc, node.proc(1));
        assert_eq!(request.directives.as_slice(), [Info::new(&keys::REQUIRED_KEY, "key")]);
    });
}

#[test]
fn a_host_that_panics_in_a_direct_modex_fails_the_get() {
    on_both_runtimes(async || {
        let node = one_of_two(FetchHost(async |_, _| panic!("a host that panics"))).await;
        let error = within(node.client(0).await.get::<String>(node.proc(1), "key")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERROR);
        assert!(error.to_string().contains("direct_modex"), "{error}");
    });
}

#[tokio::test]
async fn a_host_that_sends_rubbish_fails_the_get() {
    let node = one_of_two(FetchHost(async |_, _| Ok(Bytes::from_static(b"\xff\xff\xff rubbish")))).await;
    let error = within(node.client(0).await.get::<String>(node.proc(1), "key")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNPACK_FAILURE, "{error}");
}

#[tokio::test]
async fn a_host_that_sends_other_data_than_asked_for_ends_the_wait() {
    let node = one_of_two(FetchHost(async |_, _| Ok(Bytes::new()))).await;
    let error = within(node.client(0).await.get::<String>(node.proc(1), "key")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn cli_08c_what_processes_have_put_that_have_all_left_is_got_on_other_nodes_until_it_is_deregistered() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        for client in &clients[..2] {
            publish(client, Scope::GLOBAL, "key", &client.proc_id().to_string()).await;
        }
        for client in &clients[..2] {
            within(client.clone().finalize()).await.unwrap();
        }
        cluster.node(0).until(|stats| stats.waiting == 0).await;
        let late = &clients[3];
        let value: String = within(late.get(cluster.proc(0), "key")).await.unwrap();
        assert_eq!(value, cluster.proc(0).to_string());
        cluster.node(0).handle().deregister_client(&cluster.proc(1)).await.unwrap();
        assert!(within(late.get::<String>(cluster.proc(1), "key")).await.unwrap_err().is_not_found());
        let nspace = cluster.proc(0).nspace;
        cluster.node(0).handle().deregister_nspace(&nspace).await.unwrap();
        let gone =
            within(cluster.node(0).handle().client().get::<String>(cluster.proc(0), "key").immediate()).await;
        assert_eq!(gone.unwrap_err().status, Status::ERR_NOT_FOUND);
    });
}
