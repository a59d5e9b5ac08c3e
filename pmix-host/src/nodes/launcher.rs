//! Starts jobs on several nodes: each starts its own part.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use pmix_server::host::{HostError, HostResult};
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, Status};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::remote::order_within;
use crate::binding::{BindRequest, Bound};
use crate::internode::{Order, PeerReply, ProcToLaunch, Site};
use crate::user::lock;
use crate::{LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher, Machine, ProcExit};

/// How long a node may take to start its part of a job.
const LAUNCHING: Duration = Duration::from_secs(60);
/// How long a node may take to signal or end processes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a node may take to tell which processes have ended: a caller of abort waits for it.
const LOOKING: Duration = Duration::from_millis(500);

/// A node that jobs run on, of several with one head.
///
/// # Examples
/// ```
/// use pmix_host::{Machine, Member};
///
/// let node = Member::new("n1", Machine::new("rack-2-7", 64)).slots(8);
/// assert_eq!((node.name.as_str(), node.slots), ("n1", Some(8)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The machine it is on.
    pub machine: Machine,
    /// How many processes of a job it takes; `None` for any number.
    pub slots: Option<u32>,
}

impl Member {
    /// A node that takes any number of processes.
    pub fn new(name: impl Into<String>, machine: Machine) -> Self {
        Self { name: name.into(), machine, slots: None }
    }

    /// Sets how many processes of a job it takes.
    #[must_use]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }
}

/// The launcher of a head. All clones share their state.
#[derive(Clone)]
pub(crate) struct NodesLauncher {
    /// Starts processes on the node of the head.
    local: Arc<dyn Launcher>,
    site: Arc<Site>,
    /// All nodes that jobs run on, in the order in which they are filled.
    members: Arc<Mutex<Vec<Member>>>,
    /// How many nodes the exchange had first.
    first: usize,
    /// Those that are to leave.
    draining: Arc<Mutex<BTreeSet<String>>>,
    running: Arc<Mutex<HashMap<Nspace, Running>>>,
    /// Nodes that are lost, with reasons.
    lost: Arc<Mutex<BTreeMap<String, String>>>,
}

/// The processes of a job that other nodes start.
struct Running {
    reports: mpsc::Sender<LaunchReport>,
    /// Those of each node whose end has not been reported.
    left: BTreeMap<String, BTreeSet<ProcId>>,
}

impl NodesLauncher {
    pub(crate) fn new(local: Arc<dyn Launcher>, site: Arc<Site>, members: Vec<Member>) -> Self {
        Self {
            first: site.order().len(),
            local,
            site,
            members: Arc::new(Mutex::new(members)),
            draining: Arc::default(),
            running: Arc::default(),
            lost: Arc::default(),
        }
    }

    fn member(&self, node: &str) -> Option<Member> {
        lock(&self.members).iter().find(|member| member.name == node).cloned()
    }

    /// Another node takes jobs, or one that was lost is back. Those that are added are filled after the first ones, in the order in
    /// which the exchange has them, whichever is ready first.
    pub(crate) fn add(&self, member: Member) {
        self.remove(&member.name);
        let order = self.site.order();
        let place = |member: &Member| order.get(&member.name).copied().unwrap_or_default();
        let mut members = lock(&self.members);
        let is_later = |other: &Member| place(other) >= self.first && place(other) > place(&member);
        let at = members.iter().position(is_later).unwrap_or(members.len());
        members.insert(at, member);
    }

    /// A node takes no further jobs; false if it is none of these.
    pub(crate) fn drain(&self, node: &str) -> bool {
        let is_there = self.member(node).is_some();
        if is_there {
            lock(&self.draining).insert(node.to_owned());
        }
        is_there
    }

    /// Forgets a node that has left.
    pub(crate) fn remove(&self, node: &str) {
        lock(&self.members).retain(|known| known.name != node);
        lock(&self.draining).remove(node);
        lock(&self.lost).remove(node);
    }

