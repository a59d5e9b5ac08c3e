//! Job data, put, commit and get.

use std::time::Instant;

use pmix_types::{Directives, Scope, Status, Value, keys};

use super::super::rank::{Checked, Rank, ensure, must, must_fail, skip};
use super::{Check, family};

family! {
    job_data_is_there_from_the_start ["INI-03", "GET-02"], "job-level and process-level data are available at once";
    reserved_keys_never_wait ["GET-30"], "a get of a missing reserved key fails at once";
    a_get_waits_for_the_commit ["GET-22", "GET-23", "DMX-01"], "a get waits until its target commits the key", across [Fence, DirectModex];
    immediate_does_not_wait ["GET-04"], "a get with IMMEDIATE does not wait for the key", across [Fence, DirectModex];
    a_get_ends_in_time ["GET-07", "GEN-12"], "TIMEOUT ends a get", across [Fence, DirectModex];
    a_commit_replaces ["PUT-04"], "putting a key again replaces its value", across [Fence, DirectModex];
    scopes_hide_values ["PUT-03", "GET-06"], "a LOCAL value is found on its node only, a REMOTE one on other nodes only, and who is left out is told so", across [Fence, DirectModex];
}

async fn job_data_is_there_from_the_start(rank: &Rank) -> Checked {
    for number in 0..rank.size() {
        let proc = rank.peer(number);
        must(
            &format!("host name of {proc}"),
            rank.get(&proc, keys::HOSTNAME.name(), Directives::new()).await?,
        )?;
    }
    let local = rank.get(rank.me(), keys::LOCAL_RANK.name(), Directives::new()).await?;
    let local = must("own local rank", local)?;
    ensure(matches!(local, Value::Uint16(_)), || format!("the local rank is {local:?}"))
}

async fn reserved_keys_never_wait(rank: &Rank) -> Checked {
    let missing = rank.get(&rank.job(), keys::CREDENTIAL.name(), Directives::new()).await?;
    must_fail("a get of a key that job data does not contain", missing, &[Status::ERR_NOT_FOUND])
}

async fn a_get_waits_for_the_commit(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("late")?;
    if rank.is_last() {
        rank.be_late().await;
        rank.commit(Scope::GLOBAL, key, 7u32).await?;
    } else {
        let value = must("get", rank.get(&rank.last(), &key, Directives::new()).await?)?;
        ensure(value == Value::Uint32(7), || format!("got {value:?} instead of 7"))?;
    }
    rank.sync(None).await
}

async fn immediate_does_not_wait(rank: &Rank) -> Checked {
    let key = rank.key("never")?;
    let directives = Directives::new().with(&keys::IMMEDIATE, true);
    let missing = rank.get(&rank.last(), &key, directives).await?;
    must_fail("an immediate get of a key that was never put", missing, &[Status::ERR_NOT_FOUND])?;
    rank.sync(None).await
}

async fn a_get_ends_in_time(rank: &Rank) -> Checked {
    let key = rank.key("never")?;
    let asked = Instant::now();
    let missing = rank.get(&rank.last(), &key, Directives::new().with(&keys::TIMEOUT, 1)).await?;
    must_fail("a get of a key that is never put", missing, &[Status::ERR_TIMEOUT])?;
    let took = asked.elapsed();
    ensure(took.as_millis() >= 900, || format!("a get with a limit of 1 s ended after {took:?}"))?;
    rank.sync(None).await
}

async fn a_commit_replaces(rank: &Rank) -> Checked {
    let key = rank.key("again")?;
    if rank.is_last() {
        rank.commit(Scope::GLOBAL, key.clone(), "old").await?;
        rank.commit(Scope::GLOBAL, key.clone(), "new").await?;
    }
    rank.sync(None).await?;
    let value = must("get", rank.get(&rank.last(), &key, Directives::new()).await?)?;
    ensure(value == Value::from("new"), || format!("got {value:?}"))?;
    rank.sync(None).await
}

async fn scopes_hide_values(rank: &Rank) -> Checked {
    rank.needs_two_nodes().await?;
    let node = rank.node_of(0).await?;
    let mut near_ranks = Vec::new();
    for number in 1..rank.size() {
        if rank.node_of(number).await? == node {
            near_ranks.push(number);
        }
    }
    if near_ranks.is_empty() {
        return Err(skip("needs two ranks on the node of the first"));
    }
    let (near, far, all) = (rank.key("near")?, rank.key("far")?, rank.key("all")?);
    if rank.is_first() {
        rank.commit(Scope::LOCAL, near.clone(), 1u32).await?;
        rank.commit(Scope::REMOTE, far.clone(), 2u32).await?;
        rank.commit(Scope::GLOBAL, all.clone(), 3u32).await?;
    }
    must("fence", rank.fence(None, Directives::new().with(&keys::COLLECT_DATA, true)).await?)?;
    if !rank.is_first() {
        let first = rank.peer(0);
        let (shown, hidden) = match near_ranks.contains(&rank.number()) {
            true => ((&near, 1), (&far, "REMOTE from its own node")),
            false => ((&far, 2), (&near, "LOCAL from another node")),
        };
        for (key, put) in [shown, (&all, 3)] {
            let value = must(&format!("get of {key}"), rank.get(&first, key, Directives::new()).await?)?;
            ensure(value == Value::Uint32(put), || format!("{key} is {value:?} instead of {put}"))?;
        }
        let limited = Directives::new().with(&keys::TIMEOUT, 1);
        must_fail(
            &format!("a get of a value in scope {}", hidden.1),
            rank.get(&first, hidden.0, limited).await?,
            &[Status::ERR_EXISTS_OUTSIDE_SCOPE],
        )?;
    }
    rank.sync(None).await
}
