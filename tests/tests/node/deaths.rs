//! Ends that nobody wished for: of processes, and of jobs that could not start.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pmix_client::types::{App, DataRange, Event, Status, keys};
use pmix_client::{Nspace, ProcId, Rank};
use pmix_server::async_trait;
use pmix_server::standard::{
    JobReport, JobStart, LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange, OnFailure, ProcExit,
    StandardHost,
};
use pmix_tests::{TestNode, within};
use tokio::sync::mpsc;

/// Pretends to launch: the test plays the processes.
#[derive(Clone, Debug, Default)]
struct Pretender {
    reports: Arc<Mutex<Option<mpsc::Sender<LaunchReport>>>>,
    /// Has ended, and its end is not reported yet.
    dead: Option<ProcId>,
}

#[async_trait]
impl Launcher for Pretender {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(&self, _: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        *self.reports.lock().unwrap() = Some(reports);
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }

    fn has_ended(&self, proc: &ProcId) -> bool {
        self.dead.as_ref() == Some(proc)
    }
}

#[tokio::test]
async fn evt_20_a_death_is_announced_once() {
    const MARK: Status = Status::from_raw(-4242);
    let launcher = Pretender::default();
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).host(host.clone()).start().await;
    let nspace = Nspace::new("mortal").unwrap();
    let start = JobStart::new(nspace.clone(), vec![App::new("none", 2)]).on_failure(OnFailure::Continue);
    let mut job = within(host.start_job(start)).await.unwrap();
    let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
    let (witness, victim) = (node.connect(&proc(0)).await.unwrap(), node.connect(&proc(1)).await.unwrap());
    let mut events = within(witness.events([])).await.unwrap();
    drop(victim);
    let first = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(first.code, Status::ERR_PROC_TERM_WO_SYNC);

    let reports = launcher.reports.lock().unwrap().clone().unwrap();
    reports.send(LaunchReport::Ended { proc: proc(1), exit: ProcExit::Signal(9) }).await.unwrap();
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
    let nspace = Nspace::new("mortal").unwrap();
    let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
    let launcher = Pretender { dead: Some(proc(1)), ..Pretender::default() };
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).host(host.clone()).start().await;
    let start = JobStart::new(nspace.clone(), vec![App::new("none", 2)]);
    let mut job = within(host.start_job(start)).await.unwrap();
    let (aborter, _dead) = (node.connect(&proc(0)).await.unwrap(), node.connect(&proc(1)).await.unwrap());
    let mut events = within(aborter.events([])).await.unwrap();
    within(async { aborter.abort(14, "").await }).await.unwrap();
    let event = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(event.code, Status::ERR_PROC_TERM_WO_SYNC);
    // lost first, as far as servers can see
    drop(aborter);

    let reports = launcher.reports.lock().unwrap().clone().unwrap();
    for (rank, exit) in [(0, ProcExit::Code(14)), (1, ProcExit::Signal(9))] {
        reports.send(LaunchReport::Ended { proc: proc(rank), exit }).await.unwrap();
    }
    let outcome = loop {
        if let JobReport::Done(outcome) = within(job.next_report()).await.unwrap() {
            break outcome;
        }
    };
    assert_eq!(outcome.exit_code, 137);
    assert_eq!(outcome.first_failure, Some((proc(1), ProcExit::Signal(9))));
}

/// Nobody was dead: it is the abort that ends the job, whatever becomes of the others then.
#[tokio::test]
async fn abt_01_an_abort_among_the_living_gives_its_status() {
    let nspace = Nspace::new("mortal").unwrap();
    let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
    // the aborter's own end is no cause of its abort
    let launcher = Pretender { dead: Some(proc(0)), ..Pretender::default() };
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).host(host.clone()).start().await;
    let start = JobStart::new(nspace.clone(), vec![App::new("none", 2)]);
    let mut job = within(host.start_job(start)).await.unwrap();
    let (aborter, _other) = (node.connect(&proc(0)).await.unwrap(), node.connect(&proc(1)).await.unwrap());
    within(async { aborter.abort(14, "").await }).await.unwrap();
    let reports = launcher.reports.lock().unwrap().clone().unwrap();
    for (rank, exit) in [(1, ProcExit::Signal(9)), (0, ProcExit::Code(1))] {
        reports.send(LaunchReport::Ended { proc: proc(rank), exit }).await.unwrap();
    }
    let outcome = loop {
        if let JobReport::Done(outcome) = within(job.next_report()).await.unwrap() {
            break outcome;
        }
    };
    assert_eq!(outcome.exit_code, 14);
}

/// Starts no process of the first job, and pretends to start all others.
#[derive(Debug, Default)]
struct FailsOnce {
    has_failed: AtomicBool,
    reports: Mutex<Vec<mpsc::Sender<LaunchReport>>>,
}

#[async_trait]
impl Launcher for FailsOnce {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into(), "n1".into()]
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            let proc = ProcId::new(job.nspace, job.procs[0].rank);
            return Err(LaunchError::new(proc, "n0", "none", "no such program"));
        }
        self.reports.lock().unwrap().push(reports);
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

#[tokio::test]
async fn hst_04_a_job_that_cannot_start_leaves_nothing_on_any_node() {
    let hosts = StandardHost::cluster(FailsOnce::default(), MemoryExchange::cluster(["n0", "n1"]));
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
    let error = within(hosts[0].start_job(start())).await.unwrap_err();
    assert!(error.to_string().contains("no such program"), "{error}");
    for (node, before) in nodes.iter().zip(&before) {
        assert_eq!(content(node), *before);
        let unknown = node.handle().job_data(&nspace).await.unwrap_err();
        assert_eq!(unknown.status, Status::ERR_INVALID_NAMESPACE);
        for rank in 0..2 {
            let refused = node.connect(&ProcId::new(nspace.clone(), Rank::from_raw(rank))).await;
            assert!(refused.is_err(), "nobody of the job is let in any more");
        }
    }
    assert_eq!(hosts[0].process_table(&nspace), []);
    // nothing of the first is in its way
    let _job = within(hosts[0].start_job(start())).await.unwrap();
    for (rank, node) in (0..).zip(&nodes) {
        node.connect(&ProcId::new(nspace.clone(), Rank::from_raw(rank))).await.unwrap();
    }
}

#[tokio::test]
async fn a_job_does_not_take_the_name_of_one_that_somebody_else_has_registered() {
    let host = StandardHost::new(Pretender::default(), MemoryExchange::single("n0"));
    let node = TestNode::builder(1).host(host.clone()).start().await;
    let start = JobStart::new(node.nspace().clone(), vec![App::new("none", 3)]);
    let error = within(host.start_job(start)).await.unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    let client = node.client(0).await;
    assert_eq!(within(client.get::<u32>(node.job(), &keys::JOB_SIZE)).await.unwrap(), 1);
}
