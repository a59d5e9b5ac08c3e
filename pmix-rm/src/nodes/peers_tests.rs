//! Daemons that ask each other, beside their head.

use futures::FutureExt;
use pmix_test_wait::moment;

use super::super::fixture::{Here, Session};
use super::super::gather::MAX_GIVEN;
use super::*;

/// That a daemon has a connection with another one that is open.
fn is_connected(from: &Here, place: Place) -> bool {
    matches!(lock(&from.peers.0.table).ways.get(&place), Some(Way::Open(open)) if open.is_open())
}

#[tokio::test]
async fn what_only_reads_goes_from_daemon_to_daemon_and_all_else_through_the_head() {
    let session = Session::new(&["h", "a", "b"]).await;
    let mut count = session.head.next_id();
    let (a, b) = (session.daemon("a").await, session.daemon("b").await);
    for _ in 0..2 {
        assert_eq!(a.ask("b").await.unwrap(), "b to a");
        assert_eq!(b.ask("a").await.unwrap(), "a to b");
    }
    assert_eq!(session.passed_on(&mut count), 0);
    assert_eq!(a.peers.fetch("b", "0".into()).await.unwrap(), "b to a");
    assert_eq!(session.passed_on(&mut count), 1);
    assert!(a.ask("nowhere").await.unwrap_err().contains("nowhere"));
    // answers that are long, at the same time
    let long = 20 << 20;
    let requests = (0..5).map(|_| a.peers.read("b", long.to_string().into()));
    for answer in futures::future::join_all(requests).await {
        assert_eq!(answer.unwrap().len(), long + "b to a".len());
    }
    assert_eq!(session.passed_on(&mut count), 0);
    let error = a.peers.read("b", vec![0; 193 << 20].into()).await.unwrap_err().to_string();
    assert!(error.contains("is too large"), "{error}");
}

#[tokio::test]
async fn what_waits_for_a_daemon_whose_node_is_declared_lost_fails_and_names_it() {
    let session = Session::new(&["h", "a", "b", "c"]).await;
    let [a, b, c] = ["a", "b", "c"].map(|node| session.daemon(node));
    let (a, b, c) = tokio::join!(a, b, c);
    b.withhold();
    let lose = async {
        session.still.until("b is asked", || b.asked() == 1).await;
        session.head.lose(2, "it was cut off");
    };
    let (failed, ()) = tokio::join!(a.ask("b"), lose);
    assert_eq!(failed.unwrap_err(), "node b is not reachable");
    session.still.until("c knows of the loss", || lock(&c.peers.0.table).lost.contains(&2)).await;
    let mut count = session.head.next_id();
    assert_eq!(c.ask("b").await.unwrap_err(), "node b is not reachable");
    assert_eq!(session.passed_on(&mut count), 0, "it fails here");
    // and what it asks is not answered any more
    session.still.until("b loses its connection", || !is_connected(&b, 1)).await;
    b.peers.ask(1, &What::Request("0".into())).await.ok_or(()).unwrap_err();
    assert!(a.asked() == 0);
    assert_eq!(a.ask("c").await.unwrap(), "c to a");
}

#[tokio::test]
async fn the_end_of_a_connection_fails_nothing_and_the_rest_is_asked_through_the_head() {
    let session = Session::new(&["h", "a", "b"]).await;
    let (a, b) = (session.daemon("a").await, session.daemon("b").await);
    b.withhold();
    let mut count = session.head.next_id();
    let end = async {
        session.still.until("b is asked", || b.asked() == 1).await;
        assert_eq!(session.passed_on(&mut count), 0);
        b.peers.visits()[&1].abort();
        session.still.until("b is asked again", || b.asked() == 2).await;
        b.answers.permits.add_permits(1);
    };
    let (answer, ()) = tokio::join!(a.ask("b"), end);
    assert_eq!(answer.unwrap(), "b to a");
    assert_eq!(session.passed_on(&mut count), 1);
    // the next one is on a new connection
    b.answers.permits.add_permits(1);
    assert_eq!(a.ask("b").await.unwrap(), "b to a");
    assert_eq!(session.passed_on(&mut count), 0);
}

