//! The standard host over several nodes: directives it does not know, and fences that one node gives up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pmix_client::types::job::{JobSpec, NodeRef, Target};
use pmix_client::types::{Directives, Info, InfoFlags, Status};
use pmix_client::{Client, Error, Nspace, ProcId, Rank, Scope, keys};
use pmix_host::{JobReport, LaunchReport, Machine, MemoryExchange, ProcExit, StandardHost};
use pmix_server::host::FenceRequest;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_test_wait::until;
use pmix_tests::{Logs, TestCluster, TestLauncher, TestNode, on_both_runtimes, within};
use tokio::task::JoinHandle;

fn fence(client: &Client, directives: Directives) -> JoinHandle<Result<(), Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.fence_all().directives(directives).await })
}

fn directive(key: &str, flags: InfoFlags, value: bool) -> Directives {
    let mut info = Info::dynamic(key.parse().unwrap(), value);
    info.flags = flags;
    Directives::from(vec![info])
}

/// The outcomes of a fence of all in which the first process gives directives.
async fn fence_of_all(clients: &[Client], first: Directives) -> Vec<Result<(), Error>> {
    let mut directives = Some(first);
    let fences: Vec<_> =
        clients.iter().map(|client| fence(client, directives.take().unwrap_or_default())).collect();
    let mut outcomes = Vec::new();
    for fence in fences {
        outcomes.push(within(fence).await.unwrap());
    }
    outcomes
}

#[test]
fn gen_05_hst_03_fen_18_a_fence_with_a_directive_nobody_knows_is_refused_on_all_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let clients = cluster.clients().await;
        let refused = [
            directive("pmix.calreqd", InfoFlags::REQUIRED, true),
            directive("pmix.calreqd", InfoFlags::empty(), true),
            directive("my.own.key", InfoFlags::REQUIRED, true),
        ];
        for directives in refused {
            for outcome in fence_of_all(&clients, directives).await {
                let error = outcome.unwrap_err();
                assert!(error.is_not_supported(), "{error}");
                assert!(error.to_string().contains("n0"), "the node that refused is named: {error}");
            }
        }
        let accepted = [
            directive("pmix.calreqd", InfoFlags::REQUIRED, false),
            directive("my.own.key", InfoFlags::empty(), true),
            Directives::new(),
        ];
        for directives in accepted {
            for outcome in fence_of_all(&clients, directives).await {
                outcome.unwrap();
            }
        }
    });
}

#[tokio::test]
async fn gen_05_hst_03_a_direct_modex_with_a_required_directive_nobody_knows_is_refused() {
    let cluster = TestCluster::new(2, 1).await;
    let clients = cluster.clients().await;
    clients[1].put(Scope::GLOBAL, "key", "value").unwrap();
    within(clients[1].commit()).await.unwrap();
    let get = clients[0].get::<String>(cluster.proc(1), "key");
    let wish = directive("my.own.key", InfoFlags::REQUIRED, true);
    let error = within(async { get.directives(wish).await }).await.unwrap_err();
    assert!(error.is_not_supported(), "{error}");
    let found = within(async { clients[0].get::<String>(cluster.proc(1), "key").await }).await;
    assert_eq!(found.unwrap(), "value");
}

#[test]
fn fen_17_a_timeout_on_one_node_ends_the_fence_on_all_and_the_next_one_is_in_step() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 1).await;
        let clients = cluster.clients().await;
        // one other node waits with it, one comes when it is over
        let waiting = fence(&clients[1], Directives::new());
        cluster.node(1).until(|stats| stats.waiting > 0).await;
        let impatient = within(async { clients[0].fence_all().timeout(Duration::from_secs(1)).await }).await;
        assert!(impatient.unwrap_err().is_timeout());
        let error = within(waiting).await.unwrap().unwrap_err();
        assert_eq!(error.status(), Status::ERR_TIMEOUT, "{error}");
        assert!(error.to_string().contains("n0"), "{error}");
        let late = within(fence(&clients[2], Directives::new())).await.unwrap().unwrap_err();
        assert!(late.is_timeout(), "{late}");
        for _ in 0..2 {
            for outcome in fence_of_all(&clients, Directives::new()).await {
                outcome.unwrap();
            }
        }
        for node in cluster.nodes() {
            assert_eq!(node.stats().await.waiting, 0);
        }
    });
}

/// Waits in every fence, and for nothing that could come.
struct Stubborn {
    /// Whether it ends when it is cancelled.
    heeds: bool,
    ended: Arc<AtomicBool>,
}

/// Notes that its upcall is over, however it ended.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl HostModule for Stubborn {
    fn capabilities(&self) -> Capabilities {
        [Upcall::Fence].into_iter().collect()
    }

    async fn fence(&self, cx: &UpcallContext, _: FenceRequest) -> HostResult<Bytes> {
        let _over = Over(self.ended.clone());
        cx.cancelled().await;
        if !self.heeds {
            std::future::pending::<()>().await;
        }
        // what a host still has to do takes some turns
        for _ in 0..10 {
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        }
        Err(Status::ERR_TIMEOUT.into())
    }
}

