//! Monitors that the server keeps itself (HST-09): whether a process sends its heartbeats (MON-02). What else is to be
//! monitored is the host's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Monitor as Wish, Reply};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use super::forward::Form;
use super::ids::Counter;
use super::timers::{Timer, deadline};
use super::{Asked, ConnId, Engine, Out, UpcallRequest};
use crate::host::{MonitorRequest, Upcall};

/// Monitors that one connection may hold.
const MAX_MONITORS: usize = 64;

/// By number.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    held: BTreeMap<u64, Monitor>,
    next: Counter,
}

/// Waits for a process to fall silent. Clones of a process (IDN-07) may hang one by one, so each connection is watched by
/// itself.
#[derive(Debug)]
struct Monitor {
    conn: ConnId,
    /// Raised when it is silent for too long.
    alarm: Alarm,
    /// How long it may be silent.
    patience: Duration,
    /// When it has been for too long. `None` if it has been told so, until it is heard again.
    due: Option<Instant>,
}

/// An event to come.
#[derive(Debug)]
struct Alarm {
    event: Event,
    /// By which it can be cancelled; empty for none.
    label: String,
}

impl Monitors {
    /// Whether nothing is watched.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn of(&self, conn: ConnId) -> impl Iterator<Item = (u64, &Monitor)> {
        self.held.iter().filter(move |(_, held)| held.conn == conn).map(|(number, held)| (*number, held))
    }
}

impl Alarm {
    fn new(
        code: Status,
        by_default: Status,
        proc: &ProcId,
        directives: &mut Directives,
    ) -> Result<Self, Failure> {
        let code = if code == Status::SUCCESS { by_default } else { code };
        let label = directives.take(&keys::MONITOR_ID)?.unwrap_or_default();
        let range = directives.take(&keys::RANGE)?.unwrap_or(DataRange::NAMESPACE);
        let custom = directives.take_each(|info| info.is(&keys::EVENT_CUSTOM_RANGE));
        let mut event = Event::new(code, proc.clone()).with_range(range);
        event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()));
        if !label.is_empty() {
            event = event.with_info(Info::new(&keys::MONITOR_ID, label.as_str()));
        }
        if directives.take_flag(&keys::MONITOR_APP_CONTROL)? {
            // for the host (MON-03)
            event = event.with_info(Info::new(&keys::MONITOR_APP_CONTROL, true));
        }
        event = custom.into_iter().take(1).fold(event, Event::with_info);
        if range == DataRange::UNDEF || !range.is_known() {
            let message = format!("an event cannot be raised in range {range}");
            return Err(Failure::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        if range == DataRange::CUSTOM && event.custom_range().is_empty() {
            return Err(bad_param("range CUSTOM needs the processes: EVENT_CUSTOM_RANGE"));
        }
        Ok(Self { event, label })
    }
}

impl Engine {
    pub(super) fn on_monitor(&mut self, asked: Asked, wish: Wish, out: &mut Out) {
        let mut rest = wish.directives.clone();
        let what = &wish.monitor;
        let result = if what.is(&keys::SEND_HEARTBEAT) {
            self.take_beat(&asked, &mut rest)
        } else if what.is(&keys::MONITOR_HEARTBEAT) {
            self.watch_heartbeat(&asked, &wish, &mut rest)
        } else if what.is(&keys::MONITOR_CANCEL) {
            self.cancel_monitors(&asked, &wish, &mut rest)
        } else {
            Ok(Done::ByHost)
        };
        match result {
            Ok(Done::Here) => self.reply(asked.to, Ok(Reply::Info(Vec::new())), out),
            Ok(Done::ByHost) => self.have_monitored(asked, wish, out),
            Err(failure) => self.reply(asked.to, Err(failure), out),
        }
    }

