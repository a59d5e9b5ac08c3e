//! The start of a guardian process, by its launcher.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use super::life::Life;
use super::wire::{Report, Role, Room, receive, send};
use super::{JobSession, TIME_LIMIT, is_ready};

/// A guardian process that is not ready yet.
pub(super) struct Starting {
    pub(super) process: Process,
    link: OwnedFd,
}

/// A guardian process that is ready.
pub(super) struct ReadyGuardian {
    pub(super) process: Process,
    pub(super) link: OwnedFd,
}

impl Starting {
    /// Starts a guardian process in a process group of its own.
    pub(super) fn new(
        command: &mut Command,
        session: JobSession,
        is_replacement: bool,
        life: &Life,
    ) -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let files = pmix_server::inherited_file_limit();
        send(&ours, &Role::Guardian { files, session, is_replacement }, &[life.as_fd()])?;
        let process = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).process_group(0).spawn();
        // no other process may hold its end of the socket, or its death would go unnoticed
        command.stdin(Stdio::null());
        Ok(Self { process: process?, link: ours })
    }

    /// Waits up to the time limit until it is ready.
    pub(super) fn ready(self) -> io::Result<ReadyGuardian> {
        let Self { mut process, link } = self;
        // a signal to the group could still end it before it is ready
        let first = match is_ready(PollFd::new(&link, PollFlags::IN)) {
            Ok(true) => receive(&link, &mut Room::new(), RecvFlags::empty()),
            Ok(false) => {
                let seconds = TIME_LIMIT.tv_sec;
                let problem =
                    format!("the guardian process was not ready within {seconds} s: it hangs or is stopped");
                Err(io::Error::new(io::ErrorKind::TimedOut, problem))
            }
            Err(error) => Err(error),
        };
        match first {
            Ok(Some((Report::Ready, _))) => Ok(ReadyGuardian { process, link }),
            other => {
                let _ = process.kill();
                let _ = process.wait();
                let early = io::ErrorKind::UnexpectedEof;
                let ended = || io::Error::new(early, "the guardian process ended before it was ready");
                Err(other.err().unwrap_or_else(ended))
            }
        }
    }
}
