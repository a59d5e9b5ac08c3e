//! What a host does as the client of its own server, among processes in C and in Rust that it has started itself.

use pmix_client::types::{App, DataRange, Query, Status};
use pmix_client::{ProcId, Rank, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::NativeWire;
use pmix_tests::{Peer, TestNode, rank_program, within};
use rustix::process::{Pid, Signal, kill_process};

/// An event of our own, as the C program spells its number.
const CODE: Status = Status::from_raw(-3005);
const CODE_TEXT: &str = "-3005";

async fn works_with_what_it_has_started(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let host = StandardHost::new(LocalLauncher::simulating(["n0"]), MemoryExchange::single("n0"));
    let node = TestNode::builder(1).host(host).server(|server| server.native_wire(NativeWire::On));
    let node = node.start().await;
    let (handle, client) = (node.handle(), node.handle().client());
    let mut said = within(client.events([CODE])).await.unwrap();
    let mut deaths = within(client.events([Status::EVENT_PROC_TERMINATED])).await.unwrap();
    let mut ends = within(client.events([Status::EVENT_JOB_END])).await.unwrap();

    let said_by_c =
        ["put", "41", "listen", CODE_TEXT, "notify", CODE_TEXT, "from C", "hear", "lookup", "for-all"];
    let in_c = App::new(program.to_str().unwrap(), 1).args(said_by_c);
    let blocked = App::new(rank_program().to_str().unwrap(), 1).args(["publish", "of-rust", "from Rust"]);
    let job = within(client.spawn([in_c, blocked]).notify_completion()).await.unwrap();
    let (c, rust) =
        (ProcId::new(job.clone(), Rank::from_raw(0)), ProcId::new(job.clone(), Rank::from_raw(1)));

    // it waits for what is put, as any process does
    assert_eq!(within(client.get::<u32>(&c, "k")).await.unwrap(), 41);
    assert_eq!(within(client.get(ProcId::wildcard(job.clone()), keys::JOB_SIZE)).await.unwrap(), 2);
    assert_eq!(within(client.get(&c, keys::PARENT_ID)).await.unwrap(), *handle.proc_id());
    let found = within(client.lookup(["of-rust"]).range(DataRange::GLOBAL).wait_all()).await.unwrap();
    assert_eq!(found.publisher("of-rust"), Some(&rust));
    let peers = within(client.resolve_peers(None, Some(&job))).await.unwrap();
    assert_eq!(peers, [c.clone(), rust.clone()]);
    let names = within(client.query([Query::new(keys::QUERY_NAMESPACES)])).await.unwrap();
    let names: String = names.get(keys::QUERY_NAMESPACES).unwrap().unwrap();
    assert!(names.split(',').any(|name| name == job.as_str()), "{names}");

    // what is said among processes comes to their server
    let heard = within(said.recv()).await.unwrap();
    assert_eq!((heard.source, heard.code), (c.clone(), CODE));
    // it lets the process in C go on, which then finds what the host has published
    within(client.notify(CODE).custom_range(&c)).await.unwrap();
    assert_eq!(within(said.recv()).await.unwrap().source, *handle.proc_id());
    within(client.publish().data("for-all", "from the host")).await.unwrap();
    let ended = within(deaths.recv()).await.unwrap();
    assert_eq!(ended.affected_procs(), [c]);
    assert_eq!(ended.info.get(&keys::EXIT_CODE).unwrap(), Some(0));
    let pid = handle.looks(&[rust]).await[0].pid.0;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let end = within(ends.recv()).await.unwrap();
    assert_eq!(end.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(job.as_str()));

    within(client.unpublish(["for-all"])).await.unwrap();
    assert_eq!(within(client.lookup(["for-all"])).await.unwrap_err().status, Status::ERR_NOT_FOUND);
}

#[tokio::test]
async fn ini_01c_a_host_works_as_a_client_with_processes_of_both_wires() {
    works_with_what_it_has_started(Peer::Libpmix).await;
}

#[tokio::test]
async fn ini_01c_a_host_works_as_a_client_with_processes_of_libpmix_5() {
    works_with_what_it_has_started(Peer::Libpmix5).await;
}
