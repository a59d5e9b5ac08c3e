//! Connections on the framed wire: the messages of a session without HTTP/2.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures::{FutureExt, SinkExt, Stream, StreamExt};
use pmix_proto::EncodedBody;
use pmix_proto::frames::{Frames, PREFACE};
use pmix_proto::stream::{LocalReader, LocalStream, LocalWriter};
use pmix_proto::v1::{ClientMessage, ServerMessage};
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::codec::{Encoder, FramedRead, FramedWrite};

use super::LAST_WORDS;
use super::connection::{Connection, MAX_STRANGE, Outbound};
use super::files::Filed;
use super::peer::LocalShared;
use super::session::{Over, Source, session};

/// What is read at a time at least: more than most requests take. A server has as many of these buffers as processes.
const READ_BYTES: usize = 2 << 10;
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
pub(super) async fn serve(stream: LocalStream, connection: Arc<Connection>, shared: Arc<LocalShared>) {
    connection.begin_session();
    let limit = if connection.is_other() { MAX_STRANGE } else { shared.limits.message_bytes };
    let (reader, writer) = stream.into_split();
    let socket = writer.handle();
    connection.writes_frames(socket.clone());
    let reader = Measured { reader, connection: connection.clone(), read: 0 };
    let writer = Progressing { writer, connection: connection.clone() };
    let messages = FramedRead::with_capacity(reader, Frames::new(limit), READ_BYTES);
    let source = Source::Framed(FramedSource(messages));
    let (receiving, outgoing) = session(shared, source, connection);
    let (mut receiving, mut sending) = (pin!(receiving), pin!(send_all(outgoing, writer)));
    tokio::select! {
        () = receiving.as_mut() => {
            // the last messages are still on their way, but the connection must not keep its place for long
            let _ = timeout(LAST_WORDS, sending).await;
        }
        // nothing can be sent any more, but what was sent is still read
        sent = sending.as_mut() => {
            if let Err(error) = sent {
                tracing::debug!(%error, "nothing more can be sent to a process");
                // it would wait for answers
                socket.shut_down();
            }
            receiving.await;
        }
    }
}

/// Writes what goes to a process, and says at the end that nothing follows.
async fn send_all(outgoing: impl Stream<Item = Outbound>, writer: Progressing) -> io::Result<()> {
    let connection = writer.connection.clone();
    let mut outgoing = pin!(outgoing);
    // no buffer yet, because most messages are written by those who send them
    let mut sink = FramedWrite::with_capacity(writer, Frames::<ClientMessage>::new(0), 0);
    sink.set_backpressure_boundary(TOGETHER);
    loop {
        // messages that wait are written together
        let next = match outgoing.next().now_or_never() {
            Some(next) => next,
            None => {
                SinkExt::<ServerMessage>::flush(&mut sink).await?;
                // until it takes the next one, messages are written by those who send them
                connection.set_writing(false);
                outgoing.next().await
            }
        };
        connection.set_writing(true);
        match next {
            Some(Outbound::Frame(frame)) => {
                sink.write_buffer_mut().extend_from_slice(&frame);
                if sink.write_buffer().len() >= TOGETHER {
                    SinkExt::<ServerMessage>::flush(&mut sink).await?;
                }
            }
            Some(Outbound::Message(message)) => sink.feed(message).await?,
            Some(Outbound::Fence { id, body, file }) => hand_over(&mut sink, id, &body, &file).await?,
            None => {
                SinkExt::<ServerMessage>::flush(&mut sink).await?;
                return sink.get_mut().shutdown().await;
            }
        }
    }
}

type Writing = FramedWrite<Progressing, Frames<ClientMessage>>;

