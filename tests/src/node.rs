use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use pmix_client::{Client, Error, Nspace, ProcId, Rank};
use pmix_host::{LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange, StandardHost};
use pmix_server::types::job::JobSpec;
use pmix_server::{HostModule, NativeWire, Server, ServerBuilder, ServerHandle, ServerStats};
use pmix_test_wait::until_async;
use pmix_types::{Gid, Uid};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::wires::{TestedWire, tested_wire, uri_of};
use crate::within;

/// One server on a socket in a directory of its own, with a job of local processes registered.
///
/// Job `job` on node `n0` if not told otherwise; its processes are this process's own tasks.
#[derive(Debug)]
pub struct TestNode {
    server: Server,
    nspace: Nspace,
    local: Vec<Rank>,
    root: Arc<TempDir>,
}

/// Settings of a [`TestNode`].
#[must_use]
#[derive(Debug)]
pub struct TestNodeBuilder {
    server: ServerBuilder,
    root: Arc<TempDir>,
    hostname: String,
    spec: Option<JobSpec>,
    nspace: Nspace,
    local: Vec<Rank>,
}

impl TestNode {
    /// A node without host, with a job of so many ranks.
    pub async fn start(ranks: u32) -> Self {
        Self::builder(ranks).start().await
    }

    /// A node with a host of the test's own.
    pub async fn with_host(ranks: u32, host: impl HostModule) -> Self {
        Self::builder(ranks).host(host).start().await
    }

    /// A node with a [`StandardHost`] that cannot launch anything.
    pub async fn with_standard_host(ranks: u32) -> Self {
        Self::with_host(ranks, StandardHost::new(NullLauncher, MemoryExchange::single("n0"))).await
    }

    /// Settings of a node with a job of so many ranks.
    pub fn builder(ranks: u32) -> TestNodeBuilder {
        let root = Arc::new(tempfile::tempdir().unwrap());
        TestNodeBuilder {
            server: on_the_wire(Server::builder().raise_nofile(true).session_root(root.path())),
            root,
            hostname: "n0".into(),
            spec: None,
            nspace: Nspace::new("job").unwrap(),
            local: (0..ranks).map(Rank::from_raw).collect(),
        }
    }

    /// The server's handle.
    pub const fn handle(&self) -> &ServerHandle {
        self.server.handle()
    }

    /// Namespace of the job.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// A process of the job.
    pub fn proc(&self, rank: u32) -> ProcId {
        ProcId::new(self.nspace.clone(), Rank::from_raw(rank))
    }

    /// The job as a target.
    pub fn job(&self) -> ProcId {
        ProcId::wildcard(self.nspace.clone())
    }

    /// Ranks of the job that are on this node.
    pub fn local(&self) -> &[Rank] {
        &self.local
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.handle().session_dir().join("server@sock")
    }

    /// Directory below which the server's own is.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Connects as a rank.
    pub async fn client(&self, rank: u32) -> Client {
        self.connect(&self.proc(rank)).await.unwrap()
    }

    /// Connects as all local ranks.
    pub async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for rank in &self.local {
            clients.push(self.client(rank.to_raw()).await);
        }
        clients
    }

    /// Tries to connect as a process.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn connect(&self, proc: &ProcId) -> Result<Client, Error> {
        within(Client::builder().uri(uri_of(self.handle())).proc(proc.clone()).init()).await
    }

    /// Registers another job with ranks on this node.
    pub async fn add_job(&self, spec: JobSpec, local: impl IntoIterator<Item = u32>) {
        let nspace = spec.nspace().clone();
        self.handle().register_nspace(spec).await.unwrap();
        for rank in local {
            self.register(&ProcId::new(nspace.clone(), Rank::from_raw(rank))).await;
        }
    }

    /// Registers a local process of our own user.
    pub async fn register(&self, proc: &ProcId) {
        let (uid, gid) = own_ids();
        self.handle().register_client(proc, uid, gid, None).await.unwrap();
    }

    /// Waits until the server's counters are as wanted.
    pub async fn until(&self, wanted: impl Fn(ServerStats) -> bool) {
        let look = async || {
            let stats = self.server.stats().await;
            if wanted(stats) { Ok(()) } else { Err(stats) }
        };
        until_async("the server's counters are as expected", look).await;
    }

    /// Waits until so many requests wait for an answer.
    pub async fn until_waiting(&self, requests: u64) {
        self.until(|stats| stats.waiting == requests).await;
    }

    /// The job of these processes does what jobs do, and no other process is connected.
    ///
    /// # Panics
    /// If it does not go on.
    pub async fn goes_on(&self, clients: &[Client]) {
        let fences = clients.iter().map(|client| client.fence_all().into_future());
        within(join_all(fences)).await.into_iter().collect::<Result<(), _>>().unwrap();
        let stats = self.server.stats().await;
        assert_eq!((stats.connections, stats.waiting), (clients.len() as u64, 0));
    }

    /// Counters of the server.
    pub async fn stats(&self) -> ServerStats {
        self.server.stats().await
    }

    /// Stops the server.
    pub async fn stop(self) {
        within(self.server.stop()).await;
    }
}

impl TestNodeBuilder {
    /// The host.
    pub fn host(self, host: impl HostModule) -> Self {
        self.server(|server| server.host(host))
    }

    /// Changes settings of the server.
    pub fn server(mut self, change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        self.server = change(self.server);
        self
    }

    /// Name of the node.
    pub fn hostname(mut self, name: &str) -> Self {
        self.hostname = name.into();
        self
    }

    /// Name of the job.
    pub fn nspace(mut self, nspace: &str) -> Self {
        self.nspace = Nspace::new(nspace).unwrap();
        self
    }

    /// The job in the test's own words, and its ranks on this node.
    pub fn job(mut self, spec: JobSpec, local: impl IntoIterator<Item = u32>) -> Self {
        self.nspace = spec.nspace().clone();
        self.local = local.into_iter().map(Rank::from_raw).collect();
        self.spec = Some(spec);
        self
    }

    /// Starts the server and registers the job.
    pub async fn start(self) -> TestNode {
        let Self { server, root, hostname, spec, nspace, local } = self;
        let server = server.hostname(&hostname).start().await.unwrap();
        let node = TestNode { server, nspace, local, root };
        let spec = spec.unwrap_or_else(|| {
            let ranks = u32::try_from(node.local.len()).unwrap();
            let spec = JobSpec::new(node.nspace.clone()).node_map([&hostname]).unwrap();
            spec.ranks_block(1, ranks).unwrap()
        });
        let local: Vec<u32> = node.local.iter().map(|rank| rank.to_raw()).collect();
        node.add_job(spec, local).await;
        node
    }
}

/// Launches nothing.
#[derive(Clone, Copy, Debug)]
pub struct NullLauncher;

#[async_trait]
impl Launcher for NullLauncher {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(&self, job: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let proc = ProcId::wildcard(job.nspace);
        Err(LaunchError::new(proc, "n0", "", "this launcher launches nothing"))
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

/// A server that speaks the wire under test.
fn on_the_wire(server: ServerBuilder) -> ServerBuilder {
    match tested_wire() {
        TestedWire::Native => server.native_wire(NativeWire::On),
        TestedWire::Framed | TestedWire::Grpc => server,
    }
}

/// User and group of this process.
fn own_ids() -> (Uid, Gid) {
    (rustix::process::geteuid().as_raw().into(), rustix::process::getegid().as_raw().into())
}
