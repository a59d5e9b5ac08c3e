//! Published data over several nodes: ranges, waits, what is read once, the end of those who published it, and a node
//! that is gone.

use std::time::Duration;

use pmix_client::types::job::JobSpec;
use pmix_client::types::{App, DataRange, Persistence, Status};
use pmix_client::{Client, Nspace, ProcId, Rank};
use pmix_host::{
    JobReport, JobStart, MemoryExchange, OnFailure, ProcExit, PublishLimits, RunningJob, StandardHost,
};
use pmix_test_wait::until_async;
use pmix_tests::{NullLauncher, TestCluster, TestLauncher, TestNode, on_both_runtimes, within};
use pmix_tool::Tool;
use tokio::sync::mpsc;

use crate::find;

/// Waits until a key is not found any more.
async fn until_gone(client: &Client, key: &str) {
    until_async(format!("{key} is not found"), async || match find(client, key).await {
        None => Ok(()),
        found => Err(found),
    })
    .await;
}

#[test]
fn pub_03_pub_06_pub_07_pub_15_data_reaches_other_nodes_by_its_range() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let other = Nspace::new("other").unwrap();
        let spec = JobSpec::new(other.clone()).node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
        let stranger = ProcId::new(other, Rank::from_raw(0));
        cluster.node(0).add_job(spec, [0]).await;
        let stranger = cluster.node(0).connect(&stranger).await.unwrap();
        // published on the node that does not keep it
        let publisher = &clients[2];
        for (range, value) in [
            (DataRange::LOCAL, 1u32),
            (DataRange::NAMESPACE, 2),
            (DataRange::SESSION, 3),
            (DataRange::GLOBAL, 4),
            (DataRange::PROC_LOCAL, 5),
            (DataRange::RM, 6),
        ] {
            within(publisher.publish().data(format!("{range}"), value).range(range)).await.unwrap();
        }
        let custom = publisher.publish().data("CUSTOM", 7u32).custom_range([cluster.proc(0)]);
        within(custom).await.unwrap();
        let everything = ["LOCAL", "NAMESPACE", "SESSION", "GLOBAL", "PROC_LOCAL", "RM", "CUSTOM"];
        let seen = async |client: &Client| {
            let found = within(client.lookup(everything).range(DataRange::GLOBAL)).await.unwrap();
            everything.map(|key| found.get::<u32>(key).unwrap().unwrap_or_default())
        };
        assert_eq!(seen(&clients[2]).await, [1, 2, 3, 4, 5, 0, 0], "the publisher, which is not on the list");
        assert_eq!(seen(&clients[3]).await, [1, 2, 3, 4, 0, 0, 0], "the same node");
        assert_eq!(seen(&clients[0]).await, [0, 2, 3, 4, 0, 0, 7], "another node, and on the list");
        assert_eq!(seen(&clients[1]).await, [0, 2, 3, 4, 0, 0, 0], "another node");
        assert_eq!(seen(&stranger).await, [0, 0, 3, 4, 0, 0, 0], "another job");
        // what is for one list is not taken back with that for another
        for (listed, found) in [(1, Some(7)), (0, None)] {
            within(publisher.unpublish(["CUSTOM"]).custom_range([cluster.proc(listed)])).await.unwrap();
            assert_eq!(find(&clients[0], "CUSTOM").await, found);
        }
    });
}

#[test]
fn con_19b_an_id_of_another_cluster_is_learned_by_publish_and_lookup() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let clients = cluster.clients().await;
        let far = ProcId::new(Nspace::new("job").unwrap().qualified("east").unwrap(), Rank::from_raw(3));
        let publish = clients[1].publish().data("peer", far.clone()).range(DataRange::GLOBAL);
        within(publish).await.unwrap();
        let found = within(clients[0].lookup(["peer"]).range(DataRange::GLOBAL)).await.unwrap();
        let learned: ProcId = found.get("peer").unwrap().unwrap();
        assert_eq!(learned, far);
        assert_eq!(learned.nspace.split_cluster(|cluster| cluster == "east"), (Some("east"), "job"));
    });
}

