//! Supervises one process: its output and its end.

use std::time::Duration;

use bytes::BytesMut;
use pmix_host::{LaunchReport, OutputChannel, ProcExit};
use pmix_types::ProcId;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use crate::child::Child;

/// How long a descendant that keeps the output of an ended process open can delay the report of the end.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that a pipe can hold: anything beyond is not from the ended process.
const MAX_PIPE: usize = 1024 * 1024;

/// Room for the first output of a process: many write little or nothing.
const FIRST_CHUNK: usize = 1024;

/// Largest piece of output.
const CHUNK: usize = 64 * 1024;

/// The reading ends of a process's pipes for output and errors.
pub(crate) type Output = [pipe::Receiver; 2];

/// Reports what a process writes, then its end; `on_exit` is called as soon as it has ended.
pub(crate) async fn supervise(
    proc: &ProcId,
    mut child: Child,
    [stdout, stderr]: Output,
    reports: &mpsc::Sender<LaunchReport>,
    on_exit: impl FnOnce(),
) {
    let (exited, exit) = watch::channel(false);
    let out = pump(proc, OutputChannel::Stdout, stdout, reports, exit.clone());
    let err = pump(proc, OutputChannel::Stderr, stderr, reports, exit);
    let wait = async {
        let status = tokio::select! {
            status = child.wait() => status,
            // without a listener, nothing would end the process
            () = reports.closed() => {
                child.handle().signal(Signal::KILL);
                child.wait().await
            }
        };
        on_exit();
        let _ = exited.send(true);
        status
    };
    let (status, (), ()) = tokio::join!(wait, out, err);
    let exit = match status {
        Ok(exit) => exit,
        Err(error) => {
            tracing::error!(%proc, %error, "cannot wait for a process");
            ProcExit::Code(1)
        }
    };
    let _ = reports.send(LaunchReport::Ended { proc: proc.clone(), exit }).await;
}

/// Reports the contents of a pipe until it is closed, or until its process has ended and all of its own output must have
/// been read.
async fn pump(
    proc: &ProcId,
    channel: OutputChannel,
    mut from: impl AsyncRead + Unpin,
    reports: &mpsc::Sender<LaunchReport>,
    mut exit: watch::Receiver<bool>,
) {
    let exited = exit.clone();
    let lingered = async move {
        let _ = exit.wait_for(|exited| *exited).await;
        let _ = tokio::time::timeout(LINGER, std::future::pending::<()>()).await;
    };
    tokio::pin!(lingered);
    let (mut buffer, mut room) = (BytesMut::new(), FIRST_CHUNK);
    let mut after_exit = 0;
    while after_exit <= MAX_PIPE {
        buffer.reserve(room);
        let read = tokio::select! {
            // read what is available, however long it takes to hand over
            biased;
            read = from.read_buf(&mut buffer) => read,
            () = &mut lingered => break,
        };
        match read {
            Ok(0) => break,
            Ok(count) if *exited.borrow() => after_exit += count,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%proc, ?channel, %error, "cannot read output");
                break;
            }
        }
        if buffer.len() >= room {
            room = CHUNK;
        }
        let data = buffer.split().freeze();
        if reports.send(LaunchReport::Output { proc: proc.clone(), channel, data }).await.is_err() {
            return;
        }
    }
    let end = LaunchReport::Output { proc: proc.clone(), channel, data: bytes::Bytes::new() };
    let _ = reports.send(end).await;
}
