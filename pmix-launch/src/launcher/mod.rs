//! [`LocalLauncher`]: starts processes on the node of the launcher itself.

mod launching;
mod remains;
mod signals;
mod start;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{FuturesOrdered, StreamExt};
use pmix_host::{
    Account, BindRequest, Bound, LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher, Machine,
};
use pmix_server::{HostError, HostResult};
use pmix_topology::{Processors, ThisHost, Topology};
use pmix_types::{Nspace, ProcId, Rank, Status, Uid};
use rustix::process::{Signal, geteuid};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::launching::Launching;
use self::remains::{left_behind, unread};
use self::start::{Started, end_all, find};
use crate::binding;
use crate::child::Handle;
use crate::guardian::Guardian;
use crate::input::{Input, feed};
use crate::limit;
use crate::program::{self, Program, Refusal};
use crate::supervise::{Linger, Supervised, Supervision, finish, supervise};

/// Bytes of input that are handed over at a time, so that little of it waits without a sender that waits with it.
const PIECE: usize = 64 << 10;

/// Processes prepared ahead of the one that is being started.
const AHEAD: usize = 4;

/// Starts and supervises processes on the local node. Cheap to clone: all clones share their state.
///
/// # Environment
/// Processes inherit the environment of the launcher, except for variables named `PMIX_*`, `PRTE_*` and `OMPI_*`,
/// and those of PMI-1 that name a process. What the head of several nodes hands over takes the place of that
/// ([`LaunchJob::base_env`]), but for variables that describe the node. Parameters
/// of Open MPI (`OMPI_MCA_*`) are inherited, unless the launcher itself is a rank of another launcher, because then some may
/// not be the user's. The variables of the application override them, and those of the server override both.
///
/// # Input, output and signals
/// Processes read from `/dev/null`, except for [`first_stdin`](Self::first_stdin) and processes with forwarded input
/// ([`LaunchProc::takes_stdin`]). Signals reach a process and its descendants.
///
/// After a process that has ended with exit code 0, its descendants may go on for some [time](Self::linger): the end of the process
/// is reported when none holds its output any more, and that of the last process of a job when, with a guardian, none belongs to the
/// session of the job. With a guardian, what is left then, and daemons, which have left the session, are killed, and a line of the output
/// for errors of that process names them. Output that others hold is not read any more after that time, which such a line says, too.
/// After a process that has failed, or has been [asked](Launcher::terminate) to end, descendants may go on for one second.
///
/// # Binding
/// Processes are bound as [`BindingPolicy`](pmix_host::BindingPolicy) says, before their program runs, to processors that
/// the launcher itself may use. Simulated nodes share those of the machine. A job that is not asked to be bound is not
/// bound to processors of jobs that run; jobs that start at the same moment may be bound to the same.
///
/// # Other users
/// With the capabilities of root it can start jobs as other users ([`LaunchJob::user`]). These inherit neither environment
/// nor input of the launcher, start in the user's home directory by default, and look up programs and directories with the
/// user's rights. The limits of the launcher (`ulimit`) apply to them.
///
/// # Examples
/// ```
/// use pmix_launch::LocalLauncher;
/// use pmix_host::{LaunchJob, LaunchProc, LaunchReport, Launcher, ProcExit};
/// use pmix_types::{App, Nspace, Rank};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let launcher = LocalLauncher::new("here");
/// let mut job = LaunchJob::new(Nspace::new("job")?, vec![App::new("sh", 1).args(["-c", "exit 3"])]);
/// job.procs.push(LaunchProc::new(Rank::new(0)?, "here".into(), 0, Vec::new()));
/// let (reports, mut received) = tokio::sync::mpsc::channel(8);
/// launcher.launch(job, reports).await?;
/// let mut last = None;
/// while let Some(report) = received.recv().await {
///     last = Some(report);
/// }
/// assert!(matches!(last, Some(LaunchReport::Ended { exit: ProcExit::Code(3), .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LocalLauncher {
    nodes: Vec<String>,
    grace: Duration,
    linger: Duration,
    guardian: Option<Arc<Guardian>>,
    /// Standard input for one rank of the first job.
    stdin: Arc<Mutex<Option<(Rank, OwnedFd)>>>,
    /// Hardware of the machine, read when a job starts for the first time.
    topology: Arc<OnceLock<Topology>>,
    running: Arc<Mutex<Running>>,
    /// Jobs that are being launched. Their processes are added to `running` all at once.
    launching: Arc<Mutex<Coming>>,
}

