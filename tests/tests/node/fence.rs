//! Fences on one node and over several.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{Directives, Info, KeyName, Status, Value};
use pmix_client::{Client, Error, Nspace, ProcId, Procs, Rank, Scope, keys};
use pmix_server::host::FenceRequest;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{TestCluster, TestNode, on_both_runtimes, within};
use tokio::task::{JoinHandle, JoinSet};

fn fence(client: &Client, collect: bool) -> JoinHandle<Result<(), Error>> {
    let client = client.clone();
    tokio::spawn(async move {
        let fence = client.fence_all();
        if collect { fence.collect_data().await } else { fence.await }
    })
}

/// All enter; all outcomes.
async fn fence_of_all(clients: &[Client], collect: bool) -> Vec<Result<(), Error>> {
    let fences: Vec<_> = clients.iter().map(|client| fence(client, collect)).collect();
    let mut outcomes = Vec::new();
    for fence in fences {
        outcomes.push(within(fence).await.unwrap());
    }
    outcomes
}

/// Puts `rank-key` = `value of <rank>` for all scopes under their names, and commits.
async fn put_all_scopes(clients: &[Client]) {
    for client in clients {
        for (key, scope) in [("global", Scope::GLOBAL), ("local", Scope::LOCAL), ("remote", Scope::REMOTE)] {
            client.put(scope, key, format!("{key} of {}", client.proc_id())).unwrap();
        }
        within(client.commit()).await.unwrap();
    }
}

#[test]
fn fen_01_all_of_the_namespace_wait_for_each_other() {
    on_both_runtimes(async || {
        let node = TestNode::start(4).await;
        let clients = node.clients().await;
        let early: Vec<_> = clients[..3].iter().map(|client| fence(client, false)).collect();
        node.until_waiting(3).await;
        assert!(early.iter().all(|fence| !fence.is_finished()));
        within(clients[3].fence_all()).await.unwrap();
        for fence in early {
            within(fence).await.unwrap().unwrap();
        }
        let stats = node.stats().await;
        assert_eq!((stats.fences, stats.waiting, stats.upcalls), (1, 0, 0));
    });
}

#[tokio::test]
async fn fen_02_fen_03_a_wildcard_is_the_whole_namespace() {
    let node = TestNode::start(2).await;
    let clients = node.clients().await;
    let by_default = fence(&clients[0], false);
    within(clients[1].fence(Procs::nspace(node.nspace().clone()))).await.unwrap();
    within(by_default).await.unwrap().unwrap();
}

#[tokio::test]
async fn fen_03_order_and_repeats_in_the_set_do_not_matter() {
    let node = TestNode::start(3).await;
    let clients = node.clients().await;
    let (p0, p2) = (node.proc(0), node.proc(2));
    let (first, second) = within(async {
        tokio::join!(
            clients[0].fence([p0.clone(), p2.clone()]),
            clients[2].fence([p2.clone(), p0.clone(), p2])
        )
    })
    .await;
    first.and(second).unwrap();
}

#[tokio::test]
async fn fen_03_a_wildcard_and_a_list_of_all_ranks_are_different_sets() {
    let node = TestNode::start(2).await;
    let clients = node.clients().await;
    let listed = {
        let (client, procs) = (clients[0].clone(), [node.proc(0), node.proc(1)]);
        tokio::spawn(async move { client.fence(procs).await })
    };
    let all = fence(&clients[1], false);
    node.until_waiting(2).await;
    within(clients[1].fence([node.proc(0), node.proc(1)])).await.unwrap();
    within(listed).await.unwrap().unwrap();
    assert!(!all.is_finished());
    within(clients[0].fence_all()).await.unwrap();
    within(all).await.unwrap().unwrap();
}

