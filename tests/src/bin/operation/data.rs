//! Init, job data, put, commit, fence, get, finalize.

use std::time::{Duration, Instant};

use pmix_client::types::{DataArray, Info, KeyNameError, Value};
use pmix_client::{Client, Error, Scope, Status, keys};

use crate::{Done, Pair, patience, refused, same};

/// As it is.
pub(crate) async fn init(pair: Pair) -> Done {
    same(pair.client.is_connected(), true)
}

pub(crate) async fn job(pair: Pair) -> Done {
    let job = pair.client.job(&pair.me.nspace);
    same(job.get(keys::JOB_SIZE).await?, 2)?;
    same(job.get(keys::NUM_NODES).await?, 1)?;
    let universe = job.get(keys::UNIV_SIZE).await?;
    same(universe >= 2, true)
}

pub(crate) async fn peer(pair: Pair) -> Done {
    for proc in [&pair.me, &pair.peer] {
        same(pair.client.get(proc, keys::LOCAL_RANK).await?, u16::try_from(proc.rank.to_raw())?)?;
        same(pair.client.get(proc, keys::HOSTNAME).await?, pair.client.hostname())?;
        same(pair.client.get(proc, keys::NODEID).await?, 0)?;
        same(pair.client.get(proc, keys::APPNUM).await?, 0)?;
    }
    Ok(())
}

pub(crate) async fn node(pair: Pair) -> Done {
    let job = pair.client.job(&pair.me.nspace);
    same(job.get(keys::LOCAL_SIZE).await?, 2)?;
    let peers: String = job.get(keys::LOCAL_PEERS).await?;
    same(peers, "0,1")
}

fn text_of(rank: pmix_client::Rank) -> String {
    format!("text of {rank}")
}

async fn put(pair: &Pair) -> Done {
    pair.client.put(Scope::GLOBAL, "operation.text", text_of(pair.me.rank))?;
    pair.client.put(Scope::LOCAL, "operation.local", pair.me.rank.to_raw())?;
    Ok(pair.client.commit().await?)
}

