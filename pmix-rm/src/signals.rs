//! The signals that `pmixrun` handles.

use std::io;

use pmix_tool::hangup;
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

/// Receives signals from its creation on; before that they have their default effect. If SIGHUP is ignored at startup, as under
/// `nohup`, it stays ignored. SIGINT does not: shells start background jobs with SIGINT ignored, yet scripts send it to end them.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hangup: Option<Stream>,
    user1: Stream,
    user2: Stream,
}

impl Signals {
    pub(crate) fn receive() -> io::Result<Self> {
        let stream = |number: Signal| signal(SignalKind::from_raw(number.as_raw()));
        Ok(Self {
            interrupt: stream(Signal::INT)?,
            terminate: stream(Signal::TERM)?,
            hangup: if hangup::is_ignored() { None } else { Some(stream(Signal::HUP)?) },
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
            () = of(&mut self.hangup) => Received::End(Signal::TERM),
            _ = self.user1.recv() => Received::PassOn(Signal::USR1),
            _ = self.user2.recv() => Received::PassOn(Signal::USR2),
        }
    }
}

/// Waits for a signal that is received. Cancel-safe.
async fn of(stream: &mut Option<Stream>) {
    match stream {
        Some(stream) => _ = stream.recv().await,
        None => std::future::pending().await,
    }
}
