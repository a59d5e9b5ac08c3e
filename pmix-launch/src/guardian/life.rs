//! Signs of life of a launcher: one that is stopped, or hangs for long, gives none, and its guardian ends its processes.
//!
//! The launcher counts its signs in a file in memory, which its guardian reads, so that neither can block the other.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::time::{Instant, sleep_until};

use super::{Guardian, Shared};

/// Signs that a launcher gives within the time that it may be silent.
const SIGNS: u32 = 5;

/// How many times the limit the runtime of a launcher may hang.
const PATIENCE: u32 = 20;

/// How often the guardian looks.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// A sign of life, as it stands in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sign {
    /// Signs so far.
    count: u64,
    /// How long it may be silent, in milliseconds; 0 if for ever.
    limit: u64,
}

impl Sign {
    const BYTES: usize = 16;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.count) << 64 | u128::from(self.limit)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { count: (both >> 64) as u64, limit: both as u64 }
    }
}

/// The launcher's side.
#[derive(Debug)]
pub(super) struct Life {
    file: File,
    state: Mutex<LifeSigns>,
}

#[derive(Debug, Default)]
struct LifeSigns {
    /// Signs so far.
    count: u64,
    limit: Duration,
    is_paused: bool,
}

impl Life {
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("life", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&Sign::default().to_bytes(), 0)?;
        Ok(Self { file, state: Mutex::default() })
    }

    /// Sets how long it may be silent from now on.
    pub(super) fn promise(&self, limit: Duration) {
        self.change(|state| state.limit = limit);
    }

    /// Gives a sign, unless it has announced a pause. Returns after how long the next one is due.
    pub(super) fn give_sign(&self) -> Duration {
        self.change(|_| {}) / SIGNS
    }

    /// Announces a pause, in which it may be silent for ever, or its end.
    pub(super) fn pause(&self, is_paused: bool) {
        self.change(|state| state.is_paused = is_paused);
    }

    fn change(&self, change: impl FnOnce(&mut LifeSigns)) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let limit = if state.is_paused { Duration::ZERO } else { state.limit };
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        state.count = state.count.wrapping_add(1);
        let sign = Sign { count: state.count, limit };
        if let Err(error) = self.file.write_all_at(&sign.to_bytes(), 0) {
            tracing::warn!(%error, "cannot tell the guardian that this process lives");
        }
        state.limit
    }
}

impl AsFd for Life {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The guardian's side.
#[derive(Debug)]
pub(super) struct Watched {
    file: File,
    seen: Sign,
    /// How often it has looked since then. It does not count time in which the guardian itself was stopped.
    looks: u32,
}

impl Watched {
    pub(super) fn new(file: OwnedFd) -> Self {
        Self { file: file.into(), seen: Sign::default(), looks: 0 }
    }

    /// Whether the launcher has given no sign since the last look.
    pub(super) fn is_still_silent(&self) -> bool {
        self.read().is_none_or(|sign| sign == self.seen)
    }

    fn read(&self) -> Option<Sign> {
        let mut bytes = [0; Sign::BYTES];
        if let Err(error) = self.file.read_exact_at(&mut bytes, 0) {
            tracing::warn!(%error, "cannot see whether the launcher lives");
            return None;
        }
        Some(Sign::from_bytes(bytes))
    }

    /// Looks, which happens every [`LOOK`]. Returns the time for which the launcher was silent, if that is longer than it may be.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let sign = self.read()?;
        if sign != self.seen {
            (self.seen, self.looks) = (sign, 0);
            return None;
        }
        self.looks = self.looks.saturating_add(1);
        let silent = LOOK.saturating_mul(self.looks);
        (sign.limit > 0 && silent > Duration::from_millis(sign.limit)).then_some(silent)
    }
}

impl Guardian {
    /// Has the guardian end all processes once the launcher has given no sign of life for this long, a second at least: it is stopped,
    /// or its runtime has hung for twenty times as long. A runtime that has much to do is late, and its processes must not end for that:
    /// so a thread gives the signs, and a task of the current runtime tells the thread that it goes on. Time in which the guardian is
    /// stopped, too, does not count.
    ///
    /// # Errors
    /// The thread cannot be started.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn end_if_silent(&self, limit: Duration) -> io::Result<()> {
        let limit = limit.max(Duration::from_secs(1));
        self.shared.life.promise(limit);
        let due = limit / SIGNS;
        let (goes_on, lives) = mpsc::channel();
        let shared = Arc::downgrade(&self.shared);
        let signs = std::thread::Builder::new().name("signs of life".into()).spawn(move || {
            give_signs(&shared, &lives, limit);
        });
        tokio::spawn(async move {
            while goes_on.send(()).is_ok() {
                sleep_until(Instant::now() + due).await;
            }
        });
        signs.map(drop)
    }

    /// Announces that the launcher is about to stop itself, which [`end_if_silent`](Self::end_if_silent) does not count, or that it
    /// goes on.
    pub fn pause(&self, is_paused: bool) {
        self.shared.life.pause(is_paused);
    }
}

/// Gives signs of life until the launcher is gone, or its runtime has not gone on for too long.
fn give_signs(shared: &Weak<Shared>, runtime: &mpsc::Receiver<()>, limit: Duration) {
    let (due, mut missed) = (limit / SIGNS, 0);
    while let Some(shared) = shared.upgrade().filter(|shared| !shared.lock().is_dismissed) {
        if missed < SIGNS * PATIENCE {
            shared.life.give_sign();
        }
        drop(shared);
        missed = match runtime.recv_timeout(due) {
            Ok(()) => 0,
            Err(mpsc::RecvTimeoutError::Timeout) => missed + 1,
            // it has ended, and the launcher with it
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn watched() -> (Life, Watched) {
        let life = Life::new().unwrap();
        let watched = Watched::new(life.as_fd().try_clone_to_owned().unwrap());
        (life, watched)
    }

    /// Looks until the time is over; how long the launcher was silent then.
    fn watch(watched: &mut Watched, time: Duration) -> Option<Duration> {
        (0..time.div_duration_f64(LOOK) as u32).find_map(|_| watched.look())
    }

    #[test]
    fn a_launcher_that_gives_no_sign_for_longer_than_it_may_is_silent() {
        let (life, mut watched) = watched();
        assert_eq!(watch(&mut watched, 10 * LIMIT), None, "it has promised nothing");
        life.promise(LIMIT);
        for _ in 0..3 {
            assert_eq!(watch(&mut watched, LIMIT), None);
            assert_eq!(life.give_sign(), LIMIT / SIGNS);
        }
        assert_eq!(watch(&mut watched, 2 * LIMIT), Some(LIMIT + LOOK));
    }

    #[test]
    fn a_launcher_that_has_announced_a_pause_may_be_silent_until_its_end() {
        let (life, mut watched) = watched();
        life.promise(LIMIT);
        life.pause(true);
        // a sign that was due at that moment does not end the pause
        life.give_sign();
        assert_eq!(watch(&mut watched, 100 * LIMIT), None);
        life.pause(false);
        assert_eq!(watch(&mut watched, 2 * LIMIT), Some(LIMIT + LOOK));
    }
}
