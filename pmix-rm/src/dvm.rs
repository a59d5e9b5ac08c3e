//! What jobs run on: a guardian, the servers of this node or of nodes simulated on it, and the daemons of other nodes. `pmixrun`
//! has it for one job, the head of a DVM for many.

use std::env::var_os;
use std::io;
use std::process::Command;
use std::sync::Arc;

use pmix_host::{
    DurableRecord, DurableStore, EndedJob, JobStore, KeptJob, Member, MemoryExchange, Records, StandardHost,
};
use pmix_launch::{GUARDIAN_COMMAND, Guardian, LocalLauncher, end_orphans};
use pmix_server::{Server, ServerStats};
use pmix_types::Rank;

use crate::causes::with_causes;
use crate::cli::Setup;
use crate::console::Console;
use crate::ending::{Interrupts, NotRun};
use crate::metrics::{Door, Metrics, Source};
use crate::nodes::{Agent, HEAD_NODE, HostList, How, KeptNode, KeptSession, Session};
use crate::{debugger, stdin};

/// What is to outlast the jobs.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Where flight records go.
    pub(crate) records: Records,
    /// What keeps published data, if no file does.
    pub(crate) durable: Option<Durable>,
    /// What lets the head have a successor.
    pub(crate) lasting: Option<Lasting>,
}

/// What lets a head have a successor: it runs no processes itself, and keeps what that has to know.
#[derive(Debug)]
pub(crate) struct Lasting {
    /// Higher than that of each head before.
    pub(crate) epoch: u64,
    /// What the head before has left.
    pub(crate) before: Option<Before>,
    /// How jobs have ended.
    pub(crate) ended: Vec<EndedJob>,
    pub(crate) jobs: Arc<dyn JobStore>,
}

