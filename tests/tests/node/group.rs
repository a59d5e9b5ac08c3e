//! Process groups end to end: one server, and several with their hosts.

use std::collections::BTreeSet;
use std::future::IntoFuture;

use futures::future::join_all;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{DataArray, Query, Status};
use pmix_client::{
    Client, Error, EventStream, Group, HandlerOutcome, HandlerRegistration, ProcId, Rank, Scope, keys,
};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{NullLauncher, TestCluster, TestNode, all_of, nspace, on_both_runtimes, proc, within};

/// All of them make a group of these processes, numbered.
async fn construct_all(clients: &[Client], id: &str, procs: &[ProcId]) -> Vec<Group> {
    let entered = clients
        .iter()
        .map(|client| client.group_construct(nspace(id), procs).assign_context_id().into_future());
    within(join_all(entered)).await.into_iter().collect::<Result<_, _>>().unwrap()
}

async fn destruct_all(clients: &[Client], id: &str) -> Vec<Result<(), Error>> {
    let id = nspace(id);
    within(join_all(clients.iter().map(|client| client.group_destruct(&id).into_future()))).await
}

/// Each says how it can be reached, to whom it concerns.
async fn post(clients: &[Client]) {
    for client in clients {
        let own = client.proc_id().to_string();
        client.put(Scope::GLOBAL, "all", own.clone()).unwrap();
        client.put(Scope::LOCAL, "near", own.clone()).unwrap();
        client.put(Scope::REMOTE, "far", own).unwrap();
        within(client.commit()).await.unwrap();
    }
}

/// What is held of a process, without asking anybody.
async fn held(client: &Client, proc: &ProcId, key: &str) -> Option<String> {
    within(client.get::<String>(proc, key).optional().into_future()).await.ok()
}

#[test]
fn grp_01_grp_04_grp_05_idn_06_a_group_on_one_node_is_made_used_and_ended() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let clients = node.clients().await;
        post(&clients).await;
        // members name the set in ways and orders of their own; those of rank 0 count
        let [a, b, c] = [node.proc(0), node.proc(1), node.proc(2)];
        let ways = [
            vec![c.clone(), a.clone(), b.clone()],
            vec![ProcId::wildcard(a.nspace.clone())],
            vec![a.clone(), b.clone(), c.clone(), a.clone()],
        ];
        let entered = clients
            .iter()
            .zip(ways)
            .map(|(client, procs)| client.group_construct(nspace("g"), procs).into_future());
        let groups: Vec<Group> =
            within(join_all(entered)).await.into_iter().collect::<Result<_, _>>().unwrap();
        for (group, rank) in groups.iter().zip([1, 2, 0]) {
            assert_eq!(group.members, [c.clone(), a.clone(), b.clone()]);
            assert_eq!(group.rank, Some(Rank::from_raw(rank)));
            assert_eq!((group.context_id, group.partial, &*group.id), (None, false, "g"));
        }
        for client in &clients {
            for other in [&a, &b, &c] {
                assert_eq!(held(client, other, "all").await, Some(other.to_string()));
                assert_eq!(held(client, other, "near").await, Some(other.to_string()));
                let own = other == client.proc_id();
                assert_eq!(held(client, other, "far").await.is_some(), own, "scopes hold");
            }
            // the member of a rank, by the server
            let first: String = within(client.get(proc("g", 0), "all").into_future()).await.unwrap();
            assert_eq!(first, c.to_string());
            let all = within(client.get_all(proc("g", 0))).await.unwrap();
            assert!(
                all.iter().any(|info| &*info.key == "all" && info.value == c.to_string().into()),
                "{all:?}"
            );
        }
        // a fence over the group is one over its members
        let fences = clients.iter().map(|client| {
            let by_id = client.proc_id().rank.to_raw() != 1;
            let by_rank = [proc("g", 2), proc("g", 0), proc("g", 1)];
            if by_id { client.fence(groups[0].all()) } else { client.fence(by_rank) }.into_future()
        });
        within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
        assert!(destruct_all(&clients, "g").await.iter().all(Result::is_ok));
        let gone = within(clients[0].group_destruct(nspace("g")).into_future()).await.unwrap_err();
        assert_eq!(gone.status(), Status::ERR_NOT_FOUND);
        node.stop().await;
    });
}

