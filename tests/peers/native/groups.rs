//! Groups of processes that use `pmix-client` and processes linked with the C library.

use std::future::IntoFuture;
use std::path::Path;
use std::process::Command;

use futures::StreamExt;
use futures::future::{self, join_all};
use pmix_client::types::Status;
use pmix_client::{Client, Error, EventStream, Group, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::NativeWire;
use pmix_tests::{NullLauncher, Peer, Running, TestNode, within};

/// Job `job` of four on one node, of which ranks 0 and 1 are here and the others are to be in C.
struct Rig {
    node: TestNode,
    rust: Vec<Client>,
}

impl Rig {
    async fn start() -> Self {
        let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::builder(4).host(host).server(|server| server.native_wire(NativeWire::On));
        let node = node.start().await;
        let rust = vec![node.client(0).await, node.client(1).await];
        Self { node, rust }
    }

    async fn c(&self, program: &Path, rank: u32, acts: &str) -> Running {
        let mut command = Command::new(program);
        self.node.handle().setup_fork(&self.node.proc(rank)).await.unwrap().apply(&mut command);
        command.args(acts.split_whitespace());
        Running::start(command)
    }

    fn is_of(&self, group: &Group, ranks: &[u32]) {
        assert_eq!(group.members, ranks.iter().map(|rank| self.node.proc(*rank)).collect::<Vec<_>>());
    }
}

/// Ends well, and has said all of this.
async fn ended(process: Running, said: &[&str]) {
    let (status, out, err) = process.end().await;
    assert!(status.success(), "{status} {out}{err}");
    for line in said.iter().chain(&["left"]) {
        assert!(out.lines().any(|found| found == *line), "{line:?} is not in {out}{err}");
    }
}

/// What the library tells its program of a group of all. Before 5.0 it does not name the members; 5.0.11 names them in an
/// order of its own.
fn told(library: Peer) -> Vec<&'static str> {
    let mut said = vec!["made g: 0"];
    said.extend(matches!(library, Peer::Libpmix5).then_some("members job:0 job:1 job:2 job:3"));
    said
}