#[test]
fn a_server_that_stops_waits_for_its_upcalls_and_drops_those_that_do_not_end() {
    on_both_runtimes(async || {
        for heeds in [true, false] {
            let ended = Arc::new(AtomicBool::new(false));
            let spec = JobSpec::new(Nspace::new("job").unwrap());
            let spec = spec.node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
            let host = Stubborn { heeds, ended: ended.clone() };
            let node = TestNode::builder(0).host(host).job(spec, [0]).start().await;
            let client = node.client(0).await;
            let waiting = fence(&client, Directives::new());
            node.until(|stats| stats.upcalls == 1).await;
            node.stop().await;
            within(waiting).await.unwrap().unwrap_err();
            if heeds {
                assert!(ended.load(Ordering::SeqCst), "stop has waited for it");
            }
            until("the upcall is over", || ended.load(Ordering::SeqCst)).await;
        }
    });
}

/// What the data of a job says of nodes: whether they have more processes than processors.
async fn crowded(node: &TestNode, nspace: &Nspace, nodes: [&str; 3]) -> [Option<bool>; 3] {
    let job = within(node.handle().job_data(nspace)).await.unwrap();
    nodes.map(|node| {
        let found = job.lookup(keys::NODE_OVERSUBSCRIBED.name(), &Target::Node(NodeRef::Name(node)));
        found.map(|value| value.get().unwrap())
    })
}

#[tokio::test]
async fn a_job_is_told_of_machines_with_more_processes_than_processors() {
    let names = ["n0", "n1", "n2"];
    // two nodes are one machine, of the third nothing is known
    let machine = |node: &str| (node != "n2").then(|| Machine::new("m", 4));
    let launcher = TestLauncher::on_machines(names.map(|node| (node, machine(node))));
    let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(names));
    let mut nodes = Vec::new();
    for (host, node) in hosts.iter().zip(names) {
        let node = TestNode::builder(0).nspace("registered").hostname(node).host(host.clone());
        nodes.push(node.start().await);
    }
    let filled = launcher.start(&hosts[0], "filled", 6).await;
    let no = [None; 3];
    assert_eq!(crowded(&nodes[2], filled.nspace(), names).await, no, "four processes on the machine");
    // one more there, started by the host of another node
    let crowd = launcher.start(&hosts[1], "crowd", 1).await;
    assert_eq!(crowded(&nodes[0], crowd.nspace(), ["n0", "n0", "n2"]).await, [Some(true), Some(true), None]);
    // processes that have ended do not count, those of all nodes do
    let mut crowd = crowd;
    launcher.end(&ProcId::new(crowd.nspace().clone(), Rank::from_raw(0)), ProcExit::Code(0)).await;
    within(crowd.outcome()).await.unwrap();
    let mut filled = filled;
    launcher.end(&ProcId::new(filled.nspace().clone(), Rank::from_raw(0)), ProcExit::Code(0)).await;
    while !matches!(within(filled.next_report()).await, Some(JobReport::Proc(LaunchReport::Ended { .. }))) {}
    let last = launcher.start(&hosts[0], "last", 1).await;
    assert_eq!(crowded(&nodes[0], last.nspace(), ["n0", "n1", "n2"]).await, [None; 3]);
}

#[tokio::test]
async fn a_job_has_no_processes_on_a_node_that_is_to_leave_since_they_were_placed() {
    let names = ["n0", "n1"];
    let launcher = TestLauncher::on(names);
    let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(names));
    let mut nodes = Vec::new();
    for (host, node) in hosts.iter().zip(names) {
        let node = TestNode::builder(0).nspace("registered").hostname(node).host(host.clone());
        nodes.push(node.start().await);
    }
    launcher.leaves_meanwhile("n1");
    let job = launcher.start(&hosts[0], "job", 2).await;
    let places: Vec<_> =
        hosts[0].process_table(job.nspace()).into_iter().filter_map(|row| row.hostname).collect();
    assert_eq!(places, ["n0", "n0"]);
}

#[tokio::test]
async fn gen_01_a_namespace_that_makes_keys_look_reserved_is_warned_of() {
    let logs = Logs::start();
    let node = TestNode::builder(1).nspace("pmixed.job").start().await;
    let line = within(logs.line_with(&["pmixed.job"])).await;
    assert!(line.contains("WARN") && line.contains("reserved"), "{line}");
    assert_eq!(node.nspace().as_str(), "pmixed.job", "it is registered all the same");
    let _other = TestNode::builder(1).nspace("job.pmix").start().await;
    assert!(logs.none_with("job.pmix"));
}
