//! Counts the frames of HTTP/2 that come on a connection, for those of which only so many are taken.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pmix_proto::stream::LocalStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;

/// What a client says before its first frame.
const PREFACE: usize = 24;
/// The head of a frame: three bytes of length, and what does not matter here.
const HEAD: usize = 9;

/// A stream of which no more frames are taken than its connection may bring.
///
/// Frames that carry nothing of a call are answered below us, at the cost of the server's thread, and are as short as nine
/// bytes: settings, pings, priorities, calls that are taken back.
#[derive(Debug)]
pub(super) struct Counted {
    stream: LocalStream,
    connection: Arc<Connection>,
    place: Place,
}

impl Counted {
    pub(super) const fn new(stream: LocalStream, connection: Arc<Connection>) -> Self {
        Self { stream, connection, place: Place { skip: PREFACE, head: [0; HEAD], of_head: 0 } }
    }
}

/// How far the stream has been looked at.
#[derive(Debug)]
struct Place {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; HEAD],
    /// Bytes of it that are there.
    of_head: usize,
}

impl Place {
    /// Goes on by what has come; how many frames have begun with it.
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
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.connection.is_counted() {
            let frames = self.place.pass(&buffer.filled()[before..]);
            self.connection.takes_frames(frames)?;
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
    use super::*;

    #[test]
    fn frames_are_counted_however_they_come() {
        let mut bytes = vec![7; PREFACE];
        for length in [0_u32, 5, 70_000, 0] {
            bytes.extend_from_slice(&length.to_be_bytes()[1..]);
            bytes.extend_from_slice(&[6, 0, 0, 0, 0, 0]);
            bytes.extend(vec![9; length as usize]);
        }
        for size in [1, 2, 10, 33, 16 << 10, bytes.len()] {
            let mut place = Place { skip: PREFACE, head: [0; HEAD], of_head: 0 };
            assert_eq!(bytes.chunks(size).map(|piece| place.pass(piece)).sum::<usize>(), 4, "{size}");
        }
    }
}
