//! Checks hosts within this program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use pmix_types::job::JobSpec;
use pmix_types::map::MapError;
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, Status};

use super::actor::Task;
use super::rank::{PATIENCE, run_rank};
use super::{Check, Report, SecondJob, Verdict, checks, declared};
use pmix_server::host::HostModule;
use pmix_server::{Server, ServerError};

/// A server that does not answer within this time is stuck.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Time limit of a check, whatever the host does.
const CHECK_WITHIN: Duration = Duration::from_secs(60);

/// Runs the checks on your own hosts.
///
/// Every check gets new hosts, each with its own server in this process, and two new jobs that span all nodes, with two ranks
/// per node. Jobs and processes are registered with the servers, but not started by the hosts. A host that starts processes
/// should also be checked from outside: see [`run_rank`](super::run_rank).
///
/// The run always ends: a check fails if it hangs, or if its server is stuck afterwards.
#[must_use = "the checks start only with `run`"]
pub struct Conformance<F> {
    make: F,
    nodes: u32,
    only: Vec<String>,
    patience: Duration,
}

/// Why the checks could not be run.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SetUpError {
    /// The number of hosts differs from the number of nodes.
    #[error("{hosts} hosts were made for {nodes} nodes")]
    Hosts {
        /// Number of hosts made.
        hosts: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// A server did not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A server refused a job or process.
    #[error("the server refused the job of the checks: {0}")]
    Job(Failure),
    /// The description of the job is not valid.
    #[error("invalid description of the job of the checks: {0}")]
    Spec(#[from] MapError),
    /// A namespace is not valid.
    #[error("invalid namespace for the job of the checks: {0}")]
    Name(#[from] pmix_types::NspaceError),
    /// There is no check with this name.
    #[error("there is no check {0}")]
    NoSuchCheck(String),
}

pmix_types::statuses! {
    SetUpError,
    "that of its cause; `ERR_BAD_PARAM` for a wrong number of hosts or an unknown check",
    |this| match this {
        Self::Hosts { .. } | Self::NoSuchCheck(_) => Status::ERR_BAD_PARAM,
        Self::Server(error) => error.status(),
        Self::Job(failure) => failure.status(),
        Self::Spec(error) => error.status(),
        Self::Name(error) => error.status(),
    };
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
    /// Checks the hosts that `make` returns. `make` is called once per check with the names of the nodes; it must return one
    /// host per node, in this order, and the hosts must be able to reach each other.
    pub const fn new(make: F) -> Self {
        Self { make, nodes: 2, only: Vec::new(), patience: PATIENCE }
    }

    /// Number of nodes. Default: 2. With 1, checks that need two nodes are skipped.
    pub const fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// How long a reply may take. Default: [`PATIENCE`]. Must be at least two seconds, or the checks of time limits fail.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs only the checks with these names; all checks if the list is empty.
    pub fn only<S: Into<String>>(mut self, checks: impl IntoIterator<Item = S>) -> Self {
        self.only = checks.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the checks, one after the other.
    ///
    /// # Errors
    /// [`SetUpError`] if the checks cannot be run. The findings of the checks are in the report.
    pub async fn run(self) -> Result<Report, SetUpError> {
        let is_known = |name: &str| name == declared::NAME || checks().iter().any(|check| check.name == name);
        if let Some(unknown) = self.only.iter().find(|name| !is_known(name)) {
            return Err(SetUpError::NoSuchCheck(unknown.clone()));
        }
        let mut report = Report::default();
        for (number, check) in checks().iter().enumerate() {
            if self.is_wanted(check.name) {
                let verdict = self.run_check(check, number).await?;
                report.outcomes.push(check.outcome(verdict));
            }
        }
        if self.is_wanted(declared::NAME) {
            report.outcomes.push(declared::outcome(self.check_declared().await));
        }
        Ok(report)
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// Checks the first host, before it has a server.
    async fn check_declared(&self) -> Verdict {
        match (self.make)(&self.names()).first() {
            Some(host) => declared::check(host, self.patience).await,
            None => Verdict::Passed,
        }
    }

    fn names(&self) -> Vec<String> {
        (0..self.nodes).map(|node| format!("node{node}")).collect()
    }

    async fn run_check(&self, check: &Check, number: usize) -> Result<Verdict, SetUpError> {
        let names = self.names();
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
                    .tool_support(true)
                    .start()
                    .await?,
            );
        }
        let jobs = [Nspace::new(format!("check-{number}-a"))?, Nspace::new(format!("check-{number}-b"))?];
        for job in &jobs {
            register(job, &names, &servers).await?;
        }
        let verdict = tokio::time::timeout(CHECK_WITHIN, run_on(check, &jobs, &servers, self.patience)).await;
        let mut verdict = verdict
            .unwrap_or_else(|_| Verdict::Failed(format!("the check did not end within {CHECK_WITHIN:?}")));
        for server in servers {
            let ends = async {
                server.stats().await;
                server.stop().await;
            };
            if tokio::time::timeout(ALIVE_WITHIN.max(self.patience), ends).await.is_err() {
                verdict = Verdict::Failed("its server is stuck after the check".into());
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

/// Runs the check concurrently as every rank of both jobs, until all have passed or one has not.
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
    // all connections stay open until every rank is done, as dropping one counts as the death of its process
    let mut actors = Vec::new();
    while let Some((verdict, actor)) = ranks.next().await {
        if verdict != Verdict::Passed {
            return verdict;
        }
        actors.push(actor);
    }
    Verdict::Passed
}

async fn run_as(
    check: &Check,
    proc: ProcId,
    other: &Nspace,
    server: &Server,
    patience: Duration,
) -> (Verdict, Option<Arc<Task>>) {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let handle = server.handle();
    let connected = async {
        handle.register_client(&proc, uid, gid, None).await?;
        handle.connect_in_process(proc.clone()).await
    };
    match connected.await {
        Ok(process) => {
            let actor = Arc::new(Task { process, server: handle.clone() });
            let second = SecondJob::Known(other.clone());
            (run_rank(check, actor.clone(), second, patience).await, Some(actor))
        }
        Err(failure) => (Verdict::Failed(format!("{proc} cannot connect: {failure}")), None),
    }
}

pmix_types::message_first!(SetUpError);
