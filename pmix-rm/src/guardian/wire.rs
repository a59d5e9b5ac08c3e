//! Messages between launcher and guardian, over a socket pair that preserves message boundaries.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An order of the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Remove this directory if the launcher ends without [`Finish`](Self::Finish).
    Protect(OsString),
    /// The soft limit of open files for processes (`RLIMIT_NOFILE`).
    Files(u64),
    /// Start a process of this job; the number identifies the order. Comes with descriptors of the recipe, the launcher's
    /// current directory, and the standard streams, and perhaps the socket for PMI-1.
    Start { number: u64, job: String },
    /// All processes of the last job have been started.
    Started,
    /// Kill all processes of this job if it has a cgroup.
    Kill { job: String },
    /// This job has ended.
    Ended { job: String },
    /// The launcher ends regularly.
    Finish,
}

/// A report of the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The guardian is ready. The launcher removes this cgroup after dismissing the guardian, which may be in it until it ends.
    Ready { cgroup: Option<OsString> },
    /// The process of this order was started. Comes with its pidfd.
    Started { number: u64, pid: i32 },
    /// The process of this order was not started: the error number of the system, or else the reason.
    Failed { number: u64, errno: Option<i32>, reason: String },
    /// A process has ended with this wait status.
    Ended { pid: i32, status: i32 },
}

/// Descriptors that always come with [`Order::Start`].
pub(super) const START_FDS: usize = 5;

/// Most descriptors that come with it.
const MAX_FDS: usize = START_FDS + 1;

/// No message is longer; recipes come in a file.
const MAX_BYTES: usize = 64 * 1024;

/// Sends a message and descriptors with it.
pub(super) fn send(
    to: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&to, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            // the guardian's end is non-blocking, as it also waits for signals
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Room for one message, kept for the next: allocating this much for each message would cost more than handling it.
#[derive(Debug)]
pub(super) struct Room(Vec<u8>);

impl Room {
    pub(super) fn new() -> Self {
        Self(vec![0; MAX_BYTES])
    }
}

/// The next message; `None` when the other side has ended.
///
/// # Errors
/// `WouldBlock` if there is none yet and `flags` say not to wait; or the message is malformed.
pub(super) fn receive<T: DeserializeOwned>(
    from: impl AsFd,
    Room(bytes): &mut Room,
    flags: RecvFlags,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(&from, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
            // reset if the other side left something unread; its earlier messages can still be read
            Err(Errno::INTR | Errno::CONNRESET) => {}
            received => break received?.bytes,
        }
    };
    if count == 0 {
        return Ok(None);
    }
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(Some((serde_json::from_slice(&bytes[..count])?, descriptors)))
}
