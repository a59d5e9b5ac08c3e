//! A head and its nodes, connected by links alone.

use std::time::Duration;

use pmix_test_wait::{PausedClock, until};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;

use super::*;

/// A head `h` with two nodes, and the losses that the head has heard of.
fn connected() -> (Vec<Net>, mpsc::UnboundedReceiver<Loss>) {
    let names = ["h", "a", "b"].map(str::to_owned).to_vec();
    let (ends, mut losses): (Vec<_>, Vec<_>) = (0..3).map(|me| Net::new(me, names.clone())).unzip();
    for end in &ends {
        end.gather(32, Arc::new(end.clone()));
    }
    for place in 1..3 {
        for (from, to) in [(0, place), (place, 0)] {
            let (link, mut frames) = Link::new(Duration::from_secs(20));
            assert!(ends[from].connect(to, link));
            let hearer = ends[to].clone();
            tokio::spawn(async move {
                while let Some(frame) = frames.next().await {
                    hearer.take(from, frame.content.unwrap()).await;
                }
            });
        }
    }
    (ends, losses.swap_remove(0))
}

/// Lets all that can happen on a paused clock happen, up to what waits for time.
async fn settle() {
    let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
}

/// Answers with its name and who has asked, once there is a permit.
struct Named(String, Arc<Semaphore>);

