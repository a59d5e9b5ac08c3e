//! How processes are started: the part that a resource manager implements.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use nix::sys::signal::Signal;
use pmix_types::{App, Info, Nspace, ProcId, ProcState, Rank, Status, escaped};
use thiserror::Error;
use tokio::sync::mpsc;

use pmix_server::host::{HostError, HostResult};
use pmix_server::{Account, Pmi1Socket};

use crate::binding::{BindRequest, Bound};
use crate::user::lock;

/// Where and how processes run: what a resource manager provides.
///
/// [`StandardHost`](super::StandardHost) does the rest, and shows the smallest launcher. The example `launcher_rm` of the sources
/// is a complete one in 120 lines, `pmix_launch::LocalLauncher` the one of `pmixrun`.
#[async_trait]
pub trait Launcher: Send + Sync + 'static {
    /// Names of the nodes on which it can start processes, the server's own included; never empty. Each of them needs a
    /// server in this process: see "Several nodes" at [`StandardHost`](super::StandardHost).
    fn nodes(&self) -> Vec<String>;

    /// The machine of a node, which other nodes may share. By default, unknown.
    ///
    /// Jobs learn which nodes are oversubscribed (`NODE_OVERSUBSCRIBED`), so that MPI libraries do not spin while they wait.
    /// Called when a job starts; must not block.
    fn machine(&self, node: &str) -> Option<Machine> {
        let _ = node;
        None
    }

    /// What the node of this process is also called: names and addresses, which processes there can use in its place, such as
    /// `localhost`. By default, nothing. Called when the server starts.
    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    /// How many processes of a job a node takes. Nodes with a number are filled in their order, up to that number; a job that
    /// needs more is refused, unless it may exceed them (`OVERSUBSCRIBE` in `PMIX_MAPBY`). By default, any number: the processes are divided evenly.
    fn slots(&self, node: &str) -> Option<u32> {
        let _ = node;
        None
    }

    /// Why a node is lost, for queries; `None` for one that can be reached. By default, none is lost.
    fn loss_reason(&self, node: &str) -> Option<String> {
        let _ = node;
        None
    }

    /// Whether a node takes no further jobs, because it is to leave. By default, none does.
    fn is_draining(&self, node: &str) -> bool {
        let _ = node;
        false
    }

    /// Chooses the processors of the processes of a job, in rank order, with `None` for an unbound process. The host informs
    /// the processes, and passes the choice to [`launch`](Self::launch) in [`LaunchProc::bound`].
    ///
    /// The choice depends on the topology of each node: call [`BindingPolicy::choose`](crate::BindingPolicy::choose) there. By
    /// default, returns an empty list (unknown), and refuses a required policy.
    ///
    /// # Errors
    /// `ERR_JOB_FAILED_TO_MAP` or `ERR_NOT_SUPPORTED` for a required policy that cannot be met.
    async fn bind(&self, request: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        if request.policy.is_required && request.policy.needs_processors() {
            let message = format!("{}: this launcher does not bind processes to processors", request.nspace);
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
        }
        Ok(Vec::new())
    }

    /// The environment that processes inherit here. The head of several nodes hands it to the launchers of the others
    /// ([`LaunchJob::base_env`]), so that processes have the same on all nodes. By default, unknown: those of each node
    /// inherit what its launcher gives them.
    fn base_env(&self) -> Option<Vec<(OsString, OsString)>> {
        None
    }

    /// Whether processes do not inherit the environment of this process: the host then collects the variables of programming
    /// models for each job of its own user (`SETUP_APP_ENVARS`,
    /// [`ServerBuilder::harvest`](pmix_server::ServerBuilder::harvest)). By default, `false`.
    fn collects_env(&self) -> bool {
        false
    }

    /// Returns additional set-up of a job on these nodes: changes of the environment and job data, such as those of a network
    /// prepared for it. The host passes them to the server of each node before the first process starts there (SET-03). By
    /// default, returns an empty list.
    ///
    /// # Errors
    /// Any error keeps the job from starting; its requester gets it.
    async fn prepare(&self, nspace: &Nspace, nodes: &[String]) -> HostResult<Vec<Info>> {
        let _ = (nspace, nodes);
        Ok(Vec::new())
    }

    /// Starts all processes of a job, or none: after an error, or if the future is dropped before it is ready, none is
    /// left running.
    ///
    /// Reports states and output through `reports` from now until each process has ended. The last report of each
    /// process is exactly one [`LaunchReport::Ended`]. The channel is bounded: wait for room in it, which slows down
    /// processes whose output nobody reads.
    ///
    /// # Errors
    /// [`LaunchError`] names the process, node, program and cause.
    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError>;

    /// Sends a signal (its number on this system) to processes; those that have ended are skipped.
    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError>;

    /// Ends processes: first by a request, and after the launcher's own grace period by force.
    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError>;

    /// Whether a process has ended or is about to, although its end has not been reported yet. By default, `false`.
    ///
    /// The host asks this when a process calls abort: if another process was dead by then, its death is the cause and
    /// the abort the effect, as with MPI libraries that abort when the connection to a peer breaks. The host may also
    /// ask about processes that are still being launched: these have not ended. Must not block.
    fn has_ended(&self, proc: &ProcId) -> bool {
        let _ = proc;
        false
    }

    /// Those of these processes that [have ended](Self::has_ended). A launcher that has to ask other nodes overrides this; it
    /// must not wait for long, because a caller of abort does.
    async fn which_ended(&self, procs: &[ProcId]) -> Vec<ProcId> {
        procs.iter().filter(|proc| self.has_ended(proc)).cloned().collect()
    }

    /// Whether it can start the processes of a job as another user ([`LaunchJob::user`]). By default, `false`: such jobs are
    /// refused, never started as the launcher's own user.
    fn supports_user_switch(&self) -> bool {
        false
    }

    /// Whether input can be sent to processes with [`push_stdin`](Self::push_stdin). By default, `false`. Read when the server
    /// starts.
    fn takes_stdin(&self) -> bool {
        false
    }

    /// Writes to the standard input of processes that were started with [`LaunchProc::takes_stdin`], and closes it if this is
    /// the end. Returns when the data is accepted; may wait for a process that does not read, until it ends. Processes that
    /// have ended, or with closed input, are skipped. Calls for a process are sequential.
    ///
    /// # Errors
    /// [`LaunchError`] for a process that takes no input; by default, for every process.
    async fn push_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        let _ = (data, is_end);
        let proc = procs.first().cloned().unwrap_or_else(ProcId::none);
        Err(LaunchError::new(proc, "", "", "this launcher cannot send input to processes"))
    }
}