#[tokio::test]
async fn pub_06_pub_10_sessions_are_apart() {
    let node = TestNode::with_standard_host(1).await;
    let mut clients = Vec::new();
    for (name, session) in [("a", 1), ("b", 1), ("c", 2)] {
        let nspace = Nspace::new(name).unwrap();
        let spec = JobSpec::new(nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
        node.add_job(spec.session(session), [0]).await;
        clients.push(node.connect(&ProcId::new(nspace, Rank::from_raw(0))).await.unwrap());
    }
    within(clients[0].publish().data("k", 1)).await.unwrap();
    within(clients[0].publish().data("g", 1).range(DataRange::GLOBAL)).await.unwrap();
    assert_eq!(find(&clients[1], "k").await, Some(1));
    assert_eq!(find(&clients[2], "k").await, None);
    assert_eq!(find(&clients[2], "g").await, Some(1));
    assert!(within(clients[2].lookup(["g"])).await.unwrap_err().is_not_found(), "not of the asker's session");
    // another session's key is another key
    within(clients[2].publish().data("k", 2)).await.unwrap();
    assert_eq!(find(&clients[2], "k").await, Some(2));
}

#[test]
fn pub_08_what_is_to_be_read_once_is_read_once_by_racing_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let (sender, mut answers) = mpsc::unbounded_channel();
        for client in &clients {
            let (client, sender) = (client.clone(), sender.clone());
            tokio::spawn(async move {
                let found = client.lookup(["once"]).wait_all().await.unwrap();
                sender.send(found.get::<u32>("once").unwrap().unwrap()).unwrap();
            });
        }
        for node in cluster.nodes() {
            node.until_waiting(2).await;
        }
        for round in 0..4 {
            let publish = clients[round as usize].publish().data("once", round);
            within(publish.persistence(Persistence::FIRST_READ)).await.unwrap();
            assert_eq!(within(answers.recv()).await, Some(round));
            assert!(answers.try_recv().is_err());
            assert_eq!(find(&clients[0], "once").await, None);
        }
        for node in cluster.nodes() {
            node.until_waiting(0).await;
        }
        // those who do not wait race too
        within(clients[3].publish().data("once", 9).persistence(Persistence::FIRST_READ)).await.unwrap();
        let looks = clients.iter().map(|client| find(client, "once"));
        let found = within(futures::future::join_all(looks)).await;
        assert_eq!(found.iter().flatten().collect::<Vec<_>>(), [&9]);
    });
}

#[test]
fn pub_13_waits_of_other_nodes_end_with_the_asker_and_with_their_time() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 1).await;
        let clients = cluster.clients().await;
        let late = clients[1].lookup(["late"]).wait_all().timeout(Duration::from_secs(1));
        assert!(within(late).await.unwrap_err().is_timeout());
        cluster.node(1).until_waiting(0).await;
        let doomed = clients[1].clone();
        let wait = tokio::spawn(async move { doomed.lookup(["late"]).wait_all().await });
        cluster.node(1).until_waiting(1).await;
        wait.abort();
        assert!(wait.await.unwrap_err().is_cancelled());
        drop(clients);
        cluster.node(1).until_waiting(0).await;
    });
}

#[tokio::test]
async fn pub_04_pub_15_pub_16_keys_are_taken_and_freed_over_nodes() {
    let cluster = TestCluster::new(3, 1).await;
    let clients = cluster.clients().await;
    within(clients[1].publish().data("k", 1)).await.unwrap();
    let taken = within(clients[2].publish().data("k", 2)).await.unwrap_err();
    assert_eq!(taken.status(), Status::ERR_DUPLICATE_KEY);
    within(clients[2].unpublish_all()).await.unwrap();
    assert_eq!(find(&clients[2], "k").await, Some(1));
    within(clients[1].unpublish(["k"])).await.unwrap();
    within(clients[2].publish().data("k", 2)).await.unwrap();
    assert_eq!(find(&clients[0], "k").await, Some(2));
}