/// How long processes that are killed may take to end. Those that wait for a file system which does not answer never do.
pub const UNKILLABLE: Duration = Duration::from_secs(30);
/// What is logged of them.
const NOT_ENDED: &str =
    "processes of jobs have been killed and do not end, as where a file system does not answer: leaving them";

/// How often to look whether the leader of another user's job reports the ends of its processes.
const LOOK: Duration = Duration::from_secs(5);

/// Signals that tell what a process has left behind to end.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Jobs that are being launched, and how many processes of which other user.
type Coming = BTreeMap<Nspace, (Option<Uid>, usize)>;

/// The running processes.
type Running = BTreeMap<ProcId, Process>;

/// A running process.
#[derive(Clone, Debug)]
struct Process {
    handle: Handle,
    /// Its user, if that is neither the launcher's own nor root.
    user: Option<Uid>,
    /// Processors that are its own.
    own: Processors,
    /// Closed when the process has ended, which its leader has reported.
    is_running: watch::Receiver<()>,
    /// Told if nobody can report how it has ended.
    lost: Arc<Notify>,
    /// Closed when the process has ended, and nothing that it has left behind is waited for.
    ended: watch::Receiver<()>,
    /// When it, or what it has left behind, was asked to end.
    hurried: Arc<watch::Sender<Option<Instant>>>,
    /// It has ended, and nothing that it has left behind is waited for.
    is_done: bool,
    /// Writes to its standard input, if that is forwarded.
    input: Option<mpsc::Sender<Input>>,
}

impl Process {
    /// What it has left behind, or leaves behind, may go on for a short time only.
    fn hurry(&self) {
        self.hurried.send_if_modified(|hurried| {
            let is_first = hurried.is_none();
            hurried.get_or_insert_with(Instant::now);
            is_first
        });
    }
}

impl LocalLauncher {
    /// A launcher for the node of this name, without a guardian, with a grace period of 5 seconds.
    ///
    /// Each process leads a process group. Without a guardian, processes survive if the launcher is killed.
    pub fn new(node: impl Into<String>) -> Self {
        Self::simulating([node])
    }

    /// A launcher for several simulated nodes, whose processes all run on the local node.
    ///
    /// Two variables configure Open MPI for simulated nodes, which communicate over the loopback interface only
    /// (`OMPI_MCA_btl_tcp_if_include`) and need separate directories for shared memory, which Open MPI 4 names after the
    /// host (`OMPI_MCA_btl_vader_backing_directory`). Variables of the application override them.
    pub fn simulating<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Self {
        Self {
            nodes: nodes.into_iter().map(Into::into).collect(),
            grace: Duration::from_secs(5),
            linger: Duration::from_secs(60),
            guardian: None,
            stdin: Arc::default(),
            topology: Arc::default(),
            running: Arc::default(),
            launching: Arc::default(),
        }
    }

    /// Sets the time that processes have to end before they are killed.
    #[must_use]
    pub const fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets the time for which descendants of a process that has ended with exit code 0 may go on. 60 seconds by default.
    #[must_use]
    pub const fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Starts all processes through a guardian, so that they end with the launcher.
    #[must_use]
    pub fn with_guardian(mut self, guardian: Arc<Guardian>) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// Sets the standard input of rank 0 of the first job; all other processes read from `/dev/null`.
    #[must_use]
    pub fn first_stdin(self, stdin: OwnedFd) -> Self {
        self.first_stdin_to(Rank::from_raw(0), stdin)
    }

    /// Sets the standard input of another rank of the first job.
    #[must_use]
    pub fn first_stdin_to(self, rank: Rank, stdin: OwnedFd) -> Self {
        *self.stdin.lock().unwrap_or_else(PoisonError::into_inner) = Some((rank, stdin));
        self
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        lock(&self.running)
    }