/// A launcher that several hosts share.
#[async_trait]
impl<L: Launcher + ?Sized> Launcher for Arc<L> {
    fn nodes(&self) -> Vec<String> {
        (**self).nodes()
    }

    fn machine(&self, node: &str) -> Option<Machine> {
        (**self).machine(node)
    }

    fn aliases(&self) -> Vec<String> {
        (**self).aliases()
    }

    fn slots(&self, node: &str) -> Option<u32> {
        (**self).slots(node)
    }

    fn loss_reason(&self, node: &str) -> Option<String> {
        (**self).loss_reason(node)
    }

    fn is_draining(&self, node: &str) -> bool {
        (**self).is_draining(node)
    }

    async fn bind(&self, request: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        (**self).bind(request).await
    }

    fn base_env(&self) -> Option<Vec<(OsString, OsString)>> {
        (**self).base_env()
    }

    fn collects_env(&self) -> bool {
        (**self).collects_env()
    }

    async fn prepare(&self, nspace: &Nspace, nodes: &[String]) -> HostResult<Vec<Info>> {
        (**self).prepare(nspace, nodes).await
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        (**self).launch(job, reports).await
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        (**self).signal(procs, signal).await
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        (**self).terminate(procs).await
    }

    fn has_ended(&self, proc: &ProcId) -> bool {
        (**self).has_ended(proc)
    }

    async fn which_ended(&self, procs: &[ProcId]) -> Vec<ProcId> {
        (**self).which_ended(procs).await
    }

    fn supports_user_switch(&self) -> bool {
        (**self).supports_user_switch()
    }

    fn takes_stdin(&self) -> bool {
        (**self).takes_stdin()
    }

    async fn push_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        (**self).push_stdin(procs, data, is_end).await
    }
}