#[test]
fn fen_04_different_sets_run_at_the_same_time_without_mixing() {
    on_both_runtimes(async || {
        let node = TestNode::start(4).await;
        let clients = node.clients().await;
        let mut pairs = JoinSet::new();
        for (rank, partner) in [(0, 1), (2, 3), (1, 0)] {
            let (client, procs) = (clients[rank].clone(), [node.proc(rank as u32), node.proc(partner)]);
            pairs.spawn(async move { client.fence(procs).await.map(|()| rank) });
        }
        let mut done = vec![
            within(pairs.join_next()).await.unwrap().unwrap().unwrap(),
            within(pairs.join_next()).await.unwrap().unwrap().unwrap(),
        ];
        done.sort_unstable();
        assert_eq!(done, [0, 1], "the pair that is complete");
        within(clients[3].fence([node.proc(2), node.proc(3)])).await.unwrap();
        within(pairs.join_next()).await.unwrap().unwrap().unwrap();
    });
}

#[tokio::test]
async fn fen_04_fen_15_a_second_call_belongs_to_the_next_round() {
    let node = TestNode::start(2).await;
    let clients = node.clients().await;
    let first = fence(&clients[0], false);
    node.until_waiting(1).await;
    let second = fence(&clients[0], false);
    node.until_waiting(2).await;
    assert!(!first.is_finished() && !second.is_finished(), "one process alone completes nothing");
    within(clients[1].fence_all()).await.unwrap();
    within(first).await.unwrap().unwrap();
    assert!(!second.is_finished());
    within(clients[1].fence_all()).await.unwrap();
    within(second).await.unwrap().unwrap();
}

#[tokio::test]
async fn fen_05_only_participants_may_call_and_a_set_is_not_empty() {
    let node = TestNode::start(3).await;
    let client = node.client(0).await;
    let stranger = within(client.fence([node.proc(1), node.proc(2)])).await.unwrap_err();
    assert_eq!(stranger.status(), Status::ERR_NOT_A_MEMBER, "{stranger}");
    let empty = within(client.fence(Vec::<ProcId>::new())).await.unwrap_err();
    assert_eq!(empty.status(), Status::ERR_BAD_PARAM, "{empty}");
}

#[test]
fn fen_06_data_moves_only_if_it_is_collected() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let clients = node.clients().await;
        put_all_scopes(&clients).await;
        let peer = node.proc(1);
        for outcome in fence_of_all(&clients, false).await {
            outcome.unwrap();
        }
        assert!(clients[0].get::<String>(&peer, "global").optional().await.unwrap_err().is_not_found());
        for outcome in fence_of_all(&clients, true).await {
            outcome.unwrap();
        }
        let held: String = clients[0].get(&peer, "global").optional().await.unwrap();
        assert_eq!(held, "global of job:1");
        assert_eq!(clients[0].get::<String>(&peer, "local").optional().await.unwrap(), "local of job:1");
        assert!(clients[0].get::<String>(&peer, "remote").optional().await.is_err(), "not for this node");
        assert_eq!(node.stats().await.gets, 0, "no get came to the server");
    });
}

/// Values that are too large to go to each process by itself, and small ones, of rank 0 and rank 1 of two.
#[test]
fn fen_06_large_values_of_each_fence_are_found_whenever_they_are_asked_for() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let clients = node.clients().await;
        let held = |round: usize| match round % 3 {
            0 => vec![round as u8; 10],
            _ => vec![round as u8; 40_000],
        };
        let read = async |reader: usize, round: usize| {
            for peer in (0..3).filter(|peer| *peer != reader) {
                let client = &clients[reader];
                let found = client.get::<Bytes>(node.proc(peer as u32), "k").optional().await.unwrap();
                assert_eq!(found, held(round));
            }
        };
        for round in 0..12 {
            for client in &clients {
                client.put(Scope::GLOBAL, "k", Bytes::from(held(round))).unwrap();
                within(client.commit()).await.unwrap();
            }
            for outcome in fence_of_all(&clients, true).await {
                outcome.unwrap();
            }
            // another reads after each fence, after every other one, and at last
            read(0, round).await;
            if round % 2 == 0 {
                read(1, round).await;
            }
        }
        read(2, 11).await;
        assert_eq!(node.stats().await.gets, 0, "no get came to the server");
    });
}

