//! A session without the client library: for what no proper client says.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{Response, Uri};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmix_client::types::Query;
use pmix_proto::frames::{Frames, PREFACE};
use pmix_proto::v1::queries_client::QueriesClient;
use pmix_proto::v1::session_client::SessionClient;
use pmix_proto::v1::{ClientMessage, QueryInfo, QueryReply, ServerMessage};
use pmix_proto::{Assembler, Limits, ServerBody};
use pmix_test_wait::until;
use pmix_types::message::{Failure, Hello, Identity, Reply, Request};
use pmix_types::{Pid, ProcId};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::codec::{FramedRead, FramedWrite};
use tonic::body::Body;

use crate::wires::{TestedWire, tested_wire};
use crate::within;

/// A session in raw messages, on the wire that is tested.
#[derive(Debug)]
pub struct RawSession {
    /// What is sent here goes out as it is; dropped, the sending side ends.
    pub outgoing: mpsc::UnboundedSender<ClientMessage>,
    incoming: Incomings,
    assembler: Assembler,
}

#[derive(Debug)]
enum Incomings {
    Grpc {
        messages: tonic::Streaming<ServerMessage>,
        /// Held, so that it is the server who closes it.
        connection: SendRequest<Body>,
    },
    Framed {
        messages: FramedRead<OwnedReadHalf, Frames<ServerMessage>>,
        watch: AsyncFd<std::os::unix::net::UnixStream>,
    },
}

impl RawSession {
    /// Opens a session as this process, which is let in.
    pub async fn join(socket: &Path, proc: ProcId) -> Self {
        let hello = Hello::new(Identity::Client(proc), Pid(1));
        let mut session = Self::open(socket, pmix_proto::encode_hello(&hello)).await.unwrap();
        assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
        session
    }

