//! The job of a run, which was started here, or by the head of a DVM.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use pmix_host::{JobOutcome, JobReport, LaunchReport, OutputChannel, ProcExit, RunningJob};
use pmix_tool::submit::{JobEnd, JobUpdate, SubmittedJob};
use pmix_tool::{Error, IofChannels, OutputChunk};
use pmix_types::{App, Nspace, ProcId, ProcInfo, Rank, Status};
use rustix::process::Signal;
use tokio::task::JoinHandle;

/// How long all may take to be told to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// A job that runs.
pub(crate) enum Job {
    Here(RunningJob),
    InDvm(Box<InDvm>),
}

/// A job that the head of a DVM runs.
pub(crate) struct InDvm {
    job: SubmittedJob,
    apps: Vec<App>,
    /// As it was when the job had started.
    table: Vec<ProcInfo>,
    /// What is to be told next.
    next: VecDeque<JobReport>,
    /// What the head has said of its end.
    said: Option<String>,
    /// The last request to kill it.
    killing: Option<JoinHandle<()>>,
}

impl Job {
    pub(crate) fn nspace(&self) -> &Nspace {
        match self {
            Self::Here(job) => job.nspace(),
            Self::InDvm(dvm) => dvm.job.nspace(),
        }
    }

    /// The next report; the last one is that of the end. Cancel-safe.
    ///
    /// # Errors
    /// What becomes of the job will not be known.
    pub(crate) async fn next_report(&mut self) -> Result<JobReport, String> {
        match self {
            Self::Here(job) => {
                job.next_report().await.ok_or_else(|| "the job is no longer supervised".to_owned())
            }
            Self::InDvm(dvm) => dvm.next_report().await,
        }
    }

    /// What the head of a DVM has said of the end of the job, once.
    pub(crate) fn take_said(&mut self) -> Option<String> {
        match self {
            Self::Here(_) => None,
            Self::InDvm(dvm) => dvm.said.take(),
        }
    }

    /// Sends a signal to all processes.
    pub(crate) fn signal(&self, signal: i32) {
        match self {
            Self::Here(job) => job.signal(signal),
            Self::InDvm(dvm) => dvm.signal(signal),
        }
    }

    /// Stops all processes, and returns when they have been told.
    ///
    /// # Errors
    /// Why they have not.
    pub(crate) async fn stop(&self) -> Result<(), String> {
        let signal = Signal::STOP.as_raw();
        let stopped = async {
            match self {
                Self::Here(job) => job.signal_and_wait(signal).await.map_err(|error| error.to_string()),
                Self::InDvm(dvm) => dvm.job.signal(signal).await.map_err(|error| error.to_string()),
            }
        };
        let late = |_| format!("not within {} s", STOPPING.as_secs());
        tokio::time::timeout(STOPPING, stopped).await.map_err(late)?
    }

    /// Ends all processes: first by a request, and after the grace period of their launchers by force.
    pub(crate) fn terminate(&self) {
        match self {
            Self::Here(job) => job.terminate(),
            Self::InDvm(dvm) => drop(tokio::spawn(ignore_failure(dvm.job.terminate()))),
        }
    }

    /// Ends all processes by force.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Here(job) => job.kill(),
            Self::InDvm(dvm) => dvm.kill(),
        }
    }
}

impl InDvm {
    pub(crate) const fn new(job: SubmittedJob, apps: Vec<App>, table: Vec<ProcInfo>) -> Self {
        Self { job, apps, table, next: VecDeque::new(), said: None, killing: None }
    }

    async fn next_report(&mut self) -> Result<JobReport, String> {
        loop {
            if let Some(report) = self.next.pop_front() {
                return Ok(report);
            }
            match self.job.next().await {
                Some(Ok(JobUpdate::Output(chunk))) => self.next.extend(output(chunk)),
                Some(Ok(JobUpdate::Missing { bytes })) => {
                    tracing::warn!(bytes, "output is missing: it was not read fast enough");
                }
                Some(Ok(JobUpdate::Ended(end))) => self.take_end(&end),
                Some(Ok(news)) => tracing::debug!(?news, "news of a job"),
                Some(Err(error)) => return Err(format!("what becomes of the job is unknown: {error}")),
                None => return Err("what becomes of the job is unknown".to_owned()),
            }
        }
    }

    fn take_end(&mut self, end: &JobEnd) {
        let mut outcome = JobOutcome::new(end.status, end.exit_code);
        self.said.clone_from(&end.message);
        if let Some(proc) = &end.first_failure {
            let exit = exit_of(end);
            outcome.first_failure = Some((proc.clone(), exit));
            let failed = JobReport::Failed {
                proc: proc.clone(),
                node: self.node_of(proc).unwrap_or_default(),
                program: self.program_of(proc.rank),
                exit,
            };
            if end.status != Status::ERR_JOB_KILLED_BY_CMD {
                self.next.push_back(failed);
            }
        }
        self.next.push_back(JobReport::Done(outcome));
    }

    fn node_of(&self, proc: &ProcId) -> Option<String> {
        self.table.iter().find(|row| row.proc == *proc)?.hostname.clone()
    }

    /// What a rank runs: ranks are numbered application by application.
    fn program_of(&self, rank: Rank) -> String {
        // one application alone may have become several, as daemons of a debugger do
        if let [only] = self.apps.as_slice() {
            return only.command.to_string_lossy().into_owned();
        }
        let mut before = 0_u64;
        let is_of = |app: &&App| {
            before += u64::try_from(app.max_procs).unwrap_or_default();
            u64::from(rank.to_raw()) < before
        };
        let app = self.apps.iter().find(is_of);
        app.map(|app| app.command.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn signal(&self, signal: i32) {
        let request = self.job.signal(signal);
        tokio::spawn(ignore_failure(request));
    }

    /// Has the head kill it. A key that is held down repeats the request only once the last one is answered.
    fn kill(&mut self) {
        if self.killing.as_ref().is_none_or(JoinHandle::is_finished) {
            let request = self.job.signal(Signal::KILL.as_raw());
            self.killing = Some(tokio::spawn(ignore_failure(request)));
        }
    }
}

async fn ignore_failure(request: impl Future<Output = Result<(), Error>>) {
    if let Err(error) = request.await {
        // the job may just have ended
        tracing::debug!(%error, "cannot signal the job");
    }
}

/// Output as the launcher of this process would have reported it, for each channel.
fn output(chunk: OutputChunk) -> impl Iterator<Item = JobReport> {
    let OutputChunk { source: proc, channels, data, .. } = chunk;
    [(IofChannels::STDOUT, OutputChannel::Stdout), (IofChannels::STDERR, OutputChannel::Stderr)]
        .into_iter()
        .filter(move |(flag, _)| channels.contains(*flag))
        .map(move |(_, channel)| {
            JobReport::Proc(LaunchReport::Output { proc: proc.clone(), channel, data: data.clone() })
        })
}

/// How the process ended that failed first. Its code is that of the job, unless abort has set another one.
const fn exit_of(end: &JobEnd) -> ProcExit {
    match (end.status, end.exit_code) {
        (Status::ERR_JOB_ABORTED_BY_SIG | Status::ERR_JOB_KILLED_BY_CMD, code @ 129..) => {
            ProcExit::Signal(code - 128)
        }
        (Status::ERR_JOB_TERM_WO_SYNC, _) => ProcExit::Code(0),
        (_, code) => ProcExit::Code(code),
    }
}