/// What every process has put in a round; much of it once in three rounds.
fn grown(rank: u32, round: usize) -> Bytes {
    let bytes = if round % 3 == 2 { 20_000 } else { 10 };
    vec![(round * 10 + rank as usize) as u8; bytes].into()
}

/// Each process puts one key more and one anew in each round, and finds all keys of all rounds without the server whenever it
/// looks: at once, now and then, or at the end.
async fn grows(clients: &[Client], rounds: usize) {
    let read = async |reader: usize, round: usize| {
        for peer in (0..clients.len()).filter(|peer| *peer != reader) {
            let (client, peer) = (&clients[reader], clients[peer].proc_id());
            for earlier in 0..=round {
                let found = client.get::<Bytes>(peer, &*format!("k{earlier}")).optional().await.unwrap();
                assert_eq!(found, grown(peer.rank.to_raw(), earlier), "{peer} in round {earlier} of {round}");
            }
            assert_eq!(client.get::<u64>(peer, "latest").optional().await.unwrap(), round as u64);
        }
    };
    for round in 0..rounds {
        for client in clients {
            let value = grown(client.proc_id().rank.to_raw(), round);
            client.put(Scope::GLOBAL, &*format!("k{round}"), value).unwrap();
            client.put(Scope::GLOBAL, "latest", round as u64).unwrap();
            within(client.commit()).await.unwrap();
        }
        for outcome in fence_of_all(clients, true).await {
            outcome.unwrap();
        }
        read(0, round).await;
        if round % 4 == 3 {
            read(1, round).await;
        }
    }
    read(2, rounds - 1).await;
}

#[test]
fn fen_06_what_fences_of_growing_data_bring_adds_up() {
    on_both_runtimes(async || {
        let node = TestNode::start(4).await;
        grows(&node.clients().await, 20).await;
        assert_eq!(node.stats().await.gets, 0, "no get came to the server");
    });
}

#[test]
fn fen_06_what_fences_of_growing_data_bring_adds_up_over_two_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        grows(&clients, 12).await;
    });
}

#[test]
fn fen_06_put_08_a_fence_over_three_nodes_collects_what_may_leave_them() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 2).await;
        let clients = cluster.clients().await;
        put_all_scopes(&clients).await;
        for outcome in fence_of_all(&clients, true).await {
            outcome.unwrap();
        }
        for client in &clients {
            for peer in (0..6).map(|rank| cluster.proc(rank)).filter(|peer| peer != client.proc_id()) {
                let near = peer.rank.to_raw() / 2 == client.proc_id().rank.to_raw() / 2;
                for (key, visible) in [("global", true), ("local", near), ("remote", !near)] {
                    let found = client.get::<String>(&peer, key).optional().await;
                    assert_eq!(found.ok(), visible.then(|| format!("{key} of {peer}")), "{peer} {key}");
                }
            }
        }
        for node in cluster.nodes() {
            let stats = node.stats().await;
            assert_eq!((stats.fences, stats.waiting, stats.gets), (1, 0, 0));
        }
    });
}

#[test]
fn fen_06_a_fence_over_three_nodes_without_collection_moves_nothing() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 1).await;
        let clients = cluster.clients().await;
        put_all_scopes(&clients).await;
        for _ in 0..3 {
            for outcome in fence_of_all(&clients, false).await {
                outcome.unwrap();
            }
        }
        let peer = cluster.proc(2);
        assert!(clients[0].get::<String>(&peer, "global").optional().await.is_err());
        assert!(within(clients[0].get::<String>(&peer, "global").immediate()).await.is_err());
    });
}

