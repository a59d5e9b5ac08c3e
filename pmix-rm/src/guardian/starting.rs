//! The start of a guardian process, by its launcher.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child as Process, Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use super::wire::{Order, Report, Room, receive};
use super::{TIME_LIMIT, is_ready, notify};

/// A guardian process that is not ready yet.
pub(super) struct Starting {
    pub(super) process: Process,
    link: OwnedFd,
}

/// A guardian process that is ready.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) link: OwnedFd,
    /// To be removed by the launcher after the dismissal.
    pub(super) cgroup: Option<PathBuf>,
}

impl Starting {
    /// Starts a guardian process in a new process group or in an existing one.
    pub(super) fn new(command: &mut Command, group: Option<Pid>) -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let group = group.map_or(0, Pid::as_raw_pid);
        let process = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).process_group(group).spawn();
        // no other process may hold its end of the socket, or its death would go unnoticed
        command.stdin(Stdio::null());
        Ok(Self { process: process?, link: ours })
    }

    /// Waits up to the time limit until it is ready.
    pub(super) fn ready(self) -> io::Result<Started> {
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
            Ok(Some((Report::Ready { cgroup }, _))) => {
                if let Some(files) = pmix_server::inherited_file_limit() {
                    notify(&link, &Order::Files(files));
                }
                Ok(Started { process, link, cgroup: cgroup.map(PathBuf::from) })
            }
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
