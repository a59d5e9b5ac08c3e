//! Put, commit and get on one node.

use std::time::Duration;

use pmix_client::types::job::JobSpec;
use pmix_client::types::message::{Commit, Hello, Identity, PutEntry, Request};
use pmix_client::types::{Info, KeyName, Pid, Status, Value};
use pmix_client::{Client, Error, Nspace, ProcId, Rank, Scope, keys};
use pmix_proto::ServerBody;
use pmix_tests::{RawSession, TestNode, on_both_runtimes, within};

/// Puts one value and commits.
async fn publish(client: &Client, scope: Scope, key: &str, value: impl Into<Value>) {
    client.put(scope, key, value).unwrap();
    within(client.commit()).await.unwrap();
}

/// A job of two ranks on n0 and two on n1, of which only those on n0 exist.
fn half_a_job() -> JobSpec {
    let spec = JobSpec::new(Nspace::new("job").unwrap());
    spec.node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap()
}

/// A get that is spawned, and known to wait at the server.
async fn waiting_get(
    node: &TestNode,
    client: &Client,
    proc: ProcId,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<Value, Error>> {
    let before = node.stats().await.waiting;
    let client = client.clone();
    let get = tokio::spawn(async move { client.get(proc, key).await });
    node.until_waiting(before + 1).await;
    get
}

#[test]
fn put_05_put_06_a_value_is_seen_by_others_once_it_is_committed() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        a.put(Scope::GLOBAL, "key", "value").unwrap();
        assert_eq!(a.get::<String>(None, "key").await.unwrap(), "value", "its own put");
        let hidden = within(b.get::<String>(a.proc_id(), "key").immediate()).await.unwrap_err();
        assert!(hidden.is_not_found(), "{hidden}");
        within(a.commit()).await.unwrap();
        let seen: String = within(b.get(a.proc_id(), "key").immediate()).await.unwrap();
        assert_eq!(seen, "value");
    });
}

#[tokio::test]
async fn put_04_get_08_a_later_put_replaces_the_earlier_one() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "key", 1).await;
    assert_eq!(within(b.get::<i32>(a.proc_id(), "key")).await.unwrap(), 1);
    publish(&a, Scope::GLOBAL, "key", 2).await;
    assert_eq!(b.get::<i32>(a.proc_id(), "key").await.unwrap(), 1, "what it holds is good enough");
    assert_eq!(within(b.get::<i32>(a.proc_id(), "key").refresh_cache()).await.unwrap(), 2);
    assert_eq!(b.get::<i32>(a.proc_id(), "key").optional().await.unwrap(), 2, "and is kept");
}

#[tokio::test]
async fn get_08_a_refresh_of_what_is_nowhere_finds_nothing() {
    let node = TestNode::builder(0).job(half_a_job(), [0, 1]).start().await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "other", 1).await;
    let get = b.get::<i32>(a.proc_id(), "key").refresh_cache().immediate();
    assert!(within(get).await.unwrap_err().is_not_found());
    let remote = a.proc_id().with_rank(Rank::from_raw(2));
    assert!(within(b.get::<i32>(remote, "key").refresh_cache()).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn put_07_a_commit_of_nothing_succeeds_without_the_server() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    within(client.commit()).await.unwrap();
    publish(&client, Scope::GLOBAL, "key", 1).await;
    within(client.commit()).await.unwrap();
    assert_eq!(node.stats().await.commits, 1);
}

