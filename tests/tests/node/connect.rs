//! Connect and disconnect end to end: one server, and several with their hosts.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{DataArray, DataRange, Directives, Event, Info, Status};
use pmix_client::{Client, ConnectedSet, Error, Nspace, ProcId, Scope, keys};
use pmix_host::{Exchange, ExchangeError, MemoryExchange, Responder, StandardHost};
use pmix_tests::{NullLauncher, TestCluster, TestNode, all_of, nspace, on_both_runtimes, proc, within};
use tokio::sync::watch;

/// Job `a` with so many processes on `n0`, job `b` with so many on `n1`, under two servers that know one job each.
async fn two_jobs(each: u32) -> (Vec<TestNode>, Vec<Client>) {
    let (mut nodes, mut clients) = (Vec::new(), Vec::new());
    for (exchange, (node, job)) in
        MemoryExchange::cluster(["n0", "n1"]).into_iter().zip([("n0", "a"), ("n1", "b")])
    {
        let host = StandardHost::new(NullLauncher, exchange);
        let spec = JobSpec::new(nspace(job)).node_map([node]).unwrap().ranks_block(1, each).unwrap();
        let node = TestNode::builder(0).hostname(node).host(host).job(spec, 0..each).start().await;
        clients.extend(node.clients().await);
        nodes.push(node);
    }
    (nodes, clients)
}

/// All of them connect at once.
async fn connect_all(clients: &[Client], procs: &[ProcId]) -> Vec<ConnectedSet> {
    let connecting = clients.iter().map(|client| client.connect(procs).into_future());
    within(join_all(connecting)).await.into_iter().collect::<Result<_, _>>().unwrap()
}

async fn disconnect_all(clients: &[Client], procs: &[ProcId]) -> Vec<Result<(), Error>> {
    within(join_all(clients.iter().map(|client| client.disconnect(procs).into_future()))).await
}

/// What must hold of one connect: one namespace, ranks without holes.
fn named(connections: &[ConnectedSet]) -> Nspace {
    let name = connections[0].nspace.clone().unwrap();
    assert!(
        connections.iter().all(|connection| connection.nspace.as_ref() == Some(&name)),
        "{connections:?}"
    );
    let mut ranks: Vec<_> = connections.iter().map(|connection| connection.rank.unwrap().to_raw()).collect();
    ranks.sort_unstable();
    assert!(ranks.iter().copied().eq(0..u32::try_from(connections.len()).unwrap()), "{ranks:?}");
    name
}

#[test]
fn con_02_con_06_con_08_con_16_jobs_of_two_servers_that_do_not_know_each_other_connect() {
    on_both_runtimes(async || {
        let (_nodes, clients) = two_jobs(2).await;
        let both = [all_of("a"), all_of("b")];
        named(&connect_all(&clients, &both).await);
        for client in &clients {
            for job in ["a", "b"] {
                let size = within(client.job(nspace(job)).get(keys::JOB_SIZE).optional().into_future()).await;
                assert_eq!(size.unwrap(), 2, "it is answered locally");
            }
        }
        for ended in disconnect_all(&clients, &both).await {
            ended.unwrap();
        }
        let size = within(clients[0].job(nspace("b")).get(keys::JOB_SIZE).optional().into_future()).await;
        assert_eq!(size.unwrap(), 2, "it stays known");
        let again = named(&connect_all(&clients, &both).await);
        assert!(disconnect_all(&clients, &[ProcId::wildcard(again)]).await.iter().all(Result::is_ok));
    });
}

#[test]
fn con_06_con_07_a_group_over_nodes_is_addressed_by_its_namespace() {
    on_both_runtimes(async || {
        let (_nodes, clients) = two_jobs(2).await;
        let connections = connect_all(&clients, &[all_of("a"), all_of("b")]).await;
        let name = named(&connections);
        // the same order on every node
        let ids: Vec<_> = connections.iter().map(|connection| connection.proc_id().unwrap()).collect();
        for (client, me) in clients.iter().zip(&ids) {
            client.put(Scope::GLOBAL, "me", me.rank.to_raw()).unwrap();
            within(client.commit()).await.unwrap();
        }
        for _ in 0..2 {
            let fences = clients.iter().zip(&connections).map(|(client, connection)| {
                client.fence(connection.all().unwrap()).collect_data().into_future()
            });
            within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
        }
        for id in &ids {
            let rank: u32 = within(clients[0].get(id, "me").into_future()).await.unwrap();
            assert_eq!(rank, id.rank.to_raw());
        }
        let some: Vec<_> = [0, 2].map(|number| ids[number].clone()).into();
        let fences = [0, 2].map(|number| clients[number].fence(some.clone()).into_future());
        within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
        // an event for the group
        let code = Status::from_raw(-4711);
        let mut events = within(clients[1].events([code]).into_future()).await.unwrap();
        let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![ProcId::wildcard(name)]));
        let event = Event::new(code, ProcId::none()).with_range(DataRange::CUSTOM).with_info(range);
        within(clients[0].notify(event)).await.unwrap();
        assert_eq!(within(events.recv()).await.unwrap().unwrap().source, proc("a", 0));
    });
}

