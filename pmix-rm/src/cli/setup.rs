//! What jobs run on, as a command line names it.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use pmix_host::BindingPolicy;
use pmix_server::{NativeWire, Pmi1Wire};
use pmix_topology::ThisHost;
use rustix::system::uname;

use super::options::{NodeArgs, Serving, Times};
use super::spelling::Typed;
use crate::metrics::MetricsPlace;
use crate::nodes::{Allocation, By, HostList};
use crate::traces::{NotTraced, Traces};
use pmix_launch::JobSession;

/// Nodes, their daemons, and what their servers serve.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Number of simulated nodes; `None` for the local node.
    pub(crate) vnodes: Option<u16>,
    /// The hosts to run on; `None` for the local node.
    pub(crate) hosts: Option<HostList>,
    /// What this host is called among them; `None` for its own name.
    pub(super) node: Option<String>,
    pub(crate) start: DaemonStart,
    pub(crate) native: NativeWire,
    pub(crate) pmi1: Pmi1Wire,
    /// File for data that outlasts all jobs (persistence `INDEF`).
    pub(crate) store: Option<PathBuf>,
    /// Whether the server is the system-level one of the node.
    pub(crate) system_server: bool,
    /// Where numbers can be read.
    pub(crate) metrics: Option<MetricsPlace>,
    /// Whether fences are traced, and how.
    pub(crate) traces: Option<Traces>,
    /// Why they are not, although a variable says where to.
    pub(crate) untraced: Option<String>,
    /// Whether other users may have jobs run, as themselves.
    pub(crate) multi_user: bool,
    /// Of the jobs on this host.
    pub(crate) session: JobSession,
    /// Time from a request to end to SIGKILL.
    pub(crate) grace: Duration,
    /// Time that processes in the background have after those that have left them there.
    pub(crate) linger: Duration,
}

/// How daemons are started.
#[derive(Clone, Debug)]
pub(crate) struct DaemonStart {
    pub(crate) by: By,
    /// The program of the daemon, if it is not beside this one.
    pub(crate) daemon: Option<PathBuf>,
    pub(crate) within: Duration,
    pub(crate) head_grace: Duration,
    pub(crate) host_grace: Duration,
    pub(crate) tree_degree: usize,
    pub(crate) interface: Option<String>,
}

/// Options that concern daemons alone.
const OF_DAEMONS: [&str; 9] = [
    "launcher",
    "launch_agent",
    "await_daemons",
    "daemon",
    "start_timeout",
    "host_grace",
    "no_tree_spawn",
    "tree_degree",
    "interface",
];

/// Options that concern servers, and what becomes of a job when it fails.
const OF_SERVERS: [&str; 11] = [
    "head_grace",
    "vnodes",
    "native",
    "pmi1",
    "store",
    "system_server",
    "metrics",
    "trace_to",
    "reaction",
    "linger",
    "record",
];

