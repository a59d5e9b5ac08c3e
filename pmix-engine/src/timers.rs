use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pmix_types::message::Failure;
use pmix_types::{Directives, Status, keys};

use super::UpcallId;

/// What a deadline belongs to. The order makes simultaneous timeouts deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Get(u64),
    Round(u64),
    /// An invitation to a group, or a process that has accepted one and waits.
    Invitation(u64),
    Upcall(UpcallId),
    /// A process that finalizes and waits for the host.
    Finalize(UpcallId),
    /// A process that waits for the leaders of a group.
    Bootstrap(UpcallId),
    /// Output that is collected for a subscription.
    Output(u64),
    /// A monitor of a process that may fall silent.
    Monitor(u64),
}

/// Deadlines in order of time.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(super) fn set(&mut self, deadline: Option<Instant>, timer: Timer) {
        self.0.extend(deadline.map(|at| (at, timer)));
    }

    pub(super) fn clear(&mut self, deadline: Option<Instant>, timer: Timer) {
        if let Some(at) = deadline {
            self.0.remove(&(at, timer));
        }
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some(timer)
    }
}

/// When the operation times out, by its `TIMEOUT` in whole seconds; never if that is 0 or absent (GEN-12).
pub(super) fn deadline(now: Instant, directives: &mut Directives) -> Result<Option<Instant>, Failure> {
    match directives.take(&keys::TIMEOUT)? {
        None | Some(0) => Ok(None),
        Some(seconds) => match u64::try_from(seconds) {
            Ok(seconds) => Ok(now.checked_add(Duration::from_secs(seconds))),
            Err(_) => {
                Err(Failure::new(Status::ERR_BAD_PARAM, format!("timeout of {seconds} seconds is negative")))
            }
        },
    }
}
