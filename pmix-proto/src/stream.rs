//! A Unix stream without spurious wake-ups.
//!
//! tokio's own stream registers for readiness to read *and* to write. On a Unix socket that means another wake-up for each
//! message, when the peer has read it and there is room again, although nobody waits for room. A process that waits for a
//! reply would be scheduled twice. This stream registers for readiness to read, and for readiness to write only while a
//! write finds the socket full.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::thread;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// How often a full socket is tried again while there is no file descriptor with which to wait for room.
const PAUSE: Duration = Duration::from_millis(20);

/// One end of a local connection, for tokio.
#[derive(Debug)]
pub struct LocalStream {
    reader: LocalReader,
    writer: LocalWriter,
}

impl LocalStream {
    /// Wraps a connected socket. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The error of the operating system if the socket cannot be registered.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(watch(socket, Interest::READABLE)?);
        Ok(Self {
            reader: LocalReader { socket: Arc::clone(&socket), takes_files: false, file: None },
            writer: LocalWriter { socket, full: None },
        })
    }

    /// The socket itself.
    pub fn socket(&self) -> &UnixStream {
        self.writer.socket.get_ref()
    }

    /// The two directions. The connection is closed when both are dropped.
    pub fn into_split(self) -> (LocalReader, LocalWriter) {
        (self.reader, self.writer)
    }
}

/// The receiving half of a [`LocalStream`].
#[derive(Debug)]
pub struct LocalReader {
    socket: Arc<AsyncFd<UnixStream>>,
    takes_files: bool,
    /// The last file that came and was not taken.
    file: Option<OwnedFd>,
}

impl LocalReader {
    /// Accepts files that the peer hands over. By default, they are closed as they come.
    pub const fn accept_files(&mut self) {
        self.takes_files = true;
    }

    /// Takes the file that came with the last bytes read. A read brings at most one file, and bytes sent after it come only
    /// with the next read.
    ///
    /// `None` if there was none, or if this process has no file descriptor left.
    pub const fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take()
    }

    fn receive(socket: &UnixStream, space: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let came = recvmsg(socket, &mut [IoSliceMut::new(space)], &mut beside, flags)?;
        let file = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((came.bytes, file))
    }
}

/// The sending half of a [`LocalStream`].
#[derive(Debug)]
pub struct LocalWriter {
    socket: Arc<AsyncFd<UnixStream>>,
    /// The same socket again, only while a write waits for room.
    full: Option<AsyncFd<UnixStream>>,
}

impl LocalWriter {
    /// A handle that writes without waiting.
    pub fn handle(&self) -> LocalHandle {
        LocalHandle(Arc::downgrade(&self.socket))
    }

    /// Writes some of `bytes` and hands a file over with them. Returns how many bytes were written: at least one.
    ///
    /// # Errors
    /// The error of the operating system; then neither bytes nor file were sent.
    ///
    /// # Cancel safety
    /// Safe: nothing is sent unless the future completes.
    pub async fn write_with_file(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
        poll_fn(|context| {
            self.poll_write_with(context, |socket| {
                let files = [file];
                let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
                let mut beside = SendAncillaryBuffer::new(&mut room);
                // there is room for one
                beside.push(SendAncillaryMessage::ScmRights(&files));
                Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?)
            })
        })
        .await
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
                    let again = self.socket.get_ref().try_clone();
                    match again.and_then(|again| watch(again, Interest::WRITABLE)) {
                        Ok(full) => self.full = Some(full),
                        Err(error) if is_shortage(&error) => {
                            wake_later(cx.waker().clone())?;
                            return Poll::Pending;
                        }
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// Writes to a [`LocalStream`] what its socket takes at once, or ends it. Does not keep the stream open.
///
/// Whoever writes with it makes sure that no write of the [`LocalWriter`] is under way.
#[derive(Clone, Debug)]
pub struct LocalHandle(Weak<AsyncFd<UnixStream>>);

impl LocalHandle {
    /// Writes some of `bytes`, and returns how many; 0 if the socket is full, closed or has failed. The next write of the
    /// [`LocalWriter`] reports an error.
    pub fn try_write(&self, bytes: &[u8]) -> usize {
        self.0.upgrade().and_then(|socket| socket.get_ref().write(bytes).ok()).unwrap_or_default()
    }

    /// Ends the connection in both directions. What has come is still read.
    pub fn shut_down(&self) {
        // one that the peer has ended needs no more
        let _ = self.0.upgrade().map(|socket| socket.get_ref().shutdown(Shutdown::Both));
    }
}

/// Whether a resource of the process or the system has run out, which may change.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::NOSPC];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Wakes a task after a while. Not by a timer, which its runtime may lack.
fn wake_later(waker: Waker) -> io::Result<()> {
    thread::Builder::new().name("pmix pause".into()).spawn(move || {
        thread::park_timeout(PAUSE);
        waker.wake();
    })?;
    Ok(())
}

#[expect(
    deprecated,
    reason = "unsound only for types whose descriptor may change; a std socket keeps its own"
)]
fn watch(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsyncRead for LocalReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, takes_files, file } = self.get_mut();
        loop {
            let mut readable = ready!(socket.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            let wanted = space.len();
            let read = readable.try_io(|socket| {
                if *takes_files {
                    Self::receive(socket.get_ref(), space)
                } else {
                    socket.get_ref().read(space).map(|count| (count, None))
                }
            });
            match read {
                Ok(Ok((count, came))) => {
                    // The buffer was not filled, so everything has been read, and the next bytes are a new event. Only a
                    // file ends a read early.
                    if came.is_none() && 0 < count && count < wanted {
                        readable.clear_ready();
                    }
                    buffer.advance(count);
                    if came.is_some() {
                        *file = came;
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_nothing_there) => {}
            }
        }
    }
}