    fn launching(&self) -> MutexGuard<'_, Coming> {
        self.launching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a started process to its supervisor.
    fn look_after(
        &self,
        all: &mut Running,
        nspace: &Nspace,
        user: Option<Uid>,
        started: Started,
        reports: mpsc::Sender<LaunchReport>,
    ) {
        let Started { rank, program, own, child, input, output } = started;
        let proc = ProcId::new(nspace.clone(), rank);
        let ((running_on, is_running), (ending, ended)) = (watch::channel(()), watch::channel(()));
        let input = input.map(|pipe| feed(proc.clone(), pipe, is_running.clone()));
        let (hurry, is_hurried) = watch::channel(None);
        let handle = child.handle().clone();
        let lost = Arc::new(Notify::new());
        let told = Arc::clone(&lost);
        let process = Process {
            handle,
            user,
            own,
            is_running,
            lost,
            ended,
            hurried: Arc::new(hurry),
            is_done: false,
            input,
        };
        all.insert(proc.clone(), process);
        let report = LaunchReport::Started {
            proc: proc.clone(),
            pid: child.handle().pid().as_raw_pid(),
            executable: program.path.display().to_string(),
        };
        // dropping the guardian ends its processes, so they must not keep it alive
        let (running, guardian) = (Arc::clone(&self.running), self.guardian.as_ref().map(Arc::downgrade));
        let linger = Linger { time: self.linger, hurried: is_hurried };
        tokio::spawn(async move {
            let _ = reports.send(report).await;
            let supervision = Supervision { child, lost: &told, running: running_on, linger: &linger };
            let Supervised { end, is_held } = supervise(&proc, supervision, output, &reports).await;
            let guardian = guardian.and_then(|guardian| guardian.upgrade());
            let guardian = guardian.filter(|_| is_last_of_job(&running, &proc));
            let rest =
                guardian.map(|guardian| guardian.wind_up(proc.nspace.as_str(), linger.clone().over(end)));
            let killed = match rest {
                Some(rest) => rest.await,
                None => Vec::new(),
            };
            let said = match linger.is_full(end) {
                true if is_held && killed.is_empty() => unread(&proc, linger.time),
                true => left_behind(&proc, linger.time, &killed),
                false => String::new(),
            };
            lock(&running).remove(&proc);
            drop(ending);
            finish(proc, end.exit, said.into(), &reports).await;
        });
    }

    /// Ends all processes: by a request, and after the grace period by force. Returns when they have ended, or [`UNKILLABLE`] after they
    /// were killed, with a warning in the log.
    pub async fn end_all(&self) {
        let (procs, mut ended): (Vec<_>, Vec<_>) =
            self.running().iter().map(|(proc, process)| (proc.clone(), process.ended.clone())).unzip();
        if let Err(error) = self.terminate(&procs).await {
            tracing::warn!(%error, "cannot end processes");
        }
        let all = async {
            for ended in &mut ended {
                while ended.changed().await.is_ok() {}
            }
        };
        // they are killed after the grace period
        if tokio::time::timeout(self.grace + UNKILLABLE, all).await.is_err() {
            tracing::warn!("{NOT_ENDED}");
        }
    }

    fn alive(&self, procs: &[ProcId]) -> Vec<Process> {
        let running = self.running();
        procs.iter().filter_map(|proc| running.get(proc).cloned()).collect()
    }
}

#[async_trait]
impl Launcher for LocalLauncher {
    fn nodes(&self) -> Vec<String> {
        self.nodes.clone()
    }

    fn aliases(&self) -> Vec<String> {
        ThisHost::by_hostname().aliases()
    }

    /// All its nodes are on this machine.
    fn machine(&self, node: &str) -> Option<Machine> {
        self.nodes.iter().any(|known| known == node).then(Machine::this)
    }

