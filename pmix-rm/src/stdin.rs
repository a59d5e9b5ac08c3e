//! Standard input of `pmixrun`, as rank 0 will have it.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// How often to look whether `pmixrun` has come to the foreground; nobody tells a job that runs in the background.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// What rank 0 reads from.
///
/// Anything but a terminal is handed over as it is: nothing is read ahead, and its end is its end. From a terminal
/// rank 0 cannot read, being in another process group; what is typed is passed on through a pipe.
pub(crate) fn for_rank_zero() -> io::Result<OwnedFd> {
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
