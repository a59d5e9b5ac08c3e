//! Daemons that the daemon of a node starts for its head, by ssh: there (`Branch`), and what the head hears of them (`Branches`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use pmix_proto::nodes::{Frame, Heard, Start, frame::Content, heard::What};
use tokio::sync::mpsc;

use super::link::Link;
use super::lock;
use super::start::{self, MAX_SAID, Said, Starting};
use super::tree::Place;

/// Lines of daemons that wait to be sent to the head, and those that wait there to be shown.
pub(super) const MAX_LINES: usize = 256;

/// What the head hears of daemons that others start.
#[derive(Debug)]
pub(super) struct Branches {
    /// Who starts the daemon of a node.
    by: Mutex<HashMap<String, Place>>,
    said: mpsc::Sender<Said>,
    has_dropped: AtomicBool,
}

impl Branches {
    /// What is said of them is told.
    pub(super) fn new(said: mpsc::Sender<Said>) -> Self {
        Self { by: Mutex::default(), said, has_dropped: AtomicBool::new(false) }
    }

    /// This one has been asked to start the daemon of a node.
    pub(super) fn begin(&self, by: Place, node: &str) {
        lock(&self.by).insert(node.to_owned(), by);
    }

    /// A daemon, called so, says something of one that it has started. Its connection does not wait for the reader.
    pub(super) fn hear(&self, by: Place, name: &str, Heard { node, what }: Heard) {
        let Some(what) = what.filter(|_| lock(&self.by).get(&node) == Some(&by)) else {
            tracing::warn!(node = name, "a node has reported on a daemon that it did not start");
            return;
        };
        let short = |text: String| text.chars().take(MAX_SAID).collect::<String>();
        let said = match what {
            // the rest of the room is for ends
            What::Line(_) if self.said.capacity() <= MAX_LINES / 2 => {
                if !self.has_dropped.swap(true, Ordering::Relaxed) {
                    tracing::warn!("daemons write too much to standard error: some lines are not shown");
                }
                return;
            }
            What::Line(line) => Said::Line { node: Some(node), line: short(line) },
            What::Ended(how) => {
                let how = format!("{}, on {name} (--no-tree-spawn starts all daemons from here)", short(how));
                Said::Ended { nodes: vec![node], how, of: None }
            }
        };
        // with so many ends before this one, one more tells nothing
        let _ = self.said.try_send(said);
    }
}

/// The daemons that are started from here. All clones are the same.
#[derive(Clone)]
pub(super) struct Branch {
    /// By the nodes of the daemons.
    started: Arc<Mutex<Vec<(String, Starting)>>>,
    said: mpsc::Sender<Said>,
}

impl Branch {
    /// None yet. The head is told what they say, and how they end.
    pub(super) fn new(head: Link) -> Self {
        let (said, mut heard) = mpsc::channel(MAX_LINES);
        tokio::spawn(async move {
            while let Some(said) = heard.recv().await {
                let Some(heard) = message(said) else { continue };
                // a head that is gone ends the daemon
                let _ = head.send(Frame { content: Some(Content::Heard(heard)) }).await;
            }
        });
        Self { started: Arc::default(), said }
    }

    /// Starts the daemon of another node.
    pub(super) async fn start(&self, Start { node, daemon, line }: Start) {
        match start::by_ssh(node.clone(), OsStr::new(&daemon), line, self.said.clone()) {
            Ok(starting) => lock(&self.started).push((node, starting)),
            Err(how) => {
                let _ = self.said.send(Said::Ended { nodes: vec![node], how, of: None }).await;
            }
        }
    }

    /// Waits this long for the end of what has started daemons, and ends it then; that of these nodes at once.
    pub(super) async fn end(&self, lost: &[String], within: Duration) {
        let started = std::mem::take(&mut *lock(&self.started));
        let ended = started.into_iter().map(|(node, starting)| {
            let within = if lost.contains(&node) { Duration::ZERO } else { within };
            starting.finish(async move {
                let _ = tokio::time::timeout(within, pending::<()>()).await;
            })
        });
        join_all(ended).await;
    }
}

/// What is said of the one daemon that an ssh starts.
fn message(said: Said) -> Option<Heard> {
    let (node, what) = match said {
        Said::Line { node, line } => (node?, What::Line(line)),
        // one ssh is not all of them
        Said::Cancelled(_) => return None,
        Said::Failed { nodes, how } | Said::Ended { nodes, how, .. } => {
            (nodes.into_iter().next()?, What::Ended(how))
        }
    };
    Some(Heard { node, what: Some(what) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_speaks_for_those_that_it_has_started_and_a_flood_of_lines_hides_no_end() {
        let (said, mut heard) = mpsc::channel(MAX_LINES);
        let branches = Branches::new(said);
        branches.begin(1, "c");
        let hear =
            |by, node: &str, what| branches.hear(by, "a", Heard { node: node.into(), what: Some(what) });
        for (by, node) in [(2, "c"), (1, "b"), (1, "a")] {
            hear(by, node, What::Ended("no".into()));
        }
        branches.hear(1, "a", Heard { node: "c".into(), what: None });
        assert!(heard.try_recv().is_err());
        for _ in 0..2 * MAX_LINES {
            hear(1, "c", What::Line("x".repeat(2 * MAX_SAID)));
        }
        hear(1, "c", What::Ended("ssh ended".into()));
        let line = Said::Line { node: Some("c".into()), line: "x".repeat(MAX_SAID) };
        for _ in 0..MAX_LINES / 2 {
            assert_eq!(heard.try_recv().unwrap(), line);
        }
        let how = "ssh ended, on a (--no-tree-spawn starts all daemons from here)".to_owned();
        assert_eq!(heard.try_recv().unwrap(), Said::Ended { nodes: vec!["c".into()], how, of: None });
    }
}