#[test]
fn con_05_con_15_many_connects_of_overlapping_sets_at_once_on_three_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 2).await;
        let clients = cluster.clients().await;
        let sets: Vec<Vec<u32>> =
            vec![vec![0, 2, 4], vec![1, 2, 5], vec![0, 1, 2, 3, 4, 5], vec![2, 3], vec![0, 5]];
        for _ in 0..3 {
            let rounds = join_all(sets.iter().map(async |set| {
                let procs: Vec<_> = set.iter().map(|rank| cluster.proc(*rank)).collect();
                let members: Vec<_> = set.iter().map(|rank| clients[*rank as usize].clone()).collect();
                let name = named(&connect_all(&members, &procs).await);
                let again = named(&connect_all(&members, &procs).await);
                assert_eq!(again, name, "to connect again changes nothing");
                let fences =
                    members.iter().map(|member| member.fence(ProcId::wildcard(name.clone())).into_future());
                within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
                assert!(disconnect_all(&members, &procs).await.iter().all(Result::is_ok));
                name
            }));
            let mut names = rounds.await;
            names.sort();
            names.dedup();
            assert_eq!(names.len(), sets.len(), "every connect has a name of its own");
        }
    });
}

#[test]
fn con_04_the_same_processes_connect_twice_with_different_ids() {
    on_both_runtimes(async || {
        let (_nodes, clients) = two_jobs(1).await;
        let both = [all_of("a"), all_of("b")];
        let connect = |id: &'static str| {
            join_all(
                clients
                    .iter()
                    .map(move |client| client.connect([all_of("a"), all_of("b")]).id(id).into_future()),
            )
        };
        let (one, two) = within(async { tokio::join!(connect("one"), connect("two")) }).await;
        let [one, two] =
            [one, two].map(|all| named(&all.into_iter().collect::<Result<Vec<_>, _>>().unwrap()));
        assert_ne!(one, two);
        let plain = within(clients[0].disconnect(both.clone()).into_future()).await.unwrap_err();
        assert_eq!(plain.status(), Status::ERR_INVALID_OPERATION);
        let ended = clients.iter().map(|client| client.disconnect(both.clone()).id("one").into_future());
        assert!(within(join_all(ended)).await.iter().all(Result::is_ok));
        let gone = within(clients[0].disconnect_nspace(&one).into_future()).await.unwrap_err();
        assert_eq!(gone.status(), Status::ERR_INVALID_NAMESPACE);
        for client in &clients {
            within(client.disconnect_nspace(&two).into_future()).await.unwrap();
        }
    });
}

#[test]
fn con_03_con_14_what_cannot_be_is_refused() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let refused = [
            (within(a.connect(Vec::<ProcId>::new()).into_future()).await.unwrap_err(), Status::ERR_BAD_PARAM),
            (within(a.connect([node.proc(1)]).into_future()).await.unwrap_err(), Status::ERR_NOT_A_MEMBER),
            (
                within(a.disconnect([node.job()]).into_future()).await.unwrap_err(),
                Status::ERR_INVALID_OPERATION,
            ),
            (
                within(a.disconnect_nspace(nspace("x")).into_future()).await.unwrap_err(),
                Status::ERR_INVALID_NAMESPACE,
            ),
            (
                within(a.connect([node.proc(0), all_of("x")]).into_future()).await.unwrap_err(),
                Status::ERR_INVALID_NAMESPACE,
            ),
        ];
        for (error, status) in refused {
            assert_eq!(error.status(), status, "{error}");
        }
        // who leaves alone asks the same host as those who leave together (GEN-05)
        let name = named(&connect_all(&[a.clone(), b.clone()], &[node.job()]).await);
        let unknown = || Directives::new().require(&keys::COLLECT_DATA, true);
        let alone = a.disconnect_nspace(&name).directives(unknown());
        assert_eq!(within(alone.into_future()).await.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        for client in [&a, &b] {
            within(client.disconnect_nspace(&name).into_future()).await.unwrap();
        }
        let late = a.connect([node.job()]).timeout(Duration::from_secs(1));
        let error = within(late.into_future()).await.unwrap_err();
        assert!(error.is_timeout() && error.procs() == [node.proc(1)], "{error}");
        drop(b);
    });
}

