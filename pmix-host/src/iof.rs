//! Output that tools and other processes ask for, and input they send.

use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_types::{Directives, Info, IofChannels, ProcId, ProcInfo, ProcState, Rank, Status, keys};

use super::cluster::Servers;
use super::host::take_identity;
use super::start::JobEntry;
use super::{Exchange, Launcher, OutputChannel, StandardHost};
use pmix_server::host::{HostError, HostResult, IofPull, IofPullRequest, IofPush, UpcallContext};

/// What of a job can be forwarded, and who has asked for it.
#[derive(Debug)]
pub(super) struct Forwarding {
    /// Output that is forwarded (IOF-04).
    pub(super) channels: IofChannels,
    /// Who takes input: one rank, all, or none.
    pub(super) stdin: Option<Rank>,
    pub(super) pullers: Vec<Puller>,
}

/// Somebody who gets output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Puller {
    caller: ProcId,
    /// Where its server is.
    node: String,
    procs: Vec<ProcId>,
    channels: IofChannels,
    /// The output goes where it went before, too (IOF-03).
    copies: bool,
}

impl Puller {
    fn wants(&self, source: &ProcId, channels: IofChannels) -> bool {
        self.channels.intersects(channels) && self.procs.iter().any(|proc| proc.matches(source))
    }
}

impl StandardHost {
    pub(super) fn change_forwarding(&self, cx: &UpcallContext, mut req: IofPullRequest) -> HostResult<()> {
        take_identity(&mut req.pull.directives)?;
        let copies = take_mode(&mut req.pull.directives)?;
        let IofPullRequest { pull: IofPull { procs, channels, directives, .. }, start, .. } = req;
        let (caller, node) = (cx.caller.clone(), self.0.exchange.node().to_owned());
        let puller = Puller { caller, node, procs, channels, copies };
        let mut jobs = self.jobs();
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
                    "{} of job {} is not forwarded: spawn the job with forward_output(), which is FWD_STDOUT and FWD_STDERR",
                    puller.channels - job.forwarding.channels,
                    proc.nspace
                );
                return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
            }
        }
        for (nspace, job) in jobs.iter_mut() {
            if puller.procs.iter().any(|proc| proc.nspace == *nspace) {
                job.forwarding.pullers.push(puller.clone());
            }
        }
        Ok(())
    }

    /// Hands output to whoever has asked for it, on whatever node; tells whether its owner gets it, too.
    ///
    /// Waits for the servers to take it, never for those who read it.
    pub(super) async fn forward_output(
        &self,
        servers: &Servers,
        source: &ProcId,
        channel: OutputChannel,
        data: &Bytes,
    ) -> bool {
        let channels = IofChannels::from(channel);
        let (mut nodes, mut is_kept) = (BTreeSet::new(), true);
        if let Some(job) = self.jobs().get(&source.nspace) {
            for puller in job.forwarding.pullers.iter().filter(|puller| puller.wants(source, channels)) {
                nodes.insert(puller.node.clone());
                is_kept &= puller.copies;
            }
        }
        for server in nodes.iter().filter_map(|node| servers.of(node)) {
            let complete = data.is_empty().then(|| Info::new(&keys::IOF_COMPLETE, true));
            let info = complete.into_iter().collect::<Directives>();
            // a server that has stopped has nobody to tell
            let _ = server.iof_deliver(source, channels, data.clone(), info).await;
        }
        is_kept
    }

    /// Input for processes of jobs that were started with it.
    pub(super) async fn take_input(&self, mut req: IofPush) -> HostResult<()> {
        take_identity(&mut req.directives)?;
        let is_end = req.directives.take_flag(&keys::IOF_COMPLETE)?;
        // what a process's own library does
        req.directives.take_flag(&keys::IOF_PUSH_STDIN)?;
        req.directives.deny_unprocessed()?;
        let mut readers = Vec::new();
        {
            let jobs = self.jobs();
            for target in &req.targets {
                let job = jobs.get(&target.nspace).ok_or_else(|| unknown(target))?;
                readers.extend(readers_of(job, target)?);
            }
        }
        readers.sort_unstable();
        readers.dedup();
        self.0
            .shared
            .launcher
            .push_stdin(&readers, req.data, is_end)
            .await
            .map_err(|error| HostError::new(Status::ERR_NOT_SUPPORTED, error.to_string()).with_source(error))
    }
}

impl From<OutputChannel> for IofChannels {
    fn from(channel: OutputChannel) -> Self {
        match channel {
            OutputChannel::Stdout => Self::STDOUT,
            OutputChannel::Stderr => Self::STDERR,
        }
    }
}

/// Whether a copy is wanted; by default the output is taken away (IOF-03). Directives for the server are marked too.
fn take_mode(directives: &mut Directives) -> HostResult<bool> {
    let copies = directives.take_flag(&keys::IOF_COPY)?;
    if directives.take_flag(&keys::IOF_REDIRECT)? && copies {
        let message = "output is either copied or redirected: give one of IOF_COPY and IOF_REDIRECT";
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
        let message = format!("{target}: of its job only rank {stdin} takes input");
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
