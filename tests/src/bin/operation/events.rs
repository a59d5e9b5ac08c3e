//! Events, and the loss of a peer.

use pmix_client::types::{DataRange, Event};
use pmix_client::{
    EventStream, HandlerCall, HandlerOutcome, NotifyBuilder, Procs, Rank, Scope, Status, keys,
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

use crate::{Done, Pair, patience, same};

/// An event of our own. Codes of the Standard end at -3000, so no server takes it for one of its own.
const CODE: Status = Status::from_raw(-3483);
const NOTE: &str = "ding";

/// The next event, which comes soon or not at all.
pub(crate) async fn next(events: &mut EventStream) -> Result<Event, Box<dyn std::error::Error>> {
    let event = tokio::time::timeout(patience(), events.recv()).await.map_err(|_| "no event")?;
    Ok(event.ok_or("no event")??)
}

/// The next event that the peer has raised: servers that stay tell also of what jobs raised that have ended.
async fn next_of_peer(pair: &Pair, events: &mut EventStream) -> Result<Event, Box<dyn std::error::Error>> {
    loop {
        let event = next(events).await?;
        if event.source == pair.peer {
            return Ok(event);
        }
    }
}

/// The leader notifies, the other one hears it.
async fn heard(pair: Pair, event: Event) -> Done {
    let mut events = pair.client.events([CODE]).await?;
    pair.client.fence_all().await?;
    if pair.leads() {
        pair.client.notify(event).info(keys::EVENT_TEXT_MESSAGE, NOTE).await?;
    } else {
        let heard = next_of_peer(&pair, &mut events).await?;
        same(heard.code, CODE)?;
        same(heard.info.get(keys::EVENT_TEXT_MESSAGE)?.as_deref(), Some(NOTE))?;
    }
    events.close().await?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn local(pair: Pair) -> Done {
    let event = Event::new(CODE, pair.me.clone()).with_range(DataRange::LOCAL);
    heard(pair, event).await
}

pub(crate) async fn namespace(pair: Pair) -> Done {
    let event = Event::new(CODE, pair.me.clone()).with_range(DataRange::NAMESPACE);
    heard(pair, event).await
}

pub(crate) async fn named(pair: Pair) -> Done {
    let mut events = pair.client.events([CODE]).await?;
    pair.client.fence_all().await?;
    if pair.leads() {
        pair.client.notify(CODE).custom_range([pair.peer.clone()]).await?;
    } else {
        let heard = next_of_peer(&pair, &mut events).await?;
        same(heard.code, CODE)?;
    }
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn handler(pair: Pair) -> Done {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let registration = pair
        .client
        .on_event([CODE])
        .handle(move |call: HandlerCall| {
            let _ = heard.send(call.event.code);
            async { HandlerOutcome::action_complete() }
        })
        .await?;
    pair.client.fence_all().await?;
    if pair.leads() {
        pair.client.notify(Event::new(CODE, pair.me.clone()).with_range(DataRange::LOCAL)).await?;
    }
    // that of the own process is called, too
    let heard = tokio::time::timeout(patience(), hears.recv()).await.map_err(|_| "no event")?;
    same(heard, Some(CODE))?;
    registration.deregister().await?;
    Ok(pair.client.fence_all().await?)
}

/// Rank 0 of a job whose other ranks are C programs: `tests/peers/c/pmix_beside.c` says what all of them do.
pub(crate) async fn beside(pair: Pair) -> Done {
    let event = Event::new(CODE, pair.me.clone()).with_range(DataRange::LOCAL);
    let notify = pair.client.notify(event);
    beside_c(pair, notify).await
}

/// The same, with events for processes by name.
pub(crate) async fn beside_by_name(pair: Pair) -> Done {
    let notify = pair.client.notify(CODE).custom_range(Procs::own_nspace());
    beside_c(pair, notify).await
}

async fn beside_c(pair: Pair, notify: NotifyBuilder) -> Done {
    let (client, me) = (&pair.client, &pair.me);
    client.put(Scope::GLOBAL, "beside.text", format!("text of {}", me.rank))?;
    client.commit().await?;
    client.fence_all().collect_data().await?;
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    for rank in (0..size).map(Rank::from_raw) {
        let text: String = client.get(me.with_rank(rank), "beside.text").await?;
        same(text, format!("text of {rank}"))?;
    }
    let mut events = client.events([CODE]).await?;
    client.fence_all().await?;
    notify.await?;
    loop {
        let event = next(&mut events).await?;
        // a stream hears what its own process says, too
        if event.source == pair.peer {
            break;
        }
    }
    Ok(client.fence_all().await?)
}

/// What servers say of a process that is gone.
const LOSSES: [Status; 5] = [
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_PROC_ABORTED,
    Status::ERR_LOST_CONNECTION,
    Status::ERR_PARTIAL_SUCCESS,
];

/// The other one kills itself, and the leader is told.
pub(crate) async fn loss(pair: Pair) -> Done {
    // servers have several codes for it
    let mut events = pair.client.events([]).await?;
    pair.client.fence_all().await?;
    if !pair.leads() {
        return die(&pair).await;
    }
    loop {
        let event = next(&mut events).await?;
        let affected = event.info.get(keys::EVENT_AFFECTED_PROC)?;
        if affected.unwrap_or_else(|| event.source.clone()) == pair.peer {
            pair.tell("NOTICED", event.code);
            return Ok(());
        }
    }
}

/// The other one kills itself, and the leader waits for it in a fence.
pub(crate) async fn loss_fence(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    if !pair.leads() {
        return die(&pair).await;
    }
    match pair.client.fence_all().await {
        // as that server reports it
        Err(error) if LOSSES.contains(&error.status()) => {
            pair.tell("NOTICED", error.status());
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(()) => Err("succeeds without the peer".into()),
    }
}

/// The server goes away, while the leader waits in a fence and the other one for an event.
pub(crate) async fn server_lost(pair: Pair) -> Done {
    let mut events = pair.client.events([CODE]).await?;
    pair.client.fence_all().await?;
    pair.tell("SERVED", rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get()));
    let error = if pair.leads() {
        let fence = pair.client.fence_all().await;
        fence.err().ok_or("the fence succeeds without the peer")?
    } else {
        let event = events.recv().await.ok_or("the stream just ends")?;
        event.err().ok_or("an event that nobody has sent")?.into()
    };
    pair.tell("NOTICED", error.status());
    // all that needs the server fails at once, what is here stays
    same(pair.client.fence_all().await.err().is_some_and(|error| error.is_lost_connection()), true)?;
    same(pair.client.job(&pair.me.nspace).get(keys::JOB_SIZE).await?, 2)?;
    if error.is_lost_connection() { Ok(()) } else { Err(error.into()) }
}

async fn die(pair: &Pair) -> Done {
    pair.tell("END", "");
    kill_process(getpid(), Signal::KILL)?;
    std::future::pending().await
}
