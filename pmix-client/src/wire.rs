//! The one file that names generated clients and protobuf messages: a stream of typed messages each way.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use pmix_proto::frames::{self, Frames};
use pmix_proto::stream::{LocalReader, LocalStream};
use pmix_proto::v1::{ClientMessage, ServerMessage};
use pmix_proto::{Assembler, ConvertError, Limits, Reason, ServerBody, negotiate};
use pmix_types::Status;
use pmix_types::message::{Collected, CollectedFile, Failure, Fenced, Hello, Modex, Reply, Welcome};
use tokio::sync::oneshot;
use tokio_util::codec::{FramedRead, FramedWrite};

use crate::connection::{Deliverer, Incoming, Outgoing};
use crate::error::Error;

/// The server's half of a conversation.
#[derive(Debug)]
pub(crate) struct Inbound {
    messages: Messages,
    assembler: Assembler,
    limits: Limits,
    /// A message has come.
    has_heard: bool,
}

#[derive(Debug)]
enum Messages {
    #[cfg(feature = "grpc")]
    Grpc(tonic::Streaming<ServerMessage>),
    Framed(FramedRead<LocalReader, Frames<ServerMessage>>),
}

impl Messages {
    /// The next one; `None` at the end. Cancel safe.
    async fn next(&mut self) -> Result<Option<ServerMessage>, Failure> {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc(stream) => {
                stream.message().await.map_err(|status| pmix_proto::grpc_status::from_grpc(&status))
            }
            Self::Framed(stream) => stream.next().await.transpose().map_err(|error| {
                Failure::new(Status::ERR_COMM_FAILURE, format!("the connection failed: {error}"))
            }),
        }
    }

    /// The file that came with the last message.
    fn take_file(&mut self) -> Option<OwnedFd> {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc(_) => None,
            Self::Framed(stream) => stream.get_mut().take_file(),
        }
    }
}

/// Everything that a process says, in order.
pub(crate) fn all_of(
    hello: &Hello,
    requests: impl Stream<Item = Outgoing> + Send + 'static,
) -> impl Stream<Item = ClientMessage> + Send + 'static {
    let greeting = stream::iter(pmix_proto::encode_hello(hello));
    greeting.chain(requests.flat_map(|Outgoing { id, request }| {
        let messages: Vec<_> = pmix_proto::encode_request(id, &request).collect();
        stream::iter(messages)
    }))
}

/// Opens the conversation on the framed wire. The second value sends hello, then what `requests` yields: it must be polled
/// for anything to be sent, and ends with the conversation.
pub(crate) fn open_framed(
    socket: LocalStream,
    hello: &Hello,
    limits: Limits,
    requests: impl Stream<Item = Outgoing> + Send + 'static,
) -> (Inbound, impl Future<Output = ()> + Send + 'static) {
    let (mut reader, writer) = socket.into_split();
    let socket = writer.handle();
    reader.accept_files();
    let messages = Messages::Framed(FramedRead::new(reader, Frames::new(limits.message_bytes)));
    let mut sink = FramedWrite::new(writer, Frames::<ServerMessage>::new(limits.message_bytes));
    sink.write_buffer_mut().extend_from_slice(&frames::PREFACE);
    let sent = all_of(hello, requests).map(Ok).forward(sink);
    let sending = async move {
        // the receiving side says why the connection has ended, or else it would wait for answers
        if let Err(error) = sent.await {
            tracing::debug!(%error, "connection ended");
            socket.shut_down();
        }
    };
    (Inbound { messages, assembler: Assembler::new(limits), limits, has_heard: false }, sending)
}

/// What a fence has collected.
pub(crate) fn read_collected(collected: Collected) -> Result<Modex, String> {
    let encoded = match collected {
        Collected::Held(modex) => return Ok(Arc::unwrap_or_clone(modex)),
        Collected::Encoded(encoded) => encoded,
        Collected::File(file) => file.read().map_err(|error| error.to_string())?,
    };
    read_modex(encoded).map_err(|error| error.to_string())
}

/// What a server has sent of a process.
pub(crate) fn read_modex(bytes: Bytes) -> Result<Modex, ConvertError> {
    pmix_proto::modex::decode(bytes)
}

impl Inbound {
    #[cfg(feature = "grpc")]
    pub(crate) fn by_grpc(messages: tonic::Streaming<ServerMessage>, limits: Limits) -> Self {
        Self {
            messages: Messages::Grpc(messages),
            assembler: Assembler::new(limits),
            limits,
            has_heard: false,
        }
    }

