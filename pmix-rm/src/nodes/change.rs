//! Nodes that come to a session, and leave it, while jobs run.

use std::collections::{BTreeMap, BTreeSet};

use pmix_proto::nodes::{Leave, frame::Content};
use tokio::time::Instant;

use super::door::Arrival;
use super::hostlist::{Host, MAX_HOSTS};
use super::net::Loss;
use super::session::{Event, LastLines, Session};
use super::start::Said;
use super::succession::KeptNode;
use super::tree::Place;
use crate::ending::until;

/// What is under way.
#[derive(Default)]
pub(super) struct PendingChanges {
    /// Nodes whose daemons are on their way.
    coming: BTreeMap<String, Coming>,
    /// Nodes whose daemons were told to leave.
    leaving: BTreeSet<String>,
    /// What is said of those that are on their way.
    last: LastLines,
    /// The resource manager ends the job: see [`Event::Cancelled`].
    is_cancelled: bool,
}

struct Coming {
    place: Place,
    slots: u32,
    deadline: Instant,
}

impl Session {
    /// Starts the daemon of a further node, from here. What becomes of it is an event.
    ///
    /// # Errors
    /// It is there already, or nothing can be started.
    pub(crate) fn add(&mut self, Host { name, slots, .. }: Host) -> Result<(), String> {
        if self.net.place(&name) == Some(self.net.me()) {
            return Err(format!(
                "node {name} is that of the head: to have jobs there, name it in --host when the head is started"
            ));
        }
        let is_coming = self.changes.coming.contains_key(&name);
        if is_coming || self.members.iter().any(|member| member.name == name) {
            return Err(format!("node {name} belongs to the DVM already"));
        }
        if self.members.len() + self.changes.coming.len() >= MAX_HOSTS {
            return Err(format!("node {name}: a DVM has at most {MAX_HOSTS} nodes"));
        }
        // what has started an earlier daemon may end any time
        self.starters.retain(|(nodes, _)| *nodes != [name.as_str()]);
        let place = self.net.add(&name);
        let nodes = vec![name.clone()];
        let how = &self.start.how;
        let started = self
            .start
            .of(&nodes, &self.net)
            .and_then(|line| how.agent.start(nodes.clone(), line, how.within, self.said.0.clone()));
        let starting = started.inspect_err(|_| self.net.dismiss(place))?;
        let deadline = Instant::now() + how.within;
        self.lost.remove(&name);
        self.changes.leaving.remove(&name);
        self.changes.last.forget(&name);
        self.starters.push((nodes, starting));
        self.changes.coming.insert(name, Coming { place, slots, deadline });
        Ok(())
    }

    /// What somebody else has to do for the daemon of a node that is on its way.
    pub(crate) fn to_do_for(&self, node: &String) -> Option<String> {
        self.start.how.agent.to_do(std::iter::once(node))
    }

    /// Has the daemon of a node leave, where no process runs any more. That it has left is an event. Does nothing if the node is lost.
    pub(crate) fn dismiss(&mut self, node: &str) {
        let is_there = self.members.iter().any(|member| member.name == node);
        let Some(place) = self.net.place(node).filter(|_| is_there) else { return };
        self.changes.leaving.insert(node.to_owned());
        let leave = Leave { reason: "the node leaves the DVM".to_owned(), lost: Vec::new() };
        self.net.begin_to_tell(vec![place], &Content::Leave(leave));
    }

    /// The next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let deadline = self.changes.coming.values().map(|coming| coming.deadline).min();
            tokio::select! {
                biased;
                Some(said) = self.said.1.recv() => {
                    if let Some(event) = self.hear(said) {
                        return event;
                    }
                }
                Some(arrival) = self.arrivals.recv() => {
                    if let Some(event) = self.take(arrival) {
                        return event;
                    }
                }
                Some(Loss { node, reason }) = self.losses.recv() => {
                    self.lost.insert(node.clone());
                    self.members.retain(|member| member.name != node);
                    if self.changes.leaving.remove(&node) {
                        self.starters.retain(|(nodes, _)| *nodes != [node.as_str()]);
                        self.note_left(&node);
                        let _ = self.net.place(&node).inspect(|place| self.net.has_left(*place));
                        return Event::Left(node);
                    }
                    if let Some(event) = self.not_added(&node, &reason) {
                        return event;
                    }
                    self.lost_for_good(&node, &reason);
                    return Event::Lost { node, reason };
                }
                () = until(deadline) => {
                    let late = |coming: &Coming| Some(coming.deadline) == deadline;
                    let late = self.changes.coming.iter().find(|(_, coming)| late(coming));
                    let what = format!("its daemon was not ready within {} s", self.start.how.within.as_secs_f64());
                    if let Some(node) = late.map(|(node, _)| node.clone())
                        && let Some(event) = self.not_added(&node, &what)
                    {
                        return event;
                    }
                }
            }
        }
    }

    /// Whether [`Event::Cancelled`] has come: then the loss of nodes is no news.
    pub(crate) const fn is_cancelled(&self) -> bool {
        self.changes.is_cancelled
    }

    fn hear(&mut self, said: Said) -> Option<Event> {
        match said {
            // the consequences
            Said::Line { .. } | Said::Cancelled(_) if self.is_cancelled() => None,
            Said::Line { node, line } => {
                if node.as_ref().is_some_and(|node| self.changes.coming.contains_key(node)) {
                    self.changes.last.keep(node.clone(), line.clone());
                }
                Some(Event::Line { node, line })
            }
            Said::Cancelled(why) => {
                self.changes.is_cancelled = true;
                Some(Event::Cancelled(why))
            }
            Said::Ended { nodes, how, of } => {
                tracing::debug!(?nodes, how, "a starter has ended");
                // the connection of one that was ready tells more, and the end of an earlier starter tells nothing
                let is_its_own = |node: &&String| {
                    let own = self.starters.iter().rev().find(|(nodes, _)| nodes.contains(*node));
                    own.is_some_and(|(_, starting)| starting.is(of.as_ref()))
                };
                self.not_added(nodes.iter().find(is_its_own)?, &how)
            }
            Said::Failed { nodes, how } => {
                // the connection of one that was ready tells more
                tracing::debug!(?nodes, how, "a starter says that daemons have ended");
                nodes.iter().find_map(|node| self.not_added(node, &how))
            }
        }
    }

    fn take(&mut self, arrival: Arrival) -> Option<Event> {
        match arrival {
            Arrival::Ready { node, machine, contact } => {
                let Coming { slots, place, .. } = self.changes.coming.remove(&node)?;
                let member = Host { name: node, slots, is_counted: true }.member(machine);
                self.note(KeptNode::new(place, &member, contact));
                self.members.push(member.clone());
                Some(Event::Added(member))
            }
            Arrival::Refused { node, reason } => self.not_added(&node, &reason),
        }
    }

    /// A node does not come, if it was on its way.
    fn not_added(&mut self, node: &str, what: &str) -> Option<Event> {
        let Coming { place, .. } = self.changes.coming.remove(node)?;
        self.net.dismiss(place);
        self.lost.insert(node.to_owned());
        let reason = self.changes.last.with(&[node.to_owned()], what);
        // ends what was to start it
        self.starters.retain(|(nodes, _)| *nodes != [node]);
        Some(Event::NotAdded { node: node.to_owned(), reason })
    }
}
