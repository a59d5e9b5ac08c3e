//! Monitors of files: a process that works changes or reads its file. The driver looks at the file, and the engine
//! judges what it saw.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_types::message::{Failure, Monitor};
use pmix_types::{Directives, Info, Key, Status, Value, keys};

use super::alarm::{Alarm, bad_param};
use crate::context::Context;
use crate::timers::deadline;
use crate::upcall::{FileState, Upcall};
use crate::{Asked, UpcallId};

/// A file that is checked at intervals.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Time between two checks.
    pub(super) interval: Duration,
    signs: Signs,
    /// Checks that may fail in succession.
    drops: u32,
    /// Checks that have failed since the last sign of life.
    failed: u32,
    /// The driver has not looked yet.
    is_new: bool,
    /// Its last known state; `None` if it has never existed.
    last: Option<FileState>,
    /// A look that is under way.
    pub(super) look: Option<UpcallId>,
}

/// What has to change from one check to the next.
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

/// These are flags in the Standard and strings in the C headers: what counts is whether they are given.
fn take_flag_or_text(directives: &mut Directives, key: &Key<String>) -> bool {
    let given = directives.take_each(|info| info.is(key));
    given.first().is_some_and(|info| info.value.is_true().unwrap_or(true))
}

impl File {
    /// The alarm and the file; `None` if only the host can do all that is asked for.
    pub(super) fn read(
        asked: &Asked,
        request: &Monitor,
        cx: &Context,
    ) -> Result<Option<(Alarm, Self)>, Failure> {
        let mut rest = request.directives.clone();
        let path = match &request.monitor.value {
            Value::String(path) => Path::new(path),
            // an array of several files is given under the same key
            Value::DataArray(_) => return Ok(None),
            _ => return Err(bad_param("a monitor of a file requires its path: MONITOR_FILE")),
        };
        let mut alarm = Alarm::take(request.code, Status::MONITOR_FILE_ALERT, &asked.by.proc, &mut rest)?;
        alarm.event.info.push(Info::new(&keys::MONITOR_FILE, path.to_string_lossy()));
        let signs = Signs::take(&mut rest)?;
        let interval = rest.take(&keys::MONITOR_FILE_CHECK_TIME)?.unwrap_or(0);
        let drops = rest.take(&keys::MONITOR_FILE_DROPS)?.unwrap_or(0);
        deadline(asked.at, &mut rest)?;
        if rest.deny_unprocessed().is_err() {
            return Ok(None);
        }
        if !path.is_absolute() || interval == 0 || signs.is_empty() {
            let message = "a monitor of a file needs an absolute path, MONITOR_FILE_CHECK_TIME, and at least one of \
                           MONITOR_FILE_SIZE, _ACCESS and _MODIFY";
            return Err(bad_param(message));
        }
        if asked.by.uid != cx.config.uid {
            // the server must not look at files for a process that its user cannot see
            return if cx.config.capabilities.has(Upcall::Monitor) {
                Ok(None)
            } else {
                let message = "the server looks at files for processes of its own user only";
                Err(Failure::new(Status::ERR_NO_PERMISSIONS, message))
            };
        }
        let (path, interval) = (path.to_owned(), Duration::from_secs(interval.into()));
        let file = Self { path, interval, signs, drops, failed: 0, is_new: true, last: None, look: None };
        Ok(Some((alarm, file)))
    }

    pub(super) fn memory(&self) -> usize {
        self.path.capacity()
    }

    /// Takes what a look has seen; returns whether it is one too many without a sign of life. That is reported once, until
    /// there is one again.
    pub(super) fn judge(&mut self, now: Option<FileState>) -> bool {
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

    /// Counts a check that has seen nothing; returns whether it is one too many.
    pub(super) fn fail(&mut self) -> bool {
        self.failed = self.failed.saturating_add(1);
        self.failed == self.drops.saturating_add(1)
    }
}
