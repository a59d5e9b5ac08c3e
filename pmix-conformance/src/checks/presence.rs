//! Who is there: processes that are lost, and tools.

use pmix_types::{Directives, Persistence, Status, Value, keys};

use super::super::rank::{Checked, Rank, broken, ensure, must, must_fail};
use super::{Check, family};

family! {
    a_lost_process_fails_what_waits_for_it ["FEN-13"], "a fence fails if one of its participants dies", needs [ClientLost], across [Fence];
    data_goes_with_its_process ["PUB-08"], "data with persistence PROC is gone when its publisher has died", needs [ClientLost, Publish, Lookup], across [Fence];
    a_tool_gets_an_identity ["TOL-09", "TOL-15"], "the host gives each tool an identity that nobody else has", needs [ToolConnected];
}

async fn a_lost_process_fails_what_waits_for_it(rank: &Rank) -> Checked {
    rank.needs(2)?;
    rank.sync(None).await?;
    if rank.is_last() {
        return rank.lose().await;
    }
    let statuses = [Status::ERR_PROC_TERM_WO_SYNC, Status::ERR_PARTIAL_SUCCESS, Status::ERR_LOST_CONNECTION];
    must_fail("a fence with a process that has died", rank.fence(None, Directives::new()).await?, &statuses)
}

async fn data_goes_with_its_process(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("mortal")?;
    if rank.is_last() {
        let until_its_end = Directives::new().with(&keys::PERSISTENCE, Persistence::PROC);
        must("publish", rank.publish(&key, "here", until_its_end).await?)?;
    }
    rank.sync(None).await?;
    if !rank.is_last() {
        let found = must("lookup before the death", rank.lookup(&[&key], Directives::new()).await?)?;
        let is_there = found.found.first().is_some_and(|data| data.value == Value::from("here"));
        ensure(is_there, || format!("before the death of its publisher, {key} is {:?}", found.found))?;
    }
    rank.sync(None).await?;
    if rank.is_last() {
        return rank.lose().await;
    }
    // the others hear of the death at some time, not at once
    for _ in 0..LOOKS {
        match rank.lookup(&[&key], Directives::new()).await? {
            Err(failure) if failure.status == Status::ERR_NOT_FOUND => return Ok(()),
            Err(failure) => return Err(broken(format!("lookup failed: {failure}"))),
            Ok(_) => rank.be_late().await,
        }
    }
    Err(broken("data of a process that has died is still found"))
}

/// How often a rank looks whether something is gone.
const LOOKS: u32 = 30;

async fn a_tool_gets_an_identity(rank: &Rank) -> Checked {
    let first = must("connection of a tool", rank.tool().await?)?;
    let second = must("connection of another tool", rank.tool().await?)?;
    ensure(first != second, || format!("two tools are {first}"))?;
    ensure(first.nspace != rank.me().nspace, || format!("a tool is {first}, in the job of its user"))
}