    /// Sends a request, and returns what is answered next.
    ///
    /// # Errors
    /// The failure of the request.
    pub async fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        pmix_proto::encode_request(1, request).for_each(|message| self.outgoing.send(message).unwrap());
        match self.next().await.unwrap().unwrap() {
            (_, ServerBody::Reply(reply)) => Ok(reply),
            (_, ServerBody::Failure(failure)) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    /// Opens a session with these first messages.
    ///
    /// # Errors
    /// That of the call.
    pub async fn open(
        socket: &Path,
        first: impl IntoIterator<Item = ClientMessage>,
    ) -> Result<Self, tonic::Status> {
        let first = first.into_iter().collect();
        match tested_wire() {
            TestedWire::Grpc => Self::open_as(socket, first, |body| body).await,
            TestedWire::Framed | TestedWire::Native => Ok(Self::open_framed(socket, first).await),
        }
    }

    async fn open_framed(socket: &Path, first: Vec<ClientMessage>) -> Self {
        let socket = UnixStream::connect(socket).await.unwrap().into_std().unwrap();
        let watch = || {
            #[expect(deprecated, reason = "the other constructor is of a later release than we allow")]
            AsyncFd::with_interest(socket.try_clone().unwrap(), Interest::READABLE).unwrap()
        };
        let (watch, watched) = (watch(), watch());
        let (read, write) = UnixStream::from_std(socket).unwrap().into_split();
        let mut sink = FramedWrite::new(write, Frames::<ServerMessage>::new(0));
        sink.write_buffer_mut().extend_from_slice(&PREFACE);
        let (outgoing, messages) = mpsc::unbounded_channel();
        let messages = stream::iter(first).chain(UnboundedReceiverStream::new(messages));
        tokio::spawn(async move {
            tokio::select! {
                _ = messages.map(Ok).forward(&mut sink) => {}
                () = hung_up(&watched) => {}
            }
        });
        let messages = FramedRead::new(read, Frames::new(Limits::default().message_bytes));
        let incoming = Incomings::Framed { messages, watch };
        Self { outgoing, incoming, assembler: Assembler::new(Limits::default()) }
    }

    /// Opens a session that sends these bytes in place of gRPC messages, and nothing after them.
    ///
    /// # Errors
    /// That of the call.
    pub async fn open_with_bytes(socket: &Path, bytes: impl Into<Bytes>) -> Result<Self, tonic::Status> {
        let bytes = bytes.into();
        Self::open_as(socket, Vec::new(), move |_| Body::new(Unfinished(Some(bytes.clone())))).await
    }

    async fn open_as(
        socket: &Path,
        first: Vec<ClientMessage>,
        change: impl Fn(Body) -> Body,
    ) -> Result<Self, tonic::Status> {
        let connection = connect(socket).await;
        let requests = connection.clone();
        let service =
            tower::service_fn(|request: http::Request<Body>| send(requests.clone(), request.map(&change)));
        let mut client = SessionClient::with_origin(service, Uri::from_static("http://localhost"))
            .max_encoding_message_size(usize::MAX);
        let (outgoing, messages) = mpsc::unbounded_channel();
        let messages = stream::iter(first).chain(UnboundedReceiverStream::new(messages));
        let messages = within(client.connect(messages)).await?.into_inner();
        let incoming = Incomings::Grpc { messages, connection };
        Ok(Self { outgoing, incoming, assembler: Assembler::new(Limits::default()) })
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(&self) {
        match &self.incoming {
            Incomings::Grpc { connection, .. } => {
                until("the connection is closed", || connection.is_closed()).await;
            }
            Incomings::Framed { watch, .. } => within(hung_up(watch)).await,
        }
    }

    /// The next body with its id; `None` at the end.
    ///
    /// # Errors
    /// That of the stream.
    pub async fn next(&mut self) -> Result<Option<(u64, ServerBody)>, tonic::Status> {
        loop {
            let message = match &mut self.incoming {
                Incomings::Grpc { messages, .. } => within(messages.next()).await.transpose()?,
                Incomings::Framed { messages, .. } => within(messages.next()).await.transpose()?,
            };
            let Some(message) = message else { return Ok(None) };
            if let Some(body) = self.assembler.accept_server(message).unwrap() {
                return Ok(Some(body));
            }
        }
    }
}

/// Returns when the other end has closed the connection.
async fn hung_up(socket: &AsyncFd<std::os::unix::net::UnixStream>) {
    loop {
        let mut readable = socket.readable().await.unwrap();
        if readable.ready().is_read_closed() {
            return;
        }
        readable.clear_ready();
    }
}

/// Asks by the unary call for foreign tools.
///
/// # Errors
/// That of the call.
pub async fn query_once(socket: &Path, queries: &[Query]) -> Result<QueryReply, tonic::Status> {
    let connection = connect(socket).await;
    let service = tower::service_fn(|request: http::Request<Body>| send(connection.clone(), request));
    let mut client = QueriesClient::with_origin(service, Uri::from_static("http://localhost"));
    Ok(client.query(QueryInfo { queries: queries.iter().map(Into::into).collect() }).await?.into_inner())
}

/// Opens a connection and on it as many calls as it may have, each a query of 4 MiB without its last byte; returns when
/// the server has closed the connection.
pub async fn hoard(socket: &Path) {
    let (connection, served) = open(socket).await;
    let mut query = BytesMut::zeroed(5 + (4 << 20) - 1);
    query[1..5].copy_from_slice(&(4_u32 << 20).to_be_bytes());
    let query = query.freeze();
    for _ in 0..8 {
        let request = http::Request::post("http://localhost/pmix.v1.Queries/Query")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Unfinished(Some(query.clone()))))
            .unwrap();
        // whatever it is answered
        tokio::spawn(send(connection.clone(), request));
    }
    // held, so that it is the server who closes it
    let _ = served.await;
    drop(connection);
}

/// A body that begins with these bytes and never ends.
struct Unfinished(Option<Bytes>);

impl hyper::body::Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// Opens an HTTP/2 connection.
async fn connect(socket: &Path) -> SendRequest<Body> {
    open(socket).await.0
}

/// The same, with what ends when it is closed.
async fn open(socket: &Path) -> (SendRequest<Body>, JoinHandle<()>) {
    let stream = UnixStream::connect(socket).await.unwrap();
    let builder = http2::Builder::new(TokioExecutor::new());
    let (connection, driver) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let served = tokio::spawn(async move { drop(driver.await) });
    (connection, served)
}

async fn send(
    mut connection: SendRequest<Body>,
    request: http::Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    connection.send_request(request).await
}

/// The same bytes with another text in place of this one: for what no type of ours can hold.
///
/// # Panics
/// If the text is not in there, or the other has not as many bytes.
pub fn forged(bytes: &[u8], text: &str, by: &str) -> Vec<u8> {
    assert_eq!(text.len(), by.len(), "lengths are part of a message");
    let at = bytes.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
    let mut forged = bytes.to_vec();
    forged[at..at + by.len()].copy_from_slice(by.as_bytes());
    forged
}

/// So many bytes that mean nothing, the same each time.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
