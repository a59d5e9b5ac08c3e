//! The task that reads the events of ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use pmix_client::{EventError, EventStream};
use pmix_types::Event;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Shared;
use super::end::{JobEnd, NoEnd};
use crate::error::Error;

/// How often the server is asked for its jobs while there are some whose ends may have been lost.
const LOOK: Duration = Duration::from_secs(1);
/// How long events may be silent before the server is asked for its jobs. A server that has dropped an event because
/// too many were unread says so only with the next one.
const SILENCE: Duration = Duration::from_secs(5);

/// Dispatches events until none can come, or until nobody follows jobs any more, as this task holds nothing of its submitter
/// while it waits.
pub(super) async fn read(mut events: EventStream, shared: Weak<Shared>, doubt: Arc<Notify>) {
    let mut is_in_doubt = false;
    loop {
        let patience = if is_in_doubt { LOOK } else { SILENCE };
        let item = tokio::select! {
            item = timeout(patience, events.recv()) => item.ok(),
            () = doubt.notified() => None,
        };
        let Some(shared) = shared.upgrade() else { return };
        let goes_on = match item {
            Some(item) => take(&shared, item).await,
            None => look(&shared, &mut events).await,
        };
        if !goes_on {
            return;
        }
        is_in_doubt = shared.dispatch().is_in_doubt();
    }
}

/// Dispatches an event; returns whether more may come.
async fn take(shared: &Shared, item: Option<Result<Event, EventError>>) -> bool {
    let reason = match item {
        Some(Ok(event)) => {
            match JobEnd::read(&event) {
                Some((nspace, end)) => shared.dispatch().ended(nspace, end),
                None => tracing::debug!(source = %event.source, "the end of a job that is not named"),
            }
            return true;
        }
        Some(Err(EventError::Lagged { .. })) => {
            shared.dispatch().lost();
            return true;
        }
        Some(Err(_)) => why(shared).await,
        None => NoEnd::Finalized,
    };
    shared.dispatch().close(&reason);
    false
}

/// Why the connection is lost: each call says it.
async fn why(shared: &Shared) -> NoEnd {
    match shared.running().await {
        Err(Error::Client(pmix_client::Error::Lost(lost))) => NoEnd::Lost(lost),
        _ => NoEnd::Disconnected,
    }
}

/// Looks which jobs have ended, of those in doubt if there are any; returns whether more events may come.
async fn look(shared: &Shared, events: &mut EventStream) -> bool {
    let suspects = shared.dispatch().suspects();
    if suspects.is_empty() {
        return true;
    }
    let running = match shared.running().await {
        Ok(running) => running,
        // the stream tells of a lost connection, too
        Err(error) => {
            tracing::debug!(%error, "cannot ask which jobs run");
            return true;
        }
    };
    // the events of those that have ended were sent before this answer
    while let Some(item) = events.recv().now_or_never() {
        if !take(shared, item).await {
            return false;
        }
    }
    for nspace in suspects.iter().filter(|nspace| !running.contains(*nspace)) {
        // its event may have come just now
        if !shared.dispatch().follows(nspace) {
            continue;
        }
        match shared.remembered(nspace).await {
            Ok(Some(end)) => shared.dispatch().ended(nspace.clone(), end),
            Ok(None) => {}
            // it is asked again
            Err(_) => return true,
        }
    }
    shared.dispatch().settle(suspects, &running);
    true
}
