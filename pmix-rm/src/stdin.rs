//! Standard input of `pmixrun` for its ranks.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use bytes::{Bytes, BytesMut};
use pmix_host::StandardHost;
use pmix_program::terminal::wait_for_input;
use pmix_tool::InputSink;
use pmix_types::{ProcId, Status};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Largest piece of input that goes to all ranks.
const CHUNK: usize = 64 * 1024;

/// Pieces read ahead.
const AHEAD: usize = 4;

/// Standard input for one rank.
///
/// Anything but a terminal is passed to the rank itself, so nothing is read ahead. A rank cannot read from the terminal, as
/// it is in another process group, so a thread passes the input on through a pipe.
pub(crate) fn for_one() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    let (read, write) = io::pipe()?;
    // ends with the process, as a read cannot be interrupted
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        if let Err(error) = pass_on(write) {
            tracing::debug!(%error, "cannot pass on standard input");
        }
    })?;
    Ok(read.into())
}

/// The processes whose input is forwarded.
pub(crate) enum To {
    /// Of a job of this host.
    Host(StandardHost, Vec<ProcId>),
    /// Of a job of a DVM.
    Tool(InputSink),
}

impl To {
    /// Hands them a piece; false if they take no more.
    async fn give(&mut self, piece: Bytes) -> bool {
        match self {
            Self::Host(host, procs) => {
                if let Err(error) = host.give_stdin(procs, piece, false).await {
                    tracing::warn!(%error, "cannot forward standard input");
                }
                true
            }
            Self::Tool(sink) => match sink.write(piece).await {
                Ok(()) => true,
                Err(error) => {
                    tell(&error);
                    false
                }
            },
        }
    }

    /// Nothing more comes.
    async fn end(self) {
        match self {
            Self::Host(host, procs) => {
                if let Err(error) = host.give_stdin(&procs, Bytes::new(), true).await {
                    tracing::warn!(%error, "cannot forward standard input");
                }
            }
            Self::Tool(sink) => {
                if let Err(error) = sink.close().await {
                    tell(&error);
                }
            }
        }
    }
}

/// A job that has ended takes no input: its end tells more. A DVM of several users does not tell its jobs from those of
/// others then, and refuses both alike.
fn tell(error: &pmix_client::Error) {
    match error.status() {
        Status::ERR_NOT_FOUND
        | Status::ERR_NO_PERMISSIONS
        | Status::ERR_INIT
        | Status::ERR_LOST_CONNECTION => {
            tracing::debug!(%error, "standard input is not forwarded any more");
        }
        _ => tracing::warn!(%error, "cannot forward standard input"),
    }
}

/// Sends all of standard input to these processes. One that does not read delays the others.
pub(crate) fn forward(mut to: To) -> io::Result<()> {
    let mut from = File::from(for_one()?);
    let (sender, mut pieces) = mpsc::channel::<Bytes>(AHEAD);
    std::thread::Builder::new().name("stdin forward".into()).spawn(move || {
        loop {
            let mut piece = BytesMut::zeroed(CHUNK);
            match read(&mut from, &mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    if sender.blocking_send(piece.freeze()).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read standard input");
                    return;
                }
            }
        }
    })?;
    tokio::spawn(async move {
        while let Some(piece) = pieces.recv().await {
            if !to.give(piece).await {
                return;
            }
        }
        to.end().await;
    });
    Ok(())
}

fn pass_on(mut to: impl Write) -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 4096];
    loop {
        wait_for_input()?;
        match read(&mut stdin, &mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(buffer.get(..count).unwrap_or_default())?,
        }
    }
}

/// Waits for input and reads some of it, even if another process that shares the file has made it non-blocking.
fn read(from: &mut (impl Read + AsFd), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(&*from, PollFlags::IN)], None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
