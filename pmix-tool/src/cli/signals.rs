//! The signals that are passed on to jobs.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use pmix_tool::hangup;
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::named::about;

/// Receives signals from its creation on; before that they have their default effect. SIGHUP stays ignored if it is at startup.
#[derive(Debug)]
pub(super) struct Signals {
    streams: Vec<(Signal, Stream)>,
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
}

/// What has failed where a signal is not received.
pub(super) const NOT_RECEIVED: &str = "signals cannot be received";

/// How many signals may ask for an end that does not come, because a server does not answer.
pub(super) const ENOUGH: u32 = 3;

impl Signals {
    pub(super) fn receive() -> io::Result<Self> {
        let stream = |number: Signal| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?));
        let hangup = (!hangup::is_ignored()).then_some(Signal::HUP);
        let numbers = [Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2].into_iter().chain(hangup);
        let streams = numbers.map(stream).collect::<io::Result<_>>().map_err(about(NOT_RECEIVED))?;
        Ok(Self { streams, interrupts: 0, have_ended: false })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Received {
        let number = poll_fn(|context| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await;
        if number == Signal::INT {
            self.interrupts += 1;
        }
        self.have_ended |= ![Signal::USR1, Signal::USR2].contains(&number);
        match number {
            Signal::INT if self.interrupts > 1 => Received::Kill,
            Signal::USR1 | Signal::USR2 => Received::PassOn(number),
            _ => Received::End(number),
        }
    }

    /// Whether one has come that has jobs end.
    pub(super) const fn have_ended(&self) -> bool {
        self.have_ended
    }

    /// Waits for one that has jobs end, while there are none; its exit code, as a shell would report it. Cancel-safe.
    pub(super) async fn interrupted(&mut self) -> i32 {
        loop {
            match self.next().await {
                Received::End(signal) => return 128 + signal.as_raw(),
                Received::Kill => return 128 + Signal::INT.as_raw(),
                Received::PassOn(_) => {}
            }
        }
    }
}