#[async_trait]
impl Responder for Named {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        self.1.acquire().await.unwrap().forget();
        format!("{} to {from}: {}", self.0, String::from_utf8_lossy(&request)).into()
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn each_node_reaches_each_other_through_the_head() {
    let (ends, _losses) = connected();
    let permits = Arc::new(Semaphore::new(100));
    for end in &ends {
        end.serve(Arc::new(Named(end.node().to_owned(), permits.clone())));
    }
    for from in &ends {
        for to in &ends {
            let answer = from.fetch(to.node(), "x".into()).await.unwrap();
            assert_eq!(answer, format!("{} to {}: x", to.node(), from.node()));
        }
        assert!(from.fetch("nowhere", Bytes::new()).await.unwrap_err().to_string().contains("nowhere"));
    }
}

#[tokio::test(start_paused = true)]
async fn all_nodes_get_what_all_give_and_one_that_gives_up_ends_it_for_all() {
    let (ends, _losses) = connected();
    let all = names(&["b", "h", "a"]);
    let gather = |end: usize, operation| {
        let own = Bytes::from(ends[end].node().to_owned());
        ends[end].all_gather(operation, &all, own)
    };
    let (h, a, b) = tokio::join!(gather(0, "op 1"), gather(1, "op 1"), gather(2, "op 1"));
    for parts in [h, a, b] {
        assert_eq!(parts.unwrap(), ["b", "h", "a"]);
    }
    let given_up = tokio::time::timeout(Duration::from_millis(1), gather(1, "op 2"));
    let (given_up, h) = tokio::join!(given_up, gather(0, "op 2"));
    assert!(given_up.is_err());
    // and for one that comes late
    for result in [h, gather(2, "op 2").await] {
        assert!(matches!(&result, Err(ExchangeError::Abandoned { node }) if node == "a"), "{result:?}");
    }
    let some = names(&["a", "b"]);
    let (a, b) = tokio::join!(
        ends[1].all_gather("op 3", &some, "1".into()),
        ends[2].all_gather("op 3", &some, "2".into())
    );
    assert_eq!((a.unwrap(), b.unwrap()), (vec!["1".into(), "2".into()], vec!["1".into(), "2".into()]));
}

#[tokio::test]
async fn what_waits_for_a_node_that_is_lost_fails_and_names_it() {
    let (ends, mut losses) = connected();
    ends[1].serve(Arc::new(Named("a".into(), Arc::new(Semaphore::new(0)))));
    let all = names(&["h", "a", "b"]);
    let lose = async {
        until("both requests wait at the head", || ends[0].0.asked.ids().len() == 2).await;
        ends[0].lose(1, "it was cut off");
    };
    let (own, other, h, b, ()) = tokio::join!(
        ends[0].fetch("a", Bytes::new()),
        ends[2].fetch("a", Bytes::new()),
        ends[0].all_gather("op", &all, Bytes::new()),
        ends[2].all_gather("op", &all, Bytes::new()),
        lose
    );
    for failed in [own.map(|_| ()), other.map(|_| ()), h.map(|_| ()), b.map(|_| ())] {
        assert!(matches!(failed, Err(ExchangeError::Unreachable { node }) if node == "a"));
    }
    assert_eq!(losses.recv().await, Some(Loss { node: "a".into(), reason: "it was cut off".into() }));
    // what comes later fails at once, and the others go on
    assert!(ends[2].all_gather("later", &all, Bytes::new()).await.is_err());
    let rest = names(&["h", "b"]);
    let (h, b) = tokio::join!(
        ends[0].all_gather("rest", &rest, Bytes::new()),
        ends[2].all_gather("rest", &rest, Bytes::new())
    );
    assert!(h.is_ok() && b.is_ok());
}

#[tokio::test]
async fn a_node_speaks_for_no_other() {
    let (ends, _losses) = connected();
    let permits = Arc::new(Semaphore::new(0));
    ends[2].serve(Arc::new(Named("b".into(), permits.clone())));
    let all = names(&["h", "a", "b"]);
    let ask = |step: nodes::step::Content| {
        let step = prost::Message::encode_to_vec(&nodes::Step { content: Some(step) });
        let what = Some(What::Step(step.into()));
        Content::Ask(nodes::Ask { id: 0, from: "h".into(), to: "h".into(), what })
    };
    let part = |data: &[u32], by: Option<u32>| {
        let data = data.iter().map(|node| nodes::NodeData { node: *node, data: "forged".into() });
        let (operation, nodes) = ("op".into(), vec![0, 1, 2]);
        let given_up = by.map(|node| nodes::GivenUp { node, why: 0 });
        ask(nodes::step::Content::Part(nodes::Part {
            operation,
            nodes,
            data: data.collect(),
            given_up,
            more: false,
            traceparent: String::new(),
        }))
    };
    for forged in [part(&[2], None), part(&[], Some(2)), part(&[9], None)] {
        ends[0].take(1, forged).await;
    }
    // nor answers in its place
    let asked = tokio::spawn({
        let head = ends[0].clone();
        async move { head.fetch("b", "x".into()).await }
    });
    until("the request waits at the head", || !ends[0].0.asked.ids().is_empty()).await;
    let id = ends[0].0.asked.ids()[0];
    let result = Some(nodes::answer::Result::Reply("forged".into()));
    ends[0].take(1, Content::Answer(nodes::Answer { id, result })).await;
    permits.add_permits(1);
    assert_eq!(asked.await.unwrap().unwrap(), "b to h: x");
    // nor for the head
    let result = Some(nodes::outcome::Result::GivenUp(nodes::GivenUp { node: 0, why: 0 }));
    let outcome = nodes::Outcome { operation: "op".into(), nodes: vec![0, 1, 2], result };
    ends[0].take(1, ask(nodes::step::Content::Outcome(outcome))).await;
    let gather = |end: usize| ends[end].all_gather("op", &all, Bytes::from(ends[end].node().to_owned()));
    let (h, a, b) = tokio::join!(gather(0), gather(1), gather(2));
    for parts in [h, a, b] {
        assert_eq!(parts.unwrap(), ["h", "a", "b"]);
    }
}

#[tokio::test]
async fn requests_of_a_node_that_are_not_answered_are_bounded() {
    let (ends, _losses) = connected();
    let permits = Arc::new(Semaphore::new(0));
    ends[0].serve(Arc::new(Named("h".into(), permits.clone())));
    let what = || Some(What::Request(Bytes::new()));
    let ask = |id| Content::Ask(nodes::Ask { id, from: "a".into(), to: "h".into(), what: what() });
    for id in 0..MAX_ASKED as u64 {
        ends[0].take(1, ask(id)).await;
    }
    let error = ends[1].fetch("h", Bytes::new()).await.unwrap_err();
    let why = "exchange: node h has 16384 requests of node a that are not answered";
    assert_eq!(error.to_string(), why);
    permits.add_permits(MAX_ASKED + 1);
    until("all are answered", || {
        lock(&ends[0].0.answering).get(&1).copied().filter(|under_way| *under_way > 0).map_or(Ok(()), Err)
    })
    .await;
    ends[1].fetch("h", Bytes::new()).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_too_large_says_so() {
    let (ends, _losses) = connected();
    let error = ends[1].fetch("b", vec![0; MAX_GIVEN + 1].into()).await.unwrap_err().to_string();
    assert!(error.contains("201326593 bytes from node a to node b is too large"), "{error}");
}

/// A node `b` that never reads, beside one that does.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_read_keeps_nobody_else_waiting() {
    let all = ["h", "a", "b"].map(str::to_owned).to_vec();
    let (head, _losses) = Net::new(0, all.clone());
    let [(a, mut read), (b, _unread)] = [(); 2].map(|()| Link::new(Duration::from_secs(20)));
    // no room is left
    for bytes in [1 << 20, 1 << 10, 0] {
        while tokio::time::timeout(Duration::from_millis(1), b.send(leave(bytes))).await.is_ok() {}
    }
    assert!(head.connect(2, b) && head.connect(1, a));
    head.gather(32, Arc::new(head.clone()));
    let gather = head.all_gather("op", &all, "h".into());
    let part = |place: u32, name: &str| {
        let data = vec![nodes::NodeData { node: place, data: name.to_owned().into() }];
        let part = nodes::Part {
            operation: "op".into(),
            nodes: vec![0, 1, 2],
            data,
            given_up: None,
            more: false,
            traceparent: String::new(),
        };
        let step = nodes::Step { content: Some(nodes::step::Content::Part(part)) };
        let what = Some(What::Step(prost::Message::encode_to_vec(&step).into()));
        Content::Ask(nodes::Ask { id: 7, from: name.into(), to: "h".into(), what })
    };
    let parts = async {
        head.take(2, part(2, "b")).await;
        head.take(1, part(1, "a")).await;
    };
    let clock = PausedClock::start();
    let heard = async {
        let frame = read.next().await.unwrap();
        assert!(matches!(frame.content, Some(Content::Answer(nodes::Answer { id: 7, .. }))), "{frame:?}");
    };
    tokio::select! {
        ((), gathered) = async { tokio::join!(heard, gather) } => assert_eq!(gathered.unwrap(), ["h", "a", "b"]),
        () = async { parts.await; std::future::pending().await } => {}
    }
    // nor does the head wait to tell it of others
    let place = head.add("c");
    let added = Content::Added(nodes::Added { node: "c".into(), place: 3 });
    assert_eq!((place, read.next().await.unwrap().content), (3, Some(added)));
    assert_eq!(clock.passed(), Duration::ZERO);
    head.send_all(leave(0).content.unwrap()).await;
    assert!(clock.passed() < Duration::from_secs(21), "{:?}", clock.passed());
    assert!(matches!(read.next().await.unwrap().content, Some(Content::Leave(_))));
}

#[tokio::test]
async fn the_daemon_of_a_node_that_is_awaited_no_more_leaves_and_is_no_loss() {
    let (ends, mut losses) = connected();
    let place = ends[0].add("c");
    let (link, mut frames) = Link::new(Duration::from_secs(20));
    assert!(ends[0].connect(place, link.clone()));
    ends[0].dismiss(place);
    assert!(!ends[0].is_connected(place) && !ends[0].connect(place, link.clone()));
    let told = frames.next().await.unwrap().content;
    assert!(
        matches!(&told, Some(Content::Leave(leave)) if leave.reason == "its head no longer waits for it"),
        "{told:?}"
    );
    drop(link);
    assert_eq!(frames.next().await, None, "its connection ends");
    ends[0].lose(place, "its connection has ended");
    assert!(losses.try_recv().is_err());
    // nor is it asked, or missed when the session ends
    assert!(!ends[0].present().contains(&"c".to_owned()));
    // one that has not come cannot come any more
    let place = ends[0].add("c");
    ends[0].dismiss(place);
    assert!(!ends[0].connect(place, Link::new(Duration::from_secs(20)).0));
}

#[tokio::test]
async fn a_node_that_has_come_back_is_not_absent_and_its_predecessor_is_not_named() {
    let (head, _losses) = Net::new(0, names(&["h", "a", "b"]));
    let connect = |place| {
        let (link, frames) = Link::new(Duration::from_secs(20));
        assert!(head.connect(place, link));
        frames
    };
    let _frames = [connect(1), connect(2)];
    head.lose(1, "its connection has ended");
    assert_eq!((head.absent(), head.present()), (names(&["a"]), names(&["h", "b"])));
    let back = head.add("a");
    let _frames = connect(back);
    assert_eq!((head.absent(), head.present()), (names(&[]), names(&["h", "b", "a"])));
    assert_eq!(head.nodes(), names(&["h", "a", "b", "a"]));
}

#[tokio::test]
async fn a_node_is_welcomed_with_all_names_and_told_of_those_that_are_added_later() {
    let (head, _losses) = Net::new(0, names(&["h", "a"]));
    head.add("b");
    let (link, mut frames) = Link::new(Duration::from_secs(20));
    let welcome = |nodes| Some(Content::Welcome(nodes::Welcome { nodes, ..nodes::Welcome::default() }));
    assert!(head.connect_with(1, link, welcome));
    head.add("c");
    let nodes = names(&["h", "a", "b"]);
    let told = frames.next().await.unwrap().content;
    assert_eq!(told, Some(Content::Welcome(nodes::Welcome { nodes, ..nodes::Welcome::default() })));
    let told = frames.next().await.unwrap().content;
    assert_eq!(told, Some(Content::Added(nodes::Added { node: "c".into(), place: 3 })));
}

fn leave(bytes: usize) -> Frame {
    Frame { content: Some(Content::Leave(nodes::Leave { reason: "x".repeat(bytes), lost: Vec::new() })) }
}

#[tokio::test(start_paused = true)]
async fn what_the_head_is_asked_waits_for_its_successor_and_what_it_has_not_answered_is_told() {
    let (daemon, mut losses) = Net::new(1, names(&["h", "a", "b"]));
    daemon.await_successors();
    daemon.gather(32, Arc::new(daemon.clone()));
    let connect = || {
        let (link, frames) = Link::new(Duration::from_secs(20));
        (link, frames)
    };
    let (link, mut frames) = connect();
    assert!(daemon.connect(0, link));
    let ask = |to: &'static str| {
        let daemon = daemon.clone();
        tokio::spawn(async move { daemon.fetch(to, "x".into()).await })
    };
    let replaced = |answered: Result<Bytes, ExchangeError>| matches!(answered, Err(ExchangeError::Replaced { node }) if node == "h");
    // also what others are asked goes through the head
    for to in ["h", "b"] {
        let asked = ask(to);
        assert!(matches!(frames.next().await.unwrap().content, Some(Content::Ask(_))));
        drop(std::mem::replace(&mut frames, {
            daemon.lose(0, "it is killed");
            assert!(replaced(asked.await.unwrap()));
            assert_eq!(losses.recv().await.unwrap().node, "h");
            let waiting = ask(to);
            let (link, mut next) = connect();
            daemon.reconnect(link, &names(&["h", "a", "b", "c"]));
            settle().await;
            assert!(!waiting.is_finished(), "the successor is not ready");
            daemon.succession().unwrap().resume();
            let Some(Content::Ask(ask)) = next.next().await.unwrap().content else { panic!() };
            let reply = Some(nodes::answer::Result::Reply("done".into()));
            daemon.take(0, Content::Answer(nodes::Answer { id: ask.id, result: reply })).await;
            assert_eq!(waiting.await.unwrap().unwrap(), "done");
            next
        }));
    }
    assert_eq!(daemon.place("c"), Some(3), "it has come meanwhile");
    // one that was to come had this place, and has not come
    daemon.take_added(&nodes::Added { node: "d".into(), place: 3 });
    assert_eq!((daemon.place("d"), daemon.place("h")), (Some(3), Some(0)));
    daemon.lose(0, "it is killed");
    let given_up = ask("h");
    daemon.succession().unwrap().give_up();
    assert!(matches!(given_up.await.unwrap(), Err(ExchangeError::Unreachable { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_cautious_head_declares_a_node_lost_when_it_has_confirmed_that() {
    let (ends, mut losses) = connected();
    ends[0].be_cautious();
    let gather = tokio::spawn({
        let b = ends[2].clone();
        async move { b.all_gather("x", &names(&["a", "b"]), "b".into()).await }
    });
    settle().await;
    ends[0].lose(1, "its connection has ended");
    assert_eq!(losses.recv().await.unwrap().node, "a");
    assert!(matches!(ends[0].fetch("a", "x".into()).await, Err(ExchangeError::Unreachable { .. })));
    settle().await;
    assert!(!gather.is_finished(), "b has not been told");
    gather.abort();
}

/// Such as a head that hangs, whose successor has come.
#[tokio::test(start_paused = true)]
async fn a_connection_that_reads_nothing_ends_no_other_that_has_taken_its_place() {
    let (daemon, mut losses) = Net::new(1, names(&["h", "a"]));
    daemon.await_successors();
    let (link, _silent) = Link::new(Duration::from_secs(20));
    assert!(daemon.connect(0, link));
    // more than what may wait, so that the next one waits for room
    assert!(daemon.send(0, leave(64 << 20).content.unwrap()).await);
    let waiting = tokio::spawn({
        let daemon = daemon.clone();
        async move { daemon.send(0, leave(1).content.unwrap()).await }
    });
    settle().await;
    let (link, mut frames) = Link::new(Duration::from_secs(20));
    daemon.reconnect(link, &names(&["h", "a"]));
    assert!(!waiting.await.unwrap());
    assert!(daemon.is_connected(0) && losses.try_recv().is_err());
    assert!(daemon.send(0, leave(1).content.unwrap()).await);
    assert!(frames.next().await.is_some());
}
