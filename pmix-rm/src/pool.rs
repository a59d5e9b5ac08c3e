//! The nodes of a DVM, which may come, leave and be lost.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use pmix_host::{NodeChange, NodeRequest, StandardHost};
use pmix_topology::ThisHost;

use crate::console::Console;
use crate::dvm::Dvm;
use crate::nodes::{Event, HostList, KeptNode, Session};

/// The nodes of a DVM, and what tools have requested of them.
pub(crate) struct Pool<'a> {
    host: StandardHost,
    /// The node of the head, which does not leave.
    own: String,
    /// `None` where all nodes are here.
    session: Option<&'a mut Session>,
    /// Requests for nodes that are on their way.
    awaited: Vec<Awaited>,
    /// Nodes that leave when their jobs have ended: those on which the last one has.
    draining: FuturesUnordered<BoxFuture<'static, String>>,
    /// All nodes that are to leave.
    leaving: BTreeSet<String>,
    /// Nodes that are lost.
    lost: BTreeSet<String>,
    /// Nodes of which a successor has to know something else now.
    changed: Vec<String>,
}

/// What happens to nodes.
pub(crate) enum Change {
    Event(Event),
    /// The last job on a node that is to leave has ended.
    Free(String),
}

/// A request that is answered when its nodes have come, or cannot.
struct Awaited {
    request: NodeRequest,
    nodes: BTreeSet<String>,
    problems: Vec<String>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(dvm: &'a mut Dvm) -> Self {
        let mut pool = Self {
            host: dvm.host.clone(),
            own: dvm.node.clone(),
            session: dvm.session.as_mut(),
            awaited: Vec::new(),
            draining: FuturesUnordered::new(),
            leaving: BTreeSet::new(),
            lost: BTreeSet::new(),
            changed: Vec::new(),
        };
        // what the head before was about
        let (draining, lost) =
            pool.session.as_ref().map(|session| session.not_as_others()).unwrap_or_default();
        pool.lost.extend(lost);
        if let Err(why) = pool.drain(&draining) {
            tracing::warn!("a node that was to leave stays: {why}");
        }
        pool
    }