/// The session of a head that is gone.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) session: KeptSession,
    pub(crate) nodes: Vec<KeptNode>,
    pub(crate) jobs: Vec<KeptJob>,
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
    pub(crate) servers: Vec<Server>,
    /// The address of the server of this host's daemon, if this process is the head alone.
    daemon: Option<String>,
    metrics: Option<Metrics>,
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
        let node = &node_of(setup, &keeping);
        let has_jobs = keeping.lasting.as_ref().is_some_and(|lasting| lasting.before.is_some());
        let door = match &setup.metrics {
            Some(place) => match Door::open(place).await {
                Ok(door) => Some(door),
                // jobs that go on are worth more than their numbers
                Err(error) if has_jobs => {
                    console.tell(format_args!("going on without --metrics: {error}"));
                    None
                }
                Err(error) => return Err(format!("{node}: --metrics: {error}").into()),
            },
            None => None,
        };
        // it becomes ready while the servers start
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let failed = |error| format!("{node}: guardian: {error}");
        let guardian = Arc::new(Guardian::begin(command, setup.session).map_err(failed)?);
        guardian.end_if_silent(setup.start.head_grace).map_err(failed)?;
        interrupts.announce_to(&guardian);
        let (mut session, lost) = start_session(node, setup, &keeping, console, interrupts).await?;
        let started = Self::start_servers(setup, keeping, reader, guardian, session.as_mut(), lost).await;
        match (started, session) {
            (Ok(dvm), session) => {
                let metrics = door.map(|door| {
                    console.tell(format_args!("metrics: {door}"));
                    Metrics::serve(door, dvm.source())
                });
                Ok(Self { session, metrics, ..dvm })
            }
            // the next one may
            (Err(error), session) if has_jobs => {
                std::mem::forget(session);
                Err(error.into())
            }
            (Err(error), Some(session)) => {
                session.end("its head cannot go on", interrupts).await;
                Err(error.into())
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    async fn start_servers(
        setup: &Setup,
        keeping: Keeping,
        reader: Option<Rank>,
        guardian: Arc<Guardian>,
        session: Option<&mut Session>,
        lost: Vec<(Member, String)>,
    ) -> Result<Self, String> {
        let node = &node_of(setup, &keeping);
        let Keeping { records, durable, lasting } = keeping;
        let failed = |error: io::Error| format!("{node}: guardian: {error}");
        let nodes = node_names(node, setup);
        // a daemon serves the tools of this host, if it has one
        let daemon = session.as_deref().filter(|_| lasting.is_some());
        let daemon = daemon.and_then(|session| session.uri_on(&setup.node()));
        let mut launcher = LocalLauncher::simulating(&nodes)
            .with_guardian(Arc::clone(&guardian))
            .grace(setup.grace)
            .linger(setup.linger);
        // on other nodes, a rank has its input forwarded
        if let Some(rank) = reader
            && session.is_none()
        {
            let stdin = stdin::for_one().map_err(|error| format!("{node}: standard input: {error}"))?;
            launcher = launcher.first_stdin_to(rank, stdin);
        }
        let mut hosts = match session.as_deref() {
            Some(session) => {
                let members =
                    session.members().into_iter().chain(lost.iter().map(|(member, _)| member.clone()));
                vec![StandardHost::head(launcher, session.exchange(), members)]
            }
            None => StandardHost::cluster(launcher, MemoryExchange::cluster(&nodes)),
        };
        let finished = |host: StandardHost| {
            let host = host.with_records(records.clone());
            if setup.multi_user { host.allow_other_users() } else { host }
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
        if let (Some(lasting), Some(session), Some(host)) = (&lasting, session.as_deref(), hosts.first_mut())
        {
            *host = host.clone().with_job_store(lasting.jobs.clone());
            session.gone().iter().for_each(|node| host.remove_node(node));
            lost.iter().for_each(|(member, why)| host.node_lost(&member.name, why));
        }
        let mut servers = Vec::with_capacity(nodes.len());
        for (node, host) in nodes.iter().zip(&hosts) {
            // each server knows all jobs, and a tool that expects one server here must find one
            let is_for_tools = servers.is_empty() && (daemon.is_none() || setup.system_server);
            let mut server = Server::builder()
                .raise_nofile(true)
                .host(host.clone())
                .hostname(node)
                .tool_support(is_for_tools)
                .other_users(setup.multi_user)
                .native_wire(setup.native)
                .pmi1_wire(setup.pmi1);
            if let Some(traces) = &setup.traces
                && let Some(root) = traces.root()
            {
                server = server.traces(root, traces.for_ranks(setup.multi_user));
            }
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
        if let (Some(Lasting { before, ended, .. }), Some(session)) = (lasting, session) {
            if before.is_none() {
                host.forget_earlier_sessions();
            }
            let jobs = before.map(|before| before.jobs).unwrap_or_default();
            let lost = host.resume(&jobs, &ended).await.map_err(|error| error.to_string())?;
            lost.iter().for_each(|(node, why)| session.give_up(node, why));
            session.resume().await;
        }
        Ok(Self { node: node.clone(), guardian, session: None, host, servers, daemon, metrics: None })
    }

    /// The server of this process that tools attach to, as debuggers need it.
    pub(crate) fn for_debuggers(&self) -> Option<debugger::DebugServer> {
        let server = self.servers.first()?.handle();
        let uri = server.native_uri().unwrap_or_else(|| server.uri().to_owned());
        Some(debugger::DebugServer::Here { client: server.client(), host: self.host.clone(), uri })
    }

    /// What there is to measure.
    fn source(&self) -> Source {
        Source::new(self.host.clone())
    }

    /// The address of the server that tools on this host attach to.
    pub(crate) fn uri(&self) -> &str {
        let own = || self.servers.first().map_or("", |server| server.handle().uri());
        self.daemon.as_deref().unwrap_or_else(own)
    }

    /// The options by which tools on this host find that server, also those of other users if it serves them.
    pub(crate) fn selection(&self, serves_others: bool) -> String {
        match self.daemon.as_ref().and_then(|uri| uri.split(';').next()?.rsplit_once('.')) {
            // files by which tools find it are for its own user
            _ if serves_others => format!("--uri '{}'", self.uri()),
            Some((nspace, _)) => format!("--server {nspace}"),
            None => format!("--pid {}", std::process::id()),
        }
    }

    /// Stops the servers, and leaves daemons and jobs to another head.
    pub(crate) async fn leave_to_successor(self) {
        for server in self.servers {
            server.stop().await;
        }
        // its daemons are not told to leave, and the one of this host is not ended
        std::mem::forget(self.session);
        if let Err(error) = self.guardian.finish() {
            tracing::warn!(%error, "cannot wait for the guardian");
        }
    }

    /// Stops servers, daemons and guardian, and ends what is left of jobs. `reason` is what daemons are told.
    pub(crate) async fn end(self, reason: &str, interrupts: &mut Interrupts) -> Vec<ServerStats> {
        drop(self.metrics);
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
        end_orphans();
        stats
    }
}

/// The daemons that jobs run on, if there are any: new ones, or those of the head before. Also the nodes that are lost, with reasons.
async fn start_session(
    node: &str,
    setup: &Setup,
    keeping: &Keeping,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<(Option<Session>, Vec<(Member, String)>), NotRun> {
    let how = how(setup, &keeping.records);
    let Some(Lasting { epoch, before, .. }) = &keeping.lasting else {
        let Some(hosts) = &setup.hosts else { return Ok((None, Vec::new())) };
        let session = Session::start(node, 0, hosts, &how, console, interrupts).await?;
        return Ok((Some(session), Vec::new()));
    };
    let own = setup.node();
    let how = How { agent: how.agent.here(own.clone()), ..how };
    if let Some(Before { session, nodes, .. }) = before {
        let (session, lost) = Session::take_over(*epoch, session, nodes, &how, console, interrupts).await?;
        if !session.members().is_empty() {
            return Ok((Some(session), lost));
        }
        console.tell("no node of the former DVM is left: starting a new one");
    }
    let hosts = setup.hosts.clone().unwrap_or_else(|| HostList::here(own));
    let session = Session::start(node, *epoch, &hosts, &how, console, interrupts).await?;
    Ok((Some(session), Vec::new()))
}

/// What the node of this process is called.
fn node_of(setup: &Setup, keeping: &Keeping) -> String {
    if keeping.lasting.is_some() { HEAD_NODE.to_owned() } else { setup.node() }
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
        linger: setup.linger,
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
        traces: setup.traces.clone(),
    }
}

/// The local node, or the nodes simulated on it.
fn node_names(node: &str, setup: &Setup) -> Vec<String> {
    match setup.vnodes {
        None => vec![node.to_owned()],
        Some(count) => (0..count).map(|number| format!("{node}-v{number}")).collect(),
    }
}