    async fn bind(&self, request: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        let running = self.running();
        let busy = running.values().fold(Processors::new(), |all, process| all.union(&process.own));
        let processes = running.len() + request.nodes.len();
        drop(running);
        let places = usize::try_from(Machine::this().processors).unwrap_or(usize::MAX);
        let is_oversubscribed = processes > places;
        let unread = Topology::default();
        let topology = match request.policy.binds(request.all, is_oversubscribed) {
            true => self.topology.get_or_init(Topology::read_processors),
            false => &unread,
        };
        binding::choose(request, topology, &busy, is_oversubscribed)
            .map_err(|reason| HostError::new(Status::ERR_JOB_FAILED_TO_MAP, reason.to_string()))
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let error = |proc: &LaunchProc, Refusal { status, reason }| {
            let program = job.apps.get(proc.app).map_or_else(|| OsStr::new(""), |app| &app.command);
            let proc_id = ProcId::new(job.nspace.clone(), proc.rank);
            LaunchError::new(proc_id, &proc.node, program, reason).with_status(status)
        };
        let user = job.user.as_ref();
        let mut programs: BTreeMap<(usize, Option<&str>), Arc<Program>> = BTreeMap::new();
        let mut found = Vec::with_capacity(job.procs.len());
        for proc in &job.procs {
            let program = match programs.entry((proc.app, proc.cwd.as_deref())) {
                Entry::Occupied(program) => program.into_mut(),
                Entry::Vacant(entry) => {
                    let app = job.apps.get(proc.app).ok_or_else(|| {
                        error(proc, Refusal::new(Status::ERR_BAD_PARAM, "no such application"))
                    })?;
                    let program = find(&job, app, proc.cwd.as_deref()).await;
                    entry.insert(Arc::new(program.map_err(|refusal| error(proc, refusal))?))
                }
            };
            found.push(Arc::clone(program));
        }
        let Some(first) = job.procs.first() else { return Ok(()) };
        let no_room = |why| error(first, Refusal::new(Status::ERR_OUT_OF_RESOURCE, why));
        limit::lack(job.procs.len()).map_or(Ok(()), |why| Err(no_room(why)))?;
        let own = Uid::new(geteuid().as_raw());
        let other = user.map(Account::uid).filter(|uid| !uid.is_root() && *uid != own);
        let mut launching = Launching::new(self, &job.nspace, other, job.procs.len()).map_err(no_room)?;
        // while one is started, those after it are prepared
        let (mut rest, mut starts) = (job.procs.iter().zip(&found), FuturesOrdered::new());
        // the time that the start of another user's process may take is its own
        let ahead = if user.is_some() { 1 } else { AHEAD };
        for proc in &job.procs {
            for (proc, program) in rest.by_ref().take(ahead - starts.len()) {
                starts.push_back(self.start(&job.nspace, program, proc, user));
            }
            match starts.next().await {
                Some(Ok(process)) => launching.started.push(process),
                Some(Err(refusal)) => {
                    // what starts nevertheless is killed
                    drop(starts);
                    launching.kill();
                    end_all(std::mem::take(&mut launching.started)).await;
                    return Err(error(proc, refusal));
                }
                None => break,
            }
            // starting takes a while, and running processes need the server meanwhile
            tokio::task::yield_now().await;
        }
        launching.finish(&reports);
        Ok(())
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            let proc = procs.first().cloned().unwrap_or_else(ProcId::none);
            return Err(LaunchError::new(
                proc,
                &self.nodes.join(","),
                "",
                format!("{signal} is not a signal"),
            ));
        };
        let processes = self.alive(procs);
        for process in &processes {
            let is_to_end = signal == Signal::KILL || (ENDING.contains(&signal) && process.handle.is_over());
            if is_to_end {
                process.hurry();
            }
        }
        Self::reach_for_user(&processes, signal).await.map_err(|problem| {
            let proc = procs.first().cloned().unwrap_or_else(ProcId::none);
            let reason = format!("not all of its processes are signalled: {problem}");
            LaunchError::new(proc, &self.nodes.join(","), "", reason).with_status(Status::ERR_NO_PERMISSIONS)
        })
    }

    fn supports_user_switch(&self) -> bool {
        Account::can_be_assumed()
    }

    fn has_ended(&self, proc: &ProcId) -> bool {
        // checked first: the processes of a launched job are all in `running`
        if self.launching().contains_key(&proc.nspace) {
            return false;
        }
        let handle = self.running().get(proc).map(|process| process.handle.clone());
        // the output of an ended process may not have been read completely
        handle.is_none_or(|handle| handle.has_ended())
    }

    fn base_env(&self) -> Option<Vec<(OsString, OsString)>> {
        Some(program::base_env().collect())
    }

    fn takes_stdin(&self) -> bool {
        true
    }

    async fn push_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        for proc in procs {
            let Some(process) = self.running().get(proc).cloned() else { continue };
            let Some(input) = process.input else {
                let reason = "the process was started without forwarded input";
                return Err(LaunchError::new(proc.clone(), &self.nodes.join(","), "", reason));
            };
            let end = is_end.then_some(Input::End);
            let pieces = (0..data.len())
                .step_by(PIECE)
                .map(|from| Input::Data(data.slice(from..data.len().min(from + PIECE))));
            for piece in pieces.chain(end) {
                // the process no longer reads it
                if input.send(piece).await.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns once the processes were asked to end; they are killed after the grace period.
    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        let mut processes = self.alive(procs);
        if processes.is_empty() {
            return Ok(());
        }
        processes.iter().for_each(Process::hurry);
        Self::reach(&processes, Signal::TERM).await;
        // a stopped process would not receive it
        Self::reach(&processes, Signal::CONT).await;
        let (launcher, procs) = (self.clone(), procs.to_vec());
        // the caller may also be the reader of their output, so it must not wait for their end here
        tokio::spawn(async move {
            let mut left = processes.clone();
            let all_ended = async {
                for process in &mut left {
                    while process.ended.changed().await.is_ok() {}
                }
            };
            if tokio::time::timeout(launcher.grace, all_ended).await.is_err() {
                processes.retain(|process| process.ended.has_changed().is_ok());
                // as long as their jobs are known
                launcher.kill_whole_jobs(&procs);
                Self::reach(&processes, Signal::KILL).await;
            }
        });
        Ok(())
    }
}

