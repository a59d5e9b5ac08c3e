//! Peers and nodes, asked over real sockets.

use std::sync::{Arc, Mutex};

use pmix_client::types::{DataArray, Info, KeyName, Status};
use pmix_client::{Client, Nspace, ProcId, Rank, keys};
use pmix_server::host::{QueryRequest, QueryResults};
use pmix_server::types::job::JobSpec;
use pmix_server::{Capabilities, HostError, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{TestNode, on_both_runtimes, within};

/// Job `job` with ranks 0 and 2 here and 1 on n1; `other` on n0 and n2, of which nothing more is told.
async fn two_jobs() -> (TestNode, Client) {
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1"]).unwrap();
    let node = TestNode::builder(0).job(spec.proc_map("0,2;1").unwrap(), [0, 2]).start().await;
    let other = JobSpec::new("other".parse().unwrap()).node_map(["n0", "n2"]).unwrap();
    node.add_job(other, []).await;
    let client = node.client(0).await;
    (node, client)
}

#[test]
fn res_03_res_04_the_server_knows_jobs_that_the_process_does_not() {
    on_both_runtimes(async || {
        let (node, client) = two_jobs().await;
        let other: Nspace = "other".parse().unwrap();
        assert_eq!(within(client.resolve_nodes(Some(&other))).await.unwrap(), ["n0", "n2"]);
        assert_eq!(within(client.resolve_nodes(None)).await.unwrap(), ["n0", "n1", "n2"]);
        let here = within(client.resolve_peers(None, None)).await.unwrap();
        assert_eq!(here, [node.proc(0), node.proc(2)]);
    });
}

#[tokio::test]
async fn res_05_to_res_10_the_servers_statuses_reach_the_process() {
    let (node, client) = two_jobs().await;
    let [job, other, unknown] = ["job", "other", "unknown"].map(|name| name.parse::<Nspace>().unwrap());
    let peers = async |node, nspace| within(client.resolve_peers(node, Some(nspace))).await;
    assert_eq!(peers(None, &unknown).await.unwrap_err().status(), Status::ERR_INVALID_NAMESPACE);
    assert_eq!(peers(Some("n1"), &job).await.unwrap(), [node.proc(1)]);
    assert!(peers(Some("n2"), &job).await.unwrap().is_empty());
    assert_eq!(peers(Some("n2"), &other).await.unwrap_err().status(), Status::ERR_DATA_VALUE_NOT_FOUND);
    let nodes = within(client.resolve_nodes(Some(&unknown))).await;
    assert_eq!(nodes.unwrap_err().status(), Status::ERR_INVALID_NAMESPACE);
}

/// Knows the processes of every node, and refuses to tell of `secret`.
#[derive(Clone, Debug, Default)]
struct Map {
    asked: Arc<Mutex<Vec<KeyName>>>,
}

#[async_trait]
impl HostModule for Map {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Query)
    }

    async fn query(&self, _: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        let query = &req.queries[0];
        self.asked.lock().unwrap().push(query.keys[0].clone());
        if query.keys[0] == keys::QUERY_RESOLVE_NODE.key_name() {
            return Err(HostError::not_supported("that"));
        }
        let nspace: String = query.qualifiers.get(&keys::NSPACE.text())?.unwrap_or_default();
        if nspace == "secret" {
            return Err(Status::ERR_NO_PERMISSIONS.into());
        }
        let node: String = query.qualifiers.get(&keys::HOSTNAME)?.unwrap_or_default();
        let procs = match node.as_str() {
            "n0" => vec![ProcId::new("far".parse().unwrap(), Rank::from_raw(6))],
            _ => Vec::new(),
        };
        let found = vec![Info::new(&keys::QUERY_RESOLVE_PEERS, DataArray::Proc(procs))];
        Ok(QueryResults::complete(vec![Info::new(&keys::QUERY_RESULTS, DataArray::Info(found))]))
    }
}

#[test]
fn res_04_res_05_the_host_has_the_first_word() {
    on_both_runtimes(async || {
        let host = Map::default();
        let node = TestNode::with_host(2, host.clone()).await;
        let client = node.client(1).await;
        let peers = within(client.resolve_peers(None, Some(node.nspace()))).await.unwrap();
        assert_eq!(peers, [ProcId::new("far".parse().unwrap(), Rank::from_raw(6))]);
        assert!(within(client.resolve_peers(Some("n9"), None)).await.unwrap().is_empty());
        let refused = within(client.resolve_peers(None, Nspace::new("secret").unwrap())).await;
        assert_eq!(refused.unwrap_err().status(), Status::ERR_NO_PERMISSIONS);
        // what the host does not support the server knows itself
        assert_eq!(within(client.resolve_nodes(None)).await.unwrap(), ["n0"]);
        assert_eq!(host.asked.lock().unwrap().len(), 4);
    });
}
