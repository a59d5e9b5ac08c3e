//! How a daemon waits for the successor of its head, and what the head keeps so that there can be one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::tree::Place;

/// The name of the node of a head that may have a successor, wherever they are. No process runs there.
pub(crate) const HEAD_NODE: &str = "head.of.dvm";

/// Whether a daemon can ask its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadState {
    There,
    /// It is lost, and its successor is not there, or not ready.
    Awaited,
    /// There will be none.
    Gone,
}

/// The head of a daemon, of which there may be one after the other.
#[derive(Debug)]
pub(super) struct Succession(watch::Sender<HeadState>);

impl Default for Succession {
    fn default() -> Self {
        Self(watch::Sender::new(HeadState::There))
    }
}

impl Succession {
    /// The head is lost.
    pub(super) fn lose(&self) {
        self.0.send_if_modified(|head| {
            let was_there = *head == HeadState::There;
            if was_there {
                *head = HeadState::Awaited;
            }
            was_there
        });
    }

    /// Its successor takes requests.
    pub(super) fn resume(&self) {
        self.0.send_replace(HeadState::There);
    }

    /// No successor is awaited any more.
    pub(super) fn give_up(&self) {
        self.0.send_replace(HeadState::Gone);
    }

    /// Waits until the head takes requests; false if none will. Cancel-safe.
    pub(super) async fn wait(&self) -> bool {
        let mut head = self.0.subscribe();
        let head = head.wait_for(|head| *head != HeadState::Awaited).await;
        head.is_ok_and(|head| *head == HeadState::There)
    }
}

/// What a session has beside its nodes: who has it can be its head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptSession {
    /// Key and certificate of the authority, in base64 of DER.
    pub(super) key: String,
    pub(super) authority: String,
    /// Children of a node in the tree of an operation, which all nodes must have alike.
    pub(super) tree_degree: usize,
}

/// A node, as a successor has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptNode {
    /// No other node of the session has had it.
    pub(crate) place: Place,
    pub(crate) name: String,
    /// `None` for any number.
    pub(super) slots: Option<u32>,
    pub(super) machine: String,
    pub(super) processors: u32,
    pub(super) contact: Contact,
    pub(super) is: NodeIs,
}

/// How a daemon is known and reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(super) incarnation: u64,
    /// In base64 of DER.
    pub(super) certificate: String,
    pub(super) addresses: Vec<String>,
    /// The address of its server.
    #[serde(default)]
    pub(super) uri: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NodeIs {
    There,
    /// It takes no further jobs, and leaves when the last one has ended.
    Draining,
    Lost(String),
    Left,
}

pub(super) fn base64_of(der: &[u8]) -> String {
    STANDARD.encode(der)
}

pub(super) fn of_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_a_successor_until_it_is_ready_or_given_up() {
        let succession = std::sync::Arc::new(Succession::default());
        assert!(succession.wait().await);
        succession.lose();
        let waiting = tokio::spawn({
            let succession = succession.clone();
            async move { succession.wait().await }
        });
        // all else has happened by then
        let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
        assert!(!waiting.is_finished());
        succession.resume();
        assert!(waiting.await.unwrap());
        succession.lose();
        succession.give_up();
        assert!(!succession.wait().await);
        // the end of a connection that is known to be gone is no news
        succession.lose();
        assert!(!succession.wait().await);
    }
}
