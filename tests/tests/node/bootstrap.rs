//! Groups made by bootstrap, end to end: one server, and several with their hosts.

use std::future::IntoFuture;

use futures::future::join_all;
use pmix_client::types::Status;
use pmix_client::{Client, Error, Group, GroupConstructBuilder, ProcId, Scope, keys};
use pmix_tests::{TestCluster, TestNode, all_of, on_both_runtimes, within};

/// All of them at once.
async fn all(calls: impl IntoIterator<Item = GroupConstructBuilder>) -> Vec<Result<Group, Error>> {
    within(join_all(calls.into_iter().map(IntoFuture::into_future))).await
}

fn statuses(results: &[Result<Group, Error>]) -> Vec<Option<Status>> {
    results.iter().map(|result| result.as_ref().err().map(Error::status)).collect()
}

/// All of them end group `g`.
async fn end_of(clients: &[Client]) {
    let ended = clients.iter().map(|client| client.group_destruct("g").into_future());
    within(join_all(ended)).await.into_iter().for_each(|ended| ended.unwrap());
}

#[test]
fn grp_02_leaders_that_do_not_know_each_other_make_a_group_with_those_they_add_on_one_node() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(4).await;
        let clients = node.clients().await;
        let [a, b, c, d] = [0, 1, 2, 3].map(|rank| node.proc(rank));
        for round in 0..2u32 {
            // both add rank 3; rank 0 is added and leads
            let groups = all([
                clients[3].group_join_bootstrap("g"),
                clients[2].group_bootstrap("g", 2).add_members([a.clone(), d.clone()]),
                clients[1].group_join_bootstrap("g"),
                clients[0].group_bootstrap("g", 2).add_members([d.clone(), b.clone()]),
            ])
            .await;
            for group in groups {
                let group = group.unwrap();
                assert_eq!(group.members, [a.clone(), c.clone(), d.clone(), b.clone()], "round {round}");
                assert_eq!((group.context_id, group.partial), (None, false));
            }
            let fences = clients.iter().map(|client| client.fence(all_of("g")).into_future());
            within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
            end_of(&clients).await;
        }
        node.stop().await;
    });
}

#[test]
fn grp_02_grp_05_members_of_three_nodes_get_the_same_order_number_and_data() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 2).await;
        let clients = cluster.clients().await;
        for client in &clients {
            client.put(Scope::GLOBAL, "own", client.proc_id().to_string()).unwrap();
            within(client.commit()).await.unwrap();
        }
        let procs: Vec<ProcId> = (0..6).map(|rank| cluster.proc(rank)).collect();
        for _ in 0..2 {
            // two leaders on nodes of their own; the first node, which keeps who has called, has no leader
            let groups = all([
                clients[5].group_bootstrap("g", 2).add_members([procs[0].clone(), procs[2].clone()]),
                clients[0].group_join_bootstrap("g"),
                clients[2].group_join_bootstrap("g"),
                clients[3].group_bootstrap("g", 2).assign_context_id(),
            ])
            .await;
            let groups: Vec<Group> = groups.into_iter().collect::<Result<_, _>>().unwrap();
            for group in &groups {
                assert_eq!(group.members, [3, 5, 0, 2].map(|rank: usize| procs[rank].clone()));
                assert!(group.context_id.is_some());
                assert_eq!(group.context_id, groups[0].context_id);
            }
            for reader in [0, 2, 3, 5] {
                for of in [0, 2, 3, 5] {
                    let own = clients[reader].get::<String>(&procs[of], "own").optional().into_future();
                    assert_eq!(within(own).await.unwrap(), procs[of].to_string());
                }
            }
            end_of(&[0, 2, 3, 5].map(|rank: usize| clients[rank].clone())).await;
        }
        // all of a namespace are added by one
        let mut calls = vec![clients[4].group_bootstrap("g", 1).add_members(all_of("job"))];
        calls.extend([0, 1, 2, 3, 5].map(|rank: usize| clients[rank].group_join_bootstrap("g")));
        for group in all(calls).await {
            assert_eq!(group.unwrap().members, [4, 0, 1, 2, 3, 5].map(|rank: usize| procs[rank].clone()));
        }
    });
}

