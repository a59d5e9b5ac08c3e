//! The services of one host. Each owns its state; `host.rs` and `answers.rs` only pass requests to them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, Weak};

use pmix_types::ProcId;

use crate::Launcher;
use crate::allocations::Allocator;
use crate::collective::Collectives;
use crate::credentials::Credentials;
use crate::dmodex::DirectModex;
use crate::events::Events;
use crate::gate::Gate;
use crate::internode::Site;
use crate::jobs::{Cluster, JobTable, Jobs, LocalNode, Node, RecordFiles};
use crate::nodes::{Holdings, NodesLauncher, Relay, RemoteNode};
use crate::publish::Publishing;
use crate::tools::{Controller, Forwarder, Identities, Logger, Queries};
use crate::user::lock;

pub(crate) struct Services {
    pub(crate) site: Arc<Site>,
    /// This node, as jobs speak to it.
    pub(crate) node: Arc<LocalNode>,
    pub(crate) records: Arc<RecordFiles>,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) table: Arc<JobTable>,
    pub(crate) gate: Gate,
    pub(crate) jobs: Jobs,
    pub(crate) collectives: Collectives,
    pub(crate) modex: DirectModex,
    pub(crate) published: Arc<Publishing>,
    pub(crate) events: Events,
    pub(crate) forwarder: Forwarder,
    pub(crate) queries: Queries,
    pub(crate) controller: Controller,
    pub(crate) logger: Logger,
    pub(crate) identities: Identities,
    pub(crate) credentials: Credentials,
    pub(crate) allocator: Allocator,
    /// The way to the head, on one of its members.
    pub(crate) relay: Option<Relay>,
    /// What a member has of the jobs of its head.
    pub(crate) holdings: Arc<Holdings>,
    /// What the head has beyond a host for one node.
    pub(crate) head: Option<Head>,
}

/// What the head of several nodes has beyond a host for one.
pub(crate) struct Head {
    pub(crate) launcher: NodesLauncher,
    cluster: Arc<Cluster>,
    site: Arc<Site>,
    /// The other nodes; the cluster knows them by these.
    others: Mutex<BTreeMap<String, Arc<RemoteNode>>>,
}

impl Head {
    pub(crate) fn new(launcher: NodesLauncher, cluster: Arc<Cluster>, site: Arc<Site>) -> Self {
        Self { launcher, cluster, site, others: Mutex::default() }
    }

    /// Knows another node from now on. One that comes back is the same.
    pub(crate) fn know(&self, name: String) {
        let mut others = lock(&self.others);
        if let Entry::Vacant(unknown) = others.entry(name) {
            let node = Arc::new(RemoteNode::new(unknown.key().clone(), self.site.clone()));
            let weak: Weak<dyn Node> = Arc::downgrade(&unknown.insert(node).clone()) as _;
            self.cluster.add_nodes([weak]);
        }
    }

    /// Knows a node no more.
    pub(crate) fn forget(&self, name: &str) {
        lock(&self.others).remove(name);
        self.launcher.remove(name);
    }
}

impl Services {
    /// Processes that a request names, for the gate. A member knows no owners: its head has the gate for these.
    pub(crate) fn judged<'a>(&self, named: &'a [ProcId]) -> &'a [ProcId] {
        if self.relay.is_some() { &[] } else { named }
    }

    pub(crate) fn new(cluster: Arc<Cluster>, site: Arc<Site>) -> Self {
        let (launcher, table) = (cluster.launcher.clone(), cluster.table.clone());
        let allocations = cluster.allocations.clone();
        let published = Arc::new(Publishing::new(site.clone(), table.clone(), cluster.pace.clone()));
        let records = Arc::<RecordFiles>::default();
        let collectives = Collectives::new(site.clone());
        let node = LocalNode::new(
            site.clone(),
            launcher.aliases(),
            published.clone(),
            collectives.clone(),
            records.clone(),
        );
        Self {
            node: Arc::new(node),
            records,
            allocator: Allocator::new(cluster.clone()),
            gate: Gate::new(table.clone()),
            jobs: Jobs::new(cluster, site.clone(), published.clone()),
            collectives,
            modex: DirectModex::new(site.clone()),
            events: Events::new(table.clone(), site.clone()),
            forwarder: Forwarder::new(launcher.clone(), table.clone()),
            queries: Queries::new(launcher.clone(), table.clone(), site.clone(), allocations),
            controller: Controller::new(table.clone(), site.clone()),
            logger: Logger::new(table.clone(), site.clone()),
            identities: Identities::new(site.clone()),
            credentials: Credentials::new(site.clone()),
            site,
            launcher,
            table,
            published,
            relay: None,
            holdings: Arc::default(),
            head: None,
        }
    }
}
