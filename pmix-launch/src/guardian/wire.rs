//! Messages between the launcher, its guardian and the leaders of jobs, over socket pairs that preserve message boundaries.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::JobSession;

/// What a process becomes that is started with a link: the first message on it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Role {
    /// With the soft limit of open files that processes get (`RLIMIT_NOFILE`), unless it has that already. Comes with the file of the
    /// launcher's [signs of life](super::life).
    Guardian { files: Option<u64>, session: JobSession, is_replacement: bool },
    /// Of a job, in this cgroup, which it creates.
    Leader { cgroup: Option<OsString>, session: JobSession },
}

/// An order of the launcher to its guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Remove this directory if the launcher ends without [`Finish`](Self::Finish).
    Protect(OsString),
    /// Start another leader.
    Lead,
    /// The launcher ends regularly.
    Finish,
}

/// A report of the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Ready,
    /// The launcher has given no sign of life for too long, so the guardian kills all processes.
    Silent {
        seconds: f64,
    },
    /// A leader has been started. Comes with the launcher's end of its link and its pidfd.
    Leader {
        pid: i32,
        cgroup: Option<OsString>,
    },
    /// A leader could not be started: the error number of the system, or else the reason.
    NoLeader {
        errno: Option<i32>,
        reason: String,
    },
    /// A process whose leader was killed has ended with this wait status.
    Ended {
        pid: i32,
        status: i32,
    },
}

/// An order of the launcher to the leader of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Start a process; the number identifies the order. Comes with descriptors of the recipe, the launcher's
    /// current directory, and the standard streams, and perhaps the socket for PMI-1.
    Start { number: u64 },
    /// The job has ended: nothing more will be started.
    Over,
}

/// A report of the leader of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// The process of this order was started. Comes with its pidfd.
    Started { number: u64, pid: i32 },
    /// The process of this order was not started: the error number of the system, or else the reason.
    Failed { number: u64, errno: Option<i32>, reason: String },
    /// A process has ended with this wait status.
    Ended { pid: i32, status: i32 },
}

/// Descriptors that always come with [`Task::Start`].
pub(super) const START_FDS: usize = 5;

/// Most descriptors that come with it.
const MAX_FDS: usize = START_FDS + 1;

/// No message is longer; recipes come in a file.
const MAX_BYTES: usize = 64 * 1024;

/// Sends a message and descriptors with it, and waits until the other side has room for it.
pub(super) fn send(
    to: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    loop {
        match offer(&to, message, descriptors) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            sent => return sent,
        }
    }
}

/// Sends the guardian an order without a reply. A dead guardian is noticed elsewhere.
pub(super) fn notify(link: &OwnedFd, order: &Order) {
    if let Err(error) = send(link, order, &[]) {
        tracing::debug!(%error, ?order, "cannot reach the guardian");
    }
}

/// Sends a message and descriptors with it; fails with `WouldBlock` if the other side has no room for it.
pub(super) fn offer(
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
        match sendmsg(&to, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// A descriptor for tasks that wait until it can be read.
#[expect(
    deprecated,
    reason = "unsound only for types whose descriptor may change; an owned one keeps its own"
)]
pub(super) fn readable(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
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

/// The error of a process at the other end.
pub(super) fn from_report(errno: Option<i32>, reason: String) -> io::Error {
    errno.map_or_else(|| io::Error::other(reason), io::Error::from_raw_os_error)
}