async fn construct_fence_and_end(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let acts = "construct g job:3,job:0,job:2,job:1 fence g destruct g";
    let c = [rig.c(&program, 2, acts).await, rig.c(&program, 3, acts).await];
    let order = [3, 0, 2, 1].map(|rank| rig.node.proc(rank));
    let made = rig.rust.iter().map(|client| client.group_construct("g", order.clone()).into_future());
    let groups: Vec<Group> = within(join_all(made)).await.into_iter().map(Result::unwrap).collect();
    groups.iter().for_each(|group| rig.is_of(group, &[3, 0, 2, 1]));
    let fences = groups.iter().zip(&rig.rust).map(|(group, client)| client.fence(group.all()).into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
    let ended_here = groups.iter().map(|group| group.destruct().into_future());
    within(join_all(ended_here)).await.into_iter().for_each(Result::unwrap);
    for process in c {
        ended(process, &told(library)).await;
    }
}

#[tokio::test]
async fn grp_01_grp_09_libpmix_and_rust_make_and_end_a_group() {
    construct_fence_and_end(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_01_grp_09_libpmix_5_and_rust_make_and_end_a_group() {
    construct_fence_and_end(Peer::Libpmix5).await;
}

/// A leader here and two in C, which add a process here. The libraries refuse to construct a group of no processes, so that
/// those in C lead.
async fn bootstrap(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let c = [
        rig.c(&program, 2, "bootstrap g 3 job:1 fence g destruct g").await,
        rig.c(&program, 3, "added g bootstrap g 3 job:1,job:2 fence g destruct g").await,
    ];
    let leads = rig.rust[0].group_bootstrap("g", 3).add_members([rig.node.proc(3)]).into_future();
    let added = rig.rust[1].group_join_bootstrap("g").into_future();
    let made = within(join_all([leads, added])).await;
    let groups: Vec<Group> = made.into_iter().map(Result::unwrap).collect();
    for group in &groups {
        rig.is_of(group, &[0, 2, 3, 1]);
        assert!(group.context_id.is_some(), "what one leader asks for holds for all");
    }
    let fences = groups.iter().zip(&rig.rust).map(|(group, client)| client.fence(group.all()).into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
    let ended_here = groups.iter().map(|group| group.destruct().into_future());
    within(join_all(ended_here)).await.into_iter().for_each(Result::unwrap);
    for (process, first) in c.into_iter().zip([None, Some("made g: -27")]) {
        let mut said = told(library);
        said.push("number");
        said.extend(first);
        ended(process, &said).await;
    }
}

#[tokio::test]
async fn grp_02_leaders_in_rust_and_libpmix_make_a_group_and_add_a_process() {
    bootstrap(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_02_leaders_in_rust_and_libpmix_5_make_a_group_and_add_a_process() {
    bootstrap(Peer::Libpmix5).await;
}

/// Leaders in C that contradict each other, or that are not as many as they say, are told.
async fn refused(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let c = [rig.c(&program, 2, "bootstrap g 3 -").await, rig.c(&program, 3, "bootstrap h 0 -").await];
    rig.node.until_waiting(2).await;
    let error = within(rig.rust[0].group_bootstrap("g", 2).into_future()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    for (process, said) in c.into_iter().zip(["made g: -27", "made h: -27"]) {
        let (status, out, err) = process.end().await;
        assert!(status.success(), "{out}{err}");
        assert!(out.lines().any(|line| line == said), "{out}{err}");
    }
}

#[tokio::test]
async fn grp_02_leaders_in_libpmix_that_contradict_others_are_refused() {
    refused(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_02_leaders_in_libpmix_5_that_contradict_others_are_refused() {
    refused(Peer::Libpmix5).await;
}

/// A member in C leaves, and those here hear of it. libpmix 5.0.11 crashes in `PMIx_Group_leave` when a server lets it
/// leave; its own server answers NOT_SUPPORTED.
async fn leave(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let mut events: EventStream =
        within(rig.rust[0].events([Status::GROUP_LEFT]).into_future()).await.unwrap();
    let c = rig.c(&program, 2, "construct g job:0,job:2 leave g").await;
    let procs = [rig.node.proc(0), rig.node.proc(2)];
    let group = within(rig.rust[0].group_construct("g", procs).into_future()).await.unwrap();
    let left = within(events.next()).await.unwrap();
    assert_eq!(left.unwrap().source, rig.node.proc(2));
    ended(c, &["leave done"]).await;
    within(group.destruct().into_future()).await.unwrap();
}

#[tokio::test]
async fn grp_10_a_member_in_libpmix_leaves_a_group_with_rust() {
    leave(Peer::Libpmix).await;
}

/// Has heard of an invitation, and accepts.
async fn accepts(client: &Client, mut invitations: EventStream) -> Result<Group, Error> {
    let event = within(invitations.next()).await.unwrap().unwrap();
    assert_eq!(event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
    client.group_join("g", event.source.clone()).await
}

/// A leader here, a member here, and two in C, which answer by events that do not name the group.
async fn invite(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let mut c = [
        rig.c(&program, 2, "listen g join g fence g").await,
        rig.c(&program, 3, "listen g join g fence g").await,
    ];
    for process in &mut c {
        process.line_with("listen done").await;
    }
    let invitations = within(rig.rust[1].events([Status::GROUP_INVITED]).into_future()).await.unwrap();
    let procs = [3, 0, 2, 1].map(|rank| rig.node.proc(rank));
    let leads = rig.rust[0].group_invite("g", procs).assign_context_id().into_future();
    let (led, joined) = within(future::join(leads, accepts(&rig.rust[1], invitations))).await;
    let groups = [led.unwrap(), joined.unwrap()];
    groups.iter().for_each(|group| rig.is_of(group, &[3, 0, 2, 1]));
    let fences = groups.iter().zip(&rig.rust).map(|(group, client)| client.fence(group.all()).into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
    for process in c {
        ended(process, &["invited by job:0", "join done", "fence done"]).await;
    }
}

#[tokio::test]
async fn grp_03_a_rust_leader_invites_members_in_libpmix() {
    invite(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_03_a_rust_leader_invites_members_in_libpmix_5() {
    invite(Peer::Libpmix5).await;
}

/// A leader in C, whose library counts the answers, with members here and one in C.
async fn is_invited(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let mut c = rig.c(&program, 2, "listen g join g fence g").await;
    c.line_with("listen done").await;
    let mut members = Vec::new();
    for client in &rig.rust {
        let invitations = within(client.events([Status::GROUP_INVITED]).into_future()).await.unwrap();
        members.push(accepts(client, invitations));
    }
    let leader = rig.c(&program, 3, "invite g job:3,job:0,job:2,job:1 fence g").await;
    let groups: Vec<Group> = within(join_all(members)).await.into_iter().map(Result::unwrap).collect();
    groups.iter().for_each(|group| rig.is_of(group, &[3, 0, 2, 1]));
    let fences = groups.iter().zip(&rig.rust).map(|(group, client)| client.fence(group.all()).into_future());
    within(join_all(fences)).await.into_iter().for_each(Result::unwrap);
    ended(leader, &["invite done", "fence done"]).await;
    ended(c, &["invited by job:3", "join done", "fence done"]).await;
}

#[tokio::test]
async fn grp_03_a_leader_in_libpmix_invites_rust_members() {
    is_invited(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_03_a_leader_in_libpmix_5_invites_rust_members() {
    is_invited(Peer::Libpmix5).await;
}

/// A member in C declines what a leader here asks: the leader hears of it, and a member in C that has accepted, too.
async fn is_declined(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let mut accepts = rig.c(&program, 2, "listen g join g").await;
    accepts.line_with("listen done").await;
    let procs = [0, 2, 3].map(|rank| rig.node.proc(rank));
    let leads = within(rig.rust[0].group_invite("g", procs).into_future());
    let declines = async {
        // the leader and the one that accepts; the invitation is kept for who listens later
        rig.node.until_waiting(2).await;
        rig.c(&program, 3, "listen g decline g").await
    };
    let (led, declines) = future::join(leads, declines).await;
    let error = led.unwrap_err();
    assert_eq!(error.status(), Status::GROUP_CONSTRUCT_ABORT, "{error}");
    assert!(error.to_string().contains("job:3 has declined"), "{error}");
    ended(declines, &["invited by job:0", "decline done"]).await;
    let (status, out, err) = accepts.end().await;
    assert_eq!(status.code(), Some(3), "{out}{err}");
    assert!(err.starts_with("join: "), "{out}{err}");
}

#[tokio::test]
async fn grp_03_a_member_in_libpmix_declines_what_a_rust_leader_asks() {
    is_declined(Peer::Libpmix).await;
}

#[tokio::test]
async fn grp_03_a_member_in_libpmix_5_declines_what_a_rust_leader_asks() {
    is_declined(Peer::Libpmix5).await;
}

/// A leader in C that ends before its group is complete: who accepts here waits for another leader in vain, or not at all.
async fn loses_its_leader(library: Peer) {
    let Some(program) = library.program("pmix_group") else { return };
    let rig = Rig::start().await;
    let invitations = within(rig.rust[0].events([Status::GROUP_INVITED]).into_future()).await.unwrap();
    let mut others: EventStream =
        within(rig.rust[1].events([Status::GROUP_INVITED]).into_future()).await.unwrap();
    let leader = rig.c(&program, 3, "invite g job:3,job:0,job:1").await;
    within(others.next()).await.unwrap().unwrap();
    leader.kill();
    let error = within(accepts(&rig.rust[0], invitations)).await.unwrap_err();
    // before its server knows of the end of the leader, or after that
    let gone = [Status::GROUP_LEADER_FAILED, Status::GROUP_CONSTRUCT_ABORT];
    assert!(gone.contains(&error.status()), "{error}");
    let _ = leader.end().await;
}

#[tokio::test]
async fn grp_07_a_leader_in_libpmix_that_ends_leaves_nobody_waiting() {
    loses_its_leader(Peer::Libpmix).await;
}
