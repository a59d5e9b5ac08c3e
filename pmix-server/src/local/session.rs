//! The receiving side of a connection, on either wire.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use pmix_proto::v1::ClientMessage;
use pmix_proto::{Assembler, ClientBody, EncodedBody, Limits, Reason, negotiate};
use pmix_types::message::{Failure, Hello};
use pmix_types::{Memory, Status};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::connection::{Connection, GrpcLine, HELLO_WITHIN, Outbound};
use super::framed::FramedSource;
use super::peer::{GrpcPeer, LocalShared};
use crate::door::warn_with;
use crate::inbox::DriverEvent;
use crate::line::{Refused, UNREAD};
use pmix_engine::{ConnId, Input, PeerCred, RequestId};

/// Largest greeting that may come in several parts; the general message limit applies to a greeting in a single message.
const HELLO_BYTES: usize = 64 << 10;

/// A session with a process: the future that receives its messages, and the stream of messages to it.
pub(super) fn session(
    shared: Arc<LocalShared>,
    source: Source,
    connection: Arc<Connection>,
) -> (impl Future<Output = ()> + Send, impl Stream<Item = Outbound> + Send) {
    let (first, messages) = mpsc::channel(1);
    let incoming = Incoming { shared, source, connection };
    // the outgoing stream begins with the answer to the greeting
    (incoming.run(first), ReceiverStream::new(messages).flatten())
}

/// Where the messages of a process come from.
pub(super) enum Source {
    #[cfg(feature = "grpc")]
    Grpc(tonic::Streaming<ClientMessage>),
    Framed(FramedSource),
}

/// Why no message follows.
pub(super) enum Over {
    /// The process has ended the conversation.
    Left,
    /// The connection has failed: the process is dead.
    Failed(String),
    /// What it sent is not of the protocol.
    Broke(String),
}

impl Source {
    async fn next(&mut self) -> Result<ClientMessage, Over> {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc(stream) => match stream.message().await {
                Ok(message) => message.ok_or(Over::Left),
                Err(status) => {
                    let problem = status.message().to_owned();
                    match status.code() {
                        tonic::Code::OutOfRange | tonic::Code::Internal | tonic::Code::InvalidArgument => {
                            Err(Over::Broke(problem))
                        }
                        _ => Err(Over::Failed(problem)),
                    }
                }
            },
            Self::Framed(stream) => stream.next().await,
        }
    }

    /// Its process has been let in.
    fn let_in(&mut self, limits: Limits) {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc(_) => {}
            Self::Framed(stream) => stream.set_limit(limits.message_bytes),
        }
    }
}

type Messages = Pin<Box<dyn Stream<Item = Outbound> + Send>>;

/// The outgoing stream's end of a line.
struct Reading {
    line: Arc<GrpcLine>,
    connection: Arc<Connection>,
}

impl Reading {
    /// A message that waits. After the last one the process hears of events that it has missed, since none may follow.
    fn try_next(&self) -> Option<(Outbound, usize)> {
        self.line.try_next().or_else(|| {
            let missed = EncodedBody::push(&self.connection.missed()?);
            missed.messages(0).next().map(|message| (Outbound::Message(message), 0))
        })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.line.abandon();
    }
}

fn messages(reading: Reading) -> Messages {
    Box::pin(stream::unfold(reading, async |reading| {
        let (message, bytes) = match reading.try_next() {
            Some(next) => next,
            None => reading.line.next().await?,
        };
        reading.line.sent(bytes);
        Some((message, reading))
    }))
}

struct Incoming {
    shared: Arc<LocalShared>,
    source: Source,
    connection: Arc<Connection>,
}

