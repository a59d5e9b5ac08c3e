//! Publish, lookup, unpublish.

use std::time::Instant;

use pmix_types::message::{Lookup, Request};
use pmix_types::{DataRange, Directives, Info, InfoFlags, KeyName, Persistence, Status, Value, keys};

use super::super::rank::{Checked, Rank, ensure, must, must_fail};
use super::{Check, family};

family! {
    publish_can_be_looked_up ["PUB-03", "PUB-11"], "a lookup finds published data and its publisher", needs [Publish, Lookup], across [Fence];
    a_duplicate_is_refused ["PUB-04"], "a key can be published only once in a range, and the first value stays", needs [Publish, Lookup], across [Fence];
    ranges_do_not_meet ["PUB-05"], "one key may be published in several ranges, and each value is kept", needs [Publish, Lookup], across [Fence];
    private_data_stays_private ["PUB-06", "PUB-07"], "only its publisher finds PROC_LOCAL data", needs [Publish, Lookup], across [Fence];
    local_data_stays_on_its_node ["PUB-06", "PUB-07"], "LOCAL data is not found on another node", needs [Publish, Lookup], across [Fence];
    namespaces_are_a_range ["PUB-06", "PUB-07"], "NAMESPACE data is not found by another namespace", needs [Publish, Lookup], across [Fence] | both;
    lookups_have_a_range ["PUB-10"], "the range of a lookup limits the publishers", needs [Publish, Lookup], across [Fence];
    first_read_is_the_last ["PUB-08"], "FIRST_READ data is found once, by one process", needs [Publish, Lookup], across [Fence];
    a_partial_answer_says_so ["PUB-12"], "the status of a lookup shows that keys are missing", needs [Publish, Lookup], across [Fence];
    a_lookup_waits_if_told_so ["PUB-13"], "a lookup waits only with WAIT", needs [Publish, Lookup], across [Fence];
    a_lookup_ends_in_time ["PUB-13", "GEN-12"], "TIMEOUT ends a lookup that waits", needs [Lookup], across [Fence];
    unpublish_takes_back_ones_own ["PUB-15", "PUB-16"], "a process can unpublish its own data and publish it again", needs [Publish, Lookup, Unpublish], across [Fence];
    published_is_not_put ["PUB-18"], "a get does not find published data", needs [Publish], across [Fence];
    a_store_knows_its_directives ["GEN-05"], "an unknown required directive of a lookup is refused", needs [Lookup], across [Fence];
}

async fn publish_can_be_looked_up(rank: &Rank) -> Checked {
    let key = rank.key("service")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, "here", Directives::new()).await?)?;
    }
    rank.sync(None).await?;
    let reply = must("lookup", rank.lookup(&[&key], Directives::new()).await?)?;
    ensure(reply.status == Status::SUCCESS, || format!("a complete reply has status {}", reply.status))?;
    let found = reply.found.first();
    let is_it = found.is_some_and(|data| data.value == Value::from("here") && data.proc == rank.peer(0));
    ensure(is_it, || format!("found {found:?}"))?;
    rank.sync(None).await
}

async fn a_duplicate_is_refused(rank: &Rank) -> Checked {
    let key = rank.key("once")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, Directives::new()).await?)?;
    }
    rank.sync(None).await?;
    if rank.is_last() {
        let again = rank.publish(&key, 2u32, Directives::new()).await?;
        must_fail("publishing a key again", again, &[Status::ERR_DUPLICATE_KEY])?;
        value_is(rank, &key, Directives::new(), 1).await?;
    }
    rank.sync(None).await
}

