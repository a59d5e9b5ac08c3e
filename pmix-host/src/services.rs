//! The services of one host. Each owns its state; `host.rs` and `answers.rs` only pass requests to them.

use std::sync::Arc;

use crate::allocations::Allocator;
use crate::collective::Collectives;
use crate::credentials::Credentials;
use crate::dmodex::DirectModex;
use crate::events::Events;
use crate::gate::Gate;
use crate::internode::Site;
use crate::jobs::{Cluster, JobTable, Jobs, LocalNode, RecordFiles};
use crate::publish::Publishing;
use crate::tools::{Controller, Forwarder, Identities, Logger, Queries};
use crate::{Exchange, Launcher};

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
}

impl Services {
    pub(crate) fn new(cluster: Arc<Cluster>, exchange: Arc<dyn Exchange>) -> Self {
        let site = Arc::new(Site::new(exchange));
        let (launcher, table) = (cluster.launcher.clone(), cluster.table.clone());
        let allocations = cluster.allocations.clone();
        let published = Arc::new(Publishing::new(site.clone(), table.clone()));
        let records = Arc::<RecordFiles>::default();
        Self {
            node: Arc::new(LocalNode::new(site.clone(), published.clone(), records.clone())),
            records,
            allocator: Allocator::new(cluster.clone()),
            gate: Gate::new(table.clone()),
            jobs: Jobs::new(cluster, site.clone(), published.clone()),
            collectives: Collectives::new(site.clone()),
            modex: DirectModex::new(site.clone()),
            events: Events::new(table.clone(), site.clone()),
            forwarder: Forwarder::new(launcher.clone(), table.clone(), site.clone()),
            queries: Queries::new(table.clone(), site.clone(), allocations),
            controller: Controller::new(table.clone(), site.clone()),
            logger: Logger::new(table.clone(), site.clone()),
            identities: Identities::new(site.clone()),
            credentials: Credentials::new(site.clone()),
            site,
            launcher,
            table,
            published,
        }
    }
}
