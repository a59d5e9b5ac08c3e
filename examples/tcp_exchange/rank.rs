//! A rank: uses everything that needs the servers of both nodes, and checks the results.

use std::fmt::Debug;

use pmix_client::{Client, Rank, Scope, Status};

use crate::{NODES, RANKS_OF_A_NODE, Result};

const RANKS: u32 = NODES.len() as u32 * RANKS_OF_A_NODE;

/// Works with the ranks of the other node, until that or its own is lost.
pub(crate) async fn run(to_lose: &str) -> Result<()> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().rank.to_raw();
    let who = format!("rank {me} on {}", client.hostname());
    let peer = |rank| client.proc_id().with_rank(Rank::from_raw(rank));
    let other = (me + RANKS_OF_A_NODE) % RANKS;

    // after the fence the data of all is here, and a Get asks nobody
    client.put(Scope::GLOBAL, "endpoint", endpoint(me))?;
    client.commit().await?;
    client.fence_all().collect_data().await?;
    for rank in 0..RANKS {
        let found: String = client.get(peer(rank), "endpoint").optional().await?;
        expect(&found, &endpoint(rank))?;
    }
    println!("{who}: fence: has the endpoints of all {RANKS} ranks");

    // what has been put after the fence is asked of the other node, which waits for the commit
    let get = async {
        let greeting: String = client.get(peer(other), "greeting").await?;
        expect(&greeting, &format!("hello from {other}"))
    };
    let put = async {
        client.put(Scope::GLOBAL, "greeting", format!("hello from {me}"))?;
        Ok(client.commit().await?)
    };
    tokio::try_join!(get, put)?;
    println!("{who}: direct modex: has the greeting of rank {other}");

    client.publish().data(format!("service.{me}"), endpoint(me)).await?;
    let key = format!("service.{other}");
    let found = client.lookup([key.as_str()]).wait_all().await?;
    expect(&found.get::<String>(&key)?.ok_or("it is not published")?, &endpoint(other))?;
    println!("{who}: lookup: has what rank {other} has published");
    client.fence_all().await?;

    if client.hostname() == to_lose {
        let mut losses = client.events([Status::ERR_LOST_CONNECTION]).await?;
        println!("{who}: stays out of the last fence");
        losses.recv().await.ok_or("the event of the lost server did not come")??;
        return Ok(());
    }
    println!("{who}: enters the last fence");
    let Err(error) = client.fence_all().await else { return Err("the fence came to its end".into()) };
    expect(&error.status(), &Status::ERR_UNREACH)?;
    println!("{who}: {error}");
    Ok(client.finalize().await?)
}

/// An address as a real program would have one.
fn endpoint(rank: u32) -> String {
    format!("10.0.0.{}:{}", rank + 1, 7000 + rank)
}

fn expect<T: PartialEq + Debug>(found: &T, expected: &T) -> Result<()> {
    if found == expected { Ok(()) } else { Err(format!("{found:?} in place of {expected:?}").into()) }
}