/// The store may choose between values that a process can see (PUB-14). Each of these can be read once, so all have to come.
async fn ranges_do_not_meet(rank: &Rank) -> Checked {
    if rank.is_first() {
        let key = rank.key("ranges")?;
        let ranges = [DataRange::NAMESPACE, DataRange::SESSION, DataRange::PROC_LOCAL];
        for (value, range) in (1u32..).zip(ranges) {
            let once = in_range(range).with(&keys::PERSISTENCE, Persistence::FIRST_READ);
            must(&format!("publish in range {range}"), rank.publish(&key, value, once).await?)?;
        }
        let mut found = Vec::new();
        for _ in ranges {
            let what = format!("a lookup of {key}, whose values {found:?} have been found");
            let reply = must(&what, rank.lookup(&[&key], Directives::new()).await?)?;
            found.extend(reply.found.into_iter().map(|data| data.value.to_string()));
        }
        found.sort();
        ensure(found == ["1", "2", "3"], || format!("the values in three ranges are {found:?}"))?;
    }
    rank.sync(None).await
}

async fn private_data_stays_private(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("private")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, in_range(DataRange::PROC_LOCAL)).await?)?;
        value_is(rank, &key, Directives::new(), 1).await?;
    }
    rank.sync(None).await?;
    if !rank.is_first() {
        must_not_find(rank, &key, Directives::new()).await?;
    }
    rank.sync(None).await
}

async fn local_data_stays_on_its_node(rank: &Rank) -> Checked {
    rank.needs_two_nodes().await?;
    let key = rank.key("local")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, in_range(DataRange::LOCAL)).await?)?;
        value_is(rank, &key, Directives::new(), 1).await?;
    }
    rank.sync(None).await?;
    if rank.is_last() {
        must_not_find(rank, &key, Directives::new()).await?;
    }
    rank.sync(None).await
}

async fn namespaces_are_a_range(rank: &Rank) -> Checked {
    let all = rank.both_jobs()?;
    let key = rank.shared_key("namespace")?;
    if rank.is_of_first_job() && rank.is_first() {
        must("publish", rank.publish(&key, 1u32, in_range(DataRange::NAMESPACE)).await?)?;
    }
    rank.sync(Some(all.clone())).await?;
    match rank.is_of_first_job() {
        true => value_is(rank, &key, Directives::new(), 1).await?,
        false => must_not_find(rank, &key, Directives::new()).await?,
    }
    rank.sync(Some(all)).await
}

async fn lookups_have_a_range(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("range")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, in_range(DataRange::SESSION)).await?)?;
    }
    rank.sync(None).await?;
    if rank.is_last() {
        value_is(rank, &key, in_range(DataRange::NAMESPACE), 1).await?;
        must_not_find(rank, &key, in_range(DataRange::PROC_LOCAL)).await?;
    }
    rank.sync(None).await
}

/// All ranks look up the key concurrently, and tell each other whether they found it: exactly one must.
async fn first_read_is_the_last(rank: &Rank) -> Checked {
    let (key, told) = (rank.key("first")?, rank.key("found")?);
    if rank.is_first() {
        let directives = Directives::new().with(&keys::PERSISTENCE, Persistence::FIRST_READ);
        must("publish", rank.publish(&key, 1u32, directives).await?)?;
    }
    rank.sync(None).await?;
    let found = rank.lookup(&[&key], Directives::new()).await?.is_ok();
    rank.commit(pmix_types::Scope::GLOBAL, told.clone(), found).await?;
    must("fence", rank.fence(None, Directives::new().with(&keys::COLLECT_DATA, true)).await?)?;
    let mut finders = 0;
    for number in 0..rank.size() {
        let found = must("get", rank.get(&rank.peer(number), &told, Directives::new()).await?)?;
        finders += u32::from(found == Value::Bool(true));
    }
    ensure(finders == 1, || format!("{finders} processes found data that may be found only once"))?;
    rank.sync(None).await
}

async fn a_partial_answer_says_so(rank: &Rank) -> Checked {
    let (here, missing) = (rank.key("here")?, rank.key("missing")?);
    if rank.is_first() {
        must("publish", rank.publish(&here, 1u32, Directives::new()).await?)?;
        must_not_find(rank, &missing, Directives::new()).await?;
        let reply = must("lookup", rank.lookup(&[&here, &missing], Directives::new()).await?)?;
        let is_partial = reply.status == Status::ERR_PARTIAL_SUCCESS && reply.found.len() == 1;
        ensure(is_partial, || format!("one of two keys is missing, but the reply is {reply:?}"))?;
    }
    rank.sync(None).await
}

