//! The process of one node: its server, with a host that reaches the others over TCP, and its ranks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pmix_client::{Nspace, ProcId, Rank};
use pmix_host::StandardHost;
use pmix_launch::LocalLauncher;
use pmix_server::Server;
use pmix_server::types::job::JobSpec;
use pmix_server::types::{Gid, Uid};
use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::exchange::TcpExchange;
use crate::meet::{Keys, meet};
use crate::{NODES, RANKS_OF_A_NODE, Result};

/// How long the other nodes may take to connect.
const MEETING: Duration = Duration::from_secs(30);

/// The settings that a node gets on its standard input, where nobody else can read them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) node: String,
    pub(crate) keys: Keys,
    /// The nodes that listen already.
    pub(crate) listening: BTreeMap<String, SocketAddr>,
    /// Directory for what servers keep.
    pub(crate) root: PathBuf,
    /// The job's namespace.
    pub(crate) nspace: String,
    /// The node that will be lost, for the ranks.
    pub(crate) to_lose: String,
}

/// Prints its address, connects to the other nodes, and runs its ranks.
pub(crate) async fn run() -> Result<()> {
    let setup: Setup = serde_json::from_reader(std::io::stdin())?;
    let node = setup.node.as_str();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{node} listens on {}", listener.local_addr()?);
    let wires = timeout(MEETING, meet(node, &setup.keys, listener, &setup.listening)).await;
    let wires =
        wires.map_err(|_| format!("the other nodes did not connect to {node} within {MEETING:?}"))??;

    let host = StandardHost::new(LocalLauncher::new(node), TcpExchange::new(node, wires));
    let server = Server::builder().hostname(node).host(host).session_root(&setup.root);
    let server = server.nspace(format!("server-{node}")).start().await?;

    // by hand on each server: StandardHost::start_job reaches the servers of its own process only
    let nspace = Nspace::new(setup.nspace)?;
    let spec = JobSpec::new(nspace.clone()).node_map(NODES)?.ranks_block(2, RANKS_OF_A_NODE)?;
    server.handle().register_nspace(spec).await?;
    let number = NODES.iter().zip(0..).find(|(name, _)| **name == node).ok_or("it is none of the nodes")?.1;
    let mut ranks = JoinSet::new();
    for rank in (number * RANKS_OF_A_NODE..).take(RANKS_OF_A_NODE as usize) {
        let proc = ProcId::new(nspace.clone(), Rank::new(rank)?);
        let mut child = start(&server, &proc, &setup.to_lose).await?;
        ranks.spawn(async move { (proc, child.wait().await) });
    }
    let mut failed = Vec::new();
    while let Some(ended) = ranks.join_next().await {
        let (proc, exit) = ended?;
        let exit = exit?;
        // those who wait for it are told
        server.handle().client_ended(&proc, exit.to_string()).await?;
        failed.extend((!exit.success()).then(|| format!("{proc} on {node}: {exit}")));
    }
    server.stop().await;
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ").into()) }
}

/// Starts this program as a rank.
async fn start(server: &Server, proc: &ProcId, to_lose: &str) -> Result<tokio::process::Child> {
    let (uid, gid) = (Uid::new(getuid().as_raw()), Gid::new(getgid().as_raw()));
    server.handle().register_client(proc, uid, gid, None).await?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["rank", to_lose]);
    server.handle().setup_fork(proc).await?.apply(&mut command);
    Ok(tokio::process::Command::from(command).kill_on_drop(true).spawn()?)
}
