//! How the tests of this family wait: for the event itself, never for a time.
//!
//! Everything here gives up after [`LIMIT`], which is long enough for any machine at any load: it only ends a hang. No
//! other test code reads a clock; a test that is about time itself runs on a paused one and reads a [`PausedClock`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use pmix_test_wait::until;
//!
//! let mut lines = ["starting", "ready"].into_iter();
//! let line = until("the server is ready", || lines.next().filter(|line| *line == "ready")).await;
//! assert_eq!(line, "ready");
//! # });
//! ```

#![allow(clippy::disallowed_methods, reason = "this is the one place that sleeps and reads the clock")]

mod alone;
mod signals;
mod still;

use std::fmt::{Debug, Display};
use std::panic::Location;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

pub use alone::{is_alone, is_alone_with};
pub use signals::{default_signals, is_stopped};
pub use still::StillClock;

/// The time after which a wait gives up.
pub const LIMIT: Duration = Duration::from_secs(120);
/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(10);

/// What a look returns: what it was waiting for, or what it saw instead.
pub trait Look {
    /// What the wait returns.
    type Found;

    /// Splits it into the two.
    ///
    /// # Errors
    /// What was seen instead.
    fn found(self) -> Result<Self::Found, String>;
}

/// `true` ends the wait.
impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "not so".to_owned())
    }
}

/// `Some` ends the wait.
impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

/// `Ok` ends the wait; the last `Err` is printed if the wait gives up.
impl<T, E: Debug> Look for Result<T, E> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:#?}"))
    }
}

/// Looks every 10 ms until the look finds what it is for, and returns that.
///
/// # Panics
/// After [`LIMIT`], with `what` and the last thing seen.
#[track_caller]
pub fn until<L: Look>(what: impl Display, mut look: impl FnMut() -> L) -> impl Future<Output = L::Found> {
    until_async(what, async move || look())
}

/// [`until`], for a look that awaits.
///
/// # Panics
/// After [`LIMIT`], with `what` and the last thing seen; also if one look takes longer than that.
#[track_caller]
pub fn until_async<L: Look>(
    what: impl Display,
    mut look: impl AsyncFnMut() -> L,
) -> impl Future<Output = L::Found> {
    let caller = Location::caller();
    async move {
        let wait = Wait::start(what, caller);
        loop {
            let Ok(seen) = tokio::time::timeout(LIMIT, look()).await else {
                wait.give_up("one look takes for ever");
            };
            match seen.found() {
                Ok(found) => return found,
                Err(seen) => wait.go_on(&seen),
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// [`until`], for tests without a runtime: blocks the thread.
///
/// # Panics
/// After [`LIMIT`], with `what` and the last thing seen.
#[track_caller]
pub fn block_until<L: Look>(what: impl Display, mut look: impl FnMut() -> L) -> L::Found {
    let wait = Wait::start(what, Location::caller());
    loop {
        match look().found() {
            Ok(found) => return found,
            Err(seen) => wait.go_on(&seen),
        }
        thread::sleep(EVERY);
    }
}

/// Awaits a future that must complete.
///
/// # Panics
/// If it has not completed after [`LIMIT`].
#[track_caller]
pub fn within<F: IntoFuture>(future: F) -> impl Future<Output = F::Output> {
    let caller = Location::caller();
    async move {
        match tokio::time::timeout(LIMIT, future.into_future()).await {
            Ok(output) => output,
            Err(_) => panic!("{caller}: nothing happened within {LIMIT:?}"),
        }
    }
}

/// Lets the other tasks of a current-thread runtime run once, so that one that was just spawned has begun.
pub async fn turn() {
    tokio::task::yield_now().await;
}

/// One wait, from its start.
struct Wait<W> {
    what: W,
    caller: &'static Location<'static>,
    began: Instant,
}

impl<W: Display> Wait<W> {
    fn start(what: W, caller: &'static Location<'static>) -> Self {
        Self { what, caller, began: Instant::now() }
    }

    /// Panics if it has taken too long.
    fn go_on(&self, seen: &str) {
        if self.began.elapsed() > LIMIT {
            self.give_up(seen);
        }
    }

    fn give_up(&self, seen: &str) -> ! {
        panic!("{}: waited {LIMIT:?} for this: {}. Last seen: {seen}", self.caller, self.what)
    }
}

/// A moment, for code that is given the time: the tests of such code let it pass by adding to it.
pub fn moment() -> Instant {
    Instant::now()
}

/// The time that passes on a paused runtime, where only waiting takes any, the same on every machine.
#[derive(Clone, Copy, Debug)]
pub struct PausedClock(tokio::time::Instant);

impl PausedClock {
    /// Starts to count.
    ///
    /// # Panics
    /// If the runtime's time is not paused (`start_paused = true`): what would be counted depended on the machine.
    pub fn start() -> Self {
        // panics if it is not paused; to resume and pause it again would leave it between two ticks
        let check = pin!(tokio::time::advance(Duration::ZERO));
        let _ = check.poll(&mut Context::from_waker(Waker::noop()));
        Self(tokio::time::Instant::now())
    }

    /// The time since the start.
    pub fn passed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_returns_what_it_finds() {
        let mut count = 0;
        let found = until("the third look", || {
            count += 1;
            (count == 3).then_some(count)
        });
        assert_eq!(found.await, 3);
        assert_eq!(until_async("a value", async || Ok::<_, ()>(7)).await, 7);
        block_until("the truth", || true);
    }

    #[test]
    fn a_wait_that_gives_up_says_what_it_waited_for_and_what_it_saw_last() {
        let long_ago = Instant::now().checked_sub(LIMIT).unwrap();
        let wait = Wait { what: "rank 3 ends", caller: Location::caller(), began: long_ago };
        let panic = std::panic::catch_unwind(|| wait.go_on("rank 3 runs")).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.ends_with("waited 120s for this: rank 3 ends. Last seen: rank 3 runs"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_counts_waiting_alone() {
        let clock = PausedClock::start();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.passed(), Duration::from_secs(3600));
    }

    #[tokio::test]
    #[should_panic(expected = "not frozen")]
    async fn a_clock_that_runs_is_no_paused_one() {
        PausedClock::start();
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "nothing happened within 120s")]
    async fn a_future_that_never_completes_ends_the_test() {
        within(std::future::pending::<()>()).await;
    }
}