    /// Takes reports of a node, and returns when their reader has; false if the node runs nothing of the job, or the job is not
    /// watched any more. A node reports of its own processes only.
    pub(crate) async fn take_reports(&self, from: &str, nspace: &Nspace, reports: Vec<LaunchReport>) -> bool {
        for report in reports {
            let sender = {
                let mut running = lock(&self.running);
                let Some(job) = running.get_mut(nspace) else { return false };
                let Some(own) = job.left.get_mut(from) else { return false };
                let (proc, is_end) = match &report {
                    LaunchReport::Ended { proc, .. } => (proc, true),
                    LaunchReport::Started { proc, .. } | LaunchReport::Output { proc, .. } => (proc, false),
                };
                if !own.contains(proc) {
                    // or one of whose end this head has learnt when it took the job up
                    tracing::debug!(node = from, %proc, "a node reports on a process that does not run there");
                    continue;
                }
                if is_end {
                    own.remove(proc);
                }
                let sender = job.reports.clone();
                if job.left.values().all(BTreeSet::is_empty) {
                    running.remove(nspace);
                }
                sender
            };
            if sender.send(report).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Takes reports of a job that another head has launched, of these processes, each with its node.
    pub(crate) fn take_up(
        &self,
        nspace: &Nspace,
        reports: mpsc::Sender<LaunchReport>,
        procs: impl IntoIterator<Item = (String, Rank)>,
    ) {
        let mut left = BTreeMap::<String, BTreeSet<ProcId>>::new();
        for (node, rank) in procs {
            left.entry(node).or_default().insert(ProcId::new(nspace.clone(), rank));
        }
        if !left.is_empty() {
            lock(&self.running).insert(nspace.clone(), Running { reports, left });
        }
    }

    /// Kills these processes, of each node, which belong to no job that goes on.
    pub(crate) async fn kill_on(&self, nodes: BTreeMap<String, Vec<ProcId>>) {
        if let Err(error) = self.signal_on(nodes, Signal::KILL.as_raw()).await {
            tracing::warn!(%error, "processes of a job that was not resumed may still be running");
        }
    }

    /// Reports that all processes of a node have been killed, because the node is lost.
    pub(crate) fn node_lost(&self, node: &str, reason: &str) {
        lock(&self.lost).insert(node.to_owned(), reason.to_owned());
        self.lose(node, |_| true);
    }

    /// The same of one job, whose node was lost before another one of this name came.
    pub(crate) fn part_lost(&self, nspace: &Nspace, node: &str) {
        self.lose(node, |job| job == nspace);
    }

    fn lose(&self, node: &str, is_one: impl Fn(&Nspace) -> bool) {
        let mut lost = Vec::new();
        lock(&self.running).retain(|nspace, job| {
            if is_one(nspace)
                && let Some(procs) = job.left.remove(node)
            {
                lost.push((job.reports.clone(), procs));
            }
            !job.left.values().all(BTreeSet::is_empty)
        });
        for (reports, procs) in lost {
            let exit = ProcExit::Signal(Signal::KILL.as_raw());
            let mut ends = procs.into_iter().map(move |proc| LaunchReport::Ended { proc, exit });
            // at once, while there is room: a process that fails because of the loss is not to be the first
            let left = ends.find_map(|end| reports.try_send(end).err());
            let Some(mpsc::error::TrySendError::Full(end)) = left else { continue };
            tokio::spawn(async move {
                for end in std::iter::once(end).chain(ends) {
                    let _ = reports.send(end).await;
                }
            });
        }
    }

    /// The processes of each node that has started some, the head's own under its name.
    fn by_node(&self, procs: &[ProcId]) -> BTreeMap<String, Vec<ProcId>> {
        let running = lock(&self.running);
        let mut nodes = BTreeMap::<String, Vec<ProcId>>::new();
        for proc in procs {
            let of_job = running.get(&proc.nspace);
            let elsewhere = of_job.and_then(|job| job.left.iter().find(|(_, procs)| procs.contains(proc)));
            let node = elsewhere.map_or_else(|| self.site.node(), |(node, _)| node);
            nodes.entry(node.to_owned()).or_default().push(proc.clone());
        }
        nodes
    }

    /// Has each of these nodes do something to its processes.
    async fn have_all<F>(
        &self,
        mut nodes: BTreeMap<String, Vec<ProcId>>,
        order: F,
        limit: Duration,
        local: LocalPart<'_>,
    ) -> Result<(), LaunchError>
    where
        F: Fn(Vec<ProcId>) -> Order,
    {
        let own = nodes.remove(self.site.node());
        let elsewhere = nodes.into_iter().map(async |(node, procs)| {
            let first = procs.first().cloned();
            let done = order_within(&self.site, limit, &node, order(procs)).await;
            done.map(drop).map_err(|failure| self.error(&node, OsStr::new(""), first, failure))
        });
        let here = async {
            match own {
                Some(procs) => local.act(&*self.local, &procs).await,
                None => Ok(()),
            }
        };
        let (here, elsewhere) = tokio::join!(here, join_all(elsewhere));
        elsewhere.into_iter().fold(here, Result::and)
    }

    fn error(&self, node: &str, program: &OsStr, first: Option<ProcId>, failure: Failure) -> LaunchError {
        let proc = failure.procs.first().cloned().or(first).unwrap_or_else(ProcId::none);
        // the error names the node itself
        let reason = failure.message.strip_prefix(&format!("node {node}: ")).unwrap_or(&failure.message);
        LaunchError::new(proc, node, program, reason).with_status(failure.status)
    }

    /// Kills what has been started of a job that does not start.
    async fn undo(&self, procs: &[ProcId]) {
        let nodes = self.by_node(procs);
        // first, so that a node that is still starting its part hears that the job is unknown, and kills it
        if let Some(proc) = procs.first() {
            lock(&self.running).remove(&proc.nspace);
        }
        if let Err(error) = self.signal_on(nodes, Signal::KILL.as_raw()).await {
            tracing::warn!(%error, "processes of a job that failed to start may still be running");
        }
    }

    async fn signal_on(&self, nodes: BTreeMap<String, Vec<ProcId>>, signal: i32) -> Result<(), LaunchError> {
        let order = |procs| Order::Signal { procs, signal };
        self.have_all(nodes, order, PATIENCE, LocalPart::Signal(signal)).await
    }

    /// Has another node choose the processors of its processes.
    async fn bind_on(&self, node: &str, part: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let order = Order::Bind {
            nspace: part.nspace.clone(),
            policy: part.policy.clone(),
            here: count(part.nodes.len()),
            all: count(part.all),
        };
        let told = order_within(&self.site, PATIENCE, node, order).await.and_then(PeerReply::into_told)?;
        let (bound, here) = (told.bound, part.nodes.len());
        if bound.len() > here {
            let message =
                format!("node {node} has bound {} of its {here} processes of {}", bound.len(), part.nspace);
            return Err(HostError::new(Status::ERR_BAD_PARAM, message));
        }
        Ok(bound)
    }

    /// Starts a part of a job on another node.
    async fn launch_on(&self, node: &str, part: LaunchJob) -> Result<(), LaunchError> {
        let program_of = |proc: &ProcId| {
            let proc = part.procs.iter().find(|started| started.rank == proc.rank);
            proc.and_then(|proc| part.apps.get(proc.app)).map(|app| app.command.clone())
        };
        let order = Order::Launch {
            nspace: part.nspace.clone(),
            apps: part.apps.clone(),
            procs: part.procs.iter().map(to_launch).collect(),
            // what is the head's own is not for other users
            base_env: if part.user.is_none() { self.local.base_env() } else { None },
        };
        let order = order.of(part.user.as_ref());
        let started = order_within(&self.site, LAUNCHING, node, order).await;
        started.map(drop).map_err(|failure| {
            let first = part.procs.first().map(|proc| ProcId::new(part.nspace.clone(), proc.rank));
            let program = failure.procs.first().or(first.as_ref()).and_then(program_of);
            self.error(node, &program.unwrap_or_default(), first, failure)
        })
    }
}

fn to_launch(proc: &LaunchProc) -> ProcToLaunch {
    ProcToLaunch {
        rank: proc.rank,
        app: proc.app,
        cwd: proc.cwd.clone(),
        takes_stdin: proc.takes_stdin,
        bound: proc.bound.clone(),
    }
}

/// What is done to the processes of the head's own node.
enum LocalPart<'a> {
    Signal(i32),
    Terminate,
    Push(&'a Bytes, bool),
}

impl LocalPart<'_> {
    async fn act(self, launcher: &dyn Launcher, procs: &[ProcId]) -> Result<(), LaunchError> {
        match self {
            Self::Signal(signal) => launcher.signal(procs, signal).await,
            Self::Terminate => launcher.terminate(procs).await,
            Self::Push(data, is_end) => launcher.push_stdin(procs, data.clone(), is_end).await,
        }
    }
}

/// Undoes a launch that is given up before it is complete.
struct Undo {
    launcher: NodesLauncher,
    procs: Vec<ProcId>,
}

impl Undo {
    /// Begins, and goes on if nobody waits for its end.
    fn begin(&mut self) -> JoinHandle<()> {
        let (launcher, procs) = (self.launcher.clone(), std::mem::take(&mut self.procs));
        tokio::spawn(async move { launcher.undo(&procs).await })
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if !self.procs.is_empty() {
            self.begin();
        }
    }
}

#[async_trait]
impl Launcher for NodesLauncher {
    fn nodes(&self) -> Vec<String> {
        lock(&self.members).iter().map(|member| member.name.clone()).collect()
    }

