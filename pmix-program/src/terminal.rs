//! Standard input that may be a terminal.

use std::io;
use std::thread;
use std::time::Duration;

use nix::unistd::getpgrp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::tcgetpgrp;

/// How often to check whether this process is in the foreground, as nothing notifies a background job.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Blocks until there is something to read, and this process may read it: a read of a terminal in the background would stop it.
///
/// # Errors
/// The system's, if standard input cannot be watched.
pub fn wait_for_input() -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        while is_in_background(&stdin) {
            thread::park_timeout(LOOK_EVERY);
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) {
            Ok(_) if !is_in_background(&stdin) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether standard input is this session's terminal and another process group is in its foreground.
fn is_in_background(stdin: &io::Stdin) -> bool {
    // nix's: the id of a group that started in another PID namespace is 0, which rustix takes for impossible
    tcgetpgrp(stdin).is_ok_and(|foreground| getpgrp().as_raw() != foreground.as_raw_pid())
}
