//! Connections on the framed wire: the messages of a session without HTTP/2.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::StreamExt;
use pmix_proto::frames::{Frames, PREFACE};
use pmix_proto::stream::LocalStream;
use pmix_proto::v1::ClientMessage;
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf, ReadHalf};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite};

use super::LAST_WORDS;
use super::connection::{Connection, MAX_STRANGE};
use super::peer::Shared;
use super::session::{Over, Source, session};

/// Bytes of small messages that are written together.
const TOGETHER: usize = 64 << 10;
/// Bytes read from a connection of another user before other connections have a turn.
const AT_A_TIME: usize = 16 << 10;

/// The first byte that a connection brings, which is left there; `None` if it brings nothing.
pub(super) async fn first_byte(stream: &UnixStream) -> io::Result<Option<u8>> {
    loop {
        stream.readable().await?;
        let mut first = [0];
        let peek = || Ok(rustix::net::recv(stream, &mut first, RecvFlags::PEEK)?.0);
        match stream.try_io(Interest::READABLE, peek) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(first[0])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads the preface.
///
/// # Errors
/// It is another one, or the connection ends before it is complete.
pub(super) async fn preface(stream: &mut LocalStream) -> io::Result<()> {
    let mut begun = [0; PREFACE.len()];
    stream.read_exact(&mut begun).await?;
    if begun == PREFACE {
        Ok(())
    } else {
        let problem = format!("it begins with {}", begun.escape_ascii());
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}

/// Serves the session of a connection until it ends.
pub(super) async fn serve(stream: LocalStream, connection: Arc<Connection>, shared: Arc<Shared>) {
    connection.begin_session();
    let limit = if connection.is_other() { MAX_STRANGE } else { shared.limits.message_bytes };
    let (read, write) = tokio::io::split(Measured { stream, connection: connection.clone(), read: 0 });
    let source = Source::Framed(FramedSource(FramedRead::new(read, Frames::new(limit))));
    let mut sink = FramedWrite::new(write, Frames::<ClientMessage>::new(0));
    sink.set_backpressure_boundary(TOGETHER);
    let (receiving, outgoing) = session(shared, source, connection);
    let (mut receiving, mut sending) = (pin!(receiving), pin!(outgoing.map(Ok).forward(sink)));
    tokio::select! {
        () = receiving.as_mut() => {
            // the last messages are still on their way, but the connection must not keep its place for long
            let _ = timeout(LAST_WORDS, sending).await;
        }
        // nothing can be sent any more, but what was sent is still read
        _ = sending.as_mut() => receiving.await,
    }
}

/// The messages of a process.
pub(super) struct FramedSource(FramedRead<ReadHalf<Measured>, Frames<ClientMessage>>);

impl FramedSource {
    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.0.decoder_mut().set_limit(bytes);
    }

    pub(super) async fn next(&mut self) -> Result<ClientMessage, Over> {
        match self.0.next().await {
            Some(Ok(message)) => Ok(message),
            None => Err(Over::Left),
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Over::Broke(error.to_string()))
            }
            Some(Err(error)) => Err(Over::Failed(error.to_string())),
        }
    }
}

/// A stream limited to what its connection may send, which tells its connection when the process has read something.
#[derive(Debug)]
struct Measured {
    stream: LocalStream,
    connection: Arc<Connection>,
    /// Bytes read since other connections had a turn.
    read: usize,
}

impl AsyncRead for Measured {
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
        let bytes = buffer.filled().len() - before;
        self.read += bytes;
        // a read that fails brings nothing
        Poll::Ready(self.connection.takes_bytes(bytes).inspect_err(|_| buffer.set_filled(before)))
    }
}

impl AsyncWrite for Measured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.connection.has_read();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.connection.has_read();
        Poll::Ready(Ok(written))
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
    use std::os::unix::net::UnixStream as Socket;
    use std::time::Duration;

    use pmix_engine::PeerCred;
    use pmix_proto::v1::ServerMessage;
    use tokio::io::AsyncWriteExt;
    use tokio::time::{Instant, sleep_until};

    use super::super::connection::GrpcLine;
    use super::*;
    use crate::door::Door;

    const PATIENCE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    /// The other end of a connection of this user, and the connection.
    fn connected(uid: u32) -> (Socket, Measured) {
        let (there, here) = Socket::pair().unwrap();
        let guest = Door::new(true).enter(uid).unwrap();
        let connection = Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest));
        (there, Measured { stream: LocalStream::new(here).unwrap(), connection, read: 0 })
    }

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_large_message_slowly_is_not_disconnected_and_who_stops_is() {
        let (_there, mut measured) = connected(own());
        let line = GrpcLine::new(PATIENCE);
        measured.connection.speaks_on(Arc::clone(&line));
        line.send(ServerMessage::default(), 1 << 20);
        let pieces = async {
            for _ in 0..5 {
                sleep_until(Instant::now() + PATIENCE - SECOND).await;
                measured.write_all(b"piece").await.unwrap();
            }
        };
        tokio::select! {
            () = line.stalled() => panic!("it reads"),
            () = pieces => {}
        }
        line.stalled().await;
    }

    #[tokio::test]
    async fn who_is_not_let_in_brings_few_bytes_unless_it_is_our_own_user() {
        use std::io::Write;
        for (uid, is_bounded) in [(own(), false), (own() + 4001, true)] {
            let (mut there, mut measured) = connected(uid);
            let sender = std::thread::spawn(move || there.write_all(&vec![0; MAX_STRANGE + 1]));
            let mut all = Vec::new();
            let read = measured.read_to_end(&mut all).await;
            assert_eq!(read.is_err(), is_bounded, "{read:?}");
            assert_eq!(all.len() > MAX_STRANGE, !is_bounded, "{}", all.len());
            drop(measured);
            let _ = sender.join();
        }
    }

    #[tokio::test]
    async fn the_first_byte_stays_where_it_is() {
        use std::io::Write;
        let (mut there, here) = Socket::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(here).unwrap();
        let mut waiting = Box::pin(first_byte(&stream));
        assert!(futures::poll!(&mut waiting).is_pending());
        there.write_all(&PREFACE).unwrap();
        assert_eq!(waiting.await.unwrap(), Some(0));
        assert_eq!(first_byte(&stream).await.unwrap(), Some(0));
        let mut stream = LocalStream::new(stream.into_std().unwrap()).unwrap();
        preface(&mut stream).await.unwrap();
        drop(there);
        assert_eq!(preface(&mut stream).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (there, here) = Socket::pair().unwrap();
        drop(there);
        here.set_nonblocking(true).unwrap();
        assert_eq!(first_byte(&UnixStream::from_std(here).unwrap()).await.unwrap(), None);
    }
}