impl Setup {
    /// What the options and the variables of an allocation say.
    ///
    /// # Errors
    /// The problem with them.
    pub(super) fn new(
        nodes: NodeArgs,
        serving: Serving,
        times: Times,
        typed: &Typed,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (ErrorKind, String)> {
        let invalid = |problem| (ErrorKind::ValueValidation, problem);
        let allocation = match nodes.vnodes {
            None => Allocation::of(&variable).map_err(invalid)?,
            Some(_) => None,
        };
        let hostname = uname().nodename().to_string_lossy().into_owned();
        let node = allocation.as_ref().and_then(|allocation| allocation.own(&hostname));
        let this = ThisHost::called(node.clone().unwrap_or(hostname));
        let hosts = nodes.hosts(allocation.as_ref(), &this).map_err(invalid)?;
        let by = nodes.by(allocation.as_ref()).map_err(invalid)?;
        if hosts.is_none()
            && let Some(given) = OF_DAEMONS.into_iter().find_map(|id| typed.spelling(id))
        {
            let problem = format!("'{given}' has no meaning without '--host' or '--hostfile'");
            return Err((ErrorKind::MissingRequiredArgument, problem));
        }
        let NodeArgs {
            vnodes, daemon, start_timeout, head_grace, host_grace, tree_degree, interface, ..
        } = nodes;
        let Serving { native, pmi1, store, system_server, metrics, trace_to } = serving;
        let (traces, untraced) = match Traces::of_run(trace_to.as_deref(), variable) {
            Ok(traces) => (traces, None),
            // meant for other programs, perhaps
            Err(NotTraced { by: Some(by), why }) => (None, Some(format!("{by}: {why}"))),
            Err(NotTraced { by: None, why }) => return Err(invalid(format!("--trace-to: {why}"))),
        };
        Ok(Self {
            vnodes,
            hosts,
            node,
            start: DaemonStart {
                by,
                daemon,
                within: start_timeout,
                head_grace,
                host_grace,
                tree_degree: usize::from(tree_degree),
                interface,
            },
            native: native.into(),
            pmi1: pmi1.into(),
            store,
            system_server,
            metrics,
            traces,
            untraced,
            multi_user: false,
            // they may use the terminal of pmixrun
            session: JobSession::Launchers,
            grace: times.grace,
            linger: times.linger,
        })
    }

    /// For a job that runs in a DVM: the hosts are those to choose of its nodes.
    ///
    /// # Errors
    /// An option is for the DVM.
    pub(super) fn in_dvm(
        nodes: NodeArgs,
        serving: Serving,
        times: Times,
        typed: &Typed,
    ) -> Result<Self, (ErrorKind, String)> {
        if let Some(given) = OF_DAEMONS.into_iter().chain(OF_SERVERS).find_map(|id| typed.spelling(id)) {
            let problem = format!("'{given}' is not for a job in a DVM: give it to pmixd --head");
            return Err((ErrorKind::ArgumentConflict, problem));
        }
        let setup = Self::new(nodes, serving, times, typed, |_| None)?;
        // the servers of the DVM trace
        Ok(Self { traces: None, ..setup })
    }

    /// How many processes a job has that does not say it; `None` for one.
    ///
    /// # Errors
    /// It depends on the nodes of a DVM.
    pub(super) fn procs(&self, policy: &BindingPolicy, is_in_dvm: bool) -> Result<Option<u64>, String> {
        let nodes = match (&self.hosts, self.vnodes) {
            (Some(hosts), _) => hosts.hosts().len() as u64,
            (None, Some(vnodes)) => vnodes.into(),
            (None, None) => 1,
        };
        match (policy.per_node, &self.hosts) {
            (Some(_), None) if is_in_dvm => {
                Err("a number of ranks for each node of a DVM needs '-n' or '--host' as well".to_owned())
            }
            (Some(most), _) => Ok(Some(nodes * u64::from(most))),
            (None, Some(hosts)) if !is_in_dvm => Ok(Some(hosts.slots())),
            (None, _) => Ok(None),
        }
    }

    /// Checks, before daemons are started, that the hosts take so many processes of each application.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn check_room(
        &self,
        procs: impl Iterator<Item = u64>,
        policy: &BindingPolicy,
    ) -> Result<(), String> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let procs: Vec<_> = procs.collect();
        if let Some(most) = policy.per_node {
            let of_host = |slots: u32| if policy.oversubscribe { most } else { most.min(slots) };
            let room = hosts.hosts().iter().map(|host| u64::from(of_host(host.slots))).sum();
            if let Some(procs) = procs.iter().find(|procs| **procs > room) {
                return Err(format!(
                    "{procs} ranks of an application do not fit on the hosts: with {most} on each and the slots they have, {room} do"
                ));
            }
        }
        let (all, slots) = (procs.iter().sum::<u64>(), hosts.slots());
        if policy.oversubscribe || all <= slots {
            return Ok(());
        }
        Err(format!(
            "{all} ranks do not fit in the {slots} {} of the hosts: give them more (a:4), or write --oversubscribe",
            if slots == 1 { "slot" } else { "slots" }
        ))
    }

    /// The name of this node.
    pub(crate) fn node(&self) -> String {
        self.node.clone().unwrap_or_else(|| uname().nodename().to_string_lossy().into_owned())
    }
}
