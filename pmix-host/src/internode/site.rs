//! This node: its server, and the way to the hosts of the others.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use pmix_server::ServerHandle;
use pmix_server::host::{HostError, HostResult, UpcallContext};
use pmix_types::job::JobData;
use pmix_types::message::Failure;
use pmix_types::trace::TraceContext;
use pmix_types::{Nspace, Status, Uid};
use tokio::sync::OwnedSemaphorePermit;

use super::News;
use super::message::{PeerReply, PeerRequest, decode_reply, encode_request};
use super::turns::{MAX_LOG_TURNS, MAX_TURNS, Turns};
use crate::user::User;
use crate::{Exchange, ExchangeError, Responder};

/// One node as its host sees it.
pub(crate) struct Site {
    exchange: Arc<dyn Exchange>,
    server: OnceLock<ServerHandle>,
    /// The node that starts the jobs of this one, if that is another.
    head: OnceLock<String>,
    /// What keeps what is kept once for all, where there is no other head.
    keeper: OnceLock<String>,
    turns: Turns,
    /// Those of lines that processes log: each waits for the reader of its job.
    log_turns: Turns,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("node", &self.node()).finish_non_exhaustive()
    }
}

impl Site {
    pub(crate) fn new(exchange: Arc<dyn Exchange>) -> Self {
        Self {
            exchange,
            server: OnceLock::new(),
            head: OnceLock::new(),
            keeper: OnceLock::new(),
            turns: Turns::new(MAX_TURNS),
            log_turns: Turns::new(MAX_LOG_TURNS),
        }
    }

    /// The name of this node.
    pub(crate) fn node(&self) -> &str {
        self.exchange.node()
    }

    /// Whether there is such a node, or was.
    pub(crate) fn has_had(&self, node: &str) -> bool {
        self.exchange.nodes().iter().any(|name| name == node)
    }

