//! Ends that nobody wished for: of processes, and of jobs that could not start.

use std::collections::BTreeSet;

use pmix_client::Nspace;
use pmix_client::types::{App, DataRange, Event, Status, keys};
use pmix_host::{JobOutcome, JobReport, JobStart, MemoryExchange, ProcExit, RunningJob, StandardHost};
use pmix_tests::{TestLauncher, TestNode, proc, within};

async fn outcome(job: &mut RunningJob) -> JobOutcome {
    loop {
        if let JobReport::Done(outcome) = within(job.next_report()).await.unwrap() {
            return outcome;
        }
    }
}

#[tokio::test]
async fn evt_20_a_death_is_announced_once() {
    const MARK: Status = Status::from_raw(-4242);
    let launcher = TestLauncher::new("n0");
    let (node, _host, mut job) = launcher.node("mortal", 2).await;
    let witness = node.connect(&proc("mortal", 0)).await.unwrap();
    let victim = node.connect(&proc("mortal", 1)).await.unwrap();
    let mut events = within(witness.events([])).await.unwrap();
    drop(victim);
    let first = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(first.code, Status::ERR_PROC_TERM_WO_SYNC);

    launcher.end(&proc("mortal", 1), ProcExit::Signal(9)).await;
    // told after a second announcement would have been sent
    while !matches!(within(job.next_report()).await.unwrap(), JobReport::Failed { .. }) {}
    let mark = Event::new(MARK, witness.proc_id().clone()).with_range(DataRange::GLOBAL);
    within(witness.notify(mark)).await.unwrap();
    let next = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(next.code, MARK, "the end of the process is no second death");
}

/// The connections of both may break at once, on two nodes: only the launcher knows who was dead when the other called
/// abort, as MPI libraries do when the connection to a peer breaks.
#[tokio::test]
async fn an_abort_after_a_death_that_nobody_has_told_of_yet_is_its_effect() {
    let launcher = TestLauncher::new("n0");
    let (node, _host, mut job) = launcher.node("mortal", 2).await;
    let aborter = node.connect(&proc("mortal", 0)).await.unwrap();
    let _dead = node.connect(&proc("mortal", 1)).await.unwrap();
    let mut events = within(aborter.events([])).await.unwrap();
    launcher.end_unseen(&proc("mortal", 1));
    within(async { aborter.abort(14, "").await }).await.unwrap();
    let event = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(event.code, Status::ERR_PROC_TERM_WO_SYNC);
    // lost first, as far as servers can see
    let upcalls = node.stats().await.upcalls;
    drop((aborter, events));
    node.until(|stats| stats.upcalls > upcalls).await;
    launcher.end(&proc("mortal", 1), ProcExit::Signal(9)).await;
    let outcome = outcome(&mut job).await;
    assert_eq!(outcome.exit_code, 137);
    assert_eq!(outcome.first_failure, Some((proc("mortal", 1), ProcExit::Signal(9))));
}

/// Nobody else was dead: it is the abort that ends the job, whatever becomes of the others then.
#[tokio::test]
async fn abt_01_an_abort_among_the_living_gives_its_status() {
    let launcher = TestLauncher::new("n0");
    let (node, _host, mut job) = launcher.node("mortal", 3).await;
    let mut clients = Vec::new();
    for rank in 0..3 {
        clients.push(node.connect(&proc("mortal", rank)).await.unwrap());
    }
    // those that have finalized may end as they like, and so may the aborter
    within(clients.remove(1).finalize()).await.unwrap();
    launcher.end_unseen(&proc("mortal", 0));
    launcher.end_unseen(&proc("mortal", 1));
    within(async { clients[0].abort(14, "").await }).await.unwrap();
    launcher.end(&proc("mortal", 1), ProcExit::Code(0)).await;
    launcher.end(&proc("mortal", 0), ProcExit::Code(1)).await;
    assert_eq!(outcome(&mut job).await.exit_code, 14);
}

#[tokio::test]
async fn hst_04_a_job_that_cannot_start_leaves_nothing_on_any_node() {
    let launcher = TestLauncher::on(["n0", "n1"]);
    let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(["n0", "n1"]));
    let mut nodes = Vec::new();
    for (name, host) in ["n0", "n1"].into_iter().zip(&hosts) {
        nodes.push(TestNode::builder(0).hostname(name).host(host.clone()).start().await);
    }
    let content = |node: &TestNode| {
        let names = std::fs::read_dir(node.handle().session_dir()).unwrap();
        names.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
    };
    let before: Vec<_> = nodes.iter().map(content).collect();
    let nspace = Nspace::new("wanted").unwrap();
    let start = || JobStart::new(nspace.clone(), vec![App::new("none", 2)]);
    launcher.fail_next();
    let error = within(hosts[0].start_job(start())).await.unwrap_err();
    assert!(error.to_string().contains("no such program"), "{error}");
    for (node, before) in nodes.iter().zip(&before) {
        assert_eq!(content(node), *before);
        let unknown = node.handle().job_data(&nspace).await.unwrap_err();
        assert_eq!(unknown.status, Status::ERR_INVALID_NAMESPACE);
        for rank in 0..2 {
            let refused = node.connect(&proc("wanted", rank)).await;
            assert!(refused.is_err(), "nobody of the job is let in any more");
        }
    }
    assert_eq!(hosts[0].process_table(&nspace), []);
    // nothing of the first is in its way
    let _job = within(hosts[0].start_job(start())).await.unwrap();
    for (rank, node) in (0..).zip(&nodes) {
        node.connect(&proc("wanted", rank)).await.unwrap();
    }
}

#[tokio::test]
async fn a_host_starts_no_processes_where_it_has_no_server() {
    for (far, exchange, why) in [
        ("n1", ["n0", "n1"], "StandardHost::cluster"),
        ("vm-1", ["n0", "n1"], "must use the same names of nodes"),
    ] {
        let launcher = TestLauncher::on(["n0", far]);
        let exchange = MemoryExchange::cluster(exchange).remove(0);
        let host = StandardHost::new(launcher.clone(), exchange);
        let _node = launcher.node_of(host.clone()).await;
        let start = JobStart::new(Nspace::new("wide").unwrap(), vec![App::new("none", 2)]);
        let error = within(host.start_job(start)).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        let message = error.to_string();
        assert!(message.contains(&format!("node {far} ")) && message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_job_does_not_take_the_name_of_one_that_somebody_else_has_registered() {
    let host = StandardHost::new(TestLauncher::new("n0"), MemoryExchange::single("n0"));
    let node = TestNode::builder(1).host(host.clone()).start().await;
    let start = JobStart::new(node.nspace().clone(), vec![App::new("none", 3)]);
    let error = within(host.start_job(start)).await.unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    let client = node.client(0).await;
    assert_eq!(within(client.get::<u32>(node.job(), &keys::JOB_SIZE)).await.unwrap(), 1);
}
