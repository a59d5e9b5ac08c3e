//! The description of a job: compact, shared, and sufficient to answer a get locally.
//!
//! A host describes a job with infos, which [`JobSpec`] can make. [`JobData::register`] reads them, and
//! [`JobData::lookup`] finds the values: those given, and those derived from the node and process maps. No value must
//! exist for each rank, so the memory of a job does not grow with its size.
//!
//! [`target_of`] determines the level that a get is about. Server and client both use it, so they agree.
//!
//! ```
//! use pmix_types::job::{JobData, JobSpec, NodeRef, Target};
//! use pmix_types::{Rank, Value, keys};
//!
//! let spec = JobSpec::new("job-1".parse()?).node_map(["n0", "n1"])?.ranks_block(2, 4)?.info(keys::UNIV_SIZE, 16u32);
//! let mut job = JobData::new(spec.nspace().clone());
//! job.register(&spec.into_infos(), "n0")?;
//!
//! let rank = Rank::new(5)?;
//! assert_eq!(job.lookup(keys::HOSTNAME.name(), &Target::Proc(rank)), Some("n1".into()));
//! assert_eq!(job.lookup(keys::LOCAL_RANK.name(), &Target::Proc(rank)), Some(Value::Uint16(1)));
//! assert_eq!(job.lookup(keys::JOB_SIZE.name(), &Target::Job), Some(Value::Uint32(8)));
//! let peers = job.lookup(keys::LOCAL_PEERS.name(), &Target::Node(NodeRef::Name("n1")));
//! assert_eq!(peers, Some("4,5,6,7".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use crate::map::{NodeMap, Placement, ProcMap};
use crate::{KeyName, Nspace, Rank, RankSet};

mod apps;
mod error;
mod lookup;
mod names;
mod nodes;
mod parts;
mod read;
mod register;
mod resolve;
mod spec;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod types;

pub use error::{JobError, JobErrorKind};
pub use parts::{AppParts, NodeParts, Parts};
pub use resolve::{resolve_nodes, resolve_peers};
pub use spec::JobSpec;
pub use target::{NodeRef, Requester, Target, target_of};
pub use types::check_types;

use apps::KnownApp;
use nodes::Nodes;
use table::{Column, Table};

/// The data of a job: the values given, and the maps from which others are derived.
///
/// Meant to be shared in an `Arc`. Values that a host gives although they can be derived from the maps are not kept;
/// [`lookup`](Self::lookup) still finds them.
///
/// # Examples
/// ```
/// use pmix_types::Rank;
/// use pmix_types::job::{JobData, JobSpec};
///
/// let spec = JobSpec::new("job-1".parse()?).node_map(["n0", "n1"])?.proc_map("0-1;2-3")?;
/// let mut job = JobData::new("job-1".parse()?);
/// job.register(&spec.into_infos(), "n0")?;
/// assert_eq!(job.size(), Some(4));
/// assert_eq!(job.node_of(Rank::new(2)?), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JobData {
    nspace: Nspace,
    node_map: Option<NodeMap>,
    proc_map: Option<ProcMap>,
    /// Made from the process map.
    placement: Option<Placement>,
    resources: Table,
    session: Table,
    job: Table,
    apps: BTreeMap<u32, KnownApp>,
    nodes: Nodes,
    columns: BTreeMap<KeyName, Column>,
}

impl JobData {
    /// A job with a name only.
    pub fn new(nspace: Nspace) -> Self {
        Self {
            nspace,
            node_map: None,
            proc_map: None,
            placement: None,
            resources: Table::default(),
            session: Table::default(),
            job: Table::default(),
            apps: BTreeMap::new(),
            nodes: Nodes::default(),
            columns: BTreeMap::new(),
        }
    }

    /// The job's name.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// Number of processes: `JOB_SIZE` as given, else the ranks in the process map.
    #[doc(alias = "PMIX_JOB_SIZE")]
    pub fn size(&self) -> Option<u32> {
        let given = self.job.get(names::JOB_SIZE).and_then(|value| value.get().ok());
        given.or_else(|| self.placement.as_ref().map(Placement::rank_count))
    }

    /// All ranks of the job: those of the process map, else from 0 up to its size; `None` if the size is not known.
    pub fn all_ranks(&self) -> Option<RankSet> {
        if let Some(placement) = &self.placement {
            return Some(placement.all_ranks());
        }
        match self.size()?.checked_sub(1) {
            Some(last) => RankSet::from_range(0..=last).ok(),
            None => Some(RankSet::new()),
        }
    }

    /// The job's nodes in order, if they are known.
    pub const fn node_map(&self) -> Option<&NodeMap> {
        self.node_map.as_ref()
    }

    /// The process map as it was given.
    pub const fn proc_map(&self) -> Option<&ProcMap> {
        self.proc_map.as_ref()
    }

    /// Which rank is on which node, if there is a process map.
    pub const fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Id of the session the job runs in.
    #[doc(alias = "PMIX_SESSION_ID")]
    pub fn session_id(&self) -> Option<u32> {
        self.session.get(names::SESSION_ID)?.get().ok()
    }

    /// Numbers of the applications of which anything is known, in ascending order.
    pub fn app_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.apps.keys().copied()
    }

    /// Index of the rank's node in the node map.
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.node_of_rank(rank)?.position
    }

    /// Name of the rank's node.
    pub fn hostname_of(&self, rank: Rank) -> Option<String> {
        self.node_of_rank(rank)?.name().map(Into::into)
    }

    /// Ranks of the job on a node, given by its name or an alias: the node's `LOCAL_PEERS` as given, else its entry in
    /// the process map. `None` if neither is known; empty if the node has none.
    #[doc(alias = "PMIX_LOCAL_PEERS")]
    pub fn local_ranks(&self, hostname: &str) -> Option<RankSet> {
        self.ranks_on(&self.node(NodeRef::Name(hostname))?)
    }

    /// Whether two references mean the same node. Names that the job does not know are compared as text.
    ///
    /// # Standard
    /// Rule GET-49.
    pub fn is_same_node(&self, first: NodeRef<'_>, second: NodeRef<'_>) -> bool {
        match (self.node(first), self.node(second)) {
            (Some(first), Some(second)) => first.is(&second),
            _ => first == second,
        }
    }

    /// Whether the job is known to have this rank.
    pub fn contains(&self, rank: Rank) -> bool {
        let in_placement = || self.placement.as_ref().map(|placement| placement.contains(rank));
        let below_size = || self.size().map(|size| rank.to_raw() < size);
        rank.is_valid() && in_placement().or_else(below_size).unwrap_or_else(|| self.has_values_of(rank))
    }

    /// Approximate size of the memory that the description holds on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let tables = [&self.resources, &self.session, &self.job];
        self.nspace.len()
            + self.node_map.as_ref().map_or(0, NodeMap::heap_bytes)
            + self.proc_map.as_ref().map_or(0, ProcMap::heap_bytes)
            + self.placement.as_ref().map_or(0, Placement::heap_bytes)
            + tables.into_iter().map(Table::heap_bytes).sum::<usize>()
            + self.apps.values().map(KnownApp::heap_bytes).sum::<usize>()
            + self.nodes.heap_bytes()
            + self.columns.values().map(Column::heap_bytes).sum::<usize>()
    }

    fn has_values_of(&self, rank: Rank) -> bool {
        self.columns.values().any(|column| column.get(rank).is_some())
            || self.apps.values().any(|app| app.given.contains(rank))
    }

    fn error(&self, kind: JobErrorKind) -> JobError {
        JobError::new(&self.nspace, kind)
    }
}
