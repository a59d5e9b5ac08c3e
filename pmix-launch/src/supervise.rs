//! Supervises one process: its output and its end.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use pmix_host::{LaunchReport, OutputChannel, ProcExit};
use pmix_types::ProcId;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::child::Child;

/// How long descendants of a process that has failed, or was asked to end, may go on after it.
const SHORT: Duration = Duration::from_secs(1);

/// Bytes that a pipe can hold: what a process has written itself is among the first that are read after its end.
const MAX_PIPE: usize = 1024 * 1024;

/// Room for the first output of a process: many write little or nothing.
const FIRST_CHUNK: usize = 1024;

/// Largest piece of output.
const CHUNK: usize = 64 * 1024;

/// The reading ends of a process's pipes for output and errors.
pub(crate) type Output = [pipe::Receiver; 2];

/// How long what a process leaves in the background may go on after its end.
#[derive(Clone, Debug)]
pub(crate) struct Linger {
    /// After a process that has succeeded.
    pub(crate) time: Duration,
    /// When the process, or what it has left, was asked to end.
    pub(crate) hurried: watch::Receiver<Option<Instant>>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) exit: ProcExit,
    at: Instant,
}

impl Linger {
    /// Whether what is left is waited for in full.
    pub(crate) fn is_full(&self, end: Ended) -> bool {
        end.exit == ProcExit::Code(0) && self.hurried.borrow().is_none()
    }

    /// Waits until its time is over.
    pub(crate) async fn over(mut self, end: Ended) {
        if end.exit == ProcExit::Code(0) {
            let hurried = async {
                if self.hurried.wait_for(Option::is_some).await.is_err() {
                    std::future::pending().await
                }
            };
            if tokio::time::timeout(self.time.saturating_sub(end.at.elapsed()), hurried).await.is_err() {
                return;
            }
        }
        let since = self.hurried.borrow().map_or(end.at, |hurried| hurried.max(end.at));
        let (short, full) =
            (SHORT.saturating_sub(since.elapsed()), self.time.saturating_sub(end.at.elapsed()));
        tokio::time::sleep_until(Instant::now() + short.min(full)).await;
    }
}

/// A process that has ended, whose last reports are still to be made.
pub(crate) struct Supervised {
    pub(crate) end: Ended,
    /// Others hold its output, which is not read any more.
    pub(crate) is_held: bool,
}

/// A process that is to be supervised.
pub(crate) struct Supervision<'a> {
    pub(crate) child: Child,
    /// Notified when the process is lost: it is not waited for any more.
    pub(crate) lost: &'a Notify,
    /// Dropped as soon as the process has ended.
    pub(crate) running: watch::Sender<()>,
    /// How long its descendants may hold its output.
    pub(crate) linger: &'a Linger,
}

/// Reports the output of a process until it has ended, or is lost, and its descendants have closed the output or had their time.
pub(crate) async fn supervise(
    proc: &ProcId,
    supervision: Supervision<'_>,
    [stdout, stderr]: Output,
    reports: &mpsc::Sender<LaunchReport>,
) -> Supervised {
    let Supervision { mut child, lost, running, linger } = supervision;
    let (ended, end) = watch::channel(None);
    let out = async {
        let is_held = pump(proc, OutputChannel::Stdout, stdout, reports, end.clone(), linger.clone()).await;
        let _ = reports.send(output(proc, OutputChannel::Stdout, Bytes::new())).await;
        is_held
    };
    let err = pump(proc, OutputChannel::Stderr, stderr, reports, end.clone(), linger.clone());
    let wait = async {
        let status = tokio::select! {
            status = child.wait() => status,
            // without a listener, nothing would end the process
            () = reports.closed() => {
                child.handle().signal(Signal::KILL);
                child.wait().await
            }
            () = lost.notified() => Ok(child.handle().seen_end()),
        };
        let exit = status.unwrap_or_else(|error| {
            tracing::error!(%proc, %error, "cannot wait for a process");
            ProcExit::Code(1)
        });
        drop(running);
        let end = Ended { exit, at: Instant::now() };
        let _ = ended.send(Some(end));
        end
    };
    let (end, out, err) = tokio::join!(wait, out, err);
    Supervised { end, is_held: out || err }
}

/// Makes the last reports of a process: of errors, with what there is to say of its descendants, and of its end.
pub(crate) async fn finish(proc: ProcId, exit: ProcExit, said: Bytes, reports: &mpsc::Sender<LaunchReport>) {
    let said = Some(said).filter(|said| !said.is_empty());
    for data in said.into_iter().chain([Bytes::new()]) {
        let _ = reports.send(output(&proc, OutputChannel::Stderr, data)).await;
    }
    let _ = reports.send(LaunchReport::Ended { proc, exit }).await;
}

fn output(proc: &ProcId, channel: OutputChannel, data: Bytes) -> LaunchReport {
    LaunchReport::Output { proc: proc.clone(), channel, data }
}

/// Reports the contents of a pipe until it is closed, or until its process has ended and others have had their time, of whose output no
/// more than a pipe can hold is read then. Returns whether they hold it.
async fn pump(
    proc: &ProcId,
    channel: OutputChannel,
    mut from: impl AsyncRead + Unpin,
    reports: &mpsc::Sender<LaunchReport>,
    mut end: watch::Receiver<Option<Ended>>,
    linger: Linger,
) -> bool {
    let over = async move {
        let end = match end.wait_for(Option::is_some).await {
            Ok(end) => *end,
            Err(_) => None,
        };
        match end {
            Some(end) => linger.over(end).await,
            None => std::future::pending().await,
        }
    };
    let over = over.fuse();
    tokio::pin!(over);
    let (mut buffer, mut room) = (BytesMut::new(), FIRST_CHUNK);
    let mut left = None;
    loop {
        buffer.reserve(room);
        let read = tokio::select! {
            // read what is available, however long it takes to hand over
            biased;
            read = from.read_buf(&mut buffer) => read,
            () = &mut over, if left.is_none() => return true,
            () = std::future::ready(()), if left.is_some() => return true,
        };
        let count = match read {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => {
                tracing::warn!(%proc, ?channel, %error, "cannot read output");
                return false;
            }
        };
        if buffer.len() >= room {
            room = CHUNK;
        }
        if reports.send(output(proc, channel, buffer.split().freeze())).await.is_err() {
            return false;
        }
        if left.is_none() && (&mut over).now_or_never().is_some() {
            left = Some(MAX_PIPE);
        }
        match &mut left {
            Some(left) if *left < count => return true,
            Some(left) => *left -= count,
            None => {}
        }
    }
}
