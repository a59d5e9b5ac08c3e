//! The signals that are passed on to jobs.

use std::io;

use pmix_program::signals;
use rustix::process::Signal;

use super::named::about;

/// Receives signals from its creation on; before that they have their default effect.
#[derive(Debug)]
pub(super) struct Signals {
    received: signals::Signals,
    /// How many SIGINT have come.
    interrupts: u32,
    /// One that has jobs end has come.
    have_ended: bool,
}

/// What a signal is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Has jobs end.
    End(Signal),
    /// A second SIGINT.
    Kill,
    /// Is only passed on.
    PassOn(Signal),
    /// Stops this process, and the job that is its own.
    Stop,
}

/// What has failed where a signal is not received.
pub(super) const NOT_RECEIVED: &str = "signals cannot be received";

/// How many signals may ask for an end that does not come, because a server does not answer.
pub(super) const ENOUGH: u32 = 3;

impl Signals {
    pub(super) fn receive() -> io::Result<Self> {
        let received = signals::Signals::receive().map_err(about(NOT_RECEIVED))?;
        Ok(Self { received, interrupts: 0, have_ended: false })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Received {
        match self.received.next().await {
            signals::Received::End(number) => self.end(number),
            signals::Received::PassOn(number) => Received::PassOn(number),
            signals::Received::Stop => Received::Stop,
        }
    }

    /// Stops this process, and returns when it is continued; false if it has not stopped.
    pub(super) fn stop(&mut self) -> bool {
        self.received.stop()
    }

    fn end(&mut self, number: Signal) -> Received {
        self.have_ended = true;
        if number == Signal::INT {
            self.interrupts += 1;
        }
        match number {
            Signal::INT if self.interrupts > 1 => Received::Kill,
            _ => Received::End(number),
        }
    }

    /// Whether one has come that has jobs end.
    pub(super) const fn have_ended(&self) -> bool {
        self.have_ended
    }

    /// Waits for one that has jobs end, while there are none; its exit code, as a shell would report it. Cancel-safe.
    pub(super) async fn interrupted(&mut self) -> i32 {
        let number = self.received.ending().await;
        self.end(number);
        128 + number.as_raw()
    }
}
