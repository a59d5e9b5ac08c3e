//! Why a run ends early.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pmix_launch::Guardian;
use pmix_program::signals::{Received, Signals};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::exit_code::{NOT_STARTED, TIMED_OUT};

/// What is logged of processes that have been killed and do not end in time.
pub(crate) const NOT_ENDED: &str =
    "processes of jobs have been killed and do not end, as where a file system does not answer: leaving them";

/// The reason for ending a run early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Signal(Signal),
    Timeout,
    Output,
    /// What was to debug the job cannot be started, or has failed.
    Debugger,
}

impl Ending {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Signal(Signal::INT) => "SIGINT",
            Self::Signal(_) => "SIGTERM",
            Self::Timeout => "timeout",
            Self::Output => "output",
            Self::Debugger => "debugger",
        }
    }
}

/// Why there is no job to watch.
#[derive(Debug)]
pub(crate) struct NotRun {
    pub(crate) reason: String,
    /// What has ended the start; the user was told at that moment. `None` if it has failed.
    pub(crate) by: Option<Ending>,
}

impl NotRun {
    /// The exit code of `pmixrun`.
    pub(crate) const fn code(&self) -> i32 {
        match self.by {
            Some(Ending::Signal(signal)) => 128 + signal.as_raw(),
            Some(Ending::Timeout) => TIMED_OUT,
            _ => NOT_STARTED,
        }
    }
}

impl From<String> for NotRun {
    fn from(reason: String) -> Self {
        Self { reason, by: None }
    }
}

/// What ends a run from outside.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signals: Signals,
    /// The time limit of the run, and when it is over.
    limit: Option<(Duration, Instant)>,
    /// It is told before this process stops.
    guardian: Weak<Guardian>,
}

impl Interrupts {
    /// The limit counts from now on.
    pub(crate) fn new(signals: Signals, limit: Option<Duration>) -> Self {
        Self { signals, limit: limit.map(|limit| (limit, Instant::now() + limit)), guardian: Weak::new() }
    }

    /// Returns the next signal. SIGHUP becomes SIGTERM, because ranks have nothing to do with the terminal. Cancel-safe.
    pub(crate) async fn signal(&mut self) -> Received {
        match self.signals.next().await {
            Received::End(Signal::HUP) => Received::End(Signal::TERM),
            received => received,
        }
    }

    /// Tells this guardian before this process stops.
    pub(crate) fn announce_to(&mut self, guardian: &Arc<Guardian>) {
        self.guardian = Arc::downgrade(guardian);
    }

    /// Stops this process, and returns when it is continued; false if it has not stopped.
    pub(crate) fn stop(&mut self) -> bool {
        let guardian = self.guardian.upgrade();
        let announce = |is_paused| guardian.iter().for_each(|guardian| guardian.pause(is_paused));
        announce(true);
        let has_stopped = self.signals.stop();
        announce(false);
        has_stopped
    }

    /// When the time of the run is over.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.limit.map(|(_, at)| at)
    }

    /// Waits for the first one while something is not ready. Cancel-safe.
    pub(crate) async fn first(&mut self, not_ready: &str) -> NotRun {
        let ends_at = self.ends_at();
        tokio::select! {
            signal = self.ending() => {
                let reason = format!("interrupted while {not_ready}");
                NotRun { reason, by: Some(Ending::Signal(signal)) }
            }
            () = until(ends_at) => {
                let seconds = self.limit.map_or(0.0, |(limit, _)| limit.as_secs_f64());
                let reason = format!("ending the run after {seconds} seconds (--timeout), while {not_ready}");
                NotRun { reason, by: Some(Ending::Timeout) }
            }
        }
    }

    /// Waits for one when the run is ending anyhow. Cancel-safe.
    pub(crate) async fn again(&mut self) {
        self.ending().await;
    }

    async fn ending(&mut self) -> Signal {
        loop {
            match self.signal().await {
                Received::End(signal) => return signal,
                Received::Stop => _ = self.stop(),
                Received::PassOn(_) => {}
            }
        }
    }
}

/// Waits until a time, or for ever.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
