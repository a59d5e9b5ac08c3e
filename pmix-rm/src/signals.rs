//! The signals that `pmixrun` handles.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that `pmixrun` received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// End the job with this signal.
    End(Signal),
    /// Only pass it on to the ranks.
    PassOn(Signal),
}

/// Receives signals from its creation on; before that they have their default effect.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hangup: Stream,
    user1: Stream,
    user2: Stream,
}

impl Signals {
    pub(crate) fn receive() -> io::Result<Self> {
        let stream = |number: Signal| signal(SignalKind::from_raw(number.as_raw()));
        Ok(Self {
            interrupt: stream(Signal::INT)?,
            terminate: stream(Signal::TERM)?,
            hangup: stream(Signal::HUP)?,
            user1: stream(Signal::USR1)?,
            user2: stream(Signal::USR2)?,
        })
    }

    /// Waits for one that ends the run, where there are no ranks to pass others on to. Cancel-safe.
    pub(crate) async fn interrupted(&mut self) -> Signal {
        loop {
            if let Received::End(signal) = self.next().await {
                return signal;
            }
        }
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received::End(Signal::INT),
            _ = self.terminate.recv() => Received::End(Signal::TERM),
            // the terminal is gone, which is no concern of the ranks
            _ = self.hangup.recv() => Received::End(Signal::TERM),
            _ = self.user1.recv() => Received::PassOn(Signal::USR1),
            _ = self.user2.recv() => Received::PassOn(Signal::USR2),
        }
    }
}
