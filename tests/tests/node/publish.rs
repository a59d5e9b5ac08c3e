//! Published data, from client to store: what processes of one node and of several find of each other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pmix_client::types::{DataRange, Persistence, Status};
use pmix_client::{Client, Error, Published, Scope};
use pmix_tests::{Running, TestNode, on_both_runtimes, rank_program, within};
use tokio::task::JoinHandle;

use crate::find;

/// A lookup in a task of its own that waits for all of its keys.
fn wait_for(client: &Client, keys: &[&str]) -> JoinHandle<Result<Published, Error>> {
    let client = client.clone();
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    tokio::spawn(async move { client.lookup(keys).wait_all().await })
}

#[test]
fn pub_01_pub_03_pub_11_what_is_published_can_be_looked_up_when_the_call_is_back() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let clients = node.clients().await;
        for round in 0..20u32 {
            let key = format!("k{round}");
            within(clients[0].publish().data(&key, round)).await.unwrap();
            let found = within(clients[1].lookup([&key])).await.unwrap();
            assert_eq!(found.get(&key).unwrap(), Some(round));
            assert_eq!(found.publisher(&key), Some(&node.proc(0)));
            assert_eq!(found.status(), Status::SUCCESS);
        }
    });
}

#[tokio::test]
async fn pub_04_pub_05_a_key_is_taken_in_its_range_only_and_then_nothing_is_published() {
    let node = TestNode::with_standard_host(2).await;
    let clients = node.clients().await;
    within(clients[0].publish().data("k", 1)).await.unwrap();
    let error = within(clients[1].publish().data("l", 2).data("k", 2)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_DUPLICATE_KEY);
    assert!(error.to_string().contains("k is published already"), "{error}");
    assert_eq!(find(&clients[0], "l").await, None);
    within(clients[1].publish().data("k", 3).range(DataRange::GLOBAL)).await.unwrap();
    let twice = clients[0].publish().data("m", 1).data("m", 2);
    assert_eq!(within(twice).await.unwrap_err().status(), Status::ERR_DUPLICATE_KEY);
    assert_eq!(find(&clients[0], "m").await, None);
}

#[tokio::test]
async fn pub_12_some_keys_are_a_success_and_none_is_not_found() {
    let node = TestNode::with_standard_host(2).await;
    let clients = node.clients().await;
    within(clients[0].publish().data("k", 1)).await.unwrap();
    let found = within(clients[1].lookup(["a", "k", "b"])).await.unwrap();
    assert_eq!(found.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(found.missing().iter().map(|key| &**key).collect::<Vec<_>>(), ["a", "b"]);
    let error = within(clients[1].lookup(["a", "b"])).await.unwrap_err();
    assert!(error.is_not_found());
    assert!(error.to_string().contains("a, b"), "{error}");
}

#[test]
fn pub_13_gen_12_a_lookup_waits_only_if_told_to_and_no_longer_than_told() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let clients = node.clients().await;
        assert_eq!(find(&clients[0], "x").await, None);
        let all = wait_for(&clients[0], &["x", "y"]);
        let one = {
            let client = clients[0].clone();
            tokio::spawn(async move { client.lookup(["x", "y"]).wait(1).await })
        };
        node.until_waiting(2).await;
        within(clients[1].publish().data("y", 2)).await.unwrap();
        assert_eq!(within(one).await.unwrap().unwrap().get("y").unwrap(), Some(2));
        node.until_waiting(1).await;
        within(clients[1].publish().data("x", 1)).await.unwrap();
        assert_eq!(within(all).await.unwrap().unwrap().get("x").unwrap(), Some(1));
        let impatient = within(clients[0].lookup(["z"]).wait_all().timeout(Duration::from_secs(1))).await;
        assert!(impatient.unwrap_err().is_timeout());
        node.until_waiting(0).await;
    });
}

