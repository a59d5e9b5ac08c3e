//! The daemons that the daemon of this node has started for its head, by ssh.

use std::ffi::OsStr;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use pmix_proto::nodes::{Frame, Heard, Start, frame::Content, heard::What};
use tokio::sync::mpsc;

use super::link::Link;
use super::lock;
use super::start::{self, Said, Starting};

/// Lines of daemons that wait to be sent to the head.
const MAX_LINES: usize = 256;

/// All clones are the same.
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
                for heard in messages(said) {
                    // a head that is gone ends the daemon
                    let _ = head.send(Frame { content: Some(Content::Heard(heard)) }).await;
                }
            }
        });
        Self { started: Arc::default(), said }
    }

    /// Starts the daemon of another node.
    pub(super) async fn start(&self, Start { node, daemon, line }: Start) {
        match start::by_ssh(node.clone(), OsStr::new(&daemon), line, self.said.clone()) {
            Ok(starting) => lock(&self.started).push((node, starting)),
            Err(how) => {
                let _ = self.said.send(Said::Ended { nodes: vec![node], how }).await;
            }
        }
    }

    /// Waits so long for the end of what has started daemons, and kills it then; for these nodes at once.
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

fn messages(said: Said) -> Vec<Heard> {
    let heard = |what: What| move |node| Heard { node, what: Some(what.clone()) };
    match said {
        Said::Line { node, line } => node.into_iter().map(heard(What::Line(line))).collect(),
        Said::Failed { nodes, how } | Said::Ended { nodes, how } => {
            nodes.into_iter().map(heard(What::Ended(how))).collect()
        }
    }
}