#[tokio::test]
async fn put_02_put_03_the_server_refuses_what_no_client_would_commit() {
    let node = TestNode::start(1).await;
    let hello = Hello::new(Identity::Client(node.proc(0)), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    let wrong = [
        ("pmix.mine", Scope::GLOBAL, Status::ERR_BAD_PARAM),
        ("mine", Scope::INTERNAL, Status::ERR_NOT_SUPPORTED),
        ("mine", Scope::from_raw(77), Status::ERR_NOT_SUPPORTED),
    ];
    for (id, (key, scope, status)) in (1..).zip(wrong) {
        let good = PutEntry::new(Scope::GLOBAL, KeyName::new("good").unwrap(), 1);
        let bad = PutEntry::new(scope, KeyName::new(key).unwrap(), 1);
        for message in pmix_proto::encode_request(id, &Request::Commit(Commit::new(vec![good, bad]))) {
            session.outgoing.send(message).unwrap();
        }
        let Ok(Some((answered, ServerBody::Failure(failure)))) = session.next().await else {
            panic!("{key} in {scope} was taken");
        };
        assert_eq!((answered, failure.status), (id, status), "{failure}");
        assert!(failure.message.contains(key), "{failure}");
    }
    assert_eq!(node.stats().await.commits, 0, "nothing of those commits was filed");
}

#[tokio::test]
async fn put_01_values_with_qualifiers_are_found_with_them_alone() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    for group in [1u64, 2] {
        let of = Info::new(&keys::GROUP_CONTEXT_ID, group);
        a.put_qualified(Scope::GLOBAL, "id", group * 10, [of]).unwrap();
    }
    a.put(Scope::GLOBAL, "id", 5u64).unwrap();
    within(a.commit()).await.unwrap();
    let group = |id: u64| Info::new(&keys::GROUP_CONTEXT_ID, id);
    let of = |id: u64| b.get::<u64>(a.proc_id(), "id").qualifier(group(id));
    assert_eq!(within(of(1)).await.unwrap(), 10);
    assert_eq!(within(of(2)).await.unwrap(), 20);
    assert_eq!(within(b.get::<u64>(a.proc_id(), "id")).await.unwrap(), 5);
    let error = within(of(3).immediate()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
    let both = within(of(1).qualifier(group(2)).immediate()).await.unwrap_err();
    assert_eq!(both.status(), Status::ERR_NOT_FOUND, "{both}");
    let error = a.put_qualified(Scope::GLOBAL, "id", 1, []).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    let long = Info::dynamic("of".parse().unwrap(), "x".repeat(600));
    let error = a.put_qualified(Scope::GLOBAL, "id", 1, [long]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    for stored in ["?pmix.qual.val:x", "!pmix.cpuset"] {
        let error = a.put(Scope::GLOBAL, stored, 1).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    }
    let reserved =
        a.put_qualified(Scope::GLOBAL, &keys::JOB_SIZE, 1, [Info::new(&keys::GROUP_CONTEXT_ID, 1u64)]);
    assert_eq!(reserved.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn put_08_get_06_remote_data_is_not_for_the_own_node() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::REMOTE, "far", 1).await;
    publish(&a, Scope::LOCAL, "near", 2).await;
    let error = within(b.get::<i32>(a.proc_id(), "far")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_EXISTS_OUTSIDE_SCOPE, "{error}");
    assert_eq!(within(b.get::<i32>(a.proc_id(), "near")).await.unwrap(), 2);
    let all = within(b.get_all(a.proc_id())).await.unwrap();
    let keys: Vec<_> = all.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(keys, ["near"]);
}

#[tokio::test]
async fn put_08_internal_data_is_never_sent() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    a.put(Scope::INTERNAL, "own", 1).unwrap();
    publish(&a, Scope::GLOBAL, "open", 2).await;
    assert_eq!(a.get::<i32>(None, "own").await.unwrap(), 1);
    assert!(within(b.get::<i32>(a.proc_id(), "own").immediate()).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn put_09_put_10_store_internal_files_any_key_for_the_caller_alone() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    a.store_internal(b.proc_id(), "learned", 1).unwrap();
    a.store_internal(b.proc_id(), keys::LOCALITY_STRING, "NM0").unwrap();
    within(a.commit()).await.unwrap();
    assert_eq!(a.get::<i32>(b.proc_id(), "learned").await.unwrap(), 1);
    assert_eq!(a.get(b.proc_id(), keys::LOCALITY_STRING).await.unwrap(), "NM0");
    assert!(b.get::<i32>(None, "learned").immediate().await.unwrap_err().is_not_found());
    assert_eq!(node.stats().await.commits, 0);
}

#[tokio::test]
async fn put_11_values_of_every_kind_arrive_as_they_were() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    let values: Vec<Value> = vec![
        true.into(),
        u64::MAX.into(),
        i64::MIN.into(),
        f64::MIN_POSITIVE.into(),
        "text with \u{1F980} and \"quotes\"".into(),
        Value::ByteObject(bytes::Bytes::from_static(&[0, 255, 10])),
        a.proc_id().clone().into(),
        vec![Info::new(&keys::JOB_SIZE, 3u32), Info::new(&keys::HOSTNAME, "n0")].into(),
        Status::from_raw(-12345).into(),
    ];
    for (number, value) in values.iter().enumerate() {
        a.put(Scope::GLOBAL, format!("value-{number}"), value.clone()).unwrap();
    }
    within(a.commit()).await.unwrap();
    for (number, value) in values.iter().enumerate() {
        let got: Value = within(b.get(a.proc_id(), format!("value-{number}"))).await.unwrap();
        assert_eq!(got, *value);
    }
}

#[tokio::test]
async fn get_03_optional_never_asks_the_server() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "key", 1).await;
    assert!(b.get::<i32>(a.proc_id(), "key").optional().await.unwrap_err().is_not_found());
    assert_eq!(node.stats().await.gets, 0);
}

#[tokio::test]
async fn get_04_immediate_does_not_wait() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    assert!(within(b.get::<i32>(a.proc_id(), "key").immediate()).await.unwrap_err().is_not_found());
    assert_eq!(node.stats().await.waiting, 0);
}

#[tokio::test]
async fn get_05_a_scope_limits_the_search() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::LOCAL, "key", 1).await;
    let get = || b.get::<i32>(a.proc_id(), "key").immediate();
    assert!(within(get().scope(Scope::GLOBAL)).await.is_err());
    assert_eq!(within(get().scope(Scope::LOCAL)).await.unwrap(), 1);
}

