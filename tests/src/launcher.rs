use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pmix_client::types::App;
use pmix_client::{Nspace, ProcId};
use pmix_host::{
    JobStart, LaunchError, LaunchJob, LaunchReport, Launcher, Machine, MemoryExchange, OnFailure, ProcExit,
    RunningJob, StandardHost,
};
use tokio::sync::{mpsc, watch};

use crate::{TestNode, within};

/// Starts no process: those of its jobs are tasks of the test, and it remembers what is asked of it.
///
/// A signal 9 ends a process, and so does a wish to terminate.
#[derive(Clone, Debug)]
pub struct TestLauncher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    nodes: Vec<String>,
    /// By node, as far as they are known.
    machines: BTreeMap<String, Machine>,
    running: Mutex<BTreeMap<ProcId, mpsc::Sender<LaunchReport>>>,
    /// Those that have ended unseen.
    dead: Mutex<BTreeSet<ProcId>>,
    fails_next: AtomicBool,
    /// The node that is to leave as soon as a job was told that it is not.
    leaves: Mutex<Option<(String, bool)>>,
    lost: Mutex<BTreeSet<String>>,
    /// How many processes nodes take, where that is limited.
    slots: Mutex<BTreeMap<String, u32>>,
    asked: watch::Sender<Vec<Asked>>,
}

/// What a [`TestLauncher`] was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A signal for processes.
    Signal(Vec<ProcId>, i32),
    /// The end of processes.
    Terminate(Vec<ProcId>),
}

impl TestLauncher {
    /// A launcher for a node.
    pub fn new(node: &str) -> Self {
        Self::on([node])
    }

    /// A launcher for several nodes.
    pub fn on<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Self {
        Self::on_machines(nodes.into_iter().map(|node| (node, None)))
    }

    /// A launcher for several nodes with their machines.
    pub fn on_machines<'a>(nodes: impl IntoIterator<Item = (&'a str, Option<Machine>)>) -> Self {
        let nodes: Vec<_> = nodes.into_iter().map(|(node, machine)| (node.to_owned(), machine)).collect();
        let machines = nodes.iter().filter_map(|(node, machine)| Some((node.clone(), machine.clone()?)));
        let shared = Shared {
            machines: machines.collect(),
            nodes: nodes.into_iter().map(|(node, _)| node).collect(),
            running: Mutex::default(),
            dead: Mutex::default(),
            fails_next: AtomicBool::new(false),
            leaves: Mutex::default(),
            lost: Mutex::default(),
            slots: Mutex::default(),
            asked: watch::Sender::new(Vec::new()),
        };
        Self(Arc::new(shared))
    }

    /// Has it fail to launch the next job.
    pub fn fail_next(&self) {
        self.0.fails_next.store(true, Ordering::Relaxed);
    }

    /// Has this node take no jobs once somebody has heard that it does.
    pub fn leaves_meanwhile(&self, node: &str) {
        *self.0.leaves.lock().unwrap() = Some((node.to_owned(), false));
    }

    /// Has this node be lost.
    pub fn lose(&self, node: &str) {
        self.0.lost.lock().unwrap().insert(node.to_owned());
    }

    /// Has this node take so many processes at most.
    pub fn limit(&self, node: &str, slots: u32) {
        self.0.slots.lock().unwrap().insert(node.to_owned(), slots);
    }

    /// Ends a process without a word; [`end`](Self::end) reports it.
    pub fn end_unseen(&self, proc: &ProcId) {
        self.0.dead.lock().unwrap().insert(proc.clone());
    }

    /// What it was asked for so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.0.asked.borrow().clone()
    }

    /// Waits until it was asked for so much.
    pub async fn until_asked(&self, count: usize) -> Vec<Asked> {
        let mut asked = self.0.asked.subscribe();
        within(asked.wait_for(|asked| asked.len() >= count)).await.unwrap().clone()
    }

    /// Ends a process.
    pub async fn end(&self, proc: &ProcId, exit: ProcExit) {
        let reports = self.0.running.lock().unwrap().remove(proc);
        if let Some(reports) = reports {
            reports.send(LaunchReport::Ended { proc: proc.clone(), exit }).await.unwrap();
        }
    }

    /// A node under a [`StandardHost`] with this launcher and a job of so many ranks, which has started.
    pub async fn node(&self, nspace: &str, ranks: u32) -> (TestNode, StandardHost, RunningJob) {
        let host = StandardHost::new(self.clone(), MemoryExchange::single(&*self.0.nodes[0]));
        let node = self.node_of(host.clone()).await;
        let job = self.start(&host, nspace, ranks).await;
        (node, host, job)
    }

    /// The first node under this host, without a job.
    pub async fn node_of(&self, host: StandardHost) -> TestNode {
        TestNode::builder(0).nspace("registered").hostname(&self.0.nodes[0]).host(host).start().await
    }

    /// Starts a job of so many ranks.
    pub async fn start(&self, host: &StandardHost, nspace: &str, ranks: u32) -> RunningJob {
        let start = JobStart::new(Nspace::new(nspace).unwrap(), vec![App::new("program", ranks)]);
        within(host.start_job(start.on_failure(OnFailure::Continue))).await.unwrap()
    }
}

#[async_trait]
impl Launcher for TestLauncher {
    fn nodes(&self) -> Vec<String> {
        self.0.nodes.clone()
    }

    fn machine(&self, node: &str) -> Option<Machine> {
        self.0.machines.get(node).cloned()
    }

    fn slots(&self, node: &str) -> Option<u32> {
        self.0.slots.lock().unwrap().get(node).copied()
    }

    fn loss_reason(&self, node: &str) -> Option<String> {
        self.0.lost.lock().unwrap().contains(node).then(|| "it was switched off".to_owned())
    }

    fn is_draining(&self, node: &str) -> bool {
        match &mut *self.0.leaves.lock().unwrap() {
            Some((leaves, is_leaving)) if *leaves == node => std::mem::replace(is_leaving, true),
            _ => false,
        }
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        if self.0.fails_next.swap(false, Ordering::Relaxed) {
            let proc = &job.procs[0];
            let proc_id = ProcId::new(job.nspace, proc.rank);
            return Err(LaunchError::new(proc_id, &proc.node, "program", "there is no such program"));
        }
        for proc in job.procs {
            let proc = ProcId::new(job.nspace.clone(), proc.rank);
            self.0.running.lock().unwrap().insert(proc, reports.clone());
        }
        Ok(())
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        self.0.asked.send_modify(|asked| asked.push(Asked::Signal(procs.to_vec(), signal)));
        if signal == 9 {
            for proc in procs {
                self.end(proc, ProcExit::Signal(9)).await;
            }
        }
        Ok(())
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        self.0.asked.send_modify(|asked| asked.push(Asked::Terminate(procs.to_vec())));
        for proc in procs.iter().filter(|proc| !self.has_ended(proc)) {
            self.end(proc, ProcExit::Signal(15)).await;
        }
        Ok(())
    }

    fn has_ended(&self, proc: &ProcId) -> bool {
        self.0.dead.lock().unwrap().contains(proc)
    }
}
