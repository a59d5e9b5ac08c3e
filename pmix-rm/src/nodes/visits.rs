//! The port of a daemon for others of its session: who is let in there. What they ask is answered in `peers.rs`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pmix_proto::nodes::nodes_server::Nodes;
use pmix_proto::nodes::{Enrolled, Enrolment, Frame, Hello, Summoned, Summons, Welcome, frame::Content};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::link::Link;
use super::peers::Peers;
use super::port::{House, Visitor};
use super::{MAX_FRAME, trust, version};

/// What is behind the port.
pub(super) struct Visits {
    pub(super) peers: Peers,
    /// How long another daemon may be silent.
    pub(super) silence: Duration,
    /// To the daemon, if its head may have a successor.
    pub(super) summons: Option<mpsc::Sender<Summons>>,
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

    async fn summon(&self, request: Request<Summons>) -> Result<Response<Summoned>, Status> {
        let summons = request.into_inner();
        if !self.visitor.certificate().is_some_and(trust::is_of_head) {
            let reason = "only the head of this session may summon a daemon".to_owned();
            return Err(self.visitor.refuse("?", Status::permission_denied, reason));
        }
        let versions = summons.versions.clone().unwrap_or_default();
        version::negotiate(version::OWN, &versions)
            .map_err(|mismatch| Status::failed_precondition(mismatch.to_string()))?;
        let Some(sender) = &self.visits.summons else {
            return Err(Status::failed_precondition("its head has no successor"));
        };
        sender.send(summons).await.map_err(|_| Status::unavailable("the daemon ends"))?;
        Ok(Response::new(Summoned {}))
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
        if !self.visitor.let_in() {
            return Err(Status::unavailable("too many connections have not proved their identity"));
        }
        let (link, waiting) = Link::new(self.visits.silence);
        let welcome = Content::Welcome(Welcome { version, ..Welcome::default() });
        let _ = link.send(Frame { content: Some(welcome) }).await;
        self.visits
            .peers
            .receive(place, link, frames)
            .map_err(|reason| refuse(Status::unavailable, reason.into()))?;
        Ok(Response::new(Box::pin(waiting.map(Ok::<_, Status>))))
    }
}

#[cfg(test)]
#[path = "visits_tests.rs"]
mod tests;
