//! The receiving side of a session.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use pmix_proto::v1::session_server::Session;
use pmix_proto::v1::{ClientMessage, ServerMessage};
use pmix_proto::{Assembler, ClientBody, EncodedBody, Reason, negotiate};
use pmix_types::message::{Failure, Hello};
use pmix_types::{Memory, Status};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Streaming};

use super::connection::{Connection, HELLO_WITHIN, SessionLine};
use super::peer::{SessionPeer, Shared};
use crate::door::warn_with;
use crate::inbox::DriverEvent;
use crate::line::{Refused, UNREAD};
use pmix_engine::{ConnId, Input, PeerCred, RequestId};

/// Largest greeting that is held in parts; one in a single message is limited as any message.
const HELLO_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct SessionService(pub(super) Arc<Shared>);

type Outgoing = Pin<Box<dyn Stream<Item = Result<ServerMessage, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl Session for SessionService {
    type ConnectStream = Outgoing;

    async fn connect(
        &self,
        request: Request<Streaming<ClientMessage>>,
    ) -> Result<Response<Outgoing>, tonic::Status> {
        let connection = Connection::of(&request)?;
        if !connection.begin_session() {
            return Err(tonic::Status::already_exists(
                "this connection has a session: open another connection",
            ));
        }
        let connection = connection.clone();
        let (first, messages) = mpsc::channel(1);
        let session = Incoming { shared: self.0.clone(), stream: request.into_inner(), connection };
        // the answer's stream begins with whatever the greeting gives
        tokio::spawn(session.run(first));
        let outgoing = ReceiverStream::new(messages).flatten().map(Ok);
        Ok(Response::new(Box::pin(outgoing)))
    }
}

type Messages = Pin<Box<dyn Stream<Item = ServerMessage> + Send>>;

/// The reading side of what a process is told.
struct Reading(Arc<SessionLine>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn messages(reading: Reading) -> Messages {
    Box::pin(stream::unfold(reading, async |reading| {
        let (message, bytes) = reading.0.next().await?;
        reading.0.sent(bytes);
        Some((message, reading))
    }))
}

struct Incoming {
    shared: Arc<Shared>,
    stream: Streaming<ClientMessage>,
    connection: Arc<Connection>,
}

impl Incoming {
    async fn run(mut self, outgoing: mpsc::Sender<Messages>) {
        let _over = self.connection.over.clone().drop_guard();
        let (hello, version) = match tokio::time::timeout(HELLO_WITHIN, self.hello()).await {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(failure)) => return self.refuse(&failure, &outgoing).await,
            Err(_) => {
                let failure = Failure::new(Status::ERR_TIMEOUT, "it did not say who it is in time");
                return self.refuse(&failure, &outgoing).await;
            }
        };
        let inbox = self.shared.inbox.clone();
        let (conn, line) = (inbox.next_conn(), inbox.new_line());
        self.connection.speaks_on(line.clone());
        let (peer, admitted) =
            SessionPeer::new(self.shared.clone(), self.connection.clone(), line.clone(), version);
        if outgoing.send(messages(Reading(line.clone()))).await.is_err() {
            return;
        }
        drop(outgoing);
        if !inbox.send(DriverEvent::Open { conn, peer: Box::new(peer) }).await {
            return;
        }
        inbox.send(DriverEvent::Input(Input::Hello { conn, peer: self.connection.peer, hello })).await;
        // nothing is read of a process that is not let in, nor from one that is being disconnected
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

    async fn talk(&mut self, conn: ConnId, admitted: oneshot::Receiver<()>, line: &SessionLine) -> String {
        tokio::select! {
            biased;
            admitted = admitted => match admitted {
                Ok(()) => self.requests(conn, line).await,
                Err(_) => String::new(),
            },
            early = self.stream.message() => match early {
                Ok(Some(_)) => "it asks before it is let in".into(),
                Ok(None) | Err(_) => String::new(),
            },
        }
    }

    /// The first body must be the greeting, in a version that both speak.
    async fn hello(&mut self) -> Result<(Hello, u32), Failure> {
        let mut limits = self.shared.limits;
        limits.body_bytes = HELLO_BYTES;
        let mut assembler = Assembler::new(limits);
        let bad = |message: String| Failure::new(Status::ERR_BAD_PARAM, message);
        loop {
            let message = match self.stream.message().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(bad("it left without a greeting".into())),
                Err(status) => return Err(bad(format!("its greeting cannot be read: {}", status.message()))),
            };
            match assembler.accept_client(message) {
                Ok(None) => {}
                Ok(Some((_, ClientBody::Hello { hello, oldest, newest, implementation, .. }))) => {
                    let version = negotiate(oldest..=newest, &implementation)
                        .map_err(|mismatch| Failure::new(Status::ERR_NOT_SUPPORTED, mismatch.to_string()))?;
                    return Ok((hello, version));
                }
                Ok(Some(_)) => return Err(bad("it asks before it has said who it is".into())),
                Err(error) => return Err(bad(format!("its greeting cannot be read: {error}"))),
            }
        }
    }

    fn log_end(&self, reason: &str) {
        let PeerCred { uid, pid, .. } = self.connection.peer;
        warn_with!(self.shared.door.line(uid), uid, pid, reason, "closed a connection");
    }

    async fn refuse(&self, failure: &Failure, outgoing: &mpsc::Sender<Messages>) {
        self.shared.turn_away(self.connection.peer, failure);
        let last = EncodedBody::failure(failure).messages(0);
        let _ = outgoing.send(Box::pin(stream::iter(last))).await;
    }

    /// Carries requests to the driver until the process leaves; says why it did.
    async fn requests(&mut self, conn: ConnId, line: &SessionLine) -> String {
        let mut assembler = Assembler::new(self.shared.limits);
        let mut turn = line.turn().await;
        loop {
            let message = match self.stream.message().await {
                Ok(Some(message)) => message,
                Ok(None) => return String::new(),
                Err(status) => {
                    // a process that dies takes its connection with it; anything else is worth a line
                    if matches!(
                        status.code(),
                        tonic::Code::OutOfRange | tonic::Code::Internal | tonic::Code::InvalidArgument
                    ) {
                        let reason = format!("it broke the protocol: {}", status.message());
                        self.log_end(&reason);
                        return reason;
                    }
                    return String::new();
                }
            };
            let id = message.id;
            let refused = match assembler.accept_client(message) {
                Ok(None) => continue,
                Ok(Some((_, ClientBody::Hello { .. }))) => return "it greeted twice".into(),
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
                            "{} requests of this process are not answered yet, or too large: wait for answers",
                            line.under_way()
                        );
                        Failure::new(Status::ERR_RESOURCE_BUSY, message)
                    }
                    Err(Refused::Twice) => return format!("it has two requests {id} under way"),
                },
                Ok(Some(_)) => {
                    Failure::new(Status::ERR_NOT_SUPPORTED, "this kind of message is not known here")
                }
                Err(error) if matches!(error.reason(), Reason::TooManyOpen { .. }) => {
                    return error.to_string();
                }
                Err(error) => Failure::new(error.status(), format!("the request cannot be read: {error}")),
            };
            self.shared
                .inbox
                .send(DriverEvent::Refuse { conn, id: RequestId(id), failure: refused, turn })
                .await;
            turn = line.turn().await;
        }
    }
}