/// A machine, which one or several nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Machine {
    /// Name of the machine; nodes whose machines have the same name share it.
    pub name: String,
    /// Number of processors available to all processes on it together.
    pub processors: u32,
}

impl Machine {
    /// A machine with this name and number of processors.
    pub fn new(name: impl Into<String>, processors: u32) -> Self {
        Self { name: name.into(), processors }
    }

    /// This machine, with the processors that the calling thread may use: those of its affinity mask, within the quota of
    /// its cgroups.
    ///
    /// # Examples
    /// ```
    /// use pmix_host::Machine;
    ///
    /// assert!(Machine::this().processors > 0);
    /// ```
    pub fn this() -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { name, processors: processors() }
    }
}

/// How long the number of processors is taken to be the same: to find it takes some thirty system calls.
const PROCESSORS_FOR: Duration = Duration::from_secs(1);

/// The processors that this process may use.
fn processors() -> u32 {
    static SEEN: Mutex<Option<(Instant, u32)>> = Mutex::new(None);
    let mut seen = lock(&SEEN);
    match *seen {
        Some((when, processors)) if when.elapsed() < PROCESSORS_FOR => processors,
        _ => {
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let processors = u32::try_from(processors).unwrap_or(u32::MAX);
            *seen = Some((Instant::now(), processors));
            processors
        }
    }
}

/// A job to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchJob {
    /// Its namespace.
    pub nspace: Nspace,
    /// The applications; each process refers to its own by index. Their `info` contains the directives for the
    /// environment, which [`environment`](super::environment) applies.
    pub apps: Vec<App>,
    /// The processes in rank order.
    pub procs: Vec<LaunchProc>,
    /// The user of the processes: they run with the permissions and groups of this user and none of the launcher's, and
    /// programs and directories are looked up with this user's permissions ([`Account::with_rights`],
    /// [`Account::start_processes`]). `None` for the launcher's own user; always `None` unless the launcher [starts
    /// processes as other users](Launcher::supports_user_switch).
    pub user: Option<Account>,
    /// The environment that the processes inherit instead of the launcher's own, except for variables that describe this node
    /// or the user's login here, which come from the launcher. It is that of the head ([`Launcher::base_env`]); `None` if the
    /// head is on this node or gives none. Not used for processes of another [`user`](Self::user).
    pub base_env: Option<Vec<(OsString, OsString)>>,
}

impl LaunchJob {
    /// A job without processes yet.
    pub const fn new(nspace: Nspace, apps: Vec<App>) -> Self {
        Self { nspace, apps, procs: Vec::new(), user: None, base_env: None }
    }
}

/// A process to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchProc {
    /// Its rank.
    pub rank: Rank,
    /// Node to start it on.
    pub node: String,
    /// Index of its application.
    pub app: usize,
    /// Variables with the address of its server; they override those of the application.
    pub env: Vec<(String, String)>,
    /// Variables that are set unless the process has them already, inherited or from its application: parameters of MPI
    /// libraries that users may override.
    pub defaults: Vec<(String, String)>,
    /// Directory to start in, instead of the application's.
    pub cwd: Option<String>,
    /// Whether it gets its standard input from [`Launcher::push_stdin`].
    pub takes_stdin: bool,
    /// What makes its socket for PMI-1, if its server serves that. A launcher that can opens it when it starts the process, and
    /// has the process inherit what it gets ([`inherit_pmi_fd`](pmix_server::inherit_pmi_fd)), so that programs of MPICH find
    /// their server; another one ignores it.
    pub pmi1: Option<Pmi1Socket>,
    /// The binding to apply before its program runs, as chosen by [`Launcher::bind`].
    pub bound: Option<Bound>,
}

impl LaunchProc {
    /// A process to launch, without defaults, directory or standard input of its own.
    pub const fn new(rank: Rank, node: String, app: usize, env: Vec<(String, String)>) -> Self {
        Self {
            rank,
            node,
            app,
            env,
            defaults: Vec::new(),
            cwd: None,
            takes_stdin: false,
            pmi1: None,
            bound: None,
        }
    }
}