    /// Whether the server has said anything.
    pub(crate) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// The server's answer to the hello.
    pub(crate) async fn welcome(&mut self) -> Result<Welcome, Error> {
        match self.body().await {
            Ok(Some((0, Ok(ServerBody::Welcome { welcome, version, implementation, .. })))) => {
                negotiate(version..=version, &implementation)
                    .map_err(|error| Error::protocol(error.to_string()))?;
                tracing::debug!(version, implementation, "connected");
                Ok(welcome)
            }
            Ok(Some((0, Ok(ServerBody::Failure(failure))))) => Err(Error::failed("init", failure)),
            Ok(Some((_, Ok(_)))) => Err(Error::protocol("its first message is not a Welcome")),
            Ok(Some((_, Err(error)))) => Err(Error::protocol(error.to_string())),
            Ok(None) => Err(Error::protocol("it closed the connection without a Welcome")),
            Err(failure) => Err(Error::failed("init", failure)),
        }
    }

    /// Delivers what the server says, until the end or until nobody is left to listen.
    pub(crate) async fn deliver(mut self, deliverer: Deliverer, mut abandoned: oneshot::Receiver<()>) {
        let reason = loop {
            tokio::select! {
                biased;
                incoming = self.next() => match incoming {
                    Ok(incoming) => deliverer.deliver(incoming),
                    Err(reason) => break reason,
                },
                _ = &mut abandoned => return,
            }
        };
        deliverer.close(reason);
    }

    /// The next message; an error when the conversation has ended, saying why.
    ///
    /// Cancel safe: parts that have come are kept.
    async fn next(&mut self) -> Result<Incoming, String> {
        loop {
            match self.body().await {
                Ok(Some((0, Ok(ServerBody::Push(push))))) => return Ok(Incoming::Push(push)),
                Ok(Some((id, Ok(ServerBody::Reply(reply))))) => {
                    return Ok(Incoming::Reply { id, outcome: Ok(reply) });
                }
                Ok(Some((id, Ok(ServerBody::FenceFile { bytes, since, generation })))) => {
                    let fenced = self.collected(bytes).map(|fenced| fenced.with_changes(since, generation));
                    return Ok(Incoming::Reply { id, outcome: fenced.map(Reply::Fence) });
                }
                Ok(Some((id @ 1.., Ok(ServerBody::Failure(failure))))) => {
                    return Ok(Incoming::Reply { id, outcome: Err(failure) });
                }
                Ok(Some((0, Ok(ServerBody::Failure(failure))))) => return Err(failure.to_string()),
                Ok(Some((id, Ok(_)))) => {
                    return Err(format!(
                        "the server sent a message with id {id} that is neither a reply nor a push"
                    ));
                }
                Ok(Some((_, Err(error)))) if matches!(error.reason(), Reason::TooManyOpen { .. }) => {
                    return Err(error.to_string());
                }
                Ok(Some((0, Err(error)))) => tracing::warn!(%error, "the server sent an unknown message"),
                // only this answer is lost, such as one that is too large
                Ok(Some((id, Err(error)))) => return Ok(Incoming::Reply { id, outcome: Err(error.into()) }),
                Ok(None) => return Err("the server closed the connection".to_owned()),
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }

    /// What a fence has collected, in the file that came. Without it, the server is asked for what is needed.
    fn collected(&mut self, bytes: u64) -> Result<Fenced, Failure> {
        let file = self.messages.take_file();
        let limit = self.limits.body_bytes;
        if bytes > limit as u64 {
            let message = format!("the fence has collected {bytes} bytes, the limit is {limit}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(Fenced::new(Collected::File(CollectedFile::new(file.map(Into::into), bytes))))
    }

    /// The next complete body with its id; `None` at the end.
    async fn body(&mut self) -> Result<Option<(u64, Result<ServerBody, ConvertError>)>, Failure> {
        loop {
            let Some(message) = self.messages.next().await? else { return Ok(None) };
            self.has_heard = true;
            let id = message.id;
            match self.assembler.accept_server(message) {
                Ok(Some((id, body))) => return Ok(Some((id, Ok(body)))),
                Ok(None) => {}
                Err(error) => return Ok(Some((id, Err(error)))),
            }
        }
    }
}
