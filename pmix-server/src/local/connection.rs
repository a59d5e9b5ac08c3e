//! The state of a connection, and its limits before its process is let in.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use pmix_proto::EncodedBody;
use pmix_proto::stream::LocalHandle;
use pmix_proto::v1::ServerMessage;
use pmix_types::message::Push;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::files::Filed;
use crate::door::Guest;
use crate::line::Line;
use pmix_engine::PeerCred;

/// A connection without a greeting within this time is closed.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// The line between a process and the server.
pub(super) type GrpcLine = Line<Outbound>;

/// What a line carries to a process.
#[derive(Debug)]
pub(super) enum Outbound {
    Message(ServerMessage),
    /// The rest of a message in its frame; to processes on the framed wire only.
    Frame(Bytes),
    /// The reply to a fence, with the file that holds the data; to processes that take files only.
    Fence {
        id: u64,
        body: EncodedBody,
        file: Arc<Filed>,
    },
}

/// Bytes that a connection of another user may send, in all its calls, before its process is let in.
pub(super) const MAX_STRANGE: usize = 64 << 10;

/// HTTP/2 frames that it may send before that. Any client starts with about a dozen. After 20 cancelled calls the HTTP/2
/// library would begin to write to the log without limit, and these need more frames than this.
#[cfg(feature = "grpc")]
const MAX_STRANGE_FRAMES: usize = 32;

/// Bytes of a piece of the messages to a process. A process that reads one piece within its time is not disconnected.
#[cfg(feature = "grpc")]
pub(super) const PIECE: usize = 64 << 10;

/// The state of a connection, shared with its calls.
///
/// Any program may open a connection of another user. So such a connection is closed if it has had no call with an identity
/// for some time: calls of any other kind, and incomplete calls, do not keep it open. For our own user any call keeps it open.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: PeerCred,
    is_other: bool,
    /// The call `Session.Connect` has begun on it; there can be only one.
    pub(super) has_session: AtomicBool,
    /// Its place at the door.
    guest: Mutex<Guest>,
    admission: Mutex<Admission>,
    /// Notified when the admission has changed.
    changed: Notify,
    /// The line of its process.
    line: OnceLock<Arc<GrpcLine>>,
    /// Of the framed wire: its socket, and whether a task is writing to it.
    socket: OnceLock<LocalHandle>,
    is_writing: AtomicBool,
    /// Events that were left out and not yet reported to its process.
    missed: AtomicU64,
    /// The call `Session.Connect` has ended, on either side.
    pub(super) over: CancellationToken,
}

#[derive(Debug)]
struct Admission {
    /// Calls that keep the connection open.
    calls: usize,
    /// When the last of them ended, or the connection was opened.
    since: Instant,
    /// What it may still send; no limit once its process has been let in.
    left: Option<Left>,
}

/// What a connection may still send before its process is let in.
#[derive(Debug)]
struct Left {
    /// Bytes of all calls.
    bytes: usize,
    #[cfg(feature = "grpc")]
    /// HTTP/2 frames.
    frames: usize,
}

impl Left {
    const ALL: Self = Self {
        bytes: MAX_STRANGE,
        #[cfg(feature = "grpc")]
        frames: MAX_STRANGE_FRAMES,
    };
}

impl Connection {
    pub(super) fn new(peer: PeerCred, guest: Guest) -> Self {
        let is_other = guest.is_other();
        let left = is_other.then_some(Left::ALL);
        Self {
            peer,
            is_other,
            has_session: AtomicBool::new(false),
            guest: Mutex::new(guest),
            admission: Mutex::new(Admission { calls: 0, since: Instant::now(), left }),
            changed: Notify::new(),
            line: OnceLock::new(),
            socket: OnceLock::new(),
            is_writing: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            over: CancellationToken::new(),
        }
    }

    /// Whether it belongs to a user who is neither the server's own nor root.
    pub(super) const fn is_other(&self) -> bool {
        self.is_other
    }