#[test]
fn con_09_con_17_one_namespace_connects_and_an_exchange_names_nobody() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let clients = node.clients().await;
        let exchanging =
            clients.iter().map(|client| client.connect([node.job()]).exchange_only().into_future());
        for connection in within(join_all(exchanging)).await {
            let set = connection.unwrap();
            assert_eq!((set.nspace, set.rank), (None, None));
        }
        named(&connect_all(&clients, &[node.job()]).await);
    });
}

#[test]
fn con_10_con_11_con_13_members_hear_of_each_other() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let codes = [
            Status::CONNECT_REQUESTED,
            Status::PROC_HAS_CONNECTED,
            Status::PROC_HAS_DISCONNECTED,
            Status::ERR_PROC_TERM_WO_SYNC,
        ];
        let mut events = within(b.events(codes).into_future()).await.unwrap();
        let mut heard = async || within(events.recv()).await.unwrap().unwrap().code;
        let procs = [node.proc(0), node.proc(1)];
        let connecting = a.connect(procs.clone()).notify_each().notify_req().into_future();
        let answering = async {
            assert_eq!(heard().await, Status::CONNECT_REQUESTED);
            assert_eq!(heard().await, Status::PROC_HAS_CONNECTED);
            b.connect(procs.clone()).await
        };
        let (first, second) = within(async { tokio::join!(connecting, answering) }).await;
        let name = named(&[first.unwrap(), second.unwrap()]);
        within(a.disconnect_nspace(&name).into_future()).await.unwrap();
        assert_eq!(heard().await, Status::PROC_HAS_DISCONNECTED);
        within(b.disconnect(procs.clone()).into_future()).await.unwrap();
        named(&connect_all(&[a.clone(), b.clone()], &procs).await);
        within(a.finalize().into_future()).await.unwrap();
        assert_eq!(heard().await, Status::ERR_PROC_TERM_WO_SYNC);
    });
}

/// Two nodes with two processes each, of which those of the first have entered `enter` before those of the second end.
async fn after_the_end_of_a_node<T: Send + 'static>(
    finalize: bool,
    enter: impl Fn(&Client, Vec<ProcId>) -> futures::future::BoxFuture<'static, Result<T, Error>>,
) -> (TestCluster, Vec<Client>, Vec<Result<T, Error>>) {
    let cluster = TestCluster::new(2, 2).await;
    let mut clients = cluster.clients().await;
    let procs: Vec<_> = (0..4).map(|rank| cluster.proc(rank)).collect();
    let leaving = clients.split_off(2);
    let entered: Vec<_> = clients.iter().map(|client| tokio::spawn(enter(client, procs.clone()))).collect();
    // two requests, and what the host does for them
    cluster.node(0).until_waiting(3).await;
    for client in leaving {
        if finalize {
            let proc = client.proc_id().clone();
            within(client.finalize()).await.unwrap();
            // it might have come back before
            within(cluster.node(1).handle().client_ended(&proc, "exit code 0")).await.unwrap();
        }
    }
    let outcomes = within(join_all(entered)).await.into_iter().map(Result::unwrap).collect();
    (cluster, clients, outcomes)
}