impl Incoming {
    async fn run(mut self, outgoing: mpsc::Sender<Messages>) {
        let _over = self.connection.over.clone().drop_guard();
        let (hello, version) = match tokio::time::timeout(HELLO_WITHIN, self.hello()).await {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(failure)) => return self.refuse(&failure, &outgoing).await,
            Err(_) => {
                let failure = Failure::new(Status::ERR_TIMEOUT, "no greeting arrived in time");
                return self.refuse(&failure, &outgoing).await;
            }
        };
        let inbox = self.shared.inbox.clone();
        let (conn, line) = (inbox.next_conn(), inbox.new_line(self.connection.peer.uid));
        self.connection.speaks_on(line.clone());
        let takes_files = matches!(self.source, Source::Framed(_));
        let (peer, admitted) =
            GrpcPeer::new(self.shared.clone(), self.connection.clone(), line.clone(), version, takes_files);
        if outgoing
            .send(messages(Reading { line: line.clone(), connection: self.connection.clone() }))
            .await
            .is_err()
        {
            return;
        }
        drop(outgoing);
        if !inbox.send(DriverEvent::Open { conn, peer: Box::new(peer) }).await {
            return;
        }
        inbox
            .send(DriverEvent::Input(Input::Hello {
                conn,
                peer: self.connection.peer,
                hello,
                reattaches: false,
            }))
            .await;
        // nothing is read from a process that is not let in, or that is being disconnected
        let reason = tokio::select! {
            biased;
            () = line.finished() => None,
            () = line.stalled() => {
                line.abandon();
                self.log_end(UNREAD);
                Some(UNREAD.to_owned())
            }
            reason = self.talk(conn, admitted, &line) => Some(reason),
        };
        drop(self);
        if let Some(reason) = reason {
            inbox.send(DriverEvent::Input(Input::Lost { conn, reason })).await;
        }
        line.linger().await;
    }

    async fn talk(&mut self, conn: ConnId, admitted: oneshot::Receiver<()>, line: &GrpcLine) -> String {
        tokio::select! {
            biased;
            admitted = admitted => match admitted {
                Ok(()) => {
                    self.source.let_in(self.shared.limits);
                    self.requests(conn, line).await
                }
                Err(_) => String::new(),
            },
            early = self.source.next() => match early {
                Ok(_) => "it sent a request before it was let in".into(),
                Err(_) => String::new(),
            },
        }
    }

    /// Reads the greeting, which must be the first body, in a version of the protocol that both sides speak.
    async fn hello(&mut self) -> Result<(Hello, u32), Failure> {
        let mut limits = self.shared.limits;
        limits.body_bytes = HELLO_BYTES;
        let mut assembler = Assembler::new(limits);
        let bad = |message: String| Failure::new(Status::ERR_BAD_PARAM, message);
        loop {
            let message = match self.source.next().await {
                Ok(message) => message,
                Err(Over::Left) => return Err(bad("it disconnected without a greeting".into())),
                Err(Over::Failed(problem) | Over::Broke(problem)) => {
                    return Err(bad(format!("its greeting cannot be read: {problem}")));
                }
            };
            match assembler.accept_client(message) {
                Ok(None) => {}
                Ok(Some((_, ClientBody::Hello { hello, oldest, newest, implementation, .. }))) => {
                    let version = negotiate(oldest..=newest, &implementation)
                        .map_err(|mismatch| Failure::new(Status::ERR_NOT_SUPPORTED, mismatch.to_string()))?;
                    return Ok((hello, version));
                }
                Ok(Some(_)) => return Err(bad("it sent a request before its greeting".into())),
                Err(error) => return Err(bad(format!("its greeting cannot be read: {error}"))),
            }
        }
    }

    fn log_end(&self, reason: &str) {
        let PeerCred { uid, pid, .. } = self.connection.peer;
        warn_with!(self.shared.door.line(uid), uid = uid.as_raw(), pid, reason, "closed a connection");
    }

    async fn refuse(&self, failure: &Failure, outgoing: &mpsc::Sender<Messages>) {
        self.shared.turn_away(self.connection.peer, failure);
        let last = EncodedBody::failure(failure).messages(0).map(Outbound::Message);
        let _ = outgoing.send(Box::pin(stream::iter(last))).await;
    }

    /// Passes requests to the driver until the connection ends; returns the reason.
    async fn requests(&mut self, conn: ConnId, line: &GrpcLine) -> String {
        let mut assembler = Assembler::new(self.shared.limits);
        let mut turn = line.turn().await;
        loop {
            let message = match self.source.next().await {
                Ok(message) => message,
                // the connection of a dead process just ends
                Err(Over::Left | Over::Failed(_)) => return String::new(),
                Err(Over::Broke(problem)) => {
                    let reason = format!("it broke the protocol: {problem}");
                    self.log_end(&reason);
                    return reason;
                }
            };
            let id = message.id;
            let refused = match assembler.accept_client(message) {
                Ok(None) => continue,
                Ok(Some((_, ClientBody::Hello { .. }))) => return "it sent a second greeting".into(),
                Ok(Some((id, ClientBody::Request(request)))) => match line.begin(id, request.memory()) {
                    Ok(()) => {
                        let event = DriverEvent::Request { conn, id: RequestId(id), request, turn };
                        if !self.shared.inbox.send(event).await {
                            return String::new();
                        }
                        turn = line.turn().await;
                        continue;
                    }
                    Err(Refused::TooMany) => {
                        let message = format!(
                            "this process has {} pending requests, which are too many or too large: wait for replies",
                            line.under_way()
                        );
                        Failure::new(Status::ERR_RESOURCE_BUSY, message)
                    }
                    Err(Refused::Twice) => return twice(id),
                },
                Ok(Some(_)) => Failure::new(Status::ERR_NOT_SUPPORTED, "unknown kind of message"),
                Err(error) if matches!(error.reason(), Reason::TooManyOpen { .. }) => {
                    return error.to_string();
                }
                Err(error) => Failure::new(error.status(), format!("the request cannot be read: {error}")),
            };
            // a reply with this number would be taken for the reply to the pending request
            if line.is_under_way(id) {
                return twice(id);
            }
            self.shared
                .inbox
                .send(DriverEvent::Refuse { conn, id: RequestId(id), failure: refused, turn })
                .await;
            turn = line.turn().await;
        }
    }
}

fn twice(id: u64) -> String {
    format!("it has two pending requests with number {id}")
}

#[cfg(test)]
mod tests {
    use pmix_proto::ServerBody;
    use pmix_types::message::Push;
    use pmix_types::{Gid, Uid};

    use pmix_proto::v1::ServerMessage;

    use super::*;
    use crate::door::Door;

    #[test]
    fn a_process_that_has_read_all_messages_hears_at_once_of_events_that_it_has_missed() {
        let guest = Door::new(false).enter(Uid::ROOT).unwrap();
        let connection =
            Arc::new(Connection::new(PeerCred { uid: Uid::ROOT, gid: Some(Gid::ROOT), pid: None }, guest));
        let line = GrpcLine::new(HELLO_WITHIN, Arc::default());
        let reading = Reading { line: line.clone(), connection: connection.clone() };
        assert!(reading.try_next().is_none());
        line.send(Outbound::Message(ServerMessage::default()), 1);
        connection.misses_one();
        connection.misses_one();
        assert!(
            matches!(reading.try_next(), Some((Outbound::Message(message), _)) if message.content.is_none())
        );
        let Some((Outbound::Message(lagged), 0)) = reading.try_next() else { panic!("not told") };
        let told = Assembler::new(Limits::default()).accept_server(lagged).unwrap();
        assert!(matches!(told, Some((0, ServerBody::Push(Push::Lagged { missed: 2 })))), "{told:?}");
        assert!(reading.try_next().is_none());
    }
}
