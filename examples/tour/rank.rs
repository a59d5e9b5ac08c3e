//! A rank of the tour.

use pmix_client::{Client, Rank, Scope};
use serde_json::json;

use crate::{RANKS, Result, SEEN, check};

/// Exchanges values with the other ranks, says how many and how large, and waits for [`SEEN`].
pub(crate) async fn run() -> Result<()> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().rank.to_raw();
    let peer = |rank| client.proc_id().with_rank(Rank::from_raw(rank));
    let mut seen = client.events([SEEN]).await?;

    // all at once: after the fence everything is here
    client.put(Scope::GLOBAL, "endpoint", endpoint(me))?;
    client.commit().await?;
    client.fence_all().collect_data().await?;
    let mut found = Vec::new();
    for rank in 0..RANKS {
        found.push((client.get::<String>(&peer(rank), "endpoint").optional().await?, endpoint(rank)));
    }

    // one after the other: a Get waits until the process has committed the key
    let before = (me + RANKS - 1) % RANKS;
    let baton = client.get::<String>(&peer(before), "baton");
    if me > 0 {
        found.push((baton.clone().await?, format!("from {before}")));
    }
    client.put(Scope::GLOBAL, "baton", format!("from {me}"))?;
    client.commit().await?;
    if me == 0 {
        found.push((baton.await?, format!("from {before}")));
    }

    check(found.iter().all(|(found, expected)| found == expected), &format!("as expected: {found:?}"))?;
    let bytes: usize = found.iter().map(|(found, _)| found.len()).sum();
    println!("{}", json!({ "gets": found.len(), "bytes": bytes }));
    seen.recv().await.ok_or("the server is gone")??;
    Ok(client.finalize().embed_barrier().await?)
}

/// An address as a real program would have one.
fn endpoint(rank: u32) -> String {
    format!("10.0.0.{}:{}", rank + 1, 7000 + rank)
}