    /// The names of all nodes that there are, each once.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut nodes = self.exchange.present();
        nodes.retain(|node| seen.insert(node.clone()));
        nodes
    }

    /// The place of each node among all that there have been.
    pub(crate) fn order(&self) -> HashMap<String, usize> {
        self.exchange.nodes().into_iter().zip(0..).collect()
    }

    /// The places of these nodes; that of one that there has never been is the largest number.
    pub(crate) fn places_of(&self, nodes: &[String]) -> Vec<u32> {
        let order = self.order();
        let place = |node: &String| order.get(node).and_then(|place| u32::try_from(*place).ok());
        nodes.iter().map(|node| place(node).unwrap_or(u32::MAX)).collect()
    }

    /// The place of this node among all that there have been: no other has had it.
    pub(crate) fn place(&self) -> usize {
        self.exchange.nodes().iter().rposition(|node| node == self.node()).unwrap_or_default()
    }

    /// The node that keeps what is kept once for all: the head, or else the first by name.
    pub(crate) fn keeper(&self) -> &str {
        let first = || self.nodes().into_iter().min().unwrap_or_else(|| self.node().to_owned());
        self.head().unwrap_or_else(|| self.keeper.get_or_init(first))
    }

    /// This node is the head of the others.
    pub(crate) fn lead(&self) {
        // before anything is kept
        let _ = self.keeper.set(self.node().to_owned());
    }

    /// The names of all nodes that there are but this one.
    pub(crate) fn others(&self) -> Vec<String> {
        let mut nodes = self.nodes();
        nodes.retain(|node| node != self.node());
        nodes
    }

    /// Takes the name of the node that starts the jobs of this one.
    pub(crate) fn set_head(&self, head: String) {
        // the first one counts
        let _ = self.head.set(head);
    }

    /// The node that starts the jobs of this one, if that is another.
    pub(crate) fn head(&self) -> Option<&str> {
        self.head.get().map(String::as_str)
    }

    /// Takes the server of this node; false if it has one already.
    pub(crate) fn set_server(&self, server: &ServerHandle) -> bool {
        self.server.set(server.clone()).is_ok()
    }

    /// Registers the responder for requests of other nodes' hosts.
    pub(crate) fn serve(&self, responder: Arc<dyn Responder>) {
        self.exchange.serve(responder);
    }

    pub(crate) fn server(&self) -> HostResult<&ServerHandle> {
        let missing = || {
            HostError::new(
                Status::ERR_INIT,
                "the host has no server yet: give it to Server::builder().host() and start that",
            )
        };
        self.server.get().ok_or_else(missing)
    }

    /// What the server knows of a job.
    pub(crate) async fn job(&self, nspace: &Nspace) -> Option<Arc<JobData>> {
        self.server().ok()?.job_data(nspace).await.ok()
    }

    /// Whether the server here has no such job, or none any more. Not if it has stopped itself.
    pub(crate) async fn has_deregistered(&self, nspace: &Nspace) -> bool {
        let Ok(server) = self.server() else { return false };
        let unknown = |failure: Failure| failure.status == Status::ERR_INVALID_NAMESPACE;
        server.job_data(nspace).await.is_err_and(unknown)
    }

    /// Asks the host of another node, until the caller stops waiting.
    pub(crate) async fn ask(
        &self,
        cx: &UpcallContext,
        node: &str,
        request: &PeerRequest,
    ) -> Result<PeerReply, Failure> {
        let caller = User::of(cx);
        tokio::select! {
            reply = self.ask_for(&caller, node, request) => reply,
            () = cx.cancelled() => Err(Status::ERR_TIMEOUT.into()),
        }
    }

    /// Asks the host of another node for a process.
    pub(crate) async fn ask_for(
        &self,
        caller: &User,
        node: &str,
        request: &PeerRequest,
    ) -> Result<PeerReply, Failure> {
        let _turn = self.turn(caller.uid, request).await;
        decode_reply(self.tell(node, request).await.map_err(|error| unanswered(&error))?)
    }

    /// Waits until a user may have another such request at other hosts, until the turn is dropped. Cancel-safe.
    pub(crate) async fn turn(&self, uid: Uid, request: &PeerRequest) -> Option<OwnedSemaphorePermit> {
        let turns = match request {
            PeerRequest::News(News::Reports { .. }) => &self.log_turns,
            request if request.is_of_process() => &self.turns,
            _ => return None,
        };
        turns.take(uid).await
    }

    /// Asks the host of another node, and waits no longer than this for the turn of a process, and for the reply.
    ///
    /// # Errors
    /// `ERR_TIMEOUT` after that time, `ERR_UNREACH` if it cannot be reached, and what it answers.
    pub(crate) async fn ask_within(
        &self,
        limit: Duration,
        node: &str,
        request: &PeerRequest,
    ) -> Result<PeerReply, Failure> {
        let late = |_| {
            let message = format!("the host of node {node} has not answered within {} ms", limit.as_millis());
            Failure::new(Status::ERR_TIMEOUT, message)
        };
        let told = async {
            let _turn = match request {
                PeerRequest::Request { caller, .. } => self.turn(caller.uid, request).await,
                _ => None,
            };
            self.tell(node, request).await
        };
        let reply = tokio::time::timeout(limit, told).await.map_err(late)?;
        decode_reply(reply.map_err(|error| unanswered(&error))?)
    }

    /// Sends a request to the host of another node and returns its reply as it came. To the successor of a head it is sent again,
    /// if it may be.
    pub(crate) async fn tell(&self, node: &str, request: &PeerRequest) -> Result<Bytes, ExchangeError> {
        let encoded = encode_request(request);
        loop {
            let told = match request.only_reads() {
                true => self.exchange.read(node, encoded.clone()).await,
                false => self.exchange.fetch(node, encoded.clone()).await,
            };
            match told {
                Err(ExchangeError::Replaced { .. }) if request.may_be_repeated() => {}
                told => return told,
            }
        }
    }

    /// Exchanges parts of an operation with other nodes.
    pub(crate) async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        part: Bytes,
        trace: Option<TraceContext>,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        match trace {
            Some(span) => self.exchange.all_gather_traced(operation, nodes, part, span).await,
            None => self.exchange.all_gather(operation, nodes, part).await,
        }
    }
}

/// Why a node has not answered.
fn unanswered(error: &ExchangeError) -> Failure {
    let status = match error {
        ExchangeError::Replaced { .. } => Status::ERR_LOST_CONNECTION,
        _ => Status::ERR_UNREACH,
    };
    Failure::new(status, error.to_string())
}
