//! [`LocalLauncher`]: processes on the node of the launcher itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::standard::{Account, LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher};
use pmix_types::{App, Nspace, ProcId, Rank, Status};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::guardian::Guardian;
use crate::input::{Input, feed};
use crate::program::{Program, Refusal, spawn_error};
use crate::supervise::supervise;
use crate::tree;

/// Starts processes on this node and looks after them. Cheap to clone: all clones are the same launcher.
///
/// Processes inherit the environment of the launcher without variables named `PMIX_*`, `OMPI_*` or `PRTE_*`;
/// on top come those of the application, then those of the server. They read from `/dev/null`, except for
/// [`first_stdin`](Self::first_stdin) and those that take input of others ([`LaunchProc::takes_stdin`]). Signals reach a process and what it has started. When a process
/// has ended, what its descendants still write to its output is read for a second at most.
///
/// With the capabilities of root it starts jobs as other users too ([`LaunchJob::user`]). They inherit nothing of the
/// launcher's environment and input, start in their home directory if not told otherwise, and find programs and
/// directories as their user does; the limits (`ulimit`) of the launcher hold for them as well.
///
/// # Examples
/// ```
/// use pmix_rm::LocalLauncher;
/// use pmix_server::standard::{LaunchJob, LaunchProc, LaunchReport, Launcher, ProcExit};
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
    guardian: Option<Arc<Guardian>>,
    stdin: Arc<Mutex<Option<OwnedFd>>>,
    running: Arc<Mutex<Running>>,
}

/// The processes that have not ended.
type Running = BTreeMap<ProcId, Process>;

/// A process that has not ended.
#[derive(Clone, Debug)]
struct Process {
    pid: Pid,
    /// Names the process for good, also when its id goes to another one.
    handle: Arc<OwnedFd>,
    /// Closed when it has ended.
    ended: watch::Receiver<()>,
    /// To its standard input, if it takes input of others.
    input: Option<mpsc::Sender<Input>>,
}

impl LocalLauncher {
    /// A launcher on the node of this name, without guardian, with a grace period of 5 seconds.
    ///
    /// Without guardian each process leads a process group of its own; if the launcher is killed, its processes
    /// live on.
    pub fn new(node: impl Into<String>) -> Self {
        Self::pretending([node])
    }

    /// The same for several nodes which are pretended: the processes of all of them run on this one.
    ///
    /// Open MPI is told in the environment what it cannot know: that these nodes reach each other on the loopback
    /// interface only (`OMPI_MCA_btl_tcp_if_include`), and where each keeps shared memory, as Open MPI 4 names it by the
    /// system's name of the node (`OMPI_MCA_btl_vader_backing_directory`). What an application sets itself wins.
    pub fn pretending<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Self {
        Self {
            nodes: nodes.into_iter().map(Into::into).collect(),
            grace: Duration::from_secs(5),
            guardian: None,
            stdin: Arc::default(),
            running: Arc::default(),
        }
    }

