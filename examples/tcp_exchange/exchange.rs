//! An [`Exchange`] over TCP, for servers in separate processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use pmix_host::{Exchange, ExchangeError, MemoryExchange, Responder};
use pmix_server::async_trait;
use prost::Message;
use tokio::sync::SetOnce;
use tokio_util::task::AbortOnDropHandle;

use crate::link::{Link, Wire};
use crate::message::{Content, Gather, MOST_DATA, Part, Parts};

/// The end of one node, with a link to each other node. Dropping it closes these.
///
/// Each all-gather is decided in one place, so that all nodes hear the same of it: on the first of its nodes by name. The
/// others ask that one. It keeps the parts in a [`MemoryExchange`], in which it stands in for whoever asks.
pub(crate) struct TcpExchange {
    inner: Arc<Inner>,
    /// What runs for the links. Here, as what is asked of this node holds the rest while it waits.
    _tasks: Vec<AbortOnDropHandle<()>>,
}

struct Inner {
    node: String,
    links: BTreeMap<String, Arc<Link>>,
    /// The ends of all nodes for what is decided here.
    ends: BTreeMap<String, MemoryExchange>,
    responder: SetOnce<Arc<dyn Responder>>,
}

impl TcpExchange {
    /// Joins this node with the others, by connections that [have met](crate::meet::meet). Needs a runtime.
    pub(crate) fn new(node: &str, wires: BTreeMap<String, Wire>) -> Self {
        let mut nodes: Vec<_> = wires.keys().cloned().collect();
        nodes.push(node.to_owned());
        nodes.sort();
        let ends = nodes.iter().cloned().zip(MemoryExchange::cluster(&nodes)).collect();
        let mut tasks = Vec::new();
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let mut links = BTreeMap::new();
            for (other, wire) in wires {
                let (inner, from) = (inner.clone(), other.clone());
                let serve = move |request| serve(inner.clone(), from.clone(), request);
                let (link, running) = Link::new(other.clone(), wire, serve);
                links.insert(other, link);
                tasks.push(AbortOnDropHandle::new(tokio::spawn(running)));
            }
            Inner { node: node.to_owned(), links, ends, responder: SetOnce::new() }
        });
        Self { inner, _tasks: tasks }
    }
}

#[async_trait]
impl Exchange for TcpExchange {
    fn node(&self) -> &str {
        &self.inner.node
    }

    fn nodes(&self) -> Vec<String> {
        self.inner.ends.keys().cloned().collect()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        let part = Part { data: (data.len() <= MOST_DATA).then_some(data) };
        let data = part.encode_to_vec().into();
        let decider = nodes.iter().min().unwrap_or(&self.inner.node);
        if *decider == self.inner.node {
            return data_of(nodes, self.inner.decide(decider, operation, nodes, data).await?);
        }
        let request = Gather { operation: operation.to_owned(), nodes: nodes.to_vec(), data };
        match self.inner.link(decider)?.request(Content::Gather(request)).await? {
            Content::Parts(Parts { parts }) if parts.len() == nodes.len() => data_of(nodes, parts),
            Content::Abandoned(node) => Err(ExchangeError::Abandoned { node }),
            answer => Err(no_answer(decider, answer)),
        }
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        if node == self.inner.node {
            return Ok(self.inner.responder.wait().await.respond(node, request).await);
        }
        match self.inner.link(node)?.request(Content::Fetch(request)).await? {
            Content::Answer(answer) => Ok(answer),
            answer => Err(no_answer(node, answer)),
        }
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        // a host starts once
        let _ = self.inner.responder.set(responder);
    }
}

impl Inner {
    fn link(&self, node: &str) -> Result<&Link, ExchangeError> {
        let link = self.links.get(node).map(|link| &**link);
        link.ok_or_else(|| ExchangeError::Unreachable { node: node.to_owned() })
    }

    /// Enters a node into an all-gather that this node decides because it is the first one; fails if one of its nodes
    /// is lost.
    async fn decide(
        &self,
        by: &str,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        let end = self.ends.get(by).ok_or_else(|| ExchangeError::Unreachable { node: by.to_owned() })?;
        tokio::select! {
            // first, as those who hear of a loss give the operation up
            biased;
            error = self.lost(nodes) => Err(error),
            gathered = end.all_gather(operation, nodes, data) => gathered,
        }
    }

    /// Ready when one of the nodes is lost.
    async fn lost(&self, nodes: &[String]) -> ExchangeError {
        let links = nodes.iter().filter_map(|node| self.links.get(node));
        let mut losses: FuturesUnordered<_> = links.map(|link| link.lost()).collect();
        match losses.next().await {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

/// Answers a request of another node.
async fn serve(inner: Weak<Inner>, from: String, request: Content) -> Content {
    let Some(inner) = inner.upgrade() else { return Content::Failed("the exchange is closed".into()) };
    match request {
        Content::Gather(Gather { operation, nodes, data }) => {
            match inner.decide(&from, &operation, &nodes, data).await {
                Ok(parts) => Content::Parts(Parts { parts }),
                Err(ExchangeError::Abandoned { node }) => Content::Abandoned(node),
                Err(ExchangeError::Other(reason)) => Content::Failed(reason),
                Err(error) => Content::Failed(error.to_string()),
            }
        }
        // those who ask early wait for the host
        Content::Fetch(request) => {
            Content::Answer(inner.responder.wait().await.respond(&from, request).await)
        }
        _ => Content::Failed("this is not a request".into()),
    }
}

/// The data of all nodes, or the same error on all of them.
fn data_of(nodes: &[String], parts: Vec<Bytes>) -> Result<Vec<Bytes>, ExchangeError> {
    let too_much =
        |who| Err(ExchangeError::Other(format!("{who} sent too much data: at most {MOST_DATA} bytes")));
    let mut all = Vec::with_capacity(parts.len());
    for (node, part) in nodes.iter().zip(parts) {
        match Part::decode(part).ok().and_then(|part| part.data) {
            Some(data) => all.push(data),
            None => return too_much(format!("node {node}")),
        }
    }
    let together: usize = all.iter().map(Bytes::len).sum();
    if together > MOST_DATA { too_much(format!("nodes {}", nodes.join(", "))) } else { Ok(all) }
}

fn no_answer(node: &str, content: Content) -> ExchangeError {
    let Content::Failed(reason) = content else {
        return ExchangeError::Other(format!("node {node} gave an answer to something else"));
    };
    ExchangeError::Other(format!("node {node}: {reason}"))
}
