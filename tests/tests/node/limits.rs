//! Large values, and what is larger than allowed.

use bytes::Bytes;
use pmix_client::types::{Status, Value};
use pmix_client::{Client, Scope};
use pmix_server::Limits;
use pmix_tests::{TestCluster, TestNode, on_both_runtimes, uri_of, within};

const MIB: usize = 1 << 20;

/// Bytes that tell their place.
fn blob(len: usize) -> Value {
    Value::ByteObject((0..len).map(|at| (at / 251 + at) as u8).collect::<Vec<_>>().into())
}

async fn publish(client: &Client, key: &str, value: Value) {
    client.put(Scope::GLOBAL, key, value).unwrap();
    within(client.commit()).await.unwrap();
}

async fn fence(clients: &[Client]) -> Vec<Result<(), pmix_client::Error>> {
    let fences: Vec<_> = clients
        .iter()
        .cloned()
        .map(|client| tokio::spawn(async move { client.fence_all().collect_data().await }))
        .collect();
    let mut outcomes = Vec::new();
    for fence in fences {
        outcomes.push(fence.await.unwrap());
    }
    outcomes
}

#[test]
fn a_value_above_a_message_of_4_mib_travels_by_get_and_by_fence() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        publish(&clients[0], "big", blob(9 * MIB + 1)).await;
        for reader in [&clients[1], &clients[2]] {
            let got: Value = within(reader.get(clients[0].proc_id(), "big")).await.unwrap();
            assert!(got == blob(9 * MIB + 1));
        }
        fence(&clients).await.into_iter().collect::<Result<(), _>>().unwrap();
        let collected: Value = clients[3].get(clients[0].proc_id(), "big").optional().await.unwrap();
        assert!(collected == blob(9 * MIB + 1));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modex_of_more_than_64_mib_arrives_whole() {
    let node = TestNode::start(2).await;
    let clients = node.clients().await;
    for client in &clients {
        publish(client, "big", blob(40 * MIB)).await;
    }
    for outcome in fence(&clients).await {
        outcome.unwrap();
    }
    let got: Value = clients[0].get(clients[1].proc_id(), "big").optional().await.unwrap();
    assert!(got == blob(40 * MIB));
}

#[test]
fn a_commit_above_the_limit_is_refused_and_the_connection_goes_on() {
    on_both_runtimes(async || {
        let mut limits = Limits::default();
        limits.body_bytes = 8 * MIB;
        let node = TestNode::builder(2).server(|server| server.limits(limits)).start().await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        a.put(Scope::GLOBAL, "big", blob(9 * MIB)).unwrap();
        let error = within(a.commit()).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
        assert!(error.to_string().contains(&(8 * MIB).to_string()), "it names the limit: {error}");
        // replaced by something smaller it goes through
        publish(&a, "big", blob(7 * MIB)).await;
        let got: Value = within(b.get(a.proc_id(), "big")).await.unwrap();
        assert!(got == blob(7 * MIB));
    });
}

#[tokio::test]
async fn a_modex_above_the_limit_of_the_client_fails_its_fence_and_hangs_nobody() {
    let node = TestNode::start(2).await;
    let mut limits = Limits::default();
    limits.body_bytes = 3 * MIB;
    let narrow = Client::builder().uri(uri_of(node.handle())).proc(node.proc(0)).limits(limits);
    let clients = [within(narrow.init()).await.unwrap(), node.client(1).await];
    for client in &clients {
        publish(client, "big", Value::ByteObject(Bytes::from(vec![7; 2 * MIB]))).await;
    }
    let outcomes = within(fence(&clients)).await;
    let refused = outcomes[0].as_ref().unwrap_err();
    assert!(refused.to_string().contains(&(3 * MIB).to_string()), "{refused}");
    assert!(outcomes[1].is_ok());
    // the connection goes on
    publish(&clients[0], "small", 1.into()).await;
}

#[tokio::test]
async fn gen_02c_the_id_of_a_group_has_no_more_bytes_than_a_namespace() {
    let node = TestNode::with_standard_host(1).await;
    let client = node.client(0).await;
    let error = within(client.group_construct("g".repeat(256), [node.proc(0)])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let group = within(client.group_construct("g".repeat(255), [node.proc(0)])).await.unwrap();
    within(group.destruct()).await.unwrap();
}