    /// The time that processes have to end after they were asked to.
    #[must_use]
    pub const fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Runs all processes in the group of a guardian, so that they end with the launcher.
    #[must_use]
    pub fn with_guardian(mut self, guardian: Arc<Guardian>) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// Standard input for rank 0 of the job started first; everybody else reads from `/dev/null`.
    #[must_use]
    pub fn first_stdin(self, stdin: OwnedFd) -> Self {
        *self.stdin.lock().unwrap_or_else(PoisonError::into_inner) = Some(stdin);
        self
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, program: &Program, proc: &LaunchProc, user: Option<&Account>) -> Command {
        let mut command = Command::new(&program.path);
        let (name, args) =
            program.argv.split_first().map_or(("", &[][..]), |(name, args)| (name.as_str(), args));
        command.arg0(name).args(args);
        command.env_clear();
        if self.nodes.len() > 1 {
            command.envs(pretence(&proc.env, user.is_some()));
        }
        command.envs(&program.env);
        command.envs(proc.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &program.cwd {
            // shells and many programs believe PWD
            command.current_dir(cwd).env("PWD", cwd);
        }
        command.stdin(self.stdin_of(proc, user)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(self.guardian.as_ref().map_or(0, |guardian| guardian.group().as_raw_pid()));
        command.kill_on_drop(true);
        if let Some(user) = user {
            // before it enters its directory and finds its program
            command.uid(user.uid());
        }
        command
    }

    fn stdin_of(&self, proc: &LaunchProc, user: Option<&Account>) -> Stdio {
        if proc.takes_stdin {
            return Stdio::piped();
        }
        // what is meant for the first job is not for another user's
        if proc.rank.to_raw() != 0 || user.is_some() {
            return Stdio::null();
        }
        let stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        stdin.map_or_else(Stdio::null, Stdio::from)
    }

    async fn start(
        &self,
        program: &Arc<Program>,
        proc: &LaunchProc,
        user: Option<&Account>,
    ) -> Result<Started, Refusal> {
        if !self.nodes.contains(&proc.node) {
            let reason = format!("node {} is not this one, and this launcher knows no other", proc.node);
            return Err(Refusal::new(Status::ERR_JOB_FAILED_TO_LAUNCH, reason));
        }
        let failed = |reason: String| Refusal::new(Status::ERR_JOB_SYS_OP_FAILED, reason);
        let mut command = self.command(program, proc, user);
        let child = match user {
            None => command.spawn(),
            Some(user) => {
                let runtime = Handle::current();
                let spawn = move || {
                    let _entered = runtime.enter();
                    command.spawn()
                };
                user.start_processes(spawn).await.flatten()
            }
        };
        let child = child.map_err(|error| spawn_error(&error))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed("it has no process id".into()))?;
        // it cannot have been waited for yet, so the id is still its own
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.to_string()))?;
        let program = Arc::clone(program);
        Ok(Started { rank: proc.rank, program, child, pid, handle: Arc::new(handle) })
    }

    /// Hands a started process to its supervisor.
    fn look_after(&self, nspace: &Nspace, mut started: Started, reports: mpsc::Sender<LaunchReport>) {
        let proc = ProcId::new(nspace.clone(), started.rank);
        let (ending, ended) = watch::channel(());
        let input = started.child.stdin.take().map(|pipe| feed(proc.clone(), pipe, ended.clone()));
        let process = Process { pid: started.pid, handle: started.handle, ended, input };
        self.running().insert(proc.clone(), process);
        let report = LaunchReport::Started {
            proc: proc.clone(),
            pid: started.pid.as_raw_pid(),
            executable: started.program.path.display().to_string(),
        };
        let running = Arc::clone(&self.running);
        tokio::spawn(async move {
            let _ = reports.send(report).await;
            let forget = || {
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&proc);
                drop(ending);
            };
            supervise(&proc, started.child, &reports, forget).await;
        });
    }

    fn alive(&self, procs: &[ProcId]) -> Vec<Process> {
        let running = self.running();
        procs.iter().filter_map(|proc| running.get(proc).cloned()).collect()
    }

    /// Signals processes and what descends from them.
    ///
    /// To a group a signal comes at one moment, as from a terminal; where a group cannot be used, a child that is
    /// made at that very moment may miss it.
    fn reach(&self, processes: &[Process], signal: Signal) {
        match &self.guardian {
            None => {
                for process in processes {
                    signal_group(process.pid, signal);
                }
            }
            Some(guardian) if Guardian::ignores(signal) && self.running().len() == processes.len() => {
                signal_group(guardian.group(), signal);
            }
            Some(_) => signal_trees(processes, signal),
        }
    }
}

/// What tells Open MPI on a pretended node of the pretence, given the variables that tell of the node's server.
fn pretence(env: &[(String, String)], is_of_other: bool) -> Vec<(&'static str, &str)> {
    let mut told = vec![("OMPI_MCA_btl_tcp_if_include", "lo")];
    // gone with the server; there only if it serves Open MPI at all; another user cannot write there
    let server = env.iter().find(|(name, _)| name == "PMIX_SERVER_TMPDIR").filter(|_| !is_of_other);
    if let Some((_, directory)) = server {
        told.push(("OMPI_MCA_btl_vader_backing_directory", directory));
    }
    told
}

/// A process that was started and has no supervisor yet.
struct Started {
    rank: Rank,
    program: Arc<Program>,
    child: Child,
    pid: Pid,
    handle: Arc<OwnedFd>,
}

