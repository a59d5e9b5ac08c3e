//! The bodies of calls: what comes is limited, what goes is followed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::super::connection::{Connection, PIECE, too_many_bytes};

/// The body of a call, limited to what its connection may send.
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
            Err(tonic::Status::resource_exhausted(too_many_bytes()).into())
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of the messages to a process, in pieces that show how much of a large message has been read: HTTP/2 requests the
/// next piece when the other end has room for it.
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

    use pmix_engine::PeerCred;
    use pmix_proto::v1::ServerMessage;
    use pmix_types::Uid;

    use super::super::super::connection::{GrpcLine, Outbound};
    use super::*;
    use crate::account::tests::another_uid;
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

    fn connection(uid: Uid) -> Arc<Connection> {
        let guest = Door::new(true).enter(uid).unwrap();
        Arc::new(Connection::new(PeerCred { uid, gid: None, pid: None }, guest))
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_large_part_in_pieces_is_not_disconnected_and_loses_none_of_it() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let connection = connection(another_uid());
        let line = GrpcLine::new(PATIENCE, Arc::default());
        connection.speaks_on(Arc::clone(&line));
        line.send(Outbound::Message(ServerMessage::default()), 1 << 20);
        let part: Bytes = (0..(1_u32 << 20) + 7).map(|byte| byte as u8).collect();
        let mut body = Paced::new(Whole(Some(part.clone())), connection);
        let read = async {
            let mut read = Vec::new();
            let mut pace = tokio::time::interval(PATIENCE - SECOND);
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE, "{}", piece.len());
                read.extend_from_slice(&piece);
                pace.tick().await;
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
}
