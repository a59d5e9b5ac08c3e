//! Standard input of `pmixrun`, as rank 0 will have it.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// What rank 0 reads from, and a way to say that `pmixrun` was continued.
///
/// Anything but a terminal is handed over as it is: nothing is read ahead, and its end is its end. From a terminal
/// rank 0 cannot read, being in another process group; what is typed is passed on through a pipe.
pub(crate) fn for_rank_zero() -> io::Result<(OwnedFd, Sender<()>)> {
    let stdin = io::stdin();
    let (continued, was_continued) = channel();
    if !stdin.is_terminal() {
        return Ok((stdin.as_fd().try_clone_to_owned()?, continued));
    }
    let (read, write) = io::pipe()?;
    // ends with the process: there is no way to call it back from a read
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        if let Err(error) = pass_on(write, &was_continued) {
            tracing::debug!(%error, "standard input is not passed on any more");
        }
    })?;
    Ok((read.into(), continued))
}

fn pass_on(mut to: impl Write, was_continued: &Receiver<()>) -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 4096];
    loop {
        // to read in the background would stop us
        while tcgetpgrp(&stdin)? != getpgrp() {
            was_continued.recv().map_err(io::Error::other)?;
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
