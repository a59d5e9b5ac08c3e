//! A rank: tells its peers its endpoint, learns theirs, and prints them.
//!
//! Shows the whole life of a process in a job: init, put, commit, fence, get, finalize. Runs under any launcher with a
//! server of this family, and alone:
//!
//! ```text
//! cargo build -p pmix-rm -p pmix-examples --bins --examples
//! target/debug/pmixrun -n 4 target/debug/examples/hello
//! target/debug/examples/hello
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::process::ExitCode;

use pmix_client::{Client, ProcId, Rank, Scope, keys};

/// So many peers are printed, to keep the line short in a large job.
const SHOWN: usize = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match hello().await {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn hello() -> Result<String, Box<dyn Error>> {
    let client = Client::from_env().allow_singleton().init().await?;
    let me = client.proc_id().clone();
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;

    // tell everybody where this process is, and wait until all have done so
    client.put(Scope::GLOBAL, "endpoint", endpoint(client.hostname(), me.rank))?;
    client.commit().await?;
    client.fence_all().collect_data().await?;

    // the fence has brought everything along, so the server is not asked again
    let mut peers = Vec::new();
    for rank in (0..size).map(Rank::from_raw).filter(|rank| *rank != me.rank) {
        let endpoint = endpoint_of(&client, &me.with_rank(rank)).await?;
        peers.push(format!("{rank}={endpoint}"));
    }

    let mut line = format!("rank {} of {size} on {}: peers {}", me.rank, client.hostname(), shown(&peers));
    if client.is_singleton() {
        line.push_str(" (alone, without a server)");
    }
    client.finalize().await?;
    Ok(line)
}

/// Gets a peer's endpoint and checks that it is that peer's.
async fn endpoint_of(client: &Client, peer: &ProcId) -> Result<String, Box<dyn Error>> {
    let found: String = client.get(peer, "endpoint").await?;
    let expected = endpoint(&client.get(peer, keys::HOSTNAME).await?, peer.rank);
    if found != expected {
        return Err(format!("{peer} is to be reached at {expected}, but {found} was found").into());
    }
    Ok(found)
}

/// An address as a real program would have one; it can be foretold, so that it can be checked.
fn endpoint(hostname: &str, rank: Rank) -> String {
    format!("{hostname}:{}", 7000 + rank.to_raw())
}

fn shown(peers: &[String]) -> String {
    match peers.len() {
        0 => "none".into(),
        1..=SHOWN => peers.join(" "),
        count => format!("{} and {} more", peers[..SHOWN].join(" "), count - SHOWN),
    }
}
