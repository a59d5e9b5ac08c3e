//! The processes on a node and the nodes of a job, from job data (RES-01): the library's own answer to Resolve_peers
//! and Resolve_nodes.

use std::collections::HashSet;

use crate::message::Failure;
use crate::{ProcId, Status, Value, keys};

use super::{JobData, NodeRef, Target};

/// Processes of these jobs on a node, in the order of the jobs.
///
/// Empty if none of the jobs has the node (RES-08). The lists come only from data about nodes, never from the nodes of
/// single processes (RES-10).
///
/// # Errors
/// `ERR_DATA_VALUE_NOT_FOUND` if a job has the node but no list of its processes, unless another of the jobs has one.
///
/// # Examples
/// ```
/// use pmix_types::job::{JobData, JobSpec, resolve_nodes, resolve_peers};
///
/// let spec = JobSpec::new("job-1".parse()?).node_map(["n0", "n1"])?.ranks_block(2, 2)?;
/// let mut job = JobData::new(spec.nspace().clone());
/// job.register(&spec.into_infos(), "n0")?;
///
/// let peers = resolve_peers([&job], "n1")?;
/// assert_eq!(peers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["job-1:2", "job-1:3"]);
/// assert!(resolve_peers([&job], "n2")?.is_empty());
/// assert_eq!(resolve_nodes([&job]), ["n0", "n1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn resolve_peers<'a>(
    jobs: impl IntoIterator<Item = &'a JobData>,
    node: &str,
) -> Result<Vec<ProcId>, Failure> {
    let mut procs = Vec::new();
    let mut unsaid = None;
    for job in jobs {
        match job.peers_on(node) {
            Ok(peers) => procs.extend(peers),
            Err(failure) => unsaid = Some(failure),
        }
    }
    match unsaid {
        Some(failure) if procs.is_empty() => Err(failure),
        _ => Ok(procs),
    }
}

/// Names of the nodes of these jobs in order, without duplicates; empty if there are none (RES-07).
pub fn resolve_nodes<'a>(jobs: impl IntoIterator<Item = &'a JobData>) -> Vec<String> {
    let mut nodes = Vec::new();
    let mut known = HashSet::new();
    for job in jobs {
        let list = job.lookup(keys::NODE_LIST.name(), &Target::Job);
        let names = list.as_ref().and_then(Value::as_str).unwrap_or_default();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            if known.insert(name.to_owned()) {
                nodes.push(name.to_owned());
            }
        }
    }
    nodes
}

impl JobData {
    fn peers_on(&self, node: &str) -> Result<Vec<ProcId>, Failure> {
        if let Some(ranks) = self.local_ranks(node) {
            return Ok(ranks.iter().map(|rank| ProcId::new(self.nspace().clone(), rank)).collect());
        }
        if self.node(NodeRef::Name(node)).is_none() {
            return Ok(Vec::new());
        }
        let problem = format!("the job {} has no list of processes for node {node}", self.nspace());
        Err(Failure::new(Status::ERR_DATA_VALUE_NOT_FOUND, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    fn registered(spec: JobSpec) -> JobData {
        let mut job = JobData::new(spec.nspace().clone());
        job.register(&spec.into_infos(), "n0").unwrap();
        job
    }

    #[test]
    fn res_10_peers_are_not_made_from_the_nodes_of_single_processes() {
        let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap();
        let of_rank = |rank: u32| {
            let rank = crate::Info::new(&keys::RANK, crate::Rank::from_raw(rank));
            vec![rank, crate::Info::new(&keys::HOSTNAME, "n0")]
        };
        let [zero, one] = [0, 1]
            .map(|rank| crate::Info::new(&keys::PROC_INFO_ARRAY, crate::DataArray::Info(of_rank(rank))));
        let mut job = registered(spec);
        job.register(&[zero, one], "n0").unwrap();
        let rank = crate::Rank::from_raw(1);
        assert_eq!(job.hostname_of(rank).as_deref(), Some("n0"), "the single locations are there");
        let failure = resolve_peers([&job], "n0").unwrap_err();
        assert_eq!(failure.status, Status::ERR_DATA_VALUE_NOT_FOUND);
    }

    #[test]
    fn res_09c_a_list_of_peers_without_value_has_nobody_in_it() {
        for value in [Value::Undef, Value::NullString] {
            let nodes = JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1"]).unwrap();
            let mut job = registered(nodes);
            let name = crate::Info::new(&keys::HOSTNAME, "n1");
            let peers = crate::Info::dynamic(keys::LOCAL_PEERS.key_name(), value);
            let node = crate::Info::new(&keys::NODE_INFO_ARRAY, crate::DataArray::Info(vec![name, peers]));
            job.register(&[node], "n0").unwrap();
            assert_eq!(resolve_peers([&job], "n1").unwrap(), []);
            // of this one nothing is known
            assert_eq!(resolve_peers([&job], "n0").unwrap_err().status, Status::ERR_DATA_VALUE_NOT_FOUND);
        }
    }

    #[test]
    fn res_11_a_job_that_says_nothing_does_not_hide_the_others() {
        let silent = registered(JobSpec::new("a".parse().unwrap()).node_map(["n0"]).unwrap());
        let told = JobSpec::new("b".parse().unwrap()).node_map(["n0", "n1"]).unwrap();
        let told = registered(told.ranks_block(2, 1).unwrap());
        assert_eq!(resolve_peers([&silent, &told], "n0").unwrap().len(), 1);
        assert_eq!(resolve_nodes([&silent, &told]), ["n0", "n1"]);
    }
}
