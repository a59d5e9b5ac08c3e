//! Requests of PMI-1 at a server, by processes without a program.

use std::collections::BTreeMap;

use pmix_client::types::job::JobSpec;
use pmix_client::{Nspace, ProcId, Rank};
use pmix_pmi1::{Entry, Request, Response, Token};
use pmix_server::Pmi1Wire;
use pmix_server::types::{Info, keys};
use pmix_tests::{NullLauncher, Pmi1Session, TestNode, TestNodeBuilder, within};

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

fn builder(ranks: u32) -> TestNodeBuilder {
    let host = pmix_host::StandardHost::new(NullLauncher, pmix_host::MemoryExchange::single("n0"));
    TestNode::builder(ranks).host(host).server(|server| server.pmi1_wire(Pmi1Wire::Inherited))
}

async fn sessions(node: &TestNode, ranks: u32) -> Vec<Pmi1Session> {
    let mut sessions = Vec::new();
    for rank in 0..ranks {
        sessions.push(Pmi1Session::init(node, rank).await);
    }
    sessions
}

/// All enter the barrier of their job, and leave it.
async fn barrier(sessions: &mut [Pmi1Session]) {
    for session in &mut *sessions {
        session.say(&Request::BarrierIn.encode()).await;
    }
    for session in sessions {
        assert_eq!(session.answer().await, Some(Response::BarrierOut));
    }
}

#[tokio::test]
async fn a_process_learns_who_it_is_and_what_its_job_is() {
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1"]).unwrap();
    let spec = spec.proc_map("0-1;2-3").unwrap().session_info(&keys::UNIV_SIZE, 7_u32);
    let spec = spec.app_ranks(0, "0,2-3".parse().unwrap()).app_ranks(1, "1".parse().unwrap());
    let node = builder(0).job(spec, 0..2).start().await;
    let mut session = Pmi1Session::init(&node, 1).await;
    let answers = [
        (Request::GetMaxes, Response::MAXES),
        (Request::GetUniverseSize, Response::UniverseSize(7)),
        (Request::GetAppnum, Response::Appnum(1)),
        (Request::GetMyKvsname, Response::MyKvsname(token("job"))),
    ];
    for (request, answer) in answers {
        assert_eq!(session.ask(&request).await, answer, "{request:?}");
    }
    assert_eq!(session.get("PMI_process_mapping").await.as_deref(), Some("(vector,(0,2,2))"));
    let environment = node.handle().setup_fork(&node.proc(1)).await.unwrap();
    let told: BTreeMap<_, _> = environment.iter().filter(|(name, _)| name.contains("PMI_")).collect();
    assert_eq!(told, BTreeMap::from([("PMI_RANK", "1"), ("PMI_SIZE", "4")]));
    assert_eq!(session.ask(&Request::Finalize).await, Response::FinalizeAck);
}

#[tokio::test]
async fn values_are_found_whoever_has_put_them() {
    let node = builder(3).start().await;
    let mut sessions = sessions(&node, 3).await;
    for (rank, session) in sessions.iter_mut().enumerate() {
        session.put(&format!("card-{rank}"), &format!("#{rank}\\ $")).await;
    }
    barrier(&mut sessions).await;
    for session in &mut sessions {
        for rank in 0..3 {
            assert_eq!(session.get(&format!("card-{rank}")).await, Some(format!("#{rank}\\ $")));
        }
        assert_eq!(session.get("card-3").await, None, "nobody waits for it");
        let strange = Request::Get { kvsname: Some(token("other")), key: token("card-1") };
        assert!(matches!(session.ask(&strange).await, Response::Value(Err(_))));
    }
    // a value of a later round takes the place of the first
    sessions[1].put("card-1", "anew").await;
    barrier(&mut sessions).await;
    assert_eq!(sessions[2].get("card-1").await.as_deref(), Some("anew"));
}

