//! Connect and disconnect.

use std::collections::BTreeSet;

use pmix_types::{Directives, ProcId, Scope, Status, Value, keys};

use super::super::rank::{Checked, Rank, ensure, must, must_fail};
use super::{Check, ensure_left_after, family, now};

family! {
    connect_waits_for_all ["CON-02"], "no connect ends before all participants have entered it", needs [Connect], across [Fence, DirectModex];
    ranks_of_a_connected_set_are_unique ["CON-06", "CON-07"], "each process receives a unique rank in the new namespace", needs [Connect], across [Fence];
    connect_brings_job_data ["CON-08"], "the answer to a connect has the others' job data, and a get finds it", needs [Connect], across [Fence] | both;
    an_exchange_makes_no_namespace ["CON-09"], "a connect with XCHG_ONLY creates no namespace", needs [Connect], across [Fence];
    a_caller_must_take_part ["CON-03"], "the caller must be one of the processes", needs [Connect], across [Fence];
    a_connect_ends_in_time ["CON-02", "GEN-12"], "TIMEOUT ends a connect", needs [Connect], across [Fence];
    only_what_is_connected_can_be_disconnected ["CON-14"], "a set that is not connected cannot be disconnected", needs [Disconnect], across [Fence];
    a_set_connects_again_after_its_disconnect ["CON-14", "CON-15"], "a set can connect again after its disconnect", needs [Connect, Disconnect], across [Fence];
    a_connected_set_connects_again ["CON-15"], "a connected set that connects again stays the same, and one disconnect ends it", needs [Connect, Disconnect], across [Fence];
}

async fn connect_waits_for_all(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("entered")?;
    if rank.is_last() {
        rank.be_late().await;
        rank.commit(Scope::GLOBAL, key.clone(), now()).await?;
    }
    must("connect", rank.connect(vec![rank.job()], Directives::new()).await?)?;
    ensure_left_after(rank, &key, now(), "connect").await?;
    rank.sync(None).await
}

async fn ranks_of_a_connected_set_are_unique(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let reply = must("connect", rank.connect(vec![rank.job()], Directives::new()).await?)?;
    let (name, number) = (rank.key("connected")?, rank.key("rank")?);
    rank.commit(Scope::GLOBAL, name.clone(), reply.nspace.as_ref().map_or("", |nspace| nspace.as_str()))
        .await?;
    let own = reply.rank.map_or(u32::MAX, pmix_types::Rank::to_raw);
    rank.commit(Scope::GLOBAL, number.clone(), own).await?;
    must("fence", rank.fence(None, Directives::new().with(&keys::COLLECT_DATA, true)).await?)?;
    let (mut names, mut numbers) = (BTreeSet::new(), Vec::new());
    for peer in 0..rank.size() {
        let peer = rank.peer(peer);
        names.insert(must("get", rank.get(&peer, &name, Directives::new()).await?)?.to_string());
        numbers.push(must("get", rank.get(&peer, &number, Directives::new()).await?)?.to_string());
    }
    ensure(names.len() == 1, || format!("the processes received different namespaces: {names:?}"))?;
    if reply.nspace.is_some() {
        let unique: BTreeSet<_> = numbers.iter().collect();
        let all_differ = unique.len() == numbers.len() && own != u32::MAX;
        ensure(all_differ, || format!("the ranks in the new namespace are {numbers:?}"))?;
    }
    rank.sync(None).await
}

async fn connect_brings_job_data(rank: &Rank) -> Checked {
    let all = rank.both_jobs()?;
    let reply = must("connect", rank.connect(all.clone(), Directives::new()).await?)?;
    for job in &all {
        let told = reply.jobs.iter().find(|told| *told.nspace() == job.nspace);
        let is_told = *job == rank.job() || told.is_some_and(|told| told.size() == Some(rank.size()));
        ensure(is_told, || format!("the answer to a connect has no data of {job}, or not its size"))?;
        let size = rank.get(job, keys::JOB_SIZE.name(), Directives::new()).await?;
        let size = must(&format!("size of {job} after a connect"), size)?;
        ensure(size == Value::Uint32(rank.size()), || format!("the size of {job} is {size:?}"))?;
    }
    rank.sync(Some(all)).await
}

async fn an_exchange_makes_no_namespace(rank: &Rank) -> Checked {
    let directives = Directives::new().with(&keys::CONNECT_XCHG_ONLY, true);
    let reply = must("connect", rank.connect(vec![rank.job()], directives).await?)?;
    let is_bare = reply.nspace.is_none() && reply.rank.is_none();
    ensure(is_bare, || format!("a connect with XCHG_ONLY returned {:?} {:?}", reply.nspace, reply.rank))
}

async fn a_caller_must_take_part(rank: &Rank) -> Checked {
    rank.needs(2)?;
    if rank.is_first() {
        let refused = rank.connect(vec![rank.last()], Directives::new()).await?;
        must_fail(
            "a connect of other processes",
            refused,
            &[Status::ERR_NOT_A_MEMBER, Status::ERR_BAD_PARAM],
        )?;
    }
    rank.sync(None).await
}

async fn a_connect_ends_in_time(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let all: Vec<ProcId> = (0..rank.size()).map(|number| rank.peer(number)).collect();
    if !rank.is_last() {
        let late = rank.connect(all, Directives::new().with(&keys::TIMEOUT, 1)).await?;
        must_fail("a connect that one participant does not enter", late, &[Status::ERR_TIMEOUT])?;
    }
    rank.sync(None).await
}

async fn only_what_is_connected_can_be_disconnected(rank: &Rank) -> Checked {
    let refused = rank.disconnect(vec![rank.job()]).await?;
    let statuses = [Status::ERR_INVALID_OPERATION, Status::ERR_NOT_FOUND];
    must_fail("a disconnect of a set that is not connected", refused, &statuses)?;
    rank.sync(None).await
}

async fn a_set_connects_again_after_its_disconnect(rank: &Rank) -> Checked {
    for _ in 0..2 {
        must("connect", rank.connect(vec![rank.job()], Directives::new()).await?)?;
        must("disconnect", rank.disconnect(vec![rank.job()]).await?)?;
    }
    rank.sync(None).await
}

async fn a_connected_set_connects_again(rank: &Rank) -> Checked {
    let first = must("connect", rank.connect(vec![rank.job()], Directives::new()).await?)?;
    for _ in 0..2 {
        let again = must("connect again", rank.connect(vec![rank.job()], Directives::new()).await?)?;
        let (was, is) = ((&first.nspace, first.rank), (&again.nspace, again.rank));
        ensure(was == is, || format!("connecting again changed {was:?} to {is:?}"))?;
    }
    must("disconnect", rank.disconnect(vec![rank.job()]).await?)?;
    // all have disconnected before one tries again
    rank.sync(None).await?;
    let refused = rank.disconnect(vec![rank.job()]).await?;
    let statuses = [Status::ERR_INVALID_OPERATION, Status::ERR_NOT_FOUND];
    must_fail("a second disconnect", refused, &statuses)?;
    rank.sync(None).await
}
