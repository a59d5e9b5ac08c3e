//! A clock that stands still.

use std::fmt::Display;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::watch;

use crate::{EVERY, LIMIT, moment};

/// How exactly tokio's timers count.
const EXACT: Duration = Duration::from_millis(1);

/// Virtual time that passes only when the test says so, while sockets and processes do what they do.
///
/// As long as it is there, no timer of the test's runtime fires by itself: what happens is not the work of one. A paused
/// clock alone is not enough where the system takes part: tokio lets its time pass as soon as all tasks wait, although the
/// system may still be busy with what they wait for. It does not advance it while a blocking task runs. [`until`](crate::until)
/// would look only once: use the methods.
#[derive(Debug)]
pub struct StillClock {
    /// The real time since the start, at the last tick.
    ticks: watch::Receiver<Duration>,
    /// Ends the thread that ticks.
    _end: Sender<()>,
}

impl StillClock {
    /// Has time stand still until this is dropped.
    ///
    /// # Panics
    /// Outside of a runtime with one thread whose clock runs.
    pub fn start() -> Self {
        let (tick, ticks) = watch::channel(Duration::ZERO);
        let (end, ended) = channel();
        let began = moment();
        tokio::task::spawn_blocking(move || {
            // later, time passes by itself, which ends a test that hangs
            while moment() - began < 2 * LIMIT && ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout)
            {
                tick.send_replace(moment() - began);
            }
        });
        tokio::time::pause();
        Self { ticks, _end: end }
    }

    /// Lets so much time pass at once, and a millisecond more, after what is due by now.
    pub async fn pass(&self, time: Duration) {
        tokio::task::yield_now().await;
        tokio::time::advance(time + EXACT).await;
    }

    /// Waits until this is so, while no time passes.
    ///
    /// # Panics
    /// After [`LIMIT`] of real time.
    pub async fn until(&self, what: impl Display, is_so: impl Fn() -> bool) {
        self.look(what, None, is_so).await;
    }

    /// Waits until this is so, and lets so much time pass after each look.
    ///
    /// # Panics
    /// After [`LIMIT`] of real time.
    pub async fn until_passing(&self, what: impl Display, step: Duration, is_so: impl Fn() -> bool) {
        self.look(what, Some(step), is_so).await;
    }

    async fn look(&self, what: impl Display, step: Option<Duration>, is_so: impl Fn() -> bool) {
        let mut ticks = self.ticks.clone();
        let reached = async {
            while !is_so() {
                if let Some(step) = step {
                    self.pass(step).await;
                }
                if ticks.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        self.within(what, reached).await;
    }

    /// Awaits a future that must complete although no time passes.
    ///
    /// # Panics
    /// After [`LIMIT`] of real time.
    pub async fn within<F: Future>(&self, what: impl Display, future: F) -> F::Output {
        let mut ticks = self.ticks.clone();
        let end = *ticks.borrow() + LIMIT;
        tokio::select! {
            output = future => output,
            _ = ticks.wait_for(|tick| *tick > end) => panic!("waited {LIMIT:?} for this: {what}"),
        }
    }
}

impl Drop for StillClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn time_passes_only_when_the_test_says_so() {
        let second = Duration::from_secs(1);
        let clock = StillClock::start();
        let late = tokio::spawn(timeout(second, std::future::pending::<()>()));
        // all that there is waits for time
        clock.until("a few ticks", || *clock.ticks.borrow() > 3 * EVERY).await;
        assert!(!late.is_finished());
        clock.pass(second).await;
        assert!(clock.within("the timer", late).await.unwrap().is_err());
        drop(clock);
        assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
    }

    #[tokio::test]
    async fn what_comes_from_outside_comes_while_no_time_passes() {
        let clock = StillClock::start();
        let (outside, event) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || outside.send(7));
        assert_eq!(clock.within("the event", event).await, Ok(7));
        thread.join().unwrap().unwrap();
    }
}
