//! Two nodes in one process: a server for each, and a process on each.
//!
//! Shows what a resource manager of several nodes must provide: an exchange between its servers, here
//! [`MemoryExchange`]. A get of data on the other node is a direct modex; a fence gathers the data of both nodes.
//!
//! ```text
//! cargo run --example two_nodes
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use pmix_client::{Client, Nspace, ProcId, Rank, Scope};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::Server;
use pmix_server::types::job::JobSpec;
use pmix_server::types::{Gid, Uid};
use rustix::process::{getgid, getuid};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const NODES: [&str; 2] = ["n0", "n1"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let root = tempfile::tempdir()?;
    let nspace = Nspace::new("two-nodes")?;
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for (exchange, node) in MemoryExchange::cluster(NODES).into_iter().zip(NODES) {
        let host = StandardHost::new(LocalLauncher::new(node), exchange);
        let server = Server::builder().hostname(node).host(host.clone()).session_root(root.path());
        let server = server.nspace(format!("server-{node}")).start().await?;
        servers.push(server);
    }

    // every server knows the whole job, and the processes of its own node
    for (server, rank) in servers.iter().zip(0..) {
        let spec = JobSpec::new(nspace.clone()).node_map(NODES)?.proc_map("0;1")?;
        server.handle().register_nspace(spec).await?;
        clients.push(connect(server, ProcId::new(nspace.clone(), Rank::new(rank)?)).await?);
    }
    let [first, second] = &clients[..] else { return Err("there have to be two processes".into()) };

    // rank 1 asks before rank 0 has anything to say: its server asks the other one, which waits for the commit
    let get = async {
        let greeting: String = second.get(first.proc_id(), "greeting").await?;
        Ok::<_, Box<dyn Error>>(greeting)
    };
    let put = async {
        first.put(Scope::GLOBAL, "greeting", "hello from the other node")?;
        Ok(first.commit().await?)
    };
    let (greeting, ()) = tokio::try_join!(get, put)?;
    println!(
        "direct modex: rank 1 on {} got {greeting:?} of rank 0 on {}",
        second.hostname(),
        first.hostname()
    );

    for client in &clients {
        client.put(Scope::REMOTE, "endpoint", format!("{}:7000", client.hostname()))?;
        client.commit().await?;
    }
    tokio::try_join!(
        first.fence_all().collect_data().into_future(),
        second.fence_all().collect_data().into_future()
    )?;
    for (here, there) in [(first, second), (second, first)] {
        let endpoint: String = here.get(there.proc_id(), "endpoint").optional().await?;
        println!(
            "fence: {} has {endpoint} of {}, without asking its server",
            here.proc_id(),
            there.proc_id()
        );
    }

    for client in clients {
        client.finalize().await?;
    }
    for server in servers {
        server.stop().await;
    }
    Ok(root.close()?)
}

/// Announces a process to its server and connects as that process, which here is this one.
async fn connect(server: &Server, proc: ProcId) -> Result<Client> {
    let (uid, gid) = (Uid::new(getuid().as_raw()), Gid::new(getgid().as_raw()));
    server.handle().register_client(&proc, uid, gid, None).await?;
    Ok(Client::builder().uri(server.handle().uri()).proc(proc).init().await?)
}