/// Answers a fence with a file. If it cannot be handed over, the process asks for the data that it needs.
async fn hand_over(sink: &mut Writing, id: u64, body: &EncodedBody, file: &Filed) -> io::Result<()> {
    // the file belongs to the message that comes with it
    SinkExt::<ServerMessage>::flush(sink).await?;
    for message in body.messages(id) {
        let mut frame = BytesMut::new();
        sink.encoder_mut().encode(message, &mut frame)?;
        let beside = match file.given() {
            Some(given) => sink.get_mut().write_with_file(&frame, given.as_fd()).await,
            None => Ok(0),
        };
        let written = beside.unwrap_or_else(|error| {
            // such as too many files on their way
            tracing::debug!(%error, "a file with collected data cannot be handed over");
            0
        });
        sink.get_mut().write_all(&frame[written..]).await?;
    }
    Ok(())
}

/// The messages of a process.
pub(super) struct FramedSource(FramedRead<Measured, Frames<ClientMessage>>);

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

/// The receiving half of a stream, limited to what its connection may send.
#[derive(Debug)]
struct Measured {
    reader: LocalReader,
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
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        self.read += bytes;
        // a read that fails brings nothing
        Poll::Ready(self.connection.takes_bytes(bytes).inspect_err(|_| buffer.set_filled(before)))
    }
}

/// The sending half of a stream, which tells its connection when the process has read something.
#[derive(Debug)]
struct Progressing {
    writer: LocalWriter,
    connection: Arc<Connection>,
}

impl Progressing {
    async fn write_with_file(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
        let written = self.writer.write_with_file(bytes, file).await?;
        self.connection.has_read();
        Ok(written)
    }
}