#[async_trait]
impl Launcher for LocalLauncher {
    fn nodes(&self) -> Vec<String> {
        self.nodes.clone()
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let error = |proc: &LaunchProc, Refusal { status, reason }| {
            let program = job.apps.get(proc.app).map_or("", |app| app.command.as_str());
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
                    let program = find(app, proc.cwd.as_deref(), user).await;
                    entry.insert(Arc::new(program.map_err(|refusal| error(proc, refusal))?))
                }
            };
            found.push(Arc::clone(program));
        }
        let mut started = Vec::with_capacity(job.procs.len());
        for (proc, program) in job.procs.iter().zip(&found) {
            match self.start(program, proc, user).await {
                Ok(process) => started.push(process),
                Err(refusal) => {
                    end_all(started).await;
                    return Err(error(proc, refusal));
                }
            }
            // starting takes a while; those that run already want to be served
            tokio::task::yield_now().await;
        }
        for process in started {
            self.look_after(&job.nspace, process, reports.clone());
        }
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
        self.reach(&self.alive(procs), signal);
        Ok(())
    }

    fn starts_as_others(&self) -> bool {
        Account::can_be_assumed()
    }

    fn has_ended(&self, proc: &ProcId) -> bool {
        let pid = self.running().get(proc).map(|process| process.pid);
        // one that was waited for may still have output to be read
        pid.is_none_or(tree::is_exiting)
    }

    fn takes_stdin(&self) -> bool {
        true
    }

    async fn push_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        for proc in procs {
            let Some(process) = self.running().get(proc).cloned() else { continue };
            let Some(input) = process.input else {
                let reason = "it was started without input from others";
                return Err(LaunchError::new(proc.clone(), &self.nodes.join(","), "", reason));
            };
            let end = is_end.then_some(Input::End);
            let data = (!data.is_empty()).then(|| Input::Data(data.clone()));
            for piece in data.into_iter().chain(end) {
                // nobody reads it any more
                if input.send(piece).await.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns when they were asked; force follows by itself.
    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        let mut processes = self.alive(procs);
        if processes.is_empty() {
            return Ok(());
        }
        self.reach(&processes, Signal::TERM);
        // a stopped process would not see it
        self.reach(&processes, Signal::CONT);
        let launcher = self.clone();
        // the caller may be who takes the output: it must not wait here while they write their last words
        tokio::spawn(async move {
            let mut left = processes.clone();
            let all_ended = async {
                for process in &mut left {
                    while process.ended.changed().await.is_ok() {}
                }
            };
            if tokio::time::timeout(launcher.grace, all_ended).await.is_err() {
                processes.retain(|process| process.ended.has_changed().is_ok());
                launcher.reach(&processes, Signal::KILL);
            }
        });
        Ok(())
    }
}

/// Looks a program up, as its user sees it.
async fn find(app: &App, cwd: Option<&str>, user: Option<&Account>) -> Result<Program, Refusal> {
    let Some(user) = user else { return Program::find(app, cwd, None) };
    let (app, cwd, account) = (app.clone(), cwd.map(str::to_owned), user.clone());
    let found = user.with_rights(move || Program::find(&app, cwd.as_deref(), Some(&account))).await;
    found.unwrap_or_else(|error| {
        let reason = format!("cannot look it up with the rights of uid {}: {error}", user.uid());
        Err(Refusal::new(Status::ERR_JOB_SYS_OP_FAILED, reason))
    })
}

fn signal_group(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_pid(), %error, "group not signalled");
    }
}

/// Signals processes and all that descends from them, parents first: a shell must know of the signal before it
/// sees its child die of it.
fn signal_trees(processes: &[Process], signal: Signal) {
    let roots: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
    let below = tree::descendants(&roots);
    for process in processes {
        if let Err(error) = pidfd_send_signal(&*process.handle, signal) {
            tracing::debug!(pid = process.pid.as_raw_pid(), %error, "process not signalled");
        }
    }
    tree::signal_all(&below, signal);
}

/// Ends processes of a job that cannot start as a whole.
async fn end_all(started: Vec<Started>) {
    let roots: Vec<Pid> = started.iter().map(|process| process.pid).collect();
    let below = tree::descendants(&roots);
    for process in &started {
        let _ = pidfd_send_signal(&*process.handle, Signal::KILL);
    }
    tree::signal_all(&below, Signal::KILL);
    for mut process in started {
        if let Err(error) = process.child.wait().await {
            tracing::warn!(%error, "a process of a job that did not start was not waited for");
        }
    }
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