#[test]
fn con_12_when_all_of_a_node_have_ended_the_connect_fails_for_the_others() {
    on_both_runtimes(async || {
        for finalize in [false, true] {
            let (cluster, clients, outcomes) = after_the_end_of_a_node(finalize, |client, procs| {
                let client = client.clone();
                Box::pin(async move { client.connect(procs).await })
            })
            .await;
            for outcome in outcomes {
                assert_eq!(outcome.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
            }
            let procs: Vec<_> = (0..4).map(|rank| cluster.proc(rank)).collect();
            // they are in step: the next one fails alike, and one that goes on without them succeeds
            let again = clients.iter().map(|client| client.connect(procs.clone()).into_future());
            assert!(within(join_all(again)).await.iter().all(Result::is_err));
            let optional =
                clients.iter().map(|client| client.connect(procs.clone()).id("x").optional().into_future());
            named(&within(join_all(optional)).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap());
            let ended = clients.iter().map(|client| client.disconnect(procs.clone()).id("x").into_future());
            assert!(within(join_all(ended)).await.iter().all(Result::is_ok));
        }
    });
}

#[test]
fn fen_13_when_all_of_a_node_have_ended_the_fence_fails_for_the_others() {
    on_both_runtimes(async || {
        let (cluster, clients, outcomes) = after_the_end_of_a_node(false, |client, procs| {
            let client = client.clone();
            Box::pin(async move { client.fence(procs).await })
        })
        .await;
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
        }
        drop((cluster, clients));
    });
}

#[test]
fn fen_13_a_node_whose_process_has_ended_answers_although_former_fences_were_given_up() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let (stays, leaves) = (cluster.client(0).await, cluster.client(1).await);
        for _ in 0..2 {
            let given_up = within(stays.fence_all().timeout(Duration::from_secs(1))).await.unwrap_err();
            assert_eq!(given_up.status(), Status::ERR_TIMEOUT);
        }
        let last = tokio::spawn(stays.fence_all().into_future());
        // by now the other node has been asked for each of them
        cluster.node(0).until_waiting(2).await;
        let proc = leaves.proc_id().clone();
        within(leaves.finalize()).await.unwrap();
        within(cluster.node(1).handle().client_ended(&proc, "exit code 0")).await.unwrap();
        let error = within(last).await.unwrap().unwrap_err();
        assert_eq!(error.status(), Status::ERR_PROC_TERM_WO_SYNC, "{error}");
    });
}

/// Counts the questions that nodes have asked each other.
#[derive(Debug)]
struct Counted {
    inner: MemoryExchange,
    asked: watch::Sender<usize>,
}

#[async_trait]
impl Exchange for Counted {
    fn node(&self) -> &str {
        self.inner.node()
    }

    fn nodes(&self) -> Vec<String> {
        self.inner.nodes()
    }

    async fn all_gather(
        &self,
        name: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.inner.all_gather(name, nodes, data).await
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        let answer = self.inner.fetch(node, request).await;
        self.asked.send_modify(|count| *count += 1);
        answer
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        self.inner.serve(responder);
    }
}

#[test]
fn con_12_a_connect_that_takes_long_waits_for_those_who_live() {
    on_both_runtimes(async || {
        let asked = watch::Sender::new(0);
        let (mut nodes, mut clients) = (Vec::new(), Vec::new());
        for (number, inner) in (0..).zip(MemoryExchange::cluster(["n0", "n1"])) {
            let host = StandardHost::new(NullLauncher, Counted { inner, asked: asked.clone() });
            let spec = JobSpec::new(nspace("job")).node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
            let node = TestNode::builder(0).hostname(&format!("n{number}")).host(host);
            let node = node.job(spec, [number]).start().await;
            clients.extend(node.clients().await);
            nodes.push(node);
        }
        let procs = [proc("job", 0), proc("job", 1)];
        for round in 1..=2 {
            let (first, procs_of_first) = (clients[0].clone(), procs.clone());
            let first = tokio::spawn(async move { first.connect(procs_of_first).await });
            // the other node has been asked about it
            within(asked.subscribe().wait_for(|asked| *asked == round)).await.unwrap();
            let second = within(clients[1].connect(procs.clone()).into_future()).await.unwrap();
            named(&[within(first).await.unwrap().unwrap(), second]);
            assert!(disconnect_all(&clients, &procs).await.iter().all(Result::is_ok));
        }
    });
}

#[test]
fn con_12_the_dead_fail_a_connect_over_nodes_unless_they_are_optional() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        let procs: Vec<_> = (0..4).map(|rank| cluster.proc(rank)).collect();
        drop(clients.remove(3));
        for outcome in
            within(join_all(clients.iter().map(|client| client.connect(procs.clone()).into_future()))).await
        {
            assert_eq!(outcome.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
        }
        let connecting =
            clients.iter().map(|client| client.connect(procs.clone()).id("x").optional().into_future());
        for outcome in within(join_all(connecting)).await {
            outcome.unwrap();
        }
    });
}
