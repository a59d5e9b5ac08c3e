//! Counts the HTTP/2 frames on a connection, to limit them before its process is let in.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pmix_proto::stream::LocalStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::connection::Connection;

/// Bytes of the connection preface, which comes before the first frame.
const PREFACE: usize = 24;
/// Bytes of the head of a frame. The first three are its length; the others do not matter here.
const HEAD: usize = 9;
/// Bytes read from a connection of another user before other connections have a turn: about two thousand of the smallest
/// frames.
const AT_A_TIME: usize = 16 << 10;

/// A stream limited to the number of frames that its connection may send.
///
/// Frames that carry no part of a call (settings, pings, priorities, cancelled calls) are as short as nine bytes. The HTTP/2
/// library answers them, at the cost of the server's thread.
#[derive(Debug)]
pub(super) struct Counted {
    stream: LocalStream,
    connection: Arc<Connection>,
    place: FramePosition,
    /// Bytes read since other connections had a turn.
    read: usize,
}

impl Counted {
    pub(super) const fn new(stream: LocalStream, connection: Arc<Connection>) -> Self {
        let place = FramePosition { skip: PREFACE, head: [0; HEAD], of_head: 0 };
        Self { stream, connection, place, read: 0 }
    }
}

/// The position in the sequence of frames.
#[derive(Debug)]
struct FramePosition {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; HEAD],
    /// Bytes of it that have arrived.
    of_head: usize,
}

impl FramePosition {
    /// Advances by the bytes that have arrived; returns how many frames began in them.
    fn pass(&mut self, mut bytes: &[u8]) -> usize {
        let mut frames = 0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let count = (HEAD - self.of_head).min(bytes.len());
            let (more, rest) = bytes.split_at(count);
            self.head[self.of_head..self.of_head + count].copy_from_slice(more);
            (self.of_head, bytes) = (self.of_head + count, rest);
            if self.of_head == HEAD {
                let [a, b, c, ..] = self.head.map(usize::from);
                (self.skip, self.of_head, frames) = (a << 16 | b << 8 | c, 0, frames + 1);
            }
        }
        frames
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= AT_A_TIME && self.connection.is_other() {
            self.read = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.read += buffer.filled().len() - before;
        if self.connection.is_counted() {
            let frames = self.place.pass(&buffer.filled()[before..]);
            // a read that fails brings nothing
            self.connection.takes_frames(frames).inspect_err(|_| buffer.set_filled(before))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use futures::FutureExt;
    use pmix_types::Uid;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::account::own_uid;
    use crate::account::tests::another_uid;
    use crate::door::Door;
    use pmix_engine::PeerCred;

    const SENT: usize = 4 * AT_A_TIME;

    /// A connection of a user whose process is let in, with `SENT` bytes to read.
    fn brings(uid: Uid) -> (UnixStream, Counted) {
        let (mut there, here) = UnixStream::pair().unwrap();
        // whatever the system gives a socket
        rustix::net::sockopt::set_socket_send_buffer_size(&there, 2 * SENT).unwrap();
        there.write_all(&[0; SENT]).unwrap();
        let guest = Door::new(true).enter(uid).unwrap();
        let connection = Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest));
        connection.let_in();
        (there, Counted::new(LocalStream::new(here).unwrap(), connection))
    }

    /// How much is read in one turn, and in total.
    async fn read(mut counted: Counted) -> (usize, usize) {
        let mut piece = [0; 1000];
        // the reactor has to report the socket as readable first
        let mut first = counted.read(&mut piece).await.unwrap();
        while let Some(count) = poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut piece);
            Pin::new(&mut counted).poll_read(context, &mut buffer).map(|_| buffer.filled().len())
        })
        .now_or_never()
        {
            first += count;
        }
        let mut all = first;
        while all < SENT {
            all += counted.read(&mut piece).await.unwrap();
        }
        (first, all)
    }

    #[tokio::test]
    async fn who_brings_much_lets_others_have_a_turn_unless_it_is_our_own_user() {
        let (_there, other) = brings(another_uid());
        let (first, all) = read(other).await;
        assert!(first < AT_A_TIME + 1000 && all == SENT, "{first}, {all}");
        let (_there, ours) = brings(own_uid());
        assert_eq!(read(ours).await, (SENT, SENT));
    }

    #[test]
    fn frames_are_counted_however_they_come() {
        let mut bytes = vec![7; PREFACE];
        for length in [0_u32, 5, 70_000, 0] {
            bytes.extend_from_slice(&length.to_be_bytes()[1..]);
            bytes.extend_from_slice(&[6, 0, 0, 0, 0, 0]);
            bytes.extend(vec![9; length as usize]);
        }
        for size in [1, 2, 10, 33, 16 << 10, bytes.len()] {
            let mut place = FramePosition { skip: PREFACE, head: [0; HEAD], of_head: 0 };
            assert_eq!(bytes.chunks(size).map(|piece| place.pass(piece)).sum::<usize>(), 4, "{size}");
        }
    }
}
