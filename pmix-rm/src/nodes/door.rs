//! The head's side of the connections to its daemons: who is let in, and the way of what they send.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmix_host::Machine;
use pmix_proto::nodes::nodes_server::Nodes;
use pmix_proto::nodes::{
    Enrolled, Enrolment, Frame, Hello, Ready, Summoned, Summons, There, Welcome, frame::Content,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::branch::Branches;
use super::gather::Place;
use super::link::Link;
use super::net::Net;
use super::port::{Heard, House, Opened, Port, Visitor};
use super::succession::{Contact, base64_of};
use super::trust::{Authority, Daemon, TrustError};
use super::{MAX_ADDRESSES, MAX_FRAME, lock, version};

/// Characters of the address of a server.
const MAX_URI: usize = 4096;
/// Bytes of a frame of a connection that has not proved its identity.
const MAX_ENROLMENT: usize = 8 << 10;

/// What happens at the door.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The daemon of a node takes jobs.
    Ready { node: String, machine: Machine, contact: Contact },
    /// The daemon of a node was refused.
    Refused { node: String, reason: String },
}

struct Shared {
    authority: Arc<Authority>,
    net: Net,
    /// How long a daemon may be silent.
    silence: Duration,
    arrivals: mpsc::UnboundedSender<Arrival>,
    branches: Arc<Branches>,
    /// Machines of those who have said hello.
    machines: Mutex<BTreeMap<Place, Machine>>,
    /// Where other daemons, and a successor of the head, reach those who have said so.
    contacts: Mutex<BTreeMap<Place, Contact>>,
    /// Of the head, if it may have a successor; otherwise 0.
    epoch: u64,
}

/// Receives the daemons of all nodes but the head, as long as the port is open.
///
/// # Errors
/// TLS cannot be set up.
pub(super) fn open(
    port: Port,
    authority: Arc<Authority>,
    epoch: u64,
    net: Net,
    silence: Duration,
    branches: Arc<Branches>,
) -> Result<(Opened, mpsc::UnboundedReceiver<Arrival>), TrustError> {
    let tls = authority.server_config()?;
    let (arrivals, arrived) = mpsc::unbounded_channel();
    let shared = Shared {
        authority,
        net,
        silence,
        arrivals,
        branches,
        machines: Mutex::default(),
        contacts: Mutex::default(),
        epoch,
    };
    Ok((port.open(tls, silence, Arc::new(shared)), arrived))
}

impl House for Shared {
    type Calls = Service;

    fn receive(self: &Arc<Self>, visitor: Visitor) -> (Service, usize) {
        let daemon = visitor.certificate().and_then(|certificate| self.authority.daemon_of(certificate));
        let limit = if daemon.is_some() { MAX_FRAME } else { MAX_ENROLMENT };
        (Service { shared: self.clone(), visitor, daemon }, limit)
    }
}

impl Shared {
    /// Where the daemon of a node is, as far as is known.
    fn there(&self, node: String) -> There {
        let contacts = lock(&self.contacts);
        let known = self.net.place(&node).and_then(|place| contacts.get(&place));
        let (incarnation, addresses) =
            known.map_or((0, Vec::new()), |known| (known.incarnation, known.addresses.clone()));
        There { node, incarnation, addresses }
    }
}

/// The calls of one connection.
struct Service {
    shared: Arc<Shared>,
    visitor: Visitor,
    /// Whose certificate it has shown.
    daemon: Option<Daemon>,
}

#[tonic::async_trait]
impl Nodes for Service {
    async fn enrol(&self, request: Request<Enrolment>) -> Result<Response<Enrolled>, Status> {
        let Enrolment { versions, node, incarnation, token, public_key } = request.into_inner();
        // one that was on its way when another daemon could not be started is no reason to warn
        if self.shared.net.is_closed() {
            return Err(over());
        }
        let Some(place) = self.shared.net.place(&node) else {
            let reason = "it is no node of this session".to_owned();
            return Err(self.visitor.refuse(&node, Status::permission_denied, reason));
        };
        let daemon = Daemon { node: node.clone(), place, incarnation };
        let versions = versions.unwrap_or_default();
        if let Err(mismatch) = version::negotiate(version::OWN, &versions) {
            let reason = mismatch.to_string();
            // the token is its own, so it is the daemon that is waited for
            if self.shared.authority.has_token(&daemon, &token) {
                let refused = Arrival::Refused { node: node.clone(), reason: reason.clone() };
                let _ = self.shared.arrivals.send(refused);
            }
            return Err(self.visitor.refuse(&node, Status::failed_precondition, reason));
        }
        match self.shared.authority.enrol(daemon, &token, &public_key) {
            Ok(certificate) => Ok(Response::new(Enrolled { certificate: certificate.into() })),
            Err(refusal) => Err(self.visitor.refuse(&node, Status::permission_denied, refusal.to_string())),
        }
    }

