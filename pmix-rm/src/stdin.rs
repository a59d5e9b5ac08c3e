//! Standard input of `pmixrun`, as ranks will have it.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pmix_host::Launcher;
use pmix_types::ProcId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::sync::mpsc;

use crate::LocalLauncher;

/// Largest piece of input that goes to all ranks.
const CHUNK: usize = 64 * 1024;

/// Pieces that were read and wait for ranks to take them.
const AHEAD: usize = 4;

/// How often to look whether `pmixrun` has come to the foreground; nobody tells a job that runs in the background.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// What one rank reads from.
///
/// Anything but a terminal is handed over as it is: nothing is read ahead, and its end is its end. From a terminal
/// a rank cannot read, being in another process group; what is typed is passed on through a pipe.
pub(crate) fn for_one() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    let (read, write) = io::pipe()?;
    // ends with the process: there is no way to call it back from a read
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        if let Err(error) = pass_on(write) {
            tracing::debug!(%error, "standard input is not passed on any more");
        }
    })?;
    Ok(read.into())
}

/// Gives these processes, which take input of others, all of it and its end. One that does not read holds up the others.
pub(crate) fn to_all(launcher: LocalLauncher, procs: Vec<ProcId>) -> io::Result<()> {
    let mut from = File::from(for_one()?);
    let (sender, mut pieces) = mpsc::channel::<Bytes>(AHEAD);
    std::thread::Builder::new().name("stdin to all".into()).spawn(move || {
        loop {
            let mut piece = BytesMut::zeroed(CHUNK);
            match from.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    if sender.blocking_send(piece.freeze()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read any more");
                    return;
                }
            }
        }
    })?;
    tokio::spawn(async move {
        while let Some(piece) = pieces.recv().await {
            give(&launcher, &procs, piece, false).await;
        }
        give(&launcher, &procs, Bytes::new(), true).await;
    });
    Ok(())
}

async fn give(launcher: &LocalLauncher, procs: &[ProcId], piece: Bytes, is_end: bool) {
    if let Err(error) = launcher.push_stdin(procs, piece, is_end).await {
        tracing::warn!(%error, "standard input");
    }
}

fn pass_on(mut to: impl Write) -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 4096];
    loop {
        // to read in the background would stop us
        while tcgetpgrp(&stdin)? != getpgrp() {
            std::thread::park_timeout(LOOK_EVERY);
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) {
            Ok(_) if tcgetpgrp(&stdin)? != getpgrp() => continue,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdin.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(buffer.get(..count).unwrap_or_default())?,
        }
    }
}
