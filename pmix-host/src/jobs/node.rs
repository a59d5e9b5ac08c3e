//! The nodes that jobs run on, as their host sees them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use pmix_server::host::HostResult;
use pmix_server::{Account, Pmi1Socket};
use pmix_types::job::JobSpec;
use pmix_types::{Directives, Event, Gid, Info, IofChannels, Nspace, ProcId, Uid};

use super::error::StartError;

/// A node that jobs run on. Its server may be in this process, or somewhere else: jobs do not see the difference.
#[async_trait]
pub(crate) trait Node: Send + Sync {
    fn name(&self) -> &str;

    /// Fails if it cannot take jobs yet.
    fn check(&self) -> HostResult<()>;

    /// Whether a namespace is registered there.
    async fn knows(&self, nspace: &Nspace) -> bool;

    /// Registers the job with this number, and makes its directory, which belongs to the user.
    async fn register_job(&self, number: u32, job: NodeJob, user: Option<&Account>)
    -> Result<(), StartError>;

    /// Sets up there what the job needs, before the first of its processes starts.
    async fn set_up_local(&self, nspace: &Nspace, needed: Vec<Info>) -> HostResult<()>;

    /// Registers a process that is about to start there; returns how it finds its server.
    async fn register_proc(&self, proc: &ProcId, uid: Uid, gid: Gid) -> Result<ProcEnvironment, StartError>;

    /// Makes the working directory for processes that are to start in the session's directory.
    async fn work_dir(&self, number: u32, user: Option<&Account>) -> HostResult<String>;

    /// A process there has started.
    async fn proc_started(&self, proc: &ProcId, pid: i32);

    /// A process there has ended. When this returns, the host has been told of all connections that were lost before.
    async fn proc_ended(&self, proc: &ProcId, reason: String);

    /// Removes a job with its directory, and data that its processes have published for no longer than the job. Does
    /// nothing if the job is unknown.
    async fn end_job(&self, nspace: &Nspace);

    /// Writes down what its server has on record, because of a job; returns the file, if there is one.
    async fn keep_record(&self, nspace: &Nspace, why: &str) -> Option<PathBuf>;

    /// Notifies the processes and tools there of an event.
    async fn notify(&self, event: &Event);

    /// Passes output to those who pull it there.
    async fn deliver(&self, source: &ProcId, channels: IofChannels, data: bytes::Bytes, info: Directives);
}

/// A job as one of the nodes has it.
#[derive(Debug)]
pub(crate) struct NodeJob {
    pub(crate) spec: JobSpec,
    /// Its processes there.
    pub(crate) here: Vec<ProcId>,
    /// Its applications that start in the session's directory.
    pub(crate) in_session: Vec<u32>,
}

/// Variables by which a process finds its server, and those that it may have otherwise.
#[derive(Clone, Debug)]
pub(crate) struct ProcEnvironment {
    /// Directives that change what it has from its application.
    pub(crate) changes: Vec<Info>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) defaults: Vec<(String, String)>,
    /// What makes its socket for PMI-1.
    pub(crate) pmi1: Option<Pmi1Socket>,
}

/// The nodes by name: each knows all jobs, and the processes that run there.
#[derive(Clone)]
pub(crate) struct Nodes(BTreeMap<String, Arc<dyn Node>>);

impl Nodes {
    /// # Errors
    /// What keeps one of them from taking jobs.
    pub(crate) fn new(nodes: impl IntoIterator<Item = Arc<dyn Node>>) -> HostResult<Self> {
        let named = |node: Arc<dyn Node>| node.check().map(|()| (node.name().to_owned(), node));
        nodes.into_iter().map(named).collect::<HostResult<_>>().map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn Node> {
        self.0.get(name).map(|node| &**node)
    }

    /// Refuses names that are those of no node here.
    pub(crate) fn check_names(&self, names: &[String], exchange: &[String]) -> Result<(), StartError> {
        let Some(node) = names.iter().find(|name| !self.0.contains_key(*name)) else { return Ok(()) };
        let here = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let why = if exchange.contains(node) {
            "its server belongs to another StandardHost, and a host starts processes only where it has servers: make the \
             hosts of all nodes in one process by StandardHost::cluster, or have Launcher::nodes name this node alone"
        } else {
            "launcher and exchange must use the same names of nodes"
        };
        Err(StartError::Invalid(format!(
            "node {node} of the launcher has no server here (there are {here}): {why}"
        )))
    }

    /// Whether a namespace is registered with any of them.
    pub(crate) async fn know(&self, nspace: &Nspace) -> bool {
        join_all(self.0.values().map(|node| node.knows(nspace))).await.contains(&true)
    }

    /// Registers the job with each of them, as it is described there.
    pub(crate) async fn register_job(
        &self,
        number: u32,
        job: impl Fn(&str) -> NodeJob,
        user: Option<&Account>,
    ) -> Result<(), StartError> {
        let registered = self.0.iter().map(|(name, node)| node.register_job(number, job(name), user));
        join_all(registered).await.into_iter().collect()
    }

    pub(crate) async fn end_job(&self, nspace: &Nspace) {
        join_all(self.0.values().map(|node| node.end_job(nspace))).await;
    }

    /// The records of all nodes, by their names.
    pub(crate) async fn keep_records(&self, nspace: &Nspace, why: &str) -> Vec<(String, PathBuf)> {
        let kept = self
            .0
            .iter()
            .map(async |(name, node)| node.keep_record(nspace, why).await.map(|file| (name.clone(), file)));
        join_all(kept).await.into_iter().flatten().collect()
    }

    pub(crate) async fn notify(&self, event: &Event) {
        join_all(self.0.values().map(|node| node.notify(event))).await;
    }
}
