//! Jobs that processes start: children of the job of their parent.

use std::sync::atomic::Ordering;

use pmix_types::{App, Directives, Envar, Info, IofChannels, Nspace, ProcId, Rank, Status, Value, keys};
use tokio::sync::mpsc;

use super::supervise::Control;
use super::{Exchange, Job, JobReport, JobStart, Launcher, StandardHost, StartError};
use crate::host::{HostError, HostResult, SpawnRequest};

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    /// Starts a job for a process; its output goes to whoever reads that of the parent, and it ends with the parent's
    /// job.
    pub(super) async fn spawn_child(&self, parent: &ProcId, req: SpawnRequest) -> HostResult<Nspace> {
        let SpawnRequest { apps, directives, .. } = req;
        let (forwarded, stdin) = (forwarded(&directives)?, stdin_reader(&directives)?);
        let apps = apps.into_iter().map(|app| with_directives(app, &directives)).collect::<Result<_, _>>()?;
        let number = self.0.shared.spawned.fetch_add(1, Ordering::Relaxed) + 1;
        let nspace = Nspace::new(format!("{}.{number}", parent.nspace))
            .map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        let mut start = JobStart::new(nspace.clone(), apps).parent(parent.clone()).forwarded(forwarded);
        start.stdin = stdin.filter(|_| self.0.shared.launcher.takes_stdin());
        let owner = self.jobs().get(&parent.nspace).map(|job| {
            start.on_failure = job.on_failure;
            Owner { control: job.control.clone(), reports: job.reports.clone() }
        });
        let job = self.start_job(start).await.map_err(refusal)?;
        if let Some(owner) = &owner {
            let child = Control::Child { nspace: nspace.clone(), control: job.sender() };
            if owner.control.send(child).is_err() {
                job.terminate();
            }
        }
        tokio::spawn(pass_on(job, owner));
        Ok(nspace)
    }
}

/// The job of the parent; a tool has none.
struct Owner {
    control: mpsc::UnboundedSender<Control>,
    reports: mpsc::Sender<JobReport>,
}

/// Hands the reports of a job to whoever reads those of its parent's job.
async fn pass_on(mut job: Job, owner: Option<Owner>) {
    while let Some(report) = job.next_report().await {
        let Some(owner) = &owner else { continue };
        match report {
            JobReport::Done(outcome) => {
                let nspace = job.nspace().clone();
                let _ = owner.control.send(Control::ChildEnded { nspace, outcome });
            }
            report => {
                // an owner that is gone reads nothing
                let _ = owner.reports.send(report).await;
            }
        }
    }
}

/// What output of the job can be pulled: what the spawn has asked for (IOF-04).
fn forwarded(directives: &Directives) -> HostResult<IofChannels> {
    let mut channels = IofChannels::NONE;
    if directives.flag(&keys::FWD_STDOUT)? {
        channels |= IofChannels::STDOUT;
    }
    if directives.flag(&keys::FWD_STDERR)? {
        channels |= IofChannels::STDERR;
    }
    Ok(channels)
}

/// Who takes input: the rank that is named, as the newest Standard has it, or all, as the headers have it.
fn stdin_reader(directives: &Directives) -> HostResult<Option<Rank>> {
    match directives.get_value(keys::FWD_STDIN.name()) {
        Some(Value::Rank(rank)) => Ok(Some(*rank)),
        _ => Ok(directives.flag(&keys::FWD_STDIN)?.then_some(Rank::WILDCARD)),
    }
}

/// What the job's directives and the application's own make of it; its own win (SPN-01).
fn with_directives(mut app: App, job: &Directives) -> HostResult<App> {
    let own = Directives::from(app.info.clone());
    let wdir = match own.get(&keys::WDIR)? {
        Some(dir) => Some(dir),
        None => app.cwd.take().map_or_else(|| job.get(&keys::WDIR), |dir| Ok(Some(dir)))?,
    };
    app.cwd = wdir;
    for info in job.iter().chain(&own) {
        set_variable(&mut app, info)?;
    }
    Ok(app)
}

/// `SET` overwrites, `ADD` does not (SPN-03).
fn set_variable(app: &mut App, info: &Info) -> HostResult<()> {
    let overwrites = info.is(&keys::SET_ENVAR);
    if !overwrites && !info.is(&keys::ADD_ENVAR) {
        return Ok(());
    }
    let Envar { name, value, .. } =
        info.get().map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
    let is_it = |line: &String| line.split_once('=').is_some_and(|(held, _)| held == name);
    if overwrites {
        app.env.retain(|line| !is_it(line));
    }
    if !app.env.iter().any(is_it) {
        app.env.push(format!("{name}={value}"));
    }
    Ok(())
}

fn refusal(error: StartError) -> HostError {
    let status = match &error {
        StartError::Launch(_) => Status::ERR_JOB_FAILED_TO_LAUNCH,
        StartError::Invalid(_) => Status::ERR_BAD_PARAM,
        StartError::Server(failure) => failure.status,
        StartError::Host(error) => error.status(),
    };
    HostError::new(status, error.to_string()).with_source(error)
}