#[test]
fn grp_01_grp_05_grp_12_a_group_over_two_nodes_has_one_order_one_number_and_everybodys_data() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        post(&clients).await;
        let mut numbers = BTreeSet::new();
        for id in ["g", "h", "g"] {
            let order = [3, 0, 2, 1].map(|rank| cluster.proc(rank));
            let groups = construct_all(&clients, id, &order).await;
            for (group, client) in groups.iter().zip(&clients) {
                assert_eq!(group.members, order);
                assert_eq!(&order[group.rank.unwrap().to_raw() as usize], client.proc_id());
                assert_eq!(group.context_id, groups[0].context_id);
            }
            assert!(numbers.insert(groups[0].context_id.unwrap()), "each number is given once: {numbers:?}");
            let fences = clients.iter().map(|client| client.fence(groups[0].all()).into_future());
            within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
            if id == "g" {
                assert!(destruct_all(&clients, id).await.iter().all(Result::is_ok));
            }
        }
        for client in &clients {
            for rank in 0..4 {
                let other = cluster.proc(rank);
                assert_eq!(held(client, &other, "all").await, Some(other.to_string()));
                let own = other == *client.proc_id();
                let is_near = other.rank.to_raw() / 2 == client.proc_id().rank.to_raw() / 2;
                assert_eq!(held(client, &other, "near").await.is_some(), is_near);
                assert_eq!(held(client, &other, "far").await.is_some(), own || !is_near);
            }
        }
    });
}

#[test]
fn grp_01_grp_05_jobs_of_two_servers_that_do_not_know_each_other_are_one_group() {
    on_both_runtimes(async || {
        let (mut nodes, mut clients) = (Vec::new(), Vec::new());
        let exchanges = MemoryExchange::cluster(["n0", "n1"]).into_iter();
        for (exchange, (node, job)) in exchanges.zip([("n0", "a"), ("n1", "b")]) {
            let host = StandardHost::new(NullLauncher, exchange);
            let spec = JobSpec::new(nspace(job)).node_map([node]).unwrap().ranks_block(1, 2).unwrap();
            let node = TestNode::builder(0).hostname(node).host(host).job(spec, 0..2).start().await;
            clients.extend(node.clients().await);
            nodes.push(node);
        }
        // each node knows the ranks of its own job only, and may name all the same
        let ways = [vec![all_of("b"), all_of("a")], vec![proc("b", 0), proc("b", 1), all_of("a")]];
        for id in ["g", "h"] {
            let entered = clients
                .iter()
                .zip(ways.iter().cycle())
                .map(|(client, procs)| client.group_construct(nspace(id), procs.clone()).into_future());
            let groups: Vec<Group> =
                within(join_all(entered)).await.into_iter().collect::<Result<_, _>>().unwrap();
            for (group, client) in groups.iter().zip(&clients) {
                assert_eq!(group.members, [proc("b", 0), proc("b", 1), proc("a", 0), proc("a", 1)]);
                for job in ["a", "b"] {
                    let size = client.job(nspace(job)).get(keys::JOB_SIZE).optional().into_future();
                    assert_eq!(within(size).await.unwrap(), 2, "it is answered locally");
                }
            }
            assert!(destruct_all(&clients, id).await.iter().all(Result::is_ok));
        }
        nodes.into_iter().for_each(drop);
    });
}

#[test]
fn grp_06_who_ends_before_is_an_error_for_all_on_all_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        let gone = clients.remove(1);
        let entered =
            clients.iter().map(|client| client.group_construct(nspace("g"), all_of("job")).into_future());
        let (failed, ()) = tokio::join!(within(join_all(entered)), async { drop(gone) });
        for failed in failed {
            assert_eq!(failed.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
        }
    });
}

