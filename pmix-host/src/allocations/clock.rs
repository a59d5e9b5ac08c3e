//! The time of an allocation: its end is told ahead, and then its jobs end.

use std::sync::Weak;

use pmix_types::{Event, Info, ProcId, Status, keys};
use tokio::time::Instant;

use crate::jobs::{Cluster, Control, for_procs};

/// Watches an allocation until its end.
pub(super) async fn watch(cluster: Weak<Cluster>, id: String) {
    // the end of which the holder has been told
    let mut told = None;
    loop {
        let (until, warn_at, changed) = {
            let Some(cluster) = cluster.upgrade() else { return };
            let held = cluster.allocations.held();
            let Some(allocation) = held.get(&id) else { return };
            let Some(until) = allocation.until else { return };
            let warn_at = until.checked_sub(allocation.warning).unwrap_or(until);
            (until, warn_at, allocation.changed.clone())
        };
        let is_told = told == Some(until);
        tokio::select! {
            () = changed.notified() => continue,
            () = tokio::time::sleep_until(if is_told { until } else { warn_at }) => {}
        }
        let Some(cluster) = cluster.upgrade() else { return };
        if Instant::now() >= until {
            end(&cluster, &id);
            return;
        }
        told = Some(until);
        warn(&cluster, &id).await;
    }
}

/// Takes the slots back, and ends the jobs that use them.
fn end(cluster: &Cluster, id: &str) {
    let Some(allocation) = cluster.allocations.held().remove(id) else { return };
    for nspace in allocation.jobs.keys() {
        cluster.table.tell(nspace, Control::TimeOver);
    }
}

/// Tells the holder and the jobs that the end is near.
async fn warn(cluster: &Cluster, id: &str) {
    let event = {
        let held = cluster.allocations.held();
        let Some(allocation) = held.get(id) else { return };
        let mut hearers = vec![allocation.holder.clone()];
        hearers.extend(allocation.jobs.keys().cloned().map(ProcId::wildcard));
        let mut event = Event::new(Status::ALLOC_TIMEOUT_WARNING, ProcId::none());
        for info in allocation.infos(id) {
            event = event.with_info(info);
        }
        for nspace in allocation.jobs.keys() {
            event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, ProcId::wildcard(nspace.clone())));
        }
        for_procs(event, hearers)
    };
    if let Ok(nodes) = cluster.nodes() {
        nodes.notify(&event).await;
    }
}
