//! The job of every launch: ranks below `local` on node00000, which is this node, the others in blocks of 64 on further
//! nodes.

use std::fmt::Write as _;

use pmix_server::types::job::JobSpec;
use pmix_server::types::map::{MapForm, NodeMap, ProcMap};
use pmix_server::types::{DataArray, Info, Key, Nspace, Rank, Value, keys};

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
    /// A job that fills this many nodes.
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

    /// What the host knows of the job. The values of nodes and ranks follow from the maps, all but `NODE_RANK`, which
    /// counts the ranks of other jobs too and which `StandardHost` does not give either.
    pub(crate) fn describe(self, nspace: &str) -> Result<JobSpec> {
        let total = self.total;
        let starts = (self.local..total).step_by(PER_NODE as usize);
        let others = starts.map(|first| first..(first + PER_NODE).min(total));
        let ranks = std::iter::once(0..self.local).chain(others).map(|ranks| ranks.map(Rank::from_raw));
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

    /// The same as hosts of the C library have to describe it: an array for each node and each rank.
    pub(crate) fn spell_out(self) -> Result<Vec<Info>> {
        let node_map = NodeMap::from_raw(&self.names())?.encode(MapForm::Pmix);
        let proc_map = ProcMap::from_raw(&self.listed())?.encode(MapForm::Pmix);
        let map =
            |key: &Key<String>, bytes: Vec<u8>| Info::dynamic(key.key_name(), Value::Regex(bytes.into()));
        let job = vec![
            map(&keys::NODE_MAP, node_map),
            map(&keys::PROC_MAP, proc_map),
            Info::new(&keys::JOB_SIZE, self.total),
            Info::new(&keys::UNIV_SIZE, self.total),
            Info::new(&keys::MAX_PROCS, self.total),
            Info::new(&keys::JOB_NUM_APPS, 1u32),
            Info::new(&keys::NUM_NODES, self.nodes()),
            Info::new(&keys::JOBID, "bench"),
        ];
        let mut infos = vec![array(&keys::JOB_INFO_ARRAY, job)];
        infos.extend((0..self.nodes()).map(|node| array(&keys::NODE_INFO_ARRAY, self.of_node(node))));
        infos.extend((0..self.total).map(|rank| array(&keys::PROC_INFO_ARRAY, self.of_rank(rank))));
        Ok(infos)
    }

    fn of_node(self, node: u32) -> Vec<Info> {
        let before = self.local + node.saturating_sub(1) * PER_NODE;
        let size = if node == 0 { self.local } else { PER_NODE.min(self.total - before) };
        vec![
            Info::new(&keys::HOSTNAME, format!("node{node:05}")),
            Info::new(&keys::NODEID, node),
            Info::new(&keys::LOCAL_SIZE, size),
        ]
    }

    fn of_rank(self, rank: u32) -> Vec<Info> {
        let (node, local) = match rank.checked_sub(self.local) {
            Some(remote) => (1 + remote / PER_NODE, remote % PER_NODE),
            None => (0, rank),
        };
        vec![
            Info::new(&keys::RANK, Rank::from_raw(rank)),
            Info::new(&keys::GLOBAL_RANK, Rank::from_raw(rank)),
            Info::new(&keys::LOCAL_RANK, local as u16),
            Info::new(&keys::NODE_RANK, local as u16),
            Info::new(&keys::NODEID, node),
            Info::new(&keys::HOSTNAME, format!("node{node:05}")),
            Info::new(&keys::APPNUM, 0u32),
        ]
    }
}

fn array(key: &Key<DataArray>, infos: Vec<Info>) -> Info {
    Info::new(key, DataArray::Info(infos))
}

#[cfg(test)]
mod tests {
    use pmix_server::types::job::{JobData, Target};

    use super::*;

    #[test]
    fn both_descriptions_say_the_same_but_for_what_no_map_tells() {
        let shape = Shape { total: 70, local: 2 };
        let data = |infos: &[Info]| {
            let mut data = JobData::new(Nspace::new("j").unwrap());
            data.register(infos, HERE).unwrap();
            data
        };
        let maps = data(&shape.describe("j").unwrap().into_infos());
        let spelled = data(&shape.spell_out().unwrap());
        for rank in [0, 1, 2, 65, 66, 69] {
            let of_rank = Target::Proc(Rank::from_raw(rank));
            for info in shape.of_rank(rank) {
                let mapped = (!info.is(&keys::NODE_RANK)).then(|| info.value.clone());
                assert_eq!(maps.lookup(&info.key, &of_rank), mapped, "{} of {rank}", info.key);
                assert_eq!(spelled.lookup(&info.key, &of_rank), Some(info.value), "{} of {rank}", info.key);
            }
        }
    }

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