#[test]
fn grp_06_an_optional_group_goes_on_without_those_who_ended_even_all_of_a_node() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        for (lost, left) in [(vec![1], vec![0, 2, 3]), (vec![2, 3], vec![0, 1])] {
            let cluster = if lost.len() == 1 { &cluster } else { &TestCluster::new(2, 2).await };
            let mut clients: Vec<_> = cluster.clients().await.into_iter().map(Some).collect();
            lost.iter().for_each(|rank| drop(clients[*rank].take()));
            let clients: Vec<_> = clients.into_iter().flatten().collect();
            let entered = clients
                .iter()
                .map(|client| client.group_construct(nspace("g"), all_of("job")).optional().into_future());
            let members: Vec<_> = left.iter().map(|rank| cluster.proc(*rank)).collect();
            for group in within(join_all(entered)).await {
                let group = group.unwrap();
                assert!(group.partial);
                assert_eq!(group.members, members);
            }
            assert!(destruct_all(&clients, "g").await.iter().all(Result::is_ok));
        }
    });
}

#[test]
fn grp_06_grp_09_who_wants_to_know_hears_of_members_that_end_and_ends_the_group_all_the_same() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        let entered = clients.iter().map(|client| {
            client.group_construct(nspace("g"), all_of("job")).notify_termination().into_future()
        });
        within(join_all(entered)).await.into_iter().for_each(|group| assert!(!group.unwrap().partial));
        let lost = clients.remove(3);
        let mut events = Vec::new();
        for client in &clients {
            events.push(within(client.events([Status::GROUP_MEMBER_FAILED])).await.unwrap());
        }
        drop(lost);
        for events in &mut events {
            let event = within(events.recv()).await.unwrap().unwrap();
            assert_eq!(event.info.get(&keys::GROUP_ID), Ok(Some("g".to_owned())));
            assert_eq!(event.info.get(&keys::EVENT_AFFECTED_PROC), Ok(Some(cluster.proc(3))));
        }
        assert!(destruct_all(&clients, "g").await.iter().all(Result::is_ok));
    });
}

#[test]
fn grp_09_a_member_that_ended_fails_the_end_of_a_group() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        construct_all(&clients, "g", &[all_of("job")]).await;
        drop(clients.remove(3));
        for failed in destruct_all(&clients, "g").await {
            assert_eq!(failed.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
        }
    });
}

#[test]
fn grp_10_who_leaves_is_told_of_on_all_nodes_and_not_waited_for() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let id = nspace("g");
        construct_all(&clients, "g", &[all_of("job")]).await;
        let mut heard = Vec::new();
        for client in &clients {
            heard.push(within(client.events([Status::GROUP_LEFT])).await.unwrap());
        }
        within(clients[0].group_leave(&id).into_future()).await.unwrap();
        for events in &mut heard[1..] {
            let event = within(events.recv()).await.unwrap().unwrap();
            assert_eq!(event.source, cluster.proc(0));
            assert_eq!(event.info.get(&keys::GROUP_ID), Ok(Some("g".to_owned())));
        }
        let again = within(clients[0].group_leave(&id).into_future()).await.unwrap_err();
        assert_eq!(again.status(), Status::ERR_NOT_A_MEMBER);
        // its id means those who are left
        let fences =
            clients[1..].iter().map(|client| client.fence(ProcId::wildcard(id.clone())).into_future());
        within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
        assert!(destruct_all(&clients[1..], "g").await.iter().all(Result::is_ok));
    });
}

#[test]
fn grp_11_ids_that_are_taken_and_sets_that_differ_are_refused() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let clients = node.clients().await;
        let construct = async |client: &Client, id: &str, procs: &[ProcId]| {
            within(client.group_construct(nspace(id), procs).into_future()).await
        };
        let [a, b] = [node.proc(0), node.proc(1)];
        let own = &a.nspace.to_string();
        for (id, procs, status) in [
            (&**own, &[a.clone()][..], Status::ERR_EXISTS),
            ("g", std::slice::from_ref(&b), Status::ERR_NOT_A_MEMBER),
            ("g", &[], Status::ERR_BAD_PARAM),
        ] {
            assert_eq!(construct(&clients[0], id, procs).await.unwrap_err().status(), status, "{id}");
        }
        construct(&clients[0], "g", std::slice::from_ref(&a)).await.unwrap();
        assert_eq!(
            construct(&clients[0], "g", std::slice::from_ref(&a)).await.unwrap_err().status(),
            Status::ERR_EXISTS
        );
        assert_eq!(
            construct(&clients[1], "g", std::slice::from_ref(&b)).await.unwrap_err().status(),
            Status::ERR_EXISTS
        );
        let stranger = within(clients[1].group_leave(nspace("g")).into_future()).await.unwrap_err();
        assert_eq!(stranger.status(), Status::ERR_NOT_A_MEMBER);
        node.stop().await;
    });
}

