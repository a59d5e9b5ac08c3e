//! Events.

use pmix_types::message::Request;
use pmix_types::{DataRange, Status};

use super::super::rank::{Checked, Rank, ensure, must_fail};
use super::{Check, family};

family! {
    an_event_reaches_the_namespace ["EVT-09", "EVT-11", "EVT-19"], "an event in range NAMESPACE reaches all of it", across [Fence, NotifyEvent];
    a_local_event_stays_on_its_node ["EVT-11"], "an event in range LOCAL does not leave its node", across [Fence, NotifyEvent];
    a_private_event_stays_private ["EVT-11"], "an event in range PROC_LOCAL is sent to nobody else", across [Fence, NotifyEvent];
    events_keep_their_order ["EVT-13"], "events of one process arrive in the order they were sent", across [Fence, NotifyEvent];
    only_a_registration_can_be_ended ["EVT-16"], "a registration that is not known cannot be ended";
}

/// Codes of one's own; any integer will do (EVT-18).
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
    ensure(is_it, || format!("{event:?} came in place of {LAST} from rank 0"))?;
    rank.sync(None).await
}

/// The event that comes after it to everybody shows that it has not come.
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
        ensure(event.code == wanted, || format!("{} came first in place of {wanted}", event.code))?;
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
        ensure(event.code == LAST, || format!("{}, which is private to another, came", event.code))?;
    }
    rank.sync(None).await
}

async fn events_keep_their_order(rank: &Rank) -> Checked {
    let codes: Vec<Status> = (0..8).map(|number| Status::from_raw(-7710 - number)).collect();
    for code in &codes {
        rank.listen(*code).await?;
    }
    rank.sync(None).await?;
    if rank.is_first() {
        for code in &codes {
            rank.notify(*code, DataRange::NAMESPACE).await?;
        }
    }
    for code in &codes {
        let event = rank.next_event().await?;
        ensure(event.code == *code, || format!("{} came where {code} was next", event.code))?;
    }
    rank.sync(None).await
}

async fn only_a_registration_can_be_ended(rank: &Rank) -> Checked {
    let answer = rank.request(Request::DeregisterEvents(u64::MAX)).await?;
    must_fail("the end of a registration that is not there", answer, &[Status::ERR_BAD_PARAM])
}
