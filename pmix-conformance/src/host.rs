//! Checks of a host that is part of this program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use pmix_types::job::JobSpec;
use pmix_types::map::MapError;
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank};

use super::rank::{PATIENCE, run_rank};
use super::{Check, Report, SecondJob, Verdict, checks};
use pmix_server::InProcess;
use pmix_server::host::HostModule;
use pmix_server::{Server, ServerError};

/// A server that does not answer within this time is stuck.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// No check takes longer, whatever the host does.
const CHECK_WITHIN: Duration = Duration::from_secs(60);

/// Runs the checks on hosts of one's own.
///
/// Every check gets fresh hosts, each with a server of its own in this process, and two fresh jobs of two ranks a node
/// that span all nodes; jobs and processes are registered with the servers, not started by the hosts. Hosts that start
/// processes themselves are checked from outside too: see [`run_rank`](super::run_rank).
///
/// Whatever a host does, the run ends: a check that hangs has failed, and so has one that leaves its server stuck.
#[must_use = "nothing is checked before it is run"]
pub struct Conformance<F> {
    make: F,
    nodes: u32,
    only: Vec<String>,
    patience: Duration,
}

/// Why the checks could not be run at all.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SetUpError {
    /// Not one host for every node.
    #[error("{hosts} hosts were made for {nodes} nodes")]
    Hosts {
        /// Hosts that were made.
        hosts: usize,
        /// Nodes that were named.
        nodes: usize,
    },
    /// A server did not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A server did not take a job or process.
    #[error("the server refused the job of the checks: {0}")]
    Job(Failure),
    /// The description of the job is not valid.
    #[error("the job of the checks: {0}")]
    Spec(#[from] MapError),
    /// A name is not valid.
    #[error("the job of the checks: {0}")]
    Name(#[from] pmix_types::NspaceError),
    /// There is no check of this name.
    #[error("there is no check {0}")]
    NoSuchCheck(String),
}

impl<F> fmt::Debug for Conformance<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance")
            .field("nodes", &self.nodes)
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}

impl<F, H> Conformance<F>
where
    F: Fn(&[String]) -> Vec<H>,
    H: HostModule,
{
    /// Checks hosts that `make` makes: one for each of the nodes named, in that order, able to reach each other.
    /// Called once a check.
    pub const fn new(make: F) -> Self {
        Self { make, nodes: 2, only: Vec::new(), patience: PATIENCE }
    }

    /// Number of nodes, 2 if not given; with 1, what needs two is skipped.
    pub const fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// How long an answer may take; [`PATIENCE`] if not given. At least two seconds, or limits of time that are checked
    /// seem to be broken.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs only checks of these names; none for all.
    pub fn only<S: Into<String>>(mut self, checks: impl IntoIterator<Item = S>) -> Self {
        self.only = checks.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the checks, one after the other.
    ///
    /// # Errors
    /// [`SetUpError`] if there is nothing to check; what the checks find is in the report.
    pub async fn run(self) -> Result<Report, SetUpError> {
        if let Some(unknown) =
            self.only.iter().find(|name| !checks().iter().any(|check| check.name == **name))
        {
            return Err(SetUpError::NoSuchCheck(unknown.clone()));
        }
        let mut report = Report::default();
        for (number, check) in checks().iter().enumerate() {
            if self.only.is_empty() || self.only.iter().any(|name| name == check.name) {
                let verdict = self.run_check(check, number).await?;
                report.outcomes.push(check.outcome(verdict));
            }
        }
        Ok(report)
    }

    async fn run_check(&self, check: &Check, number: usize) -> Result<Verdict, SetUpError> {
        let names: Vec<String> = (0..self.nodes).map(|node| format!("node{node}")).collect();
        let hosts = (self.make)(&names);
        if hosts.len() != names.len() {
            return Err(SetUpError::Hosts { hosts: hosts.len(), nodes: names.len() });
        }
        let mut servers = Vec::new();
        for (host, name) in hosts.into_iter().zip(&names) {
            servers.push(
                Server::builder()
                    .host(host)
                    .hostname(name)
                    .nspace(format!("{name}.{number}"))
                    .start()
                    .await?,
            );
        }
        let jobs = [Nspace::new(format!("check-{number}-a"))?, Nspace::new(format!("check-{number}-b"))?];
        for job in &jobs {
            register(job, &names, &servers).await?;
        }
        let verdict = tokio::time::timeout(CHECK_WITHIN, run_on(check, &jobs, &servers, self.patience)).await;
        let mut verdict =
            verdict.unwrap_or_else(|_| Verdict::Failed(format!("it did not end within {CHECK_WITHIN:?}")));
        for server in servers {
            let ends = async {
                server.stats().await;
                server.stop().await;
            };
            if tokio::time::timeout(ALIVE_WITHIN, ends).await.is_err() {
                verdict = Verdict::Failed("its server is stuck afterwards".into());
            }
        }
        Ok(verdict)
    }
}

const RANKS_A_NODE: u32 = 2;

async fn register(job: &Nspace, names: &[String], servers: &[Server]) -> Result<(), SetUpError> {
    let nodes = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let spec = JobSpec::new(job.clone()).node_map(names)?.ranks_block(nodes, RANKS_A_NODE)?;
    for server in servers {
        server.handle().register_nspace(spec.clone()).await.map_err(SetUpError::Job)?;
    }
    Ok(())
}

/// Runs the check as every rank of both jobs at once, until all have passed or one has not.
async fn run_on(check: &Check, jobs: &[Nspace; 2], servers: &[Server], patience: Duration) -> Verdict {
    let [first, second] = jobs;
    let mut ranks = FuturesUnordered::new();
    for (job, other) in [(first, second), (second, first)] {
        if job == second && !check.both_jobs {
            continue;
        }
        for (node, server) in (0..).zip(servers) {
            for local in 0..RANKS_A_NODE {
                let proc = ProcId::new(job.clone(), Rank::from_raw(node * RANKS_A_NODE + local));
                ranks.push(run_as(check, proc, other, server, patience));
            }
        }
    }
    // nobody leaves before all are done: that would be the death of a process
    let mut sessions = Vec::new();
    while let Some((verdict, session)) = ranks.next().await {
        if verdict != Verdict::Passed {
            return verdict;
        }
        sessions.push(session);
    }
    Verdict::Passed
}

async fn run_as(
    check: &Check,
    proc: ProcId,
    other: &Nspace,
    server: &Server,
    patience: Duration,
) -> (Verdict, Option<Arc<InProcess>>) {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let handle = server.handle();
    let connected = async {
        handle.register_client(&proc, uid, gid, None).await?;
        handle.connect_in_process(proc.clone()).await
    };
    match connected.await {
        Ok(session) => {
            let session = Arc::new(session);
            let second = SecondJob::Known(other.clone());
            (run_rank(check, session.clone(), second, patience).await, Some(session))
        }
        Err(failure) => (Verdict::Failed(format!("{proc} cannot connect: {failure}")), None),
    }
}

pmix_types::message_first!(SetUpError);