#[tokio::test]
async fn a_daemon_whose_port_is_closed_is_asked_through_the_head_and_not_tried_again_at_once() {
    let session = Session::new(&["h", "a", "b"]).await;
    let (a, mut b) = (session.daemon("a").await, session.daemon("b").await);
    b.port = None;
    let mut count = session.head.next_id();
    let mut tried = Vec::new();
    for _ in 0..2 {
        assert_eq!(a.ask("b").await.unwrap(), "b to a");
        assert_eq!(session.passed_on(&mut count), 1);
        let Way::Shut(until) = lock(&a.peers.0.table).ways[&2] else { panic!("it is not shut") };
        tried.push(until);
    }
    assert_eq!(tried[0], tried[1], "the second request has tried again");
    assert!(a.peers.0.has_named.load(Ordering::Relaxed));
}

/// A listener that never answers, as behind some firewalls.
#[tokio::test]
async fn a_request_waits_only_a_moment_for_a_connection() {
    let session = Session::new(&["h", "a", "b"]).await;
    let (a, _b) = (session.daemon("a").await, session.daemon("b").await);
    let (_over, opening) = watch::channel(());
    lock(&a.peers.0.table).ways.insert(2, Way::Opening(opening));
    let request = What::Request("0".into());
    let mut asked = Box::pin(a.peers.ask(2, &request));
    assert!(asked.as_mut().now_or_never().is_none());
    session.still.pass(WAIT - Duration::from_millis(10)).await;
    assert!(asked.as_mut().now_or_never().is_none(), "there is a moment left");
    session.still.pass(Duration::from_millis(20)).await;
    assert!(session.still.within("it waits no longer", asked).await.is_none());
}

/// As behind a firewall that drops what it does not like: each attempt takes its time.
#[tokio::test]
async fn nobody_waits_for_a_connection_that_could_not_be_made_before() {
    let before = Instant::from_std(moment());
    let session = Session::new(&["h", "a", "b"]).await;
    let (a, _b) = (session.daemon("a").await, session.daemon("b").await);
    lock(&a.peers.0.table).ways.insert(2, Way::Shut(before));
    assert!(matches!(a.peers.step(2), Step::ThroughHead));
    // it is made all the same
    session.still.until("a is connected with b", || is_connected(&a, 2)).await;
    assert!(matches!(a.peers.step(2), Step::Ask(_)));
}

