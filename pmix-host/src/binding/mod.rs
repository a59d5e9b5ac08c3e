//! Binding: which processors the processes of a job run on.
//!
//! A [`BindingPolicy`] is plain data. Whoever starts processes on a node applies it there to the node's own topology, by
//! [`BindingPolicy::choose`].

mod choose;
#[cfg(test)]
mod machines;
mod spelling;

use pmix_topology::{Level, Processors};
use pmix_types::Nspace;

pub use choose::{Machinery, Unbindable};
pub use spelling::BadPolicy;

/// What the processes of a job are dealt to in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapBy {
    /// The cores of a node, one after the other; then those of the next node.
    Slot,
    /// The nodes.
    Node,
    /// The objects of a level of the hardware.
    Object(Level),
}

/// How the processes are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankBy {
    /// In the order in which they are dealt.
    Slot,
    /// Those of one object first.
    Fill,
    /// One on each node in turn.
    Node,
}

/// What processes are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindTo {
    /// Nothing.
    None,
    /// An object of a level of the hardware.
    Object(Level),
}

/// How the processes of a job are to be placed and bound, as far as somebody has said.
///
/// What nobody has said is as with Open MPI: processes are dealt and bound to cores if the job has at most two, else to NUMA
/// nodes; those dealt to objects are bound to these. None are bound if there are more processes than processors.
///
/// # Standard
/// `PMIX_MAPBY`, `PMIX_RANKBY`, `PMIX_BINDTO`, `PMIX_CPUS_PER_PROC`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindingPolicy {
    /// `None` for the default.
    pub map_by: Option<MapBy>,
    /// `None` for that of the mapping.
    pub rank_by: Option<RankBy>,
    /// `None` for the default.
    pub bind_to: Option<BindTo>,
    /// Cores, or hardware threads if processes are bound to these, for each process; 1 if not given.
    pub cpus_per_proc: Option<u32>,
    /// More processes may be bound to an object than it has cores.
    pub overload: bool,
    /// The job does not start if it has more processes than there are processors.
    pub no_oversubscribe: bool,
    /// A job that cannot be bound like this does not start; otherwise it starts unbound.
    pub is_required: bool,
}

/// The processors of a process, and their place for people and for other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The processors that it may use.
    pub processors: Processors,
    /// What it is bound to, such as `core 3` or `cores 0-1`.
    pub place: String,
    /// Its locality string.
    pub locality: String,
    /// They are its own: processes of other jobs had better be bound to others.
    pub is_exclusive: bool,
}

/// A job whose processes are about to be bound; plain data, so that it can be sent to where they start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindRequest {
    /// The job.
    pub nspace: Nspace,
    /// What is requested.
    pub policy: BindingPolicy,
    /// The node of each process, in rank order.
    pub nodes: Vec<String>,
}

impl BindRequest {
    /// A request for a job with these processes.
    pub const fn new(nspace: Nspace, policy: BindingPolicy, nodes: Vec<String>) -> Self {
        Self { nspace, policy, nodes }
    }
}

impl BindingPolicy {
    /// Whether consecutive ranks are on different nodes.
    pub fn deals_to_nodes(&self) -> bool {
        match self.rank_by {
            Some(rank_by) => rank_by == RankBy::Node,
            None => self.map_by == Some(MapBy::Node),
        }
    }

    /// Whether somebody wants processes to be bound.
    pub fn asks_for_binding(&self) -> bool {
        let is_bound = |bind_to: BindTo| bind_to != BindTo::None;
        self.bind_to.map_or_else(|| self.cpus_per_proc.is_some(), is_bound)
    }

    /// Whether it needs somebody who knows the processors of a node.
    pub fn needs_processors(&self) -> bool {
        let is_mapped = matches!(self.map_by, Some(MapBy::Object(_)));
        self.asks_for_binding() || is_mapped || self.no_oversubscribe
    }

    /// What to bind a job with so many processes to, unless that must not be.
    fn target(&self, processes: usize) -> BindTo {
        match (self.bind_to, self.map_by) {
            (Some(bind_to), _) => bind_to,
            (None, _) if self.cpus_per_proc.is_some() => BindTo::Object(Level::Core),
            (None, Some(MapBy::Object(level))) => BindTo::Object(level),
            (None, _) if processes <= 2 => BindTo::Object(Level::Core),
            (None, _) => BindTo::Object(Level::Numa),
        }
    }
}
