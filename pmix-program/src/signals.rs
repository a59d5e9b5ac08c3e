//! The signals that a command which runs a job receives, and what it does with them.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use futures::FutureExt;
use procfs::process::Process;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Signals that end a job.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Signals that are passed on to a job and do nothing else.
const PASSED_ON: [Signal; 12] = [
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    Signal::POWER,
    Signal::SYS,
    Signal::ABORT,
    Signal::XCPU,
    Signal::URG,
    Signal::CONT,
];

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a command decides on each case")]
pub enum Received {
    /// The end of the job, with this signal.
    End(Signal),
    /// To pass it on to the job.
    PassOn(Signal),
    /// To stop the job and then this process, by [`Signals::stop`]: somebody has typed Ctrl-Z.
    Stop,
}

/// Receives signals from its creation on; before that they have their default effect.
///
/// SIGHUP and SIGTSTP stay ignored if they are at startup, as under `nohup`. SIGINT does not: shells start background jobs with SIGINT
/// ignored, yet scripts send it to end them. SIGXFSZ does nothing: the write that has caused it fails.
#[derive(Debug)]
pub struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Starts to receive them.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn receive() -> io::Result<Self> {
        let stream = |number: Signal| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?));
        let may_stay = |number: Signal| [Signal::HUP, Signal::TSTP].contains(&number);
        let numbers = ENDING.into_iter().chain([Signal::TSTP]).chain(PASSED_ON).chain([Signal::XFSZ]);
        let numbers = numbers.filter(|number| !(may_stay(*number) && is_ignored(*number)));
        Ok(Self(numbers.map(stream).collect::<io::Result<_>>()?))
    }

    /// The next one. Of several that wait, one that ends the job is the first, and SIGTSTP comes before SIGCONT: that [cancels](Self::stop)
    /// the stop, in whichever order they were sent.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next(&mut self) -> Received {
        poll_fn(|context| {
            for (number, stream) in &mut self.0 {
                while stream.poll_recv(context).is_ready() {
                    match *number {
                        Signal::XFSZ => {}
                        Signal::TSTP => return Poll::Ready(Received::Stop),
                        number if ENDING.contains(&number) => return Poll::Ready(Received::End(number)),
                        number => return Poll::Ready(Received::PassOn(number)),
                    }
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for one that ends the job, while there is none. Ctrl-Z stops this process.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                Received::End(signal) => return signal,
                Received::Stop => _ = self.stop(),
                Received::PassOn(_) => {}
            }
        }
    }

    /// Stops this process after [`Received::Stop`]; returns when it is continued. False if it has not stopped: it has been continued
    /// meanwhile, or nobody could continue it. A job that was stopped must be continued then; otherwise `PassOn(CONT)` follows.
    #[must_use]
    pub fn stop(&mut self) -> bool {
        if self.has_been_continued() || getpid().is_init() || is_alone_on_terminal() {
            return false;
        }
        match kill_process(getpid(), Signal::STOP) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "cannot stop");
                false
            }
        }
    }

    /// Whether there is a SIGCONT that was not handed out, which this takes.
    fn has_been_continued(&mut self) -> bool {
        let continued = self.0.iter_mut().find(|(number, _)| *number == Signal::CONT);
        continued.is_some_and(|(_, stream)| stream.recv().now_or_never().is_some())
    }
}

/// Whether this process has a terminal, but no shell that could continue it there, as a command of `ssh -t`.
fn is_alone_on_terminal() -> bool {
    let stat = |pid| Process::new(pid).and_then(|process| process.stat());
    let is_alone = || {
        let own = stat(getpid().as_raw_pid()).ok()?;
        let mut parent = stat(own.ppid).ok()?;
        while parent.session == own.session && parent.pgrp == own.pgrp {
            parent = stat(parent.ppid).ok()?;
        }
        Some(parent.session != own.session)
    };
    File::open("/dev/tty").is_ok() && is_alone().unwrap_or(true)
}

/// Whether a signal is ignored in this process, as SIGHUP is in programs started by `nohup`. A program that handles such a signal must
/// ask this first, and leave it ignored if so. False where /proc does not tell.
#[must_use]
pub fn is_ignored(signal: Signal) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign >> (signal.as_raw() - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_is_continued_before_it_has_stopped_does_not_stop() {
        let mut signals = Signals::receive().unwrap();
        // notified at the same time
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw())).unwrap();
        kill_process(getpid(), Signal::TSTP).unwrap();
        assert_eq!(signals.next().await, Received::Stop);
        kill_process(getpid(), Signal::CONT).unwrap();
        continued.recv().await.unwrap();
        assert!(!signals.stop());
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(signals.ending().await, Signal::TERM);
    }
}