    /// Nodes that tools have changed since this was asked last.
    pub(crate) fn take_changed(&mut self) -> Vec<KeptNode> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|node| self.session.as_ref()?.node_to_keep(node)).collect()
    }

    /// Begins what a tool wants.
    pub(crate) fn take(&mut self, request: NodeRequest, console: &mut Console) {
        if self.session.is_none() {
            let why = "this DVM has one node: start it with pmixd --head --host to have several".to_owned();
            return request.answer(Err(why));
        }
        match request.wanted() {
            // the same names as on the command line
            NodeChange::Add(hosts) => {
                match HostList::of(hosts.iter().map(|(name, slots)| (self.by_name(name), *slots))) {
                    Ok(hosts) => self.add(&hosts, request, console),
                    Err(why) => request.answer(Err(why)),
                }
            }
            NodeChange::Leave(nodes) => {
                let nodes: Vec<_> = nodes.iter().map(|name| self.by_name(name)).collect();
                request.answer(self.drain(&nodes));
            }
            _ => request.answer(Err("this head cannot do that".to_owned())),
        }
    }

    /// What a host is called here that may be named as this one.
    fn by_name(&self, name: &str) -> String {
        let this = ThisHost::called(self.own.clone());
        if this.is_by_itself(name) { self.own.clone() } else { name.to_owned() }
    }

    fn add(&mut self, hosts: &HostList, request: NodeRequest, console: &mut Console) {
        let mut awaited = Awaited { request, nodes: BTreeSet::new(), problems: Vec::new() };
        for host in hosts.hosts() {
            let Some(session) = &mut self.session else { return };
            match session.add(host.clone()) {
                Ok(()) => {
                    session.to_do_for(&host.name).iter().for_each(|what| console.say(what));
                    awaited.nodes.insert(host.name.clone());
                }
                Err(why) => awaited.problems.push(why),
            }
        }
        self.awaited.push(awaited);
        self.answer();
    }

    /// Has nodes leave, or none of them. Those that are lost are forgotten.
    fn drain(&mut self, nodes: &[String]) -> Result<(), String> {
        let known = self.session.as_ref().map(|session| session.members()).unwrap_or_default();
        for node in nodes {
            if *node == self.own {
                return Err(format!("node {node} is that of the head, which does not leave"));
            }
            if !known.iter().any(|member| member.name == *node) && !self.lost.contains(node) {
                return Err(format!("there is no node {node} in this DVM"));
            }
        }
        for node in nodes {
            self.changed.push(node.clone());
            if self.lost.remove(node) {
                self.host.remove_node(node);
                self.session.iter_mut().for_each(|session| session.note_left(node));
                continue;
            }
            self.session.iter_mut().for_each(|session| session.note_draining(node));
            if !self.leaving.insert(node.clone()) {
                continue;
            }
            let (is_free, node) =
                (self.host.drain_node(node).map_err(|error| error.to_string())?, node.clone());
            self.draining.push(Box::pin(async move {
                is_free.await;
                node
            }));
        }
        Ok(())
    }

    /// The next that happens to nodes. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Change {
        let Some(session) = &mut self.session else { return std::future::pending().await };
        tokio::select! {
            event = session.next() => Change::Event(event),
            Some(node) = self.draining.next() => Change::Free(node),
        }
    }

    /// It is confirmed that a node is lost: the others are told.
    pub(crate) fn declare_lost(&self, node: &str, reason: &str) {
        if let Some(session) = &self.session {
            session.declare_lost(node, reason);
        }
    }

    /// The node of which something has become known that a successor of this head has to know.
    pub(crate) fn to_keep(&self, change: &Change) -> Option<KeptNode> {
        let Change::Event(event) = change else { return None };
        let node = match event {
            Event::Lost { node, .. } | Event::Left(node) => node,
            Event::Added(member) => &member.name,
            Event::Line { .. } | Event::NotAdded { .. } | Event::Cancelled(_) => return None,
        };
        self.session.as_ref()?.node_to_keep(node)
    }

    /// Acts on it.
    pub(crate) fn act(&mut self, change: Change, console: &mut Console) {
        let event = match (change, &mut self.session) {
            (Change::Event(event), _) => event,
            (Change::Free(node), session) => {
                // not one that was lost, and has come back
                if self.leaving.remove(&node)
                    && let Some(session) = session
                {
                    session.dismiss(&node);
                }
                return;
            }
        };
        match event {
            Event::Line { node: Some(node), line } => console.say(format_args!("node {node}: {line}")),
            Event::Line { node: None, line } => console.say(line),
            Event::Cancelled(why) => console.say(why),
            Event::Lost { node, reason } => {
                if !self.session.as_ref().is_some_and(|session| session.is_cancelled()) {
                    console.tell(format_args!("node {node} is lost: {reason}"));
                }
                self.host.node_lost(&node, &reason);
                self.leaving.remove(&node);
                self.lost.insert(node);
            }
            Event::Added(member) => {
                console.tell(format_args!("node {} takes jobs", member.name));
                let node = member.name.clone();
                self.lost.remove(&node);
                self.host.add_node(member);
                self.has_come(&node, None);
            }
            Event::NotAdded { node, reason } => {
                console.tell(&reason);
                self.has_come(&node, Some(reason));
            }
            Event::Left(node) => {
                console.tell(format_args!("node {node} has left"));
                self.host.remove_node(&node);
            }
        }
    }

    /// A node has come, or cannot.
    fn has_come(&mut self, node: &str, problem: Option<String>) {
        for awaited in &mut self.awaited {
            if awaited.nodes.remove(node) {
                awaited.problems.extend(problem.clone());
            }
        }
        self.answer();
    }

    /// Answers requests for which there is nothing left to wait.
    fn answer(&mut self) {
        for Awaited { request, problems, .. } in
            self.awaited.extract_if(.., |awaited| awaited.nodes.is_empty())
        {
            request.answer(if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) });
        }
    }
}
