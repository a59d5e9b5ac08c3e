//! Two nodes in two processes, connected over TCP by an implementation of [`Exchange`](pmix_host::Exchange).
//!
//! Each process has a server with a `StandardHost`. The hosts communicate over the exchange: four ranks, two on each
//! node, enter a fence with data, get what ranks of the other node have put, publish and look up. Then one of the two
//! processes is killed, and the fence of the ranks on the other node fails with `ERR_UNREACH`.
//!
//! **What `StandardHost` cannot do yet**: start a job on the servers of other processes. `start_job` and spawn reach
//! the servers of their own process only, so each process here registers the job with its server and starts the ranks
//! of its node itself (`node.rs`); there is no supervisor that ends the job on all nodes when a rank fails, and no
//! process table of all nodes.
//!
//! In a network that others can read, use TLS for the connections (`meet.rs`). Turn on TCP keepalive, because a machine
//! that loses power does not close its connections.
//!
//! ```text
//! cargo run --example tcp_exchange
//! cargo run --example tcp_exchange -- n0        # kills this node in place of n1
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod exchange;
mod link;
mod meet;
mod message;
mod node;
mod rank;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};

use meet::Keys;
use node::Setup;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const NODES: [&str; 2] = ["n0", "n1"];
const RANKS_OF_A_NODE: u32 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["node"] => node::run().await,
        ["rank", to_lose] => rank::run(to_lose).await,
        [] => launch(NODES[1]).await,
        [to_lose] if NODES.contains(&to_lose) => launch(to_lose).await,
        _ => Err("give the node to lose, n0 or n1, or nothing".into()),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("tcp_exchange: {error}");
    ExitCode::FAILURE
}

/// Starts a process for each node, shows what their ranks say, and kills the one to lose before the last fence.
async fn launch(to_lose: &str) -> Result<()> {
    let root = tempfile::tempdir()?;
    let mut keys = Keys::new();
    for node in NODES {
        File::open("/dev/urandom")?.read_exact(keys.entry(node.to_owned()).or_default())?;
    }
    let nspace = format!("tcp-exchange-{}", std::process::id());
    let mut listening = BTreeMap::new();
    let mut running = Vec::new();
    for node in NODES {
        let (node, to_lose) = (node.to_owned(), to_lose.to_owned());
        let (keys, root, nspace) = (keys.clone(), root.path().to_owned(), nspace.clone());
        let setup = Setup { node: node.clone(), keys, listening: listening.clone(), root, nspace, to_lose };
        let (child, lines, address) = start(&setup).await?;
        println!("{node} is process {}", child.id().ok_or("it has ended")?);
        listening.insert(node, address);
        running.push((child, lines));
    }
    let lost = usize::from(to_lose == NODES[1]);
    let (mut lost, mut left) = (running.swap_remove(lost), running.remove(0));

    for (_, lines) in [&mut lost, &mut left] {
        show_until(lines, " the last fence", RANKS_OF_A_NODE).await?;
    }
    println!("{to_lose} is killed");
    lost.0.kill().await?;
    show_until(&mut left.1, " is lost: ", RANKS_OF_A_NODE).await?;
    let ended = left.0.wait().await?;
    if !ended.success() {
        return Err(format!("the process of the other node has failed: {ended}").into());
    }
    // ranks of the lost node hold its output open until they have noticed
    while lost.1.next_line().await?.is_some() {}
    println!("all as it should be");
    Ok(root.close()?)
}

/// Starts the process of a node; where it listens.
async fn start(setup: &Setup) -> Result<(Child, Lines<BufReader<ChildStdout>>, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("node").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // closed when it has all
    stdin.ok_or("no input")?.write_all(&serde_json::to_vec(setup)?).await?;
    let mut lines = BufReader::new(stdout.ok_or("no output")?).lines();
    let line = lines.next_line().await?.ok_or_else(|| format!("node {} has ended early", setup.node))?;
    let address = line.rsplit(' ').next().unwrap_or_default().parse();
    Ok((
        child,
        lines,
        address.map_err(|_| format!("node {} printed {line:?} instead of its address", setup.node))?,
    ))
}

/// Shows the output of the ranks of a node, until this many lines contain these words.
async fn show_until(lines: &mut Lines<BufReader<ChildStdout>>, words: &str, times: u32) -> Result<()> {
    let mut seen = 0;
    while seen < times {
        let line = lines.next_line().await?.ok_or("the ranks of a node have ended early")?;
        println!("{line}");
        seen += u32::from(line.contains(words));
    }
    Ok(())
}