/// What happened to a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LaunchReport {
    /// It runs under this process id.
    Started {
        /// The process.
        proc: ProcId,
        /// Its process id on its node.
        pid: i32,
        /// Its executable as found.
        executable: String,
    },
    /// It wrote something. The bytes are passed on as they came, and may split lines and characters (IOF-09).
    Output {
        /// The process.
        proc: ProcId,
        /// Where it wrote.
        channel: OutputChannel,
        /// What it wrote; empty when the channel was closed.
        data: Bytes,
    },
    /// It has ended.
    Ended {
        /// The process.
        proc: ProcId,
        /// How.
        exit: ProcExit,
    },
}

/// Output channels of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a process has no other")]
pub enum OutputChannel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a process ended.
///
/// # Examples
/// ```
/// use pmix_host::ProcExit;
/// use pmix_server::types::ProcState;
///
/// let killed = ProcExit::Signal(9);
/// assert_eq!((killed.shell_code(), killed.state()), (137, ProcState::ABORTED_BY_SIG));
/// assert_eq!(ProcExit::Code(3).state(), ProcState::TERM_NON_ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the kernel reports no other")]
pub enum ProcExit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ProcExit {
    /// The code that a shell would show: the exit code, or 128 plus the signal.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// The corresponding process state.
    pub const fn state(self) -> ProcState {
        match self {
            Self::Code(0) => ProcState::TERMINATED,
            Self::Code(_) => ProcState::TERM_NON_ZERO,
            Self::Signal(_) => ProcState::ABORTED_BY_SIG,
        }
    }
}

/// Converts a wait status.
impl From<ExitStatus> for ProcExit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // it was stopped, which nobody waits for
            (None, None) => Self::Code(1),
        }
    }
}

/// `exit code 3`, `signal 11 (SIGSEGV)`.
impl fmt::Display for ProcExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "signal {number} ({signal})"),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

/// Why a job could not be started, or its processes could not be reached.
///
/// # Examples
/// ```
/// use pmix_host::LaunchError;
/// use pmix_server::types::{ProcId, Status};
///
/// let proc = ProcId::new("job-1".parse()?, "3".parse()?);
/// let error = LaunchError::new(proc, "n0", "a.out", "no such program").with_status(Status::ERR_JOB_EXE_NOT_FOUND);
/// assert_eq!(error.to_string(), "job-1:3 (a.out) on n0: no such program");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Error)]
#[error("{proc} ({}) on {}: {}", escaped(.program), escaped(.node), escaped(.reason))]
#[non_exhaustive]
pub struct LaunchError {
    /// The process.
    pub proc: ProcId,
    /// Its node.
    pub node: String,
    /// The program.
    pub program: String,
    /// What went wrong and what to do.
    pub reason: String,
    /// The Standard's status: `ERR_JOB_FAILED_TO_LAUNCH`, or a more specific one (SPN-06).
    pub status: Status,
    /// The cause, if the system gave one.
    #[source]
    pub source: Option<std::io::Error>,
}

impl LaunchError {
    /// Creates a launch error; the reason is the text of the I/O error.
    pub fn from_io(proc: ProcId, node: &str, program: impl AsRef<OsStr>, source: std::io::Error) -> Self {
        let reason = source.to_string();
        Self { source: Some(source), ..Self::new(proc, node, program, reason) }
    }

    /// Creates a launch error from its parts.
    pub fn new(proc: ProcId, node: &str, program: impl AsRef<OsStr>, reason: impl Into<String>) -> Self {
        Self {
            proc,
            node: node.into(),
            program: program.as_ref().to_string_lossy().into_owned(),
            reason: reason.into(),
            status: Status::ERR_JOB_FAILED_TO_LAUNCH,
            source: None,
        }
    }

    /// Sets a more specific status.
    #[must_use]
    pub const fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

pmix_types::message_first!(LaunchError);
pmix_types::statuses! {
    LaunchError, "its [status](Self::status)", |this| this.status;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_is_shown_in_one_line() {
        let proc = ProcId::new("job".parse().unwrap(), Rank::from_raw(0));
        let error = LaunchError::new(proc, "n0", "./x\u{1b}[2J\ny", "it is\nmissing");
        assert_eq!(error.to_string(), r"job:0 (./x\u{1b}[2J\ny) on n0: it is\nmissing");
    }
}
