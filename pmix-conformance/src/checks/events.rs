//! Events.

use pmix_types::message::{DeregisterEvents, Request};
use pmix_types::{DataRange, Status};

use super::super::rank::{Checked, Rank, ensure, must_fail};
use super::{Check, family};

family! {
    an_event_reaches_the_namespace ["EVT-09", "EVT-11", "EVT-19"], "an event in range NAMESPACE reaches the whole namespace", across [Fence, NotifyEvent];
    a_local_event_stays_on_its_node ["EVT-11"], "an event in range LOCAL does not leave its node", across [Fence, NotifyEvent];
    a_private_event_stays_private ["EVT-11"], "an event in range PROC_LOCAL reaches no other process", across [Fence, NotifyEvent];
    events_keep_their_order ["EVT-13"], "events of one process arrive in the order in which they were sent, also at those who register later", across [Fence, NotifyEvent];
    only_a_registration_can_be_ended ["EVT-16"], "an unknown registration cannot be removed";
}

/// User-defined codes; any integer is valid (EVT-18).
const FIRST: Status = Status::from_raw(-7701);
const LAST: Status = Status::from_raw(-7702);

async fn an_event_reaches_the_namespace(rank: &Rank) -> Checked {
    rank.listen(LAST).await?;
    rank.sync(None).await?;
    if rank.is_first() {
        rank.notify(LAST, DataRange::NAMESPACE).await?;
    }
    let event = rank.next_event().await?;
    let is_it = event.code == LAST && event.source == rank.peer(0);
    ensure(is_it, || format!("{event:?} arrived instead of {LAST} from rank 0"))?;
    rank.sync(None).await
}

/// A later event for the whole namespace shows that the local one did not arrive.
async fn a_local_event_stays_on_its_node(rank: &Rank) -> Checked {
    rank.needs_two_nodes().await?;
    rank.listen(FIRST).await?;
    rank.listen(LAST).await?;
    rank.sync(None).await?;
    if rank.is_first() {
        rank.notify(FIRST, DataRange::LOCAL).await?;
        rank.notify(LAST, DataRange::NAMESPACE).await?;
    }
    if rank.is_first() || rank.is_last() {
        let wanted = if rank.is_first() { FIRST } else { LAST };
        let event = rank.next_event().await?;
        ensure(event.code == wanted, || format!("{} arrived first, instead of {wanted}", event.code))?;
    }
    rank.sync(None).await
}

async fn a_private_event_stays_private(rank: &Rank) -> Checked {
    rank.needs(2)?;
    rank.listen(FIRST).await?;
    rank.listen(LAST).await?;
    rank.sync(None).await?;
    if rank.is_first() {
        rank.notify(FIRST, DataRange::PROC_LOCAL).await?;
        rank.notify(LAST, DataRange::NAMESPACE).await?;
    } else {
        let event = rank.next_event().await?;
        ensure(event.code == LAST, || {
            format!("{}, which is private to another process, arrived", event.code)
        })?;
    }
    rank.sync(None).await
}

async fn events_keep_their_order(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let (early, late) = (codes(-7710), codes(-7730));
    for code in &early {
        rank.listen(*code).await?;
    }
    rank.sync(None).await?;
    if rank.is_first() {
        notify_all(rank, &early).await?;
    }
    arrive_in_order(rank, &early).await?;
    if rank.is_first() {
        notify_all(rank, &late).await?;
    }
    rank.sync(None).await?;
    if !rank.is_first() {
        rank.listen_to_all(late.clone()).await?;
        arrive_in_order(rank, &late).await?;
    }
    rank.sync(None).await
}

/// User-defined codes, from this one downwards.
fn codes(highest: i32) -> Vec<Status> {
    (0..8).map(|number| Status::from_raw(highest - number)).collect()
}

async fn notify_all(rank: &Rank, codes: &[Status]) -> Checked {
    for code in codes {
        rank.notify(*code, DataRange::NAMESPACE).await?;
    }
    Ok(())
}

async fn arrive_in_order(rank: &Rank, codes: &[Status]) -> Checked {
    for code in codes {
        let event = rank.next_event().await?;
        ensure(event.code == *code, || format!("{} arrived instead of {code}", event.code))?;
    }
    Ok(())
}

async fn only_a_registration_can_be_ended(rank: &Rank) -> Checked {
    let answer = rank.request(Request::DeregisterEvents(DeregisterEvents::new(u64::MAX))).await?;
    must_fail("removing an unknown registration", answer, &[Status::ERR_BAD_PARAM])
}
