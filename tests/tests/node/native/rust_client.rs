//! `pmix-client` on the wire of the C library, as it speaks it under launchers of others, at our own server.

use std::future::IntoFuture;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use pmix_client::types::{DataRange, Event, Status};
use pmix_client::{Client, Scope, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_native::Dialect;
use pmix_server::NativeWire;
use pmix_test_wait::StillClock;
use pmix_tests::{NullLauncher, Running, TestNode, TestServer, rank_program, within};

async fn node(ranks: u32) -> TestNode {
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
    let builder = TestNode::builder(ranks).host(host);
    builder.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await
}

/// Connects as a rank, as under a launcher of another family.
async fn native(node: &TestNode, rank: u32) -> Client {
    let uri = node.handle().native_uri().unwrap();
    within(Client::builder().uri(uri).proc(node.proc(rank)).init()).await.unwrap()
}

/// A process on each wire, in one job.
#[tokio::test]
async fn fen_06_get_20_evt_11_pub_03_processes_of_both_wires_share_values_events_and_published_data() {
    let node = node(2).await;
    let clients = [node.client(0).await, native(&node, 1).await];
    let mut streams = Vec::new();
    for client in &clients {
        assert_eq!(client.job(node.nspace()).get(keys::JOB_SIZE).await.unwrap(), 2);
        assert_eq!(client.get(node.proc(1), keys::LOCAL_RANK).await.unwrap(), 1);
        let rank = client.proc_id().rank.to_raw();
        client.put(Scope::GLOBAL, "card", rank + 40).unwrap();
        within(client.commit().into_future()).await.unwrap();
        streams.push(within(client.events([Status::from_raw(-3005)]).into_future()).await.unwrap());
    }
    let fences = clients.iter().map(|client| client.fence_all().collect_data().into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
    for (client, other) in clients.iter().zip([1, 0]) {
        let card: u32 = within(client.get(node.proc(other), "card").into_future()).await.unwrap();
        assert_eq!(card, other + 40);
    }
    for client in &clients {
        let event = Event::new(Status::from_raw(-3005), client.proc_id().clone());
        within(client.notify(event).range(DataRange::NAMESPACE).into_future()).await.unwrap();
        for stream in &mut streams {
            // its own, too
            let heard = within(stream.recv()).await.unwrap().unwrap();
            assert_eq!(heard.source, *client.proc_id());
        }
    }
    within(clients[1].publish().data("port", 7).into_future()).await.unwrap();
    let found = within(clients[0].lookup(["port"]).into_future()).await.unwrap();
    assert_eq!(found.publisher("port"), Some(&node.proc(1)));
    for client in clients {
        within(client.finalize().into_future()).await.unwrap();
    }
}

/// In each dialect, described and not, as the environment says.
#[tokio::test]
async fn ini_02_programs_speak_as_their_environment_says() {
    let node = node(2).await;
    for (dialect, buffer) in Dialect::ALL.into_iter().flat_map(|dialect| {
        ["PMIX_BFROP_BUFFER_NON_DESC", "PMIX_BFROP_BUFFER_FULLY_DESC"].map(|buffer| (dialect, buffer))
    }) {
        let mut ranks = Vec::new();
        for rank in [0, 1] {
            let mut command = std::process::Command::new(rank_program());
            node.handle().setup_fork(&node.proc(rank)).await.unwrap().apply(&mut command);
            command.env_remove("PMIX_GRPC_URI").env_remove("PMIX_FRAMED_URI");
            for other in Dialect::ALL.into_iter().filter(|other| *other != dialect) {
                command.env_remove(other.uri_variable());
            }
            command.env("PMIX_BFROP_BUFFER_TYPE", buffer).args(["put-commit-get", "3"]);
            ranks.push(Running::start(command));
        }
        for rank in ranks {
            let (status, out, err) = rank.end().await;
            assert!(status.success(), "{dialect} {buffer}: {out}{err}");
        }
    }
}

/// By the connection, while no time passes, whatever was going on.
#[tokio::test]
async fn evt_21_a_server_that_is_killed_is_told_at_once() {
    let server = TestServer::start(2, false).await;
    let uri = format!("srv.0;tcp4://{}", server.native);
    let client = within(Client::builder().uri(uri.clone()).proc(TestServer::proc(0)).init()).await.unwrap();
    let clock = StillClock::start();
    let mut waiting = client.fence_all().into_future();
    assert!((&mut waiting).now_or_never().is_none());
    server.process.kill();
    let error = within(waiting).await.unwrap_err();
    assert!(error.is_lost_connection(), "{error}");
    drop(clock);
    let gone = within(Client::builder().uri(uri).proc(TestServer::proc(1)).init()).await.unwrap_err();
    assert_eq!(gone.status(), Status::ERR_UNREACH, "{gone}");
}

#[tokio::test]
async fn tol_09b_tol_15_a_tool_is_given_a_name_on_either_wire() {
    let node = node(1).await;
    let _rank = native(&node, 0).await;
    let uri = node.handle().native_uri().unwrap();
    let tool = within(Client::builder().uri(uri).tool(None).init()).await.unwrap();
    assert!(tool.proc_id().is_valid() && tool.proc_id().nspace != *node.nspace());
    assert_eq!(tool.server_id(), Some(node.handle().proc_id()));
    let size: u32 = within(tool.job(node.nspace()).get(keys::JOB_SIZE).into_future()).await.unwrap();
    assert_eq!(size, 1);
    within(tool.finalize().into_future()).await.unwrap();
}

/// The libraries measure the time themselves, and the id is free afterwards.
#[tokio::test]
async fn grp_03_an_invitation_ends_in_time_and_can_be_repeated() {
    let clock = StillClock::start();
    let node = node(2).await;
    let (leader, invited) = (native(&node, 0).await, native(&node, 1).await);
    let mut invitations = within(invited.events([Status::GROUP_INVITED]).into_future()).await.unwrap();
    let mut answers = within(leader.events([Status::GROUP_INVITE_ACCEPTED]).into_future()).await.unwrap();
    let limit = Duration::from_secs(1);
    let late = leader.group_invite("pair", [node.proc(1)]).timeout(limit).into_future();
    let late = tokio::spawn(late);
    within(invitations.recv()).await.unwrap().unwrap();
    // timers have a resolution of a millisecond
    let moment = Duration::from_millis(5);
    clock.pass(limit - moment).await;
    assert!(!late.is_finished());
    clock.pass(2 * moment).await;
    let late = within(late).await.unwrap().unwrap_err();
    assert!(late.is_timeout() && late.procs() == [node.proc(1)], "{late}");
    // the answer comes too late
    let refused = within(invited.group_join("pair", node.proc(0)).into_future()).await.unwrap_err();
    assert_eq!((refused.status(), refused.procs()), (Status::GROUP_CONSTRUCT_ABORT, &[node.proc(0)][..]));
    // answers have no number: one that is still on its way would count for the next invitation
    within(answers.recv()).await.unwrap().unwrap();
    let again = {
        let (leader, proc) = (leader.clone(), node.proc(1));
        tokio::spawn(async move { leader.group_invite("pair", [proc]).await })
    };
    within(invitations.recv()).await.unwrap().unwrap();
    let joined = within(invited.group_join("pair", node.proc(0)).into_future()).await.unwrap();
    let made = within(again).await.unwrap().unwrap();
    assert_eq!((&made.members, made.members.len()), (&joined.members, 2));
}

#[tokio::test]
async fn grp_06_the_end_of_an_invited_process_ends_the_invitation() {
    let node = node(2).await;
    let (leader, invited) = (native(&node, 0).await, native(&node, 1).await);
    let mut invitations = within(invited.events([Status::GROUP_INVITED]).into_future()).await.unwrap();
    let invitation = {
        let (leader, proc) = (leader.clone(), node.proc(1));
        tokio::spawn(async move { leader.group_invite("pair", [proc]).await })
    };
    within(invitations.recv()).await.unwrap().unwrap();
    drop((invitations, invited));
    let error = within(invitation).await.unwrap().unwrap_err();
    assert_eq!(
        (error.status(), error.procs()),
        (Status::GROUP_CONSTRUCT_ABORT, &[node.proc(1)][..]),
        "{error}"
    );
}

/// The server would count a process in that does not wait any more; this one goes on without its answer.
#[tokio::test]
async fn con_02_gen_12_a_connect_ends_in_time() {
    let node = node(2).await;
    let clients = [native(&node, 0).await, native(&node, 1).await];
    let late = clients[0].connect([node.job()]).timeout(Duration::from_secs(1));
    let error = within(late.into_future()).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let fences = clients.iter().map(|client| client.fence_all().into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
}