    async fn summon(&self, _: Request<Summons>) -> Result<Response<Summoned>, Status> {
        Err(self.visitor.refuse(
            "?",
            Status::unimplemented,
            "this is the head: only daemons can be summoned".into(),
        ))
    }

    type JoinStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::JoinStream>, Status> {
        let Some(Daemon { node, place, incarnation }) = &self.daemon else {
            let reason = "it has no certificate that the head of this session has signed".to_owned();
            return Err(self.visitor.refuse("?", Status::unauthenticated, reason));
        };
        let mut frames = request.into_inner();
        let Some(Frame { content: Some(Content::Hello(hello)) }) = frames.message().await? else {
            let reason = "it does not begin with a hello".to_owned();
            return Err(self.visitor.refuse(node, Status::invalid_argument, reason));
        };
        let Hello { versions, machine, processors, mut addresses, .. } = hello;
        let version = match version::negotiate(version::OWN, &versions.unwrap_or_default()) {
            Ok(version) => version,
            Err(mismatch) => {
                return Err(self.visitor.refuse(node, Status::failed_precondition, mismatch.to_string()));
            }
        };
        let place = *place;
        let (link, waiting) = Link::new(self.shared.silence);
        let welcome = |nodes: Vec<String>| {
            let head = nodes.first().cloned().unwrap_or_default();
            Some(Content::Welcome(Welcome { version, nodes, head, epoch: self.shared.epoch }))
        };
        if !self.visitor.let_in() {
            return Err(Status::unavailable("too many connections have not proved their identity"));
        }
        if !self.shared.net.connect_with(place, link, welcome) {
            if self.shared.net.is_closed() {
                return Err(over());
            }
            return Err(self.visitor.refuse(
                node,
                Status::already_exists,
                "the node has had a daemon".into(),
            ));
        }
        addresses.truncate(MAX_ADDRESSES);
        let certificate = self.visitor.certificate().map(|certificate| base64_of(certificate));
        let certificate = certificate.unwrap_or_default();
        let contact = Contact { incarnation: *incarnation, certificate, addresses, uri: String::new() };
        lock(&self.shared.contacts).insert(place, contact);
        lock(&self.shared.machines).insert(place, Machine::new(machine, processors));
        let heard = self.visitor.heard().clone();
        tokio::spawn(hear(self.shared.clone(), place, node.clone(), heard, frames));
        Ok(Response::new(Box::pin(waiting.map(Ok::<_, Status>))))
    }
}

fn over() -> Status {
    Status::already_exists("the session is over")
}

/// Handles what a daemon sends, until its connection ends: then it is lost.
async fn hear(shared: Arc<Shared>, place: Place, node: String, heard: Heard, mut frames: Streaming<Frame>) {
    let reason = loop {
        match frames.message().await {
            Ok(Some(Frame { content: Some(Content::Ready(Ready { uri })) })) => {
                let Some(machine) = lock(&shared.machines).remove(&place) else { continue };
                // one that was dismissed does not speak for another daemon of its node
                if !shared.net.is_connected(place) {
                    continue;
                }
                let contact = lock(&shared.contacts).get(&place).cloned().unwrap_or_default();
                let contact = Contact { uri: uri.chars().take(MAX_URI).collect(), ..contact };
                let _ = shared.arrivals.send(Arrival::Ready { node: node.clone(), machine, contact });
            }
            Ok(Some(Frame { content: Some(Content::Where(asked)) })) => {
                shared.net.send(place, Content::There(shared.there(asked.node))).await;
            }
            Ok(Some(Frame { content: Some(Content::Heard(heard)) })) => {
                shared.branches.hear(place, &node, heard)
            }
            Ok(Some(Frame { content: Some(content) })) => shared.net.take(place, content).await,
            Ok(Some(Frame { content: None })) => {
                break "it has sent a message that cannot be read".to_owned();
            }
            Ok(None) => break "its daemon has ended".to_owned(),
            Err(status) => break super::end_of_connection(&node, &status),
        }
    };
    // HTTP/2 reports a side that answers no pings in the same way as one that has ended
    let reason = match heard.silence() {
        silent if silent >= shared.silence => format!("silent for {} s", silent.as_secs()),
        _ => reason,
    };
    shared.net.lose(place, &reason);
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