#[tokio::test]
async fn what_a_user_may_publish_is_bounded_with_a_clear_error() {
    let limits = PublishLimits::default().items(3).bytes(10_000);
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0")).with_publish_limits(limits);
    let node = TestNode::with_host(2, host).await;
    let clients = node.clients().await;
    let large = within(clients[0].publish().data("large", "x".repeat(10_000))).await.unwrap_err();
    assert_eq!(large.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(large.to_string().contains("10000 bytes"), "{large}");
    within(clients[0].publish().data("a", 1).data("b", 1)).await.unwrap();
    let many = within(clients[1].publish().data("c", 1).data("d", 1)).await.unwrap_err();
    assert_eq!(many.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(many.to_string().contains("3 keys"), "{many}");
    assert_eq!(find(&clients[0], "c").await, None, "nothing of it is published");
    within(clients[0].unpublish(["a"])).await.unwrap();
    within(clients[1].publish().data("c", 1).data("d", 1)).await.unwrap();
}

#[tokio::test]
async fn a_node_that_keeps_the_data_and_is_gone_is_named() {
    let mut exchanges = MemoryExchange::cluster(["n0", "n1"]).into_iter();
    let (first, second) = (exchanges.next().unwrap(), exchanges.next().unwrap());
    let keeper = TestNode::builder(1).host(StandardHost::new(NullLauncher, first)).start().await;
    let builder = TestNode::builder(1).hostname("n1");
    let node = builder.host(StandardHost::new(NullLauncher, second)).start().await;
    let client = node.client(0).await;
    within(client.publish().data("k", 1)).await.unwrap();
    keeper.stop().await;
    for error in [
        within(client.publish().data("l", 1)).await.unwrap_err(),
        within(client.lookup(["k"])).await.unwrap_err(),
        within(client.lookup(["k"]).wait_all()).await.unwrap_err(),
        within(client.unpublish_all()).await.unwrap_err(),
    ] {
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().contains("node n0, which keeps what is published"), "{error}");
    }
}

async fn done(mut job: RunningJob) {
    while let Some(report) = within(job.next_report()).await {
        if let JobReport::Done(_) = report {
            return;
        }
    }
}

#[test]
fn pub_08_data_goes_with_its_process_its_application_and_its_session() {
    on_both_runtimes(async || {
        let mut exchanges = MemoryExchange::cluster(["n0", "n1"]).into_iter();
        let keeper = StandardHost::new(NullLauncher, exchanges.next().unwrap());
        let keeper = TestNode::builder(1).host(keeper).start().await;
        let launcher = TestLauncher::new("n1");
        let host = StandardHost::new(launcher.clone(), exchanges.next().unwrap());
        let node = TestNode::builder(1).hostname("n1").host(host.clone()).start().await;
        let reader = keeper.client(0).await;

        let nspace = Nspace::new("work").unwrap();
        let apps = vec![App::new("first", 2), App::new("second", 1)];
        let start = JobStart::new(nspace.clone(), apps).on_failure(OnFailure::Continue);
        let job = host.start_job(start).await.unwrap();
        let procs = [0, 1, 2].map(|rank| ProcId::new(nspace.clone(), Rank::from_raw(rank)));
        for (rank, proc) in procs.iter().enumerate() {
            let client = node.connect(proc).await.unwrap();
            for (name, persistence) in [
                ("proc", Persistence::PROC),
                ("app", Persistence::APP),
                ("session", Persistence::SESSION),
                ("indef", Persistence::INDEF),
            ] {
                let publish = client.publish().data(format!("{name}-{rank}"), 1).persistence(persistence);
                within(publish).await.unwrap();
            }
            within(client.publish().data(format!("default-{rank}"), 1)).await.unwrap();
            within(client.finalize()).await.unwrap();
        }
        // a finalize is no end
        assert_eq!(find(&reader, "proc-0").await, Some(1));

        launcher.end(&procs[0], ProcExit::Code(0)).await;
        until_gone(&reader, "proc-0").await;
        for key in ["app-0", "default-0", "proc-1", "app-1"] {
            assert_eq!(find(&reader, key).await, Some(1), "{key}");
        }
        launcher.end(&procs[1], ProcExit::Code(0)).await;
        for key in ["proc-1", "app-0", "app-1", "default-0", "default-1"] {
            until_gone(&reader, key).await;
        }
        assert_eq!(find(&reader, "app-2").await, Some(1));
        launcher.end(&procs[2], ProcExit::Code(0)).await;
        done(job).await;
        for key in ["proc-2", "app-2", "default-2"] {
            until_gone(&reader, key).await;
        }
        assert_eq!(find(&reader, "session-2").await, Some(1));
        host.end_session(Some(7));
        host.end_session(None);
        for rank in 0..3 {
            until_gone(&reader, &format!("session-{rank}")).await;
            assert_eq!(find(&reader, &format!("indef-{rank}")).await, Some(1));
        }
    });
}

#[test]
fn pub_08_data_of_a_tool_goes_when_it_finalizes_or_is_lost() {
    on_both_runtimes(async || {
        let mut hosts = MemoryExchange::cluster(["n0", "n1"])
            .into_iter()
            .map(|exchange| StandardHost::new(NullLauncher, exchange));
        let keeper = TestNode::builder(1).host(hosts.next().unwrap()).start().await;
        let node = TestNode::builder(1).hostname("n1").host(hosts.next().unwrap());
        let node = node.server(|server| server.tool_support(true)).start().await;
        let reader = keeper.client(0).await;
        for finalizes in [true, false] {
            let [tool, other] = [0, 1].map(|_| Tool::builder().uri(node.handle().uri()));
            let tool = within(tool.connect()).await.unwrap();
            for (key, persistence) in
                [("proc", Persistence::PROC), ("app", Persistence::APP), ("session", Persistence::SESSION)]
            {
                let publish =
                    tool.client().publish().data(format!("{key}-{finalizes}"), 1).persistence(persistence);
                within(publish).await.unwrap();
            }
            let other = within(other.connect()).await.unwrap();
            let stays = format!("other-{finalizes}");
            within(other.client().publish().data(&*stays, 1).persistence(Persistence::PROC)).await.unwrap();
            match finalizes {
                true => within(tool.finalize()).await.unwrap(),
                false => drop(tool),
            }
            for key in ["proc", "app"] {
                until_gone(&reader, &format!("{key}-{finalizes}")).await;
            }
            for key in [&format!("session-{finalizes}"), &stays] {
                assert_eq!(find(&reader, key).await, Some(1), "{key}");
            }
            within(other.finalize()).await.unwrap();
            until_gone(&reader, &stays).await;
        }
    });
}

#[tokio::test]
async fn pub_08_jobs_that_others_have_started_end_by_lost_connections_and_deregistration() {
    let node = TestNode::with_standard_host(1).await;
    let reader = node.client(0).await;
    let nspace = Nspace::new("work").unwrap();
    let spec = JobSpec::new(nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
    node.add_job(spec, [0]).await;
    let client = node.connect(&ProcId::new(nspace.clone(), Rank::from_raw(0))).await.unwrap();
    within(client.publish().data("proc", 1).persistence(Persistence::PROC)).await.unwrap();
    within(client.publish().data("app", 1)).await.unwrap();
    drop(client);
    until_gone(&reader, "proc").await;
    assert_eq!(find(&reader, "app").await, Some(1));
    node.handle().deregister_nspace(&nspace).await.unwrap();
    until_gone(&reader, "app").await;
}
