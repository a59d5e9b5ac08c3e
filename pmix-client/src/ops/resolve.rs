use std::sync::Arc;

use pmix_types::job::JobData;
use pmix_types::message::{Failure, ResolveNodes, ResolvePeers};
use pmix_types::{Namespaces, Nspace, ProcId, Status, job};

use crate::client::Client;
use crate::core::Core;
use crate::error::Error;
use crate::store::Store;

const PEERS: &str = "resolve peers";
const NODES: &str = "resolve nodes";

impl Client {
    /// Returns the processes on a node.
    ///
    /// If `node` is `None`, it is the local node; if `nspaces` is `None`, all known namespaces (RES-11). The server
    /// answers, after asking its host (RES-03, RES-04); without a connection, the answer comes from the data that the
    /// process holds (RES-02). It is empty if the node has no process of the namespace, or is not known (RES-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), `ERR_DATA_VALUE_NOT_FOUND` if the processes
    /// of the node are not known (RES-10), errors of the host (RES-05), [`Error::Lost`] if the connection is lost,
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// assert_eq!(client.resolve_peers(None, None).await?, [client.proc_id().clone()]);
    /// assert_eq!(client.resolve_nodes(&client.proc_id().nspace).await?, [client.hostname()]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Resolve_peers")]
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspaces: impl Into<Namespaces>,
    ) -> Result<Vec<ProcId>, Error> {
        resolve_peers(&self.core(), node, nspaces.into().one()).await
    }

    /// Returns the names of a namespace's nodes, in its order and without duplicates; empty if it has none (RES-07).
    ///
    /// If `nspaces` is `None`, all known namespaces are meant (RES-11). The source of the answer is the same as for
    /// [`Client::resolve_peers`].
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), errors of the host (RES-05), [`Error::Lost`]
    /// if the connection is lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    #[doc(alias = "PMIx_Resolve_nodes")]
    pub async fn resolve_nodes(&self, nspaces: impl Into<Namespaces>) -> Result<Vec<String>, Error> {
        resolve_nodes(&self.core(), nspaces.into().one()).await
    }
}

/// Processes on a node, from the server, or from what is held here if there is none (RES-02, RES-03).
pub(crate) async fn resolve_peers(
    core: &Core,
    node: Option<&str>,
    nspace: Option<Nspace>,
) -> Result<Vec<ProcId>, Error> {
    core.check()?;
    if !core.is_connected() {
        let node = node.unwrap_or_else(|| core.hostname());
        return held_peers(&core.store(), node, nspace.as_ref());
    }
    let request = ResolvePeers::new(node.map(Into::into), nspace);
    core.call(request).await
}

/// Nodes of a namespace, in the same way.
pub(crate) async fn resolve_nodes(core: &Core, nspace: Option<Nspace>) -> Result<Vec<String>, Error> {
    core.check()?;
    if !core.is_connected() {
        return held_nodes(&core.store(), nspace.as_ref());
    }
    core.call(ResolveNodes::new(nspace)).await
}

fn held_peers(store: &Store, node: &str, nspace: Option<&Nspace>) -> Result<Vec<ProcId>, Error> {
    let jobs = jobs(store, PEERS, nspace)?;
    job::resolve_peers(jobs.iter().map(|job| &***job), node).map_err(|failure| Error::failed(PEERS, failure))
}

fn held_nodes(store: &Store, nspace: Option<&Nspace>) -> Result<Vec<String>, Error> {
    Ok(job::resolve_nodes(jobs(store, NODES, nspace)?.iter().map(|job| &***job)))
}

/// The job of a namespace (RES-06), or all of them in the order of their names (RES-11).
fn jobs<'a>(
    store: &'a Store,
    operation: &'static str,
    nspace: Option<&Nspace>,
) -> Result<Vec<&'a Arc<JobData>>, Error> {
    let Some(nspace) = nspace else {
        let mut all: Vec<_> = store.jobs().collect();
        all.sort_by_key(|job| job.nspace());
        return Ok(all);
    };
    let unknown = || {
        let problem = format!("namespace {nspace} is not known here");
        Error::failed(operation, Failure::new(Status::ERR_INVALID_NAMESPACE, problem))
    };
    store.job(nspace).map(|job| vec![job]).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;
    use pmix_types::keys;

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
    fn res_01_res_02_res_09a_peers_come_from_the_layout_held_here() {
        let a = "a".parse().unwrap();
        assert_eq!(names(&held_peers(&store(), "n1", Some(&a)).unwrap()), ["a:2", "a:3"]);
    }

    #[test]
    fn res_06_an_unknown_nspace_is_an_error() {
        let unknown = "c".parse().unwrap();
        let peers = held_peers(&store(), "n0", Some(&unknown)).unwrap_err();
        let nodes = held_nodes(&store(), Some(&unknown)).unwrap_err();
        assert_eq!(peers.status(), Status::ERR_INVALID_NAMESPACE);
        assert_eq!(nodes.status(), Status::ERR_INVALID_NAMESPACE);
    }

    #[test]
    fn res_07_nodes_of_a_nspace_and_none_if_it_has_none() {
        let mut store = store();
        store.keep_job(Arc::new(JobData::new("bare".parse().unwrap())));
        assert_eq!(held_nodes(&store, Some(&"b".parse().unwrap())).unwrap(), ["n1", "n2"]);
        assert!(held_nodes(&store, Some(&"bare".parse().unwrap())).unwrap().is_empty());
    }

    #[test]
    fn res_08_a_node_outside_the_nspace_has_no_peers() {
        let a = "a".parse().unwrap();
        assert!(held_peers(&store(), "n2", Some(&a)).unwrap().is_empty());
        assert!(held_peers(&store(), "mispelt", Some(&a)).unwrap().is_empty());
    }

    #[test]
    fn res_10_a_node_whose_processes_were_not_told_is_an_error() {
        let error = held_peers(&store(), "n2", Some(&"b".parse().unwrap())).unwrap_err();
        assert_eq!(error.status(), Status::ERR_DATA_VALUE_NOT_FOUND);
    }

    #[test]
    fn res_09b_an_empty_list_of_peers_is_an_answer() {
        let spec = JobSpec::new("e".parse().unwrap()).node_map(["n0"]).unwrap();
        let spec = spec.node_info("n0", &keys::LOCAL_PEERS, "");
        let mut store = store();
        store.keep_job(register(spec));
        assert!(held_peers(&store, "n0", Some(&"e".parse().unwrap())).unwrap().is_empty());
    }

    #[test]
    fn res_11_no_nspace_means_all_that_are_known() {
        assert_eq!(names(&held_peers(&store(), "n1", None).unwrap()), ["a:2", "a:3"]);
        assert_eq!(held_nodes(&store(), None).unwrap(), ["n0", "n1", "n2"]);
    }
}
