//! What the hosts of several nodes in one process share: jobs, and the launcher that starts them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pmix_types::job::JobSpec;
use pmix_types::{Event, Nspace};

use super::host::Inner;
use super::start::{JobEntry, StartError};
use super::{Account, Exchange, Launcher, StandardHost, tempdir};
use pmix_server::ServerHandle;
use pmix_server::host::HostResult;

pub(super) struct Shared {
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) jobs: Mutex<BTreeMap<Nspace, JobEntry>>,
    /// Jobs that processes have started.
    pub(super) spawned: AtomicU32,
    /// Jobs that were started.
    pub(super) started: AtomicU32,
    /// The hosts that share it; they own it.
    hosts: OnceLock<Vec<Weak<Inner>>>,
}

impl Shared {
    pub(super) fn new(launcher: Arc<dyn Launcher>) -> Self {
        Self {
            launcher,
            jobs: Mutex::default(),
            spawned: AtomicU32::new(0),
            started: AtomicU32::new(0),
            hosts: OnceLock::new(),
        }
    }

    /// Tells it once whose it is.
    pub(super) fn belongs_to<'a>(&self, hosts: impl IntoIterator<Item = &'a StandardHost>) {
        self.hosts.get_or_init(|| hosts.into_iter().map(|host| Arc::downgrade(&host.0)).collect());
    }
}

impl StandardHost {
    /// Hosts for the servers of several nodes in this process: one for each exchange, in that order.
    ///
    /// They share the launcher, which must know the nodes by the names they have in the exchanges, and the jobs: a job
    /// started by any of them is registered with the servers of all nodes, each of its processes finds the server of
    /// its own node, and whatever one of these hears of it, its death or a call of abort, is acted on for the whole
    /// job.
    ///
    /// # Examples
    /// ```
    /// use pmix_server::Server;
    /// use pmix_host::{MemoryExchange, StandardHost};
    /// # use pmix_host::{LaunchError, LaunchJob, LaunchReport, Launcher};
    /// # #[derive(Debug)] struct MyLauncher;
    /// # #[pmix_server::async_trait] impl Launcher for MyLauncher {
    /// #     fn nodes(&self) -> Vec<String> { vec!["n0".into(), "n1".into()] }
    /// #     async fn launch(
    /// #         &self, _: LaunchJob, _: tokio::sync::mpsc::Sender<LaunchReport>,
    /// #     ) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn signal(&self, _: &[pmix_types::ProcId], _: i32) -> Result<(), LaunchError> { Ok(()) }
    /// #     async fn terminate(&self, _: &[pmix_types::ProcId]) -> Result<(), LaunchError> { Ok(()) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let nodes = ["n0", "n1"];
    /// let hosts = StandardHost::cluster(MyLauncher, MemoryExchange::cluster(nodes));
    /// let mut servers = Vec::new();
    /// for (host, node) in hosts.iter().zip(nodes) {
    ///     let server = Server::builder().host(host.clone()).hostname(node);
    /// #   let server = server.session_root(dir.path());
    ///     servers.push(server.start().await?);
    /// }
    /// assert_eq!(servers.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn cluster<X: Exchange>(
        launcher: impl Launcher,
        exchanges: impl IntoIterator<Item = X>,
    ) -> Vec<Self> {
        let shared = Arc::new(Shared::new(Arc::new(launcher)));
        let hosts: Vec<Self> =
            exchanges.into_iter().map(|exchange| Self::on_node(shared.clone(), Arc::new(exchange))).collect();
        shared.belongs_to(&hosts);
        hosts
    }

    /// The hosts of all nodes, this one among them.
    pub(super) fn on_all_nodes(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.shared.hosts.get().into_iter().flatten().filter_map(Weak::upgrade).map(Self)
    }

    /// The servers of all nodes.
    pub(super) fn servers(&self) -> HostResult<Servers> {
        let server = |host: Self| Ok((host.0.exchange.node().to_owned(), host.handle()?.clone()));
        self.on_all_nodes().map(server).collect::<HostResult<_>>().map(Servers)
    }
}

/// The servers of all nodes by name: each knows all jobs, and the processes on its own node.
#[derive(Clone, Debug)]
pub(super) struct Servers(BTreeMap<String, ServerHandle>);

impl Servers {
    pub(super) fn of(&self, node: &str) -> Option<&ServerHandle> {
        self.0.get(node)
    }

    /// Refuses nodes that have no server here.
    pub(super) fn check_nodes(&self, nodes: &[String], exchange: &[String]) -> Result<(), StartError> {
        let Some(node) = nodes.iter().find(|node| !self.0.contains_key(*node)) else { return Ok(()) };
        let here = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let why = if exchange.contains(node) {
            "its server belongs to another StandardHost, and a host starts processes only where it has servers: make the \
             hosts of all nodes in one process by StandardHost::cluster, or have Launcher::nodes name this node alone"
        } else {
            "launcher and exchange must name nodes alike"
        };
        Err(StartError::Invalid(format!(
            "node {node} of the launcher has no server here (there are {here}): {why}"
        )))
    }

    /// Whether a namespace is registered with any of them.
    pub(super) async fn know(&self, nspace: &Nspace) -> bool {
        for server in self.0.values() {
            if server.job_data(nspace).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Registers a job, the one of this number, with its directory on each node, which is the user's.
    pub(super) async fn register_job(
        &self,
        number: u32,
        spec: &JobSpec,
        user: Option<&Account>,
    ) -> Result<(), StartError> {
        for server in self.0.values() {
            let spec = tempdir::make(server, number, spec.clone(), user).await?;
            server.register_nspace(spec).await?;
        }
        Ok(())
    }

    /// Forgets a job and removes its directories. Servers that do not know it, or have stopped, are passed over.
    pub(super) async fn deregister_job(&self, number: u32, nspace: &Nspace) {
        for server in self.0.values() {
            let _ = server.deregister_nspace(nspace).await;
            tempdir::remove(server, number).await;
        }
    }

    /// Those that have stopped are passed over.
    pub(super) async fn notify_event(&self, event: &Event) {
        for server in self.0.values() {
            let _ = server.notify_event(event.clone()).await;
        }
    }
}
