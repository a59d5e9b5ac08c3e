//! Binding of the processes of a job to processors.
//!
//! A [`BindingPolicy`] is plain data. The launcher of a node applies it to the node's topology, by
//! [`BindingPolicy::choose`].

mod choose;
#[cfg(test)]
mod machines;
mod spelling;

use pmix_topology::{Level, Processors};
use pmix_types::Nspace;

pub use choose::{AvailableProcessors, Unbindable};
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

/// How the processes of a job are mapped, ranked and bound.
///
/// Defaults follow Open MPI: processes are mapped to and bound to cores if the job has at most two, otherwise to NUMA nodes;
/// processes mapped to objects are bound to these. None are bound if there are more processes than processors.
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
    /// The most processes of an application on each node; `None` if slots alone limit them.
    pub per_node: Option<u32>,
    /// Whether more processes may be bound to an object than it has cores.
    pub overload: bool,
    /// Whether a job may have more processes than the nodes have slots.
    pub oversubscribe: bool,
    /// Whether a job with more processes than processors fails to start.
    pub no_oversubscribe: bool,
    /// Whether a job that cannot be bound like this fails to start; otherwise it starts unbound.
    pub is_required: bool,
}

/// The processors of a process, and their location in words and as a locality string.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The processors that it may use.
    pub processors: Processors,
    /// What it is bound to, such as `core 3` or `cores 0-1`.
    pub place: String,
    /// Its locality string.
    pub locality: String,
    /// Whether the processors are reserved for the process: other jobs should use others.
    pub is_exclusive: bool,
}

/// A job whose processes are to be bound. Plain data, so that it can be sent to the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindRequest {
    /// The job.
    pub nspace: Nspace,
    /// What is requested.
    pub policy: BindingPolicy,
    /// The node of each process, in rank order.
    pub nodes: Vec<String>,
    /// The processes of the whole job: more than those above if others know the rest of its nodes.
    pub all: usize,
}

impl BindRequest {
    /// A request for a job with these processes.
    pub const fn new(nspace: Nspace, policy: BindingPolicy, nodes: Vec<String>) -> Self {
        let all = nodes.len();
        Self { nspace, policy, nodes, all }
    }

    /// The same for `here` processes on one node of its job.
    pub(crate) fn on(&self, node: &str, here: usize) -> Self {
        let nodes = vec![node.to_owned(); here];
        Self { nspace: self.nspace.clone(), policy: self.policy.clone(), nodes, all: self.all }
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

    /// Whether the processes of a job with this number of them may be bound at all on a machine: otherwise
    /// [`choose`](Self::choose) does not look at its topology, which need not be read.
    pub fn binds(&self, processes: usize, is_oversubscribed: bool) -> bool {
        // without a request, processes that share processors anyway are better left unbound
        let is_wanted = self.asks_for_binding() || !is_oversubscribed;
        is_wanted && matches!(self.target(processes), BindTo::Object(_))
    }

    /// The binding target of a job with this number of processes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_shares_processors_anyway_is_bound_only_on_request() {
        let policy = |bind_to| BindingPolicy { bind_to, ..BindingPolicy::default() };
        let core = Some(BindTo::Object(Level::Core));
        for (bind_to, is_oversubscribed, binds) in
            [(None, false, true), (None, true, false), (core, true, true), (Some(BindTo::None), false, false)]
        {
            assert_eq!(policy(bind_to).binds(8, is_oversubscribed), binds, "{bind_to:?} {is_oversubscribed}");
        }
    }
}