#[tokio::test]
async fn fen_08_if_one_participant_collects_all_get_the_data() {
    let cluster = TestCluster::new(1, 2).await;
    let clients = cluster.clients().await;
    put_all_scopes(&clients).await;
    let without = fence(&clients[0], false);
    within(clients[1].fence_all().collect_data()).await.unwrap();
    within(without).await.unwrap().unwrap();
    for (client, peer) in [(0, 1), (1, 0)] {
        let held = clients[client].get::<String>(cluster.proc(peer), "global").optional().await;
        assert_eq!(held.unwrap(), format!("global of job:{peer}"));
    }
}

#[tokio::test]
async fn fen_12_a_fence_of_local_processes_needs_no_host() {
    let cluster = TestCluster::new(2, 2).await;
    let (a, b) = (cluster.client(0).await, cluster.client(1).await);
    let procs = [cluster.proc(0), cluster.proc(1)];
    let (a, b) = within(async { tokio::join!(a.fence(procs.clone()), b.fence(procs.clone())) }).await;
    a.and(b).unwrap();
    let stats = cluster.node(0).stats().await;
    // the two upcalls told of the connections
    assert_eq!((stats.fences, stats.upcalls), (1, 2));
}

#[tokio::test]
async fn fen_10_a_fence_waits_for_ranks_that_have_not_connected() {
    let node = TestNode::start(2).await;
    let early = fence(&node.client(0).await, false);
    node.until_waiting(1).await;
    let late = node.client(1).await;
    assert!(!early.is_finished());
    within(late.fence_all()).await.unwrap();
    within(early).await.unwrap().unwrap();
}

#[tokio::test]
async fn fen_11_reg_01_a_fence_waits_for_the_registration_of_a_namespace() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let other = ProcId::wildcard(Nspace::new("other").unwrap());
    let procs = [node.job(), other.clone()];
    let early = {
        let procs = procs.clone();
        tokio::spawn(async move { client.fence(procs).await })
    };
    node.until_waiting(1).await;
    let spec = JobSpec::new(other.nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
    node.add_job(spec, [0]).await;
    node.until_waiting(1).await;
    let late = node.connect(&other.with_rank(Rank::from_raw(0))).await.unwrap();
    within(late.fence(procs)).await.unwrap();
    within(early).await.unwrap().unwrap();
}

#[test]
fn fen_13_the_death_of_a_participant_ends_the_fence_for_the_rest() {
    on_both_runtimes(async || {
        let node = TestNode::start(4).await;
        let mut clients = node.clients().await;
        let victim = clients.remove(2);
        let fences: Vec<_> = clients.iter().map(|client| fence(client, false)).collect();
        node.until_waiting(3).await;
        drop(victim);
        for fence in fences {
            let error = within(fence).await.unwrap().unwrap_err();
            assert_eq!(error.status(), Status::ERR_PROC_TERM_WO_SYNC);
            assert_eq!(error.procs(), [node.proc(2)]);
            assert!(error.to_string().contains("job:2 on n0"), "{error}");
        }
        assert_eq!(node.stats().await.waiting, 0);
    });
}

#[test]
fn fen_13_a_death_on_one_node_ends_the_fence_on_all_three() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 2).await;
        let mut clients = cluster.clients().await;
        let victim = clients.remove(5);
        let fences: Vec<_> = clients.iter().map(|client| fence(client, true)).collect();
        // on the third node one has entered and one has not; the other nodes wait for it
        cluster.node(2).until_waiting(1).await;
        drop(victim);
        for fence in fences {
            let error = within(fence).await.unwrap().unwrap_err();
            assert_eq!(error.status(), Status::ERR_PROC_TERM_WO_SYNC, "{error}");
            assert_eq!(error.procs(), [cluster.proc(5)], "{error}");
            let message = error.to_string();
            assert!(message.contains("n2") && message.contains("job:5"), "{message}");
        }
        for node in cluster.nodes() {
            node.until_waiting(0).await;
        }
    });
}