#[test]
fn idn_06_an_event_reaches_the_members_of_a_group_by_its_id() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let code = Status::from_raw(-4711);
        let members = [1, 2].map(|rank| cluster.proc(rank));
        construct_all(&clients[1..3], "g", &members).await;
        let mut heard = Vec::new();
        for client in &clients {
            heard.push(within(client.events([code])).await.unwrap());
        }
        let notify = clients[1].notify(code).custom_range([all_of("g")]);
        within(notify.into_future()).await.unwrap();
        let event = within(heard[2].recv()).await.unwrap().unwrap();
        let range = event.info.get(&keys::EVENT_CUSTOM_RANGE).unwrap();
        assert_eq!(range, Some(DataArray::Proc(members.to_vec())), "nobody else sees the id");
    });
}

#[test]
fn grp_03_a_group_by_invitation_over_two_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        post(&clients).await;
        let (leader, others) = clients.split_first().unwrap();
        let join = async |client: &Client| {
            let mut invitations = within(client.events([Status::GROUP_INVITED])).await.unwrap();
            let event = within(invitations.recv()).await.unwrap().unwrap();
            assert_eq!(event.source, cluster.proc(0));
            let id: String = event.info.get(&keys::GROUP_ID).unwrap().unwrap();
            if client.proc_id().rank.to_raw() == 2 {
                within(client.group_decline(nspace(&id), &event.source).into_future()).await.unwrap();
                return None;
            }
            Some(within(client.group_join(nspace(&id), &event.source).into_future()).await.unwrap())
        };
        let invite = leader.group_invite(nspace("g"), all_of("job")).optional().assign_context_id();
        let (led, joined) = tokio::join!(within(invite.into_future()), join_all(others.iter().map(&join)));
        let led = led.unwrap();
        assert!(led.partial && led.context_id.is_some(), "{led:?}");
        assert_eq!(led.members, [0, 1, 3].map(|rank| cluster.proc(rank)));
        for group in joined.into_iter().flatten() {
            assert_eq!(
                (&group.members, group.context_id, group.partial),
                (&led.members, led.context_id, true)
            );
        }
        assert_eq!(held(&clients[3], &cluster.proc(0), "far").await, Some(cluster.proc(0).to_string()));
        let members = [&clients[0], &clients[1], &clients[3]];
        let fences = members.iter().map(|client| client.fence(led.all()).into_future());
        within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
        let ended = members.iter().map(|client| client.group_destruct(&led.id).into_future());
        assert!(within(join_all(ended)).await.iter().all(Result::is_ok));
    });
}

/// Registers what each of them makes of an event, and returns the registrations.
async fn handle_all(
    clients: &[Client],
    code: Status,
    outcome: impl Fn(&Client) -> HandlerOutcome,
) -> Vec<HandlerRegistration> {
    let mut registrations = Vec::new();
    for client in clients {
        let outcome = outcome(client);
        let handler = client.on_event([code]).handle(move |_| {
            let outcome = outcome.clone();
            async move { outcome }
        });
        registrations.push(within(handler).await.unwrap());
    }
    registrations
}

#[test]
fn grp_07_a_handler_gives_a_group_up_for_all_nodes() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        let gone = clients.remove(1);
        // rank 0 leads, and rank 3 never calls
        let entered = [&clients[0], &clients[1]].map(|client| {
            let construct = client.group_construct(nspace("g"), all_of("job")).notify_termination();
            if *client.proc_id() == cluster.proc(0) { construct.leader() } else { construct }.into_future()
        });
        let abort = |_: &Client| HandlerOutcome::from(Status::GROUP_CONSTRUCT_ABORT);
        let _held = handle_all(&clients[..1], Status::GROUP_MEMBER_FAILED, abort).await;
        let (failed, ()) = tokio::join!(within(join_all(entered)), async { drop(gone) });
        for failed in failed {
            assert_eq!(failed.unwrap_err().status(), Status::GROUP_CONSTRUCT_ABORT);
        }
    });
}