#[tokio::test]
async fn pub_15_pub_16_unpublish_takes_back_own_data_in_its_range_and_frees_the_key() {
    let node = TestNode::with_standard_host(2).await;
    let clients = node.clients().await;
    within(clients[0].publish().data("k", 1).data("l", 1)).await.unwrap();
    within(clients[0].publish().data("g", 1).range(DataRange::GLOBAL)).await.unwrap();
    within(clients[1].unpublish(["k"])).await.unwrap();
    within(clients[0].unpublish(["k"]).range(DataRange::GLOBAL)).await.unwrap();
    assert_eq!(find(&clients[1], "k").await, Some(1), "not that process's, not that range");
    within(clients[0].unpublish(["k", "unknown"])).await.unwrap();
    within(clients[1].publish().data("k", 2)).await.unwrap();
    assert_eq!(find(&clients[0], "k").await, Some(2));
    within(clients[0].unpublish_all()).await.unwrap();
    assert_eq!(find(&clients[0], "l").await, None);
    assert_eq!(find(&clients[0], "g").await, Some(1), "all means all of one range");
    assert_eq!(find(&clients[0], "k").await, Some(2));
}

#[tokio::test]
async fn pub_17_without_a_host_that_keeps_data_none_of_the_three_is_supported() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let refused = [
        within(client.publish().data("k", 1)).await.unwrap_err(),
        within(client.lookup(["k"])).await.unwrap_err(),
        within(client.unpublish_all()).await.unwrap_err(),
    ];
    for error in refused {
        assert!(error.is_not_supported(), "{error}");
    }
}

#[tokio::test]
async fn pub_18_published_and_put_data_do_not_see_each_other() {
    let node = TestNode::with_standard_host(2).await;
    let clients = node.clients().await;
    within(clients[0].publish().data("k", 1).range(DataRange::GLOBAL)).await.unwrap();
    clients[0].put(Scope::GLOBAL, "p", 2).unwrap();
    within(clients[0].commit()).await.unwrap();
    let get = clients[1].get::<u32>(node.proc(0), "k").immediate();
    assert!(within(get).await.unwrap_err().is_not_found());
    assert!(within(clients[0].get::<u32>(None, "k").immediate()).await.unwrap_err().is_not_found());
    assert_eq!(find(&clients[1], "p").await, None);
    assert_eq!(within(clients[1].get::<u32>(node.proc(0), "p")).await.unwrap(), 2);
}

#[tokio::test]
async fn pub_08_what_is_to_be_read_once_is_gone_then_and_the_rest_is_not() {
    let node = TestNode::with_standard_host(2).await;
    let clients = node.clients().await;
    within(clients[0].publish().data("once", 1).persistence(Persistence::FIRST_READ)).await.unwrap();
    within(clients[0].publish().data("often", 1).persistence(Persistence::INDEF)).await.unwrap();
    for (once, often) in [(Some(1), Some(1)), (None, Some(1))] {
        assert_eq!(find(&clients[1], "once").await, once);
        assert_eq!(find(&clients[1], "often").await, often);
    }
}

/// `pmixrun` with a file for published data, and a rank that does something.
fn pmixrun(dir: &Path, args: &[&str]) -> Command {
    let mut command = pmix_tests::plain_pmixrun();
    command.env("PMIXRUN_RECORD", "none");
    command.arg("--store").arg(dir.join("published")).arg(rank_program()).args(args);
    command.env("PMIX_SERVER_TMPDIR", dir);
    command
}

#[tokio::test]
async fn pub_03_pub_08_what_is_published_for_good_outlives_a_killed_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Running::start(pmixrun(dir.path(), &["publish", "service", "10.0.0.1:7000"]));
    let line = first.line_with("connected to").await;
    let publisher = line.split(' ').next().unwrap().to_owned();
    first.line_with("published").await;
    first.kill();
    first.end().await;
    for _ in 0..2 {
        let (status, out, err) = Running::start(pmixrun(dir.path(), &["look-up", "service"])).end().await;
        assert!(status.success(), "{out}{err}");
        assert!(out.contains(&format!("found 10.0.0.1:7000 of {publisher}")), "{out}");
    }
    // the key is still taken
    let (_, out, err) = Running::start(pmixrun(dir.path(), &["publish", "service", "other"])).end().await;
    assert!(err.contains("ERR_DUPLICATE_KEY"), "{out}{err}");
}

#[tokio::test]
async fn a_store_that_cannot_be_used_stops_pmixrun_with_clear_words() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("published"), "notes of somebody").unwrap();
    let (status, _, err) = Running::start(pmixrun(dir.path(), &["look-up", "service"])).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("--store") && err.contains("is not a store of published data"), "{err}");
    assert_eq!(std::fs::read_to_string(dir.path().join("published")).unwrap(), "notes of somebody");
}
