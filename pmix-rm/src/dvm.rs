//! What jobs run on: a guardian, the servers of this node or of nodes simulated on it, and the daemons of other nodes. `pmixrun`
//! has it for one job, the head of a DVM for many.

use std::env::var_os;
use std::io;
use std::process::Command;
use std::sync::Arc;

use pmix_host::{DurableRecord, DurableStore, MemoryExchange, Records, StandardHost};
use pmix_server::{Server, ServerStats};
use pmix_types::Rank;

use crate::causes::with_causes;
use crate::cli::Setup;
use crate::console::Console;
use crate::ending::{Interrupts, NotRun};
use crate::nodes::{Agent, How, Session};
use crate::{GUARDIAN_COMMAND, Guardian, LocalLauncher, orphans, stdin};

/// What is to outlast the jobs.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Where flight records go.
    pub(crate) records: Records,
    /// What keeps published data, if no file does.
    pub(crate) durable: Option<Durable>,
}

/// What keeps published data, with what it has.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) store: Arc<dyn DurableStore>,
    pub(crate) records: Vec<DurableRecord>,
}

/// What jobs run on.
pub(crate) struct Dvm {
    pub(crate) node: String,
    guardian: Arc<Guardian>,
    /// The daemons of other nodes.
    pub(crate) session: Option<Session>,
    /// Starts jobs on all nodes.
    pub(crate) host: StandardHost,
    /// The server of each node in this process.
    servers: Vec<Server>,
}

impl Dvm {
    /// Sets it up. Without other hosts, `reader` is the rank of the first job that has the standard input of this process.
    ///
    /// # Errors
    /// Node and reason; nothing is left running.
    pub(crate) async fn start(
        setup: &Setup,
        keeping: Keeping,
        reader: Option<Rank>,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<Self, NotRun> {
        let node = &setup.node();
        // it becomes ready while the servers start
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let guardian = Guardian::begin(command).map_err(|error| format!("{node}: guardian: {error}"))?;
        let guardian = Arc::new(guardian);
        let session = match &setup.hosts {
            Some(hosts) => {
                Some(Session::start(node, hosts, &how(setup, &keeping.records), console, interrupts).await?)
            }
            None => None,
        };
        let started = Self::start_servers(setup, keeping, reader, guardian, session.as_ref()).await;
        match (started, session) {
            (Ok(dvm), session) => Ok(Self { session, ..dvm }),
            (Err(error), Some(session)) => {
                session.end("its head cannot go on", interrupts).await;
                Err(error.into())
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    async fn start_servers(
        setup: &Setup,
        Keeping { records, durable }: Keeping,
        reader: Option<Rank>,
        guardian: Arc<Guardian>,
        session: Option<&Session>,
    ) -> Result<Self, String> {
        let node = &setup.node();
        let failed = |error: io::Error| format!("{node}: guardian: {error}");
        let nodes = node_names(node, setup);
        let mut launcher =
            LocalLauncher::simulating(&nodes).with_guardian(Arc::clone(&guardian)).grace(setup.grace);
        // on other nodes, a rank has its input forwarded
        if let Some(rank) = reader
            && session.is_none()
        {
            let stdin = stdin::for_one().map_err(|error| format!("{node}: standard input: {error}"))?;
            launcher = launcher.first_stdin_to(rank, stdin);
        }
        let mut hosts = match session {
            Some(session) => vec![StandardHost::head(launcher, session.exchange(), session.members())],
            None => StandardHost::cluster(launcher, MemoryExchange::cluster(&nodes)),
        };
        let finished = |host: StandardHost| {
            let host = host.with_records(records.clone());
            if setup.multi_user { host.serving_others() } else { host }
        };
        hosts = hosts.into_iter().map(finished).collect();
        if let (Some(file), Some(host)) = (&setup.store, hosts.first_mut()) {
            // the first node keeps the data published on all nodes
            let durable = host.clone().with_durable_store(file);
            *host = durable.map_err(|error| format!("{node}: --store {error}"))?;
        }
        if let (Some(Durable { store, records }), Some(host)) = (durable, hosts.first_mut()) {
            *host = host
                .clone()
                .with_durable(store, &records)
                .map_err(|error| format!("{node}: etcd: {error}"))?;
        }
        let mut servers = Vec::with_capacity(nodes.len());
        for (node, host) in nodes.iter().zip(&hosts) {
            // each server knows all jobs, and a tool that expects one server here must find one
            let is_for_tools = servers.is_empty();
            let mut server = Server::builder()
                .host(host.clone())
                .hostname(node)
                .tool_support(is_for_tools)
                .other_users(setup.multi_user)
                .native_wire(setup.native)
                .pmi1_wire(setup.pmi1);
            if setup.system_server {
                server = server.system_support(true);
            }
            // a tool that has started this launcher looks for it there
            let file = var_os("PMIX_LAUNCHER_RNDZ_FILE").filter(|file| is_for_tools && !file.is_empty());
            if let Some(file) = file {
                server = server.rendezvous_file(file);
            }
            let server = server.start().await;
            let server = server.map_err(|error| format!("{node}: {}", with_causes(&error)))?;
            guardian.protect(server.handle().session_dir()).map_err(failed)?;
            servers.push(server);
        }
        guardian.ready().map_err(failed)?;
        let host = hosts.into_iter().next().ok_or_else(|| format!("{node}: no node"))?;
        Ok(Self { node: node.clone(), guardian, session: None, host, servers })
    }

    /// The address of the server that tools attach to, the first.
    pub(crate) fn uri(&self) -> &str {
        self.servers.first().map_or("", |server| server.handle().uri())
    }

    /// Stops servers, daemons and guardian, and ends what is left of jobs. `reason` is what daemons are told.
    pub(crate) async fn end(self, reason: &str, interrupts: &mut Interrupts) -> Vec<ServerStats> {
        let mut stats = Vec::with_capacity(self.servers.len());
        for server in self.servers {
            stats.push(server.stats().await);
            server.stop().await;
        }
        if let Some(session) = self.session {
            session.end(reason, interrupts).await;
        }
        if let Err(error) = self.guardian.finish() {
            tracing::warn!(%error, "cannot wait for the guardian");
        }
        orphans::end(|_, _| ());
        stats
    }
}

/// How daemons are started.
fn how(setup: &Setup, records: &Records) -> How {
    let start = setup.start.clone();
    let daemon = start.daemon.unwrap_or_else(|| {
        let own = std::env::current_exe().unwrap_or_default();
        own.with_file_name("pmixd")
    });
    How {
        agent: Agent::new(start.by, daemon),
        within: start.within,
        grace: setup.grace,
        head_grace: start.head_grace,
        host_grace: start.host_grace,
        tree_degree: start.tree_degree,
        interface: start.interface,
        record: match records {
            Records::Directory(directory) => directory.to_str().map(str::to_owned),
            _ => None,
        },
        native: setup.native,
        pmi1: setup.pmi1,
        multi_user: setup.multi_user,
    }
}

/// The local node, or the nodes simulated on it.
fn node_names(node: &str, setup: &Setup) -> Vec<String> {
    match setup.vnodes {
        None => vec![node.to_owned()],
        Some(count) => (0..count).map(|number| format!("{node}-v{number}")).collect(),
    }
}
