//! How the hosts of several nodes send each other data.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

/// Moves opaque bytes between the servers of several nodes.
///
/// For servers of one process there is [`MemoryExchange`](super::MemoryExchange). For servers in processes of their own the
/// example `tcp_exchange` (`examples/tcp_exchange/` of the sources) has one over TCP, which passes the checks of
/// `testing::conformance`: a start for one's own.
#[async_trait]
pub trait Exchange: Send + Sync + 'static {
    /// Name of the node this end is on.
    fn node(&self) -> &str;

    /// Names of all nodes of the exchange, this one's included.
    fn nodes(&self) -> Vec<String>;

    /// Gives `data` to all named nodes and returns what each of them gave under the same operation id, this
    /// node's own included, in the order of `nodes`. Every node must name the same nodes.
    ///
    /// # Errors
    /// [`ExchangeError::Abandoned`] on every node if one of them has given the operation up, on those that
    /// come to it later too; another [`ExchangeError`] if a node is gone.
    ///
    /// # Cancel safety
    /// Dropping the future of an operation that is not complete gives it up for all nodes: none of them may be
    /// left waiting.
    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError>;

    /// Asks the server on one node and returns its answer.
    ///
    /// # Errors
    /// [`ExchangeError`] if the node is not known or gone.
    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError>;

    /// Registers who answers the fetches of other nodes on this one.
    fn serve(&self, responder: Arc<dyn Responder>);
}

/// An exchange that its owner keeps a handle on.
#[async_trait]
impl<X: Exchange + ?Sized> Exchange for Arc<X> {
    fn node(&self) -> &str {
        (**self).node()
    }

    fn nodes(&self) -> Vec<String> {
        (**self).nodes()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        (**self).all_gather(operation, nodes, data).await
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        (**self).fetch(node, request).await
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        (**self).serve(responder);
    }
}

/// Answers the fetches of other nodes.
#[async_trait]
pub trait Responder: Send + Sync + 'static {
    /// The answer to one request.
    async fn respond(&self, from: &str, request: Bytes) -> Bytes;
}

/// Why bytes could not be moved.
#[derive(Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The node is not part of the exchange, or has left it.
    #[error("node {node} is not reachable")]
    Unreachable {
        /// The node.
        node: String,
    },
    /// A node has given the operation up before all had come to it.
    #[error("node {node} abandoned the operation (timed out, or its callers disconnected)")]
    Abandoned {
        /// The node.
        node: String,
    },
    /// Something else.
    #[error("exchange: {0}")]
    Other(String),
}

pmix_types::message_first!(ExchangeError);