impl AsyncWrite for LocalWriter {
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

impl AsyncRead for LocalStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use pmix_test_wait::is_alone;
    use rustix::process::{Resource, Rlimit, setrlimit};
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
        assert!(one.writer.full.is_none() && other.writer.full.is_none());
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
    async fn a_file_comes_with_its_bytes_and_what_follows_comes_later() {
        let (one, other) = pair();
        let (mut one, mut other) = (one.into_split().1, other.into_split().0);
        other.accept_files();
        let held = tempfile::tempfile().unwrap();
        held.write_all_at(b"what it holds", 0).unwrap();
        let mut buffer = [0; 64];
        for _ in 0..3 {
            one.write_all(b"before ").await.unwrap();
            assert_eq!(one.write_with_file(b"with", held.as_fd()).await.unwrap(), 4);
            one.write_all(b" after").await.unwrap();
            let mut arrived = Vec::new();
            let came = loop {
                let count = other.read(&mut buffer).await.unwrap();
                arrived.extend_from_slice(&buffer[..count]);
                if let Some(file) = other.take_file() {
                    break File::from(file);
                }
            };
            assert_eq!(arrived, b"before with");
            assert!(other.take_file().is_none());
            let mut content = [0; 13];
            came.read_exact_at(&mut content, 0).unwrap();
            assert_eq!(&content, b"what it holds");
            // although a read ended early, the rest is found without another wake-up
            other.read_exact(&mut buffer[..6]).await.unwrap();
            assert_eq!(&buffer[..6], b" after");
        }
    }

    #[tokio::test]
    async fn files_are_closed_by_who_does_not_accept_them() {
        let (one, other) = pair();
        let (mut one, mut other) = (one.into_split().1, other.into_split().0);
        let (end, given) = io::pipe().unwrap();
        one.write_with_file(b"x", given.as_fd()).await.unwrap();
        drop(given);
        other.read_exact(&mut [0]).await.unwrap();
        assert!(other.take_file().is_none());
        // nobody holds the other end any more
        assert_eq!(io::read_to_string(end).unwrap(), "");
    }

    #[tokio::test]
    async fn a_full_socket_is_written_to_again_when_no_file_can_be_opened() {
        if !is_alone(a_full_socket_is_written_to_again_when_no_file_can_be_opened) {
            return;
        }
        let (mut one, mut other) = pair();
        let limit = Rlimit { current: Some(64), maximum: Some(64) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!held.is_empty());
        let sent = vec![7; 4 << 20];
        let mut read = vec![0; sent.len()];
        let (written, all) = tokio::join!(one.write_all(&sent), other.read_exact(&mut read));
        written.unwrap();
        all.unwrap();
        assert_eq!(read, sent);
    }

    #[tokio::test]
    async fn both_ends_hear_of_one_that_is_shut_down_and_what_has_come_is_read() {
        let (mut one, mut other) = pair();
        other.write_all(b"before").await.unwrap();
        let handle = one.writer.handle();
        handle.shut_down();
        let mut come = Vec::new();
        one.read_to_end(&mut come).await.unwrap();
        assert_eq!(come, b"before");
        assert_eq!(other.read(&mut [0; 8]).await.unwrap(), 0);
        drop(one);
        handle.shut_down();
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
