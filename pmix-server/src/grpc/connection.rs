//! What is known of a connection, and what it may do before its process is let in.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use pmix_proto::v1::ServerMessage;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::door::Guest;
use crate::line::Line;
use pmix_engine::PeerCred;

/// A connection that does not say who it is within this time is closed.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// What is between a process and the server.
pub(super) type SessionLine = Line<ServerMessage>;

/// Bytes that are taken in all calls of a connection of another user before its process is let in.
const MAX_STRANGE: usize = 64 << 10;

/// Frames of HTTP/2 that are taken of it before: what a client of any make says first is a dozen. Too few for what the
/// HTTP/2 library writes lines to the log about, without limit: 20 calls that are taken back.
const MAX_STRANGE_FRAMES: usize = 32;

/// Bytes of a piece of what a session is told: who reads one of them within its time is not disconnected.
const PIECE: usize = 64 << 10;

/// What is known of a connection: given to its calls.
///
/// Anybody may have opened one of another user. So it is closed if for some time it has had no call that says who is
/// there: calls that ask for anything else, or are never complete, do not keep it. Our own user needs just any call.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: PeerCred,
    is_other: bool,
    /// A session has begun on it; there can be only one.
    pub(super) has_session: AtomicBool,
    /// Its place at the door.
    guest: Mutex<Guest>,
    admission: Mutex<Admission>,
    /// Told when its presence has changed.
    changed: Notify,
    /// What is between its session and the server.
    line: OnceLock<Arc<SessionLine>>,
    /// Its session has ended, whoever has ended it.
    pub(super) over: CancellationToken,
}

#[derive(Debug)]
struct Admission {
    /// Calls that keep it.
    calls: usize,
    /// When the last of them ended, or it was opened.
    since: Instant,
    /// What may still be taken; without end once its process is in.
    left: Option<Left>,
}

/// What may still be taken of somebody who is not let in.
#[derive(Debug)]
struct Left {
    /// Of all calls.
    bytes: usize,
    /// Of HTTP/2.
    frames: usize,
}

