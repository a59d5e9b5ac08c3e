//! How the hosts of several nodes send each other data.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::Status;
use pmix_types::trace::TraceContext;
use thiserror::Error;

/// Moves opaque bytes between the servers of several nodes.
///
/// For servers in one process there is [`MemoryExchange`](super::MemoryExchange). For servers in separate processes,
/// start from the example `tcp_exchange` (`examples/tcp_exchange/` of the sources), an exchange over TCP that passes
/// the checks of `pmix-conformance`.
#[async_trait]
pub trait Exchange: Send + Sync + 'static {
    /// Name of the node this end is on.
    fn node(&self) -> &str;

    /// Names of all nodes of the exchange, this one's included, and those of nodes that are gone: each keeps its place in this list.
    /// A name may be empty: that of a node that was gone before this one came.
    fn nodes(&self) -> Vec<String>;

    /// Names of the nodes that have neither left nor been lost: those that are asked for what any node may know. By default, all.
    fn present(&self) -> Vec<String> {
        self.nodes()
    }

    /// Sends `data` to all named nodes, and returns the data of each of them, this node included, for the same
    /// operation id, in the order of `nodes`. Every node must name the same nodes, and an id is used once.
    ///
    /// # Errors
    /// [`ExchangeError::Abandoned`] on every node, including later callers, if one of them has abandoned the
    /// operation; another [`ExchangeError`] if a node is gone.
    ///
    /// # Cancel safety
    /// Dropping the future before the operation is complete abandons it on all nodes: none of them may keep waiting.
    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError>;

    /// The same for an operation that is traced: what this end does is below this span ([`pmix_types::trace`]). By default, the span is not passed on.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    ///
    /// # Cancel safety
    /// As [`all_gather`](Self::all_gather).
    async fn all_gather_traced(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
        _span: TraceContext,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.all_gather(operation, nodes, data).await
    }

    /// Asks the server on one node and returns its answer.
    ///
    /// # Errors
    /// [`ExchangeError`] if the node is unknown or gone.
    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError>;

    /// Asks the server on one node like [`fetch`](Self::fetch), for something that changes nothing there: this may overtake
    /// other requests, and may be asked again if the answer is lost on its way. By default, it is a `fetch`.
    ///
    /// # Errors
    /// [`ExchangeError`] if the node is unknown or gone.
    async fn read(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        self.fetch(node, request).await
    }

    /// Registers the responder that answers fetches of other nodes on this node.
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

    fn present(&self) -> Vec<String> {
        (**self).present()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        (**self).all_gather(operation, nodes, data).await
    }

    async fn all_gather_traced(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
        span: TraceContext,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        (**self).all_gather_traced(operation, nodes, data, span).await
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        (**self).fetch(node, request).await
    }

    async fn read(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        (**self).read(node, request).await
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

/// Why data could not be exchanged.
#[derive(Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The node is not part of the exchange, or has left it.
    #[error("node {node} is not reachable")]
    Unreachable {
        /// The node.
        node: String,
    },
    /// A node abandoned the operation before all nodes had entered it.
    #[error("node {node} abandoned the operation (timed out, or its callers disconnected)")]
    Abandoned {
        /// The node.
        node: String,
    },
    /// Another one has taken the place of the node before it answered: it is not known whether it has carried out the request.
    #[error(
        "node {node} has been replaced before it answered: it is not known whether the request was carried out"
    )]
    Replaced {
        /// The node.
        node: String,
    },
    /// Another error.
    #[error("exchange: {0}")]
    Other(String),
}

pmix_types::message_first!(ExchangeError);
pmix_types::statuses! {
    ExchangeError,
    "`ERR_UNREACH` for a node that cannot be reached, `ERR_LOST_CONNECTION` for one that has been replaced, otherwise `ERR_COMM_FAILURE`",
    |this| match this {
        Self::Unreachable { .. } => Status::ERR_UNREACH,
        Self::Replaced { .. } => Status::ERR_LOST_CONNECTION,
        Self::Abandoned { .. } | Self::Other(_) => Status::ERR_COMM_FAILURE,
    };
}