#[tokio::test]
async fn fen_13_a_fence_with_a_process_that_is_dead_already_fails_at_once() {
    let node = TestNode::start(2).await;
    let client = node.client(0).await;
    node.handle().client_ended(&node.proc(1), "exit code 9").await.unwrap();
    let error = within(client.fence_all()).await.unwrap_err();
    assert_eq!(error.procs(), [node.proc(1)]);
    assert!(error.to_string().contains("exit code 9"), "{error}");
}

#[test]
fn fen_14_who_dies_after_it_entered_has_done_its_part() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        a.put(Scope::GLOBAL, "last words", "adieu").unwrap();
        within(a.commit()).await.unwrap();
        let entered = fence(&a, true);
        node.until_waiting(1).await;
        entered.abort();
        let _ = entered.await;
        drop(a);
        node.until_waiting(0).await;
        within(b.fence_all().collect_data()).await.unwrap();
        assert_eq!(b.get::<String>(node.proc(0), "last words").optional().await.unwrap(), "adieu");
    });
}

#[test]
fn fen_17_gen_12_a_timeout_ends_the_fence_and_names_who_is_missing() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let (a, b) = (node.client(0).await, node.client(2).await);
        let b = tokio::spawn(async move { b.fence_all().await });
        node.until_waiting(1).await;
        let a = within(a.fence_all().timeout(Duration::from_secs(1))).await;
        for error in [a.unwrap_err(), within(b).await.unwrap().unwrap_err()] {
            assert!(error.is_timeout(), "{error}");
            assert_eq!(error.procs(), [node.proc(1)]);
            assert!(error.to_string().contains("job:1 on n0"), "{error}");
        }
        assert_eq!(node.stats().await.waiting, 0);
    });
}

#[tokio::test]
async fn a_fence_over_several_nodes_without_such_a_host_is_not_supported() {
    let spec = JobSpec::new(Nspace::new("job").unwrap());
    let spec = spec.node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
    let node = TestNode::builder(0).job(spec, [0]).start().await;
    let error = within(node.client(0).await.fence_all()).await.unwrap_err();
    assert!(error.is_not_supported(), "{error}");
}

/// A directive that only the host can know: an older Standard's `COLLECTIVE_ALGO`.
const ALGORITHM: &str = "pmix.calgo";

fn algorithm() -> Directives {
    let mut directives = Directives::new();
    directives.push(Info::dynamic(KeyName::new(ALGORITHM).unwrap(), "ring"));
    directives
}

/// Does with fences whatever it is told to.
struct FenceHost<F>(F);

#[async_trait]
impl<F, Fut> HostModule for FenceHost<F>
where
    F: Fn(UpcallContext, FenceRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HostResult<Bytes>> + Send,
{
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Fence)
    }

    async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        (self.0)(cx.clone(), req).await
    }
}

/// A node with the first two of three ranks, the third elsewhere.
async fn two_of_three(host: impl HostModule) -> TestNode {
    let spec = JobSpec::new(Nspace::new("job").unwrap());
    let spec = spec.node_map(["n0", "n1"]).unwrap().proc_map("0,1;2").unwrap();
    TestNode::builder(0).job(spec, [0, 1]).host(host).start().await
}