#[test]
fn grp_07_a_handler_takes_the_place_of_a_leader_that_has_ended() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        let mut invitations = Vec::new();
        for client in &clients[1..] {
            invitations.push(within(client.events([Status::GROUP_INVITED])).await.unwrap());
        }
        let leader = clients.remove(0);
        let mut selected = within(clients[0].events([Status::GROUP_LEADER_SELECTED])).await.unwrap();
        // both processes of the other node want to lead
        let claim = |client: &Client| {
            let leads = client.proc_id().rank.to_raw() >= 2;
            HandlerOutcome::from(()).with_result(&keys::GROUP_LEADER, leads)
        };
        let _held = handle_all(&clients, Status::GROUP_LEADER_FAILED, claim).await;
        let invite = async {
            tokio::select! {
                _ = leader.group_invite(nspace("g"), all_of("job")).into_future() => panic!("not all have answered"),
                // the last one answers when the leader has ended
                event = async {
                    let mut accepted = leader.events([Status::GROUP_INVITE_ACCEPTED]).await.unwrap();
                    for _ in 0..2 {
                        within(accepted.recv()).await.unwrap().unwrap();
                    }
                } => event,
            }
            drop(leader);
        };
        let join = async |client: &Client, invitations: &mut EventStream, late: bool| {
            let event = within(invitations.recv()).await.unwrap().unwrap();
            if late {
                let mut selected = within(client.events([Status::GROUP_LEADER_SELECTED])).await.unwrap();
                within(selected.recv()).await.unwrap().unwrap();
            }
            within(client.group_join(nspace("g"), &event.source).into_future()).await.unwrap()
        };
        let [first, second, third] = &mut invitations[..] else { panic!("three are invited") };
        let ((), a, b, c) = tokio::join!(
            invite,
            join(&clients[0], first, true),
            join(&clients[1], second, false),
            join(&clients[2], third, false)
        );
        for group in [a, b, c] {
            assert!(group.partial);
            assert_eq!(group.members, [1, 2, 3].map(|rank| cluster.proc(rank)));
        }
        within(selected.recv()).await.unwrap().unwrap();
    });
}

#[test]
fn qry_12_grp_12_each_node_tells_of_the_groups_of_all() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 1).await;
        let clients = cluster.clients().await;
        let procs: Vec<ProcId> = (0..3).map(|rank| cluster.proc(rank)).collect();
        construct_all(&clients[..2], "pair", &[procs[1].clone(), procs[0].clone()]).await;
        construct_all(&clients[2..], "alone", &procs[2..]).await;
        let ask = async |client: &Client, query: Query| within(client.query([query])).await;
        let membership = |id: &str| Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, id);
        for client in &clients {
            let both = Query::new(&keys::QUERY_NUM_GROUPS).key(&keys::QUERY_GROUP_NAMES);
            let found = ask(client, both).await.unwrap();
            assert_eq!(found.get(keys::QUERY_NUM_GROUPS).unwrap(), Some(2));
            let names = found.get(keys::QUERY_GROUP_NAMES).unwrap().unwrap();
            assert_eq!(names.as_strings().unwrap(), ["alone", "pair"]);
            for (id, members) in
                [("pair", vec![procs[1].clone(), procs[0].clone()]), ("alone", procs[2..].to_vec())]
            {
                let found = ask(client, membership(id)).await.unwrap();
                let found = found.get(keys::QUERY_GROUP_MEMBERSHIP).unwrap().unwrap();
                assert_eq!(found.as_procs().unwrap(), members);
            }
            let unknown = ask(client, membership("nobody")).await.unwrap_err();
            assert_eq!(unknown.status(), Status::ERR_NOT_FOUND);
            // of this node alone
            let here = Query::new(&keys::QUERY_NUM_GROUPS).qualifier(&keys::QUERY_LOCAL_ONLY, true);
            assert_eq!(ask(client, here).await.unwrap().get(keys::QUERY_NUM_GROUPS).unwrap(), Some(1));
        }
    });
}