impl AsyncWrite for Progressing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.writer).poll_write(context, bytes))?;
        self.connection.has_read();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.writer).poll_write_vectored(context, slices))?;
        self.connection.has_read();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as Socket;
    use std::time::Duration;

    use pmix_engine::{PeerCred, RequestId};
    use pmix_proto::{Assembler, Limits, ServerBody};
    use pmix_types::message::{CollectedFile, Reply};
    use pmix_types::{Info, Uid, Value};

    use super::super::connection::GrpcLine;
    use super::super::files::Files;
    use super::super::peer::GrpcPeer;
    use super::*;
    use crate::account::own_uid;
    use crate::account::tests::another_uid;
    use crate::door::Door;
    use crate::inbox::{Inbox, Peer};

    const PATIENCE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    /// The other end of a connection of this user, and the connection.
    fn connected(uid: Uid) -> (Socket, Measured, Progressing) {
        let (there, here) = Socket::pair().unwrap();
        let guest = Door::new(true).enter(uid).unwrap();
        let connection = Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest));
        let (reader, writer) = LocalStream::new(here).unwrap().into_split();
        let measured = Measured { reader, connection: connection.clone(), read: 0 };
        (there, measured, Progressing { writer, connection })
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_large_message_slowly_is_not_disconnected_and_who_stops_is() {
        let (_there, _, mut writer) = connected(own_uid());
        let line = GrpcLine::new(PATIENCE, Arc::default());
        writer.connection.speaks_on(Arc::clone(&line));
        line.send(Outbound::Message(ServerMessage::default()), 1 << 20);
        let pieces = async {
            let mut pace = tokio::time::interval(PATIENCE - SECOND);
            for _ in 0..5 {
                pace.tick().await;
                writer.write_all(b"piece").await.unwrap();
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
        for (uid, is_bounded) in [(own_uid(), false), (another_uid(), true)] {
            let (mut there, mut measured, writer) = connected(uid);
            let sender = std::thread::spawn(move || there.write_all(&vec![0; MAX_STRANGE + 1]));
            let mut all = Vec::new();
            let read = measured.read_to_end(&mut all).await;
            assert_eq!(read.is_err(), is_bounded, "{read:?}");
            assert_eq!(all.len() > MAX_STRANGE, !is_bounded, "{}", all.len());
            drop((measured, writer));
            let _ = sender.join();
        }
    }

    #[tokio::test]
    async fn each_file_comes_with_its_answer_and_one_that_was_emptied_not_at_all() {
        let (there, _measured, writer) = connected(own_uid());
        let mut files = Files::default();
        let mut outgoing = Vec::new();
        let done = |id| EncodedBody::reply(&Reply::Done).messages(id).map(Outbound::Message);
        let contents = [vec![1; 100], vec![2; 300], vec![3; 200]];
        for (id, content) in (1..).zip(&contents) {
            outgoing.extend(done(id * 10));
            let body = EncodedBody::fence_file(content.len() as u64, (id, id + 1));
            outgoing.push(Outbound::Fence { id, body, file: files.add(content, own_uid()).unwrap() });
        }
        let lost = Files::default().add(b"it goes at once", own_uid()).unwrap();
        let body = EncodedBody::fence_file(15, (4, 5));
        outgoing.extend([Outbound::Fence { id: 4, body, file: lost }]);
        outgoing.extend(done(40));

        let mut reader = LocalStream::new(there).unwrap().into_split().0;
        reader.accept_files();
        let mut messages = FramedRead::new(reader, Frames::<ServerMessage>::new(1000));
        let mut assembler = Assembler::new(Limits::default());
        let reading = async {
            let mut found = Vec::new();
            while let Some(message) = messages.next().await {
                let (id, body) = assembler.accept_server(message.unwrap()).unwrap().unwrap();
                match body {
                    ServerBody::FenceFile { bytes, since, generation } => {
                        assert_eq!((since, generation), (id, id + 1));
                        let file = messages.get_mut().take_file().map(Into::into);
                        found.push((id, CollectedFile::new(file, bytes).read().unwrap_or_default().to_vec()));
                    }
                    ServerBody::Reply(Reply::Done) => found.push((id, Vec::new())),
                    other => panic!("{other:?}"),
                }
            }
            found
        };
        let (sent, found) = tokio::join!(send_all(futures::stream::iter(outgoing), writer), reading);
        sent.unwrap();
        let mut expected = Vec::new();
        for (id, content) in (1..).zip(contents) {
            expected.extend([(id * 10, Vec::new()), (id, content)]);
        }
        expected.extend([(4, Vec::new()), (40, Vec::new())]);
        assert_eq!(found, expected);
    }

    /// Frames that are written at once, frames that wait because the socket is full, and files.
    #[tokio::test]
    async fn messages_arrive_in_order_whoever_writes_them() {
        let (there, here) = Socket::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&here, 4096).unwrap();
        let inbox = Inbox::new(PATIENCE).0;
        let line = inbox.new_line(own_uid());
        let guest = Door::new(true).enter(own_uid()).unwrap();
        let cred = PeerCred { uid: own_uid(), gid: None, pid: None };
        let connection = Arc::new(Connection::new(cred, guest));
        let (_reader, writer) = LocalStream::new(here).unwrap().into_split();
        connection.writes_frames(writer.handle());
        let shared = Arc::new(LocalShared::new(inbox, Limits::default(), Door::new(true)));
        let mut peer = GrpcPeer::new(shared, connection.clone(), line.clone(), 1, true).0;
        let writer = Progressing { writer, connection };

        const MESSAGES: u64 = 400;
        let sending = async {
            for id in 0..MESSAGES {
                line.begin(id, 1).unwrap();
                // from a few bytes to more than the socket and the join of frames take
                let bytes = [1, 700, 90_000, 3, 12_000, 5][(id % 6) as usize];
                let info = Info::dynamic("data".parse().unwrap(), Value::ByteObject(vec![1; bytes].into()));
                peer.reply(RequestId(id), Ok(Reply::Info(vec![info])));
                if id % 5 == 0 {
                    pmix_test_wait::turn().await;
                }
            }
            drop(peer);
        };
        let outgoing = futures::stream::unfold(line.clone(), async |line| {
            let (message, bytes) = line.next().await?;
            line.sent(bytes);
            Some((message, line))
        });
        let reading = async {
            let reader = LocalStream::new(there).unwrap().into_split().0;
            let messages = FramedRead::new(reader, Frames::<ServerMessage>::new(1 << 20));
            messages.map(|message| message.unwrap().id).collect::<Vec<_>>().await
        };
        let (sent, (), ids) = tokio::join!(send_all(outgoing, writer), sending, reading);
        sent.unwrap();
        assert_eq!(ids, (0..MESSAGES).collect::<Vec<_>>());
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