#[tokio::test]
async fn values_are_numbered_one_process_after_the_other() {
    let preput = Info::dynamic("pmi1.PARENT".parse().unwrap(), "port");
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap();
    let node = builder(0).job(spec.proc_map("0-1").unwrap().raw(preput), 0..2).start().await;
    let mut sessions = sessions(&node, 2).await;
    sessions[1].put("b", "2").await;
    sessions[1].put("c", "3").await;
    sessions[0].put("a", "1").await;
    barrier(&mut sessions).await;
    let entry = |next, key, value| Response::Entry(Some(Entry::new(next, token(key), token(value))));
    let all = [entry(1, "PARENT", "port"), entry(2, "a", "1"), entry(3, "b", "2"), entry(4, "c", "3")];
    let by_index = |index| Request::GetByIndex { kvsname: None, index };
    for _ in 0..2 {
        for (index, expected) in (0..).zip(&all) {
            assert_eq!(&sessions[0].ask(&by_index(index)).await, expected);
        }
        assert_eq!(sessions[0].ask(&by_index(4)).await, Response::Entry(None));
    }
    for index in [3, 1, 1, 2] {
        assert_eq!(sessions[1].ask(&by_index(index)).await, all[usize::try_from(index).unwrap()]);
    }
}

#[tokio::test]
async fn a_spawned_job_finds_what_its_parent_has_put() {
    let preput = Info::dynamic("pmi1.PARENT_ROOT_PORT_NAME".parse().unwrap(), "tag#0$");
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap();
    let node = builder(0).job(spec.proc_map("0").unwrap().raw(preput), 0..1).start().await;
    let environment = node.handle().setup_fork(&node.proc(0)).await.unwrap();
    assert!(environment.iter().any(|pair| pair == ("PMI_SPAWNED", "1")));
    let mut session = Pmi1Session::init(&node, 0).await;
    assert_eq!(session.get("PARENT_ROOT_PORT_NAME").await.as_deref(), Some("tag#0$"));
}

#[tokio::test]
async fn fen_01_processes_of_pmi_1_and_of_ours_fence_and_read_each_others_values() {
    let node = builder(2).start().await;
    let mut theirs = Pmi1Session::init(&node, 0).await;
    let ours = node.client(1).await;
    theirs.put("card", "value").await;
    ours.put(pmix_client::Scope::GLOBAL, "pmi1.ours", "here").unwrap();
    ours.commit().await.unwrap();
    theirs.say(&Request::BarrierIn.encode()).await;
    within(ours.fence_all().collect_data().into_future()).await.unwrap();
    assert_eq!(theirs.answer().await, Some(Response::BarrierOut));
    let read: String = ours.get(node.proc(0), "pmi1.card").await.unwrap();
    assert_eq!((read.as_str(), theirs.get("ours").await.as_deref()), ("value", Some("here")));
}

#[tokio::test]
async fn names_are_published_looked_up_and_taken_back() {
    let node = builder(2).start().await;
    let mut sessions = sessions(&node, 2).await;
    let (service, port) = (token("ocean"), token("tag#0$connentry#AB$"));
    let lookup = Request::LookupName { service: service.clone() };
    assert!(matches!(sessions[1].ask(&lookup).await, Response::Port(Err(_))));
    let publish = Request::PublishName { service: service.clone(), port: port.clone() };
    assert_eq!(sessions[0].ask(&publish).await, Response::Published(Ok(())));
    assert!(matches!(sessions[0].ask(&publish).await, Response::Published(Err(_))), "it is taken");
    assert_eq!(sessions[1].ask(&lookup).await, Response::Port(Ok(port)));
    let unpublish = Request::UnpublishName { service };
    assert_eq!(sessions[0].ask(&unpublish).await, Response::Unpublished(Ok(())));
    assert!(matches!(sessions[1].ask(&lookup).await, Response::Port(Err(_))));
}