/// Kills the leader of another user's job if it does not report the end of a process: that user may have stopped it. If the guardian does
/// not report it then, the process counts as ended: that user may trace it.
async fn watch_leader(running: Arc<Mutex<Running>>, guardian: Weak<Guardian>, nspace: Nspace) {
    let (mut before, mut is_killed) = (BTreeSet::new(), false);
    loop {
        tokio::time::sleep_until(Instant::now() + LOOK).await;
        let ended: BTreeSet<_> = {
            let running = lock(&running);
            let mut of_job = running.iter().filter(|(proc, _)| proc.nspace == nspace).peekable();
            if of_job.peek().is_none() {
                return;
            }
            let is_unreported =
                |process: &Process| process.handle.is_over() && process.is_running.has_changed().is_ok();
            of_job.filter(|(_, process)| is_unreported(process)).map(|(proc, _)| proc.rank).collect()
        };
        let mut late = before.intersection(&ended).copied().peekable();
        match late.peek() {
            Some(rank) if !is_killed => {
                tracing::warn!(%nspace, %rank, "the leader of a job does not report the end of a process: killing it");
                if let Some(guardian) = guardian.upgrade() {
                    guardian.kill_leader(nspace.as_str());
                }
                is_killed = true;
                before.clear();
                continue;
            }
            // whoever traces it withholds its end from the guardian, too
            _ => late.for_each(|rank| {
                if let Some(process) = lock(&running).get(&ProcId::new(nspace.clone(), rank)) {
                    process.lost.notify_one();
                }
            }),
        }
        before = ended;
    }
}

/// Whether the other processes of a job, on this node, have ended, and nothing that they have left behind is waited for.
fn is_last_of_job(running: &Mutex<Running>, proc: &ProcId) -> bool {
    let mut running = lock(running);
    if let Some(process) = running.get_mut(proc) {
        process.is_done = true;
    }
    running.iter().all(|(other, process)| other.nspace != proc.nspace || process.is_done)
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