    /// A heartbeat says something to the monitors here only, so that there need not be one.
    fn take_beat(&mut self, asked: &Asked, rest: &mut Directives) -> Result<Done, Failure> {
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(Done::ByHost);
        }
        for (number, held) in self.monitors.held.iter_mut().filter(|(_, held)| held.conn == asked.to.conn) {
            let timer = Timer::Monitor(*number);
            self.timers.clear(held.due, timer);
            held.due = asked.at.checked_add(held.patience);
            self.timers.set(held.due, timer);
        }
        Ok(Done::Here)
    }

    fn watch_heartbeat(
        &mut self,
        asked: &Asked,
        wish: &Wish,
        rest: &mut Directives,
    ) -> Result<Done, Failure> {
        if wish.monitor.value.is_true() == Ok(false) {
            return Err(bad_param("MONITOR_HEARTBEAT is false: MONITOR_CANCEL ends monitors"));
        }
        let alarm = Alarm::new(wish.code, Status::MONITOR_HEARTBEAT_ALERT, &asked.by.proc, rest)?;
        let interval = rest.take(&keys::MONITOR_HEARTBEAT_TIME)?.unwrap_or(0);
        let drops = rest.take(&keys::MONITOR_HEARTBEAT_DROPS)?.unwrap_or(0);
        // there are heartbeats of this node only
        rest.take_flag(&keys::MONITOR_LOCAL_ONLY)?;
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(Done::ByHost);
        }
        if interval == 0 {
            return Err(bad_param("a monitor of heartbeats needs their interval: MONITOR_HEARTBEAT_TIME"));
        }
        let patience = Duration::from_secs(u64::from(interval) * (u64::from(drops) + 1));
        self.hold_monitor(asked, alarm, patience)?;
        Ok(Done::Here)
    }

    fn hold_monitor(&mut self, asked: &Asked, alarm: Alarm, patience: Duration) -> Result<(), Failure> {
        let conn = asked.to.conn;
        if self.monitors.of(conn).count() >= MAX_MONITORS {
            let message = format!("{} has {MAX_MONITORS} monitors, which is the limit", asked.by.proc);
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let is_taken = |held: &Monitor| !alarm.label.is_empty() && held.alarm.label == alarm.label;
        if self.monitors.of(conn).any(|(_, held)| is_taken(held)) {
            let message = format!("there is a monitor {} already", alarm.label);
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let number = self.monitors.next.next();
        let due = asked.at.checked_add(patience);
        self.timers.set(due, Timer::Monitor(number));
        self.monitors.held.insert(number, Monitor { conn, alarm, patience, due });
        Ok(())
    }

    /// What has no label here may have one at the host, and all are those of the host, too.
    fn cancel_monitors(
        &mut self,
        asked: &Asked,
        wish: &Wish,
        rest: &mut Directives,
    ) -> Result<Done, Failure> {
        let label = match &wish.monitor.value {
            Value::Undef => "",
            Value::String(label) => label,
            _ => return Err(bad_param("monitors are cancelled by their label, a text: MONITOR_CANCEL")),
        };
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(Done::ByHost);
        }
        let is_meant = |held: &Monitor| label.is_empty() || held.alarm.label == label;
        let meant = self.monitors.of(asked.to.conn).filter(|(_, held)| is_meant(held));
        let meant: Vec<_> = meant.map(|(number, _)| number).collect();
        meant.iter().for_each(|number| self.end_monitor(*number));
        let has_host = self.config.capabilities.has(Upcall::Monitor);
        match (label.is_empty(), meant.is_empty()) {
            (false, false) => Ok(Done::Here),
            (true, _) if !has_host => Ok(Done::Here),
            (false, true) if !has_host => {
                Err(Failure::new(Status::ERR_NOT_FOUND, format!("there is no monitor {label}")))
            }
            _ => Ok(Done::ByHost),
        }
    }

    fn have_monitored(&mut self, asked: Asked, wish: Wish, out: &mut Out) {
        let Wish { monitor, code, mut directives, .. } = wish;
        let filled = fill_in_range(&monitor, &asked.by.proc, &mut directives).map(|()| directives);
        self.pass_up(asked, Upcall::Monitor, Form::Info, filled, out, |directives| {
            UpcallRequest::Monitor(MonitorRequest::new(monitor, code).with_directives(directives))
        });
    }

    /// A process is silent: told once, until it is heard again.
    pub(super) fn on_silence(&mut self, number: u64, out: &mut Out) {
        let Some(held) = self.monitors.held.get_mut(&number) else { return };
        held.due = None;
        let mut event = held.alarm.event.clone();
        self.resolve_range(&mut event);
        // an event of the server's own always reaches its processes
        let _ = self.on_host_event(&event, out);
        self.pass_own_event_up(event, out);
    }

    pub(super) fn end_monitors(&mut self, conn: ConnId) {
        let ended: Vec<_> = self.monitors.of(conn).map(|(number, _)| number).collect();
        ended.into_iter().for_each(|number| self.end_monitor(number));
    }

    fn end_monitor(&mut self, number: u64) {
        if let Some(held) = self.monitors.held.remove(&number) {
            self.timers.clear(held.due, Timer::Monitor(number));
        }
    }
}

/// Who does what was asked for.
#[derive(Debug)]
enum Done {
    Here,
    ByHost,
}

/// Hosts expect other defaults, so that they are always told (MON-01): alarms are for the namespace, reports for who
/// asks.
fn fill_in_range(monitor: &Info, asker: &ProcId, directives: &mut Directives) -> Result<(), Failure> {
    let reports = [
        keys::MONITOR_PROC_RESOURCE_USAGE.name(),
        keys::MONITOR_NODE_RESOURCE_USAGE.name(),
        keys::MONITOR_DISK_RESOURCE_USAGE.name(),
        keys::MONITOR_NET_RESOURCE_USAGE.name(),
    ];
    let alarms =
        [keys::MONITOR_HEARTBEAT.name(), keys::MONITOR_FILE.name(), keys::MONITOR_FILE_CHANGES.name()];
    if directives.get(&keys::RANGE)?.is_some() {
        return Ok(());
    }
    if reports.contains(&monitor.key.as_str()) {
        directives.push(Info::new(&keys::RANGE, DataRange::CUSTOM));
        directives.push(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![asker.clone()])));
    } else if alarms.contains(&monitor.key.as_str()) {
        directives.push(Info::new(&keys::RANGE, DataRange::NAMESPACE));
    }
    Ok(())
}

fn bad_param(message: &str) -> Failure {
    Failure::new(Status::ERR_BAD_PARAM, message)
}
