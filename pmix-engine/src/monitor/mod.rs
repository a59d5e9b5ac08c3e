//! Monitors that the server runs itself (HST-09): of heartbeats, and of files of its own user. The host runs all others.

mod alarm;
mod file;
mod heartbeat;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::message::{self, Failure, Reply};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use super::context::{Context, Owner};
use super::ids::Counter;
use super::timers::{Timer, deadline};
use super::upcall::Upcall;
use super::{Answer, Asked, Caller, Command, ConnId, UpcallRequest};
use alarm::{Alarm, bad_param};
use file::File;

/// Monitors that one connection may hold.
const MAX_MONITORS: usize = 64;
/// Size limit for a monitor with the event that it raises, in bytes.
const MAX_MONITOR: usize = 64 << 10;

/// By number.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    held: BTreeMap<u64, Monitor>,
    next: Counter,
}

/// Notices when a process falls silent. Clones of a process (IDN-07) may hang one by one, so each connection is monitored
/// by itself.
#[derive(Debug)]
struct Monitor {
    conn: ConnId,
    alarm: Alarm,
    kind: MonitorKind,
    /// The next look at a file, or the time after which heartbeats are missing; `None` once that has raised the alarm,
    /// until the next heartbeat.
    due: Option<Instant>,
}

/// An event that a monitor raises, with the process that asked for it.
pub(super) type Raised = (Caller, Event);

/// What a monitor looks at.
#[derive(Debug)]
enum MonitorKind {
    Heartbeat {
        /// The longest time without one.
        patience: Duration,
    },
    File(File),
}

impl MonitorKind {
    /// How long until something is due for the first time.
    const fn first(&self) -> Duration {
        match self {
            Self::Heartbeat { patience } => *patience,
            Self::File(file) => file.interval,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Heartbeat { .. } => 0,
            Self::File(file) => file.memory(),
        }
    }
}

