//! A Unix stream without spurious wake-ups.
//!
//! tokio's own stream registers for readiness to read *and* to write. On a Unix socket that means another wake-up for each
//! message, when the peer has read it and there is room again, although nobody waits for room. A process that waits for a
//! reply would be scheduled twice. This stream registers for readiness to read, and for readiness to write only while a
//! write finds the socket full.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// One end of a local connection, for tokio.
#[derive(Debug)]
pub struct LocalStream {
    socket: AsyncFd<UnixStream>,
    /// The same socket again, only while a write waits for room.
    full: Option<AsyncFd<UnixStream>>,
}

impl LocalStream {
    /// Wraps a connected socket. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The error of the operating system if the socket cannot be registered.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: watch(socket, Interest::READABLE)?, full: None })
    }

    /// The socket itself.
    pub fn socket(&self) -> &UnixStream {
        self.socket.get_ref()
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(full) = &self.full {
                let mut room = ready!(full.poll_write_ready(cx))?;
                match room.try_io(|socket| write(socket.get_ref())) {
                    Ok(written) => {
                        self.full = None;
                        return Poll::Ready(written);
                    }
                    Err(_still_full) => continue,
                }
            }
            match write(self.socket.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let again = self.socket.get_ref().try_clone()?;
                    self.full = Some(watch(again, Interest::WRITABLE)?);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "unsound only for types whose descriptor may change; a std socket keeps its own"
)]
fn watch(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut readable = ready!(self.socket.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            let wanted = space.len();
            match readable.try_io(|socket| socket.get_ref().read(space)) {
                Ok(Ok(count)) => {
                    // the buffer was not filled, so everything has been read, and the next bytes are a new event
                    if 0 < count && count < wanted {
                        readable.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_nothing_there) => {}
            }
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |mut socket| socket.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |mut socket| socket.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.socket.get_ref().shutdown(Shutdown::Write) {
            // the peer was faster
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (LocalStream, LocalStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (LocalStream::new(one).unwrap(), LocalStream::new(other).unwrap())
    }

    #[tokio::test]
    async fn more_than_the_socket_holds_arrives_whole_in_both_directions() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let expected = sent.clone();
        let echo = async {
            let mut buffer = vec![0; expected.len()];
            other.read_exact(&mut buffer).await.unwrap();
            other.write_all(&buffer).await.unwrap();
            other.shutdown().await.unwrap();
        };
        let asked = async {
            one.write_all(&sent).await.unwrap();
            let mut back = Vec::new();
            one.read_to_end(&mut back).await.unwrap();
            back
        };
        let (back, ()) = tokio::join!(asked, echo);
        assert_eq!(back, expected);
        assert!(one.full.is_none() && other.full.is_none());
    }

    #[tokio::test]
    async fn many_small_messages_are_answered_one_by_one() {
        let (mut one, mut other) = pair();
        let server = tokio::spawn(async move {
            let mut message = [0; 4];
            while other.read_exact(&mut message).await.is_ok() {
                other.write_all(&message).await.unwrap();
            }
        });
        for number in 0..10_000u32 {
            one.write_all(&number.to_le_bytes()).await.unwrap();
            let mut answer = [0; 4];
            one.read_exact(&mut answer).await.unwrap();
            assert_eq!(u32::from_le_bytes(answer), number);
        }
        drop(one);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn writing_to_a_peer_that_is_gone_fails() {
        let (mut one, other) = pair();
        drop(other);
        assert_eq!(one.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(one.read(&mut [0; 8]).await.unwrap(), 0);
        one.shutdown().await.unwrap();
    }
}