#[test]
fn get_07_gen_12_a_timeout_ends_the_wait_and_names_the_target() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let get = b.get::<i32>(a.proc_id(), "key").timeout(Duration::from_secs(1));
        let error = within(get).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert_eq!(error.procs(), [a.proc_id().clone()]);
        assert!(error.to_string().contains("key"), "{error}");
        assert_eq!(node.stats().await.waiting, 0);
    });
}

#[test]
fn get_22_a_get_waits_until_a_local_process_has_committed_the_key() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let get = waiting_get(&node, &b, node.proc(0), "key").await;
        publish(&a, Scope::GLOBAL, "other", 1).await;
        node.until_waiting(1).await;
        assert!(!get.is_finished(), "another key is not the one");
        publish(&a, Scope::GLOBAL, "key", 2).await;
        assert_eq!(within(get).await.unwrap().unwrap(), Value::from(2));
    });
}

#[tokio::test]
async fn get_22_a_get_waits_for_a_process_that_has_not_even_connected() {
    let node = TestNode::start(2).await;
    let b = node.client(1).await;
    let get = waiting_get(&node, &b, node.proc(0), "key").await;
    publish(&node.client(0).await, Scope::GLOBAL, "key", 2).await;
    assert_eq!(within(get).await.unwrap().unwrap(), Value::from(2));
}

#[tokio::test]
async fn get_21a_with_an_unknown_poster_the_get_waits_for_whoever_it_is() {
    let node = TestNode::start(3).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    let anybody = node.proc(0).with_rank(Rank::UNDEF);
    let get = waiting_get(&node, &b, anybody.clone(), "service").await;
    publish(&a, Scope::GLOBAL, "service", "here").await;
    assert_eq!(within(get).await.unwrap().unwrap(), Value::from("here"));
    let late = node.client(2).await;
    assert_eq!(within(late.get::<String>(anybody, "service")).await.unwrap(), "here");
}

#[tokio::test]
async fn get_24_without_direct_modex_remote_data_is_not_found_at_once() {
    let node = TestNode::builder(0).job(half_a_job(), [0, 1]).start().await;
    let client = node.client(0).await;
    let error = within(client.get::<i32>(node.proc(2), "key")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("another node"), "{error}");
}

#[tokio::test]
async fn a_rank_that_the_job_does_not_have_is_not_waited_for() {
    let node = TestNode::with_standard_host(2).await;
    let client = node.client(0).await;
    let error = within(client.get::<i32>(node.proc(2), "key")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("no such rank"), "{error}");
}

#[test]
fn get_26_a_get_fails_when_its_target_dies() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let get = waiting_get(&node, &b, node.proc(0), "key").await;
        drop(a);
        let error = within(get).await.unwrap().unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert_eq!(error.procs(), [node.proc(0)]);
    });
}

#[tokio::test]
async fn get_26_a_get_is_forgotten_when_its_asker_leaves() {
    let node = TestNode::start(2).await;
    let b = node.client(1).await;
    let get = waiting_get(&node, &b, node.proc(0), "key").await;
    get.abort();
    drop(b);
    let _ = get.await;
    node.until_waiting(0).await;
}

#[tokio::test]
async fn get_20_what_came_along_with_an_earlier_get_is_answered_here() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    a.put(Scope::GLOBAL, "one", 1).unwrap();
    a.put(Scope::LOCAL, "two", 2).unwrap();
    within(a.commit()).await.unwrap();
    assert_eq!(within(b.get::<i32>(a.proc_id(), "one")).await.unwrap(), 1);
    assert_eq!(b.get::<i32>(a.proc_id(), "two").await.unwrap(), 2);
    assert_eq!(node.stats().await.gets, 1);
}

#[tokio::test]
async fn get_all_gives_every_key_that_a_process_has_put() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    a.put(Scope::GLOBAL, "one", 1).unwrap();
    a.put(Scope::LOCAL, "two", 2).unwrap();
    within(a.commit()).await.unwrap();
    let mut all = within(b.get_all(a.proc_id())).await.unwrap();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    let expected = [("one", Value::from(1)), ("two", Value::from(2))];
    let all: Vec<_> = all.iter().map(|info| (info.key.as_str(), info.value.clone())).collect();
    assert_eq!(all, expected);
}

#[tokio::test]
async fn gen_05_a_required_directive_that_nobody_knows_is_not_supported() {
    use pmix_client::types::Directives;
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "key", 1).await;
    let unknown = Directives::new().require(&keys::QUERY_REFRESH_CACHE, true);
    let error = within(b.get::<i32>(a.proc_id(), "key").directives(unknown)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
}

#[tokio::test]
async fn gen_04_an_optional_directive_that_nobody_knows_is_ignored() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "key", 1).await;
    let get = b.get::<i32>(a.proc_id(), "key").directive(keys::QUERY_REFRESH_CACHE, true);
    assert_eq!(within(get).await.unwrap(), 1);
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_that_names_the_key() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    publish(&a, Scope::GLOBAL, "key", "seven").await;
    let error = within(b.get::<u32>(a.proc_id(), "key")).await.unwrap_err();
    assert!(matches!(error, Error::Value(_)), "{error:?}");
    assert!(error.to_string().contains("key"), "{error}");
}
