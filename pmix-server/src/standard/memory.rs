//! An exchange between servers of one process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::{Exchange, ExchangeError, Responder};

/// Moves bytes between servers that live in one process: one node, several pretended ones, tests.
///
/// # Examples
/// ```
/// use pmix_server::standard::{Exchange, MemoryExchange};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let alone = MemoryExchange::single("n0");
/// let parts = alone.all_gather("op", &["n0".to_owned()], "data".into()).await?;
/// assert_eq!(parts, ["data"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryExchange {
    node: String,
    hub: Arc<Hub>,
}

#[derive(Default)]
struct Hub {
    nodes: Vec<String>,
    gathers: Mutex<HashMap<String, Gather>>,
    responders: Mutex<BTreeMap<String, Arc<dyn Responder>>>,
}

/// One all-gather under way.
struct Gather {
    parts: BTreeMap<String, Bytes>,
    /// Tells everybody when all parts are there.
    complete: watch::Sender<Option<Arc<Vec<Bytes>>>>,
    /// Nodes that have not taken the result yet.
    waiting: usize,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl MemoryExchange {
    /// The exchange of a single node.
    pub fn single(node: impl Into<String>) -> Self {
        let node = node.into();
        let hub = Hub { nodes: vec![node.clone()], ..Hub::default() };
        Self { node, hub: Arc::new(hub) }
    }

    /// One end for each of the nodes.
    pub fn cluster<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Vec<Self> {
        let nodes: Vec<String> = nodes.into_iter().map(Into::into).collect();
        let hub = Arc::new(Hub { nodes: nodes.clone(), ..Hub::default() });
        nodes.into_iter().map(|node| Self { node, hub: hub.clone() }).collect()
    }
}

#[async_trait]
impl Exchange for MemoryExchange {
    fn node(&self) -> &str {
        &self.node
    }

    fn nodes(&self) -> Vec<String> {
        self.hub.nodes.clone()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        if let Some(stranger) = nodes.iter().find(|node| !self.hub.nodes.contains(node)) {
            return Err(ExchangeError::Unreachable { node: stranger.clone() });
        }
        let mut complete = {
            let mut gathers = lock(&self.hub.gathers);
            let gather = gathers.entry(operation.to_owned()).or_insert_with(|| Gather {
                parts: BTreeMap::new(),
                complete: watch::Sender::new(None),
                waiting: nodes.len(),
            });
            gather.parts.insert(self.node.clone(), data);
            if nodes.iter().all(|node| gather.parts.contains_key(node)) {
                let parts = nodes.iter().filter_map(|node| gather.parts.get(node).cloned()).collect();
                gather.complete.send_replace(Some(Arc::new(parts)));
            }
            gather.complete.subscribe()
        };
        let withdrawal = Withdrawal { exchange: self, operation };
        let parts = match complete.wait_for(Option::is_some).await {
            Ok(parts) => parts.clone(),
            Err(_) => None,
        };
        drop(withdrawal);
        let parts = parts.ok_or_else(|| ExchangeError::Other(format!("{operation} was abandoned")))?;
        Ok(parts.to_vec())
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        let responder = lock(&self.hub.responders).get(node).cloned();
        let responder = responder.ok_or_else(|| ExchangeError::Unreachable { node: node.to_owned() })?;
        Ok(responder.respond(&self.node, request).await)
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        lock(&self.hub.responders).insert(self.node.clone(), responder);
    }
}

/// Leaves an all-gather: with the result, or without it when the future is dropped.
struct Withdrawal<'a> {
    exchange: &'a MemoryExchange,
    operation: &'a str,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let mut gathers = lock(&self.exchange.hub.gathers);
        let Some(gather) = gathers.get_mut(self.operation) else { return };
        if gather.complete.borrow().is_some() {
            gather.waiting = gather.waiting.saturating_sub(1);
        } else {
            gather.parts.remove(&self.exchange.node);
        }
        if gather.waiting == 0 || gather.parts.is_empty() {
            gathers.remove(self.operation);
        }
    }
}

/// A panic elsewhere leaves these tables whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(nodes: &[&str]) -> Vec<String> {
        nodes.iter().map(|node| (*node).to_owned()).collect()
    }

    #[tokio::test]
    async fn everybody_gets_all_parts_in_the_order_of_the_nodes() {
        let ends = MemoryExchange::cluster(["a", "b", "c"]);
        let nodes = names(&["c", "a", "b"]);
        let gather =
            |end: usize| ends[end].all_gather("op", &nodes, Bytes::from(ends[end].node().to_owned()));
        let (a, b, c) = tokio::join!(gather(0), gather(1), gather(2));
        for parts in [a, b, c] {
            assert_eq!(parts.unwrap(), ["c", "a", "b"]);
        }
        assert!(lock(&ends[0].hub.gathers).is_empty(), "nothing is kept of a complete operation");
    }

    #[tokio::test]
    async fn a_part_is_withdrawn_when_its_future_is_dropped() {
        let ends = MemoryExchange::cluster(["a", "b"]);
        let nodes = names(&["a", "b"]);
        {
            let mut first = std::pin::pin!(ends[0].all_gather("op", &nodes, "old".into()));
            assert!(futures::poll!(&mut first).is_pending());
        }
        assert!(lock(&ends[0].hub.gathers).is_empty());
        let (a, b) = tokio::join!(
            ends[0].all_gather("op", &nodes, "new".into()),
            ends[1].all_gather("op", &nodes, "b".into())
        );
        assert_eq!(a.unwrap(), ["new", "b"]);
        assert_eq!(b.unwrap(), ["new", "b"]);
    }

    #[tokio::test]
    async fn unknown_nodes_are_named() {
        let alone = MemoryExchange::single("a");
        let gathered = alone.all_gather("op", &names(&["a", "x"]), Bytes::new()).await;
        assert!(gathered.unwrap_err().to_string().contains("node x"));
        assert!(alone.fetch("y", Bytes::new()).await.unwrap_err().to_string().contains("node y"));
    }
}
