use std::slice;
use std::sync::Arc;

use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Status, keys};

use crate::error::Error;
use crate::store::Store;

/// Processes on a node by the job data that is held (RES-02).
pub(crate) fn resolve_peers(
    store: &Store,
    node: &str,
    nspace: Option<&Nspace>,
) -> Result<Vec<ProcId>, Error> {
    let mut procs = Vec::new();
    let mut unsaid = None;
    for job in jobs(store, "resolve peers", nspace)? {
        match peers_of(&job, node) {
            Ok(peers) => procs.extend(peers),
            Err(error) => unsaid = Some(error),
        }
    }
    match unsaid {
        // of all namespaces, those that say nothing do not hide the others
        Some(error) if procs.is_empty() => Err(error),
        _ => Ok(procs),
    }
}

/// Nodes of a namespace by the job data that is held (RES-02).
pub(crate) fn resolve_nodes(store: &Store, nspace: Option<&Nspace>) -> Result<Vec<String>, Error> {
    let mut nodes: Vec<String> = Vec::new();
    for job in jobs(store, "resolve nodes", nspace)? {
        let list = job.lookup(keys::NODE_LIST.name(), &Target::Job);
        let names = list.as_ref().and_then(|list| list.as_str()).unwrap_or_default();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            if nodes.iter().all(|known| known != name) {
                nodes.push(name.to_owned());
            }
        }
    }
    Ok(nodes)
}

/// The job of a namespace (RES-06), or all of them in the order of their names (RES-11).
fn jobs(store: &Store, operation: &'static str, nspace: Option<&Nspace>) -> Result<Vec<Arc<JobData>>, Error> {
    let Some(nspace) = nspace else {
        let mut all: Vec<_> = store.jobs().cloned().collect();
        all.sort_by(|a, b| a.nspace().cmp(b.nspace()));
        return Ok(all);
    };
    match store.job(nspace) {
        Some(job) => Ok(slice::from_ref(job).to_vec()),
        None => {
            let problem = format!("namespace {nspace} is not known here");
            Err(Error::failed(operation, Failure::new(Status::ERR_INVALID_NAMESPACE, problem)))
        }
    }
}

fn peers_of(job: &JobData, node: &str) -> Result<Vec<ProcId>, Error> {
    let proc = |rank| ProcId::new(job.nspace().clone(), rank);
    if let Some(ranks) = job.local_ranks(node) {
        return Ok(ranks.iter().map(proc).collect());
    }
    let is_a_node = job.lookup(keys::HOSTNAME.name(), &Target::Node(NodeRef::Name(node))).is_some();
    if !is_a_node {
        return Ok(Vec::new());
    }
    let problem = format!("nothing was said of the processes of {} on node {node}", job.nspace());
    Err(Error::failed("resolve peers", Failure::new(Status::ERR_DATA_VALUE_NOT_FOUND, problem)))
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;

    use super::*;

    fn register(spec: JobSpec) -> Arc<JobData> {
        let mut job = JobData::new(spec.nspace().clone());
        job.register(&spec.into_infos(), "n0").unwrap();
        Arc::new(job)
    }

    /// Job `a` on n0 and n1 with two processes each, job `b` on n1 and n2 of which no process is known.
    fn store() -> Store {
        let a: Nspace = "a".parse().unwrap();
        let own = JobSpec::new(a.clone()).node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap();
        let other = JobSpec::new("b".parse().unwrap()).node_map(["n1", "n2"]).unwrap();
        let me = ProcId::new(a, "0".parse().unwrap());
        let mut store = Store::new(me, "n0".into(), Some(register(own)));
        store.keep_job(register(other));
        store
    }

    fn names(procs: &[ProcId]) -> Vec<String> {
        procs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn res_01_res_02_res_09_peers_come_from_the_layout_held_here() {
        let a = "a".parse().unwrap();
        assert_eq!(names(&resolve_peers(&store(), "n1", Some(&a)).unwrap()), ["a:2", "a:3"]);
    }

    #[test]
    fn res_06_an_unknown_nspace_is_an_error() {
        let unknown = "c".parse().unwrap();
        let peers = resolve_peers(&store(), "n0", Some(&unknown)).unwrap_err();
        let nodes = resolve_nodes(&store(), Some(&unknown)).unwrap_err();
        assert_eq!(peers.status(), Status::ERR_INVALID_NAMESPACE);
        assert_eq!(nodes.status(), Status::ERR_INVALID_NAMESPACE);
    }

    #[test]
    fn res_07_nodes_of_a_nspace_and_none_if_it_has_none() {
        let mut store = store();
        store.keep_job(Arc::new(JobData::new("bare".parse().unwrap())));
        assert_eq!(resolve_nodes(&store, Some(&"b".parse().unwrap())).unwrap(), ["n1", "n2"]);
        assert!(resolve_nodes(&store, Some(&"bare".parse().unwrap())).unwrap().is_empty());
    }

    #[test]
    fn res_08_a_node_outside_the_nspace_has_no_peers() {
        let a = "a".parse().unwrap();
        assert!(resolve_peers(&store(), "n2", Some(&a)).unwrap().is_empty());
        assert!(resolve_peers(&store(), "mispelt", Some(&a)).unwrap().is_empty());
    }

    #[test]
    fn res_10_a_node_whose_processes_were_not_told_is_an_error() {
        let error = resolve_peers(&store(), "n2", Some(&"b".parse().unwrap())).unwrap_err();
        assert_eq!(error.status(), Status::ERR_DATA_VALUE_NOT_FOUND);
    }

    #[test]
    fn res_09_an_empty_list_of_peers_is_an_answer() {
        let spec = JobSpec::new("e".parse().unwrap()).node_map(["n0"]).unwrap();
        let spec = spec.node_info("n0", &keys::LOCAL_PEERS, "");
        let mut store = store();
        store.keep_job(register(spec));
        assert!(resolve_peers(&store, "n0", Some(&"e".parse().unwrap())).unwrap().is_empty());
    }

    #[test]
    fn res_11_no_nspace_means_all_that_are_known() {
        assert_eq!(names(&resolve_peers(&store(), "n1", None).unwrap()), ["a:2", "a:3"]);
        assert_eq!(resolve_nodes(&store(), None).unwrap(), ["n0", "n1", "n2"]);
    }
}
