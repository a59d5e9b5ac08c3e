//! An exchange between servers of one process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::{Exchange, ExchangeError, Responder};

/// Moves bytes between servers that live in one process: one node, several simulated ones, tests.
///
/// # Examples
/// ```
/// use pmix_host::{Exchange, MemoryExchange};
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

/// One all-gather, from its first node to its last: kept until every node has come and gone, so that one that
/// comes late hears how it ended.
struct Gather {
    parts: BTreeMap<String, Bytes>,
    /// Notifies all nodes of its outcome.
    outcome: watch::Sender<Option<Outcome>>,
    /// Nodes that have taken the outcome or have given the operation up.
    gone: BTreeSet<String>,
}

/// All parts, or the node that gave the operation up.
type Outcome = Result<Arc<Vec<Bytes>>, String>;

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
        let mut outcome = {
            let mut gathers = lock(&self.hub.gathers);
            let gather = gathers.entry(operation.to_owned()).or_insert_with(|| Gather {
                parts: BTreeMap::new(),
                outcome: watch::Sender::new(None),
                gone: BTreeSet::new(),
            });
            gather.parts.insert(self.node.clone(), data);
            if gather.outcome.borrow().is_none() && nodes.iter().all(|node| gather.parts.contains_key(node)) {
                let parts = nodes.iter().filter_map(|node| gather.parts.get(node).cloned()).collect();
                gather.outcome.send_replace(Some(Ok(Arc::new(parts))));
            }
            gather.outcome.subscribe()
        };
        let departure = Departure { exchange: self, operation, nodes: nodes.len() };
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        drop(departure);
        match ended {
            Some(Ok(parts)) => Ok(parts.to_vec()),
            Some(Err(node)) => Err(ExchangeError::Abandoned { node }),
            None => Err(ExchangeError::Other(format!("{operation} was forgotten"))),
        }
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

/// Leaves an all-gather: with its outcome, or by giving it up for all when the future is dropped.
struct Departure<'a> {
    exchange: &'a MemoryExchange,
    operation: &'a str,
    /// How many take part.
    nodes: usize,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        let mut gathers = lock(&self.exchange.hub.gathers);
        let Some(gather) = gathers.get_mut(self.operation) else { return };
        gather.outcome.send_if_modified(|outcome| {
            let given_up = outcome.is_none();
            outcome.get_or_insert_with(|| Err(self.exchange.node.clone()));
            given_up
        });
        gather.gone.insert(self.exchange.node.clone());
        if gather.gone.len() >= self.nodes {
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
    async fn who_drops_its_future_ends_the_operation_for_those_who_wait_and_those_who_come_late() {
        let ends = MemoryExchange::cluster(["a", "b", "c"]);
        let nodes = names(&["a", "b", "c"]);
        let mut waiting = std::pin::pin!(ends[1].all_gather("op", &nodes, "b".into()));
        assert!(futures::poll!(&mut waiting).is_pending());
        {
            let mut first = std::pin::pin!(ends[0].all_gather("op", &nodes, "a".into()));
            assert!(futures::poll!(&mut first).is_pending());
        }
        let late = ends[2].all_gather("op", &nodes, "c".into());
        for gathered in [waiting.await, late.await] {
            assert!(matches!(gathered, Err(ExchangeError::Abandoned { node }) if node == "a"));
        }
        assert!(lock(&ends[0].hub.gathers).is_empty(), "nothing is kept when all have come");
    }

    #[tokio::test]
    async fn unknown_nodes_are_named() {
        let alone = MemoryExchange::single("a");
        let gathered = alone.all_gather("op", &names(&["a", "x"]), Bytes::new()).await;
        assert!(gathered.unwrap_err().to_string().contains("node x"));
        assert!(alone.fetch("y", Bytes::new()).await.unwrap_err().to_string().contains("node y"));
    }
}
