//! The job of every launch: ranks below `local` on node00000, which is this node, the others in blocks of 64 on further
//! nodes.

use std::fmt::Write as _;

use pmix_server::types::job::JobSpec;
use pmix_server::types::map::{NodeMap, ProcMap};
use pmix_server::types::{Nspace, keys};

use crate::Result;

/// The name of this node.
pub(crate) const HERE: &str = "node00000";
/// Ranks on each of the other nodes.
const PER_NODE: u32 = 64;

/// Shape of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Ranks.
    pub(crate) total: u32,
    /// Ranks on this node.
    pub(crate) local: u32,
}

impl Shape {
    /// A job that fills so many nodes.
    pub(crate) const fn of_nodes(nodes: u32) -> Self {
        Self { total: nodes * PER_NODE, local: PER_NODE }
    }

    /// Its nodes.
    pub(crate) fn nodes(self) -> u32 {
        1 + self.total.saturating_sub(self.local).div_ceil(PER_NODE)
    }

    /// Their names, as a comma list.
    pub(crate) fn names(self) -> String {
        let names: Vec<_> = (0..self.nodes()).map(|node| format!("node{node:05}")).collect();
        names.join(",")
    }

    /// Each rank by itself, nodes split by semicolons: what hosts of the C library make.
    pub(crate) fn listed(self) -> String {
        let mut map = String::new();
        for rank in 0..self.total {
            let is_first = rank >= self.local && (rank - self.local).is_multiple_of(PER_NODE);
            let _ = write!(
                map,
                "{}{rank}",
                if rank == 0 {
                    ""
                } else if is_first {
                    ";"
                } else {
                    ","
                }
            );
        }
        map
    }

    /// What the host knows of the job. The values of nodes and ranks follow from the maps.
    pub(crate) fn describe(self, nspace: &str) -> Result<JobSpec> {
        let total = self.total;
        let starts = (self.local..total).step_by(PER_NODE as usize);
        let others = starts.map(|first| first..(first + PER_NODE).min(total));
        let ranks = std::iter::once(0..self.local).chain(others).map(|ranks| ranks.map(rank));
        Ok(JobSpec::new(Nspace::new(nspace)?)
            .nodes(NodeMap::from_names((0..self.nodes()).map(|node| format!("node{node:05}")))?)
            .procs(ProcMap::from_nodes(ranks)?)
            .info(&keys::JOB_SIZE, total)
            .session_info(&keys::UNIV_SIZE, total)
            .info(&keys::MAX_PROCS, total)
            .info(&keys::JOB_NUM_APPS, 1u32)
            .info(&keys::NUM_NODES, self.nodes())
            .info(&keys::JOBID, "bench"))
    }
}

fn rank(number: u32) -> pmix_server::types::Rank {
    pmix_server::types::Rank::from_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_ranks_are_in_blocks_of_64() {
        let shape = Shape { total: 70, local: 2 };
        assert_eq!(shape.names(), "node00000,node00001,node00002");
        assert!(shape.listed().starts_with("0,1;2,3,") && shape.listed().ends_with(",65;66,67,68,69"));
        assert_eq!(shape.describe("j").unwrap(), {
            let maps = JobSpec::new(Nspace::new("j").unwrap())
                .node_map(["node00000", "node00001", "node00002"])
                .unwrap()
                .proc_map(&shape.listed())
                .unwrap();
            maps.info(&keys::JOB_SIZE, 70u32)
                .session_info(&keys::UNIV_SIZE, 70u32)
                .info(&keys::MAX_PROCS, 70u32)
                .info(&keys::JOB_NUM_APPS, 1u32)
                .info(&keys::NUM_NODES, 3u32)
                .info(&keys::JOBID, "bench")
        });
        assert_eq!(Shape::of_nodes(3).nodes(), 3);
        assert_eq!(Shape { total: 4, local: 4 }.names(), HERE);
    }
}
