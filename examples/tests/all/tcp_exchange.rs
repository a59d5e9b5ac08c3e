//! The exchange of the example `tcp_exchange`, over real connections: what the trait promises, and nodes that break it.
//!
//! What the processes of the example do together, and how they fare with strangers, is tested in `pmix-tests`.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::poll;
use pmix_conformance::Conformance;
use pmix_host::{Exchange, ExchangeError, Responder, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::async_trait;
use pmix_test_wait::{LIMIT, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::exchange::TcpExchange;
use crate::link::Wire;
use crate::meet::{Keys, meet};
use crate::message::LARGEST;

/// Answers with what it was asked, and by whom.
struct Echo;

#[async_trait]
impl Responder for Echo {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        [from.as_bytes(), b" asks ", &request].concat().into()
    }
}

fn names(nodes: &[&str]) -> Vec<String> {
    nodes.iter().map(|node| (*node).to_owned()).collect()
}

/// The connections of all nodes.
async fn met(nodes: &[String]) -> Vec<BTreeMap<String, Wire>> {
    let keys: Keys = nodes.iter().cloned().zip((1..).map(|number| [number; 32])).collect();
    let (mut listening, mut meetings) = (BTreeMap::new(), Vec::new());
    for node in nodes {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (node, keys, earlier) = (node.clone(), keys.clone(), listening.clone());
        listening.insert(node.clone(), address);
        meetings.push(async move { meet(&node, &keys, listener, &earlier).await });
    }
    within(try_join_all(meetings)).await.unwrap()
}

async fn cluster(nodes: &[String]) -> Vec<TcpExchange> {
    let wires = met(nodes).await.into_iter();
    nodes.iter().zip(wires).map(|(node, wires)| TcpExchange::new(node, wires)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standard_host_on_it_keeps_the_rules() {
    let hosts = |nodes: &[String]| {
        let meeting = || tokio::runtime::Handle::current().block_on(cluster(nodes));
        let exchanges = tokio::task::block_in_place(meeting).into_iter().zip(nodes);
        exchanges
            .map(|(exchange, node)| StandardHost::new(LocalLauncher::new(node.as_str()), exchange))
            .collect()
    };
    let report = Conformance::new(hosts).nodes(2).patience(LIMIT).run().await.unwrap();
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn everybody_gets_all_parts_in_the_order_of_the_nodes_and_answers_of_each_node() {
    let ends = cluster(&names(&["a", "b", "c"])).await;
    let nodes = names(&["c", "a", "b"]);
    let gathers = ends.iter().map(|end| end.all_gather("op", &nodes, Bytes::from(end.node().to_owned())));
    for parts in within(try_join_all(gathers)).await.unwrap() {
        assert_eq!(parts, ["c", "a", "b"]);
    }
    let mut early = pin!(ends[0].fetch("c", "early".into()));
    assert!(poll!(&mut early).is_pending());
    ends.iter().for_each(|end| end.serve(Arc::new(Echo)));
    for end in &ends {
        for node in &nodes {
            let answer = within(end.fetch(node, "what".into())).await.unwrap();
            assert_eq!(answer, format!("{} asks what", end.node()));
        }
    }
    assert_eq!(within(early).await.unwrap(), "a asks early", "it waits for the host");
}

/// Whether it decides or not.
#[tokio::test]
async fn who_drops_its_future_ends_the_operation_for_those_who_wait_and_those_who_come_late() {
    let ends = cluster(&names(&["a", "b", "c"])).await;
    let nodes = names(&["a", "b", "c"]);
    for [dropping, waiting, late] in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let operation = format!("given up by {dropping}");
        let gather = |end: usize| ends[end].all_gather(&operation, &nodes, Bytes::new());
        let mut waits = pin!(gather(waiting));
        assert!(poll!(&mut waits).is_pending());
        {
            let mut dropped = pin!(gather(dropping));
            assert!(poll!(&mut dropped).is_pending());
        }
        for gathered in [within(waits).await, within(gather(late)).await] {
            let given_up_by = &nodes[dropping];
            assert!(
                matches!(&gathered, Err(ExchangeError::Abandoned { node }) if node == given_up_by),
                "{operation}: {gathered:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_node_that_is_lost_is_named_to_those_who_wait_and_those_who_come_late() {
    for lost in [0, 1, 2] {
        let mut ends = cluster(&names(&["a", "b", "c"])).await;
        let nodes = names(&["a", "b", "c"]);
        let gone = ends.remove(lost);
        let mut waits = pin!(ends[0].all_gather("op", &nodes, Bytes::new()));
        assert!(poll!(&mut waits).is_pending());
        drop(gone);
        let name = format!("node {} is lost: ", nodes[lost]);
        for gathered in [within(waits).await, within(ends[1].all_gather("op", &nodes, Bytes::new())).await] {
            let error = gathered.unwrap_err();
            assert!(!matches!(error, ExchangeError::Abandoned { .. }), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
        let rest: Vec<_> = ends.iter().map(|end| end.node().to_owned()).collect();
        let gathers = ends.iter().map(|end| end.all_gather("others", &rest, Bytes::new()));
        assert_eq!(within(try_join_all(gathers)).await.unwrap(), [[""; 2]; 2], "the others go on");
    }
}

/// With what has shown its key but does not keep to the protocol.
#[tokio::test]
async fn a_node_that_sends_nonsense_is_lost_and_named() {
    let too_large = u32::try_from(LARGEST + 1).unwrap().to_be_bytes();
    let unreadable: &[u8] = b"\0\0\0\x05hello";
    let incomplete: &[u8] = b"\0\0\x01\0hello";
    for (bytes, why) in [
        (&too_large[..], "frame size too big"),
        (unreadable, "it sent a frame that cannot be read"),
        (incomplete, "bytes remaining on stream"),
        (b"", "it closed the connection"),
    ] {
        let nodes = names(&["n0", "n1"]);
        let [wires, mut other] = met(&nodes).await.try_into().unwrap();
        let end = TcpExchange::new("n0", wires);
        let gather = || end.all_gather("op", &nodes, Bytes::new());
        let mut waits = pin!(gather());
        assert!(poll!(&mut waits).is_pending());
        let mut stream = other.remove("n0").unwrap().into_inner();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let errors = [
            within(waits).await.unwrap_err(),
            within(gather()).await.unwrap_err(),
            within(end.fetch("n1", Bytes::new())).await.unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains("node n1 is lost: ") && error.contains(why), "{error}");
        }
    }
}

#[tokio::test]
async fn what_is_too_large_fails_alone_and_nodes_that_are_not_there_are_named() {
    let ends = cluster(&names(&["n0", "n1"])).await;
    ends.iter().for_each(|end| end.serve(Arc::new(Echo)));
    let large = Bytes::from(vec![0; LARGEST]);
    let error = within(ends[1].fetch("n0", large.clone())).await;
    let error = error.map(|answer| answer.len()).unwrap_err().to_string();
    assert!(error.contains("node n0") && error.contains("67108864 are the most"), "{error}");
    // the answer is larger than the question
    let error = within(ends[1].fetch("n0", large.slice(10..))).await;
    let error = error.map(|answer| answer.len()).unwrap_err().to_string();
    assert!(error.contains("node n0") && error.contains("67108864 are the most"), "{error}");
    assert_eq!(
        within(ends[1].fetch("n0", "more".into())).await.unwrap(),
        "n1 asks more",
        "the link is whole"
    );

    for error in [
        ends[0].fetch("x", Bytes::new()).await.unwrap_err(),
        ends[0].all_gather("op", &names(&["n0", "x"]), Bytes::new()).await.unwrap_err(),
        ends[0].all_gather("op", &names(&["a", "n0"]), Bytes::new()).await.unwrap_err(),
    ] {
        assert!(matches!(&error, ExchangeError::Unreachable { node } if ["x", "a"].contains(&&**node)));
    }
}

#[tokio::test]
async fn too_much_data_is_told_to_all_nodes() {
    let ends = cluster(&names(&["a", "b", "c"])).await;
    let nodes = names(&["a", "b", "c"]);
    for (megabytes, who) in
        [([33, 0, 0], "node a"), ([0, 0, 65], "node c"), ([20, 20, 0], "a, b, c"), ([30, 30, 30], "")]
    {
        let operation = format!("{megabytes:?}");
        let part = |megabytes: usize| Bytes::from(vec![0; megabytes << 20]);
        let gathers =
            ends.iter().zip(megabytes).map(|(end, size)| end.all_gather(&operation, &nodes, part(size)));
        for gathered in within(futures::future::join_all(gathers)).await {
            let error = gathered.map(|parts| parts.len()).unwrap_err();
            assert!(matches!(&error, ExchangeError::Other(reason) if reason.contains(who)), "{error}");
        }
    }
    let gathers = ends.iter().map(|end| end.all_gather("less", &nodes, Bytes::from(vec![0; 10 << 20])));
    assert_eq!(within(try_join_all(gathers)).await.unwrap().concat().len(), 9, "the links are whole");
}
