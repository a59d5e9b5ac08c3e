use pmix_client::{Client, Nspace, ProcId, Rank};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::ServerBuilder;
use pmix_server::types::job::JobSpec;

use crate::{NullLauncher, TestNode};

/// Several servers, as if on nodes `n0`, `n1`, .., with one job over all of them.
///
/// Each has a [`StandardHost`]; they reach each other in memory. Ranks are numbered node by node.
#[derive(Debug)]
pub struct TestCluster {
    nodes: Vec<TestNode>,
    per_node: u32,
}

impl TestCluster {
    /// So many nodes with so many ranks of job `job` on each.
    pub async fn new(nodes: u32, per_node: u32) -> Self {
        Self::with_job(nodes, per_node, |spec| spec).await
    }

    /// The same with more to say of the job.
    pub async fn with_job(nodes: u32, per_node: u32, more: impl Fn(JobSpec) -> JobSpec) -> Self {
        Self::with(nodes, per_node, more, |server| server).await
    }

    /// The same with more to say of the servers.
    pub async fn with_servers(
        nodes: u32,
        per_node: u32,
        server: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::with(nodes, per_node, |spec| spec, server).await
    }

    async fn with(
        nodes: u32,
        per_node: u32,
        more: impl Fn(JobSpec) -> JobSpec,
        server: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let names: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
        let nspace = Nspace::new("job").unwrap();
        let mut cluster = Self { nodes: Vec::new(), per_node };
        for (number, exchange) in (0..).zip(MemoryExchange::cluster(&names)) {
            let host = StandardHost::new(NullLauncher, exchange);
            let spec = JobSpec::new(nspace.clone()).node_map(&names).unwrap();
            let spec = more(spec.ranks_block(nodes, per_node).unwrap());
            let first = number * per_node;
            let builder = TestNode::builder(0).hostname(&format!("n{number}"));
            let builder = builder.host(host).job(spec, first..first + per_node).server(&server);
            cluster.nodes.push(builder.start().await);
        }
        cluster
    }

    /// The servers in order.
    pub fn nodes(&self) -> &[TestNode] {
        &self.nodes
    }

    /// One server.
    pub fn node(&self, number: usize) -> &TestNode {
        &self.nodes[number]
    }

    /// The server of a rank.
    pub fn node_of(&self, rank: u32) -> &TestNode {
        self.node((rank / self.per_node) as usize)
    }

    /// A process of the job.
    pub fn proc(&self, rank: u32) -> ProcId {
        ProcId::new(self.nodes[0].nspace().clone(), Rank::from_raw(rank))
    }

    /// Connects as a rank to the server of its node.
    pub async fn client(&self, rank: u32) -> Client {
        self.node_of(rank).client(rank).await
    }

    /// Connects as all ranks, in order.
    pub async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for node in &self.nodes {
            clients.extend(node.clients().await);
        }
        clients
    }
}
