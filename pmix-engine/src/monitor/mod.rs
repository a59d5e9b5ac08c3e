//! Monitors that the server keeps itself (HST-09): of heartbeats, and of files of its own user. What else is to be
//! monitored is the host's.

mod file;
mod heartbeat;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Monitor as Wish, Reply};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Memory, ProcId, Status, Value, keys};

use super::forward::Form;
use super::ids::Counter;
use super::timers::{Timer, deadline};
use super::upcall::Upcall;
use super::{Asked, ConnId, Engine, UpcallRequest};
use file::File;
pub use file::FileState;

/// Monitors that one connection may hold.
const MAX_MONITORS: usize = 64;
/// What a monitor with the event that it raises may take.
const MAX_MONITOR: usize = 64 << 10;

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
    alarm: Alarm,
    kind: Kind,
    /// When a file is looked at next, or the process has sent no heartbeat for too long; `None` after it has been told so,
    /// until one comes.
    due: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Heartbeat {
        /// How long there may be none.
        patience: Duration,
    },
    File(File),
}

impl Kind {
    fn memory(&self) -> usize {
        match self {
            Self::Heartbeat { .. } => 0,
            Self::File(file) => file.memory(),
        }
    }
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
        // there are heartbeats and files of this node only
        directives.take_flag(&keys::MONITOR_LOCAL_ONLY)?;
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
    pub(super) fn on_monitor(&mut self, asked: Asked, wish: Wish) {
        let mut rest = wish.directives.clone();
        let what = &wish.monitor;
        let result = if what.is(&keys::SEND_HEARTBEAT) {
            self.take_beat(&asked, &mut rest)
        } else if what.is(&keys::MONITOR_HEARTBEAT) {
            self.watch_heartbeat(&asked, &wish, &mut rest)
        } else if what.is(&keys::MONITOR_FILE) {
            self.watch_file(&asked, &wish, &mut rest)
        } else if what.is(&keys::MONITOR_CANCEL) {
            self.cancel_monitors(&asked, &wish, &mut rest)
        } else {
            Ok(By::Host)
        };
        match result {
            Ok(By::Server) => self.cx.reply(asked.to, Ok(Reply::Info(Vec::new()))),
            Ok(By::Host) => self.have_monitored(asked, wish),
            Err(failure) => self.cx.reply(asked.to, Err(failure)),
        }
    }

    /// Its number. `first` is the time until something is due.
    fn hold_monitor(
        &mut self,
        asked: &Asked,
        alarm: Alarm,
        kind: Kind,
        first: Duration,
    ) -> Result<u64, Failure> {
        let conn = asked.to.conn;
        let bytes = alarm.event.memory() + alarm.label.memory() + kind.memory();
        if bytes > MAX_MONITOR {
            let message = format!("a monitor of {bytes} bytes, the limit is {MAX_MONITOR}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
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
        let due = asked.at.checked_add(first);
        self.cx.timers.set(due, Timer::Monitor(number));
        self.monitors.held.insert(number, Monitor { conn, alarm, kind, due });
        Ok(number)
    }

    /// What has no label here may have one at the host, and all are those of the host, too.
    fn cancel_monitors(&mut self, asked: &Asked, wish: &Wish, rest: &mut Directives) -> Result<By, Failure> {
        let label = match &wish.monitor.value {
            Value::Undef | Value::NullString => "",
            Value::String(label) => label,
            _ => return Err(bad_param("monitors are cancelled by their label, a text: MONITOR_CANCEL")),
        };
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        let is_meant = |held: &Monitor| label.is_empty() || held.alarm.label == label;
        let meant = self.monitors.of(asked.to.conn).filter(|(_, held)| is_meant(held));
        let meant: Vec<_> = meant.map(|(number, _)| number).collect();
        meant.iter().for_each(|number| self.end_monitor(*number));
        let has_host = self.cx.config.capabilities.has(Upcall::Monitor);
        match (label.is_empty(), meant.is_empty()) {
            (false, false) => Ok(By::Server),
            (true, _) if !has_host => Ok(By::Server),
            (false, true) if !has_host => {
                Err(Failure::new(Status::ERR_NOT_FOUND, format!("there is no monitor {label}")))
            }
            _ => Ok(By::Host),
        }
    }

    fn have_monitored(&mut self, asked: Asked, mut wish: Wish) {
        let filled = fill_in_range(&wish.monitor, &asked.by.proc, &mut wish.directives);
        self.pass_up(asked, filled.map(|()| UpcallRequest::Monitor(wish)), Form::Info);
    }

    pub(super) fn on_monitor_due(&mut self, now: Instant, number: u64) {
        let Some(held) = self.monitors.held.get_mut(&number) else { return };
        match held.kind {
            Kind::Heartbeat { .. } => {
                held.due = None;
                self.raise_alarm(number);
            }
            Kind::File(_) => self.on_check_due(now, number),
        }
    }

    fn raise_alarm(&mut self, number: u64) {
        let Some(held) = self.monitors.held.get(&number) else { return };
        let Some(watched) = self.cx.caller(held.conn) else { return };
        let mut event = held.alarm.event.clone();
        self.resolve_range(&mut event);
        // it says what its process has asked for
        let _ = self.tell_all(&event, &self.cx.voice_of(watched.uid, &watched.proc));
        self.pass_alarm_up(watched, event);
    }

    pub(super) fn end_monitors(&mut self, conn: ConnId) {
        let ended: Vec<_> = self.monitors.of(conn).map(|(number, _)| number).collect();
        ended.into_iter().for_each(|number| self.end_monitor(number));
    }

    fn end_monitor(&mut self, number: u64) {
        let Some(held) = self.monitors.held.remove(&number) else { return };
        self.cx.timers.clear(held.due, Timer::Monitor(number));
        if let Kind::File(file) = held.kind {
            self.stop_looking(&file);
        }
    }
}

/// Who does what was asked for.
#[derive(Debug)]
enum By {
    Server,
    Host,
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