async fn get(pair: &Pair) -> Done {
    for proc in [&pair.me, &pair.peer] {
        let text: String = pair.client.get(proc, "operation.text").await?;
        same(text, text_of(proc.rank))?;
        let local: u32 = pair.client.get(proc, "operation.local").await?;
        same(local, proc.rank.to_raw())?;
    }
    // what a process has put goes with it
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn exchange(pair: Pair) -> Done {
    put(&pair).await?;
    pair.client.fence_all().await?;
    get(&pair).await
}

pub(crate) async fn collect(pair: Pair) -> Done {
    put(&pair).await?;
    pair.client.fence_all().collect_data().await?;
    get(&pair).await
}

pub(crate) async fn fence_alone(pair: Pair) -> Done {
    if pair.leads() {
        pair.client.fence([pair.me.clone()]).await?;
    }
    Ok(pair.client.fence([pair.me, pair.peer]).await?)
}

/// The other one does not enter, and is there until it has failed.
pub(crate) async fn fence_limit(pair: Pair) -> Done {
    if pair.leads() {
        let both = [pair.me.clone(), pair.peer.clone()];
        let limited = pair.client.fence(both).timeout(Duration::from_secs(1));
        refused(told_by_the_server(limited.await)?, Status::ERR_TIMEOUT)?;
    }
    Ok(pair.client.fence_all().await?)
}

/// An answer, if it is not this library that has given up waiting for it.
fn told_by_the_server<T>(answer: Result<T, Error>) -> Result<Result<T, Error>, String> {
    match answer {
        Err(error) if error.to_string().contains("did not answer within") => Err(error.to_string()),
        answer => Ok(answer),
    }
}

/// The leader commits only when it knows that the other one is about to ask.
pub(crate) async fn direct(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    if pair.leads() {
        // the request of the other one and the commit are on their way at the same time
        put(&pair).await?;
        return Ok(pair.client.fence_all().await?);
    }
    let get = pair.client.get(&pair.peer, "operation.text").timeout(patience());
    let text: String = get.await?;
    same(text, text_of(pair.peer.rank))?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn get_all(pair: Pair) -> Done {
    put(&pair).await?;
    pair.client.fence_all().await?;
    let all = pair.client.get_all(&pair.peer).await?;
    let text = all.iter().find(|info| *info.key == *"operation.text");
    same(text.and_then(|info| info.value.as_str()), Some(&*text_of(pair.peer.rank)))?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn refresh(pair: Pair) -> Done {
    for value in [1u32, 2] {
        pair.client.put(Scope::GLOBAL, "operation.changing", value)?;
        pair.client.commit().await?;
        pair.client.fence_all().await?;
        let found: u32 = pair.client.get(&pair.peer, "operation.changing").refresh_cache().await?;
        same(found, value)?;
        pair.client.fence_all().await?;
    }
    Ok(())
}

pub(crate) async fn absent(pair: Pair) -> Done {
    put(&pair).await?;
    pair.client.fence_all().await?;
    let get = pair.client.get::<Value>(&pair.peer, "operation.absent").immediate();
    refused(get.await, Status::ERR_NOT_FOUND)?;
    let get = pair.client.get::<Value>(&pair.peer, "operation.absent").optional();
    refused(get.await, Status::ERR_NOT_FOUND)?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn get_limit(pair: Pair) -> Done {
    let get = pair.client.get::<Value>(&pair.peer, "operation.absent").timeout(Duration::from_secs(1));
    match told_by_the_server(get.await)? {
        // a server may know that it never comes
        Err(error) if error.is_not_found() => Ok(()),
        answer => refused(answer, Status::ERR_TIMEOUT),
    }
}

/// One value of each kind that the wire has, and of arrays of them.
pub(crate) async fn kinds(pair: Pair) -> Done {
    let values = kinds_of_values()?;
    for (number, value) in values.iter().enumerate() {
        pair.client.put(Scope::GLOBAL, format!("operation.{number}"), value.clone())?;
    }
    pair.client.commit().await?;
    pair.client.fence_all().await?;
    for (number, value) in values.into_iter().enumerate() {
        let found: Value = pair.client.get(&pair.peer, format!("operation.{number}")).await?;
        same(found, value)?;
    }
    Ok(pair.client.fence_all().await?)
}

fn kinds_of_values() -> Result<[Value; 14], KeyNameError> {
    let nested = vec![Info::dynamic("operation.inner".parse()?, 7u32)];
    let long = "longer than what is sent as it is ".repeat(1000);
    Ok([
        true.into(),
        7u8.into(),
        u16::MAX.into(),
        u32::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        1.5f64.into(),
        "text".into(),
        long.into(),
        vec![0u8, 1, 255].into(),
        DataArray::Info(nested).into(),
    ])
}

pub(crate) async fn large(pair: Pair) -> Done {
    let value = |rank: pmix_client::Rank| vec![u8::from(rank.to_raw() == 0); 1 << 20];
    pair.client.put(Scope::GLOBAL, "operation.large", value(pair.me.rank))?;
    pair.client.commit().await?;
    pair.client.fence_all().collect_data().await?;
    let found: Vec<u8> = pair.client.get(&pair.peer, "operation.large").await?;
    same(found == value(pair.peer.rank), true)?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn finalize(pair: Pair) -> Done {
    Ok(pair.client.finalize().await?)
}

pub(crate) async fn finalize_barrier(pair: Pair) -> Done {
    Ok(pair.client.finalize().embed_barrier().await?)
}

/// The process is the same one after that.
pub(crate) async fn again(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    pair.client.finalize().await?;
    let client = Client::from_env().init().await?;
    same(client.proc_id(), &pair.me)?;
    same(client.job(&pair.me.nspace).get(keys::JOB_SIZE).await?, 2)?;
    Ok(client.finalize().await?)
}

/// How long rank 0 waits for data of its peer that was never sent to its node: little data, again and again, and then much at once.
pub(crate) async fn gets(pair: Pair) -> Done {
    const ROUNDS: u32 = 50;
    const MUCH: usize = 32 << 20;
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        let bytes = if round < ROUNDS { 64 } else { MUCH };
        let key = format!("operation.gets.{round}");
        if !pair.leads() {
            pair.client.put(Scope::GLOBAL, key.as_str(), vec![7_u8; bytes])?;
            pair.client.commit().await?;
        }
        pair.client.fence_all().await?;
        if pair.leads() {
            let began = Instant::now();
            let found: Vec<u8> = pair.client.get(&pair.peer, key.as_str()).await?;
            times.push(began.elapsed());
            same(found == vec![7; bytes], true)?;
        }
    }
    if let Some(much) = times.pop() {
        times.sort();
        let median = times.get(times.len() / 2).map_or(0, Duration::as_micros);
        pair.tell("GETS", format!("{median} us for little, {} us for {MUCH} bytes", much.as_micros()));
    }
    Ok(pair.client.fence_all().await?)
}
