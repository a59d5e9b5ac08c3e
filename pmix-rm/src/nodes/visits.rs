//! The port of a daemon for others of its session, which ask it what only reads.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pmix_host::Exchange;
use pmix_proto::nodes::nodes_server::Nodes;
use pmix_proto::nodes::{Ask, Enrolled, Enrolment, Frame, Hello, Welcome, frame::Content};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::gather::Place;
use super::link::{Link, Unsent};
use super::peers::Peers;
use super::port::{House, Visitor};
use super::{MAX_FRAME, brief, trust, version};

/// What is behind the port.
pub(super) struct Visits {
    pub(super) peers: Peers,
    /// How long another daemon may be silent.
    pub(super) silence: Duration,
}

/// The calls of one connection.
pub(super) struct Visit {
    visits: Arc<Visits>,
    visitor: Visitor,
}

impl House for Visits {
    type Calls = Visit;

    fn receive(self: &Arc<Self>, visitor: Visitor) -> (Visit, usize) {
        (Visit { visits: self.clone(), visitor }, MAX_FRAME)
    }
}

#[tonic::async_trait]
impl Nodes for Visit {
    async fn enrol(&self, _: Request<Enrolment>) -> Result<Response<Enrolled>, Status> {
        Err(self.visitor.refuse("?", Status::unimplemented, "daemons are enrolled by their head".into()))
    }

    type JoinStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::JoinStream>, Status> {
        let mut frames = request.into_inner();
        let Some(Frame { content: Some(Content::Hello(hello)) }) = frames.message().await? else {
            let reason = "it does not begin with a hello".to_owned();
            return Err(self.visitor.refuse("?", Status::invalid_argument, reason));
        };
        let Hello { versions, node, incarnation, .. } = hello;
        let refuse = |status, reason| self.visitor.refuse(&node, status, reason);
        let version = version::negotiate(version::OWN, &versions.unwrap_or_default());
        let version =
            version.map_err(|mismatch| refuse(Status::failed_precondition, mismatch.to_string()))?;
        let Some(place) = self.visits.peers.place(&node) else {
            return Err(refuse(Status::permission_denied, "it is no other node of this session".into()));
        };
        if !self.visitor.certificate().is_some_and(|shown| trust::is_of(shown, place, incarnation)) {
            let reason = format!("its certificate is not that of daemon number {incarnation} of this node");
            return Err(refuse(Status::permission_denied, reason));
        }
        let (link, waiting) = Link::new(self.visits.silence);
        let welcome = Content::Welcome(Welcome { version, ..Welcome::default() });
        let _ = link.send(Frame { content: Some(welcome) }).await;
        self.visits
            .begin(place, link, frames)
            .map_err(|reason| refuse(Status::unavailable, reason.into()))?;
        self.visitor.let_in();
        Ok(Response::new(Box::pin(waiting.map(Ok::<_, Status>))))
    }
}

impl Visits {
    /// Answers another daemon on this connection from now on, in place of an earlier one.
    fn begin(&self, place: Place, link: Link, frames: Streaming<Frame>) -> Result<(), &'static str> {
        self.peers
            .receive(place, || tokio::spawn(hear(self.peers.clone(), place, link, frames)).abort_handle())
    }
}

/// Answers what another daemon asks, until the connection ends: then nobody waits for the rest.
async fn hear(peers: Peers, place: Place, link: Link, mut frames: Streaming<Frame>) {
    let net = peers.net();
    let node = net.name(place);
    let mut answers = JoinSet::new();
    let reason = loop {
        tokio::select! {
            frame = frames.message() => match frame {
                Ok(Some(Frame { content: Some(Content::Ask(ask)) })) if ask.to == net.node() => {
                    // it speaks for nobody else
                    let ask = Ask { from: node.to_string(), ..ask };
                    match net.answer(place, node.to_string(), ask) {
                        Ok(answering) => {
                            let link = link.clone();
                            answers.spawn(async move {
                                let (answer, _turn) = answering.await;
                                link.send(Frame { content: Some(Content::Answer(answer)) }).await
                            });
                        }
                        // nothing else is read meanwhile
                        Err(too_many) => {
                            let frame = Frame { content: Some(Content::Answer(too_many)) };
                            if link.send(frame).await == Err(Unsent::Full) {
                                break does_not_read(&link);
                            }
                        }
                    }
                }
                Ok(Some(_)) => break "it has sent what it must not send".to_owned(),
                Ok(None) => break "it has closed the connection".to_owned(),
                Err(status) => break brief(&status),
            },
            Some(sent) = answers.join_next() => if sent.is_ok_and(|sent| sent == Err(Unsent::Full)) {
                break does_not_read(&link);
            },
        }
    };
    tracing::debug!(node = &*node, reason, "another daemon asks no more on its connection");
}

fn does_not_read(link: &Link) -> String {
    format!("it has read nothing for {} s", link.patience().as_secs_f64())
}

#[cfg(test)]
#[path = "visits_tests.rs"]
mod tests;