impl Monitors {
    /// Whether there are no monitors.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn of(&self, conn: ConnId) -> impl Iterator<Item = (u64, &Monitor)> {
        self.held.iter().filter(move |(_, held)| held.conn == conn).map(|(number, held)| (*number, held))
    }

    /// Serves a request, or returns what the host is to be asked instead; `None` if the process has its reply.
    pub(super) fn on_request(
        &mut self,
        asked: &Asked,
        request: message::Monitor,
        cx: &mut Context,
    ) -> Option<Result<UpcallRequest, Failure>> {
        let what = &request.monitor;
        let result = if what.is(&keys::SEND_HEARTBEAT) {
            self.take_beat(asked, &request, cx)
        } else if what.is(&keys::MONITOR_HEARTBEAT) {
            self.watch_heartbeat(asked, &request, cx)
        } else if what.is(&keys::MONITOR_FILE) {
            self.watch_file(asked, &request, cx)
        } else if what.is(&keys::MONITOR_CANCEL) {
            self.cancel(asked, &request, cx)
        } else {
            Ok(By::Host)
        };
        let result = match result {
            Ok(By::Host) => return Some(for_host(request, &asked.by.proc)),
            Ok(By::Server) => Ok(Reply::Info(Vec::new())),
            Err(failure) => Err(failure),
        };
        cx.reply(asked.to, result);
        None
    }

    fn watch_heartbeat(
        &mut self,
        asked: &Asked,
        request: &message::Monitor,
        cx: &mut Context,
    ) -> Result<By, Failure> {
        let Some((alarm, patience)) = heartbeat::read(asked, request)? else { return Ok(By::Host) };
        self.hold(asked, alarm, MonitorKind::Heartbeat { patience }, cx)?;
        Ok(By::Server)
    }

    fn watch_file(
        &mut self,
        asked: &Asked,
        request: &message::Monitor,
        cx: &mut Context,
    ) -> Result<By, Failure> {
        let Some((alarm, file)) = File::read(asked, request, cx)? else { return Ok(By::Host) };
        let number = self.hold(asked, alarm, MonitorKind::File(file), cx)?;
        self.look(number, cx);
        Ok(By::Server)
    }

    /// Starts a monitor and returns its number.
    fn hold(
        &mut self,
        asked: &Asked,
        alarm: Alarm,
        kind: MonitorKind,
        cx: &mut Context,
    ) -> Result<u64, Failure> {
        let conn = asked.to.conn;
        let bytes = alarm.memory() + kind.memory();
        if bytes > MAX_MONITOR {
            let message = format!("the monitor takes {bytes} bytes, the limit is {MAX_MONITOR}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        if self.of(conn).count() >= MAX_MONITORS {
            let message = format!("{} has {MAX_MONITORS} monitors, which is the limit", asked.by.proc);
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let is_taken = |held: &Monitor| !alarm.label.is_empty() && held.alarm.label == alarm.label;
        if self.of(conn).any(|(_, held)| is_taken(held)) {
            let message = format!("monitor {} exists already", alarm.label);
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let number = self.next.next();
        let due = asked.at.checked_add(kind.first());
        cx.timers.set(due, Timer::Monitor(number));
        self.held.insert(number, Monitor { conn, alarm, kind, due });
        Ok(number)
    }

    /// A heartbeat counts for the monitors of its own connection; there need not be any.
    fn take_beat(
        &mut self,
        asked: &Asked,
        request: &message::Monitor,
        cx: &mut Context,
    ) -> Result<By, Failure> {
        let mut rest = request.directives.clone();
        deadline(asked.at, &mut rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        for (number, held) in self.held.iter_mut().filter(|(_, held)| held.conn == asked.to.conn) {
            let MonitorKind::Heartbeat { patience } = held.kind else { continue };
            let timer = Timer::Monitor(*number);
            cx.timers.clear(held.due, timer);
            held.due = asked.at.checked_add(patience);
            cx.timers.set(held.due, timer);
        }
        Ok(By::Server)
    }

    /// The host is asked, too, if the label is not known here, as it may be one of its own, and if all monitors are to end.
    fn cancel(&mut self, asked: &Asked, request: &message::Monitor, cx: &mut Context) -> Result<By, Failure> {
        let mut rest = request.directives.clone();
        let label = match &request.monitor.value {
            Value::Undef | Value::NullString => "",
            Value::String(label) => label,
            _ => return Err(bad_param("MONITOR_CANCEL requires the label of a monitor, a string")),
        };
        deadline(asked.at, &mut rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        let is_meant = |held: &Monitor| label.is_empty() || held.alarm.label == label;
        let meant = self.of(asked.to.conn).filter(|(_, held)| is_meant(held));
        let meant: Vec<_> = meant.map(|(number, _)| number).collect();
        meant.iter().for_each(|number| self.end(*number, cx));
        let has_host = cx.config.capabilities.has(Upcall::Monitor);
        match (label.is_empty(), meant.is_empty()) {
            (false, false) => Ok(By::Server),
            (true, _) if !has_host => Ok(By::Server),
            (false, true) if !has_host => {
                Err(Failure::new(Status::ERR_NOT_FOUND, format!("there is no monitor {label}")))
            }
            _ => Ok(By::Host),
        }
    }

    /// It is time for the next look, or a heartbeat is missing.
    pub(super) fn on_due(&mut self, now: Instant, number: u64, cx: &mut Context) -> Option<Raised> {
        let held = self.held.get_mut(&number)?;
        let is_alarm = match &mut held.kind {
            MonitorKind::Heartbeat { .. } => {
                held.due = None;
                true
            }
            MonitorKind::File(file) => {
                held.due = now.checked_add(file.interval);
                cx.timers.set(held.due, Timer::Monitor(number));
                // a look that is still under way counts as a failed check
                file.look.is_some() && file.fail()
            }
        };
        if is_alarm {
            return self.raise(number, cx);
        }
        self.look(number, cx);
        None
    }

    /// Has the driver look at a file, unless it is looking already.
    fn look(&mut self, number: u64, cx: &mut Context) {
        let Some(Monitor { kind: MonitorKind::File(file), .. }) = self.held.get_mut(&number) else { return };
        if file.look.is_none() {
            let id = cx.number_upcall(Owner::Look(number));
            file.look = Some(id);
            cx.out.push(Command::Look { id, path: file.path.clone() });
        }
    }

    /// The driver has looked at a file.
    pub(super) fn on_looked(
        &mut self,
        number: u64,
        result: Result<Answer, Failure>,
        cx: &Context,
    ) -> Option<Raised> {
        let MonitorKind::File(file) = &mut self.held.get_mut(&number)?.kind else { return None };
        file.look = None;
        let seen = match result {
            Ok(Answer::File(state)) => state,
            _ => None,
        };
        if file.judge(seen) { self.raise(number, cx) } else { None }
    }

    fn raise(&self, number: u64, cx: &Context) -> Option<Raised> {
        let held = self.held.get(&number)?;
        Some((cx.caller(held.conn)?, held.alarm.event.clone()))
    }

    /// A connection finalizes or is gone.
    pub(super) fn conn_gone(&mut self, conn: ConnId, cx: &mut Context) {
        let ended: Vec<_> = self.of(conn).map(|(number, _)| number).collect();
        ended.into_iter().for_each(|number| self.end(number, cx));
    }

    fn end(&mut self, number: u64, cx: &mut Context) {
        let Some(held) = self.held.remove(&number) else { return };
        cx.timers.clear(held.due, Timer::Monitor(number));
        if let MonitorKind::File(File { look: Some(look), .. }) = held.kind {
            cx.cancel_upcall(look);
        }
    }
}

/// Who serves a request.
#[derive(Debug)]
enum By {
    Server,
    Host,
}

/// The request as it goes to the host.
fn for_host(mut request: message::Monitor, asker: &ProcId) -> Result<UpcallRequest, Failure> {
    fill_in_range(&request.monitor, asker, &mut request.directives)?;
    Ok(UpcallRequest::Monitor(request))
}

/// Hosts assume other defaults, so the range is always given (MON-01): alarms go to the namespace, reports to the
/// requester.
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