#[test]
fn grp_02_wrong_and_contradictory_numbers_of_leaders_fail() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let second = std::time::Duration::from_secs(1);
        // two that say they are two and three
        let refused = all([clients[0].group_bootstrap("g", 2), clients[3].group_bootstrap("g", 3)]).await;
        assert_eq!(statuses(&refused), [Some(Status::ERR_BAD_PARAM); 2]);
        // two that say they are three, and who waits for them
        let refused = all([
            clients[0].group_bootstrap("g", 3).timeout(second),
            clients[3].group_bootstrap("g", 3).timeout(second).add_members([cluster.proc(2)]),
            clients[2].group_join_bootstrap("g").timeout(second),
        ])
        .await;
        assert_eq!(statuses(&refused), [Some(Status::ERR_TIMEOUT); 3]);
        // nothing is left of that
        let groups = all([clients[1].group_bootstrap("g", 2), clients[2].group_bootstrap("g", 2)]).await;
        assert_eq!(statuses(&groups), [None; 2]);
        // the surplus one leads another group, which the ids exclude on its node
        let refused = all([clients[3].group_bootstrap("g", 2).timeout(60 * second)]).await;
        assert_eq!(statuses(&refused), [Some(Status::ERR_EXISTS)]);
        let none = all([clients[0].group_bootstrap("h", 0)]).await;
        assert_eq!(statuses(&none), [Some(Status::ERR_BAD_PARAM)]);
        let listed = clients[0].group_construct("h", [cluster.proc(0)]).add_members([cluster.proc(1)]);
        assert_eq!(statuses(&all([listed]).await), [Some(Status::ERR_NOT_SUPPORTED)]);
    });
}

#[test]
fn grp_02_grp_06_a_leader_or_member_that_ends_before_fails_it_or_is_left_out() {
    on_both_runtimes(async || {
        for lenient in [false, true] {
            for lost in [3, 2] {
                let cluster = TestCluster::new(2, 2).await;
                let mut clients = cluster.clients().await;
                let optional = |call: GroupConstructBuilder| if lenient { call.optional() } else { call };
                // rank 3 leads and has called, or rank 2 is to be added and has not
                let gone = clients.remove(lost);
                let own = gone.proc_id().clone();
                if lost == 3 {
                    let call = optional(gone.group_bootstrap("g", 2).add_members([cluster.proc(2)]));
                    let calls = tokio::spawn(call.into_future());
                    // its request, and the upcall for it
                    cluster.node(1).until_waiting(2).await;
                    calls.abort();
                }
                let upcalls = cluster.node(1).stats().await.upcalls;
                drop(gone);
                // the host is told of the loss
                cluster.node(1).until(|stats| stats.upcalls > upcalls).await;
                let mut calls = vec![
                    optional(
                        clients[0]
                            .group_bootstrap("g", 2 - u64::from(lost == 2))
                            .add_members([cluster.proc(1), cluster.proc(2)]),
                    ),
                    clients[1].group_join_bootstrap("g"),
                ];
                if lost == 3 {
                    calls.push(clients[2].group_join_bootstrap("g"));
                }
                for group in all(calls).await {
                    match group {
                        Ok(group) => {
                            assert!(lenient && group.partial && !group.members.contains(&own), "{group:?}");
                        }
                        Err(error) => {
                            assert!(!lenient, "{error}");
                            assert_eq!(error.status(), Status::ERR_PROC_TERM_WO_SYNC);
                            assert_eq!(error.procs(), std::slice::from_ref(&own));
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn grp_06_grp_09_a_fault_tolerant_group_is_made_and_ended_without_those_who_end() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let mut clients = cluster.clients().await;
        drop(clients.remove(1));
        let groups =
            all(clients.iter().map(|client| client.group_construct("g", all_of("job")).fault_tolerant()))
                .await;
        for group in groups {
            let group = group.unwrap();
            assert!(group.partial);
            assert_eq!(group.members, [0, 2, 3].map(|rank| cluster.proc(rank)));
        }
        drop(clients.remove(2));
        end_of(&clients).await;
        // without it, the death of a member is an error
        let groups =
            all(clients.iter().map(|client| client.group_construct("h", [cluster.proc(0), cluster.proc(2)])))
                .await;
        assert_eq!(statuses(&groups), [None, None]);
        // a group holds its client
        drop(groups);
        drop(clients.remove(1));
        let ended = within(clients[0].group_destruct("h").into_future()).await.unwrap_err();
        assert_eq!(ended.status(), Status::ERR_PROC_TERM_WO_SYNC);
    });
}

#[test]
fn grp_02_a_host_without_bootstrap_refuses_it() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let client = node.client(0).await;
        let refused = all([client.group_bootstrap("g", 1), client.group_join_bootstrap("g")]).await;
        assert_eq!(statuses(&refused), [Some(Status::ERR_NOT_SUPPORTED); 2]);
        let known = within(client.get::<u32>(node.job(), keys::JOB_SIZE.name()).into_future()).await;
        assert_eq!(known.unwrap(), 1);
        node.stop().await;
    });
}