    fn machine(&self, node: &str) -> Option<Machine> {
        self.member(node).map(|member| member.machine)
    }

    fn aliases(&self) -> Vec<String> {
        self.local.aliases()
    }

    fn slots(&self, node: &str) -> Option<u32> {
        self.member(node)?.slots
    }

    fn loss_reason(&self, node: &str) -> Option<String> {
        lock(&self.lost).get(node).cloned()
    }

    /// One that has left takes none either.
    fn is_draining(&self, node: &str) -> bool {
        lock(&self.draining).contains(node) || self.member(node).is_none()
    }

    /// Whether the head can. Daemons refuse by themselves what they cannot do.
    fn supports_user_switch(&self) -> bool {
        self.local.supports_user_switch()
    }

    /// Each node chooses for its own processes.
    async fn bind(&self, request: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        let mut nodes = BTreeMap::<&str, usize>::new();
        for node in &request.nodes {
            *nodes.entry(node).or_default() += 1;
        }
        let chosen = nodes.into_iter().map(async |(node, here)| {
            let part = request.on(node, here);
            let bound = if node == self.site.node() {
                self.local.bind(&part).await?
            } else {
                self.bind_on(node, &part).await?
            };
            HostResult::Ok((node, bound))
        });
        let chosen = join_all(chosen).await.into_iter().collect::<HostResult<BTreeMap<_, _>>>()?;
        if chosen.values().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let mut chosen: BTreeMap<_, _> =
            chosen.into_iter().map(|(node, bound)| (node, bound.into_iter())).collect();
        let next = |node: &String| chosen.get_mut(node.as_str()).and_then(Iterator::next).flatten();
        Ok(request.nodes.iter().map(next).collect())
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let LaunchJob { nspace, apps, procs, user, .. } = job;
        let all: Vec<_> = procs.iter().map(|proc| ProcId::new(nspace.clone(), proc.rank)).collect();
        let mut parts = BTreeMap::<String, LaunchJob>::new();
        for proc in procs {
            let part = parts.entry(proc.node.clone());
            let empty = || LaunchJob { user: user.clone(), ..LaunchJob::new(nspace.clone(), apps.clone()) };
            part.or_insert_with(empty).procs.push(proc);
        }
        let own = parts.remove(self.site.node());
        let procs_of = |part: &LaunchJob| {
            part.procs.iter().map(|proc| ProcId::new(nspace.clone(), proc.rank)).collect::<BTreeSet<_>>()
        };
        let left = parts.iter().map(|(node, part)| (node.clone(), procs_of(part))).collect();
        if !parts.is_empty() {
            // before the first report can come
            lock(&self.running).insert(nspace, Running { reports: reports.clone(), left });
        }
        let mut undo = Undo { launcher: self.clone(), procs: all };
        let elsewhere =
            join_all(parts.into_iter().map(async |(node, part)| self.launch_on(&node, part).await));
        let here = async {
            match own {
                Some(part) => self.local.launch(part, reports).await,
                None => Ok(()),
            }
        };
        let (here, elsewhere) = tokio::join!(here, elsewhere);
        let started = elsewhere.into_iter().fold(here, Result::and);
        if started.is_err() {
            let _ = undo.begin().await;
        }
        undo.procs.clear();
        started
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        self.signal_on(self.by_node(procs), signal).await
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        self.have_all(self.by_node(procs), Order::Terminate, PATIENCE, LocalPart::Terminate).await
    }

    async fn which_ended(&self, procs: &[ProcId]) -> Vec<ProcId> {
        let mut nodes = self.by_node(procs);
        let own = nodes.remove(self.site.node()).unwrap_or_default();
        let elsewhere = nodes.into_iter().map(async |(node, procs)| {
            let asked = order_within(&self.site, LOOKING, &node, Order::WhichEnded(procs)).await;
            asked.and_then(PeerReply::into_told).map(|told| told.procs).unwrap_or_default()
        });
        let (mut ended, elsewhere) = tokio::join!(self.local.which_ended(&own), join_all(elsewhere));
        ended.extend(elsewhere.into_iter().flatten());
        ended
    }

    fn takes_stdin(&self) -> bool {
        self.local.takes_stdin()
    }

    async fn push_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        let order = |procs| Order::PushStdin { procs, data: data.clone(), is_end };
        // a process may read its input late; the loss of its node ends the wait
        self.have_all(self.by_node(procs), order, Duration::MAX, LocalPart::Push(&data, is_end)).await
    }
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
