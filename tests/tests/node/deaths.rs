//! What the processes of a job hear of a death.

use std::sync::{Arc, Mutex};

use pmix_client::types::{App, DataRange, Event, Status};
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
struct Pretender(Arc<Mutex<Option<mpsc::Sender<LaunchReport>>>>);

#[async_trait]
impl Launcher for Pretender {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(&self, _: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        *self.0.lock().unwrap() = Some(reports);
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

    let reports = launcher.0.lock().unwrap().clone().unwrap();
    reports.send(LaunchReport::Ended { proc: proc(1), exit: ProcExit::Signal(9) }).await.unwrap();
    // told after a second announcement would have been sent
    while !matches!(within(job.next_report()).await.unwrap(), JobReport::Failed { .. }) {}
    let mark = Event::new(MARK, witness.proc_id().clone()).with_range(DataRange::GLOBAL);
    within(witness.notify(mark)).await.unwrap();
    let next = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(next.code, MARK, "the end of the process is no second death");
}