impl Left {
    const ALL: Self = Self { bytes: MAX_STRANGE, frames: MAX_STRANGE_FRAMES };
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
            over: CancellationToken::new(),
        }
    }

    pub(super) fn of<B>(request: &tonic::Request<B>) -> Result<&Arc<Self>, tonic::Status> {
        request.extensions().get().ok_or_else(|| tonic::Status::internal("the connection is not known"))
    }

    /// Whether it belongs to a user who is neither the server's own nor root.
    pub(super) const fn is_other(&self) -> bool {
        self.is_other
    }

    /// There is a call, which may be any.
    pub(super) fn on_call(&self) {
        if !self.is_other {
            self.keep();
        }
    }

    /// Begins its session, which has a deadline of its own and ends the connection with itself; whether there was none.
    pub(super) fn begin_session(&self) -> bool {
        let is_first = !self.has_session.swap(true, Ordering::Relaxed);
        if is_first {
            self.keep();
        }
        is_first
    }

    /// Its session has this line.
    pub(super) fn speaks_on(&self, line: Arc<SessionLine>) {
        // there is one session
        let _ = self.line.set(line);
    }

    /// Its process has read a piece of what its session was told.
    fn has_read(&self) {
        if let Some(line) = self.line.get() {
            line.progress();
        }
    }

    /// The process at its other end has been let in.
    pub(super) fn let_in(&self) {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner).let_in();
        self.admission().left = None;
    }

    /// A complete query, which is a short session; to be held until it is answered.
    pub(super) fn visit(self: &Arc<Self>) -> Visit {
        self.keep();
        Visit(self.clone())
    }

    /// Resolves when it was open for too long without a call that keeps it. Cancel-safe.
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

    /// Takes bytes of a call, unless there are too many from somebody who has not been let in.
    fn takes(&self, bytes: usize) -> bool {
        match &mut self.admission().left {
            None => true,
            Some(Left { bytes: left, .. }) => left.checked_sub(bytes).map(|rest| *left = rest).is_some(),
        }
    }

    /// Whether it brings a limited number of frames.
    pub(super) fn is_counted(&self) -> bool {
        self.is_other && self.admission().left.is_some()
    }

    /// Takes frames.
    ///
    /// # Errors
    /// They are too many from somebody who has not been let in.
    pub(super) fn takes_frames(&self, frames: usize) -> io::Result<()> {
        let Some(Left { frames: left, .. }) = &mut self.admission().left else { return Ok(()) };
        *left = left.checked_sub(frames).ok_or_else(|| {
            let message = format!(
                "more than {MAX_STRANGE_FRAMES} frames of a process that is not let in: connect first"
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        Ok(())
    }

    /// Only the server's own thread comes here, so nobody ever waits.
    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection while a query is answered.
#[derive(Debug)]
pub(super) struct Visit(Arc<Connection>);

impl Visit {
    /// The query was let in: others may follow it.
    pub(super) fn let_in(&self) {
        if let Some(left) = &mut self.0.admission().left {
            *left = Left::ALL;
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut admission = self.0.admission();
        admission.calls -= 1;
        admission.since = Instant::now();
        drop(admission);
        self.0.changed.notify_one();
    }
}

/// The body of a call, of which no more is read than its connection may bring.
#[derive(Debug)]
pub(super) struct Metered<B> {
    body: B,
    connection: Arc<Connection>,
}

impl<B> Metered<B> {
    pub(super) const fn new(body: B, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl<B> Body for Metered<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into)?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        Poll::Ready(Some(if self.connection.takes(bytes) {
            Ok(frame)
        } else {
            let message = format!("a process that is not let in may say {MAX_STRANGE} bytes: connect first");
            Err(tonic::Status::resource_exhausted(message).into())
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a session's answer, in pieces that show how much of a large part has been read: the next one is asked for
/// when there is room for it at the other end.
#[derive(Debug)]
pub(super) struct Paced<B> {
    body: B,
    rest: Bytes,
    connection: Arc<Connection>,
}

impl<B> Paced<B> {
    pub(super) const fn new(body: B, connection: Arc<Connection>) -> Self {
        Self { body, rest: Bytes::new(), connection }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        } else {
            self.connection.has_read();
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;
    use crate::door::Door;

    /// A body that comes at once.
    struct Whole(Option<Bytes>);

    impl Body for Whole {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_none()
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn connection(uid: u32) -> Arc<Connection> {
        let guest = Door::new(true).enter(uid).unwrap();
        Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest))
    }

    fn stranger() -> Arc<Connection> {
        connection(rustix::process::geteuid().as_raw() + 4001)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_keeps_a_connection_of_another_user_only_if_it_says_who_is_there() {
        let connection = stranger();
        let begin = Instant::now();
        connection.on_call();
        connection.overdue().await;
        assert_eq!(begin.elapsed(), HELLO_WITHIN);
        let visits = [connection.visit(), connection.visit()];
        for visit in visits {
            assert!(tokio::time::timeout(5 * HELLO_WITHIN, connection.overdue()).await.is_err());
            drop(visit);
        }
        // asking again gives it time again
        assert!(tokio::time::timeout(HELLO_WITHIN - SECOND, connection.overdue()).await.is_err());
        drop(connection.visit());
        let begin = Instant::now();
        connection.overdue().await;
        assert_eq!(begin.elapsed(), HELLO_WITHIN);
        assert!(connection.begin_session() && !connection.begin_session());
        assert!(tokio::time::timeout(5 * HELLO_WITHIN, connection.overdue()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_large_part_in_pieces_is_not_disconnected_and_loses_none_of_it() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let connection = connection(4001);
        let line = SessionLine::new(PATIENCE);
        connection.speaks_on(Arc::clone(&line));
        line.send(ServerMessage::default(), 1 << 20);
        let part: Bytes = (0..(1_u32 << 20) + 7).map(|byte| byte as u8).collect();
        let mut body = Paced::new(Whole(Some(part.clone())), connection);
        let read = async {
            let mut read = Vec::new();
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE, "{}", piece.len());
                read.extend_from_slice(&piece);
                sleep_until(Instant::now() + PATIENCE - SECOND).await;
            }
            assert!(body.is_end_stream());
            read
        };
        tokio::select! {
            () = line.stalled() => panic!("it reads"),
            read = read => assert!(read == part),
        }
        line.stalled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_user_keeps_a_connection_by_any_call() {
        let connection = connection(rustix::process::geteuid().as_raw());
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