    #[cfg(feature = "grpc")]
    /// Records the start of a call of any kind.
    pub(super) fn on_call(&self) {
        if !self.is_other {
            self.keep();
        }
    }

    /// Begins the call `Session.Connect`, which has its own deadline and whose end ends the connection. Returns false if the
    /// connection already has one.
    pub(super) fn begin_session(&self) -> bool {
        let is_first = !self.has_session.swap(true, Ordering::Relaxed);
        if is_first {
            self.keep();
        }
        is_first
    }

    /// Sets the line of its process.
    pub(super) fn speaks_on(&self, line: Arc<GrpcLine>) {
        // set once: there is one such call
        let _ = self.line.set(line);
    }

    /// Its messages go to this socket in frames.
    pub(super) fn writes_frames(&self, socket: LocalHandle) {
        // set once: a connection has one socket
        let _ = self.socket.set(socket);
    }

    /// Whether a frame can be written to its socket now: no task is writing to it.
    pub(super) fn writes_at_once(&self) -> bool {
        self.socket.get().is_some() && !self.is_writing.load(Ordering::Relaxed)
    }

    /// Records whether the task that writes to the socket is doing so.
    pub(super) fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Writes what the socket takes at once of a frame; returns the rest. Only while [`Connection::writes_at_once`].
    pub(super) fn write_at_once(&self, mut frame: Bytes) -> Bytes {
        if let Some(socket) = self.socket.get() {
            frame.advance(socket.try_write(&frame));
        }
        frame
    }

    /// Records that an event is left out.
    pub(super) fn misses_one(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// What its process has missed, once.
    pub(super) fn missed(&self) -> Option<Push> {
        let missed = self.missed.swap(0, Ordering::Relaxed);
        (missed > 0).then_some(Push::Lagged { missed })
    }

    /// Records that its process has read a piece.
    pub(super) fn has_read(&self) {
        if let Some(line) = self.line.get() {
            line.progress();
        }
    }

    /// The process at its other end has been let in.
    pub(super) fn let_in(&self) {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner).let_in();
        self.admission().left = None;
    }

    #[cfg(feature = "grpc")]
    /// Records a complete query, which keeps the connection open. Hold the result until the query is answered.
    pub(super) fn visit(self: &Arc<Self>) -> Visit {
        self.keep();
        Visit(self.clone())
    }

