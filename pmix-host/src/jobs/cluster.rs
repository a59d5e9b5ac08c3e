//! What the hosts of several nodes in one process share: jobs, and the launcher that starts them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use pmix_server::host::{HostResult, UpcallContext};
use pmix_types::{Nspace, Uid};

use super::node::{Node, Nodes};
use super::store::{JobStore, KeptJob, TicketOf};
use super::table::JobTable;
use crate::Launcher;
use crate::allocations::Allocations;
use crate::internode::{MAX_ACTS, Turns};
use crate::pace::{self, Pace};
use crate::user::lock;

pub(crate) struct Cluster {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) table: Arc<JobTable>,
    pub(crate) allocations: Arc<Allocations>,
    /// How many jobs of each user are started at a time.
    pub(super) turns: Turns,
    /// Jobs that processes have started.
    spawned: AtomicU32,
    /// Jobs that were started.
    started: AtomicU32,
    /// Its nodes, which their hosts own, and these own the cluster.
    nodes: Mutex<Vec<Weak<dyn Node>>>,
    /// No more jobs are started.
    is_closed: AtomicBool,
    /// What keeps jobs for a successor.
    store: OnceLock<Arc<dyn JobStore>>,
    /// Counts the bytes of jobs and of published data that each user has had kept lately.
    pub(crate) pace: Arc<Mutex<Pace>>,
    /// What has become of spawns that were requested of the head before this one.
    settled: Mutex<HashMap<TicketOf, Result<Nspace, Nspace>>>,
    /// Spawns of processes of other nodes that are under way.
    spawns_afar: Mutex<HashMap<TicketOf, UpcallContext>>,
}

impl Cluster {
    pub(crate) fn new(launcher: Arc<dyn Launcher>) -> Self {
        Self {
            allocations: Arc::new(Allocations::new(launcher.clone())),
            launcher,
            turns: Turns::new(MAX_ACTS),
            table: Arc::default(),
            spawned: AtomicU32::new(0),
            started: AtomicU32::new(0),
            nodes: Mutex::default(),
            is_closed: AtomicBool::new(false),
            store: OnceLock::new(),
            pace: Arc::default(),
            settled: Mutex::default(),
            spawns_afar: Mutex::default(),
        }
    }

    /// Counts what is written for a job of this user.
    ///
    /// # Errors
    /// `ERR_RESOURCE_BUSY`: this user has had too much written of late.
    pub(super) fn admit(&self, owner: Uid, job: &KeptJob) -> HostResult<()> {
        lock(&self.pace).admit(owner, bytes_of(job))
    }

    /// Has a job kept that is about to start, and that was [admitted](Self::admit).
    ///
    /// # Errors
    /// The store's own.
    pub(super) async fn keep(&self, store: &dyn JobStore, owner: Uid, job: KeptJob) -> HostResult<()> {
        let bytes = bytes_of(&job);
        let kept = store.begin(job).await;
        if kept.is_err() {
            lock(&self.pace).give_back(owner, bytes);
        }
        kept
    }

    /// Has jobs kept by this from now on. The first one counts.
    pub(crate) fn keep_jobs_in(&self, store: Arc<dyn JobStore>) {
        let _ = self.store.set(store);
    }

    pub(super) fn store(&self) -> Option<&dyn JobStore> {
        self.store.get().map(|store| &**store)
    }

    /// Counts jobs from these numbers on, which others have had.
    pub(super) fn count_from(&self, job: Option<u32>, child: Option<u32>) {
        self.started.fetch_max(job.map_or(0, |job| job.saturating_add(1)), Ordering::Relaxed);
        self.spawned.fetch_max(child.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The last number of a job that a process has started.
    pub(super) fn last_child(&self) -> u32 {
        self.spawned.load(Ordering::Relaxed)
    }

    /// What has become of a spawn that was requested of the head before: a job, or one that did not start.
    pub(super) fn spawns_afar(&self) -> MutexGuard<'_, HashMap<TicketOf, UpcallContext>> {
        lock(&self.spawns_afar)
    }

    pub(super) fn settle(&self, ticket: TicketOf, job: Result<Nspace, Nspace>) {
        lock(&self.settled).insert(ticket, job);
    }

    pub(super) fn settled(&self, ticket: &TicketOf) -> Option<Result<Nspace, Nspace>> {
        lock(&self.settled).get(ticket).cloned()
    }

    /// Takes further nodes, and forgets those that are no more.
    pub(crate) fn add_nodes(&self, nodes: impl IntoIterator<Item = Weak<dyn Node>>) {
        let mut all = lock(&self.nodes);
        all.retain(|node| node.strong_count() > 0);
        all.extend(nodes);
    }

    /// All nodes that are not lost.
    ///
    /// # Errors
    /// `ERR_INIT` while one of them has no server.
    pub(crate) fn nodes(&self) -> HostResult<Nodes> {
        let all: Vec<_> = lock(&self.nodes).iter().filter_map(Weak::upgrade).collect();
        Nodes::new(all.into_iter().filter(|node| self.launcher.loss_reason(node.name()).is_none()))
    }

    /// Starts no more jobs. One that enters the table afterwards sees it.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// A number that no other job of these hosts has.
    pub(crate) fn next_job(&self) -> u32 {
        self.started.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a job that a process starts, from 1.
    pub(crate) fn next_child(&self) -> u32 {
        self.spawned.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The bytes that a job takes in a store that keeps its history, which has two records of it: of its start and of its end.
fn bytes_of(job: &KeptJob) -> usize {
    job.data.len() + 2 * pace::OVERHEAD
}
