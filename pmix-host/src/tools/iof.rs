//! Output that tools and other processes pull, and input that they push.

use std::sync::Arc;

use pmix_server::host::{HostError, HostResult, IofPull, IofPullRequest, IofPush, UpcallContext};
use pmix_types::{Directives, ProcId, ProcInfo, ProcState, Rank, Status, keys};

use crate::Launcher;
use crate::jobs::{JobEntry, JobTable, Puller};
use crate::user::take_identity;

/// Forwards output and input.
pub(crate) struct Forwarder {
    launcher: Arc<dyn Launcher>,
    jobs: Arc<JobTable>,
}

impl Forwarder {
    pub(crate) fn new(launcher: Arc<dyn Launcher>, jobs: Arc<JobTable>) -> Self {
        Self { launcher, jobs }
    }

    /// Starts or ends the passing on of output to a process whose server is on `node`.
    pub(crate) fn change_forwarding(
        &self,
        node: &str,
        cx: &UpcallContext,
        mut req: IofPullRequest,
    ) -> HostResult<()> {
        take_identity(&mut req.pull.directives)?;
        let copies = take_mode(&mut req.pull.directives)?;
        let IofPullRequest { pull: IofPull { procs, channels, directives, .. }, start, .. } = req;
        let (caller, node) = (cx.caller.clone(), node.to_owned());
        let puller = Puller { caller, node, procs, channels, copies };
        let mut jobs = self.jobs.entries();
        if !start {
            for job in jobs.values_mut() {
                // jobs that have ended have forgotten theirs
                if let Some(index) = job.forwarding.pullers.iter().position(|held| *held == puller) {
                    job.forwarding.pullers.swap_remove(index);
                }
            }
            return Ok(());
        }
        directives.deny_unprocessed()?;
        // all of them, or none
        for proc in &puller.procs {
            let job = jobs.get(&proc.nspace).ok_or_else(|| unknown(proc))?;
            if !has_process(job, proc.rank) {
                return Err(unknown(proc));
            }
            if !job.forwarding.channels.contains(puller.channels) {
                let message = format!(
                    "output of job {} ({}) is not forwarded: request forwarding when the job is started (FWD_STDOUT, FWD_STDERR)",
                    proc.nspace,
                    puller.channels - job.forwarding.channels
                );
                return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
            }
        }
        for (nspace, job) in jobs.iter_mut() {
            if puller.procs.iter().any(|proc| proc.nspace == *nspace) {
                job.forwarding.pullers.push(puller.clone());
                job.forwarding.hold.pulled.notify_one();
            }
        }
        Ok(())
    }

    /// Input for processes of jobs that were started with it.
    pub(crate) async fn take_input(&self, mut req: IofPush) -> HostResult<()> {
        take_identity(&mut req.directives)?;
        let is_end = req.directives.take_flag(&keys::IOF_COMPLETE)?;
        // what a process's own library does
        req.directives.take_flag(&keys::IOF_PUSH_STDIN)?;
        req.directives.deny_unprocessed()?;
        let mut readers = Vec::new();
        {
            let jobs = self.jobs.entries();
            for target in &req.targets {
                let job = jobs.get(&target.nspace).ok_or_else(|| unknown(target))?;
                readers.extend(readers_of(job, target)?);
            }
        }
        readers.sort_unstable();
        readers.dedup();
        self.launcher
            .push_stdin(&readers, req.data, is_end)
            .await
            .map_err(|error| HostError::new(Status::ERR_NOT_SUPPORTED, error.to_string()).with_source(error))
    }
}

/// Whether a copy is wanted; by default the output is taken away (IOF-03). Directives for the server are marked too.
fn take_mode(directives: &mut Directives) -> HostResult<bool> {
    let copies = directives.take_flag(&keys::IOF_COPY)?;
    if directives.take_flag(&keys::IOF_REDIRECT)? && copies {
        let message = "output cannot be both copied and redirected: give IOF_COPY or IOF_REDIRECT";
        return Err(HostError::new(Status::ERR_BAD_PARAM, message));
    }
    for key in [&keys::IOF_CACHE_SIZE, &keys::IOF_BUFFERING_SIZE, &keys::IOF_BUFFERING_TIME] {
        directives.take(key)?;
    }
    directives.take_flag(&keys::IOF_DROP_OLDEST)?;
    directives.take_flag(&keys::IOF_DROP_NEWEST)?;
    Ok(copies)
}

/// Live processes that the target names and that take input.
fn readers_of(job: &JobEntry, target: &ProcId) -> HostResult<Vec<ProcId>> {
    let Some(stdin) = job.forwarding.stdin else {
        let message = format!("{target}: its job was started without FWD_STDIN, so it takes no input");
        return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
    };
    if !stdin.matches(target.rank) {
        let message = format!("{target}: only rank {stdin} of its job takes input");
        return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
    }
    let wanted = |row: &&ProcInfo| target.matches(&row.proc) && stdin.matches(row.proc.rank) && is_live(row);
    let readers: Vec<_> = job.table.iter().filter(wanted).map(|row| row.proc.clone()).collect();
    if readers.is_empty() { Err(unknown(target)) } else { Ok(readers) }
}

fn has_process(job: &JobEntry, rank: Rank) -> bool {
    rank.is_wildcard() || job.table.iter().any(|row| row.proc.rank == rank)
}

fn is_live(row: &ProcInfo) -> bool {
    [ProcState::LAUNCH_UNDERWAY, ProcState::RUNNING, ProcState::CONNECTED].contains(&row.state)
}

fn unknown(proc: &ProcId) -> HostError {
    HostError::new(Status::ERR_NOT_FOUND, format!("{proc} does not run under this resource manager"))
}
