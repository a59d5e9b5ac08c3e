//! The core of a runtime: ranks exchange TCP endpoints, pass a token around a ring, form groups, and tell rank 0 by events.
//!
//! ```text
//! target/debug/pmixrun -n 4 target/debug/examples/toy_runtime
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::Duration;

use pmix_client::{Client, ProcId, Rank, Scope, Status, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An event of this program: a rank is done.
const DONE: Status = Status::from_raw(42);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    let size: u32 = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    let rank = me.rank.to_raw();

    // endpoints
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    client.put(Scope::GLOBAL, "endpoint", listener.local_addr()?.to_string())?;
    client.commit().await?;
    client.fence_all().collect_data().await?;

    // a token that each rank increments
    let next = me.with_rank(Rank::new((rank + 1) % size)?);
    let address: String = client.get(&next, "endpoint").await?;
    let mut to_next = TcpStream::connect(&address).await?;
    let (mut from_last, _) = listener.accept().await?;
    if rank == 0 {
        to_next.write_u32(1).await?;
    }
    let token = from_last.read_u32().await?;
    if rank != 0 {
        to_next.write_u32(token + 1).await?;
    }
    println!("rank {rank} of {size}: token {token}");

    // groups of even and of odd ranks
    let mut events = client.events([DONE]).await?;
    let members: Vec<ProcId> = me.peers(size).filter(|peer| peer.rank.to_raw() % 2 == rank % 2).collect();
    let name = if rank.is_multiple_of(2) { "even" } else { "odd" };
    let group = client.group_construct(name, members.clone()).await?;
    client.fence([ProcId::wildcard(name.parse()?)]).await?;
    println!("rank {rank}: group {name} has {} members", members.len());
    group.destruct().await?;

    // all ranks have registered for events
    client.fence_all().await?;
    if rank != 0 {
        let first = me.with_rank(Rank::new(0)?);
        let text = format!("rank {rank} is done");
        client.notify(DONE).info(keys::EVENT_TEXT_MESSAGE, text).custom_range([first]).await?;
    } else {
        for _ in 1..size {
            let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await?;
            let event = event.ok_or("the events have ended")??;
            println!("rank 0 hears: {}", event.info.get(keys::EVENT_TEXT_MESSAGE)?.unwrap_or_default());
        }
    }
    client.fence_all().await?;
    client.finalize().await?;
    Ok(())
}