#[tokio::test]
async fn a_barrier_that_a_process_leaves_fails_for_the_others() {
    let node = builder(3).start().await;
    let mut sessions = sessions(&node, 3).await;
    for session in &mut sessions[..2] {
        session.say(&Request::BarrierIn.encode()).await;
    }
    node.until_waiting(2).await;
    drop(sessions.pop());
    for session in &mut sessions {
        let Some(Response::Failed { command, reason }) = session.answer().await else { panic!() };
        assert_eq!(command.as_str(), "barrier_failed", "no process takes it for a success");
        assert!(reason.as_str().contains("job"), "{reason}");
    }
}

/// It is its process that ends, not its socket: whoever has inherited that may live on.
#[tokio::test]
async fn a_process_that_ends_while_its_children_hold_the_socket_is_not_waited_for() {
    let node = builder(2).start().await;
    let mut sessions = sessions(&node, 2).await;
    sessions[0].say(&Request::BarrierIn.encode()).await;
    node.until_waiting(1).await;
    node.handle().client_ended(&node.proc(1), "exit code 1").await.unwrap();
    assert!(matches!(sessions[0].answer().await, Some(Response::Failed { .. })));
}

#[tokio::test]
async fn a_process_may_begin_anew_on_its_socket() {
    let node = builder(1).start().await;
    let mut session = Pmi1Session::of(&node, 0).await;
    for times in 1..=3 {
        let init = Request::Init { version: 1, subversion: 1 };
        assert_eq!(session.ask(&init).await, Response::Init { version: 1, subversion: 1, rc: 0 });
        assert_eq!(session.ask(&init).await, Response::Init { version: 1, subversion: 1, rc: 0 });
        assert_eq!(node.stats().await.connections, times, "the second init is none");
        barrier(std::slice::from_mut(&mut session)).await;
        assert_eq!(session.ask(&Request::Finalize).await, Response::FinalizeAck);
    }
}

#[tokio::test]
async fn a_socket_that_nobody_uses_costs_no_connection_and_ends_with_its_job() {
    let node = builder(1).start().await;
    let other = JobSpec::new("other".parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0").unwrap();
    node.add_job(other, [0]).await;
    let proc = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(0));
    let mut unused = Pmi1Session::of_proc(&node, &proc).await;
    let mut used = Pmi1Session::of_proc(&node, &proc).await;
    used.line("cmd=init pmi_version=1 pmi_subversion=1").await;
    let mut of_other_job = Pmi1Session::init(&node, 0).await;
    assert_eq!(node.stats().await.connections, 2);
    node.handle().deregister_nspace(&proc.nspace).await.unwrap();
    assert_eq!((unused.answer().await, used.answer().await), (None, None));
    assert_eq!(of_other_job.ask(&Request::GetMaxes).await, Response::MAXES);
}

#[tokio::test]
async fn processes_of_another_version_are_told_so() {
    let node = builder(1).start().await;
    let mut session = Pmi1Session::of(&node, 0).await;
    let answer = session.line("cmd=init pmi_version=2 pmi_subversion=0").await;
    assert_eq!(answer, Response::Init { version: 1, subversion: 1, rc: -1 });
    let answer = session.line("cmd=init pmi_version=1 pmi_subversion=0").await;
    assert_eq!(answer, Response::Init { version: 1, subversion: 1, rc: 0 });
}

#[tokio::test]
async fn a_job_without_a_host_exchanges_values_but_spawns_nothing() {
    let node = TestNode::builder(1).server(|server| server.pmi1_wire(Pmi1Wire::Inherited)).start().await;
    let mut session = Pmi1Session::init(&node, 0).await;
    session.put("a", "1").await;
    assert_eq!(session.get("a").await.as_deref(), Some("1"));
    let spawn = pmix_pmi1::SpawnRequest::new(vec![pmix_pmi1::SpawnApp::new("true", 1)]);
    let Response::Spawned(Err(reason)) = session.ask(&Request::Spawn(spawn)).await else { panic!() };
    assert!(reason.as_str().contains("NOT_SUPPORTED"), "{reason:?}");
}