async fn a_lookup_waits_if_told_so(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("soon")?;
    if !rank.is_first() {
        must_not_find(rank, &key, Directives::new()).await?;
    }
    rank.sync(None).await?;
    if rank.is_first() {
        rank.be_late().await;
        must("publish", rank.publish(&key, 1u32, Directives::new()).await?)?;
    } else {
        value_is(rank, &key, Directives::new().with(&keys::WAIT, 0), 1).await?;
    }
    rank.sync(None).await
}

async fn a_lookup_ends_in_time(rank: &Rank) -> Checked {
    if rank.is_first() {
        let key = rank.key("never")?;
        let asked = Instant::now();
        let directives = Directives::new().with(&keys::WAIT, 0).with(&keys::TIMEOUT, 1);
        let late = rank.lookup(&[&key], directives).await?;
        must_fail("a lookup of a key that is never published", late, &[Status::ERR_TIMEOUT])?;
        let took = asked.elapsed();
        ensure(took.as_millis() >= 900, || format!("a lookup with a limit of 1 s ended after {took:?}"))?;
    }
    rank.sync(None).await
}

async fn unpublish_takes_back_ones_own(rank: &Rank) -> Checked {
    let (key, other) = (rank.key("mine")?, rank.key("yours")?);
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, Directives::new()).await?)?;
    }
    if rank.is_last() {
        must("publish", rank.publish(&other, 2u32, Directives::new()).await?)?;
    }
    rank.sync(None).await?;
    if rank.is_first() {
        rank.unpublish(&[&key], Directives::new()).await?;
        must_not_find(rank, &key, Directives::new()).await?;
        must("publishing it again", rank.publish(&key, 3u32, Directives::new()).await?)?;
        value_is(rank, &key, Directives::new(), 3).await?;
        if !rank.is_last() {
            // data of another process stays
            rank.unpublish(&[&other], Directives::new()).await?;
            value_is(rank, &other, Directives::new(), 2).await?;
        }
    }
    rank.sync(None).await
}

async fn published_is_not_put(rank: &Rank) -> Checked {
    let key = rank.key("apart")?;
    if rank.is_first() {
        must("publish", rank.publish(&key, 1u32, Directives::new()).await?)?;
        let got = rank.get(rank.me(), &key, Directives::new().with(&keys::IMMEDIATE, true)).await?;
        must_fail("a get of published data", got, &[Status::ERR_NOT_FOUND])?;
    }
    rank.sync(None).await
}

async fn a_store_knows_its_directives(rank: &Rank) -> Checked {
    if rank.is_first() {
        let key = rank.key("required")?;
        must_not_find(rank, &key, Directives::new()).await?;
        let mut lookup = Lookup::new(vec![key]);
        lookup.directives = Directives::from(vec![
            Info::dynamic(super::unknown_key()?, true).with_flags(InfoFlags::REQUIRED),
        ]);
        must_fail(
            "a lookup with an unknown required directive",
            rank.ask(Request::Lookup(lookup)).await?,
            &[Status::ERR_NOT_SUPPORTED],
        )?;
    }
    rank.sync(None).await
}

fn in_range(range: DataRange) -> Directives {
    Directives::new().with(&keys::RANGE, range)
}

async fn value_is(rank: &Rank, key: &KeyName, directives: Directives, value: u32) -> Checked {
    let reply = must(&format!("lookup of {key}"), rank.lookup(&[key], directives).await?)?;
    let found = reply.found.first().map(|data| data.value.clone());
    ensure(found == Some(Value::Uint32(value)), || format!("{key} is {found:?} instead of {value}"))
}

async fn must_not_find(rank: &Rank, key: &KeyName, directives: Directives) -> Checked {
    let looked = rank.lookup(&[key], directives).await?;
    let statuses = [Status::ERR_NOT_FOUND, Status::ERR_NO_PERMISSIONS];
    must_fail(&format!("a lookup of {key}, which this process may not find"), looked, &statuses)
}