#[test]
fn fen_09_fen_18_hst_02_gen_14_the_host_is_asked_once_with_everything() {
    on_both_runtimes(async || {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = asked.clone();
        let node = two_of_three(FenceHost(move |_, request: FenceRequest| {
            let data = request.data.clone();
            requests.lock().unwrap().push(request);
            // its own part alone: nobody else has put anything
            async move { Ok(data) }
        }))
        .await;
        let clients = node.clients().await;
        put_all_scopes(&clients).await;
        let first = {
            let client = clients[0].clone();
            tokio::spawn(async move { client.fence_all().collect_data().directives(algorithm()).await })
        };
        node.until_waiting(1).await;
        assert!(asked.lock().unwrap().is_empty(), "one of two has entered");
        within(clients[1].fence_all().collect_data()).await.unwrap();
        within(first).await.unwrap().unwrap();
        let asked = asked.lock().unwrap();
        let [request] = asked.as_slice() else { panic!("asked {} times", asked.len()) };
        assert_eq!(request.procs, [node.job()]);
        assert_eq!(request.nodes, ["n0", "n1"]);
        assert!(!request.data.is_empty());
        assert_eq!(request.directives.get_value(ALGORITHM), Some(&Value::from("ring")));
        assert_eq!(request.directives.get(&keys::COLLECT_DATA).unwrap(), Some(true));
    });
}

#[test]
fn a_host_that_panics_in_a_fence_fails_it_for_all() {
    on_both_runtimes(async || {
        let node = two_of_three(FenceHost(async |_, _| panic!("a host that panics"))).await;
        let clients = node.clients().await;
        for outcome in fence_of_all(&clients, false).await {
            let error = outcome.unwrap_err();
            assert_eq!(error.status(), Status::ERROR);
            assert!(error.to_string().contains("the host panicked in fence"), "{error}");
        }
        // the next fence is another chance, not a hang
        for outcome in fence_of_all(&clients, false).await {
            outcome.unwrap_err();
        }
    });
}

#[test]
fn gen_12_fen_17_a_host_that_never_answers_does_not_outlast_a_timeout() {
    on_both_runtimes(async || {
        let cancelled = Arc::new(tokio::sync::Notify::new());
        let hears = cancelled.clone();
        let node = two_of_three(FenceHost(move |cx: UpcallContext, request: FenceRequest| {
            let hears = hears.clone();
            async move {
                assert!(!request.directives.contains(&keys::TIMEOUT), "the server keeps the time");
                cx.cancelled().await;
                hears.notify_one();
                std::future::pending().await
            }
        }))
        .await;
        let clients = node.clients().await;
        let b = clients[1].clone();
        let b = tokio::spawn(async move { b.fence_all().timeout(Duration::from_secs(60)).await });
        node.until_waiting(1).await;
        let a = within(clients[0].fence_all().timeout(Duration::from_secs(1))).await;
        for error in [a.unwrap_err(), within(b).await.unwrap().unwrap_err()] {
            assert!(error.is_timeout(), "{error}");
            assert!(error.to_string().contains("other nodes"), "{error}");
        }
        within(cancelled.notified()).await;
        node.until_waiting(0).await;
    });
}

#[tokio::test]
async fn gen_05_hst_03_a_required_directive_reaches_the_host() {
    let node = two_of_three(FenceHost(async |_, request: FenceRequest| {
        request.directives.deny_unprocessed()?;
        Ok(Bytes::new())
    }))
    .await;
    let clients = node.clients().await;
    let wish = Directives::new().require(&keys::QUERY_REFRESH_CACHE, true);
    let (a, b) =
        within(async { tokio::join!(clients[0].fence_all().directives(wish), clients[1].fence_all()) }).await;
    for error in [a.unwrap_err(), b.unwrap_err()] {
        assert!(error.is_not_supported(), "{error}");
    }
}

#[tokio::test]
async fn fen_16_a_death_after_the_host_was_asked_changes_nothing() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let opened = gate.clone();
    let node = two_of_three(FenceHost(move |_, request: FenceRequest| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(request.data)
        }
    }))
    .await;
    let mut clients = node.clients().await;
    let fences: Vec<_> = clients.iter().map(|client| fence(client, true)).collect();
    node.until(|stats| stats.upcalls == 1).await;
    let [first, second] = <[_; 2]>::try_from(fences).unwrap();
    first.abort();
    let _ = first.await;
    drop(clients.remove(0));
    node.until_waiting(2).await;
    opened.add_permits(1);
    within(second).await.unwrap().unwrap();
}
