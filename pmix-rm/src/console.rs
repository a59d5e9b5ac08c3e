//! Standard output and error of `pmixrun`, written by a thread of their own: a reader that is slow, or
//! that has stopped reading, holds up the ranks' output but not the server.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use bytes::Bytes;
use pmix_server::standard::OutputChannel;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

/// Pieces on their way to the thread.
const QUEUE: usize = 16;

/// Collects what is to be written and passes it to the thread that writes.
#[derive(Debug)]
pub(crate) struct Console {
    waiting: VecDeque<(OutputChannel, Bytes)>,
    /// `None` when nothing is to be written any more.
    writer: Option<mpsc::Sender<(OutputChannel, Bytes)>>,
    result: oneshot::Receiver<io::Result<()>>,
    /// Standard output is inside a line.
    inside: bool,
}

impl Console {
    pub(crate) fn start() -> io::Result<Self> {
        let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let (writer, mut pieces) = mpsc::channel::<(OutputChannel, Bytes)>(QUEUE);
        let (finished, result) = oneshot::channel();
        std::thread::Builder::new().name("console".into()).spawn(move || {
            let written = loop {
                match pieces.blocking_recv() {
                    Some((OutputChannel::Stdout, piece)) => match write_all(&mut out, &piece) {
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    },
                    // there is nowhere left to complain
                    Some((OutputChannel::Stderr, piece)) => drop(write_all(&mut err, &piece)),
                    None => break Ok(()),
                }
            };
            let _ = finished.send(written);
        })?;
        Ok(Self { waiting: VecDeque::new(), writer: Some(writer), result, inside: false })
    }

    /// Takes a piece to be written at once.
    pub(crate) fn put(&mut self, channel: OutputChannel, piece: Bytes) {
        if self.writer.is_none() || piece.is_empty() {
            return;
        }
        if channel == OutputChannel::Stdout {
            self.inside = !piece.ends_with(b"\n");
        }
        self.waiting.push_back((channel, piece));
    }

    /// Takes a message of `pmixrun` itself.
    pub(crate) fn say(&mut self, message: impl std::fmt::Display) {
        self.put(OutputChannel::Stderr, Bytes::from(format!("pmixrun: {message}\n")));
    }

    /// Takes a line for standard output that begins on a line of its own.
    pub(crate) fn put_line(&mut self, line: &str) {
        let start = if self.inside { "\n" } else { "" };
        self.put(OutputChannel::Stdout, Bytes::from(format!("{start}{line}\n")));
    }

    /// Whether pieces wait for the thread: then no more should come.
    pub(crate) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over one of the pieces that wait. Cancel-safe.
    ///
    /// # Errors
    /// Standard output cannot be written to; from now on nothing is written.
    pub(crate) async fn advance(&mut self) -> io::Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        if let Ok(room) = writer.reserve().await {
            if let Some(piece) = self.waiting.pop_front() {
                room.send(piece);
            }
            return Ok(());
        }
        let result = (&mut self.result).await;
        self.silence();
        result.unwrap_or_else(|_| Err(io::Error::other("the console thread is gone")))
    }

    /// Drops what is not yet written, and all that comes.
    pub(crate) fn silence(&mut self) {
        self.waiting.clear();
        self.writer = None;
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        while self.is_behind() {
            self.advance().await?;
        }
        if self.writer.take().is_none() {
            return Ok(());
        }
        (&mut self.result).await.unwrap_or_else(|_| Err(io::Error::other("the console thread is gone")))
    }
}

/// Writes everything, also to a file that somebody we share it with has made non-blocking.
fn write_all(file: &mut File, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&*file, PollFlags::OUT)], None)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