#[tokio::test]
async fn a_node_that_is_lost_or_that_leaves_is_not_named_as_one_that_cannot_be_reached() {
    let session = Session::new(&["h", "a", "b", "c"]).await;
    let (a, mut b) = (session.daemon("a").await, session.daemon("b").await);
    b.port = None;
    // what the head says before it answers where the node is
    a.peers.lose(2);
    a.peers.name(2, "connection refused");
    assert!(!a.peers.0.has_named.load(Ordering::Relaxed));
    a.peers.name(3, "connection refused");
    assert!(a.peers.0.has_named.load(Ordering::Relaxed));
    b.peers.leave();
    assert!(b.peers.0.has_named.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_operation_may_bring_more_than_a_message_holds() {
    let (session, [a, b, c], all) = four().await;
    let data = |place: u8| Bytes::from(vec![place; MAX_GIVEN / 3 + usize::from(place)]);
    let gathered = tokio::join!(
        session.head.all_gather("op", &all, data(0)),
        a.peers.all_gather("op", &all, data(1)),
        b.peers.all_gather("op", &all, data(2)),
        c.peers.all_gather("op", &all, data(3)),
    );
    let expected: Vec<_> = (0..4).map(data).collect();
    for gathered in [gathered.0, gathered.1, gathered.2, gathered.3] {
        // what is unlike would fill the terminal
        assert!(gathered.unwrap() == expected);
    }
}

#[tokio::test]
async fn an_operation_without_a_result_says_why() {
    let (session, [a, b, c], all) = four().await;
    let gather = |peers: Peers, nodes: Vec<String>, data: Bytes| {
        tokio::spawn(async move { peers.all_gather("op", &nodes, data).await })
    };
    let others = [(&a, 0), (&b, 0), (&c, MAX_GIVEN + 1)]
        .map(|(of, bytes)| gather(of.peers.clone(), all.clone(), vec![0; bytes].into()));
    let root = session.head.all_gather("op", &all, Bytes::new()).await;
    for failed in others.map(|other| async { other.await.unwrap() }) {
        let error = failed.await.unwrap_err().to_string();
        assert!(
            error.contains(
                "too much data for one operation at node c: at most 192 MiB from one node, and 1024 MiB"
            ),
            "{error}"
        );
    }
    assert!(root.is_err());
    // nodes that disagree on who takes part
    let some = all[..3].to_vec();
    let below = tokio::spawn({
        let (peers, all) = (a.peers.clone(), all.clone());
        async move { peers.all_gather("other", &all, Bytes::new()).await }
    });
    let root = session.head.all_gather("other", &some, Bytes::new());
    let leaf = b.peers.all_gather("other", &some, Bytes::new());
    let last = c.peers.all_gather("other", &all, Bytes::new());
    let (root, leaf, last) = tokio::join!(root, leaf, last);
    for failed in [root, leaf, last, below.await.unwrap()] {
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("names other nodes as participants than another node does"), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_is_not_used_any_more_is_closed() {
    let session = Session::new(&["h", "a", "b"]).await;
    let (a, b) = (session.daemon("a").await, session.daemon("b").await);
    a.ask("b").await.unwrap();
    assert!(is_connected(&a, 2));
    session.still.pass(IDLE + Duration::from_secs(1)).await;
    session.still.until("a closes it", || lock(&a.peers.0.table).ways.is_empty()).await;
    session.still.until("b notices", || b.peers.visits()[&1].is_finished()).await;
}

#[tokio::test]
async fn connections_to_other_daemons_are_bounded_and_the_one_unused_for_longest_makes_room() {
    let used = Instant::from_std(moment());
    let open = |place: u64| {
        let (link, _) = Link::new(IDLE);
        let pending = Arc::new(Pending::default());
        Arc::new(Open { link, pending, used: Mutex::new(used + Duration::from_secs(place)) })
    };
    let mut table = Table::default();
    let mut in_use = Vec::new();
    for place in 0..MAX_WAYS {
        assert!(table.make_room());
        let open = open(place as u64);
        if place < 3 {
            in_use.push(open.clone());
        }
        table.ways.insert(place, Way::Open(open));
    }
    table.ways.insert(1000, Way::Shut(used));
    assert!(table.make_room());
    assert_eq!(table.ways.len(), MAX_WAYS);
    assert!(!table.ways.contains_key(&3) && table.ways.contains_key(&1000));
    let (_over, opening) = watch::channel(());
    for place in 3..MAX_WAYS {
        table.ways.insert(place, Way::Opening(opening.clone()));
    }
    assert!(!table.make_room());
}

/// Four nodes in a tree of degree 2, of which the second is above the fourth.
async fn four() -> (Session, [Here; 3], Vec<String>) {
    let session = Session::new(&["h", "a", "b", "c"]).await;
    let (a, b, c) = tokio::join!(session.daemon("a"), session.daemon("b"), session.daemon("c"));
    (session, [a, b, c], ["h", "a", "b", "c"].map(str::to_owned).to_vec())
}

#[tokio::test]
async fn what_nodes_give_to_an_operation_goes_up_the_tree_from_daemon_to_daemon() {
    let (session, [a, b, c], all): (Session, [Here; 3], Vec<String>) = four().await;
    let mut count = session.head.next_id();
    let give = |exchange: Arc<dyn Exchange>, name: &'static str, nodes: &[String]| {
        let nodes = nodes.to_vec();
        async move { exchange.all_gather(name, &nodes, Bytes::from(exchange.node().to_owned())).await.unwrap() }
    };
    let ends: [Arc<dyn Exchange>; 4] = [
        Arc::new(session.head.clone()),
        Arc::new(a.peers.clone()),
        Arc::new(b.peers.clone()),
        Arc::new(c.peers.clone()),
    ];
    for name in ["one", "two"] {
        let given = futures::future::join_all(ends.iter().map(|end| give(end.clone(), name, &all))).await;
        assert!(given.iter().all(|given| *given == ["h", "a", "b", "c"]), "{given:?}");
        // c is below a, which waits for it
        assert!(is_connected(&c, 1) && !is_connected(&c, 2) && !is_connected(&a, 3));
    }
    // the head is asked nothing for others
    assert_eq!(session.passed_on(&mut count), 0);
    // and is no part of what it does not take part in
    let rest = ["c", "b", "a"].map(str::to_owned);
    let given =
        futures::future::join_all(ends[1..].iter().map(|end| give(end.clone(), "three", &rest))).await;
    assert!(given.iter().all(|given| *given == ["c", "b", "a"]), "{given:?}");
    assert_eq!(session.passed_on(&mut count), 0);
    assert!(is_connected(&c, 1) && is_connected(&b, 1));
}

#[tokio::test]
async fn an_operation_goes_on_when_a_connection_of_its_tree_ends() {
    let (session, [a, b, c], all) = four().await;
    let gather = |exchange: Peers| {
        let all = all.clone();
        tokio::spawn(async move { exchange.all_gather("op", &all, Bytes::from_static(b"x")).await })
    };
    let below = gather(c.peers.clone());
    session.still.until("c is connected with a", || is_connected(&c, 1)).await;
    let asked = || {
        lock(&c.peers.0.table)
            .ways
            .get(&1)
            .is_some_and(|way| matches!(way, Way::Open(open) if open.is_in_use()))
    };
    session.still.until("c asks on it", asked).await;
    a.peers.visits()[&3].abort();
    let (a, b) = (gather(a.peers.clone()), gather(b.peers.clone()));
    session.head.all_gather("op", &all, Bytes::from_static(b"x")).await.unwrap();
    for given in [below, a, b] {
        assert_eq!(given.await.unwrap().unwrap(), ["x"; 4]);
    }
}

#[tokio::test]
async fn a_node_that_is_lost_ends_its_operations_for_those_below_and_beside_it() {
    let (session, [a, b, c], all) = four().await;
    let gather = |exchange: Peers| {
        let all = all.clone();
        tokio::spawn(async move { exchange.all_gather("op", &all, Bytes::new()).await })
    };
    let (below, beside) = (gather(c.peers.clone()), gather(b.peers.clone()));
    session.still.until("c is connected with a", || is_connected(&c, 1)).await;
    drop(a.port);
    session.head.lose(1, "it was cut off");
    let root = session.head.all_gather("op", &all, Bytes::new()).await;
    for failed in [below.await.unwrap(), beside.await.unwrap(), root] {
        assert!(matches!(&failed, Err(ExchangeError::Unreachable { node }) if node == "a"), "{failed:?}");
    }
    // the others go on
    let rest = ["h", "b", "c"].map(str::to_owned);
    let (h, b, c) = tokio::join!(
        session.head.all_gather("rest", &rest, Bytes::new()),
        b.peers.all_gather("rest", &rest, Bytes::new()),
        c.peers.all_gather("rest", &rest, Bytes::new())
    );
    assert!(h.is_ok() && b.is_ok() && c.is_ok(), "{h:?} {b:?} {c:?}");
}
