//! Monitors of heartbeats (MON-02).

use std::time::Duration;

use pmix_types::message::{Failure, Monitor};
use pmix_types::{Status, keys};

use super::alarm::{Alarm, bad_param};
use crate::Asked;
use crate::timers::deadline;

/// The alarm, and how long the process may send no heartbeat; `None` if only the host can do all that is asked for.
pub(super) fn read(asked: &Asked, request: &Monitor) -> Result<Option<(Alarm, Duration)>, Failure> {
    let mut rest = request.directives.clone();
    if request.monitor.value.is_true() == Ok(false) {
        return Err(bad_param("MONITOR_HEARTBEAT is false: use MONITOR_CANCEL to end a monitor"));
    }
    let alarm = Alarm::take(request.code, Status::MONITOR_HEARTBEAT_ALERT, &asked.by.proc, &mut rest)?;
    let interval = rest.take(&keys::MONITOR_HEARTBEAT_TIME)?.unwrap_or(0);
    let drops = rest.take(&keys::MONITOR_HEARTBEAT_DROPS)?.unwrap_or(0);
    deadline(asked.at, &mut rest)?;
    if rest.deny_unprocessed().is_err() {
        return Ok(None);
    }
    if interval == 0 {
        return Err(bad_param("a monitor of heartbeats requires their interval: MONITOR_HEARTBEAT_TIME"));
    }
    let patience = Duration::from_secs(u64::from(interval) * (u64::from(drops) + 1));
    Ok(Some((alarm, patience)))
}
