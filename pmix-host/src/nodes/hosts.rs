//! The hosts of a head and of its members.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::{ProcId, Status};
use thiserror::Error;
use tokio::sync::mpsc;

use super::{Member, NodesLauncher, Relay};
use crate::allocations::NodeRequest;
use crate::internode::Site;
use crate::jobs::Cluster;
use crate::services::{Head, Services};
use crate::{Exchange, LaunchError, Launcher, StandardHost};

/// A node that a host does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no node {node}")]
#[non_exhaustive]
pub struct UnknownNode {
    /// Its name.
    pub node: String,
}

pmix_types::statuses! {
    UnknownNode, "`ERR_NOT_FOUND`", |_this| Status::ERR_NOT_FOUND;
}

impl StandardHost {
    /// The host for the server of the head of several nodes, each with a server in a process of its own. The others have
    /// hosts made by [`member`](Self::member), which must be ready.
    ///
    /// Jobs run on these members, which may include the head's own node; `launcher` starts the processes there. Orders to
    /// members and what they report go over the exchange, which reaches all of them. Tell this host of a member that is
    /// lost: [`node_lost`](Self::node_lost). Each node binds its own processes.
    pub fn head(
        launcher: impl Launcher,
        exchange: impl Exchange,
        members: impl IntoIterator<Item = Member>,
    ) -> Self {
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let launcher = NodesLauncher::new(Arc::new(launcher), site.clone(), members.into_iter().collect());
        let cluster = Arc::new(Cluster::new(Arc::new(launcher.clone())));
        site.lead();
        let mut services = Services::new(cluster.clone(), site.clone());
        services.head = Some(Head::new(launcher, cluster.clone(), site.clone()));
        let host = Self(Arc::new(services));
        host.0.head.iter().for_each(|head| site.others().into_iter().for_each(|name| head.know(name)));
        cluster.add_nodes([host.node()]);
        host
    }

    /// The host for the server of a node whose jobs the [`head`](Self::head) on another node starts.
    ///
    /// `launcher` starts the processes of this node. What its processes request about jobs is carried out by the head.
    pub fn member(launcher: impl Launcher, exchange: impl Exchange, head: impl Into<String>) -> Self {
        let cluster = Arc::new(Cluster::new(Arc::new(launcher)));
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let mut services = Services::new(cluster.clone(), site.clone());
        services.relay = Some(Relay::new(head.into(), site));
        let host = Self(Arc::new(services));
        cluster.add_nodes([host.node()]);
        host
    }

    /// Tells the head of a node that has come since it was made: jobs run there from now on. A node that comes back after its loss is
    /// such a node. Does nothing on other hosts.
    pub fn add_node(&self, member: Member) {
        if let Some(head) = &self.0.head {
            head.know(member.name.clone());
            head.launcher.add(member);
        }
    }

    /// Has a node of the head take no further jobs. The future ends when the last job that runs there has ended; nothing else depends on
    /// it.
    ///
    /// # Errors
    /// There is no such node.
    pub fn drain_node(&self, node: &str) -> Result<impl Future<Output = ()> + Send + use<>, UnknownNode> {
        let is_there = self.0.head.as_ref().is_some_and(|head| head.launcher.drain(node));
        if !is_there {
            return Err(UnknownNode { node: node.to_owned() });
        }
        let (table, node) = (self.0.table.clone(), node.to_owned());
        Ok(async move { table.until_free(&node).await })
    }

    /// Forgets a node of the head that has left, on which no job runs.
    pub fn remove_node(&self, node: &str) {
        if let Some(head) = &self.0.head {
            head.forget(node);
        }
    }

    /// What tools of the server's user request of nodes from now on. Until this is called, and after the receiver is dropped, such
    /// requests are refused.
    ///
    /// A tool requests them as an allocation without name: `EXTEND` with `ALLOC_NODE_LIST`, and the slots of each in
    /// `ALLOC_NUM_CPU_LIST`, to add nodes; `RELEASE` with `ALLOC_NODE_LIST` to have nodes leave.
    pub fn node_requests(&self) -> mpsc::Receiver<NodeRequest> {
        self.0.allocator.node_requests()
    }

    /// Tells the head that a member is lost, and why: all processes there count as killed. Does nothing on other hosts.
    pub fn node_lost(&self, node: &str, reason: &str) {
        if let Some(head) = &self.0.head {
            head.launcher.node_lost(node, reason);
        }
    }

    /// Writes to the standard input of processes of this host's jobs, on whichever nodes they are: see
    /// [`Launcher::push_stdin`].
    ///
    /// # Errors
    /// [`LaunchError`] for a process that takes no input.
    pub async fn give_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        self.0.launcher.push_stdin(procs, data, is_end).await
    }
}
