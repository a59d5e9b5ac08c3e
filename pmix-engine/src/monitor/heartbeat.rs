//! Whether a process sends its heartbeats (MON-02).

use std::time::Duration;

use pmix_types::message::{Failure, Monitor as Wish};
use pmix_types::{Directives, Status, keys};

use super::super::timers::{Timer, deadline};
use super::super::{Asked, Engine};
use super::{Alarm, By, Kind, bad_param};

impl Engine {
    pub(super) fn watch_heartbeat(
        &mut self,
        asked: &Asked,
        wish: &Wish,
        rest: &mut Directives,
    ) -> Result<By, Failure> {
        if wish.monitor.value.is_true() == Ok(false) {
            return Err(bad_param("MONITOR_HEARTBEAT is false: MONITOR_CANCEL ends monitors"));
        }
        let alarm = Alarm::new(wish.code, Status::MONITOR_HEARTBEAT_ALERT, &asked.by.proc, rest)?;
        let interval = rest.take(&keys::MONITOR_HEARTBEAT_TIME)?.unwrap_or(0);
        let drops = rest.take(&keys::MONITOR_HEARTBEAT_DROPS)?.unwrap_or(0);
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        if interval == 0 {
            return Err(bad_param("a monitor of heartbeats needs their interval: MONITOR_HEARTBEAT_TIME"));
        }
        let patience = Duration::from_secs(u64::from(interval) * (u64::from(drops) + 1));
        self.hold_monitor(asked, alarm, Kind::Heartbeat { patience }, patience)?;
        Ok(By::Server)
    }

    /// A heartbeat says something to the monitors here only, so that there need not be one.
    pub(super) fn take_beat(&mut self, asked: &Asked, rest: &mut Directives) -> Result<By, Failure> {
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        for (number, held) in self.monitors.held.iter_mut().filter(|(_, held)| held.conn == asked.to.conn) {
            let Kind::Heartbeat { patience } = held.kind else { continue };
            let timer = Timer::Monitor(*number);
            self.cx.timers.clear(held.due, timer);
            held.due = asked.at.checked_add(patience);
            self.cx.timers.set(held.due, timer);
        }
        Ok(By::Server)
    }
}
