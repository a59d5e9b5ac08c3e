//! Whether a file changes, which a process writes or reads as long as it works. Somebody else looks at it; here is what
//! that means.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Monitor as Wish};
use pmix_types::{Directives, Info, Key, Status, Value, keys};

use super::super::timers::{Timer, deadline};
use super::super::upcall::Upcall;
use super::super::{Answer, Asked, Command, Engine, UpcallId, UpcallPurpose};
use super::{Alarm, By, Kind, bad_param};

/// What a file looks like from outside. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// In bytes.
    pub size: u64,
    /// When it was read last.
    pub accessed: (i64, i64),
    /// When it was written last.
    pub modified: (i64, i64),
}

/// A file that is looked at again and again.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    interval: Duration,
    signs: Signs,
    /// Checks that may fail one after the other.
    drops: u32,
    failed: u32,
    /// Nobody has seen it yet.
    is_new: bool,
    /// As it was seen last; `None` if it was never there.
    last: Option<FileState>,
    /// A look that is under way.
    look: Option<UpcallId>,
}

impl File {
    pub(super) fn memory(&self) -> usize {
        self.path.capacity()
    }
}

/// What has to change.
#[derive(Clone, Copy, Debug)]
struct Signs {
    size: bool,
    access: bool,
    modification: bool,
}

impl Signs {
    fn take(directives: &mut Directives) -> Result<Self, Failure> {
        Ok(Self {
            size: directives.take_flag(&keys::MONITOR_FILE_SIZE)?,
            access: take_flag_or_text(directives, &keys::MONITOR_FILE_ACCESS),
            modification: take_flag_or_text(directives, &keys::MONITOR_FILE_MODIFY),
        })
    }

    const fn is_empty(self) -> bool {
        !(self.size || self.access || self.modification)
    }

    fn are_seen(self, before: &FileState, now: &FileState) -> bool {
        (!self.size || now.size > before.size)
            && (!self.access || now.accessed != before.accessed)
            && (!self.modification || now.modified != before.modified)
    }
}

/// The headers have a text where the Standard has a flag: it is there or not.
fn take_flag_or_text(directives: &mut Directives, key: &Key<String>) -> bool {
    let given = directives.take_each(|info| info.is(key));
    given.first().is_some_and(|info| info.value.is_true().unwrap_or(true))
}

impl File {
    /// Whether this look is one too many without a sign of life. It is told once, until there is one.
    fn judge(&mut self, now: Option<FileState>) -> bool {
        let before = self.last;
        self.last = now.or(before);
        if std::mem::take(&mut self.is_new) {
            return false;
        }
        let is_alive = match (before, now) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => self.signs.are_seen(&before, &now),
        };
        if is_alive {
            self.failed = 0;
        }
        !is_alive && self.fail()
    }

    fn fail(&mut self) -> bool {
        self.failed = self.failed.saturating_add(1);
        self.failed == self.drops.saturating_add(1)
    }
}

impl Engine {
    pub(super) fn watch_file(
        &mut self,
        asked: &Asked,
        wish: &Wish,
        rest: &mut Directives,
    ) -> Result<By, Failure> {
        let path = match &wish.monitor.value {
            Value::String(path) => Path::new(path),
            // several files have the same key
            Value::DataArray(_) => return Ok(By::Host),
            _ => return Err(bad_param("a monitor of a file needs its path: MONITOR_FILE")),
        };
        let mut alarm = Alarm::new(wish.code, Status::MONITOR_FILE_ALERT, &asked.by.proc, rest)?;
        alarm.event.info.push(Info::new(&keys::MONITOR_FILE, path.to_string_lossy()));
        let signs = Signs::take(rest)?;
        let interval = rest.take(&keys::MONITOR_FILE_CHECK_TIME)?.unwrap_or(0);
        let drops = rest.take(&keys::MONITOR_FILE_DROPS)?.unwrap_or(0);
        deadline(asked.at, rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(By::Host);
        }
        if !path.is_absolute() || interval == 0 || signs.is_empty() {
            let message = "a monitor of a file needs an absolute path, MONITOR_FILE_CHECK_TIME, and at least one of \
                           MONITOR_FILE_SIZE, _ACCESS and _MODIFY";
            return Err(bad_param(message));
        }
        if asked.by.uid != self.cx.config.uid {
            // the server must not see for a process what its user cannot see
            return if self.cx.config.capabilities.has(Upcall::Monitor) {
                Ok(By::Host)
            } else {
                let message = "the server looks at files for processes of its own user only";
                Err(Failure::new(Status::ERR_NO_PERMISSIONS, message))
            };
        }
        let interval = Duration::from_secs(interval.into());
        let path = path.to_owned();
        let file = File { path, interval, signs, drops, failed: 0, is_new: true, last: None, look: None };
        let number = self.hold_monitor(asked, alarm, Kind::File(file), interval)?;
        self.look_at_file(number);
        Ok(By::Server)
    }

    /// It is time for the next look. One that is still under way sees nothing either.
    pub(super) fn on_check_due(&mut self, now: Instant, number: u64) {
        let Some(held) = self.monitors.held.get_mut(&number) else { return };
        let Kind::File(file) = &mut held.kind else { return };
        held.due = now.checked_add(file.interval);
        self.cx.timers.set(held.due, Timer::Monitor(number));
        if file.look.is_none() {
            self.look_at_file(number);
        } else if file.fail() {
            self.raise_alarm(number);
        }
    }

    fn look_at_file(&mut self, number: u64) {
        let Some(held) = self.monitors.held.get_mut(&number) else { return };
        let Kind::File(file) = &mut held.kind else { return };
        let id = self.cx.number_upcall(UpcallPurpose::Look(number));
        file.look = Some(id);
        self.cx.out.push(Command::Look { id, path: file.path.clone() });
    }

    pub(crate) fn on_looked(&mut self, number: u64, result: Result<Answer, Failure>) {
        let Some(held) = self.monitors.held.get_mut(&number) else { return };
        let Kind::File(file) = &mut held.kind else { return };
        file.look = None;
        let seen = match result {
            Ok(Answer::File(state)) => state,
            _ => None,
        };
        if file.judge(seen) {
            self.raise_alarm(number);
        }
    }

    /// Nobody wants to know any more.
    pub(super) fn stop_looking(&mut self, file: &File) {
        if let Some(id) = file.look {
            self.cancel_upcall(id);
        }
    }
}