    /// Resolves when the connection has been open for too long without a call that keeps it open. Cancel-safe.
    pub(super) async fn overdue(&self) {
        loop {
            let due = {
                let admission = self.admission();
                (admission.calls == 0).then(|| admission.since + HELLO_WITHIN)
            };
            let Some(due) = due else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep_until(due) => return,
            }
        }
    }

    fn keep(&self) {
        self.admission().calls += 1;
        self.changed.notify_one();
    }

    /// Counts bytes of a call; returns false if they exceed the limit before its process is let in.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        match &mut self.admission().left {
            None => true,
            Some(Left { bytes: left, .. }) => left.checked_sub(bytes).map(|rest| *left = rest).is_some(),
        }
    }

    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// They exceed the limit before its process is let in.
    pub(super) fn takes_bytes(&self, bytes: usize) -> io::Result<()> {
        if self.takes(bytes) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, too_many_bytes()))
        }
    }

    #[cfg(feature = "grpc")]
    /// Whether its frames are limited.
    pub(super) fn is_counted(&self) -> bool {
        self.is_other && self.admission().left.is_some()
    }

    #[cfg(feature = "grpc")]
    /// Counts frames.
    ///
    /// # Errors
    /// They exceed the limit before its process is let in.
    pub(super) fn takes_frames(&self, frames: usize) -> io::Result<()> {
        let Some(Left { frames: left, .. }) = &mut self.admission().left else { return Ok(()) };
        *left = left.checked_sub(frames).ok_or_else(|| {
            let message =
                format!("more than {MAX_STRANGE_FRAMES} frames before the process was let in: connect first");
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        Ok(())
    }

    /// Only the server's own thread takes this lock, so it never blocks.
    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn too_many_bytes() -> String {
    format!("more than {MAX_STRANGE} bytes before the process was let in: connect first")
}

#[cfg(feature = "grpc")]
/// Keeps a connection open while a query is answered.
#[derive(Debug)]
pub(super) struct Visit(Arc<Connection>);

#[cfg(feature = "grpc")]
impl Visit {
    /// The query was let in, so others may follow it.
    pub(super) fn let_in(&self) {
        if let Some(left) = &mut self.0.admission().left {
            *left = Left::ALL;
        }
    }
}

#[cfg(feature = "grpc")]
impl Drop for Visit {
    fn drop(&mut self) {
        let mut admission = self.0.admission();
        admission.calls -= 1;
        admission.since = Instant::now();
        drop(admission);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use pmix_test_wait::PausedClock;
    use pmix_types::Uid;

    use super::*;
    use crate::account::own_uid;
    use crate::account::tests::another_uid;
    use crate::door::Door;

    const SECOND: Duration = Duration::from_secs(1);

    fn connection(uid: Uid) -> Arc<Connection> {
        let guest = Door::new(true).enter(uid).unwrap();
        Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest))
    }

    fn stranger() -> Arc<Connection> {
        connection(another_uid())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_keeps_a_connection_of_another_user_only_if_it_says_who_is_there() {
        let connection = stranger();
        let clock = PausedClock::start();
        connection.on_call();
        connection.overdue().await;
        assert_eq!(clock.passed(), HELLO_WITHIN);
        let visits = [connection.visit(), connection.visit()];
        for visit in visits {
            assert!(tokio::time::timeout(5 * HELLO_WITHIN, connection.overdue()).await.is_err());
            drop(visit);
        }
        // asking again gives it time again
        assert!(tokio::time::timeout(HELLO_WITHIN - SECOND, connection.overdue()).await.is_err());
        drop(connection.visit());
        let clock = PausedClock::start();
        connection.overdue().await;
        assert_eq!(clock.passed(), HELLO_WITHIN);
        assert!(connection.begin_session() && !connection.begin_session());
        assert!(tokio::time::timeout(5 * HELLO_WITHIN, connection.overdue()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_user_keeps_a_connection_by_any_call() {
        let connection = connection(own_uid());
        assert!(connection.takes(usize::MAX));
        assert!(tokio::time::timeout(HELLO_WITHIN - SECOND, connection.overdue()).await.is_err());
        connection.on_call();
        assert!(tokio::time::timeout(5 * HELLO_WITHIN, connection.overdue()).await.is_err());
    }

    #[tokio::test]
    async fn who_is_not_let_in_brings_a_few_frames() {
        let connection = stranger();
        connection.takes_frames(MAX_STRANGE_FRAMES).unwrap();
        connection.visit();
        assert!(connection.is_counted() && connection.takes_frames(1).is_err());
        connection.visit().let_in();
        connection.takes_frames(MAX_STRANGE_FRAMES).unwrap();
        assert!(connection.is_counted() && connection.takes_frames(1).is_err());
        connection.let_in();
        connection.takes_frames(usize::MAX).unwrap();
        assert!(!connection.is_counted());
    }

    #[tokio::test]
    async fn who_is_not_let_in_brings_a_few_bytes_in_all_its_calls() {
        let connection = stranger();
        assert!(connection.takes(MAX_STRANGE - 1) && !connection.takes(2) && connection.takes(1));
        connection.visit();
        assert!(!connection.takes(1), "it was not let in");
        connection.visit().let_in();
        assert!(connection.takes(MAX_STRANGE) && !connection.takes(1));
        connection.let_in();
        assert!(connection.takes(usize::MAX) && connection.overdue().now_or_never().is_none());
    }
}
